"""Tests the files of an ingest in its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.pipeline.decoding.spec import DecodingSpec
from barnabas.pipeline.ingest.files import LocalFiles
from barnabas.pipeline.ingest.ledger import KEPT_BATCHES, IngestConflictError, Ledger, Rules

RULES = Rules(
    DecodingSpec("avro", ("x", "y"), registry_framing=True, writers={3: ("z",)}),
    (7,),
    {"t/0": 1},
    {"t/0": 2},
    late_after_s=60.0,
    future_after_s=5.0,
)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """The ledger of a new checkpoint."""
    return Ledger(LocalFiles(), str(tmp_path))


def test_rules_go_through_json() -> None:
    for rules in (RULES, Rules()):
        assert Rules.from_json(rules.to_json().encode()) == rules


def test_an_ingest_is_known_by_its_checkpoint(ledger: Ledger) -> None:
    first = ledger.identity({"table": "/t"})
    assert ledger.identity({"table": "/t"}) == first
    with pytest.raises(IngestConflictError, match="with the table '/t', not '/u'"):
        ledger.identity({"table": "/u"})


def test_rules_are_written_once(ledger: Ledger) -> None:
    assert ledger.rules(0) is None
    assert ledger.latest() is None
    ledger.write(0, Rules())
    ledger.write(1, RULES)
    assert (ledger.rules(0), ledger.rules(1), ledger.latest()) == (Rules(), RULES, RULES)
    with pytest.raises(
        IngestConflictError, match="another ingest is at work with this checkpoint, on batch 1"
    ):
        ledger.write(1, Rules())


def test_old_rules_are_removed(ledger: Ledger) -> None:
    for batch_id in range(KEPT_BATCHES + 2):
        ledger.write(batch_id, Rules())
    assert [ledger.rules(batch_id) is None for batch_id in (0, 1, 2)] == [True, True, False]


def test_what_spark_has_planned_is_in_its_offset_log(ledger: Ledger, tmp_path: Path) -> None:
    assert ledger.planned(3) is None
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "3").write_text('v1\n{"batchTimestampMs":1}\n{"orders":{"0":17}}')
    assert ledger.planned(3) == '{"orders":{"0":17}}'

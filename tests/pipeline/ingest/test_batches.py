"""Tests the steps of a batch and their order, with tables that only record the calls."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from barnabas.pipeline.ingest import rows
from barnabas.pipeline.ingest.batches import Batches, Counts
from barnabas.pipeline.ingest.files import LocalFiles
from barnabas.pipeline.ingest.ledger import Ledger, Rules
from barnabas.pipeline.ingest.options import IngestOptions

OPTIONS = IngestOptions("h:9092", "/t", "/c", ("a",))
NOTHING = Counts(Counter(), (), {})


class Notes:
    """A table that has these batches."""

    def __init__(self, *has: int) -> None:
        self.said: list[str] = []
        self._has = has

    def has(self, batch_id: int) -> bool:
        self.said.append(f"has {batch_id}")
        return batch_id in self._has

    def append(self, batch: Any, batch_id: int) -> None:
        self.said.append(f"append {batch_id}")


class Frame:
    """A data frame that Spark caches."""

    def unpersist(self) -> None:
        """Releases the cached data."""


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The ledger of a new checkpoint; rows are not read."""
    for name in ("decoded", "table_rows", "quarantine_rows"):
        monkeypatch.setattr(rows, name, lambda *_: Frame())
    return Ledger(LocalFiles(), str(tmp_path))


def test_without_rules_a_batch_goes_straight_into_the_table(ledger: Ledger) -> None:
    table, quarantine = Notes(), Notes()
    Batches(OPTIONS, ledger, table, quarantine)(Frame(), 3)
    assert table.said == ["has 3", "append 3"]
    assert "append 3" not in quarantine.said


def test_a_batch_that_the_table_has_is_not_read(ledger: Ledger) -> None:
    table, quarantine = Notes(3), Notes()
    Batches(OPTIONS, ledger, table, quarantine)(None, 3)
    assert (table.said, quarantine.said) == (["has 3"], [])


@pytest.mark.parametrize("found", [NOTHING, NOTHING._replace(quarantined=Counter(late=2))])
def test_a_quarantine_that_has_the_batch_completes_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, found: Counts
) -> None:
    """Also when the topic no longer has the records: the files exist and are not yet in place."""
    ledger.write(3, Rules())
    table, quarantine = Notes(), Notes(3)
    batches = Batches(OPTIONS, ledger, table, quarantine)
    monkeypatch.setattr(batches, "_sorted_out", lambda *_: (Frame(), found))
    batches(Frame(), 3)
    assert quarantine.said == ["has 3"]
    assert table.said == ["has 3", "append 3"]


def test_written_rules_apply_to_a_run_without_rules(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ingest without --late-after continues a batch that was begun with it."""
    ledger.write(3, Rules(late_after_s=60.0))
    batches = Batches(OPTIONS, ledger, Notes(), Notes())
    followed: list[Rules | None] = []

    def told_apart(_: Any, __: int, written: Rules | None) -> tuple[Frame, Counts]:
        followed.append(written)
        return Frame(), NOTHING

    monkeypatch.setattr(batches, "_sorted_out", told_apart)
    batches(Frame(), 3)
    assert followed == [Rules(late_after_s=60.0)]


def test_new_rules_continue_from_the_newest(ledger: Ledger) -> None:
    ledger.write(3, Rules(times_after={"a/0": 5}))
    found = Batches(
        OPTIONS, ledger, Notes(), Notes()
    )._new_rules()  # of batch 9: the ones between have no rules
    assert found.times_before == {"a/0": 5}

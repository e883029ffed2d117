"""What is done with a batch, and in which order: with tables that only note what they are asked."""

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
    """What Spark keeps."""

    def unpersist(self) -> None:
        """It need not any more."""


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """Of a new checkpoint; rows are not looked at."""
    for name in ("decoded", "table_rows", "quarantine_rows"):
        monkeypatch.setattr(rows, name, lambda *_: Frame())
    return Ledger(LocalFiles(), str(tmp_path))


def test_without_rules_a_batch_goes_straight_into_the_table(ledger: Ledger) -> None:
    table, quarantine = Notes(), Notes()
    Batches(OPTIONS, ledger, table, quarantine)(Frame(), 3)
    assert table.said == ["has 3", "append 3"]
    assert "append 3" not in quarantine.said


def test_a_batch_that_the_table_has_is_not_looked_at(ledger: Ledger) -> None:
    table, quarantine = Notes(3), Notes()
    Batches(OPTIONS, ledger, table, quarantine)(None, 3)
    assert (table.said, quarantine.said) == (["has 3"], [])


@pytest.mark.parametrize("found", [NOTHING, NOTHING._replace(quarantined=Counter(late=2))])
def test_a_quarantine_that_has_the_batch_completes_it(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, found: Counts
) -> None:
    """Even where the topic has none of these records any more: the files are there, and not in their place yet."""
    ledger.write(3, Rules())
    table, quarantine = Notes(), Notes(3)
    batches = Batches(OPTIONS, ledger, table, quarantine)
    monkeypatch.setattr(batches, "_sorted_out", lambda *_: (Frame(), found))
    batches(Frame(), 3)
    assert quarantine.said == ["has 3"]
    assert table.said == ["has 3", "append 3"]


def test_rules_that_were_written_down_hold_for_whoever_has_none(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ingest without --late-after goes on with a batch that was begun with it."""
    ledger.write(3, Rules(late_after_s=60.0))
    batches = Batches(OPTIONS, ledger, Notes(), Notes())
    followed: list[Rules | None] = []

    def told_apart(_: Any, __: int, written: Rules | None) -> tuple[Frame, Counts]:
        followed.append(written)
        return Frame(), NOTHING

    monkeypatch.setattr(batches, "_sorted_out", told_apart)
    batches(Frame(), 3)
    assert followed == [Rules(late_after_s=60.0)]


def test_new_rules_go_on_from_the_newest(ledger: Ledger) -> None:
    ledger.write(3, Rules(times_after={"a/0": 5}))
    found = Batches(
        OPTIONS, ledger, Notes(), Notes()
    )._new_rules()  # of batch 9: those between were not told apart
    assert found.times_before == {"a/0": 5}

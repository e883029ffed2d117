"""Compares a reader that knows only the directory with a model of the log, as in tests/storage/test_log_model.py.

After any sequence of what a broker does (appends of all kinds, rolls, retention, compaction, truncation, crashes) the
rows are those of the model, however they are cut into ranges; and rows pruned by time could not have matched.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import pytest

from barnabas.pipeline.log_reading.log_view import Isolation
from barnabas.pipeline.log_reading.planning import MIN_TIMESTAMP, TimeBounds, first_offset_of
from barnabas.protocol.records.entries import batches
from tests.pipeline.log_reading.reading import look, ms_of, read
from tests.storage.log_harness import LogHarness
from tests.storage.log_model import ModelRecord
from tests.storage.test_log_model import WEIGHTS
from tests.support.chance import seeds

SEEDS = seeds(6, fixed=1)
STEPS = int(os.environ.get("BARNABAS_READING_STEPS", "120"))


def check(harness: LogHarness, rng: Random, seen: Counter[str]) -> None:
    for isolation in Isolation:
        view = look(harness.env, "/logs", isolation)
        assert view.log_end_offset == harness.model.end
        assert view.log_start_offset <= harness.model.start
        if isolation is Isolation.READ_UNCOMMITTED:
            assert view.end_offset == view.log_end_offset
        first = rng.choice(
            (harness.model.start, rng.randint(harness.model.start, max(view.end_offset, harness.model.start)))
        )
        if first > view.end_offset:
            continue
        wanted = harness.model.data(
            first, view.end_offset, committed_only=isolation is Isolation.READ_COMMITTED
        )
        size = rng.choice((1, 200, 1000, 1 << 30))
        found = read(harness.env, view, first, range_bytes=size)
        assert [row["offset"] for row in found] == sorted(wanted)
        for row in found:
            record = wanted[row["offset"]]
            assert (row["key"], row["value"], ms_of(row)) == (record.key, record.value, record.timestamp)
            assert (row["topic"], row["partition"]) == ("t", 0)
        seen["rows"] += len(found)
        seen["aborted"] += bool(view.aborted)
        seen["unstable"] += view.end_offset < view.log_end_offset
        check_end(harness, rng, view.end_offset, first)
        check_times(harness, rng, list(wanted.values()), first, isolation)


def check_end(harness: LogHarness, rng: Random, end: int, first: int) -> None:
    """Tests an end in the middle of a batch."""
    view = look(harness.env, "/logs")
    middle = rng.randint(first, end)
    found = [row["offset"] for row in read(harness.env, view, first, middle, range_bytes=300)]
    assert found == [
        offset for offset in sorted(harness.model.data(first, view.end_offset)) if offset < middle
    ]


def disorder_of(harness: LogHarness) -> int:
    """The most by which a record on disk, deleted ones and markers included, is older than the youngest before it."""
    disorder, youngest = 0, MIN_TIMESTAMP
    for segment in harness.log.segments:
        for batch in batches(segment.file.pread(segment.size, 0)):
            for record in batch.records():
                disorder = max(disorder, youngest - record.timestamp)
                youngest = max(youngest, record.timestamp)
            youngest = max(youngest, batch.max_timestamp)  # also where compaction kept no record
    return disorder


def check_times(
    harness: LogHarness, rng: Random, records: list[ModelRecord], first: int, isolation: Isolation
) -> None:
    if not records:
        return
    view = look(harness.env, "/logs", isolation)
    times = [record.timestamp for record in records]
    low, high = sorted((rng.choice(times) + rng.randint(-1, 1), rng.choice(times) + rng.randint(-1, 1)))
    bounds = TimeBounds(low, high, rng.choice((None, disorder_of(harness))))
    found = read(harness.env, view, first, range_bytes=300, times=bounds)
    matching = [row["offset"] for row in found if low <= ms_of(row) < high]
    assert matching == [record.offset for record in records if low <= record.timestamp < high]
    visible = harness.model.data(view.log_start_offset, view.end_offset)
    young = [record.offset for record in visible.values() if record.timestamp >= low]
    answer = first_offset_of(harness.env, view, low)
    if young:
        assert answer is not None
        assert answer <= min(
            young
        )  # a marker may be as young, and so may records deleted since the last checkpoint
    assert answer not in visible or visible[answer].timestamp >= low


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_are_the_model_s(seed: int) -> None:
    rng = Random(seed)
    harness = LogHarness(seed)
    seen: Counter[str] = Counter()
    steps = list(WEIGHTS)
    for _ in range(STEPS):
        rng.choices(steps, list(WEIGHTS.values()))[0](harness, rng)
        check(harness, rng, seen)
    assert seen["rows"] > STEPS, seen

"""Tests the tasks and offsets of a query, by its options and the logs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.pipeline.log_reading.errors import DataLossError, NoSuchLogError
from barnabas.pipeline.log_reading.planning import LogRange
from barnabas.pipeline.log_reading.range_reader import Reading
from barnabas.pipeline.spark.filters import Wanted
from barnabas.pipeline.spark.offsets import Offsets, limited, merged, total
from barnabas.pipeline.spark.options import USUAL_TASKS, OptionError, parse_options
from barnabas.pipeline.spark.planning import (
    LEAST_TASK_BYTES,
    PlanAgain,
    as_tasks,
    plan_batch,
    plan_between,
)
from barnabas.storage.log.checkpoints import LOG_START_OFFSET_CHECKPOINT, OffsetCheckpointFile
from tests.pipeline.log_reading.reading import only_partition, rows_in
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import T0, make_batch, new_log


@pytest.fixture
def env() -> FaultEnv:
    """t-0 with offsets 0 to 39, a millisecond apart, in small segments; its log start offset is 5."""
    env = FaultEnv()
    log = new_log(env)
    for number in range(40):
        log.append_as_leader(make_batch(b"%d" % number * 50, timestamp=T0 + number), 0)
    OffsetCheckpointFile(env, f"/logs/{LOG_START_OFFSET_CHECKPOINT}").write({("t", 0): 5})
    return env


def tasks(env: FaultEnv, wanted: Wanted = Wanted(), **options: Any) -> list[list[LogRange]]:  # noqa: B008
    return plan_batch(env, parse_options({"path": "/logs", **options}), wanted)


def offsets(env: FaultEnv, wanted: Wanted = Wanted(), **options: Any) -> list[int]:  # noqa: B008
    ranges = [piece for task in tasks(env, wanted, **options) for piece in task]
    return [row["offset"] for row in rows_in(env, ranges, Reading(columns=("offset",)))]


@pytest.mark.parametrize(
    ("options", "first", "end"),
    [
        ({}, 5, 40),
        ({"startingOffsets": "earliest", "endingOffsets": "latest"}, 5, 40),
        ({"startingOffsets": '{"t": {"0": -2}}', "endingOffsets": '{"t": {"0": 12}}'}, 5, 12),
        ({"startingOffsets": '{"t": {"0": 38}}', "endingOffsets": '{"t": {"0": -1}}'}, 38, 40),
        ({"startingOffsets": '{"t": {"0": 20}}', "endingOffsets": '{"t": {"0": 10}}'}, 0, 0),
        ({"startingTimestamp": str(T0 + 17), "endingTimestamp": str(T0 + 20)}, 17, 20),
        ({"startingTimestamp": str(T0), "endingTimestamp": str(T0 + 99)}, 5, 40),
        ({"startingOffsetsByTimestamp": f'{{"t": {{"0": {T0 + 39}}}}}'}, 39, 40),
        ({"startingTimestamp": str(T0 + 99), "startingOffsetsByTimestampStrategy": "latest"}, 0, 0),
        ({"startingOffsets": '{"t": {"0": 3}}', "failOnDataLoss": "false"}, 5, 40),
        ({"endingOffsets": '{"t": {"0": 50}}', "failOnDataLoss": "false"}, 5, 40),
    ],
)
def test_where_a_batch_begins_and_ends(env: FaultEnv, options: dict[str, Any], first: int, end: int) -> None:
    assert offsets(env, **options) == list(range(first, end))


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        (
            {"startingOffsets": '{"t": {"0": 3}}'},
            DataLossError,
            "t-0 has offsets 5 to 40, and 3 was asked for",
        ),
        (
            {"endingOffsets": '{"t": {"0": 50}}'},
            DataLossError,
            "t-0 has offsets 5 to 40, and 50 was asked for",
        ),
        (
            {"startingOffsets": '{"t": {"1": 3}}'},
            OptionError,
            "t-0 is read too, and has to be there: -2 is the",
        ),
        ({"startingTimestamp": str(T0 + 99)}, OptionError, "no record of t-0 is as young"),
        ({"subscribe": "u"}, NoSuchLogError, "there is no topic u in /logs"),
        ({"assign": '{"t": [0, 1]}'}, NoSuchLogError, "there is no partition t-1 in /logs"),
    ],
)
def test_impossible_offsets(
    env: FaultEnv, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error) as caught:
        offsets(env, **options)
    assert said in str(caught.value)


def test_files_outside_the_filters_are_not_read(env: FaultEnv) -> None:
    """An hour of a week: segments that are too old, or too young beyond a known disorder, are not planned."""
    everything = sum(piece.size_bytes for task in tasks(env) for piece in task)
    wanted = Wanted(first_ms=T0 + 20, end_ms=T0 + 23)
    young = [piece for task in tasks(env, wanted) for piece in task]
    assert sum(piece.size_bytes for piece in young) < everything * 2 // 3
    hour = [piece for task in tasks(env, wanted, timestampDisorder="0") for piece in task]
    assert sum(piece.size_bytes for piece in hour) < everything // 4
    assert {20, 21, 22} <= set(offsets(env, wanted, timestampDisorder="0"))
    assert offsets(env, Wanted(first_offset=9, end_offset=11)) == [9, 10]
    assert tasks(env, Wanted(topics=frozenset(["u"]))) == []


def test_as_many_tasks_as_are_asked_for(env: FaultEnv) -> None:
    assert len(tasks(env)) == 1
    for size in ("400", "2000"):
        planned = tasks(env, rangeBytes=size)
        assert all(sum(piece.size_bytes for piece in task) <= 2 * int(size) for task in planned)
        assert planned[0][0].first_offset == 5


def of_sizes(*sizes_mib: int) -> list[LogRange]:
    """A partition of one range each."""
    return [
        LogRange("t", number, f"/t-{number}", 0, 10, size_bytes=size << 20)
        for number, size in enumerate(sizes_mib)
    ]


def cutting(ranges: list[LogRange], asked: list[tuple[int, int]]) -> PlanAgain:
    """Cuts a partition's range into the given number, and records the call."""

    def plan_again(_topic: str, number: int, range_bytes: int) -> list[LogRange]:
        asked.append((number, range_bytes))
        size = ranges[number].size_bytes
        return [
            ranges[number]._replace(size_bytes=min(range_bytes, size - at))
            for at in range(0, size, range_bytes)
        ]

    return plan_again


def test_small_logs_are_cut_up_too() -> None:
    """Except when an option sets the size of a task."""
    asked: list[tuple[int, int]] = []
    ranges = of_sizes(8, 8, 8, 8)
    plan_again = cutting(ranges, asked)
    assert len(as_tasks(ranges, parse_options({"path": "/x"}), plan_again)) == 8
    assert asked == [(number, LEAST_TASK_BYTES) for number in range(4)]
    assert len(as_tasks(ranges, parse_options({"path": "/x", "rangeBytes": "64m"}), plan_again)) == 1
    large = of_sizes(*[128] * USUAL_TASKS)
    assert as_tasks(large, parse_options({"path": "/x"}), plan_again) == [[piece] for piece in large]
    assert len(asked) == 4


def test_each_core_has_a_task() -> None:
    """A session's usual number of tasks, if there is enough to read."""
    ranges = of_sizes(*[120] * 4)
    options = replace(parse_options({"path": "/x"}), usual_tasks=12)
    assert len(as_tasks(ranges, options, cutting(ranges, []))) == 12


def test_one_large_partition_among_many_small_ones_is_cut_up() -> None:
    """The small ones are not planned again."""
    asked: list[tuple[int, int]] = []
    ranges = of_sizes(*[1] * 10, 48, *[1] * 10)
    found = as_tasks(ranges, parse_options({"path": "/x"}), cutting(ranges, asked))
    assert asked == [(10, (68 << 20) // USUAL_TASKS)]
    assert max(sum(piece.size_bytes for piece in task) for task in found) <= (68 << 20) // USUAL_TASKS
    asked.clear()
    options = parse_options({"path": "/x", "minPartitions": "21"})
    assert len(as_tasks(ranges, options, cutting(ranges, asked))) >= 21


def test_a_micro_batch(env: FaultEnv) -> None:
    options, partition = parse_options({"path": "/logs"}, is_stream=True), only_partition(env, "/logs")
    ranges = list(plan_between(env, options, partition, 10, 15, 1 << 20))
    assert [row["offset"] for row in rows_in(env, ranges)] == [10, 11, 12, 13, 14]
    for first, end, lost in ((2, 10, "2 to 4"), (30, 45, "40 to 44")):
        with pytest.raises(DataLossError, match=f"offsets {lost} of t-0 are gone"):
            plan_between(env, options, partition, first, end, 1 << 20)
    careless = parse_options({"path": "/logs", "failOnDataLoss": "false"}, is_stream=True)
    ranges = list(plan_between(env, careless, partition, 2, 45, 1 << 20))
    assert [row["offset"] for row in rows_in(env, ranges)] == list(range(5, 40))
    for first, end in ((0, 3), (2, 5), (41, 45), (50, 60)):
        assert not plan_between(env, careless, partition, first, end, 1 << 20), "all of it is gone"


@given(
    sizes=st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=6),
    most=st.integers(1, 2000),
)
def test_no_more_offsets_than_a_trigger_takes(sizes: list[tuple[int, int]], most: int) -> None:
    starts: Offsets = {"t": {str(number): first for number, (first, _) in enumerate(sizes)}}
    ends: Offsets = {"t": {str(number): first + count for number, (first, count) in enumerate(sizes)}}
    found = limited(starts, ends, most)
    taken = [found["t"][number] - starts["t"][number] for number in starts["t"]]
    assert all(0 <= share <= count for share, (_, count) in zip(taken, sizes, strict=True))
    assert sum(taken) == min(most, sum(count for _, count in sizes))


@pytest.mark.parametrize(("most", "busy"), [(10, 1), (10, 9), (10, 30), (1, 3), (3, 3)])
def test_no_partition_starves(most: int, busy: int) -> None:
    """Partitions with far more records than a trigger takes leave room for one with a single record."""
    starts: Offsets = {"t": {**{str(number): 0 for number in range(busy)}, "quiet": 0}}
    triggers = 0
    while not starts["t"]["quiet"]:
        ends = {
            "t": {name: start + (1 if name == "quiet" else 10_000) for name, start in starts["t"].items()}
        }
        starts = limited(starts, ends, most)
        triggers += 1
        assert triggers <= busy + 1
    assert total(starts) == triggers * most


def test_partitions_that_are_gone_keep_their_offsets() -> None:
    start: dict[str, Any] = {"a": {"0": 3, "1": 5}, "b": {"0": 1}}
    assert merged(start, {"a": {"0": 9, "2": 4}}) == {"a": {"0": 9, "1": 5, "2": 4}, "b": {"0": 1}}
    assert start == {"a": {"0": 3, "1": 5}, "b": {"0": 1}}

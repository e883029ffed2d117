"""Reads a log as Spark's tasks do, all of them in this process."""

from __future__ import annotations

from typing import Any

from barnabas.pipeline.log_reading.arrow_columns import COLUMNS
from barnabas.pipeline.log_reading.directories import PartitionDirectory, find_partitions
from barnabas.pipeline.log_reading.log_view import Isolation, LogView, look_at
from barnabas.pipeline.log_reading.planning import ANY_TIME, LogRange, TimeBounds, plan_ranges
from barnabas.pipeline.log_reading.range_reader import Reading, read_range
from barnabas.storage.env import Env

ALL = Reading(columns=COLUMNS)
UNCOMMITTED, COMMITTED = Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED


def only_partition(env: Env, path: str) -> PartitionDirectory:
    [found] = find_partitions(env, [path])
    return found


def look(env: Env, path: str, isolation: Isolation = UNCOMMITTED) -> LogView:
    return look_at(env, only_partition(env, path), isolation)


def rows_in(env: Env, ranges: list[LogRange], reading: Reading = ALL) -> list[dict[str, Any]]:
    """The rows of ranges, one range after the other."""
    return [
        row for wanted in ranges for batch in read_range(env, wanted, reading) for row in batch.to_pylist()
    ]


def read(
    env: Env,
    view: LogView,
    first: int | None = None,
    end: int | None = None,
    *,
    range_bytes: int = 1 << 30,
    times: TimeBounds = ANY_TIME,
) -> list[dict[str, Any]]:
    """The rows of a view, or of some of its offsets, through ranges of about so many bytes."""
    first = view.log_start_offset if first is None else first
    end = view.end_offset if end is None else end
    return rows_in(env, plan_ranges(env, view, first, end, range_bytes=range_bytes, times=times))


def ms_of(row: dict[str, Any]) -> int:
    """The timestamp of a row in ms."""
    seconds: float = row["timestamp"].timestamp()
    return round(seconds * 1000)

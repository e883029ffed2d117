"""Plans Spark's tasks: the ranges of all partitions, with small ones joined."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Final

from barnabas.pipeline.log_reading.directories import PartitionDirectory
from barnabas.pipeline.log_reading.errors import NoSuchLogError
from barnabas.pipeline.log_reading.log_view import LogView, report_loss, with_view
from barnabas.pipeline.log_reading.planning import ANY_TIME, LogRange, TimeBounds, plan_ranges
from barnabas.pipeline.spark.filters import Wanted
from barnabas.pipeline.spark.offsets import ending_offset, find_wanted, starting_offset
from barnabas.pipeline.spark.options import EARLIEST, SourceOptions
from barnabas.storage.env import Env

LEAST_TASK_BYTES: Final = 4 * 1024 * 1024
_LEAST_BYTES: Final = 64 * 1024

PlanAgain = Callable[[str, int, int], Sequence[LogRange]]
"""The ranges of a topic's partition, of about so many bytes."""


def plan_batch(env: Env, options: SourceOptions, wanted: Wanted) -> list[list[LogRange]]:
    """A list of ranges for each task of a batch query. Raises LogReadingError, OptionError."""
    times = TimeBounds(wanted.first_ms, wanted.end_ms, options.disorder_ms)
    found = {
        (it.topic, it.partition): it for it in find_wanted(env, options) if wanted.has(it.topic, it.partition)
    }

    def planned(topic: str, number: int, range_bytes: int) -> Sequence[LogRange]:
        return _plan_partition(env, options, found[topic, number], wanted, times, range_bytes)

    ranges = [piece for key in found for piece in planned(*key, options.range_bytes)]
    return as_tasks(ranges, options, planned)


def as_tasks(ranges: list[LogRange], options: SourceOptions, plan_again: PlanAgain) -> list[list[LogRange]]:
    """Ranges by task, those of a partition together; one that is too large for a task is planned in smaller ones.

    A log that is small, or small because it is compressed, is cut up, too, so that each core has some.
    """
    total = sum(piece.size_bytes for piece in ranges)
    size, least = options.range_bytes, options.min_partitions
    if least is not None:
        size = min(size, max(total // least, _LEAST_BYTES))
    elif not options.is_range_fixed:
        size = min(size, max(total // options.usual_tasks, LEAST_TASK_BYTES))
    if size < options.range_bytes:
        ranges = list(_cut_up(ranges, size, plan_again))
    return list(_together(ranges, size))


def _cut_up(ranges: Iterable[LogRange], range_bytes: int, plan_again: PlanAgain) -> Iterator[LogRange]:
    """Plans partitions that have a larger range once more."""
    for (topic, number), those in groupby(ranges, lambda piece: (piece.topic, piece.partition)):
        pieces = list(those)
        if any(piece.size_bytes > range_bytes for piece in pieces):
            yield from plan_again(topic, number, range_bytes)
        else:
            yield from pieces


def _together(ranges: Iterable[LogRange], range_bytes: int) -> Iterator[list[LogRange]]:
    """Groups consecutive ranges up to `range_bytes`."""
    task: list[LogRange] = []
    size = 0
    for piece in ranges:
        if task and size + piece.size_bytes > range_bytes:
            yield task
            task, size = [], 0
        task.append(piece)
        size += piece.size_bytes
    if task:
        yield task


def _plan_partition(  # noqa: PLR0917 (plan_batch's own)
    env: Env,
    options: SourceOptions,
    partition: PartitionDirectory,
    wanted: Wanted,
    times: TimeBounds,
    range_bytes: int,
) -> Sequence[LogRange]:
    def plan(view: LogView) -> Sequence[LogRange]:
        first = max(starting_offset(env, options, view, EARLIEST), wanted.first_offset)
        end = min(ending_offset(env, options, view), wanted.end_offset)
        return plan_ranges(env, view, first, end, range_bytes=range_bytes, times=times) if first < end else ()

    try:
        return with_view(env, partition, options.isolation, plan)
    except NoSuchLogError:
        return ()  # the topic was deleted meanwhile


def plan_between(  # noqa: PLR0917
    env: Env, options: SourceOptions, partition: PartitionDirectory, first: int, end: int, range_bytes: int
) -> Sequence[LogRange]:
    """The ranges of a micro-batch: these offsets. Raises DataLossError where the log has not all of them any more."""

    def plan(view: LogView) -> Sequence[LogRange]:
        planned_first = min(max(first, view.log_start_offset), end)
        planned_end = max(min(end, view.end_offset), planned_first)
        lose(options, partition, first, planned_first, f"the log starts at {view.log_start_offset} now")
        lose(options, partition, planned_end, end, f"the log ends at {view.end_offset}")
        if planned_first >= planned_end:
            return ()  # the whole range may be gone, and lie outside the log
        return plan_ranges(env, view, planned_first, planned_end, range_bytes=range_bytes, times=ANY_TIME)

    try:
        return with_view(env, partition, options.isolation, plan)
    except NoSuchLogError:
        lose(options, partition, first, end, "the partition is gone")
        return ()


def lose(options: SourceOptions, partition: PartitionDirectory, first: int, end: int, why: str) -> None:
    """Reports offsets of a query that the log no longer has, or that this copy of the log does not have yet.

    Raises DataLossError unless failOnDataLoss is false.
    """
    if first < end:
        report_loss(partition, first, end, why, fail=options.fail_on_data_loss)

"""Tasks for Spark: the ranges of all partitions, small ones together."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from pipeline.log_reading.directories import PartitionDirectory
from pipeline.log_reading.errors import BusyDirectoryError, DataLossError, NoSuchLogError
from pipeline.log_reading.log_view import MAX_TRIES, look_at
from pipeline.log_reading.planning import ANY_TIME, LogRange, TimeBounds, plan_ranges
from pipeline.spark.filters import Wanted
from pipeline.spark.offsets import ending_offset, find_wanted, starting_offset
from pipeline.spark.options import EARLIEST, SourceOptions
from storage.env import Env

logger = logging.getLogger("barnabas.pipeline")

USUAL_TASKS: Final = 16
LEAST_TASK_BYTES: Final = 4 * 1024 * 1024
_LEAST_BYTES: Final = 64 * 1024


def plan_batch(env: Env, options: SourceOptions, wanted: Wanted) -> list[list[LogRange]]:
    """A list of ranges for each task of a batch query. Raises LogReadingError, OptionError, CorruptRecordError."""
    times = TimeBounds(wanted.first_ms, wanted.end_ms, options.disorder_ms)
    partitions = [it for it in find_wanted(env, options) if wanted.has(it.topic, it.partition)]

    def planned(range_bytes: int) -> list[LogRange]:
        return [
            piece
            for partition in partitions
            for piece in _plan_partition(env, options, partition, wanted, times, range_bytes)
        ]

    return as_tasks(planned(options.range_bytes), options, planned)


def as_tasks(
    ranges: list[LogRange], options: SourceOptions, plan_again: Callable[[int], list[LogRange]] | None = None
) -> list[list[LogRange]]:
    """Ranges by task; smaller ones are planned where there are to be more tasks than that makes.

    A log that is small, or small because it is compressed, is cut up, too: nobody knows here how many cores there are.
    """
    total = sum(piece.size_bytes for piece in ranges)
    size, least = options.range_bytes, options.min_partitions
    if least is not None:
        size = min(size, max(total // least, _LEAST_BYTES))
    elif not options.is_range_fixed:
        size = min(size, max(total // USUAL_TASKS, LEAST_TASK_BYTES))
    are_few = len(ranges) < (least or USUAL_TASKS)
    if plan_again is not None and are_few and any(piece.size_bytes > size for piece in ranges):
        ranges = plan_again(size)
    return list(_together(ranges, size))


def _together(ranges: Iterable[LogRange], range_bytes: int) -> Iterator[list[LogRange]]:
    """As many ranges in a row as are no more than `range_bytes`."""
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
    for _ in range(MAX_TRIES):
        try:
            view = look_at(env, partition, options.isolation)
            first = max(starting_offset(env, options, view, EARLIEST), wanted.first_offset)
            end = min(ending_offset(env, options, view), wanted.end_offset)
            if first >= end:
                return ()
            return plan_ranges(env, view, first, end, range_bytes=range_bytes, times=times)
        except FileNotFoundError:
            continue  # retention or compaction took a segment since it was listed
        except NoSuchLogError:
            return ()  # the topic was deleted meanwhile
    raise BusyDirectoryError(f"{partition.path} changed each of the {MAX_TRIES} times that it was read")


def plan_between(  # noqa: PLR0917
    env: Env, options: SourceOptions, partition: PartitionDirectory, first: int, end: int, range_bytes: int
) -> Sequence[LogRange]:
    """The ranges of a micro-batch: these offsets. Raises DataLossError where the log has not all of them any more."""
    for _ in range(MAX_TRIES):
        try:
            view = look_at(env, partition, options.isolation)
            planned_first = min(max(first, view.log_start_offset), end)
            planned_end = max(min(end, view.end_offset), planned_first)
            lose(options, partition, first, planned_first, f"the log starts at {view.log_start_offset} now")
            lose(options, partition, planned_end, end, f"the log ends at {view.end_offset}")
            return plan_ranges(env, view, planned_first, planned_end, range_bytes=range_bytes, times=ANY_TIME)
        except FileNotFoundError:
            continue
        except NoSuchLogError:
            lose(options, partition, first, end, "the partition is gone")
            return ()
    raise BusyDirectoryError(f"{partition.path} changed each of the {MAX_TRIES} times that it was read")


def lose(options: SourceOptions, partition: PartitionDirectory, first: int, end: int, why: str) -> None:
    """Offsets that a query was to read are not there any more, or not yet in this copy of the log.

    Raises DataLossError unless the options have it that what is left will do.
    """
    if first >= end:
        return
    lost = f"offsets {first} to {end - 1} of {partition.name} are gone: {why}"
    if options.fail_on_data_loss:
        raise DataLossError(
            f"{lost} ({partition.path}). With failOnDataLoss=false what is left would be read"
        )
    logger.warning("%s; going on without them", lost)

"""A partition's log at one moment: its segments, where it starts and ends, and its transactions.

The end is that of the last complete batch, which is right for a broker without replicas. A replica may hold more
than is replicated, which is ignored: brokers' checkpoints of high watermarks are up to five seconds old.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

from barnabas.pipeline.log_reading.directories import (
    PartitionDirectory,
    checkpointed_start,
    list_segments,
    topic_id_of,
)
from barnabas.pipeline.log_reading.errors import BusyDirectoryError, DataLossError, NoSuchLogError
from barnabas.pipeline.log_reading.segments import End, ListedSegment, OpenedSegment, open_segment
from barnabas.pipeline.log_reading.transactions import AbortedTransactions, find_transactions
from barnabas.storage.env import Env

logger = logging.getLogger("barnabas.pipeline")

MAX_TRIES: Final = 1000

T = TypeVar("T")


class Isolation(StrEnum):
    """The records of transactions that a reader gets; Kafka's names."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True)
class LogView:
    """A partition at one moment. A reader's offsets go from `log_start_offset` to before `end_offset`.

    The whole batches of the last segment end at byte `end_position`. `topic_id` is empty where the directory has none;
    it was read before anything else.
    """

    partition: PartitionDirectory
    segments: Sequence[ListedSegment]
    log_start_offset: int
    log_end_offset: int
    end_offset: int
    end_position: int
    aborted: AbortedTransactions
    topic_id: bytes = b""

    def open(self, env: Env, number: int) -> OpenedSegment:
        """Opens a segment, the last one without an incomplete batch at its end. Raises FileNotFoundError."""
        is_last = number + 1 == len(self.segments)
        return open_segment(env, self.segments[number], self.end_position if is_last else None)


def look_at(env: Env, partition: PartitionDirectory, isolation: Isolation) -> LogView:
    """The log as it is now; with read_committed it ends at its last stable offset.

    Raises NoSuchLogError where there is no log, CorruptRecordError, OSError.
    """
    topic_id = topic_id_of(env, partition.path)
    return with_segments(
        env, partition, lambda segments: _look(env, partition, segments, isolation, topic_id)
    )


def _look(
    env: Env,
    partition: PartitionDirectory,
    segments: Sequence[ListedSegment],
    isolation: Isolation,
    topic_id: bytes,
) -> LogView:
    end, position = open_segment(env, segments[-1]).find_end()
    start = min(max(segments[0].base_offset, checkpointed_start(env, partition)), end)
    stable, aborted = end, AbortedTransactions(())
    if isolation is Isolation.READ_COMMITTED:
        transactions = find_transactions(env, partition.path, segments, End(end, position))
        aborted = transactions.aborted
        if transactions.first_unstable_offset is not None:
            stable = max(min(end, transactions.first_unstable_offset), start)
    return LogView(partition, segments, start, end, stable, position, aborted, topic_id)


def with_view(
    env: Env, partition: PartitionDirectory, isolation: Isolation, use: Callable[[LogView], T]
) -> T:
    """Calls `use` with the log as it is now; when a segment is gone by then, lists and calls again.

    Raises NoSuchLogError where there is no log, CorruptRecordError, OSError.
    """
    for _ in range(MAX_TRIES):
        try:
            return use(look_at(env, partition, isolation))
        except FileNotFoundError:
            continue  # retention or compaction deleted a segment after the listing
    raise BusyDirectoryError(f"{partition.path} changed during each of {MAX_TRIES} attempts to read it")


def with_segments(env: Env, partition: PartitionDirectory, use: Callable[[Sequence[ListedSegment]], T]) -> T:
    """Calls `use` with the partition's segments; when it finds one gone, lists them and calls again.

    Raises NoSuchLogError where the partition is gone or has no segment.
    """
    for _ in range(MAX_TRIES):
        segments = list_segments(env, partition.path)
        if not segments:
            raise NoSuchLogError(f"{partition.path} has no segment in it")
        try:
            return use(segments)
        except FileNotFoundError:
            continue  # retention or compaction deleted it
    raise BusyDirectoryError(f"{partition.path} changed during each of {MAX_TRIES} attempts to read it")


def report_loss(partition: PartitionDirectory, first: int, end: int, why: str, *, fail: bool) -> None:
    """Logs that requested offsets, from the first to before the end, are not in the log. Raises DataLossError instead
    with `fail`.
    """
    lost = f"offsets {first} to {end - 1} of {partition.name} are gone: {why}"
    if fail:
        raise DataLossError(f"{lost} ({partition.path}). failOnDataLoss=false reads what is left")
    logger.warning("%s; reading continues without them", lost)

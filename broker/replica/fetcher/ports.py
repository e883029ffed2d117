"""What the fetchers need of the partitions that they follow, and whom they notify.

Source: the abstract methods of kafka.server.AbstractFetcherThread, as ReplicaFetcherThread has them.
"""

from __future__ import annotations

from typing import Protocol

from barnabas.broker.pending import Pending
from barnabas.protocol.wire import Uuid
from barnabas.storage.offsets import EpochEndOffset, LogAppendInfo, TopicPartition


class FollowedLog(Protocol):
    """A partition that this broker follows; kafka.cluster.Partition's follower half. All calls are on the loop.

    The two truncations may sync and rebuild producer state for a long time, so they run in a thread. From the call
    until the result is complete the partition is closed: `is_truncating` is true, nobody else may append, flush,
    delete segments or read (reads get an error that clients retry), and a change of its role waits for the end. The
    offsets may be anything meanwhile. The result is complete before the call returns where the runner works inline.
    """

    @property
    def key(self) -> TopicPartition: ...

    @property
    def topic_id(self) -> Uuid:
        """ZERO_UUID where it is not known; the fetcher then asks by name."""

    @property
    def is_truncating(self) -> bool: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def log_start_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last record, or that began last; -1 where the log knows of no epoch."""

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset | None:
        """The largest epoch at or below `epoch` with its end (exclusive); None where that is not known."""

    def append_as_follower(self, records: bytes | memoryview, leader_epoch: int) -> LogAppendInfo:
        """Appends batches with the leader's offsets, up to the first of an epoch above `leader_epoch`.

        The future log of a move between directories gets them too. Keeps no reference to `records`.
        Raises what UnifiedLog.append_as_follower raises, and ApiError for a partition that is offline.
        """

    def update_follower_high_watermark(self, high_watermark: int) -> bool:
        """Raises the high watermark to the leader's, within the log end offset; returns whether it moved."""

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Moves the log start offset up to the leader's; `offset` is at or below the high watermark."""

    def truncate_to(self, offset: int) -> Pending[Exception | None]:
        """Makes `offset` the log end (nothing where it ends before), in the future log too; durable when complete.

        Completes with None, or the error.
        """

    def truncate_fully_and_start_at(self, offset: int) -> Pending[Exception | None]:
        """Empties the log and the future log; the next record gets `offset`. Completes as truncate_to does."""


class FollowerEvents(Protocol):
    """What the replica manager does about the changes that the fetchers make."""

    def follower_appended(self, log: FollowedLog, info: LogAppendInfo, size: int) -> None:
        """`size` bytes were appended: flush if that is due, count them."""

    def follower_offsets_moved(self, log: FollowedLog) -> None:
        """The high watermark or the log start offset moved, or both: reads may go on."""

    def follower_failed(self, log: FollowedLog, error: Exception) -> None:
        """Nothing of the partition is fetched until the next change of its leader, because of `error`.

        A fault of the disk takes the log directory offline.
        """


class FollowerQuota(Protocol):
    """The follower's replication quota; `throttle.FollowerThrottle`, or UNLIMITED."""

    def is_throttled(self, key: TopicPartition) -> bool:
        """Whether the partition's bytes are limited here."""

    def record(self, size: int) -> None:
        """Counts bytes of a throttled partition."""

    def delay_s(self) -> float:
        """Seconds until throttled partitions may be fetched again; 0 when they may now."""

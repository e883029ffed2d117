"""Partition: one replica's view of its partition while it leads: in-sync replicas, high watermark, leader epoch.

The node may be alone, the rules are those of many: an append needs as many in-sync replicas as min.insync.replicas says
(capped by how many replicas there are), the high watermark is the lowest log end offset in the ISR, and followers that
fetch move theirs. Source: kafka.cluster.Partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.probes import TopicTraffic
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.wire import Uuid
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import (
    AppendOrigin,
    EpochEndOffset,
    LogAppendInfo,
    LogStartOffsetIncrementReason,
)

ACKS_ALL: Final = -1
HIGH_WATERMARK: Final = -1
"""Stands for an offset in a deletion of records."""

NO_EPOCH: Final = -1
"""A request that names no leader epoch is not checked against ours."""


class FollowerState:
    """The state of a follower, from the follower's own fetches (offsets are exclusive ends)."""

    __slots__ = ("last_fetch_ms", "log_end_offset", "log_start_offset")

    def __init__(self) -> None:
        self.log_end_offset = -1
        self.log_start_offset = -1
        self.last_fetch_ms = 0


class Partition:
    """A partition that this broker has a replica of. Every method runs on the event loop, in one piece."""

    __slots__ = (
        "_followers",
        "_in_sync_followers",
        "index",
        "isr",
        "key",
        "leader_epoch",
        "leader_id",
        "local_node_id",
        "log",
        "mirror",
        "offline",
        "partition_epoch",
        "replicas",
        "topic",
        "topic_id",
        "traffic",
    )

    def __init__(
        self, topic: str, topic_id: Uuid, image: PartitionImage, log: UnifiedLog, local_node_id: int
    ) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = image.partition
        self.key = (topic, image.partition)
        self.local_node_id = local_node_id
        self.log = log
        self.mirror: Callable[[], None] | None = None  # appends to a future log too, in the same step
        self.offline = False
        self.traffic: TopicTraffic | None = None  # the topic's; from the first append on
        self.leader_epoch = NO_EPOCH
        self._followers: dict[int, FollowerState] = {}
        self.update(image)

    def update(self, image: PartitionImage) -> None:
        """Applies the metadata: leader, epochs, replicas and ISR."""
        self.replicas = image.replicas
        self.isr = image.isr
        self.leader_id = image.leader
        if image.leader_epoch != self.leader_epoch:
            self._followers = {}  # their records of another epoch may have been truncated since
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        others = set(image.replicas) - {self.local_node_id}
        self._followers = {node: self._followers.get(node) or FollowerState() for node in others}
        self._in_sync_followers = [self._followers[node] for node in image.isr if node in others]
        if self.is_leader:
            self.log.assign_epoch_start_offset(self.leader_epoch, self.log.log_end_offset)
            self.maybe_advance_high_watermark()

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self.local_node_id

    @property
    def min_insync_replicas(self) -> int:
        """The topic's min.insync.replicas, and never more than the partition has replicas."""
        return min(self.log.config.min_insync_replicas, len(self.replicas))

    def check_online(self) -> None:
        """Raises ApiError where the disk has failed."""
        if self.offline:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"The log directory of {self} has failed.")

    def check_leader(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """Raises ApiError unless this broker leads and the requester's leader epoch (if it names one) is ours."""
        if self.offline:
            self.check_online()
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            older = current_leader_epoch < self.leader_epoch
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
                f"{self} is in leader epoch {self.leader_epoch}, the request in {current_leader_epoch}.",
            )
        if self.leader_id != self.local_node_id:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} is led by node {self.leader_id}.")

    def check_in_sync(self) -> None:
        """Raises ApiError where fewer replicas are in sync than acks=all asks for."""
        if len(self.isr) < self.min_insync_replicas:
            raise ApiError(
                ErrorCode.NOT_ENOUGH_REPLICAS,
                f"{self} has {len(self.isr)} replicas in sync; min.insync.replicas is {self.min_insync_replicas}.",
            )

    def append_as_leader(
        self,
        records: bytes | memoryview,
        required_acks: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> LogAppendInfo:
        """Appends to the local log and moves the high watermark as far as that allows.

        `guard` and `transaction_version` are as UnifiedLog.append_as_leader takes them.
        Raises ApiError (not leader, too few in-sync replicas) and what UnifiedLog.append_as_leader raises.
        """
        if self.offline or self.leader_id != self.local_node_id:
            self.check_leader()
        if required_acks == ACKS_ALL and len(self.isr) < len(self.replicas):
            self.check_in_sync()
        info = self.log.append_as_leader(
            records,
            self.leader_epoch,
            origin,
            verification_guard=guard,
            transaction_version=transaction_version,
        )
        self.maybe_advance_high_watermark()
        if self.mirror is not None:
            self.mirror()
        return info

    def delete_records_on_leader(self, offset: int) -> tuple[int, int]:
        """Deletes records before `offset` (exclusive), or before the high watermark for HIGH_WATERMARK.

        Returns that offset and the low watermark, which reaches it when the followers have fetched. Raises ApiError,
        and OffsetOutOfRangeError for an offset above the high watermark.
        """
        self.check_leader()
        log = self.log
        if log.config.compact and not log.config.delete:
            raise ApiError(
                ErrorCode.POLICY_VIOLATION, f"{self} is only compacted; its records cannot be deleted."
            )
        if offset == HIGH_WATERMARK:
            offset = log.high_watermark
        if offset < 0:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, f"{offset} is no offset of {self}.")
        log.maybe_increment_log_start_offset(offset, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
        return offset, self.low_watermark

    @property
    def low_watermark(self) -> int:
        """The lowest log start offset of all replicas, as far as the followers have reported theirs."""
        others = (follower.log_start_offset for follower in self._followers.values())
        return min((self.log.log_start_offset, *others))

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset | None:
        """The end (exclusive) of the newest epoch that is not after `epoch`; None where that is not known."""
        return self.log.end_offset_for_epoch(epoch)

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> EpochEndOffset | None:
        """Where a reader, whose last record is of `last_fetched_epoch`, diverges from this log; None where it does not.

        Raises ApiError(OFFSET_OUT_OF_RANGE) when the log cannot know the epoch, or no longer has the offset (KIP-595).
        """
        end = self.end_offset_for_epoch(last_fetched_epoch)
        if end is None:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self} cannot tell where epoch {last_fetched_epoch} ends.",
            )
        if fetch_offset < self.log.log_start_offset:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{self} begins at {self.log.log_start_offset}, after the fetch offset {fetch_offset}.",
            )
        if end.epoch < last_fetched_epoch or end.end_offset < fetch_offset:
            return end
        return None

    def follower_fetched(self, node_id: int, fetch_offset: int, log_start_offset: int, now_ms: int) -> bool:
        """A follower has all records before `fetch_offset`; returns whether that moved the high watermark.

        Raises ApiError when the node holds no replica.
        """
        follower = self._followers.get(node_id)
        if follower is None:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Node {node_id} has no replica of {self}.")
        follower.log_end_offset = fetch_offset
        follower.log_start_offset = log_start_offset
        follower.last_fetch_ms = now_ms
        return self.maybe_advance_high_watermark()

    def maybe_advance_high_watermark(self) -> bool:
        """Raises the high watermark to the lowest log end offset of the ISR; returns whether it moved."""
        log = self.log
        committed = log.log_end_offset
        for follower in self._in_sync_followers:
            committed = min(committed, follower.log_end_offset)
        if committed <= log.high_watermark:
            return False
        log.update_high_watermark(committed)
        return True

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

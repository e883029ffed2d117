"""Partition: this broker's replica of a partition, as its leader or as a follower.

The node may be alone, the rules are those of many: an append needs as many in-sync replicas as min.insync.replicas says
(capped by how many replicas there are), the high watermark is the lowest log end offset of those that are or may be in
the ISR, and followers that fetch move theirs (broker.replica.isr, which a partition with one replica does without). A
follower appends what its fetcher brings, and takes the high watermark from the leader. Source: kafka.cluster.Partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.broker.metadata.topics import NO_LEADER, PartitionImage
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
    TopicPartition,
)

if TYPE_CHECKING:
    from barnabas.broker.pending import Pending
    from barnabas.broker.replica.isr import LeaderContext, PartitionLeader, RemoteReplica

ACKS_ALL: Final = -1
HIGH_WATERMARK: Final = -1
"""Stands for an offset in a deletion of records."""

NO_EPOCH: Final = -1
"""A request that names no leader epoch is not checked against ours."""


class Truncator(Protocol):
    """Truncates the log of a follower: broker.replica.truncation."""

    def truncate_to(self, partition: Partition, offset: int, /) -> Pending[Exception | None]: ...

    def truncate_fully_and_start_at(
        self, partition: Partition, offset: int, /
    ) -> Pending[Exception | None]: ...


class Partition:
    """A partition that this broker has a replica of. Every method runs on the event loop, in one piece."""

    __slots__ = (
        "_context",
        "_moved",
        "_others",
        "_truncator",
        "epoch_start",
        "index",
        "is_removed",
        "is_truncating",
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
        self,
        topic: str,
        topic_id: Uuid,
        image: PartitionImage,
        log: UnifiedLog,
        local_node_id: int,
        *,
        context: LeaderContext | None = None,
        moved: Callable[[TopicPartition], None] | None = None,
        truncator: Truncator | None = None,
    ) -> None:
        """`context` is what all partitions of a cluster's member share, None where the node is alone, and `truncator`
        what truncates their logs. `moved` is called with the key when an answer of the controller has moved the high
        watermark, or changed the ISR."""
        self.topic = topic
        self.topic_id = topic_id
        self.index = image.partition
        self.key = (topic, image.partition)
        self.local_node_id = local_node_id
        self.log = log
        self.mirror: Callable[[], None] | None = None  # appends to a future log too, in the same step
        self.offline = False
        self.traffic: TopicTraffic | None = None  # the topic's; from the first append on
        self.is_truncating = False
        self.is_removed = False  # its topic was deleted, or the replica has moved to another broker
        self.leader_id = NO_LEADER
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.epoch_start = 0  # the log end when this broker began to lead, or to lead in this epoch
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()  # as committed; a follower knows none
        self._others: PartitionLeader | None = None  # with several replicas, while this broker leads
        self._context = context
        self._moved = moved
        self._truncator = truncator
        self.update(image)

    # ---- the role

    def update(self, image: PartitionImage) -> bool:
        """Follows the metadata; returns whether a leader epoch has begun. An image older than what is known changes
        nothing: the leader learns of a change from the controller's answer, before the metadata say it."""
        if image.leader == self.local_node_id:
            return self.make_leader(image)
        return self.make_follower(image)

    def make_leader(self, image: PartitionImage) -> bool:
        """This broker leads. The epoch is noted before anything is appended or answered in it."""
        if image.partition_epoch < self.partition_epoch:
            return False
        begins = image.leader_epoch > self.leader_epoch
        if not self.is_leader:
            self._others = None
        self.leader_id = image.leader
        self.leader_epoch = image.leader_epoch
        if begins:
            self.epoch_start = self.log.log_end_offset
            self.log.assign_epoch_start_offset(self.leader_epoch, self.epoch_start)
        self.replicas = image.replicas
        if len(image.replicas) > 1:
            self._lead_others(image)
        else:
            self._others = None
            self.isr = image.isr
        self.partition_epoch = image.partition_epoch
        self.maybe_advance_high_watermark()
        return begins

    def _lead_others(self, image: PartitionImage) -> None:
        others = self._others
        if others is None:
            from barnabas.broker.replica.isr import PartitionLeader

            others = self._others = PartitionLeader(
                self.local_node_id, self.topic_id, self.index, self._context, self._isr_answered
            )
        others.lead(image, self.epoch_start)
        self.isr = others.state.isr

    def make_follower(self, image: PartitionImage) -> bool:
        """Another broker leads, or none: forgets what a leader knows."""
        if image.partition_epoch < self.partition_epoch:
            return False
        begins = image.leader_epoch > self.leader_epoch
        self.leader_id = image.leader
        self.leader_epoch = image.leader_epoch
        self.partition_epoch = image.partition_epoch
        self.replicas = image.replicas
        self.isr = ()
        self._others = None
        return begins

    def resign(self) -> None:
        """This broker has no replica any more: whatever waits for it, as the leader or a follower, ends."""
        self.is_removed = True
        self.leader_id = NO_LEADER
        self._others = None

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
            raise self._wrong_epoch(current_leader_epoch)
        if self.leader_id != self.local_node_id:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} is led by node {self.leader_id}.")

    def check_readable(self, current_leader_epoch: int = NO_EPOCH) -> None:
        """As check_leader, for a reader that may read from a follower too."""
        if self.offline:
            self.check_online()
        if current_leader_epoch not in (NO_EPOCH, self.leader_epoch):
            raise self._wrong_epoch(current_leader_epoch)
        if self.is_truncating:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self} is being truncated.")

    def _wrong_epoch(self, current_leader_epoch: int) -> ApiError:
        older = current_leader_epoch < self.leader_epoch
        return ApiError(
            ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"{self} is in leader epoch {self.leader_epoch}, the request in {current_leader_epoch}.",
        )

    def may_be_read(self, only_leader: bool) -> bool:
        """Whether the follower that this replica is can be read."""
        return not (only_leader or self.is_truncating or self.is_removed)

    def check_follower(self, node_id: int, current_leader_epoch: int) -> None:
        """Raises ApiError unless the node has a replica of the partition, which this broker leads.

        One that fetches in our epoch retries: the metadata here do not name it yet.
        """
        if self._others is None or node_id not in self._others.remotes:
            is_ours = current_leader_epoch == self.leader_epoch
            raise ApiError(
                ErrorCode.UNKNOWN_LEADER_EPOCH if is_ours else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Node {node_id} has no replica of {self}.",
            )

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
        """The lowest log start offset of the replicas on brokers that are alive, as far as they are known."""
        start = self.log.log_start_offset
        return start if self._others is None else self._others.low_watermark(start)

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

    def follower_fetched(
        self,
        node_id: int,
        fetch_offset: int,
        log_start_offset: int,
        *,
        broker_epoch: int = NO_EPOCH,
    ) -> bool:
        """A follower has all records before `fetch_offset`; returns whether that moved a watermark.

        `broker_epoch` is that which the fetch names. The fetch has been read in the same step, so that the log end is
        still that of before the read. Raises ApiError when the node holds no replica, or the fetch is of a process that
        has been restarted since.
        """
        others = self._others
        if others is None or node_id not in others.remotes:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Node {node_id} has no replica of {self}.")
        if others.is_of_older_process(node_id, broker_epoch):
            raise ApiError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"Node {node_id} fetches {self} with broker epoch {broker_epoch}, and has a newer one.",
            )
        log = self.log
        moves_start = log_start_offset != others.remotes[node_id].log_start_offset
        low_before = others.low_watermark(log.log_start_offset) if moves_start else 0
        others.fetched(
            node_id,
            fetch_offset,
            log_start_offset,
            leader_end=log.log_end_offset,
            broker_epoch=broker_epoch,
            high_watermark=log.high_watermark,
        )
        has_moved = self.maybe_advance_high_watermark()
        return has_moved or (moves_start and others.low_watermark(log.log_start_offset) > low_before)

    def settled_replica(self, node_id: int, broker_epoch: int) -> RemoteReplica | None:
        """A follower whose further fetches from the log's end would change nothing here; None where they might.

        All that it has is committed, and all that is here: no fetch moves the high watermark.
        """
        log, others = self.log, self._others
        if others is None or self.offline or log.high_watermark != log.log_end_offset:
            return None
        return others.settled(node_id, log.log_end_offset, broker_epoch)

    def maybe_advance_high_watermark(self) -> bool:
        """Raises the high watermark as far as the replicas allow; returns whether it moved."""
        log = self.log
        committed = log.log_end_offset
        if self._others is not None:
            committed = self._others.committed_end(committed, log.high_watermark, self.min_insync_replicas)
        if committed <= log.high_watermark:
            return False
        log.update_high_watermark(committed)
        return True

    # ---- the ISR

    @property
    def remote_replicas(self) -> Iterable[RemoteReplica]:
        """The replicas on other brokers, as this broker knows them while it leads."""
        return () if self._others is None else self._others.remotes.values()

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether an acknowledgement by all means as many replicas as min.insync.replicas asks for."""
        others = self._others
        return others is None or len(others.state.maximal_isr) >= self.min_insync_replicas

    def maybe_shrink_isr(self) -> bool:
        """Proposes an ISR without the replicas that lag; returns whether the high watermark has moved, since one
        outside the ISR need not be waited for any more. Called every half of replica.lag.time.max.ms."""
        others = self._others
        if others is None or self.offline:
            return False
        others.maybe_shrink(self.log.log_end_offset)
        return self.maybe_advance_high_watermark()

    def _isr_answered(self) -> None:
        others = self._others
        if others is None:
            return  # another broker leads meanwhile
        self.isr = others.state.isr
        self.partition_epoch = others.epochs[1]
        if not self.offline:
            self.maybe_advance_high_watermark()
        if self._moved is not None:
            self._moved(self.key)

    # ---- as a follower: broker.replica.fetcher.ports.FollowedLog

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def log_start_offset(self) -> int:
        return self.log.log_start_offset

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def latest_epoch(self) -> int:
        """The leader epoch of the last record, or that began last; -1 where the log knows of none."""
        return self.log.latest_epoch

    def append_as_follower(self, records: bytes | memoryview, leader_epoch: int) -> LogAppendInfo:
        """Appends batches with the leader's offsets, up to the first of an epoch above `leader_epoch`.

        Raises what UnifiedLog.append_as_follower raises, and ApiError for a partition that is offline.
        """
        if self.offline:
            self.check_online()
        assert not self.is_truncating, f"{self} is being truncated"
        info = self.log.append_as_follower(records, leader_epoch)
        if self.mirror is not None:
            self.mirror()
        return info

    def update_follower_high_watermark(self, high_watermark: int) -> bool:
        """Raises the high watermark to the leader's, within the log end; returns whether it moved."""
        log = self.log
        before = log.high_watermark
        return high_watermark > before and log.update_high_watermark(high_watermark) > before

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        """Moves the log start offset up to the leader's; returns whether it moved."""
        return self.log.maybe_increment_log_start_offset(
            offset, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED
        )

    def truncate_to(self, offset: int) -> Pending[Exception | None]:
        """Makes `offset` the log end, durably, in a thread; the replica is closed meanwhile (`is_truncating`)."""
        assert self._truncator is not None, "only members of a cluster truncate"
        return self._truncator.truncate_to(self, offset)

    def truncate_fully_and_start_at(self, offset: int) -> Pending[Exception | None]:
        """Empties the log in the same way; the next record gets `offset`."""
        assert self._truncator is not None, "only members of a cluster truncate"
        return self._truncator.truncate_fully_and_start_at(self, offset)

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

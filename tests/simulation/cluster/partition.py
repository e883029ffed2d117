"""ReplicatedPartition: a replica of a partition as leader and as follower, by the rules of kafka.cluster.Partition.

Leader: ISR with one change under way, high watermark over the maximal ISR, replicas that fetch. Follower: what the
fetchers need (FollowedLog), with truncations in a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.pending import Pending
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.wire import Uuid
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import (
    EpochEndOffset,
    FetchIsolation,
    LogAppendInfo,
    LogStartOffsetIncrementReason,
    TopicPartition,
)
from tests.simulation.cluster.controller import IsrAnswer, IsrRequest

NO_EPOCH: Final = -1
UNKNOWN: Final = -1
NEVER: Final = -1e18

RESENT: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.UNKNOWN_SERVER_ERROR)
NOT_APPLIED: Final = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)


class Surroundings(Protocol):
    """What a partition needs of its broker."""

    @property
    def node_id(self) -> int: ...

    @property
    def lag_max_s(self) -> float: ...

    def now(self) -> float: ...

    def min_isr(self) -> int: ...

    def broker_epoch(self) -> int: ...

    def alive_epoch(self, broker_id: int) -> int | None:
        """The epoch of a broker that is neither fenced nor in controlled shutdown, by this broker's metadata."""

    def alter_isr(self, request: IsrRequest) -> Pending[IsrAnswer]: ...

    def moved(self, partition: Any) -> None:
        """Offsets, the role or the ISR changed: waiting requests are looked at."""


class RemoteReplica:
    """A follower, as its leader knows it from its fetches."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.reset(now=0.0, leader_end=0, is_new_leader=True, in_sync=False)
        self.broker_epoch = UNKNOWN

    def reset(self, *, now: float, leader_end: int, is_new_leader: bool, in_sync: bool) -> None:
        """Kafka's Replica.resetReplicaState."""
        self.last_caught_up = now if in_sync else NEVER
        if is_new_leader:
            self.end = UNKNOWN
            self.log_start = UNKNOWN
            self.leader_end_at_fetch = UNKNOWN
            self.last_fetch = NEVER
            self.broker_epoch = UNKNOWN
        else:
            self.leader_end_at_fetch = leader_end
            self.last_fetch = now if in_sync else NEVER

    def fetched(self, offset: int, log_start: int, leader_end: int, now: float, broker_epoch: int) -> None:
        """Kafka's Replica.updateFetchStateOrThrow."""
        if offset >= leader_end:
            self.last_caught_up = max(self.last_caught_up, now)
        elif offset >= self.leader_end_at_fetch:
            self.last_caught_up = max(self.last_caught_up, self.last_fetch)
        self.end = offset
        self.log_start = log_start
        self.leader_end_at_fetch = max(leader_end, self.leader_end_at_fetch)
        self.last_fetch = now
        self.broker_epoch = broker_epoch

    def is_caught_up(self, leader_end: int, now: float, lag_max_s: float) -> bool:
        return self.end == leader_end or now - self.last_caught_up <= lag_max_s


class IsrChange:
    """A change of the ISR that the controller has not answered yet; the maximal ISR is what counts meanwhile."""

    def __init__(self, maximal: frozenset[int], proposed: tuple[int, ...]) -> None:
        self.maximal = maximal
        self.proposed = proposed


class ReplicatedPartition:
    """One replica."""

    def __init__(
        self,
        key: TopicPartition,
        topic_id: Uuid,
        *,
        log: UnifiedLog,
        logs: LogManager,
        runner: BlockingRunner,
        broker: Surroundings,
    ) -> None:
        self.key = key
        self.topic_id = topic_id
        self.log = log
        self._logs = logs
        self._runner = runner
        self._broker = broker
        self.leader_id = -1
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = NO_EPOCH
        self.replicas: tuple[int, ...] = ()
        self.isr: tuple[int, ...] = ()
        self.change: IsrChange | None = None
        self.remotes: dict[int, RemoteReplica] = {}
        self.epoch_start: int | None = None
        self.is_truncating = False
        self.when_free: list[Callable[[], None]] = []

    # ---- roles

    @property
    def is_leader(self) -> bool:
        return self.leader_id == self._broker.node_id

    def make_leader(self, image: PartitionImage) -> None:
        """Applies metadata in which this broker leads."""
        if image.partition_epoch < self.partition_epoch:
            return
        now = self._broker.now()
        was_leader = self.is_leader
        is_new_epoch = image.leader_epoch > self.leader_epoch
        self.leader_id = self._broker.node_id
        self._assign(image)
        others = set(image.replicas) - {self.leader_id}
        self.remotes = {node: self.remotes.get(node) or RemoteReplica(node) for node in others}
        if is_new_epoch:
            end = self.log.log_end_offset
            self.log.assign_epoch_start_offset(image.leader_epoch, end)
            self.leader_epoch = image.leader_epoch
            self.epoch_start = end
            for remote in self.remotes.values():
                remote.reset(
                    now=now, leader_end=end, is_new_leader=not was_leader, in_sync=remote.node_id in image.isr
                )
        self.maybe_increment_high_watermark()
        self._broker.moved(self)

    def make_follower(self, image: PartitionImage) -> bool:
        """Applies metadata in which another broker leads, or none; returns whether the leader epoch rose."""
        if image.partition_epoch < self.partition_epoch:
            return False
        rose = image.leader_epoch > self.leader_epoch
        self.leader_id = image.leader
        self._assign(image)
        self.leader_epoch = image.leader_epoch
        self.remotes = {}
        self.isr = ()
        self.epoch_start = None
        self._broker.moved(self)
        return rose

    def _assign(self, image: PartitionImage) -> None:
        self.replicas = image.replicas
        self.isr = image.isr
        self.partition_epoch = image.partition_epoch
        self.change = None

    def resign(self) -> None:
        """This broker has no replica any more."""
        self.leader_id = -1
        self._broker.moved(self)

    # ---- the leader: appends and reads

    def check_leader(self, epoch: int) -> None:
        """Raises ApiError unless this broker leads in the epoch that was asked for (-1: any)."""
        if epoch not in (NO_EPOCH, self.leader_epoch):
            older = epoch < self.leader_epoch
            raise ApiError(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH, str(self.key)
            )
        if not self.is_leader or self.is_truncating:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, str(self.key))

    @property
    def effective_min_isr(self) -> int:
        return min(self._broker.min_isr(), len(self.replicas))

    @property
    def maximal_isr(self) -> frozenset[int]:
        return frozenset(self.isr) if self.change is None else self.change.maximal

    def append_as_leader(self, records: bytes, acks: int) -> LogAppendInfo:
        self.check_leader(NO_EPOCH)
        if acks == -1 and len(self.isr) < self.effective_min_isr:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS, str(self.key))
        info = self.log.append_as_leader(records, self.leader_epoch)
        self.maybe_increment_high_watermark()
        self._broker.moved(self)
        return info

    def is_replicated(self, required_offset: int) -> ErrorCode | None:
        """NONE or an error where acks=all has its answer; None while it waits."""
        if self.log.high_watermark < required_offset:
            return None
        enough = len(self.maximal_isr) >= self.effective_min_isr
        return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def read(
        self,
        wanted: Any,
        *,
        replica_id: int,
        replica_epoch: int,
        max_bytes: int,
        isolation: FetchIsolation,
        updates: bool,
    ) -> FetchResponse.PartitionData:
        """Reads for a follower (replica_id of 0 or more) or a consumer; `updates` what is known of the follower.

        Raises ApiError and OffsetOutOfRangeError.
        """
        self.check_leader(wanted.current_leader_epoch)
        log = self.log
        remote = None
        if replica_id >= 0:
            remote = self.remotes.get(replica_id)
            if remote is None:
                raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH, f"{replica_id} has no replica")
        end_before = log.log_end_offset
        data = FetchResponse.PartitionData(
            partition_index=self.key[1],
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.log_start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if wanted.last_fetched_epoch >= 0:
            known = self.end_offset_for_epoch(wanted.last_fetched_epoch)
            if known is None or wanted.fetch_offset < log.log_start_offset:
                raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE, str(self.key))
            if known.epoch < wanted.last_fetched_epoch or known.end_offset < wanted.fetch_offset:
                data.diverging_epoch = FetchResponse.EpochEndOffset(
                    epoch=known.epoch, end_offset=known.end_offset
                )
                return data
        info = log.read(wanted.fetch_offset, max_bytes, isolation, min_one_message=True)
        data.records = info.records.read()
        if remote is not None and updates:
            self._follower_fetched(remote, wanted, end_before, replica_epoch)
        return data

    def _follower_fetched(
        self, remote: RemoteReplica, wanted: Any, end_before: int, replica_epoch: int
    ) -> None:
        if replica_epoch != UNKNOWN:
            registered = self._broker.alive_epoch(remote.node_id)
            if registered is not None and replica_epoch < registered:
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "an earlier process of the broker")
        remote.fetched(
            wanted.fetch_offset,
            wanted.fetcher_log_start_offset,
            end_before,
            self._broker.now(),
            replica_epoch,
        )
        self.maybe_expand_isr(remote)
        self.maybe_increment_high_watermark()
        self._broker.moved(self)

    def maybe_increment_high_watermark(self) -> bool:
        """Kafka's Partition.maybeIncrementLeaderHW."""
        if len(self.isr) < self.effective_min_isr:
            return False
        now = self._broker.now()
        end = new = self.log.log_end_offset
        maximal = self.maximal_isr
        for remote in self.remotes.values():
            if remote.end < new and (
                remote.node_id in maximal
                or (remote.is_caught_up(end, now, self._broker.lag_max_s) and self.is_eligible(remote))
            ):
                new = remote.end
        if new <= self.log.high_watermark:
            return False
        self.log.update_high_watermark(new)
        return True

    # ---- the leader: its ISR

    def is_eligible(self, remote: RemoteReplica) -> bool:
        """Unfenced, not shutting down, and its fetches are of the process that the metadata know."""
        epoch = self._broker.alive_epoch(remote.node_id)
        return epoch is not None and remote.broker_epoch in (UNKNOWN, epoch)

    def is_in_sync_enough(self, remote: RemoteReplica) -> bool:
        return (
            remote.end >= self.log.high_watermark
            and self.epoch_start is not None
            and remote.end >= self.epoch_start
        )

    def maybe_expand_isr(self, remote: RemoteReplica) -> None:
        if self.change is not None or remote.node_id in self.isr:
            return
        if self.is_in_sync_enough(remote) and self.is_eligible(remote):
            proposed = (*self.isr, remote.node_id)
            self._propose(IsrChange(frozenset(proposed), proposed))

    def maybe_shrink_isr(self) -> None:
        """Called periodically."""
        if not self.is_leader or self.change is not None:
            return
        now, end = self._broker.now(), self.log.log_end_offset
        out = [
            node
            for node in self.isr
            if node in self.remotes and not self.remotes[node].is_caught_up(end, now, self._broker.lag_max_s)
        ]
        if out:
            self._propose(IsrChange(frozenset(self.isr), tuple(node for node in self.isr if node not in out)))

    def _propose(self, change: IsrChange) -> None:
        self.change = change
        epochs = tuple(
            (node, self._broker.broker_epoch() if node == self.leader_id else self.remotes[node].broker_epoch)
            for node in change.proposed
        )
        request = IsrRequest(
            self.leader_id,
            self._broker.broker_epoch(),
            self.key,
            self.leader_epoch,
            self.partition_epoch,
            epochs,
        )
        self._broker.alter_isr(request).add_done_callback(lambda answer: self._answered(change, answer))

    def _answered(self, change: IsrChange, answer: IsrAnswer) -> None:
        if self.change is not change:
            return
        if answer.error in NOT_APPLIED:
            self.change = None
        elif answer.error in RESENT:
            self._propose(change)
        elif answer.error is ErrorCode.NONE:
            if answer.leader_epoch != self.leader_epoch or answer.partition_epoch < self.partition_epoch:
                return
            self.isr = answer.isr
            self.partition_epoch = answer.partition_epoch
            self.change = None
            self.maybe_increment_high_watermark()
            self._broker.moved(self)

    # ---- the follower: FollowedLog

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
        return self.log.latest_epoch

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset | None:
        return self.log.end_offset_for_epoch(epoch)

    def append_as_follower(self, records: bytes | memoryview, leader_epoch: int) -> LogAppendInfo:
        assert not self.is_truncating
        assert not self.is_leader, "a fetcher appends to the log of a leader"
        return self.log.append_as_follower(records, leader_epoch)

    def update_follower_high_watermark(self, high_watermark: int) -> bool:
        before = self.log.high_watermark
        return high_watermark > before and self.log.update_high_watermark(high_watermark) > before

    def maybe_increment_log_start_offset(self, offset: int) -> bool:
        return self.log.maybe_increment_log_start_offset(
            offset, LogStartOffsetIncrementReason.LEADER_OFFSET_INCREMENTED
        )

    def truncate_to(self, offset: int) -> Pending[Exception | None]:
        return self._truncate(lambda: self._logs.truncate_to(self.log, offset))

    def truncate_fully_and_start_at(self, offset: int) -> Pending[Exception | None]:
        return self._truncate(lambda: self._logs.truncate_fully_and_start_at(self.log, offset))

    def _truncate(self, work: Callable[[], object]) -> Pending[Exception | None]:
        assert not self.is_truncating
        assert not self.is_leader, "a fetcher truncates the log of a leader"
        self.is_truncating = True

        def ended() -> None:
            self.is_truncating = False

        return in_thread(self._runner, work, ended, self.when_free)


def in_thread(
    runner: BlockingRunner,
    work: Callable[[], object],
    ended: Callable[[], None],
    when_free: list[Callable[[], None]],
) -> Pending[Exception | None]:
    """Truncates in a thread; then come `ended`, the fetcher's turn, and the changes of role that had to wait."""
    pending: Pending[Exception | None] = Pending()

    def done(error: BaseException | None) -> None:
        assert error is None or isinstance(error, Exception)
        ended()
        pending.complete(error)
        waiting = list(when_free)
        when_free.clear()
        for change in waiting:
            change()

    runner.submit(lambda: (work(), None)[1], done)
    return pending

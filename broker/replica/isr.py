"""What the leader of a partition with several replicas knows of the others, and how it changes the ISR.

The state of the ISR, and what each event leads to (a proposal is at the controller while the state is pending):

    state            | event                                        | next state
    -----------------+----------------------------------------------+--------------------------------------------------
    Committed        | a fetch: the replica may join                | PendingExpand, proposed
    Committed        | the periodic check: a replica lags           | PendingShrink, proposed
    pending          | answer NONE, not of an older epoch           | Committed, as the controller says
    pending          | answer: surely not applied (NOT_APPLIED)     | Committed, as before the proposal
    pending          | answer: the metadata say more (AWAIT_IMAGE)  | the same, until the image
    pending          | any other error                              | the same, proposed again
    any              | an image of a later partition epoch          | Committed, as the image says
    any              | an image of an earlier or the same one       | the same

An image of the same partition epoch says what is known already, from the answer to a proposal; a later proposal may be
on its way. So from the proposal of a new member on, its log end holds back the high watermark until it is certain that
it has not joined; a member that lags does so until the controller has removed it.

Source: kafka.cluster.Partition, Replica, PartitionState.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol

from barnabas.broker.metadata.cluster import BrokerRegistration
from barnabas.broker.metadata.topics import RECOVERED, PartitionImage
from barnabas.broker.pending import Pending
from barnabas.broker.replica.replication_traffic import ReplicationTraffic
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.wire import Uuid

UNKNOWN_OFFSET: Final = -1
UNKNOWN_EPOCH: Final = -1
"""A broker epoch that is not checked: the fetch or the answer names none."""

_NEVER_MS: Final = -(1 << 62)

NOT_APPLIED: Final = (ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED)
"""Answers to a proposal that the controller surely has not applied."""

AWAIT_IMAGE: Final = (
    ErrorCode.NEW_LEADER_ELECTED,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.INVALID_UPDATE_VERSION,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Answers after which a repetition would be answered alike: the metadata have moved on, or will."""


class IsrProposal(NamedTuple):
    """An ISR that a leader proposes to the controller, as AlterPartition names it.

    `isr` are node ids with the broker epochs that their fetches named (UNKNOWN_EPOCH where none was seen).
    """

    topic_id: Uuid
    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    leader_recovery_state: int = RECOVERED


class IsrChangeResult(NamedTuple):
    """The controller's answer to a proposal for one partition; the other fields count only without an error."""

    error: ErrorCode
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()


class IsrChanges(Protocol):
    """Brings proposals to the controller. Source: kafka.server.AlterPartitionManager."""

    def submit(self, proposal: IsrProposal) -> Pending[IsrChangeResult]:
        """Completes with the controller's answer, however long that takes, and never before it returns."""


@dataclass(frozen=True, slots=True, eq=False)
class Committed:
    """The ISR that the controller has committed."""

    isr: tuple[int, ...]

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.isr


@dataclass(frozen=True, slots=True, eq=False)
class PendingExpand:
    """`new` may be in the ISR already; `committed` is what it was before."""

    committed: Committed
    new: int
    proposal: IsrProposal

    @property
    def isr(self) -> tuple[int, ...]:
        return self.committed.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return (*self.committed.isr, self.new)


@dataclass(frozen=True, slots=True, eq=False)
class PendingShrink:
    """`out` may be out of the ISR already; `committed` is what it was before."""

    committed: Committed
    out: tuple[int, ...]
    proposal: IsrProposal

    @property
    def isr(self) -> tuple[int, ...]:
        return self.committed.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        return self.committed.isr


IsrState = Committed | PendingExpand | PendingShrink


class RestingIn(Protocol):
    """A fetch session in which a partition rests: each of its requests says that the follower has everything."""

    last_used_ms: int
    """When the last request came, by the monotonic clock."""


class RemoteReplica:
    """A replica on another broker, from its own fetches. Offsets are exclusive ends (-1: unknown), times those of the
    monotonic clock. `broker_epoch` is None before the first fetch.

    While it rests in a fetch session (broker.fetch.session) its fetches are not read: it is at the log's end, and the
    session's last request is its last fetch."""

    __slots__ = (
        "_last_caught_up_ms",
        "_last_fetch_ms",
        "_session",
        "broker_epoch",
        "leader_end_at_fetch",
        "log_end_offset",
        "log_start_offset",
        "node_id",
    )

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self._last_caught_up_ms = _NEVER_MS
        self._session: RestingIn | None = None
        self._forget()

    def _forget(self) -> None:
        self.log_end_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.leader_end_at_fetch = UNKNOWN_OFFSET
        self._last_fetch_ms = _NEVER_MS
        self.broker_epoch: int | None = None

    def reset(self, now_ms: int, epoch_start: int, *, is_new_leader: bool, is_in_sync: bool) -> None:
        """A leader epoch begins. A leader that was the leader before keeps what the replica has."""
        self._session = None
        self._last_caught_up_ms = now_ms if is_in_sync else _NEVER_MS
        if is_new_leader:
            self._forget()
            return
        self.leader_end_at_fetch = epoch_start
        self._last_fetch_ms = now_ms if is_in_sync else _NEVER_MS

    def fetched(
        self, fetch_offset: int, log_start_offset: int, leader_end: int, now_ms: int, broker_epoch: int
    ) -> None:
        """The replica has all before `fetch_offset`; `leader_end` was the leader's log end before that was read."""
        if fetch_offset >= leader_end:
            self._last_caught_up_ms = max(self.last_caught_up_ms, now_ms)
        elif fetch_offset >= self.leader_end_at_fetch:
            self._last_caught_up_ms = max(self.last_caught_up_ms, self.last_fetch_ms)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.leader_end_at_fetch = max(leader_end, self.leader_end_at_fetch)
        self._last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch

    def rest(self, session: RestingIn) -> None:
        """From here on the requests of `session` are fetches from the log's end, which does not move."""
        self._end_rest()
        self._session = session

    def wake(self, session: RestingIn) -> None:
        """The log's end is about to move, or the requests of `session` are read again, or come no more."""
        if self._session is session:
            self._end_rest()

    def _end_rest(self) -> None:
        self._last_fetch_ms = self.last_fetch_ms
        self._last_caught_up_ms = self.last_caught_up_ms
        self._session = None

    @property
    def last_fetch_ms(self) -> int:
        return self._or_last_request(self._last_fetch_ms)

    @property
    def last_caught_up_ms(self) -> int:
        return self._or_last_request(self._last_caught_up_ms)

    def _or_last_request(self, ms: int) -> int:
        """`ms`, or the last request of the session in which it rests, whichever was later."""
        return ms if self._session is None else max(ms, self._session.last_used_ms)

    def is_caught_up(self, leader_end: int, now_ms: int, lag_max_ms: int) -> bool:
        return self.log_end_offset == leader_end or now_ms - self.last_caught_up_ms <= lag_max_ms


class LeaderContext:
    """What all partitions that this broker leads share.

    `broker_epoch` is this broker's own, `now_ms` the monotonic clock, `lag_max_ms` replica.lag.time.max.ms. `brokers`
    are those of the newest image: the ReplicaManager sets them before it applies the image to partitions. `traffic`
    counts what is followed here, too.
    """

    __slots__ = (
        "broker_epoch",
        "brokers",
        "changes",
        "expands",
        "failed",
        "lag_max_ms",
        "now_ms",
        "shrinks",
        "traffic",
    )

    def __init__(
        self,
        changes: IsrChanges,
        *,
        broker_epoch: Callable[[], int],
        now_ms: Callable[[], int],
        lag_max_ms: int,
    ) -> None:
        self.changes = changes
        self.broker_epoch = broker_epoch
        self.now_ms = now_ms
        self.lag_max_ms = lag_max_ms
        self.brokers: Mapping[int, BrokerRegistration] = {}
        self.traffic = ReplicationTraffic()
        self.shrinks = self.expands = self.failed = 0
        """IsrShrinksPerSec, IsrExpandsPerSec, FailedIsrUpdatesPerSec, as counts."""

    def alive_epoch(self, node_id: int) -> int | None:
        """The epoch of a broker that is not fenced, None of others."""
        known = self.brokers.get(node_id)
        return None if known is None or known.fenced else known.epoch

    def is_eligible(self, replica: RemoteReplica) -> bool:
        """Whether the controller would let the replica into the ISR: its broker is unfenced and not about to stop, and
        the fetches are those of the process that registered (KIP-903)."""
        known = self.brokers.get(replica.node_id)
        if known is None or known.fenced or known.in_controlled_shutdown:
            return False
        return replica.broker_epoch in (UNKNOWN_EPOCH, known.epoch)


class PartitionLeader:
    """The leader's view of a partition's replicas on other brokers, and its ISR.

    Without a `context` (a node that is alone, whose metadata name other nodes) nothing is proposed, and no replica
    outside the ISR is waited for. `changed` is called when the answer to a proposal has changed the state.
    """

    __slots__ = ("_changed", "_context", "_node_id", "_place", "epoch_start", "epochs", "remotes", "state")

    def __init__(
        self,
        node_id: int,
        topic_id: Uuid,
        partition: int,
        context: LeaderContext | None,
        changed: Callable[[], None],
    ) -> None:
        self._node_id = node_id
        self._place = topic_id, partition
        self._context = context
        self._changed = changed
        self.remotes: dict[int, RemoteReplica] = {}
        self.epochs = (-1, -1)
        """The leader epoch and the partition epoch."""
        self.epoch_start = 0
        """The log end when this leader epoch began."""
        self.state: IsrState = Committed(())

    def lead(self, image: PartitionImage, epoch_start: int) -> None:
        """Follows an image in which this broker leads, in an epoch that began at the log end `epoch_start`.

        Older ones, and what is known already, change nothing. A broker that begins to lead makes a new PartitionLeader:
        it knows nothing of the other replicas.
        """
        leader_epoch, partition_epoch = self.epochs
        epochs = image.leader_epoch, image.partition_epoch
        if image.partition_epoch < partition_epoch or epochs == self.epochs:
            return
        now_ms = self._context.now_ms() if self._context is not None else 0
        before, self.remotes = self.remotes, {}
        for node in image.replicas:
            if node == self._node_id:
                continue
            known = before.get(node)
            remote = self.remotes[node] = RemoteReplica(node) if known is None else known
            if known is None or image.leader_epoch > leader_epoch:
                in_sync = node in image.isr
                remote.reset(now_ms, epoch_start, is_new_leader=known is None, is_in_sync=in_sync)
        self.epoch_start = epoch_start
        self.epochs = epochs
        self.state = Committed(image.isr)

    # ---- the high watermark

    def committed_end(self, log_end: int, high_watermark: int, min_isr: int) -> int:
        """Up to where (exclusive) all replicas that are or may be in the ISR have the records.

        `high_watermark`, which is that of now, where it must not move: too few replicas are in sync.
        """
        state = self.state
        if len(state.isr) < min_isr:
            return high_watermark
        maximal = state.maximal_isr
        end = log_end
        for remote in self.remotes.values():
            if remote.log_end_offset < end and (
                remote.node_id in maximal or self._may_join_soon(remote, log_end)
            ):
                end = remote.log_end_offset
        return end

    def _may_join_soon(self, remote: RemoteReplica, log_end: int) -> bool:
        """A replica outside the ISR that would never get in if the high watermark ran ahead of it."""
        context = self._context
        return (
            context is not None
            and remote.is_caught_up(log_end, context.now_ms(), context.lag_max_ms)
            and context.is_eligible(remote)
        )

    def low_watermark(self, log_start: int) -> int:
        """The lowest log start offset of `log_start` and the replicas on brokers that are alive."""
        context = self._context
        return min(
            (
                log_start,
                *(
                    remote.log_start_offset
                    for remote in self.remotes.values()
                    if context is None or context.alive_epoch(remote.node_id) is not None
                ),
            )
        )

    # ---- fetches

    def is_of_older_process(self, node_id: int, broker_epoch: int) -> bool:
        """Whether a fetch is that of a process of the broker which has been restarted since (KIP-903)."""
        if self._context is None or broker_epoch == UNKNOWN_EPOCH:
            return False
        registered = self._context.alive_epoch(node_id)
        return registered is not None and broker_epoch < registered

    def fetched(
        self,
        node_id: int,
        fetch_offset: int,
        log_start_offset: int,
        *,
        leader_end: int,
        broker_epoch: int,
        high_watermark: int,
    ) -> None:
        """A replica's fetch, as RemoteReplica.fetched has it; the replica may join the ISR then."""
        remote = self.remotes[node_id]
        now_ms = self._context.now_ms() if self._context is not None else 0
        remote.fetched(fetch_offset, log_start_offset, leader_end, now_ms, broker_epoch)
        self.maybe_expand(remote, high_watermark)

    def settled(self, node_id: int, log_end: int, broker_epoch: int) -> RemoteReplica | None:
        """The replica, where a further fetch from the log's end would change nothing here; None where it might.

        It has everything, as the process fetched it that has registered, and is in the ISR that the controller has
        committed.
        """
        remote, state = self.remotes.get(node_id), self.state
        if (
            remote is None
            or remote.log_end_offset != log_end
            or remote.broker_epoch != broker_epoch
            or not isinstance(state, Committed)
            or node_id not in state.isr
            or self.is_of_older_process(node_id, broker_epoch)
        ):
            return None
        return remote

    # ---- the ISR

    def maybe_expand(self, remote: RemoteReplica, high_watermark: int) -> None:
        """Proposes the replica for the ISR where it has caught up; called after each of its fetches."""
        context, state = self._context, self.state
        if (
            context is None
            or not isinstance(state, Committed)
            or remote.node_id in state.isr
            or remote.log_end_offset < max(high_watermark, self.epoch_start)
            or not context.is_eligible(remote)
        ):
            return
        proposal = self._proposal(context, (*state.isr, remote.node_id))
        self._propose(context, PendingExpand(state, remote.node_id, proposal))

    def maybe_shrink(self, log_end: int) -> tuple[int, ...]:
        """Proposes an ISR without the replicas that lag, and returns those; called every half of the longest lag."""
        context, state = self._context, self.state
        if context is None or not isinstance(state, Committed):
            return ()
        now_ms = context.now_ms()
        out = tuple(
            node
            for node in state.isr
            if node != self._node_id and self._lags(node, log_end, now_ms, context.lag_max_ms)
        )
        if out:
            proposal = self._proposal(context, (node for node in state.isr if node not in out))
            self._propose(context, PendingShrink(state, out, proposal))
        return out

    def _lags(self, node: int, log_end: int, now_ms: int, lag_max_ms: int) -> bool:
        remote = self.remotes.get(node)
        return remote is None or not remote.is_caught_up(log_end, now_ms, lag_max_ms)

    def _proposal(self, context: LeaderContext, isr: Iterable[int]) -> IsrProposal:
        return IsrProposal(
            *self._place, *self.epochs, tuple((node, self._broker_epoch(context, node)) for node in isr)
        )

    def _broker_epoch(self, context: LeaderContext, node: int) -> int:
        if node == self._node_id:
            return context.broker_epoch()
        remote = self.remotes.get(node)
        return UNKNOWN_EPOCH if remote is None or remote.broker_epoch is None else remote.broker_epoch

    def _propose(self, context: LeaderContext, state: PendingExpand | PendingShrink) -> None:
        self.state = state
        context.changes.submit(state.proposal).add_done_callback(partial(self._answered, context, state))

    def _answered(
        self, context: LeaderContext, state: PendingExpand | PendingShrink, result: IsrChangeResult
    ) -> None:
        if self.state is not state:
            return  # the image, or another leader, was faster
        if result.error is ErrorCode.NONE:
            leader_epoch, partition_epoch = self.epochs
            if result.leader_epoch != leader_epoch or result.partition_epoch < partition_epoch:
                return
            if isinstance(state, PendingExpand):
                context.expands += 1
            else:
                context.shrinks += 1
            self.epochs = leader_epoch, result.partition_epoch
            self.state = Committed(result.isr)
            self._changed()
            return
        context.failed += 1
        if result.error in NOT_APPLIED:
            self.state = state.committed
            self._changed()
        elif result.error not in AWAIT_IMAGE:
            self._propose(context, state)

"""The model controller: what Kafka's controller decides about brokers and partitions, in one process that never fails.

Source: org.apache.kafka.controller.ReplicationControlManager, PartitionChangeBuilder, BrokerHeartbeatManager,
ClusterControlManager; KIP-966 for eligible leader replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas.broker.metadata.topics import NO_LEADER, RECOVERED, RECOVERING, PartitionImage
from barnabas.broker.pending import Pending, completed
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.storage.offsets import TopicPartition
from tests.simulation.clock import Clock

NO_CHANGE = -2


class BrokerView(NamedTuple):
    """A broker, as the metadata have it."""

    epoch: int
    fenced: bool
    in_controlled_shutdown: bool


class View(NamedTuple):
    """The metadata at an offset."""

    offset: int
    brokers: dict[int, BrokerView]
    partitions: dict[TopicPartition, PartitionImage]


class IsrRequest(NamedTuple):
    """AlterPartition for one partition: the new ISR with the broker epochs that the leader knows, or -1."""

    broker_id: int
    broker_epoch: int
    key: TopicPartition
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]


class IsrAnswer(NamedTuple):
    """What the controller made of it."""

    error: ErrorCode
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1


class _Broker:
    def __init__(self, epoch: int, incarnation: int, now: float) -> None:
        self.epoch = epoch
        self.incarnation = incarnation
        self.fenced = True
        self.in_controlled_shutdown = False
        self.seen = now


class ModelController:
    """All metadata. `changed` is called after every change, with the partition's key and image before and after."""

    def __init__(
        self,
        clock: Clock,
        *,
        elr: bool,
        unclean: bool,
        min_isr: int,
        session_s: float,
        changed: Callable[[TopicPartition, PartitionImage | None, PartitionImage], None],
    ) -> None:
        self._clock = clock
        self.elr = elr
        self.unclean = unclean
        self.min_isr = min_isr
        self._session_s = session_s
        self._changed = changed
        self._offset = 0
        self.brokers: dict[int, _Broker] = {}
        self.partitions: dict[TopicPartition, PartitionImage] = {}
        self._waiting: list[tuple[int, Pending[View]]] = []
        self.is_up = True
        self.unclean_elections: set[TopicPartition] = set()

    def receive(self, callback: Callable[[], None]) -> None:
        callback()

    # ---- the metadata log

    def view(self) -> View:
        brokers = {
            one: BrokerView(broker.epoch, broker.fenced, broker.in_controlled_shutdown)
            for one, broker in self.brokers.items()
        }
        return View(self._offset, brokers, dict(self.partitions))

    def view_after(self, offset: int) -> Pending[View]:
        """The metadata as soon as they are newer than `offset`."""
        if self._offset > offset:
            return completed(self.view())
        pending: Pending[View] = Pending()
        self._waiting.append((offset, pending))
        return pending

    def _publish(self) -> None:
        self._offset += 1
        waiting, self._waiting = self._waiting, []
        view = self.view()
        for _, pending in waiting:
            pending.complete(view)

    # ---- brokers

    def register(self, broker_id: int, incarnation: int, previous_epoch: int) -> int:
        """Returns the broker's epoch, or -1 while the session of another process with its id lasts."""
        known = self.brokers.get(broker_id)
        now = self._clock.now
        if known is not None and known.incarnation == incarnation:
            return known.epoch
        if known is not None and not known.fenced and known.seen + self._session_s > now:
            return -1
        clean = known is not None and previous_epoch == known.epoch
        self.brokers[broker_id] = _Broker(self._offset + 1, incarnation, now)
        if known is not None:
            self._remove_from_isrs(broker_id, also_from_elr=self.elr and not clean)
        self._publish()
        return self.brokers[broker_id].epoch

    def heartbeat(
        self, broker_id: int, epoch: int, offset: int, *, ready: bool, wants_shutdown: bool
    ) -> tuple[bool, bool] | None:
        """(fenced, may shut down), or None for a stale broker epoch."""
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            return None
        broker.seen = self._clock.now
        if wants_shutdown:
            return broker.fenced, self._controlled_shutdown(broker_id, broker)
        if broker.fenced and ready and offset >= broker.epoch:
            broker.fenced = False
            self._elect_where_missing()
            self._publish()
        return broker.fenced, False

    def _controlled_shutdown(self, broker_id: int, broker: _Broker) -> bool:
        if broker.fenced:
            return True
        if not broker.in_controlled_shutdown:
            broker.in_controlled_shutdown = True
            self._remove_from_isrs(broker_id)
            self._publish()
        if any(partition.leader == broker_id for partition in self.partitions.values()):
            return False
        broker.fenced = True
        self._publish()
        return True

    def expire_sessions(self) -> None:
        """Fences brokers that were not heard of for a session; called now and then."""
        for broker_id, broker in sorted(self.brokers.items()):
            if not broker.fenced and broker.seen + self._session_s <= self._clock.now:
                broker.fenced = True
                self._remove_from_isrs(broker_id)
                self._publish()
        if self.unclean:
            self._elect_where_missing()

    def is_active(self, broker_id: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    # ---- partitions

    def create(self, key: TopicPartition, replicas: Iterable[int]) -> None:
        nodes = tuple(replicas)
        isr = tuple(node for node in nodes if self.is_active(node))
        image = PartitionImage(
            key[1], replicas=nodes, isr=isr, leader=isr[0], leader_epoch=0, partition_epoch=0
        )
        self.partitions[key] = image
        self._changed(key, None, image)
        self._publish()

    def alter_partition(self, request: IsrRequest) -> IsrAnswer:
        """Kafka's checks in their order."""
        broker = self.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            return IsrAnswer(ErrorCode.STALE_BROKER_EPOCH)
        partition = self.partitions.get(request.key)
        if partition is None:
            return IsrAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        error = self._reject(request, partition)
        if error is not None:
            return IsrAnswer(error)
        self._change(request.key, isr=tuple(node for node, _ in request.isr), leader=None)
        self._complete_reassignment(request.key)
        self._publish()
        after = self.partitions[request.key]
        if after.leader != request.broker_id or after.leader_epoch != request.leader_epoch:
            return IsrAnswer(ErrorCode.NEW_LEADER_ELECTED)
        return IsrAnswer(ErrorCode.NONE, after.leader_epoch, after.isr, after.partition_epoch)

    def _reject(self, request: IsrRequest, partition: PartitionImage) -> ErrorCode | None:
        isr = [node for node, _ in request.isr]
        if (
            request.leader_epoch > partition.leader_epoch
            or request.partition_epoch > partition.partition_epoch
        ):
            return ErrorCode.NOT_CONTROLLER
        if request.leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if request.broker_id != partition.leader:
            return ErrorCode.INVALID_REQUEST
        if request.partition_epoch < partition.partition_epoch:
            return ErrorCode.INVALID_UPDATE_VERSION
        if (
            len(set(isr)) != len(isr)
            or not set(isr) <= set(partition.replicas)
            or request.broker_id not in isr
        ):
            return ErrorCode.INVALID_REQUEST
        for node, epoch in request.isr:
            if not self.is_active(node) or epoch not in (-1, self.brokers[node].epoch):
                return ErrorCode.INELIGIBLE_REPLICA
        return None

    def reassign(self, key: TopicPartition, target: Iterable[int]) -> None:
        """Begins to move a partition to the replicas of `target`; it ends when those are in sync."""
        partition = self.partitions[key]
        wanted = tuple(target)
        now = tuple(node for node in partition.replicas if node not in partition.adding_replicas)
        adding = tuple(node for node in wanted if node not in now)
        removing = tuple(node for node in now if node not in wanted)
        self._change(key, replicas=wanted + removing, adding=adding, removing=removing, leader=None)
        self._complete_reassignment(key)
        self._publish()

    def _complete_reassignment(self, key: TopicPartition) -> None:
        partition = self.partitions[key]
        if not partition.adding_replicas and not partition.removing_replicas:
            return
        if not set(partition.adding_replicas) <= set(partition.isr):
            return
        replicas = tuple(node for node in partition.replicas if node not in partition.removing_replicas)
        isr = tuple(node for node in partition.isr if node in replicas)
        if not isr or len(isr) < min(self.min_isr, len(replicas)):
            return
        leader = partition.leader
        if leader not in isr:
            leader = next((node for node in replicas if node in isr and self.is_active(node)), NO_LEADER)
            if leader == NO_LEADER:
                return
        # A replica leaves, so the leader's epoch rises even where the leader stays: its HW rules have changed.
        self._change(
            key,
            replicas=replicas,
            adding=(),
            removing=(),
            isr=isr,
            leader=leader,
            bump=bool(partition.removing_replicas),
        )

    def prefer(self, key: TopicPartition) -> None:
        """A preferred leader election."""
        partition = self.partitions[key]
        preferred = partition.replicas[0]
        if partition.leader != preferred and preferred in partition.isr and self.is_active(preferred):
            self._change(key, leader=preferred)
            self._publish()

    def _remove_from_isrs(self, broker_id: int, *, also_from_elr: bool = False) -> None:
        for key, partition in sorted(self.partitions.items()):
            if broker_id not in partition.isr and broker_id != partition.leader:
                if also_from_elr and broker_id in partition.elr:
                    elr = tuple(node for node in partition.elr if node != broker_id)
                    self._change(key, elr=elr, leader=None)
                continue
            isr = tuple(node for node in partition.isr if node != broker_id)
            if not isr and not self.elr:
                isr = partition.isr  # the last one stays, and is the one that may lead again
            gone = (broker_id,) if also_from_elr else ()
            leader = None if partition.leader != broker_id else NO_LEADER
            if leader == NO_LEADER:
                leader = self._elected(key, isr, partition, gone)
            self._change(key, isr=isr, leader=leader, unclean_gone=gone)
            self._take_from_elr(key)

    def _elected(
        self, key: TopicPartition, isr: tuple[int, ...], partition: PartitionImage, gone: tuple[int, ...] = ()
    ) -> int:
        for node in partition.replicas:
            if node in isr and self.is_active(node):
                return node
        return NO_LEADER

    def _elect_where_missing(self) -> None:
        for key, partition in sorted(self.partitions.items()):
            if partition.leader != NO_LEADER:
                continue
            leader = self._elected(key, partition.isr, partition)
            if leader != NO_LEADER:
                self._change(key, leader=leader)
            else:
                self._take_from_elr(key)

    def _take_from_elr(self, key: TopicPartition) -> None:
        """Where no replica in sync can lead: an eligible one (KIP-966), or with unclean elections any."""
        partition = self.partitions[key]
        if partition.leader != NO_LEADER:
            return
        if not partition.isr:
            for node in partition.replicas:
                if node in partition.elr and self.is_active(node):
                    self._change(key, isr=(node,), leader=node)
                    return
            known = partition.last_known_elr
            if (
                not partition.elr
                and len(known) == 1
                and known[0] in partition.replicas
                and self.is_active(known[0])
            ):
                # Kafka counts it as unclean: its machine may have lost what was not synced. Here only processes die.
                self._change(key, isr=known, leader=known[0], recovery=RECOVERING)
                return
        if self.unclean:
            for node in partition.replicas:
                if self.is_active(node):
                    self.unclean_elections.add(key)
                    self._change(key, isr=(node,), leader=node, recovery=RECOVERING, elr=())
                    return

    def _change(
        self,
        key: TopicPartition,
        *,
        leader: int | None,
        isr: tuple[int, ...] | None = None,
        replicas: tuple[int, ...] | None = None,
        adding: tuple[int, ...] | None = None,
        removing: tuple[int, ...] | None = None,
        elr: tuple[int, ...] | None = None,
        recovery: int | None = None,
        unclean_gone: tuple[int, ...] = (),
        bump: bool = False,
    ) -> None:
        before = self.partitions[key]
        new_isr = before.isr if isr is None else isr
        new_replicas = before.replicas if replicas is None else replicas
        if self.elr and elr is None:
            elr = self._eligible(before, new_isr, new_replicas, unclean_gone)
        last_known: tuple[int, ...] | None = None
        if self.elr and new_isr:
            last_known = () if len(new_isr) >= min(self.min_isr, len(new_replicas)) else None
        elif self.elr and before.leader != NO_LEADER:
            last_known = (before.leader,)
        elects = leader is not None and (leader != before.leader or bump)
        record = PartitionChangeRecord(
            isr=None if isr is None else list(isr),
            leader=leader if elects and leader is not None else NO_CHANGE,
            replicas=None if replicas is None else list(replicas),
            adding_replicas=None if adding is None else list(adding),
            removing_replicas=None if removing is None else list(removing),
            eligible_leader_replicas=None if elr is None else list(elr),
            last_known_elr=None if last_known is None else list(last_known),
            leader_recovery_state=RECOVERED if recovery is None else recovery,
        )
        after = before.changed(record)
        self.partitions[key] = after
        self._changed(key, before, after)

    def _eligible(
        self,
        before: PartitionImage,
        isr: tuple[int, ...],
        replicas: tuple[int, ...],
        gone: tuple[int, ...],
    ) -> tuple[int, ...]:
        if len(isr) >= min(self.min_isr, len(replicas)):
            return ()
        known = dict.fromkeys((*before.elr, *before.isr))
        return tuple(node for node in known if node not in isr and node in replicas and node not in gone)

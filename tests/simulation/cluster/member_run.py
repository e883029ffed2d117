"""MemberRun: a process of the simulated cluster with the broker's own ReplicaManager and ReplicaReader.

Roles, truncations, ISR changes, waiting produces and fetches are all the broker's. The simulation supplies the
metadata, as image and delta, and the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from barnabas.broker.fetch.context import FetchParams
from barnabas.broker.fetch.reader import ReplicaReader
from barnabas.broker.metadata.cluster import BrokerRegistration
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.topics import TopicImage
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.pending import Pending
from barnabas.broker.probes import BrokerTopicProbe
from barnabas.broker.replica.append import AppendError, AppendResult
from barnabas.broker.replica.fetcher.fetch_state import InitialFetchState
from barnabas.broker.replica.fetcher.ports import FollowedLog
from barnabas.broker.replica.isr import IsrChangeResult, IsrProposal, LeaderContext
from barnabas.broker.replica.partition import Partition
from barnabas.broker.replica.recovered_gaps import truncate_at_gaps
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.broker.waiting.purgatory import DelayedOperationPurgatory
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.wire import ZERO_UUID, Uuid
from barnabas.storage.offsets import FetchIsolation, LogAppendInfo, TopicPartition
from tests.simulation.cluster.broker import LAG_MAX_S, Appended, Process, Run, name_of, topic_id_of
from tests.simulation.cluster.controller import IsrAnswer, IsrRequest, View
from tests.simulation.cluster.partition import Surroundings

if TYPE_CHECKING:
    from tests.simulation.cluster.broker import SimulatedBroker

SLICES_APART_S: Final = 0.001
"""Requests and responses come meanwhile."""


class Changes:
    """IsrChanges over the simulated network. `keys` finds a partition by its topic id and index."""

    def __init__(self, broker: Surroundings, keys: Callable[[Uuid, int], TopicPartition]) -> None:
        self._broker = broker
        self._keys = keys

    def submit(self, proposal: IsrProposal) -> Pending[IsrChangeResult]:
        broker = self._broker
        request = IsrRequest(
            broker.node_id,
            broker.broker_epoch(),
            self._keys(proposal.topic_id, proposal.partition),
            proposal.leader_epoch,
            proposal.partition_epoch,
            proposal.isr,
        )
        return broker.alter_isr(request).then(_result)


def _result(answer: IsrAnswer) -> IsrChangeResult:
    return IsrChangeResult(answer.error, answer.leader_epoch, answer.partition_epoch, answer.isr)


def leader_context(broker: Surroundings, keys: Callable[[Uuid, int], TopicPartition]) -> LeaderContext:
    """What the partitions of one process share."""
    return LeaderContext(
        Changes(broker, keys),
        broker_epoch=broker.broker_epoch,
        now_ms=lambda: round(broker.now() * 1000),
        lag_max_ms=round(broker.lag_max_s * 1000),
    )


class Image(NamedTuple):
    """The part of a MetadataImage that the ReplicaManager reads."""

    topics: Mapping[str, TopicImage]
    brokers: Mapping[int, BrokerRegistration]


def image_of(view: View) -> Image:
    names = {topic for topic, _ in view.partitions}
    topics = {
        name: TopicImage(
            name,
            topic_id_of(name),
            {index: image for (topic, index), image in sorted(view.partitions.items()) if topic == name},
        )
        for name in sorted(names)
    }
    return Image(topics, cast("Mapping[int, BrokerRegistration]", view.brokers))


def delta_of(before: View, after: View) -> MetadataDelta:
    """What changed between two views, as the replay of the records between them would say it."""
    delta = MetadataDelta()
    known = {topic for topic, _ in before.partitions}
    for (topic, index), image in after.partitions.items():
        old = before.partitions.get((topic, index))
        if topic not in known:
            delta.created_topics.add(topic)
        elif old is None or old.partition_epoch != image.partition_epoch:
            delta.changed_topics.setdefault(topic, set()).add(index)
    delta.broker_changes.update(
        node for node, broker in after.brokers.items() if before.brokers.get(node) != broker
    )
    return delta


class _Fetchers:
    """Fetchers of ReplicaRoles, over the ReplicaFetcherManager."""

    def __init__(self, run: MemberRun) -> None:
        self._run = run

    def add(self, partition: Partition, leader: BrokerRegistration, offset: int) -> bool:
        address = NodeAddress(str(partition.leader_id), 9092)
        self._run.fetchers.add(
            partition, InitialFetchState(partition.leader_id, address, partition.leader_epoch, offset)
        )
        return True

    def remove(self, keys: Iterable[TopicPartition]) -> None:
        self._run.fetchers.remove(keys)

    def close_idle(self) -> None:
        self._run.fetchers.close_idle()


class MemberRun(Run):
    """See the module."""

    def __init__(self, machine: SimulatedBroker, process: Process, rng: Random) -> None:
        super().__init__(machine, process, rng)
        self.replicas = ReplicaManager(
            log_manager=self.logs,
            node_id=self.node_id,
            runner=process,
            produce_purgatory=DelayedOperationPurgatory("Produce", process),
            fetch_purgatory=DelayedOperationPurgatory("Fetch", process),
            delete_records_purgatory=DelayedOperationPurgatory("DeleteRecords", process),
            probe=BrokerTopicProbe(),
            log_dir_failed=lambda log_dir: self.failed.append(f"broker {self.node_id}: {log_dir} failed"),
            context=leader_context(self, lambda topic_id, index: (name_of(topic_id), index)),
        )
        assert self.replicas.roles is not None
        self.replicas.roles.fetchers = _Fetchers(self)
        self.partitions = self.replicas._partitions  # the very one
        self._reader = ReplicaReader(self.replicas, BrokerTopicProbe())
        self.replicas.slice_size = 1
        self._is_applying = False
        self._newer: View | None = None
        """The newest metadata that came while others were applied."""

    # ---- metadata

    def _apply(self, view: View) -> None:
        if view.offset <= self.view.offset:
            return
        if self._is_applying:
            self._newer = view
            return
        before, self.view = self.view, view
        image = cast(MetadataImage, image_of(view))
        if before.offset < 0:  # the first image holds the registration: a start opens the logs then
            truncate_at_gaps(self.logs, image, self.node_id)
        self._is_applying = True
        self._go_on(self.replicas.apply_in_slices(image, delta_of(before, view)))

    def _go_on(self, slices: Iterator[None]) -> None:
        """Something else happens between the slices of an image."""
        for _ in slices:
            self.process.call_later(SLICES_APART_S, lambda: self._go_on(slices))
            return
        self._is_applying = False
        if self.view.offset >= self.epoch:
            self.is_ready = True
        newer, self._newer = self._newer, None
        if newer is not None:
            self._apply(newer)

    def _shrink(self) -> None:
        self.replicas.maybe_shrink_isrs()
        self.process.call_later(LAG_MAX_S / 2, self._shrink)

    # ---- FollowerEvents

    def follower_appended(self, log: FollowedLog, info: LogAppendInfo, size: int) -> None:
        self.replicas.follower_appended(cast(Partition, log), info, size)

    def follower_offsets_moved(self, log: FollowedLog) -> None:
        self.replicas.follower_offsets_moved(cast(Partition, log))

    def follower_failed(self, log: FollowedLog, error: Exception) -> None:
        super().follower_failed(log, error)
        self.replicas.follower_failed(cast(Partition, log), error)

    # ---- what it serves

    def produce(
        self, key: TopicPartition, records: bytes, acks: int, timeout_s: float
    ) -> Appended | Pending[Appended]:
        entry = (*key, ZERO_UUID, records, None)
        results = self.replicas.append_records([entry], acks, round(timeout_s * 1000))
        return results.then(_appended) if isinstance(results, Pending) else _appended(results)

    def delete_records(self, key: TopicPartition, offset: int) -> int | None:
        partition = self.replicas.find(*key)
        if partition is None or not partition.is_leader:
            return None
        self.replicas.delete_records({key: min(offset, partition.log.high_watermark)}, 100)
        return partition.log.log_start_offset

    def fetch(self, request: FetchRequest, version: int) -> FetchResponse | Pending[FetchResponse]:
        names = {topic_id_of(topic): topic for topic, _ in self.view.partitions}
        replica_id = request.replica_state.replica_id if version >= 15 else request.replica_id
        context = self.fetch_manager.context(request, version, names.get, is_follower=replica_id >= 0)
        if context.error is not ErrorCode.NONE:
            return context.response(())
        params = FetchParams(
            replica_id=replica_id,
            max_wait_ms=request.max_wait_ms,
            min_bytes=request.min_bytes,
            max_bytes=request.max_bytes,
            isolation=FetchIsolation.LOG_END if replica_id >= 0 else FetchIsolation.HIGH_WATERMARK,
            replica_epoch=request.replica_state.replica_epoch,
            only_leader=replica_id >= 0,
        )
        answers = self._reader.read(params, context)
        if isinstance(answers, Pending):
            return answers.then(lambda later: _read_now(context.response(later)))
        return _read_now(context.response(answers))

    def leader_of(self, topic: str, index: int, epoch: int) -> Any:
        partition = self.replicas.partition(topic, index)
        partition.check_leader(epoch)
        return partition


def _appended(results: list[AppendResult]) -> Appended:
    [result] = results
    if isinstance(result, AppendError):
        return Appended(result.error)
    return Appended(ErrorCode.NONE, result.first_offset)


def _read_now(response: FetchResponse) -> FetchResponse:
    """Reads the records from the files, as sending the response does."""
    for topic in response.responses:
        for data in topic.partitions:
            records = data.records
            if records is not None and not isinstance(records, (bytes, memoryview)):
                data.records = records.read()
    return response

"""A cluster of transaction coordinators under a manual clock: partitions, state logs, and a lossy network.

Three nodes run the real coordinators, marker channels and verifications. What is modelled is around them: the copies of
the state log (a new leader has what was committed, and perhaps more), images that reach each node in its own time,
leaders of data partitions, and channels that lose requests or responses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.coordinator.dependencies import RuntimeDependencies
from barnabas.broker.coordinator.partition_log import LogLimits
from barnabas.broker.coordinator.records import TRANSACTION_RECORDS
from barnabas.broker.coordinator.runtime import CoordinatorRuntime
from barnabas.broker.coordinator.transaction.broker_channels import BrokerChannels
from barnabas.broker.coordinator.transaction.coordinator import TransactionCoordinator
from barnabas.broker.coordinator.transaction.marker_channels import TransactionMarkerChannelManager
from barnabas.broker.coordinator.transaction.metadata import TV_2
from barnabas.broker.coordinator.transaction.remote_coordinators import RemoteCoordinators
from barnabas.broker.coordinator.transaction.rules import ProducerIdAndEpoch
from barnabas.broker.coordinator.transaction.shard import TransactionCoordinatorShard
from barnabas.broker.coordinator.transaction.verification import AddPartitionsToTxnManager, VerificationProbe
from barnabas.broker.coordinator.txn import TransactionMarker
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.internal_topics import TRANSACTION_STATE
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.node_client.channel import NodeClientError, NodeUnavailable
from barnabas.broker.pending import Pending, all_of, completed
from barnabas.broker.replica.append import AppendResult
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.topic_records import FeatureLevelRecord
from barnabas.protocol.messages.transactions import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from barnabas.protocol.records.batch import RecordBatch, stamp
from barnabas.protocol.schema import Message
from barnabas.storage.log.txn_verification import VerificationGuard, VerificationStates
from barnabas.storage.offsets import FileRecords, LogAppendInfo, TopicPartition
from tests.broker.cluster_images import INSIDE, election, registration, topic_records
from tests.broker.coordinator.runtime_harness import BytesFile
from tests.broker.fakes import ManualTimer

if TYPE_CHECKING:
    from barnabas.broker.node_client.channel import NodeChannel

NODES: Final = (1, 2, 3)
STATE_PARTITIONS: Final = 2
DATA: Final[tuple[TopicPartition, ...]] = tuple(("t", index) for index in range(5))
MAX_BATCH_BYTES: Final = 1_000_000
MAX_DELAY_S: Final = 0.3
Codes = Mapping[TopicPartition, ErrorCode]


class DataPartition:
    """A partition that transactions write to, with the rules of ProducerStateManager. `ends` has how each transaction
    ended here."""

    def __init__(self) -> None:
        self.epochs: dict[int, int] = {}
        self.coordinator_epochs: dict[int, int] = {}
        self.open: dict[int, int] = {}
        self.ends: dict[int, bool] = {}
        self.verifications = VerificationStates()

    def guard(self, producer_id: int, epoch: int, *, bumps: bool) -> VerificationGuard | None:
        """None where the transaction is open already."""
        if producer_id in self.open and self.epochs[producer_id] == epoch:
            return None
        return self.verifications.start(producer_id, 0, epoch, supports_epoch_bump=bumps, now_ms=0)

    def write(self, producer_id: int, epoch: int, transaction: int, guard: VerificationGuard | None) -> bool:
        if epoch < self.epochs.get(producer_id, -1):
            return False
        if producer_id not in self.open and not self.verifications.allows(producer_id, guard):
            return False
        assert self.open.setdefault(producer_id, transaction) == transaction, (
            "it writes into an older transaction"
        )
        self.epochs[producer_id] = epoch
        self.verifications.clear_after(producer_id, epoch, is_marker=False)
        return True

    def end(self, marker: TransactionMarker) -> ErrorCode:
        known = self.epochs.get(marker.producer_id, -1)
        is_open = marker.producer_id in self.open
        if marker.producer_epoch < known or (
            marker.transaction_version >= TV_2 and is_open and marker.producer_epoch == known
        ):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < self.coordinator_epochs.get(marker.producer_id, -1):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.epochs[marker.producer_id] = marker.producer_epoch
        self.coordinator_epochs[marker.producer_id] = marker.coordinator_epoch
        if is_open:
            self.ends[self.open.pop(marker.producer_id)] = marker.committed
        self.verifications.clear_after(marker.producer_id, marker.producer_epoch, is_marker=True)
        return ErrorCode.NONE


class StateLogs:
    """PartitionLogs of one node: its copies of the state partitions. The cluster commits what is appended."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.copies: list[list[bytes]] = [[] for _ in range(STATE_PARTITIONS)]
        self.waiting: list[list[tuple[int, Callable[[], None]]]] = [[] for _ in range(STATE_PARTITIONS)]

    def end(self, index: int) -> int:
        return sum(RecordBatch(batch).record_count for batch in self.copies[index])

    def check(self, partition: int, *, is_needed: bool = True) -> LogLimits:
        return LogLimits(self.end(partition), MAX_BATCH_BYTES)

    def check_batch(self, partition: int, batch: bytes, guard: VerificationGuard | None) -> None:
        raise AssertionError("this topic has no transactions")

    def start_verification(
        self, partition: int, producer_id: int, epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        raise AssertionError("this topic has no transactions")

    def append(
        self,
        partition: int,
        batch: bytes,
        *,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendResult | Pending[AppendResult]:
        first = self.end(partition)
        stamped = bytearray(batch)
        stamp(stamped, 0, first, 0)
        self.copies[partition].append(bytes(stamped))
        answer: Pending[AppendResult] = Pending()
        info = LogAppendInfo(first, self.end(partition) - 1, 0)
        self.waiting[partition].append((len(self.copies[partition]), partial(answer.complete, info)))
        self.cluster.commit_later(partition)
        return answer

    def uncommitted(self, partition: int) -> Pending[object] | None:
        if len(self.copies[partition]) <= len(self.cluster.committed[partition]):
            return None
        answer: Pending[object] = Pending()
        self.waiting[partition].append((len(self.copies[partition]), partial(answer.complete, None)))
        self.cluster.commit_later(partition)
        return answer

    def committed(self, partition: int, count: int) -> None:
        """The high watermark has reached the end of the first `count` batches."""
        due = [done for end, done in self.waiting[partition] if end <= count]
        self.waiting[partition] = [entry for entry in self.waiting[partition] if entry[0] > count]
        for done in due:
            done()

    def contents(self, partition: int) -> Sequence[FileRecords]:
        return [FileRecords(BytesFile(batch), 0, len(batch)) for batch in self.copies[partition]]

    def read_failed(self, partition: int, error: OSError) -> None:
        raise AssertionError(error)


class LocalPartitions:
    """A MarkerWriter: the data partitions, as their leaders or former leaders answer."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self._cluster = cluster
        self._node_id = node_id

    def write(self, marker: TransactionMarker, partitions: Sequence[TopicPartition]) -> Pending[Codes]:
        return completed({partition: self._write(marker, partition) for partition in partitions})

    def _write(self, marker: TransactionMarker, partition: TopicPartition) -> ErrorCode:
        if self._cluster.leader(*partition) != self._node_id:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self._cluster.chance(0.1):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        return self._cluster.data[partition].end(marker)


class Channel:
    """A NodeChannel from one node to another, which loses requests and responses."""

    def __init__(self, cluster: Cluster, source: Node, target: int) -> None:
        self._cluster = cluster
        self._source = source
        self._target = target

    def send(
        self, request: Message, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Pending[Message | NodeClientError]:
        if isinstance(request, WriteTxnMarkersRequest):
            for marker in request.markers:
                self._source.check_may_send(marker.producer_id, marker.coordinator_epoch)
            version = self._cluster.random.choice((1, 2)) if version is None else version
        assert version is not None
        data = encode(request, version)
        answer: Pending[Message | NodeClientError] = Pending()
        cluster, pair = self._cluster, (self._source.node_id, self._target)

        def lost() -> None:
            answer.complete(NodeUnavailable("lost"))

        def arrive() -> None:
            if not cluster.is_connected(*pair) or cluster.chance(0.15):
                cluster.later(lost)
                return
            served = cluster.nodes[self._target].serve(decode(type(request), version, data))
            served.add_done_callback(respond)

        def respond(response: Message) -> None:
            if not cluster.is_connected(*pair) or cluster.chance(0.15):
                cluster.later(lost)
            else:
                cluster.later(lambda: answer.complete(response))

        cluster.later(arrive)
        return answer

    def close(self) -> None:
        """Nothing: no connection is kept."""


class Node:
    """One broker: the coordinator, its markers and verifications, and the requests that it serves for others."""

    def __init__(self, cluster: Cluster, node_id: int) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.image = MetadataImage.empty()
        self.applied = 0
        self.logs = StateLogs(cluster, node_id)
        self.local = LocalPartitions(cluster, node_id)
        brokers = BrokerChannels(node_id, lambda: self.image, INSIDE, self._channel_to, lambda: 30_000)
        self.markers = TransactionMarkerChannelManager(brokers, self.local)
        self.runtime: CoordinatorRuntime[TransactionCoordinatorShard] = CoordinatorRuntime(
            RuntimeDependencies(
                topic=TRANSACTION_STATE,
                new_shard=lambda context: TransactionCoordinatorShard(context, self.markers, cluster),
                records=TRANSACTION_RECORDS,
                logs=self.logs,
                config=cluster.config,
                loop=cluster.clock,
                runner=InlineRunner(),
                now_ms=lambda: int(cluster.clock.now * 1000),
                image=lambda: self.image,
                load_buffer_size=lambda: 1 << 16,
                write_timeout_ms=lambda: 5_000,
            ),
            node_id,
        )
        self.coordinator = TransactionCoordinator(self.runtime, cluster.config, cluster)
        self.verifier = AddPartitionsToTxnManager(
            self.coordinator, VerificationProbe(), cluster.clock.time, RemoteCoordinators(brokers)
        )

    def _channel_to(self, node_id: int) -> NodeChannel:
        return Channel(self.cluster, self, node_id)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.image = image
        self.applied += 1
        for index in range(STATE_PARTITIONS):
            if image.topics[TRANSACTION_STATE].partitions[index].leader != self.node_id:
                self.logs.waiting[index].clear()  # as HighWatermarkListener leaves
        self.runtime.apply(image, delta)
        self.markers.apply(image, delta)

    def check_may_send(self, producer_id: int, coordinator_epoch: int) -> None:
        """A node sends markers only of transactions that it coordinates as far as it knows, in its newest epoch."""
        (index,) = {
            shard.context.partition
            for shard in self.runtime.shards()
            for metadata in shard.transactions.values()
            if metadata.producer_id == producer_id and metadata.is_ending
        }
        partition = self.image.topics[TRANSACTION_STATE].partitions[index]
        assert (partition.leader, partition.leader_epoch) == (self.node_id, coordinator_epoch)

    # ---- requests of other brokers

    def serve(self, request: Message) -> Pending[Any]:
        if isinstance(request, WriteTxnMarkersRequest):
            return completed(self._write_markers(request))
        assert isinstance(request, AddPartitionsToTxnRequest)
        answers = [self._add_or_verify(transaction) for transaction in request.transactions]
        return all_of(answers).then(
            lambda results: AddPartitionsToTxnResponse(results_by_transaction=results)
        )

    def _write_markers(self, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
        results = []
        for each in request.markers:
            marker = TransactionMarker(
                each.producer_id,
                each.producer_epoch,
                each.coordinator_epoch,
                each.transaction_result,
                each.transaction_version,
            )
            wanted = [(topic.name, index) for topic in each.topics for index in topic.partition_indexes]
            codes: dict[TopicPartition, ErrorCode] = {}
            self.local.write(marker, wanted).add_done_callback(codes.update)
            results.append(
                WriteTxnMarkersResponse.WritableTxnMarkerResult(
                    producer_id=each.producer_id,
                    topics=[
                        WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                            name=name,
                            partitions=[
                                WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(
                                    partition_index=index, error_code=code
                                )
                            ],
                        )
                        for (name, index), code in codes.items()
                    ],
                )
            )
        return WriteTxnMarkersResponse(markers=results)

    def _add_or_verify(
        self, transaction: AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction
    ) -> Pending[AddPartitionsToTxnResponse.AddPartitionsToTxnResult]:
        name = transaction.transactional_id
        producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
        wanted = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
        if transaction.verify_only:
            answer = self.coordinator.verify_partitions(name, producer, wanted)
        else:
            added = self.coordinator.add_partitions(name, producer, wanted, TV_2)
            answer = added.then(lambda code: dict.fromkeys(wanted, code))
        return answer.then(partial(_result, name))


def _result(name: str, codes: Codes) -> AddPartitionsToTxnResponse.AddPartitionsToTxnResult:
    return AddPartitionsToTxnResponse.AddPartitionsToTxnResult(
        transactional_id=name,
        topic_results=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
                name=topic,
                results_by_partition=[
                    AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=code
                    )
                ],
            )
            for (topic, index), code in codes.items()
        ],
    )


class Cluster:
    """The truth: images in their order, committed batches, leaders; and the ProducerIds of all nodes."""

    def __init__(self, random: Random, transaction_version: int) -> None:
        self.random = random
        self.clock = ManualTimer()
        self.config = BrokerConfig.of(None, overrides=[])
        self.calm = False
        self.committed: list[list[bytes]] = [[] for _ in range(STATE_PARTITIONS)]
        self.data = {partition: DataPartition() for partition in DATA}
        self.cut_off: int | None = None
        self._next_id = 1000
        self.image = MetadataImage.empty()
        self.published: list[tuple[MetadataImage, MetadataDelta]] = []
        self.nodes = {node_id: Node(self, node_id) for node_id in NODES}
        self.publish(
            FeatureLevelRecord(name="transaction.version", feature_level=transaction_version),
            *map(registration, NODES),
            *topic_records(TRANSACTION_STATE, [random.choice(NODES) for _ in range(STATE_PARTITIONS)]),
            *topic_records("t", [random.choice(NODES) for _ in DATA]),
        )
        for node_id in NODES:
            self.deliver(node_id)

    def chance(self, probability: float) -> bool:
        return not self.calm and self.random.random() < probability

    def later(self, callback: Callable[[], object]) -> None:
        self.clock.call_at(self.clock.now + self.random.uniform(0, MAX_DELAY_S), callback)

    def is_connected(self, source: int, target: int) -> bool:
        return self.cut_off not in (source, target)

    # ---- metadata

    def publish(self, *records: Message) -> None:
        self.image, delta = replayed(self.image, records)
        self.published.append((self.image, delta))

    def deliver(self, node_id: int) -> None:
        """Lets a node apply all images up to now."""
        node = self.nodes[node_id]
        while node.applied < len(self.published):
            node.apply(*self.published[node.applied])

    def leader(self, topic: str, index: int) -> int:
        return self.image.topics[topic].partitions[index].leader

    def elect(self, topic: str, index: int, node_id: int) -> None:
        """A new leader of a state partition has what is committed, and perhaps more of what its predecessor wrote."""
        if topic == TRANSACTION_STATE and node_id != self.leader(topic, index):
            self.deliver(node_id)  # it follows the leader before, or it would not be in the ISR
            predecessor = self.nodes[self.leader(topic, index)].logs.copies[index]
            kept = self.random.randint(len(self.committed[index]), len(predecessor))
            self.nodes[node_id].logs.copies[index] = predecessor[:kept]
        self.publish(election(topic, index, node_id))

    # ---- the state log

    def commit_later(self, index: int) -> None:
        self.later(lambda: self.commit(index))

    def commit(self, index: int) -> None:
        """The followers have all that the leader has, unless it is cut off from them."""
        leader = self.leader(TRANSACTION_STATE, index)
        if leader == self.cut_off:
            self.commit_later(index)
            return
        logs = self.nodes[leader].logs
        self.committed[index] = list(logs.copies[index])
        logs.committed(index, len(self.committed[index]))

    # ---- producer ids

    def generate(self) -> Pending[int | None]:
        self._next_id += 1
        return completed(self._next_id)

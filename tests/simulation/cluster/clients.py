"""Producers and consumers of the simulated cluster. They find leaders in metadata that may be old."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.storage.offsets import TopicPartition
from tests.simulation.clock import Clock, Wait, sleep
from tests.simulation.cluster.broker import Appended, SimulatedBroker
from tests.simulation.cluster.checks import Checks, ViolationError
from tests.simulation.cluster.controller import ModelController, View
from tests.simulation.cluster.network import Network
from tests.storage.helpers import make_batch

TIMEOUT_S = 1.5
FENCING = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH,
)


class Client:
    """What producers and consumers have in common."""

    def __init__(  # noqa: PLR0917
        self,
        name: str,
        clock: Clock,
        network: Network,
        controller: ModelController,
        brokers: dict[int, SimulatedBroker],
        checks: Checks,
        rng: Random,
    ) -> None:
        self.name = name
        self.clock = clock
        self.network = network
        self.controller = controller
        self.brokers = brokers
        self.checks = checks
        self.rng = rng
        self.stopping = False
        self._view: View = controller.view()

    def leader(self, key: TopicPartition) -> int:
        """The leader, as this client knows it; it asks again now and then, and after an error."""
        if self.rng.random() < 0.05:
            self.refresh()
        return self._view.partitions[key].leader

    def refresh(self) -> None:
        """Asks a random broker for the metadata, which may be behind."""
        runs = [broker.run for broker in self.brokers.values() if broker.run is not None]
        view = self.rng.choice(runs).view if runs else self.controller.view()
        if view.offset >= self._view.offset and set(self._view.partitions) <= set(view.partitions):
            self._view = view


class Producer(Client):
    """An idempotent producer with one batch in flight. `sent` are its values in order, by partition."""

    acks = -1
    new_id: Callable[[], int]

    def begin(self, keys: list[TopicPartition], new_id: Callable[[], int]) -> None:
        self.keys = keys
        self.new_id = new_id
        self.producer_id = new_id()
        self.sequences = dict.fromkeys(keys, 0)
        self.sent: dict[TopicPartition, list[bytes]] = {key: [] for key in keys}
        self.count = 0
        self.is_idle = False

    async def run(self) -> None:
        while not self.stopping:
            key = self.rng.choice(self.keys)
            values = [self._value() for _ in range(self.rng.choice((1, 1, 1, 2, 3)))]
            await self._produce(key, values)
            await sleep(self.clock, self.rng.choice((0.001, 0.01, 0.05, 0.3)))
        self.is_idle = True

    def _value(self) -> bytes:
        self.count += 1
        return f"{self.name}-{self.count}".encode() + bytes(self.rng.choice((0, 0, 60)))

    async def _produce(self, key: TopicPartition, values: list[bytes]) -> None:
        self.sent[key] += values
        while True:
            sequence = self.sequences[key]
            records = make_batch(*values, producer=(self.producer_id, 0, sequence))
            answer = await self._try(key, records)
            if answer is not None and answer.error is ErrorCode.NONE:
                self.sequences[key] += len(values)
                if self.acks == -1:
                    self.checks.acknowledged(key, answer.offset, values)
                return
            if answer is not None and answer.error in FENCING and not answer.of_former_leader:
                if self.acks == -1 and not self.checks.ledger(key).is_unclean:
                    raise ViolationError(f"{key}: {self.name} got {answer.error.name} with acks=all")
                self.producer_id = self.new_id()  # records were lost, which acks=1 allows
                self.sequences = dict.fromkeys(self.keys, 0)
                return
            self.refresh()
            await sleep(self.clock, self.rng.choice((0.005, 0.02, 0.1)))

    async def _try(self, key: TopicPartition, records: bytes) -> Appended | None:
        leader = self.leader(key)
        if leader < 0:
            return None
        broker, acks = self.brokers[leader], self.acks

        def serve() -> object:
            if broker.run is None:
                return None
            answer = broker.run.produce(key, records, acks, 1.0)
            if isinstance(answer, Appended) and answer.error in FENCING:
                return answer._replace(of_former_leader=not self._leads(leader, key))
            return answer

        result: Appended | None = await Wait(self.network.rpc(self.name, leader, serve, TIMEOUT_S))
        return result

    def _leads(self, node: int, key: TopicPartition) -> bool:
        """Whether a broker leads the partition, and not only thinks so. One that has not heard yet of the next leader
        does not know the sequence numbers that the next one took, so it finds gaps: in Kafka, too."""
        run, partition = self.brokers[node].run, self.controller.partitions[key]
        return run is not None and run.partitions[key].leader_epoch == partition.leader_epoch


class Consumer(Client):
    """Reads one partition from its start on, again and again."""

    async def run(self, key: TopicPartition, topic_id: bytes) -> None:
        offset = 0
        while not self.stopping:
            leader = self.leader(key)
            data = None if leader < 0 else await self._fetch(key, topic_id, leader, offset)
            if data is None or data.error_code not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                self.refresh()
                await sleep(self.clock, 0.05)
                continue
            if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                offset = max(0, self.checks.ledger(key).start)
                await sleep(self.clock, 0.05)
                continue
            offset = self._take(key, data, offset)
            await sleep(self.clock, self.rng.choice((0.02, 0.2)))

    def _take(self, key: TopicPartition, data: FetchResponse.PartitionData, offset: int) -> int:
        records = data.records
        assert isinstance(records, (bytes, memoryview))
        found: dict[int, bytes] = {}
        next_offset = offset
        for batch in batches(records):
            assert isinstance(batch, RecordBatch)
            found.update(
                {record.offset: record.value or b"" for record in batch.records() if record.offset >= offset}
            )
            next_offset = batch.next_offset
        self.checks.consumed(key, found)
        return next_offset

    async def _fetch(
        self, key: TopicPartition, topic_id: bytes, leader: int, offset: int
    ) -> FetchResponse.PartitionData | None:
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            session_epoch=-1,
            topics=[
                FetchRequest.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        FetchRequest.FetchPartition(
                            partition=key[1], fetch_offset=offset, partition_max_bytes=2000
                        )
                    ],
                )
            ],
        )
        broker = self.brokers[leader]

        def serve() -> object:
            return None if broker.run is None else broker.run.fetch(request, 17)

        response: FetchResponse | None = await Wait(self.network.rpc(self.name, leader, serve, TIMEOUT_S))
        if response is None or not response.responses:
            return None
        return response.responses[0].partitions[0]

"""Clients that write: idempotent producers, transactional ones, and chains that consume, process and produce."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.transactions import InitProducerIdRequest
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.wire import Uuid
from tests.simulation.classic_consumer import ClassicConsumer
from tests.simulation.consumer import Consumer
from tests.simulation.modern_consumer import ModernConsumer
from tests.simulation.network import DisconnectedError
from tests.simulation.node import Node, TopicPartition
from tests.simulation.producing import (
    AbortableError,
    FatalError,
    TransactionalProducer,
    produce_request,
    transactional_late_apis,
    transactional_needs,
)
from tests.simulation.reading import Read

if TYPE_CHECKING:
    from tests.simulation.world import World


class Writer(Node):
    """Writes to the partitions of a topic until it is stopped."""

    def __init__(self, world: World, name: str, topics: Sequence[str]) -> None:
        super().__init__(world, name)
        self.topic_names = list(topics)
        self.stopping = False
        self.stopped = False
        self.known: dict[str, tuple[Uuid, int]] = {}
        self._count = 0

    async def learn_topic(self) -> None:
        """Returns once the topic exists."""
        while True:
            try:
                self.known = await self.topics(self.topic_names)
            except DisconnectedError:
                self.known = {}
            if self.topic_names[0] in self.known:
                return
            await self.sleep(0.2)

    def some_partition(self) -> TopicPartition:
        """A partition of the first topic as a rule, sometimes of another."""
        others = [name for name in self.known if name != self.topic_names[0]]
        topic = self.rng.choice(others) if others and self.rng.random() < 0.2 else self.topic_names[0]
        return topic, self.rng.randrange(self.known[topic][1])

    def some_values(self) -> list[bytes]:
        values = []
        for _ in range(self.rng.choice((1, 1, 3))):
            self._count += 1
            values.append(f"{self.name}:{self._count}".encode())
        return values


class IdempotentWriter(Writer):
    """A producer without transactions: every acknowledged record is present once."""

    async def run(self) -> None:
        await self.learn_topic()
        producer_id = await self._producer_id()
        sequences: dict[TopicPartition, int] = {}
        while not self.stopping:
            partition, values = self.some_partition(), self.some_values()
            batch = build_batch(
                [(None, value, self.world.clock.now_ms, ()) for value in values],
                producer_id=producer_id,
                producer_epoch=0,
                base_sequence=sequences.get(partition, 0),
            )
            self.world.ledger.add_sent(partition, values, None)
            await self._write(partition, batch)
            sequences[partition] = sequences.get(partition, 0) + len(values)
            self.world.ledger.add_acknowledged(partition, values)
            await self.sleep(self.world.pace_s * (0.5 + self.rng.random()))
        self.stopped = True

    async def _producer_id(self) -> int:
        while True:
            try:
                answer = await self.ask(
                    InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), "data"
                )
            except DisconnectedError:
                continue
            if answer.error_code == ErrorCode.NONE:
                return int(answer.producer_id)
            await self.sleep(0.1)

    async def _write(self, partition: TopicPartition, batch: bytes) -> None:
        while True:
            try:
                answer = await self.ask(
                    produce_request(partition, batch, self.known[partition[0]][0], self), "data"
                )
            except DisconnectedError:
                continue
            code = answer.responses[0].partition_responses[0].error_code
            if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
                return
            assert code not in (
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                ErrorCode.UNKNOWN_PRODUCER_ID,
            ), f"{self} was answered {ErrorCode(code).name}: an acknowledged batch is forgotten"
            await self.sleep(0.1)


class TransactionalWriter(Writer):
    """Transactions over some partitions; some are aborted, and some exceed their timeout."""

    def __init__(
        self, world: World, name: str, topics: Sequence[str], transactional_id: str, version: int
    ) -> None:
        super().__init__(world, name, topics)
        self.needs = transactional_needs(version)
        self.late = transactional_late_apis(version)
        self.transaction_version = version
        self.transactional_id = transactional_id

    async def run(self) -> None:
        await self.learn_topic()
        timeout_s = self.rng.choice((4.0, 8.0, 20.0))
        while not self.stopping:
            producer = TransactionalProducer(self, self.transactional_id, self.transaction_version, timeout_s)
            try:
                await producer.init()
                while not self.stopping:
                    await self._transact(producer)
                    await self.sleep(self.world.pace_s * (0.5 + self.rng.random()))
            except FatalError as fatal:
                self.say("is closed:", fatal)
                await self.sleep(self.rng.uniform(0.5, 3.0))
        self.stopped = True

    async def _transact(self, producer: TransactionalProducer) -> None:
        producer.begin()
        try:
            for _ in range(self.rng.randint(1, 3)):
                partition = self.some_partition()
                await producer.send(partition, self.some_values(), self.known[partition[0]][0])
                if self.rng.random() < 0.05:
                    await self.sleep(producer.timeout_s * self.rng.choice((0.5, 1.0, 1.5)))
            await producer.end(commit=self.rng.random() < 0.7)
        except AbortableError as error:
            self.say("abandons its transaction:", error)
            await producer.abort()
            await self.learn_topic()


class TransientWriter(Writer):
    """Writes to a topic that is deleted and created again; its records are not checked."""

    async def run(self) -> None:
        while not self.stopping:
            try:
                self.known = await self.topics(self.topic_names)
                if self.known:
                    await self._write()
            except DisconnectedError:
                pass
            await self.sleep(1.0)
        self.stopped = True

    async def _write(self) -> None:
        partition, values = self.some_partition(), self.some_values()
        batch = build_batch([(None, value, self.world.clock.now_ms, ()) for value in values])
        await self.ask(produce_request(partition, batch, self.known[partition[0]][0], self), "data")


class ChainMixin(Consumer):
    """Reads the partitions of a group, writes as much to another topic and commits its offsets, in one transaction."""

    target_topic: str
    producer: TransactionalProducer | None = None
    transaction_version: int
    timeout_s: float
    busy = False

    def set_up(self, target_topic: str, version: int) -> None:
        self.target_topic = target_topic
        self.transaction_version = version
        stable_offsets = {
            ApiKey.OFFSET_FETCH: (7, 10)
        }  # older versions cannot wait for stable offsets (KIP-447)
        self.needs = {**stable_offsets, **self.needs, **transactional_needs(version)}
        self.late = transactional_late_apis(version)
        self.timeout_s = self.rng.choice((4.0, 8.0, 30.0))

    async def commit(self) -> None:
        """Commits offsets in transactions."""

    async def _ready(self) -> TransactionalProducer:
        if self.producer is None:
            producer = TransactionalProducer(self, self.name, self.transaction_version, self.timeout_s)
            await producer.init()
            self.producer = producer
        return self.producer

    async def process(self, partition: TopicPartition, records: Sequence[Read], after: int) -> bool:
        member = self.member_id, self.epoch
        try:
            producer = await self._ready()
            producer.begin()
            try:
                await self._transact(producer, partition, records, after, member)
            except AbortableError as error:
                self.say("abandons its transaction:", error)
                await producer.abort()
            else:
                self.world.consumption.processed(self.group, partition, records)
                return True
        except FatalError as fatal:
            self.say("closes its producer:", fatal)
            self.producer = None
            await self.sleep(self.rng.uniform(0.1, 1.0))
        if partition in self.owned:
            self.owned[partition] = None  # from the committed offset on
        return False

    async def _transact(
        self,
        producer: TransactionalProducer,
        partition: TopicPartition,
        records: Sequence[Read],
        after: int,
        member: tuple[str, int],
    ) -> None:
        if records:
            target = await self._target()
            values = [f"{partition[0]}-{partition[1]}@{one.offset}".encode() for one in records]
            place = (self.target_topic, partition[1] % target[1])
            await producer.send(place, self.world.chain_values(self, values), target[0])
        if self.rng.random() < 0.05 and self.world.weather.is_bad:
            await self.sleep(self.timeout_s * self.rng.choice((0.5, 1.2)))
        await producer.send_offsets(self, {partition: after}, member)
        if self.rng.random() < 0.08 and self.world.weather.is_bad:  # long enough to be removed from the group
            await self.sleep(self.timeout_s * self.rng.choice((0.5, 0.7, 1.2)))
        if self.rng.random() < 0.05:
            raise AbortableError("as drawn")
        await producer.end(commit=True)

    async def _target(self) -> tuple[Uuid, int]:
        for _ in range(5):
            try:
                return (await self.topics([self.target_topic]))[self.target_topic]
            except (DisconnectedError, KeyError):
                await self.sleep(0.1)
        raise AbortableError("does not find the target topic")


class ClassicChain(ChainMixin, ClassicConsumer):
    """A chain that is a member of a classic group."""


class ModernChain(ChainMixin, ModernConsumer):
    """A chain that is a member of a consumer group."""

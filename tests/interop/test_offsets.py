"""Lists offsets (earliest, latest, by timestamp, of the largest timestamp) and reads from them."""

from __future__ import annotations

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.interop.clients.confluent import AdminClient, OffsetSpec
from tests.interop.clients.kafka_python import KafkaConsumer
from tests.interop.clients.kafka_python import TopicPartition as PyPartition
from tests.interop.conftest import TopicFactory
from tests.interop.workload import Workload

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

LIMIT_S = 20.0
COUNT = 1000
STEP_MS = 10


@pytest.fixture
def filled(bootstrap: str, topic: TopicFactory) -> tuple[str, int]:
    """A topic of a thousand records in several batches, ten milliseconds apart; its name and the first timestamp."""
    name = topic(1)
    started_ms = Workload(1).started_ms
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "batch.num.messages": 50})
    for index in range(COUNT):
        producer.produce(name, b"%d" % index, partition=0, timestamp=started_ms + index * STEP_MS)
        if index % 100 == 99:
            assert producer.flush(LIMIT_S) == 0
    return name, started_ms


def test_the_admin_client_lists_offsets(admin: AdminClient, filled: tuple[str, int]) -> None:
    name, started_ms = filled

    def ask(spec: OffsetSpec) -> tuple[int, int]:
        (future,) = admin.list_offsets({TopicPartition(name, 0): spec}).values()
        found = future.result(LIMIT_S)
        return found.offset, found.timestamp

    last_ms = started_ms + (COUNT - 1) * STEP_MS
    assert ask(OffsetSpec.earliest())[0] == 0
    assert ask(OffsetSpec.latest())[0] == COUNT
    assert ask(OffsetSpec.max_timestamp()) == (COUNT - 1, last_ms)
    assert ask(OffsetSpec.for_timestamp(started_ms)) == (0, started_ms)
    assert ask(OffsetSpec.for_timestamp(started_ms + 5001)) == (501, started_ms + 5010)
    assert ask(OffsetSpec.for_timestamp(last_ms)) == (COUNT - 1, last_ms)
    assert ask(OffsetSpec.for_timestamp(last_ms + 1))[0] == -1


def test_an_empty_partition_has_no_timestamps(admin: AdminClient, topic: TopicFactory) -> None:
    partition = TopicPartition(topic(), 0)
    for spec, offset in (
        (OffsetSpec.earliest(), 0),
        (OffsetSpec.latest(), 0),
        (OffsetSpec.max_timestamp(), -1),
    ):
        (future,) = admin.list_offsets({partition: spec}).values()
        assert future.result(LIMIT_S).offset == offset


def test_librdkafka_seeks_by_timestamp_and_offset(bootstrap: str, filled: tuple[str, int]) -> None:
    name, started_ms = filled
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": name, "enable.auto.commit": False})
    try:
        assert consumer.get_watermark_offsets(TopicPartition(name, 0), LIMIT_S) == (0, COUNT)
        (found,) = consumer.offsets_for_times([TopicPartition(name, 0, started_ms + 7770)], LIMIT_S)
        assert found.offset == 777
        consumer.assign([TopicPartition(name, 0, found.offset)])
        assert next_offset(consumer) == 777
        consumer.seek(TopicPartition(name, 0, 123))
        assert next_offset(consumer) == 123
    finally:
        consumer.close()


def test_librdkafka_resets_an_offset_out_of_range(bootstrap: str, filled: tuple[str, int]) -> None:
    name, _ = filled
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        consumer.assign([TopicPartition(name, 0, COUNT + 5)])
        assert next_offset(consumer) == 0
    finally:
        consumer.close()


async def test_aiokafka_seeks_by_timestamp_and_offset(bootstrap: str, filled: tuple[str, int]) -> None:
    name, started_ms = filled
    partition = AioPartition(name, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap)
    await consumer.start()
    try:
        consumer.assign([partition])
        assert await consumer.beginning_offsets([partition]) == {partition: 0}
        assert await consumer.end_offsets([partition]) == {partition: COUNT}
        found = (await consumer.offsets_for_times({partition: started_ms + 3333}))[partition]
        assert (found.offset, found.timestamp) == (334, started_ms + 3340)
        consumer.seek(partition, 998)
        assert [(await consumer.getone()).offset for _ in range(2)] == [998, 999]
    finally:
        await consumer.stop()


def test_kafka_python_seeks_by_timestamp_and_offset(bootstrap: str, filled: tuple[str, int]) -> None:
    name, started_ms = filled
    partition = PyPartition(name, 0)
    consumer = KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=LIMIT_S * 1000)
    try:
        consumer.assign([partition])
        assert consumer.beginning_offsets([partition]) == {partition: 0}
        assert consumer.end_offsets([partition]) == {partition: COUNT}
        found = consumer.offsets_for_times({partition: started_ms + 3333})[partition]
        assert (found.offset, found.timestamp) == (334, started_ms + 3340)
        consumer.seek(partition, 998)
        assert [next(consumer).offset for _ in range(2)] == [998, 999]
    finally:
        consumer.close()


def next_offset(consumer: Consumer) -> int:
    """The offset of the next record; fails on a timeout."""
    message = consumer.poll(LIMIT_S)
    assert message is not None
    assert message.error() is None, message.error()
    offset = message.offset()
    assert offset is not None
    return offset


def test_librdkafka_deletes_records(admin: AdminClient, filled: tuple[str, int]) -> None:
    name, _ = filled
    for offset, start in ((2, 2), (1, 2), (OFFSET_END, COUNT)):
        partition = TopicPartition(name, 0, offset)
        deleted = admin.delete_records([partition])[partition].result(LIMIT_S)
        assert deleted.low_watermark == start
    beyond = TopicPartition(name, 0, COUNT + 1)
    with pytest.raises(KafkaException) as rejected:
        admin.delete_records([beyond])[beyond].result(LIMIT_S)
    assert rejected.value.args[0].code() == KafkaError.OFFSET_OUT_OF_RANGE

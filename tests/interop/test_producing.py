"""Tests the options of producers, and the errors that they get."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from typing import Any

import aiokafka.errors
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import (
    OFFSET_BEGINNING,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    Message,
    Producer,
    TopicPartition,
)

from barnabas.storage.log.validator import most_unpacked_bytes
from tests.interop.clients.confluent import AdminClient
from tests.interop.clients.kafka_python import KafkaProducer, MessageSizeTooLargeError
from tests.interop.conftest import TopicFactory

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

LIMIT_S = 30.0
TOO_MANY_BYTES = most_unpacked_bytes(1_048_588) + 1
"""More than a batch may decompress to, with the default max.message.bytes of topics."""


class Outbox:
    """A librdkafka producer that keeps the result of each record, in the order of the responses."""

    def __init__(self, bootstrap: str, **config: str | int | bool) -> None:
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        self._producer = Producer({"bootstrap.servers": bootstrap, **dotted})
        self.delivered: list[Message] = []
        self.failed: list[KafkaError] = []

    def send(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, timestamp_ms: int = 0
    ) -> None:
        self._producer.produce(topic, value, key, 0, on_delivery=self._on_delivery, timestamp=timestamp_ms)

    def flush(self) -> Outbox:
        assert self._producer.flush(LIMIT_S) == 0
        return self

    def codes(self) -> list[int]:
        return [error.code() for error in self.failed]

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered.append(message)
        else:
            self.failed.append(error)


def read(bootstrap: str, topic: str, count: int) -> list[Message]:
    """The first `count` records of partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[Message] = []
        deadline = time.monotonic() + LIMIT_S
        while len(found) < count:
            assert time.monotonic() < deadline
            found += consumer.consume(count - len(found), 1.0)
        assert not [message.error() for message in found if message.error()]
        return found
    finally:
        consumer.close()


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acks(bootstrap: str, topic: TopicFactory, acks: str) -> None:
    name = topic()
    outbox = Outbox(bootstrap, acks=acks)
    values = [b"%d" % number for number in range(300)]
    for value in values:
        outbox.send(name, value)
    outbox.flush()
    assert len(outbox.delivered) == len(values)
    if acks != "0":
        assert [message.offset() for message in outbox.delivered] == list(range(300))
    assert [message.value() for message in read(bootstrap, name, 300)] == values


@pytest.mark.parametrize("idempotent", [True, False])
def test_many_small_requests_in_flight_keep_their_order(
    bootstrap: str, topic: TopicFactory, idempotent: bool
) -> None:
    name = topic()
    outbox = Outbox(bootstrap, acks="all", enable_idempotence=idempotent, linger_ms=0, batch_num_messages=1)
    values = [b"%d" % number for number in range(500)]
    for value in values:
        outbox.send(name, value)
    outbox.flush()
    assert [message.offset() for message in outbox.delivered] == list(range(500))
    assert [message.value() for message in read(bootstrap, name, 500)] == values


def test_a_record_too_large_is_rejected_alone(bootstrap: str, topic: TopicFactory) -> None:
    name = topic(1, max_message_bytes="2000")
    outbox = Outbox(bootstrap, batch_num_messages=1)
    for size in (1500, 2500, 1600):
        outbox.send(name, b"x" * size)
        outbox.flush()
    assert outbox.codes() == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert [len(message.value() or b"") for message in read(bootstrap, name, 2)] == [1500, 1600]


def test_a_batch_of_exactly_the_largest_size_is_accepted(bootstrap: str, topic: TopicFactory) -> None:
    # A batch has 61 bytes of its own, and a record of this size without key and headers 11 around its value.
    limit, overhead = 20_000, 61 + 11
    name = topic(1, max_message_bytes=str(limit))
    outbox = Outbox(bootstrap, batch_num_messages=1)
    for surplus in (0, 1):
        outbox.send(name, b"x" * (limit - overhead + surplus))
        outbox.flush()
    assert len(outbox.delivered) == 1
    assert outbox.codes() == [KafkaError.MSG_SIZE_TOO_LARGE]


@pytest.fixture
def bounded(topic: TopicFactory) -> str:
    """A topic of a broker that limits the decompressed size of a batch, which Apache Kafka does not."""
    if os.environ.get("BARNABAS_TEST_BOOTSTRAP"):
        pytest.skip("Apache Kafka accepts such a batch")
    return topic()


@pytest.mark.parametrize("idempotent", [True, False])
def test_librdkafka_does_not_retry_a_batch_that_decompresses_to_too_much(
    bootstrap: str, bounded: str, idempotent: bool
) -> None:
    outbox = Outbox(
        bootstrap,
        enable_idempotence=idempotent,
        compression_type="zstd",
        message_max_bytes=2 * TOO_MANY_BYTES,
    )
    outbox.send(bounded, bytes(TOO_MANY_BYTES))
    outbox.flush()
    assert outbox.codes() == [KafkaError.MSG_SIZE_TOO_LARGE]
    outbox.send(bounded, b"after")
    assert [message.offset() for message in outbox.flush().delivered] == [0]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_aiokafka_does_not_retry_a_batch_that_decompresses_to_too_much(
    bootstrap: str, bounded: str, idempotent: bool
) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap,
        enable_idempotence=idempotent,
        compression_type="zstd",
        max_request_size=2 * TOO_MANY_BYTES,
    )
    await producer.start()
    try:
        with pytest.raises(aiokafka.errors.MessageSizeTooLargeError):
            await asyncio.wait_for(producer.send_and_wait(bounded, bytes(TOO_MANY_BYTES)), LIMIT_S)
        assert (await producer.send_and_wait(bounded, b"after")).offset == 0
    finally:
        await producer.stop()


def compressing_kafka_python(bootstrap: str, **config: Any) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=bootstrap,
        compression_type="zstd",
        max_request_size=2 * TOO_MANY_BYTES,
        batch_size=2 * TOO_MANY_BYTES,
        **config,
    )


@pytest.mark.parametrize("idempotent", [True, False])
def test_kafka_python_does_not_retry_a_batch_that_decompresses_to_too_much(
    bootstrap: str, bounded: str, idempotent: bool
) -> None:
    producer = compressing_kafka_python(bootstrap, enable_idempotence=idempotent)
    try:
        with pytest.raises(MessageSizeTooLargeError):
            producer.send(bounded, bytes(TOO_MANY_BYTES)).get(timeout=LIMIT_S)
    finally:
        producer.close()


def test_kafka_python_splits_a_batch_that_decompresses_to_too_much(bootstrap: str, bounded: str) -> None:
    """As the Java producer does, so that no record is lost."""
    producer = compressing_kafka_python(bootstrap, linger_ms=1000)
    value = bytes(TOO_MANY_BYTES // 16)
    try:
        sent = [producer.send(bounded, value, partition=0) for _ in range(17)]
        assert [future.get(timeout=LIMIT_S).offset for future in sent] == list(range(17))
    finally:
        producer.close()


def test_a_topic_is_created_by_the_first_produce(bootstrap: str, admin: AdminClient) -> None:
    name = f"interop-{uuid.uuid4().hex[:12]}"
    outbox = Outbox(bootstrap)
    outbox.send(name, b"first")
    outbox.flush()
    try:
        assert [message.value() for message in read(bootstrap, name, 1)] == [b"first"]
    finally:
        admin.delete_topics([name])[name].result(LIMIT_S)


def test_a_topic_is_created_for_kafka_python(bootstrap: str, admin: AdminClient) -> None:
    name = f"interop-{uuid.uuid4().hex[:12]}"
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    try:
        assert producer.send(name, b"first").get(timeout=LIMIT_S).offset == 0
    finally:
        producer.close()
        admin.delete_topics([name])[name].result(LIMIT_S)


def test_a_topic_with_an_invalid_name_is_not_created(bootstrap: str) -> None:
    outbox = Outbox(bootstrap, message_timeout_ms=5000)
    outbox.send("no/such/topic", b"never")
    outbox.flush()
    assert outbox.codes() == [KafkaError.TOPIC_EXCEPTION]


def test_create_time_is_set_by_the_producer(bootstrap: str, topic: TopicFactory) -> None:
    name, when_ms = topic(), int(time.time() * 1000) - 100_000
    outbox = Outbox(bootstrap)
    outbox.send(name, b"then", timestamp_ms=when_ms)
    outbox.flush()
    assert read(bootstrap, name, 1)[0].timestamp() == (TIMESTAMP_CREATE_TIME, when_ms)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_log_append_time_is_set_by_the_broker(bootstrap: str, topic: TopicFactory, codec: str) -> None:
    name = topic(1, message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000)
    outbox = Outbox(bootstrap, acks="all", compression_type=codec)
    for _ in range(20):
        outbox.send(name, b"now" * 50, timestamp_ms=before_ms - 500_000)
    outbox.flush()
    for message in read(bootstrap, name, 20):
        kind, when_ms = message.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert before_ms <= when_ms <= time.time() * 1000


@pytest.mark.parametrize("late_ms", [7_200_000, -7_200_000])
def test_a_timestamp_outside_the_bounds_of_the_topic_is_rejected(
    bootstrap: str, topic: TopicFactory, late_ms: int
) -> None:
    name = topic(1, message_timestamp_after_max_ms="3600000", message_timestamp_before_max_ms="3600000")
    outbox = Outbox(bootstrap)
    outbox.send(name, b"out of time", timestamp_ms=int(time.time() * 1000) + late_ms)
    outbox.flush()
    assert outbox.codes() == [KafkaError.INVALID_TIMESTAMP]


def test_a_compacted_topic_requires_keys(bootstrap: str, topic: TopicFactory) -> None:
    name = topic(1, cleanup_policy="compact")
    outbox = Outbox(bootstrap)
    outbox.send(name, b"with", key=b"a key")
    outbox.flush()
    outbox.send(name, b"without")
    outbox.flush()
    assert [message.key() for message in outbox.delivered] == [b"a key"]
    assert outbox.codes() == [KafkaError.INVALID_RECORD]


@pytest.mark.parametrize("target", ["gzip", "zstd", "uncompressed"])
@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_a_topic_with_a_compression_of_its_own_keeps_the_records(
    bootstrap: str, topic: TopicFactory, codec: str, target: str
) -> None:
    name = topic(1, compression_type=target)
    outbox = Outbox(bootstrap, compression_type=codec, acks="all", enable_idempotence=True)
    values = [b"value %d " % number * 20 for number in range(200)]
    for value in values:
        outbox.send(name, value, key=b"k")
    outbox.flush()
    assert [message.value() for message in read(bootstrap, name, 200)] == values

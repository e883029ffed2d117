"""Consumers: long polls, seeks, fetch sizes, and sessions over many partitions."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, Producer, TopicPartition

from tests.interop.clients.confluent import AdminClient, NewTopic
from tests.interop.clients.kafka_python import KafkaConsumer
from tests.interop.clients.kafka_python import TopicPartition as PyPartition
from tests.interop.conftest import TopicFactory

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

LIMIT_S = 30.0
LONG_WAIT_MS = 20_000
AT_ONCE_S = 5.0
"""Far below LONG_WAIT_MS: a fetch that returns a record within this time was completed by it."""


def send(bootstrap: str, topic: str, *values: bytes, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for value in values:
        producer.produce(topic, value, partition=partition)
    assert producer.flush(LIMIT_S) == 0


def reader(bootstrap: str, **config: int | str) -> KafkaConsumer:
    """A kafka-python consumer whose iterator ends (StopIteration) when no record arrives."""
    return KafkaConsumer(bootstrap_servers=bootstrap, consumer_timeout_ms=LIMIT_S * 1000, **config)


def later(call: Callable[[], None]) -> threading.Thread:
    """Runs the call in a thread after a delay, in which the reader sends its fetch."""
    timer = threading.Timer(0.5, call)
    timer.start()
    return timer


def test_a_waiting_librdkafka_gets_a_record_at_once(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "fetch.wait.max.ms": LONG_WAIT_MS,
        }
    )
    try:
        consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
        sender, started = later(lambda: send(bootstrap, name, b"news")), time.monotonic()
        message = consumer.poll(LIMIT_S)
        assert message is not None
        assert message.value() == b"news"
        assert time.monotonic() - started < AT_ONCE_S
        sender.join()
    finally:
        send(bootstrap, name, b"completes a waiting fetch, for which close() waits")
        consumer.close()


async def test_a_waiting_aiokafka_gets_a_record_at_once(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, fetch_max_wait_ms=LONG_WAIT_MS)
    await consumer.start()
    try:
        consumer.assign([AioPartition(name, 0)])
        consumer.seek(AioPartition(name, 0), 0)
        sender, started = later(lambda: send(bootstrap, name, b"news")), time.monotonic()
        assert (await asyncio.wait_for(consumer.getone(), LIMIT_S)).value == b"news"
        assert time.monotonic() - started < AT_ONCE_S
        sender.join()
    finally:
        await consumer.stop()


def test_a_waiting_kafka_python_gets_a_record_at_once(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    consumer = reader(bootstrap, fetch_max_wait_ms=LONG_WAIT_MS)
    try:
        consumer.assign([PyPartition(name, 0)])
        consumer.seek(PyPartition(name, 0), 0)
        sender, started = later(lambda: send(bootstrap, name, b"news")), time.monotonic()
        assert next(consumer).value == b"news"
        assert time.monotonic() - started < AT_ONCE_S
        sender.join()
    finally:
        consumer.close()


def test_a_fetch_waits_for_fetch_min_bytes_but_not_forever(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    send(bootstrap, name, b"little")
    consumer = reader(bootstrap, fetch_min_bytes=100_000, fetch_max_wait_ms=1000)
    try:
        consumer.assign([PyPartition(name, 0)])
        consumer.seek(PyPartition(name, 0), 0)
        started = time.monotonic()
        assert next(consumer).value == b"little"
        assert 0.9 < time.monotonic() - started < LIMIT_S
    finally:
        consumer.close()


def test_the_end_of_a_partition_is_reported(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    send(bootstrap, name, b"only")
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(name, 0, OFFSET_END)])
        message = consumer.poll(LIMIT_S)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaError._PARTITION_EOF
        assert message.offset() == 1
    finally:
        consumer.close()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_isolation_levels_see_plain_records(bootstrap: str, topic: TopicFactory, isolation: str) -> None:
    name = topic()
    send(bootstrap, name, *(b"%d" % number for number in range(50)))
    consumer = reader(bootstrap, isolation_level=isolation)
    try:
        consumer.assign([PyPartition(name, 0)])
        consumer.seek_to_beginning()
        assert [next(consumer).value for _ in range(50)] == [b"%d" % number for number in range(50)]
    finally:
        consumer.close()


def test_a_value_beyond_the_fetch_size_still_arrives(bootstrap: str, topic: TopicFactory) -> None:
    name, value = topic(), random.Random(5).randbytes(900_000)
    send(bootstrap, name, b"before", value, b"after")
    consumer = reader(bootstrap, max_partition_fetch_bytes=1000, fetch_max_bytes=1000)
    try:
        consumer.assign([PyPartition(name, 0)])
        consumer.seek_to_beginning()
        assert [next(consumer).value for _ in range(3)] == [b"before", value, b"after"]
    finally:
        consumer.close()


def test_a_fetch_session_follows_two_hundred_partitions(bootstrap: str, topic: TopicFactory) -> None:
    """kafka-python fetches in sessions: after the first request only partitions that changed are named, both ways."""
    name, partitions, dice = topic(200), 200, random.Random(7)
    producer = Producer({"bootstrap.servers": bootstrap})
    consumer = reader(bootstrap, fetch_max_wait_ms=200)
    sent: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
    got: dict[int, list[bytes]] = {number: [] for number in range(partitions)}
    try:
        every = [PyPartition(name, number) for number in range(partitions)]
        consumer.assign(every)
        consumer.seek_to_beginning(*every)
        for turn in range(12):
            paused = [PyPartition(name, number) for number in dice.sample(range(partitions), 20)]
            consumer.pause(*paused)
            for number in dice.sample(range(partitions), 10):
                value = b"turn %d partition %d" % (turn, number)
                producer.produce(name, value, partition=number)
                sent[number].append(value)
            assert producer.flush(LIMIT_S) == 0
            collect(consumer, got)
            consumer.resume(*paused)
        deadline = time.monotonic() + LIMIT_S
        while got != sent and time.monotonic() < deadline:
            collect(consumer, got)
        assert got == sent
    finally:
        consumer.close()


def collect(consumer: KafkaConsumer, got: dict[int, list[bytes]]) -> None:
    for partition, records in consumer.poll(timeout_ms=200).items():
        got[partition.partition] += [record.value for record in records]


def test_a_consumer_continues_in_the_recreated_topic(
    bootstrap: str, admin: AdminClient, topic: TopicFactory
) -> None:
    """The topic is deleted and created again under its reader, which gets the new id by its metadata."""
    name = topic()
    send(bootstrap, name, b"old 0", b"old 1", b"old 2")
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": name,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    try:
        consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
        assert next_values(consumer, 3) == [b"old 0", b"old 1", b"old 2"]
        admin.delete_topics([name])[name].result(LIMIT_S)
        wait_until_gone(admin, name)
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(LIMIT_S)
        send(bootstrap, name, b"new")
        assert next_values(consumer, 1) == [b"new"]
    finally:
        consumer.close()


def next_values(consumer: Consumer, count: int) -> list[bytes | None]:
    """The next values; errors in between, as of a topic that is absent for a while, are skipped."""
    values: list[bytes | None] = []
    deadline = time.monotonic() + LIMIT_S
    while len(values) < count:
        assert time.monotonic() < deadline, values
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            values.append(message.value())
    return values


def wait_until_gone(admin: AdminClient, name: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while name in admin.list_topics(timeout=LIMIT_S).topics:
        assert time.monotonic() < deadline
        time.sleep(0.02)

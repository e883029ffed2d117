"""Transactions of stock producers: committed ones are read whole, aborted ones are not, older producers are fenced."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.interop.clients.confluent import AdminClient, OffsetSpec
from tests.interop.conftest import TopicFactory
from tests.interop.reading import values

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

LIMIT_S = 30.0


def transactional(bootstrap: str, name: str, **more: str | int) -> Producer:
    """Returns an initialised transactional producer of librdkafka."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 0}
    producer = Producer(settings | {key.replace("_", "."): value for key, value in more.items()})
    producer.init_transactions(LIMIT_S)
    return producer


def unique() -> str:
    """Returns an unused name for a transactional id or a group."""
    return f"interop-{uuid.uuid4().hex[:12]}"


def send(producer: Producer, topic: str, *sent: bytes) -> None:
    """Sends the values in the open transaction, and waits until all are acknowledged."""
    for value in sent:
        producer.produce(topic, value, partition=0)
    assert producer.flush(LIMIT_S) == 0


def test_only_committed_transactions_are_read(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    one, other = transactional(bootstrap, unique()), transactional(bootstrap, unique())
    kept: list[bytes] = []
    for number in range(12):
        one.begin_transaction()
        other.begin_transaction()
        send(one, name, b"one %d a" % number)
        send(other, name, b"other %d" % number)
        send(one, name, b"one %d b" % number)
        if number % 3:
            kept += [b"one %d a" % number, b"one %d b" % number]
            one.commit_transaction(LIMIT_S)
        else:
            one.abort_transaction(LIMIT_S)
        if number % 2:
            kept.append(b"other %d" % number)
            other.commit_transaction(LIMIT_S)
        else:
            other.abort_transaction(LIMIT_S)
    assert sorted(values(bootstrap, name)) == sorted(kept)
    assert len(values(bootstrap, name, isolation="read_uncommitted")) == 36


def test_no_record_behind_an_open_transaction_is_read(
    bootstrap: str, admin: AdminClient, topic: TopicFactory
) -> None:
    name = topic()
    plain = Producer({"bootstrap.servers": bootstrap})
    send(plain, name, b"before")
    producer = transactional(bootstrap, unique())
    producer.begin_transaction()
    send(producer, name, b"open")
    send(plain, name, b"behind")
    assert values(bootstrap, name) == [b"before"]
    assert values(bootstrap, name, isolation="read_uncommitted") == [b"before", b"open", b"behind"]
    producer.commit_transaction(LIMIT_S)
    assert values(bootstrap, name) == [b"before", b"open", b"behind"]
    latest = {TopicPartition(name, 0): OffsetSpec.latest()}
    # Three records and a marker.
    assert [future.result(LIMIT_S).offset for future in admin.list_offsets(latest).values()] == [4]


def test_a_second_producer_of_the_same_id_fences_the_first(bootstrap: str, topic: TopicFactory) -> None:
    name, identity = topic(), unique()
    first = transactional(bootstrap, identity)
    first.begin_transaction()
    send(first, name, b"of the first")
    second = transactional(bootstrap, identity)
    second.begin_transaction()
    send(second, name, b"of the second")
    with pytest.raises(KafkaException) as rejected:
        first.commit_transaction(LIMIT_S)
    assert rejected.value.args[0].fatal()
    assert rejected.value.args[0].code() == KafkaError._FENCED
    second.commit_transaction(LIMIT_S)
    assert values(bootstrap, name) == [b"of the second"]


@pytest.mark.slow
def test_a_transaction_that_takes_too_long_is_aborted(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    producer = transactional(bootstrap, unique(), transaction_timeout_ms=1000)
    producer.begin_transaction()
    send(producer, name, b"too long")
    send(Producer({"bootstrap.servers": bootstrap}), name, b"behind it")
    deadline = time.monotonic() + LIMIT_S
    while values(bootstrap, name) != [b"behind it"]:
        assert time.monotonic() < deadline, "the transaction is not aborted"
    with pytest.raises(KafkaException):
        producer.commit_transaction(LIMIT_S)


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    bootstrap: str, topic: TopicFactory
) -> None:
    name, group = topic(), unique()
    send(Producer({"bootstrap.servers": bootstrap}), name, *(b"%d" % number for number in range(10)))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([name])
    got = 0
    deadline = time.monotonic() + LIMIT_S
    while got < 10 and time.monotonic() < deadline:
        got += len(consumer.consume(10, 0.5))
    producer = transactional(bootstrap, unique())
    for end, commits in ((3, True), (7, False), (5, True)):
        producer.begin_transaction()
        send(producer, name, b"copy")
        producer.send_offsets_to_transaction(
            [TopicPartition(name, 0, end)], consumer.consumer_group_metadata(), LIMIT_S
        )
        (producer.commit_transaction if commits else producer.abort_transaction)(LIMIT_S)
        assert [part.offset for part in consumer.committed([TopicPartition(name, 0)], LIMIT_S)] == [
            end if commits else 3
        ]
    consumer.close()


async def test_aiokafka_commits_and_aborts(bootstrap: str, topic: TopicFactory) -> None:
    name = topic()
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=unique())
    await producer.start()
    for value, end in (
        (b"kept", producer.commit_transaction),
        (b"aborted", producer.abort_transaction),
        (b"kept too", producer.commit_transaction),
    ):
        await producer.begin_transaction()
        await producer.send_and_wait(name, value, partition=0)
        await end()
    await producer.stop()
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, isolation_level="read_committed")
    await consumer.start()
    consumer.assign([AioPartition(name, 0)])
    await consumer.seek_to_beginning()
    assert [(await consumer.getone()).value for _ in range(2)] == [b"kept", b"kept too"]
    await consumer.stop()

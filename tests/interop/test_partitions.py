"""Partitions administered by librdkafka, and topics that are recreated under its producers and consumers."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, ElectionType, KafkaError, KafkaException, Producer
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]  # its stubs do not export it

from tests.interop.clients.confluent import AdminClient, NewTopic
from tests.interop.conftest import TopicFactory

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

LIMIT_S = 30.0


def code_of(future: Any) -> int:
    with pytest.raises(KafkaException) as caught:
        future.result(LIMIT_S)
    error: KafkaError = caught.value.args[0]
    return error.code()


def produce(producer: Producer, topic: str, partition: int, values: list[str]) -> list[int]:
    """Produces the records; returns their offsets once all are acknowledged."""
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=delivered)
    assert producer.flush(LIMIT_S) == 0
    return offsets


def test_partitions_are_added_and_written_to(admin: AdminClient, bootstrap: str, topic: TopicFactory) -> None:
    name = topic(2)
    dry = admin.create_partitions([NewPartitions(name, 4)], validate_only=True)[name]
    dry.result(LIMIT_S)
    assert len(admin.list_topics(name, timeout=LIMIT_S).topics[name].partitions) == 2
    admin.create_partitions([NewPartitions(name, 4)])[name].result(LIMIT_S)
    assert len(admin.list_topics(name, timeout=LIMIT_S).topics[name].partitions) == 4
    producer = Producer({"bootstrap.servers": bootstrap})
    assert produce(producer, name, 3, ["a", "b"]) == [0, 1]
    fewer = admin.create_partitions([NewPartitions(name, 3)])[name]
    assert code_of(fewer) == KafkaError.INVALID_PARTITIONS
    missing = f"interop-{uuid.uuid4().hex[:12]}"
    unknown = admin.create_partitions([NewPartitions(missing, 3)])[missing]
    assert code_of(unknown) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_producer_finds_added_partitions(admin: AdminClient, bootstrap: str, topic: TopicFactory) -> None:
    name = topic(1)
    producer = Producer({"bootstrap.servers": bootstrap, "topic.metadata.refresh.interval.ms": 500})
    assert produce(producer, name, 0, ["a"]) == [0]
    admin.create_partitions([NewPartitions(name, 2)])[name].result(LIMIT_S)
    deadline = time.monotonic() + LIMIT_S
    while len(producer.list_topics(name, timeout=LIMIT_S).topics[name].partitions) < 2:
        assert time.monotonic() < deadline
    assert produce(producer, name, 1, ["b"]) == [0]


def test_a_preferred_leader_that_leads_needs_no_election(admin: AdminClient, topic: TopicFactory) -> None:
    name = topic(1)
    results = admin.elect_leaders(ElectionType.PREFERRED, [Partition(name, 0), Partition(name, 9)])
    errors = {one.partition: error for one, error in results.result(LIMIT_S).items()}
    assert errors[0] is not None
    assert errors[0].code() == KafkaError.ELECTION_NOT_NEEDED
    assert errors[9] is not None
    assert errors[9].code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def recreate(admin: AdminClient, name: str, *, has_producer: bool = False) -> None:
    """Deletes a topic and creates it again at once; a producer at work may have it created before that."""
    admin.delete_topics([name])[name].result(LIMIT_S)
    try:
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(LIMIT_S)
    except KafkaException as error:
        if not has_producer or error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


@pytest.mark.parametrize("idempotence", [False, True])
def test_a_producer_continues_in_a_recreated_topic(
    admin: AdminClient, bootstrap: str, topic: TopicFactory, idempotence: bool
) -> None:
    """An idempotent producer of librdkafka may fail after a deletion, so that a new one is used."""
    name = topic(1)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": idempotence, "linger.ms": 0})
    assert produce(producer, name, 0, ["a", "b", "c"]) == [0, 1, 2]
    for _ in range(3):
        recreate(admin, name)
        if idempotence:
            producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
        assert produce(producer, name, 0, ["d", "e"]) == [0, 1]


def test_records_in_flight_arrive_while_the_topic_is_recreated(
    admin: AdminClient, bootstrap: str, topic: TopicFactory
) -> None:
    """A producer never pauses: each record is acknowledged or fails, and the last topic holds the last of them."""
    name = topic(1)
    acknowledged: list[int] = []
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Any) -> None:
        if error is None:
            acknowledged.append(int(message.value()))
        else:
            failed.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 1, "retry.backoff.ms": 10})
    number, until, turns = 0, time.monotonic() + LIMIT_S, 0
    while turns < 5:
        assert time.monotonic() < until
        for _ in range(200):
            producer.produce(name, str(number), partition=0, on_delivery=delivered)
            number += 1
        producer.poll(0.02)
        recreate(admin, name, has_producer=True)
        turns += 1
    for _ in range(50):
        producer.produce(name, str(number), partition=0, on_delivery=delivered)
        number += 1
    assert producer.flush(LIMIT_S) == 0
    assert {error.code() for error in failed} <= {KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC}
    assert len(acknowledged) + len(failed) == number
    assert number - 1 in acknowledged

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([Partition(name, 0, OFFSET_BEGINNING)])
    held: list[int] = []
    while not held or held[-1] != number - 1:
        assert time.monotonic() < until + LIMIT_S
        held += [
            int(message.value() or b"") for message in consumer.consume(1000, 0.5) if message.error() is None
        ]
    consumer.close()
    assert held == sorted(held)
    assert set(held) <= set(acknowledged)


def test_a_consumer_reads_a_recreated_topic(admin: AdminClient, bootstrap: str, topic: TopicFactory) -> None:
    """Its position is beyond the end of the new topic, so that auto.offset.reset moves it to the beginning."""
    name = topic(1)
    producer = Producer({"bootstrap.servers": bootstrap})
    assert produce(producer, name, 0, ["old"] * 5) == [0, 1, 2, 3, 4]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.assign([Partition(name, 0, OFFSET_BEGINNING)])
    assert _read(consumer, 5) == ["old"] * 5
    recreate(admin, name)
    assert produce(Producer({"bootstrap.servers": bootstrap}), name, 0, ["new"] * 3) == [0, 1, 2]
    assert _read(consumer, 3) == ["new"] * 3
    consumer.close()


def _read(consumer: Consumer, count: int) -> list[str]:
    values: list[str] = []
    deadline = time.monotonic() + 2 * LIMIT_S
    while len(values) < count:
        assert time.monotonic() < deadline, values
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append((message.value() or b"").decode())
    return values

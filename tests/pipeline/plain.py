"""Produces and reads topics by a plain client (librdkafka), as the reference for Spark's rows."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic  # type: ignore[attr-defined]

LIMIT_S = 60.0


class Record(NamedTuple):
    """A record with its partition and offset."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class TopicMaker:
    """Creates, changes and deletes topics for tests."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})

    def create(
        self, partitions: int = 1, *, name: str = "", settings: Mapping[str, str] | None = None
    ) -> str:
        """A topic with an unused name, once it accepts records."""
        topic = name or f"t-{uuid.uuid4().hex[:10]}"
        # Tests choose the records' times: retention would delete them at once.
        wanted = NewTopic(topic, partitions, 1, config={"retention.ms": "-1", **(settings or {})})
        self._admin.create_topics([wanted])[topic].result(LIMIT_S)
        return topic

    def delete(self, topic: str) -> None:
        """Deletes a topic and waits until it is gone."""
        self._admin.delete_topics([topic])[topic].result(LIMIT_S)
        deadline = time.monotonic() + LIMIT_S
        while topic in self._admin.list_topics(timeout=10).topics:
            assert time.monotonic() < deadline, f"{topic} is still there"
            time.sleep(0.05)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """DeleteRecords."""
        (future,) = self._admin.delete_records([TopicPartition(topic, partition, before)]).values()
        future.result(LIMIT_S)

    def grow(self, topic: str, partitions: int) -> None:
        """CreatePartitions."""
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(LIMIT_S)


def producer(bootstrap: str, **settings: Any) -> Producer:
    """Idempotent, and quiet about brokers that a test has killed."""
    usual = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 2}
    return Producer({**usual, **{name.replace("_", "."): value for name, value in settings.items()}})


def produce(
    bootstrap: str,
    topic: str,
    values: Iterable[bytes | None],
    *,
    partition: int = 0,
    keys: Sequence[bytes | None] | None = None,
    timestamps: Sequence[int] | None = None,
    **settings: Any,
) -> None:
    """Produces records and waits until they are acknowledged."""
    client = producer(bootstrap, **settings)
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(error)

    for number, value in enumerate(values):
        key, timestamp = keys[number] if keys else None, timestamps[number] if timestamps else 0
        while True:
            try:
                client.produce(topic, value, key, partition, on_delivery=delivered, timestamp=timestamp)
                break
            except BufferError:
                client.poll(0.1)  # the queue is full
        client.poll(0)
    assert client.flush(LIMIT_S) == 0
    assert not failed


def read(
    bootstrap: str, topic: str, *, isolation: str = "read_committed", limit_s: float = LIMIT_S
) -> list[Record]:
    """All records up to the current end, by partition and offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"plain-{uuid.uuid4().hex}",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        partitions = sorted(consumer.list_topics(topic, 10).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])
        return sorted(_until_the_end(consumer, set(partitions), time.monotonic() + limit_s))
    finally:
        consumer.close()


def _until_the_end(consumer: Consumer, left: set[int], deadline: float) -> list[Record]:
    found = []
    while left:
        assert time.monotonic() < deadline, f"the partitions {sorted(left)} did not end"
        for message in consumer.consume(1000, 0.2):
            error, partition, offset = message.error(), message.partition(), message.offset()
            assert partition is not None
            assert offset is not None
            if error is None:
                found.append(Record(partition, offset, message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(partition)
            else:
                raise AssertionError(error)
    return found

"""confluent-kafka, that is librdkafka."""

from __future__ import annotations

from typing import Any

import confluent_kafka.admin
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs do not export what it documents
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)

from tests.interop.clients.base import SilenceTimer, StockClient
from tests.interop.workload import Digests, Workload

__all__ = [
    "AdminClient",
    "ConfigResource",
    "ConfigSource",
    "ConfluentKafka",
    "NewTopic",
    "OffsetSpec",
    "ResourceType",
    "add_message",
]

OffsetSpec: Any = confluent_kafka.admin.OffsetSpec  # type: ignore[attr-defined]  # and its methods have no types


class ConfluentKafka(StockClient):
    """The Python binding of librdkafka, which also stands for its C, C++, .NET, PHP and Go bindings."""

    name = "confluent-kafka"
    # Its message.max.bytes of 1,000,000 counts the overhead of a record too.
    big_value_bytes = 999_900

    def produce(self, bootstrap: str, topic: str, workload: Workload, codec: str) -> Digests:
        """Idempotent, the one default that a careful user of librdkafka changes."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        producer = Producer(
            {"bootstrap.servers": bootstrap, "compression.type": codec, "enable.idempotence": True}
        )
        digests = Digests(workload.partitions)
        for number, record in enumerate(workload.records()):
            while True:
                try:
                    producer.produce(
                        topic,
                        record.value,
                        record.key,
                        record.partition,
                        on_delivery=delivered,
                        timestamp=record.timestamp_ms,
                        headers=list(record.headers),
                    )
                    break
                except BufferError:
                    producer.poll(0.5)
            digests.add(record)
            if number % 500 == 0:
                producer.poll(0)
        assert producer.flush(120) == 0
        assert not failed, failed[:3]
        return digests

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> Digests:
        """Assigns the partitions, without a subscription."""
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": topic, "enable.auto.commit": False})
        digests, silence = Digests(partitions), SilenceTimer()
        try:
            consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
            while digests.count < count:
                messages = consumer.consume(5000, 1.0)
                for message in messages:
                    add_message(digests, message)
                if messages:
                    silence.received()
                silence.check(digests, count)
        finally:
            consumer.close()
        return digests


def add_message(digests: Digests, message: Message) -> None:
    """Adds one message, which must be a record and the next one of its partition."""
    error = message.error()
    assert error is None, error
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    digest = digests.of[partition]
    assert offset == digest.count, f"offset {offset} where {digest.count} comes next in partition {partition}"
    digest.add(message.key(), message.value(), message.headers() or (), message.timestamp()[1])  # type: ignore[arg-type]

"""Produces events to topics by a stock client: confluent-kafka, idempotent, one codec for each topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.demo.stream import CLICKS, ORDERS, TOPICS, Event

if TYPE_CHECKING:
    from confluent_kafka import Producer

PARTITIONS: Final = 3
CODECS: Final = {ORDERS: "zstd", CLICKS: "lz4"}
TOPIC_CONFIG: Final = {"segment.ms": "86400000", "retention.ms": "-1"}
"""A segment for each day, by the records' timestamps."""
_TIMEOUT_S: Final = 30.0


class NotDeliveredError(Exception):
    """The broker did not accept records; the message says how many, and the error of the first."""


def create_topics(bootstrap: str) -> None:
    """Raises NotDeliveredError."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

    admin = AdminClient({"bootstrap.servers": bootstrap})
    topics = [
        NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1, config=dict(TOPIC_CONFIG))
        for topic in TOPICS
    ]
    for topic, created in admin.create_topics(topics, operation_timeout=_TIMEOUT_S).items():
        try:
            created.result(_TIMEOUT_S)
        except (KafkaException, TimeoutError) as error:
            raise NotDeliveredError(f"there is no topic {topic} to deliver to: {error}") from None


def produce(bootstrap: str, events: Iterable[Event]) -> int:
    """Sends all events, waits until they are acknowledged, and returns their number. Raises NotDeliveredError."""
    sender = _Sender(bootstrap)
    count = 0
    for event in events:
        sender.send(event)
        count += 1
    sender.finish()
    return count


class _Sender:
    def __init__(self, bootstrap: str) -> None:
        from confluent_kafka import Producer

        self._producers: dict[str, Producer] = {
            topic: Producer(
                {
                    "bootstrap.servers": bootstrap,
                    "client.id": f"demo-{topic}",
                    "enable.idempotence": True,
                    "compression.type": codec,
                    "linger.ms": 20,
                    "log_level": 4,  # warnings
                    "partitioner": "murmur2_random",  # as Java's clients choose partitions
                }
            )
            for topic, codec in CODECS.items()
        }
        self._failed: list[str] = []

    def send(self, event: Event) -> None:
        producer = self._producers[event.topic]
        arguments: dict[str, Any] = {
            "key": event.key,
            "value": event.value,
            "headers": event.headers,
            "timestamp": event.timestamp_ms,
            "on_delivery": self._delivered,
        }
        while True:
            try:
                producer.produce(event.topic, **arguments)
                break
            except BufferError:  # the queue is full: let the client send some
                producer.poll(1.0)
        producer.poll(0)

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._failed.append(str(error))

    def finish(self) -> None:
        left = sum(producer.flush(_TIMEOUT_S) for producer in self._producers.values())
        if left or self._failed:
            why = self._failed[0] if self._failed else "no answer in time"
            raise NotDeliveredError(f"{left + len(self._failed)} records were not delivered: {why}")

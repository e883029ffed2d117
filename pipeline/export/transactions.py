"""Writes rows to a topic exactly once: each slot of a batch is one transaction, which also records the slot as done.

A batch's rows are assigned to slots by their contents, so that a batch that is run again has the same rows in the same
slots. A slot has a transactional id: a task first fences the task that worked on the slot before (one of a killed
driver, perhaps still running), then asks for the slot's progress, and skips a batch that is committed. The note is an
offset of the consumer group barnabas-export-ID, committed with the transaction: for slot 3, partition 3 of the topic
has the number of the next batch. To readers with isolation.level=read_committed each row is there once.

This runs in Spark's Python workers, and needs confluent-kafka there.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

TRANSACTION_TIMEOUT_MS: Final = 300_000
_LIMIT_S: Final = 300.0
_ABORT_LIMIT_S: Final = 30.0
_METADATA_LIMIT_S: Final = 30.0
_POLL_EVERY: Final = 1000  # records between polls for delivery reports
_OF_CONNECTIONS: Final = (
    "sasl.",
    "ssl.",
    "security.",
    "enable.sasl.",
    "enable.ssl.",
    "socket.",
    "broker.address.",
)


@dataclass(frozen=True)
class SlotWriter:
    """Writes one slot of a batch: what Spark sends to its workers."""

    bootstrap: str
    topic: str
    export_id: str
    keep_partitions: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, slot: int, batch_id: int, rows: Iterable[Any]) -> int:
        """Writes the rows and returns their number: 0 when the slot has this batch already. Raises KafkaException."""
        left = iter(rows)
        first = list(itertools.islice(left, 1))
        if not first:
            return 0
        producer = self._producer(slot)
        producer.init_transactions(_LIMIT_S)
        with contextlib.closing(self._consumer()) as consumer:
            if self._next_batch(consumer, slot) > batch_id:
                return 0
            producer.begin_transaction()
            try:
                sent = self._send(producer, itertools.chain(first, left))
                note = _place(self.topic, slot, batch_id + 1)
                producer.send_offsets_to_transaction([note], consumer.consumer_group_metadata(), _LIMIT_S)
                producer.commit_transaction(_LIMIT_S)
            except BaseException:
                _abort(producer)
                raise
            return sent

    @property
    def group(self) -> str:
        """The consumer group whose offsets are this export's notes."""
        return f"barnabas-export-{self.export_id}"

    def _producer(self, slot: int) -> Any:
        from confluent_kafka import Producer

        usual = {
            "bootstrap.servers": self.bootstrap,
            "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
            "linger.ms": 20,
            "compression.type": "lz4",
            # As Java's clients choose partitions: they, or Spark's sink, may have written the same keys.
            "partitioner": "murmur2_random",
        }
        return Producer({**usual, **self.settings, "transactional.id": f"{self.group}-{slot}"})

    def _consumer(self) -> Any:
        from confluent_kafka import Consumer

        own = {"bootstrap.servers": self.bootstrap, "group.id": self.group, "enable.auto.commit": False}
        return Consumer({**_security(self.settings), **own})

    def _next_batch(self, consumer: Any, slot: int) -> int:
        (place,) = consumer.committed([_place(self.topic, slot)], _LIMIT_S)
        if place.error is not None:
            raise RuntimeError(f"how far {self.group} is with slot {slot} could not be read: {place.error}")
        return max(0, int(place.offset))

    def _send(self, producer: Any, rows: Iterable[Any]) -> int:
        sent = 0
        for record in records(rows, keep_partitions=self.keep_partitions):
            while True:
                try:
                    producer.produce(self.topic, **record)
                    break
                except BufferError:  # librdkafka's queue is full: sending makes room
                    producer.poll(0.5)
            sent += 1
            if sent % _POLL_EVERY == 0:
                producer.poll(0)
        return sent


def _abort(producer: Any) -> None:
    """Aborts, since readers wait behind an open transaction. One that is fenced off has ended already."""
    from confluent_kafka import KafkaException

    with contextlib.suppress(KafkaException):
        producer.abort_transaction(_ABORT_LIMIT_S)


def records(rows: Iterable[Any], *, keep_partitions: bool) -> Iterator[dict[str, Any]]:
    """The arguments of `produce` for rows of an ingest's table, or of any table with a column `value`."""
    for row in rows:
        fields = row.asDict()
        record = {"value": _bytes(fields["value"]), "key": _bytes(fields.get("key"))}
        if fields.get("headers"):
            record["headers"] = [(one["key"], _bytes(one["value"])) for one in fields["headers"]]
        time_ms = fields.get("timestamp_ms")
        if time_ms is not None and time_ms >= 0:
            record["timestamp"] = time_ms
        if keep_partitions:
            record["partition"] = fields["partition"]
        yield record


def _bytes(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def _place(topic: str, slot: int, offset: int | None = None) -> Any:
    from confluent_kafka import TopicPartition

    return TopicPartition(topic, slot) if offset is None else TopicPartition(topic, slot, offset)


def _security(settings: Mapping[str, str]) -> dict[str, str]:
    """The producer's settings that other clients need, too."""
    return {key: value for key, value in settings.items() if key.startswith(_OF_CONNECTIONS)}


def partitions_of(bootstrap: str, topic: str, settings: Mapping[str, str]) -> int:
    """The number of partitions of a topic. ValueError for an unknown topic, ConnectionError without an answer."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    client = AdminClient({"bootstrap.servers": bootstrap, **_security(settings)})
    try:
        # Asks for all topics: a request that names one would create it.
        topics = client.list_topics(timeout=_METADATA_LIMIT_S).topics
    except KafkaException as error:
        raise ConnectionError(f"{bootstrap} does not say how many partitions {topic} has: {error}") from error
    if topic not in topics:
        raise ValueError(f"there is no topic {topic}: create it first")
    return len(topics[topic].partitions)

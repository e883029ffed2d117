"""kafka-python 3."""

from __future__ import annotations

import warnings

from tests.interop.clients.base import SilenceTimer, StockClient
from tests.interop.workload import Digests, Workload

with warnings.catch_warnings():
    # It loads its message definitions with a deprecated function of the standard library.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import KafkaError, MessageSizeTooLargeError
    from kafka.net.sasl.oauth import AbstractTokenProvider

__all__ = [
    "AbstractTokenProvider",
    "KafkaAdminClient",
    "KafkaConsumer",
    "KafkaError",
    "KafkaProducer",
    "KafkaPython",
    "MessageSizeTooLargeError",
    "TopicPartition",
]


class KafkaPython(StockClient):
    """The pure Python client; idempotent by default."""

    name = "kafka-python"
    # KafkaProducer.send() requires a value in every header, and a key or a value in every record.
    null_headers = False
    bare = False

    def produce(self, bootstrap: str, topic: str, workload: Workload, codec: str) -> Digests:
        """Keeps the futures of the last ten thousand records, to check their results."""
        digests = Digests(workload.partitions)
        producer = KafkaProducer(
            bootstrap_servers=bootstrap, compression_type=None if codec == "none" else codec
        )
        try:
            waiting = []
            for record in workload.records():
                waiting.append(
                    producer.send(
                        topic,
                        record.value,
                        record.key,
                        list(record.headers),
                        record.partition,
                        record.timestamp_ms,
                    )
                )
                digests.add(record)
                if len(waiting) == 10_000:
                    _await_acknowledged(producer, waiting)
            _await_acknowledged(producer, waiting)
        finally:
            producer.close(timeout=30)
        return digests

    def consume(self, bootstrap: str, topic: str, partitions: int, count: int) -> Digests:
        """Assigns the partitions, without a group."""
        digests, silence = Digests(partitions), SilenceTimer()
        consumer = KafkaConsumer(bootstrap_servers=bootstrap)
        try:
            assigned = [TopicPartition(topic, number) for number in range(partitions)]
            consumer.assign(assigned)
            consumer.seek_to_beginning(*assigned)
            while digests.count < count:
                fetched = consumer.poll(timeout_ms=1000)
                for partition, records in fetched.items():
                    digest = digests.of[partition.partition]
                    for record in records:
                        assert record.offset == digest.count
                        digest.add(record.key, record.value, record.headers, record.timestamp)
                if fetched:
                    silence.received()
                silence.check(digests, count)
        finally:
            consumer.close()
        return digests


def _await_acknowledged(producer: KafkaProducer, waiting: list[object]) -> None:
    producer.flush(timeout=120)
    for future in waiting:
        assert future.succeeded(), future.exception  # type: ignore[attr-defined]
    waiting.clear()

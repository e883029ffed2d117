"""The rows of a topic in one form, by a plain consumer, the connector and the source."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, TopicPartition

LIMIT_S = 60.0
Headers = tuple[tuple[str, bytes | None], ...]


class Row(NamedTuple):
    """A record with all columns of Spark's Kafka source; time in ms, headers None without any."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    timestamp_type: int
    headers: Headers | None


def by_source(spark: Any, directory: Path, topics: Sequence[str], **options: Any) -> list[Row]:
    """From the log directory."""
    reader = spark.read.format("barnabas").option("path", str(directory))
    return _rows(reader, topics, options)


def by_connector(spark: Any, bootstrap: str, topics: Sequence[str], **options: Any) -> list[Row]:
    """From the broker, through Spark's Kafka connector."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    return _rows(reader, topics, options)


def _rows(reader: Any, topics: Sequence[str], options: dict[str, Any]) -> list[Row]:
    settings = {"subscribe": ",".join(topics), "includeHeaders": "true", **options}
    frame = reader.options(
        **{name: json.dumps(it) if isinstance(it, dict) else str(it) for name, it in settings.items()}
    ).load()
    found = frame.selectExpr(
        "topic", "partition", "offset", "key", "value", "unix_millis(timestamp)", "timestampType", "headers"
    ).collect()
    return sorted(_row(*row) for row in found)


def _row(*cells: Any) -> Row:
    topic, partition, offset, key, value, timestamp, kind, headers = cells
    pairs = None if headers is None else tuple((it["key"], _bytes(it["value"])) for it in headers)
    return Row(topic, partition, offset, _bytes(key), _bytes(value), timestamp, kind, pairs)


def _bytes(value: Any) -> bytes | None:
    return None if value is None else bytes(value)


def by_consumer(bootstrap: str, topics: Sequence[str], isolation: str = "read_uncommitted") -> list[Row]:
    """From the broker, through librdkafka: everything up to the current ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"rows-{uuid.uuid4().hex}",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    try:
        known = consumer.list_topics(timeout=30).topics
        left = {(topic, partition) for topic in topics for partition in known[topic].partitions}
        consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in left])
        return sorted(_consumed(consumer, left))
    finally:
        consumer.close()


def _consumed(consumer: Consumer, left: set[tuple[str, int]]) -> list[Row]:
    rows, deadline = [], time.monotonic() + LIMIT_S
    while left:
        assert time.monotonic() < deadline, f"{sorted(left)} did not end"
        for message in consumer.consume(1000, 0.2):
            error, topic, partition = message.error(), message.topic(), message.partition()
            assert topic is not None
            assert partition is not None
            if error is None:
                rows.append(_of_message(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard((topic, partition))
            else:
                raise AssertionError(error)
    return rows


def _of_message(message: Any) -> Row:
    kind, timestamp_ms = message.timestamp()
    headers = message.headers()
    return Row(
        message.topic(),
        message.partition(),
        message.offset(),
        message.key(),
        message.value(),
        timestamp_ms,
        kind - 1,  # librdkafka numbers types from 0 for none, Kafka and Spark from -1
        tuple((name, _bytes(value)) for name, value in headers) if headers else None,
    )

"""Reads a topic to its end, for tests that count records."""

from __future__ import annotations

import time
import uuid

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition

LIMIT_S = 60.0


def read_all(
    bootstrap: str, topic: str, partitions: int = 1, *, isolation: str = "read_committed"
) -> list[Message]:
    """Returns every record of a topic up to its end; with read_committed, up to the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reading-{uuid.uuid4().hex[:8]}",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "log_level": 0,
        }
    )
    found: list[Message] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + LIMIT_S
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        while len(ended) < partitions:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic}: {len(found)} records, ends of {sorted(map(str, ended))}")
            for message in consumer.consume(1000, 0.2):
                if message.error() is None:
                    found.append(message)
                else:
                    ended.add(message.partition())
    finally:
        consumer.close()
    return found


def values(
    bootstrap: str, topic: str, partitions: int = 1, *, isolation: str = "read_committed"
) -> list[bytes]:
    """The values, in the order in which they were read."""
    return [message.value() or b"" for message in read_all(bootstrap, topic, partitions, isolation=isolation)]

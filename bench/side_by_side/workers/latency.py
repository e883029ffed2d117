"""Latency from a producer's send to a consumer, at a fixed rate: the message contains the time."""

from __future__ import annotations

import struct
import threading
import time
from collections.abc import Generator
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from bench.side_by_side.job import Job, Outcome
from bench.side_by_side.workers.producing import FLUSH_S, QUIET, connected, first_messages

PATIENCE_S: Final = 10.0
WARM_PART: Final = 0.1
WARM_S: Final = 2.0
"""The first tenth, or the first seconds, open connections and are left out."""
_SENT_AT: Final = struct.Struct("<q")


def send(job: Job) -> Generator[None, None, Outcome]:
    """`count` messages at `rate`, to one partition after the other."""
    producer = connected(job, **{"linger.ms": 0, "socket.nagle.disable": True})
    rest = bytes(job.size - _SENT_AT.size)
    beside = first_messages(producer, job, {"value": bytes(job.size)}) if job.connects else 0
    sending = True

    def serve() -> None:
        while sending:
            producer.poll(0.1)

    server = threading.Thread(target=serve)
    yield
    server.start()
    began = time.monotonic()
    for number in range(job.count):
        pause = began + number / job.rate - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        value = _SENT_AT.pack(time.monotonic_ns()) + rest
        producer.produce(job.topic, value, partition=number % job.partitions)
    sending = False
    server.join()
    left = producer.flush(FLUSH_S)
    return Outcome(
        done=job.count - left,
        missing=left,
        seconds=time.monotonic() - began,
        bytes=(job.count - left) * job.size,
        beside=beside,
    )


def receive(job: Job) -> Generator[None, None, Outcome]:
    """Reads `count` messages from the current end of the topic, with the age of each."""
    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "socket.nagle.disable": True,
            **QUIET,
            **job.settings,
        }
    )
    consumer.assign([TopicPartition(job.topic, number, end) for number, end in enumerate(job.ends)])
    consumer.poll(1)  # connects, and fetches from the end
    yield
    began = last = time.monotonic()
    ages_ms: list[float] = []
    while len(ages_ms) < job.count and time.monotonic() - last < PATIENCE_S:
        message = consumer.poll(0.5)
        if message is None or message.error():
            continue
        (sent_at,) = _SENT_AT.unpack_from(message.value() or b"")
        if not sent_at:  # it has only connected the sender
            continue
        ages_ms.append((time.monotonic_ns() - sent_at) / 1e6)
        last = time.monotonic()
    consumer.close()
    return Outcome(
        missing=job.count - len(ages_ms),
        seconds=last - began,
        latencies_ms=ages_ms[round(min(len(ages_ms) * WARM_PART, job.rate * WARM_S)) :],
    )

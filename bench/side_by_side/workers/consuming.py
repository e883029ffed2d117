"""Consumers of librdkafka that read topics from the first offset to the last."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from bench.side_by_side.job import Job, Outcome, values
from bench.side_by_side.workers.producing import QUIET

PATIENCE_S: Final = 10.0
_AT_ONCE: Final = 5000
_MOST_PASSES: Final = 5


def consume(job: Job) -> Generator[None, None, Outcome]:
    """`clients` consumers, each of everything; with new ones again until `least_s` is filled."""
    wanted = sum(job.ends) - sum(job.firsts)
    valid = set(values(job.size))
    readers = [_connected(job) for _ in range(job.clients)]
    yield
    passes, got, seconds = 0, 0, 0.0
    while passes < _MOST_PASSES and seconds < job.least_s:
        readers = readers or [_connected(job) for _ in range(job.clients)]
        began = time.monotonic()
        counts = _side_by_side([_Reading(job, reader, wanted, valid) for reader in readers])
        seconds += time.monotonic() - began
        got += sum(counts)
        passes += 1
        for reader in readers:
            reader.close()
        readers = []
    missing = passes * job.clients * wanted - got
    return Outcome(done=got, missing=missing, seconds=seconds, bytes=got * job.size)


def _connected(job: Job) -> Consumer:
    """A consumer with an unbounded queue: partitions with a full queue are left out of fetches and return late."""
    consumer = Consumer(
        {
            "bootstrap.servers": job.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.queue.backoff.ms": 5,
            "queued.min.messages": 10_000_000,
            "queued.max.messages.kbytes": 2_000_000,
            **QUIET,
            **job.settings,
        }
    )
    consumer.list_topics(job.topic, timeout=10)
    return consumer


class _Reading:
    """One consumer's way through the topic."""

    def __init__(self, job: Job, consumer: Consumer, wanted: int, valid: set[bytes]) -> None:
        self._job, self._consumer, self._wanted, self._valid = job, consumer, wanted, valid
        self.got = 0
        self.failure: Exception | None = None

    def run(self) -> None:
        """Reads to the end, or until nothing arrives for a while."""
        try:
            self._read()
        except Exception as error:
            self.failure = error

    def _read(self) -> None:
        # Logical offsets would be looked up first, which takes further requests.
        self._consumer.assign(
            [TopicPartition(self._job.topic, number, first) for number, first in enumerate(self._job.firsts)]
        )
        last = time.monotonic()
        while self.got < self._wanted and time.monotonic() - last < PATIENCE_S:
            messages = self._consumer.consume(min(_AT_ONCE, self._wanted - self.got), 0.5)
            for message in messages:
                if error := message.error():
                    raise RuntimeError(error)
            if messages:
                self.got += len(messages)
                last = time.monotonic()
                if messages[0].value() not in self._valid:
                    raise RuntimeError("a message is not what was sent")


def _side_by_side(readings: list[_Reading]) -> list[int]:
    """Runs all of them, each on a thread of its own where they are several; what each of them got."""
    if len(readings) == 1:
        readings[0].run()
    else:
        threads = [threading.Thread(target=reading.run) for reading in readings]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for reading in readings:
        if reading.failure is not None:
            raise reading.failure
    return [reading.got for reading in readings]

"""Produces records in a thread while a test does something else."""

from __future__ import annotations

import threading
import time

from confluent_kafka import KafkaError, Message, Producer

LIMIT_S = 60.0


class BackgroundProducer:
    """Produces numbered records evenly over the partitions of a new topic until `stop`, without duplicates."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, *, per_second: int = 1000) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "linger.ms": 5,
            "enable.idempotence": True,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._topic = topic
        self._per_interval = per_second // 50
        self._acknowledged = dict.fromkeys(range(partitions), 0)
        self._count = 0
        self._failures: list[str] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def acknowledged(self) -> dict[int, int]:
        """A lower bound of the log end offset of each partition."""
        return dict(self._acknowledged)

    def count(self) -> int:
        """The number of acknowledged records."""
        return sum(self._acknowledged.values())

    def wait_for(self, count: int) -> None:
        """Waits until `count` records are acknowledged."""
        deadline = time.monotonic() + LIMIT_S
        while self.count() < count:
            assert time.monotonic() < deadline, (
                f"{self.count()} of {count} acknowledged, {self._failures[:5]}"
            )
            time.sleep(0.02)

    def stop(self) -> dict[int, int]:
        """Stops producing; returns the log end offset of each partition."""
        self._stopped.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert not self._failures, self._failures[:5]
        return self.acknowledged()

    def __enter__(self) -> BackgroundProducer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(0.02):
            for _ in range(self._per_interval):
                partition = self._count % len(self._acknowledged)
                self._producer.produce(
                    self._topic, b"%d" % self._count, partition=partition, on_delivery=self._delivered
                )
                self._count += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures.append(str(error))
            return
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        assert offset is not None
        self._acknowledged[partition] = max(self._acknowledged[partition], offset + 1)

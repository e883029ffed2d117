"""Apache Kafka's own Java clients, in a JVM that lives as long as the tests need it."""

from __future__ import annotations

import queue
import subprocess
import threading
from pathlib import Path

from tests.interop.workload import Digests

SOURCE = Path(__file__).parents[1] / "java" / "RoundTrip.java"
ANSWER_LIMIT_S = 600.0


class JavaClientError(Exception):
    """A Java client failed; the text is its exception."""


class JavaClients:
    """Drives RoundTrip.java; `classpath` holds its compiled classes and Kafka's."""

    def __init__(self, bootstrap: str, classpath: str) -> None:
        # slf4j's messages, which have no logger configured here, are not wanted.
        command = ["java", "-Xmx512m", "-cp", classpath, "RoundTrip", bootstrap]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def create(self, topic: str, partitions: int) -> None:
        """A topic through the Admin client."""
        self._ask("create", topic, partitions)

    def produce(self, topic: str, partitions: int, count: int, codec: str) -> Digests:
        """What was sent."""
        return _digests(self._ask("produce", topic, partitions, count, codec))

    def consume(self, topic: str, partitions: int, count: int) -> Digests:
        """What was read."""
        return _digests(self._ask("consume", topic, partitions, count))

    def close(self) -> None:
        """Ends the JVM."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        finally:
            self._process.kill()

    def _ask(self, *words: object) -> str:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(" ".join(map(str, words)) + "\n")
        stdin.flush()
        status, _, rest = self._answers.get(timeout=ANSWER_LIMIT_S).partition(" ")
        if status != "ok":
            raise JavaClientError(rest or "the JVM ended")
        return rest

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                self._answers.put(line.rstrip("\n"))
        self._answers.put("ended")


def _digests(text: str) -> Digests:
    parts = text.split()
    digests = Digests(len(parts))
    for digest, part in zip(digests.of, parts, strict=True):
        count, _, checksum = part.partition(":")
        digest.count, digest.checksum = int(count), int(checksum, 16)
    return digests

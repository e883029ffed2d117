"""A client in another language: a program that answers each command line with a line."""

from __future__ import annotations

import queue
import subprocess
import threading

from tests.interop.workload import Digests

ANSWER_LIMIT_S = 600.0


class LineClientError(Exception):
    """The program failed; the text is its output."""


class LineClient:
    """Drives the program, which runs until `close`."""

    def __init__(self, command: list[str]) -> None:
        # Unconfigured loggers write warnings to the error stream; failures are in the answers.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def produce(self, topic: str, partitions: int, count: int, codec: str) -> Digests:
        """Makes the program send its own records, of every kind; returns their digests."""
        return _digests(self.ask("produce", topic, partitions, count, codec))

    def consume(self, topic: str, partitions: int, count: int) -> Digests:
        """Reads from the beginning of all partitions; returns the digests."""
        return _digests(self.ask("consume", topic, partitions, count))

    def ask(self, *words: object) -> str:
        """Returns the rest of the answer to one line. Raises LineClientError unless it is `ok`."""
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(" ".join(map(str, words)) + "\n")
        stdin.flush()
        status, _, rest = self._answers.get(timeout=ANSWER_LIMIT_S).partition(" ")
        if status != "ok":
            raise LineClientError(rest or "the program ended")
        return rest

    def close(self) -> None:
        """Ends the program."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        finally:
            self._process.kill()

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

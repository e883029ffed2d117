"""Kafka Streams with exactly_once_v2: two instances count words, one is killed, and every count is told once."""

from __future__ import annotations

import os
import re
import subprocess
import uuid
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer

from tests.conformance.kafka_jars import require_compiled, require_streams
from tests.interop.conftest import TopicFactory
from tests.interop.reading import read_all
from tests.support.broker_process import Output

pytestmark = [pytest.mark.clients, pytest.mark.conformance, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parent / "java" / "StreamsCount.java"
LINES = int(os.environ.get("BARNABAS_STREAMS_LINES", "3000"))
WORDS = [f"word-{number}" for number in range(40)]
PARTITIONS = 4
LIMIT_S = 90.0


class Instance:
    """One process of the application."""

    def __init__(self, words: list[str], directory: Path) -> None:
        jars = require_compiled(SOURCE, jars=require_streams())
        flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        self._process = subprocess.Popen(
            ["java", *flags, "-cp", jars, "StreamsCount", *words, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self._output = Output(self._process.stdout)

    def await_running(self) -> None:
        """Until it says that it runs."""
        assert self._output.wait_for(re.compile("^running"), LIMIT_S), self._output.text

    def end(self) -> None:
        """In order."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(LIMIT_S) == 0, self._output.text
        assert "error" not in self._output.text.splitlines()

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._process.wait()
        self._output.join()
        assert self._process.stdin is not None
        self._process.stdin.close()


class Counting:
    """The lines that go in, and what must come out."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._bootstrap, self._source, self._target = bootstrap, source, target
        self._dice = Random(1)
        self._expected: Counter[str] = Counter()

    def feed(self, lines: int) -> None:
        """So many more."""
        for _ in range(lines):
            words = self._dice.choices(WORDS, k=3)
            self._expected.update(words)
            self._producer.produce(self._source, " ".join(words))
        assert self._producer.flush(30) == 0

    def check(self) -> None:
        """Of each word all counts from one on, in order, none twice: waits until the last is there."""
        told: dict[str, list[int]] = {}
        for _ in range(100):
            told = {}
            for message in read_all(self._bootstrap, self._target, PARTITIONS):
                told.setdefault((message.key() or b"").decode(), []).append(int(message.value() or b"0"))
            if sum(map(len, told.values())) >= self._expected.total():
                break
        wrong = {word: counts for word, counts in told.items() if counts != list(range(1, len(counts) + 1))}
        assert not wrong, {word: counts[:20] for word, counts in wrong.items()}
        assert {word: len(counts) for word, counts in told.items()} == dict(self._expected)


def test_every_count_is_told_once(bootstrap: str, topic: TopicFactory, tmp_path: Path) -> None:
    source, target, name = topic(PARTITIONS), topic(PARTITIONS), f"counts-{uuid.uuid4().hex[:8]}"
    counting = Counting(bootstrap, source, target)
    counting.feed(LINES // 3)
    words = [bootstrap, name, source, target]
    instances = [Instance(words, tmp_path / "one")]
    try:
        instances[0].await_running()
        instances.append(Instance(words, tmp_path / "two"))
        instances[1].await_running()
        counting.feed(LINES // 3)
        instances[0].kill()
        counting.feed(LINES // 3)
        instances.append(Instance(words, tmp_path / "one"))
        counting.check()
        for instance in instances[1:]:
            instance.end()
    finally:
        for instance in instances:
            instance.kill()

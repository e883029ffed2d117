"""Kafka Streams: counts with exactly_once_v2 while an instance is killed; new topics that match a pattern."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
import uuid
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer

from tests.conformance.kafka_jars import require_compiled, require_streams
from tests.interop.clients.confluent import AdminClient, NewTopic
from tests.interop.conftest import TopicFactory
from tests.interop.reading import read_all, values
from tests.support.broker_process import Output

pytestmark = [pytest.mark.clients, pytest.mark.conformance, pytest.mark.timeout(300)]

JAVA = Path(__file__).parent / "java"
LINES = int(os.environ.get("BARNABAS_STREAMS_LINES", "3000"))
WORDS = [f"word-{number}" for number in range(40)]
PARTITIONS = 4
LIMIT_S = 90.0
TOPICS_OF_A_PATTERN = 4
FETCH_WAITS_AFTER_S = 1.0
"""After this time a fetch usually waits. If none does, the test checks less, but does not fail."""


class Instance:
    """One process of an application, a Java class in java/."""

    def __init__(self, application: str, words: list[str], directory: Path) -> None:
        jars = require_compiled(JAVA / f"{application}.java", jars=require_streams())
        flags = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        self._process = subprocess.Popen(
            ["java", *flags, "-cp", jars, application, *words, str(directory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self._output = Output(self._process.stdout)

    def await_running(self, topic: str = "") -> None:
        """Waits until it reports that it runs and reads this topic."""
        assert self._output.wait_for(re.compile(f"^running.*{topic}"), LIMIT_S), self._output.text

    def end(self) -> None:
        """Ends it cleanly."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(LIMIT_S) == 0, self._output.text
        assert "error" not in self._output.text.splitlines()

    def ends_by_itself(self, limit_s: float) -> bool:
        """Whether it ends with an error."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(limit_s)
        return "error" in self._output.text.splitlines()

    def kill(self) -> None:
        """Kills it (kill -9)."""
        self._process.kill()
        self._process.wait()
        self._output.join()
        assert self._process.stdin is not None
        self._process.stdin.close()


class CountHarness:
    """Produces lines of words, and checks their counts."""

    def __init__(self, bootstrap: str, source: str, target: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap})
        self._bootstrap, self._source, self._target = bootstrap, source, target
        self._dice = Random(1)
        self._expected: Counter[str] = Counter()

    def feed(self, lines: int) -> None:
        """Produces more lines."""
        for _ in range(lines):
            words = self._dice.choices(WORDS, k=3)
            self._expected.update(words)
            self._producer.produce(self._source, " ".join(words))
        assert self._producer.flush(30) == 0

    def check(self) -> None:
        """Waits for the last count; the counts of each word must ascend from one without duplicates."""
        counts_by_word: dict[str, list[int]] = {}
        for _ in range(100):
            counts_by_word = {}
            for message in read_all(self._bootstrap, self._target, PARTITIONS):
                counts_by_word.setdefault((message.key() or b"").decode(), []).append(
                    int(message.value() or b"0")
                )
            if sum(map(len, counts_by_word.values())) >= self._expected.total():
                break
        wrong = {
            word: counts
            for word, counts in counts_by_word.items()
            if counts != list(range(1, len(counts) + 1))
        }
        assert not wrong, {word: counts[:20] for word, counts in wrong.items()}
        assert {word: len(counts) for word, counts in counts_by_word.items()} == dict(self._expected)


def test_every_count_is_written_once(bootstrap: str, topic: TopicFactory, tmp_path: Path) -> None:
    source, target, name = topic(PARTITIONS), topic(PARTITIONS), f"counts-{uuid.uuid4().hex[:8]}"
    harness = CountHarness(bootstrap, source, target)
    harness.feed(LINES // 3)
    words = [bootstrap, name, source, target]
    instances = [Instance("StreamsCount", words, tmp_path / "one")]
    try:
        instances[0].await_running()
        instances.append(Instance("StreamsCount", words, tmp_path / "two"))
        instances[1].await_running()
        harness.feed(LINES // 3)
        instances[0].kill()
        harness.feed(LINES // 3)
        instances.append(Instance("StreamsCount", words, tmp_path / "one"))
        harness.check()
        for instance in instances[1:]:
            instance.end()
    finally:
        for instance in instances:
            instance.kill()


def test_topics_that_match_a_pattern_are_created_while_the_application_runs(
    bootstrap: str, topic: TopicFactory, admin: AdminClient, tmp_path: Path
) -> None:
    """Each record of each topic is copied.

    The task requests the end offset of a new partition on the connection on which a fetch waits, and the only record
    of the partition arrives then. If the end offset is from before the record, the lag is negative, and the task waits
    for the partition forever once another partition has records.
    """
    target, prefix = topic(), f"pattern-{uuid.uuid4().hex[:8]}"
    producer = Producer({"bootstrap.servers": bootstrap})
    expected: set[bytes] = set()
    known: list[str] = []

    def create_next_topic(number: int) -> None:
        known.append(f"{prefix}-{number}")
        admin.create_topics([NewTopic(known[-1], 1, 1)])[known[-1]].result(LIMIT_S)

    def feed(*names: str) -> None:
        for name in names:
            value = f"{name} {len(expected)}".encode()
            expected.add(value)
            producer.produce(name, value)
            assert producer.flush(LIMIT_S) == 0

    create_next_topic(0)
    create_next_topic(1)
    words = [bootstrap, prefix, f"{prefix}-.*", target]
    instance = Instance("StreamsRegex", words, tmp_path / "state")
    try:
        for number in range(1, TOPICS_OF_A_PATTERN):
            instance.await_running(known[number])
            time.sleep(FETCH_WAITS_AFTER_S)
            feed(known[number])
            wait_until_copied(bootstrap, target, expected)
            feed(known[0])
            wait_until_copied(bootstrap, target, expected)
            create_next_topic(number + 1)
        instance.end()
    finally:
        instance.kill()
        for deleted in admin.delete_topics(known).values():
            deleted.result(LIMIT_S)


def wait_until_copied(bootstrap: str, target: str, expected: set[bytes]) -> None:
    """Waits until all of `expected` is copied. Raises AssertionError after LIMIT_S."""
    deadline = time.monotonic() + LIMIT_S
    while (found := set(values(bootstrap, target))) != expected:
        assert found <= expected, found - expected
        assert time.monotonic() < deadline, f"stalled: missing {sorted(expected - found)}"

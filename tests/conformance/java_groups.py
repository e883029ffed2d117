"""Drives JavaGroups.java, Apache Kafka's side of the checks of consumer groups."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from barnabas.broker.coordinator.group.consumer.assignors.spec import GroupSpec
from barnabas.broker.coordinator.group.consumer.consumer_member import Partitions
from barnabas.protocol.wire import Uuid
from tests.conformance.kafka_jars import require_compiled

SOURCE = Path(__file__).parent / "java" / "JavaGroups.java"


def word(value: str | bytes | int | None) -> str:
    """A value in the format of the Java process."""
    if value is None:
        return "-"
    if isinstance(value, int):
        return str(value)
    return "x" + (value.encode() if isinstance(value, str) else value).hex()


class JavaGroups:
    """The running Java process."""

    def __init__(self) -> None:
        classpath = require_compiled(SOURCE)
        self._process = subprocess.Popen(
            ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", classpath, SOURCE.stem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="ascii",
        )

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate(timeout=30)

    def _request(self, request: str, words: Iterable[str | bytes | int | None]) -> list[str]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(" ".join([request, *map(word, words)]) + "\n")
        stdin.flush()
        answer = []
        while (line := stdout.readline().rstrip("\n")) != "end":
            assert line, "the Java process has ended"
            assert not line.startswith("error"), line
            answer.append(line)
        return answer

    def assign(self, name: str, group: GroupSpec) -> dict[str, Partitions]:
        """The assignment of Kafka's assignor of that name; members without partitions are left out."""
        words: list[str | bytes | int | None] = [len(group.partition_counts)]
        for topic_id, partitions in group.partition_counts.items():
            words += [topic_id, partitions]
        words.append(len(group.members))
        for member_id, member in group.members.items():
            words += [member_id, member.instance_id, len(member.topics), *member.topics, len(member.assigned)]
            for topic_id, assigned in member.assigned.items():
                words += [topic_id, len(assigned), *sorted(assigned)]
        kind = "same" if group.is_homogeneous else "different"
        found: dict[str, dict[Uuid, set[int]]] = {}
        for line in self._request(f"assign {name} {kind}", words):
            member_word, topic_word, partition = line.split()
            topics = found.setdefault(bytes.fromhex(member_word[1:]).decode(), {})
            topics.setdefault(bytes.fromhex(topic_word[1:]), set()).add(int(partition))
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in found.items()
        }

    def hashes(
        self, racks: Sequence[str | None], topics: Mapping[str, tuple[Uuid, int, Sequence[int]]]
    ) -> tuple[list[int], int]:
        """The hash of each topic (id, number of partitions, replicas of each), and the hash of all together."""
        words: list[str | bytes | int | None] = [len(racks), *racks, len(topics)]
        for name, (topic_id, partitions, replicas) in topics.items():
            words += [name, topic_id, partitions, len(replicas), *replicas]
        *each, together = map(int, self._request("hash", words))
        return each, together

    def matches(self, pattern: str, names: Sequence[str]) -> list[bool] | None:
        """Whether a pattern matches each whole name; None for an invalid pattern."""
        (answer,) = self._request("match", [pattern, *names])
        return None if answer == "rejected" else [word == "1" for word in answer.split()[1:]]

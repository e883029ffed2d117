"""Drives JavaQuotas.java, Apache Kafka's managers of quotas under a clock that the test turns."""

from __future__ import annotations

import subprocess
from pathlib import Path

from barnabas.broker.quotas.limits import Entity, Part
from tests.conformance.kafka_jars import require_compiled

SOURCE = Path(__file__).parent / "java" / "JavaQuotas.java"


def word(name: str) -> str:
    """A name in the format of the Java process."""
    return "x" + name.encode().hex()


def _part(part: Part) -> str:
    if part is None:
        return "-"
    return "*" if part[0] is None else word(part[0])


class JavaQuotas:
    """The running Java process, with one manager at a time."""

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

    def _ask(self, *words: object) -> str:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(" ".join(map(str, words)) + "\n")
        stdin.flush()
        answer = stdout.readline().rstrip("\n")
        assert answer, "the Java process has ended"
        return answer

    def renew(self, quota_type: str, samples: int, window_s: int) -> None:
        """Begins with a new manager."""
        self._ask("new", quota_type, samples, window_s)

    def set(self, entity: Entity, limit: float | None) -> None:
        self._ask("set", *map(_part, entity), "-" if limit is None else repr(limit))

    def advance(self, ms: int) -> None:
        self._ask("advance", ms)

    def record(self, user: str, client_id: str, value: float) -> int:
        return int(self._ask("record", word(user), word(client_id), repr(value)))

    def unrecord(self, user: str, client_id: str, value: float) -> None:
        self._ask("unrecord", word(user), word(client_id), repr(value))

    def max_in_window(self, user: str, client_id: str) -> float:
        return float(self._ask("max", word(user), word(client_id)))

    def change(self, kind: str, user: str, client_id: str, partitions: list[int]) -> tuple[list[bool], int]:
        """Which of the changes are allowed by a quota of the kind (strict or permissive), and the throttle time."""
        allowed, throttle_ms = self._ask(kind, word(user), word(client_id), *partitions).split()
        return [letter == "1" for letter in allowed], int(throttle_ms)

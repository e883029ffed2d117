"""Drives JavaSecurity.java: names of certificates, mapping rules and regular expressions as the JVM sees them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.conformance.kafka_jars import require_compiled

SOURCE = Path(__file__).parent / "java" / "JavaSecurity.java"


class JavaSecurity:
    """The running Java process."""

    def __init__(self) -> None:
        classpath = require_compiled(SOURCE)
        self._process = subprocess.Popen(
            ["java", "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", classpath, SOURCE.stem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="ascii",
        )

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate(timeout=30)

    def name(self, subject: bytes) -> str | None:
        """X500Principal.getName() of a name in DER; None where Java rejects it."""
        answer = self._ask("name", subject)
        return None if answer == "rejected" else _text(answer)

    def mapped(self, rules: str, name: str) -> tuple[str, str | None]:
        """What SslPrincipalMapper makes of a name: "rejected" rules, "none" that match, "fails", or "name" with it."""
        answer = self._ask("map", rules.encode(), name.encode())
        return ("name", _text(answer)) if answer.startswith("x") else (answer, None)

    def short_name(self, rules: Sequence[str], name: str, realm: str) -> tuple[str, str | None]:
        """What KerberosShortNamer makes of a principal; as `mapped`."""
        answer = self._ask("short", realm.encode(), name.encode(), *(rule.encode() for rule in rules))
        return ("name", _text(answer)) if answer.startswith("x") else (answer, None)

    def matches(self, pattern: str, texts: Sequence[str]) -> list[bool] | None:
        """Whether a pattern matches each whole text; None for an invalid pattern."""
        answer = self._ask("matches", pattern.encode(), *(text.encode() for text in texts))
        return None if answer == "rejected" else [mark == "1" for mark in answer[1:]]

    def _ask(self, request: str, *words: bytes) -> str:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(" ".join([request, *("x" + word.hex() for word in words)]) + "\n")
        stdin.flush()
        line = stdout.readline().rstrip("\n")
        assert line, "the Java process has ended"
        return line


def _text(word: str) -> str:
    return bytes.fromhex(word.removeprefix("x")).decode()

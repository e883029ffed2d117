"""Drives JavaRetriever.java: how Apache Kafka's clients fetch tokens for OAUTHBEARER."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conformance.kafka_jars import require_compiled

SOURCE = Path(__file__).parent / "java" / "JavaRetriever.java"


class JavaRetriever:
    """The running Java process, which may ask these URLs and read these files."""

    def __init__(self, urls: Sequence[str], files: Sequence[str]) -> None:
        classpath = require_compiled(SOURCE)
        allowed = [
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}={','.join(texts)}"
            for kind, texts in (("urls", urls), ("files", files))
        ]
        self._process = subprocess.Popen(
            ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", *allowed, "-cp", classpath, SOURCE.stem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="ascii",
        )

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate(timeout=60)

    def fetch(self, values: Mapping[str, str], options: Mapping[str, str]) -> str | None:
        """The token that a client with these properties and options fetches; None where it fails."""
        given = {**values, **{f"jaas.{name}": text for name, text in options.items()}}
        text = "".join(f"{name}={value}\n" for name, value in given.items())
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(text.encode().hex() + "\n")
        stdin.flush()
        word, _, rest = stdout.readline().strip().partition(" ")
        assert word in ("fetched", "failed"), f"the Java process has ended: {word}"
        return rest if word == "fetched" else None

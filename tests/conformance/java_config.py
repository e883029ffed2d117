"""Drives JavaConfig.java, Apache Kafka's side of the configuration checks."""

from __future__ import annotations

import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "java" / "JavaConfig.java"


class KafkaRejectedError(Exception):
    """Kafka rejected the request; the message is that of its exception."""


class JavaConfig:
    """The running Java process."""

    def __init__(self, classpath: str) -> None:
        command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", classpath, str(SOURCE)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="ascii",
        )

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate(timeout=30)

    def request(self, request: str, *words: str | bytes) -> list[list[str | None]]:
        """Sends a request and returns the lines of the answer, split into words. Raises KafkaRejectedError.

        A `bytes` word is sent in hex, as texts are; a `str` word unchanged.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        sent = [word if isinstance(word, str) else word.hex() or "." for word in words]
        stdin.write(" ".join([request, *sent]) + "\n")
        stdin.flush()
        answer = []
        while (line := stdout.readline().rstrip("\n")) != "end":
            if not line:
                raise KafkaRejectedError("the Java process has ended")
            if line.startswith("error "):
                raise KafkaRejectedError(text(line.removeprefix("error ")))
            answer.append([None if word == "-" else word for word in line.split(" ")])
        return answer

    def parse(self, kind: str, name: str, value: str) -> str | None:
        """A value parsed and formatted by Kafka. Raises KafkaRejectedError."""
        ((written,),) = self.request("parse", kind, name.encode(), value.encode())
        return text(written)

    def starts_with(self, properties: str) -> bool:
        """Whether Kafka would start from these properties."""
        return self._accepts("start", properties)

    def accepts_topic(self, settings: str, properties: str) -> bool:
        """Whether Kafka would create a topic with these settings on a broker with these properties."""
        return self._accepts("topic", settings, properties)

    def _accepts(self, request: str, *files: str) -> bool:
        try:
            self.request(request, *(file.encode() for file in files))
        except KafkaRejectedError:
            return False
        return True


def text(word: str | None) -> str | None:
    """Decodes a word of an answer."""
    if word is None:
        return None
    return "" if word == "." else bytes.fromhex(word).decode()

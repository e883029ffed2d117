"""Drives JavaTokens.java: tokens and first messages of OAUTHBEARER as Apache Kafka takes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.conformance.kafka_jars import require_compiled

SOURCE = Path(__file__).parent / "java" / "JavaTokens.java"


class JavaTokens:
    """The running Java process, with the keys of one file."""

    def __init__(self, keys_url: str) -> None:
        classpath = require_compiled(SOURCE)
        allowed = [
            f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{kind}={text}"
            for kind, text in (("urls", keys_url), ("files", keys_url.removeprefix("file://")))
        ]
        self._keys_url = keys_url
        self._process = subprocess.Popen(
            ["java", "-XX:TieredStopAtLevel=1", "-Xmx256m", *allowed, "-cp", classpath, SOURCE.stem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="ascii",
        )

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate(timeout=30)

    def configure(self, issuer: str = "", audiences: str = "", user_claim: str = "sub") -> None:
        """What a token must say; empty for nothing."""
        assert self._ask("configure", self._keys_url, issuer, audiences, user_claim) == "configured"

    def validate(self, token: str) -> tuple[str, int] | None:
        """The user and the end in ms of a token; None where Kafka rejects it."""
        answer = self._ask("validate", token)
        if answer == "rejected":
            return None
        user, ends = answer.split(" ")
        return _text(user), int(ends)

    def parse(self, message: bytes) -> tuple[str, str] | None:
        """The token and the authorization id of a first message; None where Kafka rejects it."""
        answer = self._ask("parse", message)
        if answer == "rejected":
            return None
        token, authorization_id = answer.split(" ")
        return _text(token), _text(authorization_id)

    def _ask(self, request: str, *words: str | bytes) -> str:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        given = (word.encode(errors="surrogatepass") if isinstance(word, str) else word for word in words)
        stdin.write(" ".join([request, *("x" + word.hex() for word in given)]) + "\n")
        stdin.flush()
        line = stdout.readline().rstrip("\n")
        assert line, "the Java process has ended"
        return line


def _text(word: str) -> str:
    return bytes.fromhex(word.removeprefix("x")).decode()

"""Drives JavaAuthorizer.java, Apache Kafka's own StandardAuthorizer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from barnabas.broker.request import KafkaPrincipal
from barnabas.broker.security.authorizer import Action
from tests.conformance.dialogues.acls import Entry
from tests.conformance.java_groups import word
from tests.conformance.kafka_jars import require_compiled

SOURCE = Path(__file__).parent / "java" / "JavaAuthorizer.java"


class Decision(NamedTuple):
    """What Kafka decided, and its audit lines, each with its level in front."""

    allowed: bool
    lines: list[str]


class JavaAuthorizer:
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

    def _request(self, request: str, words: Iterable[str | int]) -> list[str]:
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

    def reset(self, super_users: str, *, allow_everyone: bool) -> None:
        """Begins with no ACLs."""
        self._request("new", [super_users, "true" if allow_everyone else "false"])

    def add(self, entry: Entry) -> None:
        self._request("acl", entry)

    def remove(self, number: int) -> None:
        """Removes the ACL that was added as the one with this number, from 0 on."""
        self._request("remove", [number])

    def ask(self, principal: KafkaPrincipal, host: str, api_key: int, action: Action) -> Decision:
        allowed, *lines = self._request(
            "ask",
            [
                principal.principal_type,
                principal.name,
                host,
                api_key,
                int(action.operation),
                int(action.resource_type),
                action.name,
                action.references,
                int(action.log_if_allowed),
                int(action.log_if_denied),
            ],
        )
        return Decision(allowed == "1", [bytes.fromhex(line[1:]).decode() for line in lines])

    def ask_any(
        self, principal: KafkaPrincipal, host: str, api_key: int, operation: int, resource_type: int
    ) -> bool:
        """authorizeByResourceType."""
        words: list[str | int] = [
            principal.principal_type,
            principal.name,
            host,
            api_key,
            int(operation),
            int(resource_type),
        ]
        (allowed,) = self._request("any", words)
        return allowed == "1"

    def host_address(self, host: str) -> str:
        """How Java writes an address."""
        (written,) = self._request("host", [host])
        return bytes.fromhex(written[1:]).decode()

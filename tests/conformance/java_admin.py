"""Drives JavaAdmin.java: Kafka's Java AdminClient, consumer and tools in one JVM, for as long as the tests need it."""

from __future__ import annotations

import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance.kafka_jars import require_compiled, require_shell

SOURCE = Path(__file__).parent / "java" / "JavaAdmin.java"
TOOLS = "org.apache.kafka.tools."
TOOL_CLASSES = {
    "kafka-acls": TOOLS + "AclCommand",
    "kafka-broker-api-versions": TOOLS + "BrokerApiVersionsCommand",
    "kafka-client-metrics": TOOLS + "ClientMetricsCommand",
    "kafka-cluster": TOOLS + "ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups": TOOLS + "consumer.group.ConsumerGroupCommand",
    "kafka-delegation-tokens": TOOLS + "DelegationTokenCommand",
    "kafka-delete-records": TOOLS + "DeleteRecordsCommand",
    "kafka-dump-log": TOOLS + "DumpLogSegments",
    "kafka-features": TOOLS + "FeatureCommand",
    "kafka-get-offsets": TOOLS + "GetOffsetShell",
    "kafka-groups": TOOLS + "GroupsCommand",
    "kafka-leader-election": TOOLS + "LeaderElectionCommand",
    "kafka-log-dirs": TOOLS + "LogDirsCommand",
    "kafka-metadata-quorum": TOOLS + "MetadataQuorumCommand",
    "kafka-metadata-shell": "org.apache.kafka.shell.MetadataShell",
    "kafka-reassign-partitions": TOOLS + "reassign.ReassignPartitionsCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-topics": TOOLS + "TopicCommand",
    "kafka-transactions": TOOLS + "TransactionsCommand",
}
"""Kafka's scripts, by name, and the classes that they start."""

SETTLING_LIMIT_S = 30.0

Answer = Any
"""A JSON value: mostly dictionaries by name, with "ok", a value, or {"error": ..., "message": ...}."""


class ToolRun(NamedTuple):
    """The exit status and output of a tool."""

    status: int
    out: str
    err: str


class JavaError(Exception):
    """A whole request failed; the arguments are the class and the message of the Java exception."""


class JavaAdmin:
    """A running Java process with Kafka's newest client, which works with brokers of all versions."""

    def __init__(self) -> None:
        classpath = f"{require_compiled(SOURCE)}:{require_shell()}"
        flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-Dlog4j2.level=OFF"]
        self._process = subprocess.Popen(
            ["java", *flags, "-cp", classpath, SOURCE.stem],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        self._settled: Counter[str] = Counter()

    def close(self) -> None:
        """Ends the process."""
        self._process.communicate(timeout=30)

    def request(self, bootstrap: str, do: str, **more: object) -> Answer:
        """Sends a request and returns its answer. Raises JavaError when the whole request fails."""
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"do": do, "bootstrap": bootstrap, **more}) + "\n")
        stdin.flush()
        line = stdout.readline()
        if not line:
            raise JavaError("JavaAdmin", "the Java process has ended")
        answer = json.loads(line)
        if "error" in answer:
            raise JavaError(answer["error"], answer["message"])
        return answer["answer"]

    def describe(self, bootstrap: str, *parts: str) -> dict[str, Any]:
        """Everything the broker reports of its cluster, or the named parts of it (see ClusterView.java)."""
        shown: dict[str, Any] = self.request(bootstrap, "describe", parts=parts)
        return shown

    def settle(self, bootstrap: str) -> None:
        """Waits until the broker reports all acknowledged changes: Kafka's controller is ahead of its brokers.

        For that it changes a subscription to client metrics named "settled" and waits for this change to appear.
        """
        self._settled[bootstrap] += 1
        resource = {"type": "CLIENT_METRICS", "name": "settled"}
        value = str(60_000 + self._settled[bootstrap])
        self.request(
            bootstrap, "alterConfigs", resources=[{**resource, "ops": [["SET", "interval.ms", value]]}]
        )
        deadline = time.monotonic() + SETTLING_LIMIT_S
        while True:
            (reported,) = self.request(bootstrap, "describeConfigs", resources=[resource]).values()
            if reported.get("interval.ms", {}).get("value") == value:
                return
            assert time.monotonic() < deadline, f"a change is not reported: {reported}"

    def forget(self, bootstrap: str) -> None:
        """Closes the client of a broker that has stopped."""
        self.request(bootstrap, "forget")

    def tool(self, name: str, *words: str) -> ToolRun:
        """Runs one of Kafka's command-line tools, by the name of its script, in this JVM."""
        answer = self.request("", "tool", **{"class": TOOL_CLASSES[name]}, args=words)
        return ToolRun(**answer)

    def tree(self, files: Iterable[Path]) -> dict[str, Any]:
        """The image that Kafka's own classes build from a snapshot and the segments after it.

        "tree" is the tree of the metadata shell, directories as dictionaries, with nothing redacted; "records" counts
        the records of each type.
        """
        found: dict[str, Any] = self.request("", "tree", files=[str(path) for path in files])
        return found

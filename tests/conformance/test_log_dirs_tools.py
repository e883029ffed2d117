"""kafka-reassign-partitions with log_dirs and kafka-log-dirs print the same against Apache Kafka and Barnabas."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import DialogueClient, batch
from tests.conformance.dialogues.topics import create, wish
from tests.conformance.java_admin import JavaAdmin
from tests.conformance.kafka_jars import require_classpath
from tests.conformance.test_dialogues import three_dirs
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(200)]

TOPIC = "tool"
LIMIT_S = 60.0


def outputs_of(broker: ApacheKafka | BrokerProcess, parent: Path, tools: JavaAdmin) -> list[object]:
    """The output and exit status of each run of a tool, with placeholders for the paths of log directories."""
    lines: list[object] = []

    def run(tool: str, *words: str) -> str:
        done = tools.tool(tool, "--bootstrap-server", broker.bootstrap, *words)
        out = re.sub(rf"{parent}/(d\d)", r"<\1>", done.out)
        return f"{done.status}\n{out}"

    with broker:
        with BrokerConnection("127.0.0.1", broker.port) as connection:
            client = DialogueClient(connection, 7, "")
            connection.request(create(wish(TOPIC, 2)), 7)
            time.sleep(1.0)
            client.write(TOPIC, *(batch(b"%d" % number) for number in range(50)), partition=1)
        for number, directories in enumerate((("d2", "d3"), ("d3", "d2"), ("d1", "d1"))):
            moves = parent / f"moves-{number}.json"
            moves.write_text(plan(parent, directories))
            flags = ("--reassignment-json-file", str(moves))
            executed = run(
                "kafka-reassign-partitions",
                "--execute",
                *flags,
                "--replica-alter-log-dirs-throttle",
                "10000000",
            )
            lines.append(executed.rpartition("Save this")[2])
            deadline = time.monotonic() + LIMIT_S
            while is_moving(verified := run("kafka-reassign-partitions", "--verify", *flags)):
                assert time.monotonic() < deadline, verified
            lines.append(verified)
            words = ("--describe", "--topic-list", TOPIC)
            while '"isFuture":true' in (described := run("kafka-log-dirs", *words)):
                assert time.monotonic() < deadline, described
            lines.append(in_order(described))
        moves.write_text(plan(parent, ("nowhere", "nowhere")))
        lines.append(run("kafka-reassign-partitions", "--execute", *flags).rpartition("Save this")[2][:300])
        lines.append(run("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "1"))
    return lines


def is_moving(verified: str) -> bool:
    """Whether a move may not have ended: Kafka has now and then, for a moment, neither future log nor result."""
    return "still in progress" in verified or "is not being moved" in verified


def plan(parent: Path, directories: tuple[str, str]) -> str:
    """A reassignment that puts partition 0 into the first of the directories, and 1 into the second."""
    return json.dumps(
        {
            "version": 1,
            "partitions": [
                {"topic": TOPIC, "partition": index, "replicas": [1], "log_dirs": [str(parent / name)]}
                for index, name in enumerate(directories)
            ],
        }
    )


def in_order(text: str) -> object:
    """The lines, JSON parsed with its lists sorted, without the sizes of the disk."""

    def ordered(value: object) -> object:
        if isinstance(value, dict):
            return {
                key: ordered(one) for key, one in value.items() if key not in ("totalBytes", "usableBytes")
            }
        return sorted(map(ordered, value), key=repr) if isinstance(value, list) else value

    return [ordered(json.loads(line)) if line.startswith("{") else line for line in text.splitlines()]


def test_tools_print_the_same_about_log_dirs(tmp_path: Path, java: JavaAdmin) -> None:
    for name in ("kafka", "ours"):
        (tmp_path / name).mkdir()
    settings = {"node.id": "1"}
    kafka_dir, our_dir = tmp_path / "kafka", tmp_path / "ours"
    kafka = outputs_of(
        ApacheKafka(kafka_dir, require_classpath(), settings | three_dirs(kafka_dir)), kafka_dir, java
    )
    profile = {"barnabas.profile": "kafka"}
    ours = outputs_of(BrokerProcess(our_dir, {**settings, **profile, **three_dirs(our_dir)}), our_dir, java)
    for our_line, line in zip(ours, kafka, strict=True):
        assert our_line == line

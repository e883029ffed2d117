"""The history by Kafka's command-line tools."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.conformance.handover import kafka_side
from tests.conformance.java_admin import JavaAdmin, ToolRun
from tests.conformance.parity.transcript import Transcript, Tree

Words = tuple[str, ...]
_JAVA_ERROR = re.compile(r"[\w.]*\.(\w+(?:Exception|Error))")
_LENGTHS = re.compile(r"(Epoch:|HighWatermark:|^1 +\t\S+\t)\s*\d+")


def run_history(transcript: Transcript, java: JavaAdmin) -> None:
    """Runs all steps and notes their answers."""
    place = transcript.place
    work = Path(place.work)
    for name, content in files().items():
        (work / name).write_text(json.dumps(content))

    def run(step: str, tool: str, words: Words) -> None:
        filled = [
            word.format(broker=place.bootstrap, work=work, data=place.data, properties=place.properties)
            for word in words
        ]
        transcript.note(f"tools/{step}", lambda: shown(java.tool(tool, *filled)))

    for number, (tool, words) in enumerate(changes()):
        run(f"{tool} {number} {' '.join(words[:2])}", tool, (*server_flag(tool), *words))
    kafka_side.produce(place.bootstrap, "tool-a", 30)
    java.settle(place.bootstrap)
    for number, (tool, words) in enumerate(descriptions()):
        run(f"{tool} look {number} {' '.join(words[:2])}", tool, (*server_flag(tool), *words))


def server_flag(tool: str) -> Words:
    """The option that gives a tool the address of the broker."""
    if tool in ("kafka-cluster", "kafka-storage", "kafka-dump-log"):
        return ()
    return ("--bootstrap-server", "{broker}")


def shown(run: ToolRun) -> Tree:
    """The output of a tool: the count of each line, as many lines come in hash order, and the classes of errors.

    Offsets of the metadata log are replaced.
    """
    errors = sorted(set(_JAVA_ERROR.findall(run.err)))
    if run.status:
        return {"status": run.status, "errors": errors}
    lines = Counter(_LENGTHS.sub(r"\1 <offset>", _sorted(line.strip())) for line in run.out.splitlines())
    return {"status": run.status, "out": dict(lines), "errors": errors}


def _sorted(line: str) -> str:
    """JSON with sorted lists: brokers return partitions in any order."""
    return json.dumps(_in_order(json.loads(line)), sort_keys=True) if line.startswith("{") else line


def _in_order(value: Tree) -> Tree:
    if isinstance(value, dict):
        return {key: _in_order(one) for key, one in value.items()}
    return sorted(map(_in_order, value), key=repr) if isinstance(value, list) else value


def files() -> dict[str, object]:
    """The input files of the tools."""
    moves = [
        {"topic": "tool-a", "partition": index, "replicas": [1], "log_dirs": ["any"]} for index in (0, 1)
    ]
    return {
        "delete-records.json": {
            "version": 1,
            "partitions": [{"topic": "tool-a", "partition": 0, "offset": 3}],
        },
        "topics.json": {"version": 1, "topics": [{"topic": "tool-a"}]},
        "moves.json": {"version": 1, "partitions": moves},
        "elections.json": {"partitions": [{"topic": "tool-a", "partition": 0}]},
    }


def changes() -> Iterator[tuple[str, Words]]:
    """Changes of topics, configs, quotas, users, ACLs and features."""
    for words in (
        "--create --topic tool-a --partitions 3 --config retention.ms=99 --config cleanup.policy=delete",
        "--create --topic tool-a",
        "--create --topic tool-a --if-not-exists",
        "--create --topic tool-b --replica-assignment 1,1",
        "--create --topic tool.c --config flush.ms=5",
        "--create --topic tool_c",
        "--create --topic tool-d --config no.such.key=1",
        "--create --topic tool-e --replication-factor 3",
        "--alter --topic tool-b --partitions 4",
        "--alter --topic tool-b --partitions 2",
        "--alter --topic nobody --partitions 2",
        "--alter --topic nobody --partitions 2 --if-exists",
        "--delete --topic tool.c",
        "--delete --topic nobody",
        "--delete --topic nobody --if-exists",
    ):
        yield "kafka-topics", tuple(words.split())
    for words in (
        "--alter --entity-type topics --entity-name tool-a --add-config cleanup.policy=[compact,delete]",
        "--alter --entity-type topics --entity-name tool-a --delete-config retention.ms",
        "--alter --entity-type topics --entity-name tool-a --delete-config segment.ms",
        "--alter --entity-type topics --entity-name tool-a --add-config no.such.key=1",
        "--alter --entity-type topics --entity-name nobody --add-config retention.ms=1",
        "--alter --entity-type brokers --entity-name 1 --add-config log.cleaner.threads=2",
        "--alter --entity-type brokers --entity-default --add-config message.max.bytes=1500000",
        "--alter --entity-type brokers --entity-name 1 --add-config node.id=3",
        "--alter --entity-type users --entity-name ann --add-config producer_byte_rate=1000000000",
        "--alter --entity-type users --entity-default --add-config consumer_byte_rate=1000000000",
        "--alter --entity-type clients --entity-name app --add-config request_percentage=500",
        "--alter --entity-type users --entity-name b --entity-type clients --entity-default"
        " --add-config request_percentage=7",
        "--alter --entity-type ips --entity-name 10.0.0.1 --add-config connection_creation_rate=100",
        "--alter --entity-type users --entity-name ann --add-config SCRAM-SHA-256=[iterations=4096,password=x]",
        "--alter --entity-type client-metrics --entity-name m1 --add-config interval.ms=60000,metrics=org.apache.kafka",
        "--alter --entity-type groups --entity-name g1 --add-config consumer.session.timeout.ms=46000",
    ):
        yield "kafka-configs", tuple(words.split())
    for words in (
        "--add --allow-principal User:bob --allow-host 10.0.0.1 --operation Read --operation Write --topic tool-a",
        "--add --deny-principal User:eve --operation All --topic too --resource-pattern-type prefixed",
        "--add --allow-principal User:con --consumer --topic tool-a --group g",
        "--add --allow-principal User:pro --producer --topic tool-a --transactional-id t --idempotent",
        "--add --allow-principal User:adm --operation Alter --cluster",
        "--remove --allow-principal User:bob --allow-host 10.0.0.1 --operation Read --topic tool-a --force",
    ):
        yield "kafka-acls", tuple(words.split())
    for words in (
        "upgrade --feature share.version=1",
        "downgrade --feature transaction.version=1",
        "upgrade --feature transaction.version=2",
        "upgrade --feature no.such=1",
        "upgrade --metadata 3.9",
        "downgrade --metadata 3.9-IV0",
        "disable --feature streams.version",
        "upgrade --feature streams.version=1",
        "upgrade --release-version 4.3 --dry-run",
    ):
        yield "kafka-features", tuple(words.split())
    yield (
        "kafka-client-metrics",
        ("--alter", "--name", "m2", "--metrics", "org.apache.kafka.", "--interval", "30000"),
    )
    yield "kafka-client-metrics", ("--delete", "--name", "m1")


def descriptions() -> Iterator[tuple[str, Words]]:
    """Descriptions of everything that the tools show."""
    yield "kafka-delete-records", ("--offset-json-file", "{work}/delete-records.json")
    for words in (
        "--list",
        "--list --exclude-internal",
        "--describe --topic tool-a",
        "--describe --topic tool-b",
        "--describe --topic nobody",
        "--describe --topics-with-overrides",
        "--describe --under-replicated-partitions",
        "--describe --unavailable-partitions",
        "--describe --at-min-isr-partitions",
        "--describe",
    ):
        yield "kafka-topics", tuple(words.split())
    for words in (
        "--describe --entity-type topics --entity-name tool-a",
        "--describe --entity-type topics --entity-name tool-a --all",
        "--describe --entity-type topics",
        "--describe --entity-type brokers --entity-name 1",
        "--describe --entity-type brokers --entity-default",
        "--describe --entity-type brokers --entity-name 1 --all",
        "--describe --entity-type users",
        "--describe --entity-type users --entity-name ann",
        "--describe --entity-type users --entity-default",
        "--describe --entity-type clients",
        "--describe --entity-type users --entity-type clients",
        "--describe --entity-type ips",
        "--describe --entity-type client-metrics",
        "--describe --entity-type groups",
        "--describe --entity-type groups --entity-name g1 --all",
        "--describe --entity-type broker-loggers --entity-name 1",
    ):
        yield "kafka-configs", tuple(words.split())
    yield "kafka-client-metrics", ("--list",)
    yield "kafka-client-metrics", ("--describe", "--name", "m2")
    yield "kafka-acls", ("--list",)
    yield "kafka-acls", ("--list", "--topic", "tool-a")
    yield "kafka-acls", ("--list", "--principal", "User:adm", "--cluster")
    yield "kafka-log-dirs", ("--describe",)
    yield "kafka-log-dirs", ("--describe", "--topic-list", "tool-a")
    yield "kafka-log-dirs", ("--describe", "--broker-list", "1")
    yield "kafka-features", ("describe",)
    yield "kafka-metadata-quorum", ("describe", "--status")
    yield "kafka-metadata-quorum", ("describe", "--replication")
    yield "kafka-get-offsets", ()
    yield "kafka-get-offsets", ("--topic", "tool-a", "--time", "earliest")
    yield "kafka-get-offsets", ("--topic-partitions", "tool-a:0", "--time", "max-timestamp")
    yield "kafka-get-offsets", ("--topic", "nobody")
    yield (
        "kafka-reassign-partitions",
        ("--generate", "--topics-to-move-json-file", "{work}/topics.json", "--broker-list", "1"),
    )
    yield "kafka-reassign-partitions", ("--execute", "--reassignment-json-file", "{work}/moves.json")
    yield "kafka-reassign-partitions", ("--verify", "--reassignment-json-file", "{work}/moves.json")
    yield "kafka-reassign-partitions", ("--list",)
    yield "kafka-leader-election", ("--election-type", "preferred", "--all-topic-partitions")
    yield (
        "kafka-leader-election",
        ("--election-type", "preferred", "--path-to-json-file", "{work}/elections.json"),
    )
    yield "kafka-leader-election", ("--election-type", "unclean", "--topic", "tool-a", "--partition", "0")
    yield "kafka-cluster", ("cluster-id", "--bootstrap-server", "{broker}")
    yield "kafka-cluster", ("list-endpoints", "--bootstrap-server", "{broker}")
    yield "kafka-cluster", ("list-endpoints", "--bootstrap-server", "{broker}", "--include-fenced-brokers")
    yield "kafka-cluster", ("unregister", "--bootstrap-server", "{broker}", "--id", "9")
    yield "kafka-transactions", ("describe-producers", "--topic", "tool-a", "--partition", "0")
    yield "kafka-storage", ("info", "-c", "{properties}")
    yield "kafka-broker-api-versions", ()

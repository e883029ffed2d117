"""`barnabas topics`, `configs` and so on beside Kafka's own tools: the same arguments and broker give the same output.

The broker is Apache Kafka 4.3 or ours. The other tool must show each change of the first.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.cli.main import main
from tests.conformance.admin_cli import (
    AGREE_LIMIT_S,
    OUR_NAMES,
    Tools,
    documents,
    lines,
    named,
    quotas,
    sections,
    tabbed,
    table,
)
from tests.conformance.admin_cli import topics as described
from tests.conformance.java_admin import JavaAdmin

pytestmark = pytest.mark.conformance

OVERRIDES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def test_topics(tools: Tools) -> None:
    topics = "kafka-topics"
    tools.ours_succeeds(topics, "--create --topic cli.a --partitions 2 --config retention.ms=5")
    tools.kafka_succeeds(topics, "--create --topic cli-b --replica-assignment 1,1,1")
    tools.ours_succeeds(topics, "--create --topic cli-c --replica-assignment 1")
    for words in (
        "--list",
        "--list --exclude-internal",
        "--list --topic cli-.*",
        "--list --topic nope",
        "--describe",
        "--describe --topic cli.a",
        "--describe --topic cli-b,cli-c",
        "--describe --topics-with-overrides",
        "--describe --under-replicated-partitions",
        "--describe --at-min-isr-partitions",
        "--describe --unavailable-partitions --under-min-isr-partitions",
        "--describe --topic nope --if-exists",
        "--describe --partition-size-limit-per-response 1",
        "--describe --topic-id AAAAAAAAAAAAAAAAAAAAAA",
    ):
        tools.assert_same(described, topics, *words.split())
    topic_id = re.findall(r"TopicId: (\S+)", tools.ours(topics, "--describe", "--topic", "cli-b").out)[0]
    assert tools.assert_same(described, topics, "--describe", "--topic-id", topic_id)
    tools.ours_succeeds(topics, "--alter --topic cli-b --partitions 4")
    tools.kafka_succeeds(topics, "--alter --topic cli-c --partitions 2")
    tools.assert_same(described, topics, "--describe")
    _assert_rejected_topics(tools)
    tools.ours_succeeds(topics, "--delete --topic cli-b|cli-c")
    assert tools.assert_same(described, topics, "--list", "--topic", "cli.*") == ["cli.a"]


def _assert_rejected_topics(tools: Tools) -> None:
    for words in (
        "--create --topic cli.a",
        "--create --topic y --replica-assignment 1:1",
        "--create --topic y --partitions 0",
        "--create --topic y --replication-factor 3",
        "--create --topic y --config foo=bar",
        "--create --topic y --config retention.ms",
        "--create --topic y --config retention.ms=abc",
        "--create --topic y~",
        "--create",
        "--create --topic y --topic z",
        "--describe --topic nope",
        "--describe --topic-id xxx",
        "--describe --topic-id 6nVL2mJlSXmcaX9lAUoRmw",
        "--describe --topics-with-overrides --under-replicated-partitions",
        "--alter --topic cli-b --partitions 4",
        "--alter --topic cli-b --partitions 2",
        "--alter --topic nope --partitions 2",
        "--alter --topic cli-b",
        "--alter --topic cli-b --config a=b --partitions 7",
        "--delete --topic nope",
        "--delete",
        "--list --describe",
        "--list --if-exists",
        "--delete --topic cli.a --partitions 3",
        "--foo",
    ):
        tools.assert_rejected("kafka-topics", *words.split())


def test_configs_of_resources(tools: Tools) -> None:
    configs = "kafka-configs"
    tools.ours_succeeds("kafka-topics", "--create --topic conf")
    for number, words in enumerate(
        (
            "--topic conf --alter --add-config retention.ms=99,cleanup.policy=[compact,delete]",
            "--broker 1 --alter --add-config log.cleaner.threads=2",
            "--broker-defaults --alter --add-config message.max.bytes=2000000",
            "--client-metrics m1 --alter --add-config interval.ms=1000,metrics=[a,b]",
            "--group g1 --alter --add-config consumer.session.timeout.ms=50000",
            "--topic conf --alter --add-config retention.bytes=7 --delete-config retention.ms",
        )
    ):
        run = tools.kafka if number % 2 else tools.ours
        ran = run(configs, *words.split())
        assert (ran.status, ran.out.split()[0]) == (0, "Completed"), (words, ran)
    wanted = [
        "--topic conf",
        "--topic conf --all",
        "--entity-type topics --entity-name conf",
        "--entity-type brokers",
        "--broker 1",
        "--broker 1 --all",
        "--broker-defaults",
        "--entity-type brokers --entity-default",
        "--entity-type client-metrics",
        "--client-metrics m1 --all",
        "--group g1",
        "--group g1 --all",
        "--entity-type groups",
    ]
    for words in wanted:
        assert tools.assert_same(sections, configs, "--describe", *words.split())
    assert "consumer.session.timeout.ms=50000" in tools.ours(configs, "--describe", "--group", "g1").out
    assert tools.assert_same(lambda text: len(lines(text)) > 1, configs, "--describe", "--broker-logger", "1")
    for words in (
        "--topic conf --alter --add-config retention.ms=abc",
        "--topic conf --alter --add-config foo=1",
        "--topic conf --alter --add-config foo",
        "--topic conf --alter",
        "--topic conf",
        "--topic conf --alter --describe",
        "--entity-type topics --alter --add-config a=b",
        "--entity-type topics --describe --entity-default",
        "--entity-type foo --describe",
        "--describe",
        "--entity-type topics --entity-name x --topic y --describe",
        "--broker 1 --alter --add-config broker.id=7",
        "--broker x --describe",
        "--broker-logger 1 --alter --add-config nope=DEBUG",
        "--entity-type broker-loggers --describe",
    ):
        tools.assert_rejected(configs, *words.split())


def test_quotas_and_users(tools: Tools) -> None:
    configs = "kafka-configs"
    for number, words in enumerate(
        (
            "--user alice --alter --add-config producer_byte_rate=1024,consumer_byte_rate=2048",
            "--user alice --client c1 --alter --add-config request_percentage=200.5",
            "--user-defaults --client-defaults --alter --add-config request_percentage=5000",
            "--entity-type users --entity-name bob --entity-type clients --entity-default --alter"
            " --add-config request_percentage=51",
            "--client c2 --alter --add-config controller_mutation_rate=5",
            "--client-defaults --alter --add-config producer_byte_rate=70000000",
            "--ip 127.0.0.1 --alter --add-config connection_creation_rate=70000",
            "--ip-defaults --alter --add-config connection_creation_rate=90000",
            "--user alice --alter --add-config SCRAM-SHA-256=[iterations=8192,password=secret]",
            "--user bob --alter --add-config SCRAM-SHA-512=[password=secret]",
            "--user alice --alter --delete-config consumer_byte_rate",
        )
    ):
        run = tools.kafka if number % 2 else tools.ours
        ran = run(configs, *words.split())
        assert (ran.status, ran.out.split()[0]) == (0, "Completed"), (words, ran)
    for words in (
        "--user alice",
        "--user bob",
        "--user nobody",
        "--entity-type users",
        "--user-defaults",
        "--entity-type users --entity-type clients",
        "--user-defaults --client-defaults",
        "--entity-type clients",
        "--client c2",
        "--entity-type ips",
        "--entity-type ips --entity-name 127.0.0.1",
        "--user alice --client c1",
    ):
        tools.assert_same(quotas, configs, "--describe", *words.split())
    for words in (
        "--user alice --alter --add-config producer_byte_rate=abc",
        "--user alice --alter --add-config consumer_byte_rate=2048.5",
        "--user alice --alter --add-config foo=1",
        "--user alice --alter --delete-config consumer_byte_rate",
        "--user bob --alter --delete-config SCRAM-SHA-256",
        "--user bob --alter --add-config SCRAM-SHA-256=[iterations=10,password=x]",
        "--user bob --alter --add-config SCRAM-SHA-256=[iterations=100000,password=x]",
        "--user bob --alter --add-config SCRAM-SHA-256=[foo=1]",
        "--user bob --alter --add-config SCRAM-SHA-256=[password=a],producer_byte_rate=7",
        "--user-defaults --alter --add-config SCRAM-SHA-256=[password=a]",
        "--ip 127.0.0.1 --alter --add-config producer_byte_rate=7",
        "--entity-type users --alter --add-config producer_byte_rate=7",
        "--user alice --entity-type clients --alter --add-config producer_byte_rate=7",
    ):
        tools.assert_rejected(configs, *words.split())


def test_quotas_and_users_commands_change_kafkas_configs(tools: Tools) -> None:
    tools.ours_succeeds("quotas", "--alter --user carol --producer-byte-rate 1048576")
    assert quotas(tools.kafka("kafka-configs", "--describe", "--user", "carol").out) == {
        "Quota configs for user-principal 'carol'": {"producer_byte_rate": 1048576.0}
    }
    tools.ours_succeeds("quotas", "--delete --user carol")
    assert tools.kafka("kafka-configs", "--describe", "--user", "carol").out == ""
    line = "--alter --user carol --password geheim --mechanism SCRAM-SHA-512 --iterations 5000"
    assert tools.ours("users", *line.split()).status == 0
    expected = "SCRAM credential configs for user-principal 'carol' are SCRAM-SHA-512=iterations=5000"
    assert lines(tools.kafka("kafka-configs", "--describe", "--user", "carol").out) == [expected]
    tools.ours_succeeds("users", "--delete --user carol")
    assert tools.kafka("kafka-configs", "--describe", "--user", "carol").out == ""


def test_log_dirs(tools: Tools) -> None:
    tools.ours_succeeds("kafka-topics", "--create --topic dirs --partitions 2")
    for words in ("--describe --topic-list dirs", "--describe --topic-list dirs,nope --broker-list 1"):
        deadline = time.monotonic() + AGREE_LIMIT_S
        while True:  # Apache Kafka creates logs after it has answered
            (theirs,) = documents(tools.kafka("kafka-log-dirs", *words.split()).out)
            (ours,) = documents(tools.ours("kafka-log-dirs", *words.split(), "--json").out)
            (kafka_dir,) = theirs["brokers"][0]["logDirs"]
            same = {key: ours[key] for key in kafka_dir}
            if (same == kafka_dir and len(same["partitions"]) == 2) or time.monotonic() > deadline:
                break
        assert same == kafka_dir
        assert len(same["partitions"]) == 2
        assert ours["broker"] == theirs["brokers"][0]["broker"]
    for words in ("", "--describe --broker-list 1,7", "--describe --broker-list x"):
        tools.assert_rejected("kafka-log-dirs", *words.split())


def test_acls(tools: Tools) -> None:
    acls = "kafka-acls"
    for number, words in enumerate(
        (
            "--add --allow-principal User:alice --allow-principal User:bob --allow-host 10.0.0.1 --operation Read"
            " --operation Write --topic t --topic u",
            "--add --deny-principal User:carol --topic pre --resource-pattern-type prefixed --operation All",
            "--add --allow-principal User:dan --producer --topic t --transactional-id tx --idempotent",
            "--add --allow-principal User:eve --consumer --topic t --group g",
            "--add --allow-principal User:eve --producer --consumer --topic v --group g",
            "--add --allow-principal User:eve --cluster --operation DescribeConfigs",
            "--add --allow-principal User:eve --user-principal frank --operation CreateTokens",
            "--remove --allow-principal User:bob --topic u --allow-host 10.0.0.1 --operation Read --force",
            "--remove --topic v --force",
        )
    ):
        run = tools.kafka if number % 2 else tools.ours
        assert run(acls, *words.split()).status == 0, words
    for words in (
        "--list",
        "--list --topic t",
        "--list --topic t --group g --cluster",
        "--list --topic prefixed --resource-pattern-type match",
        "--list --topic t --resource-pattern-type any",
        "--list --principal User:eve",
        "--list --principal User:eve --principal User:nobody",
    ):
        assert tools.assert_same(sections, acls, *words.split())
    for words in (
        "--add --allow-principal User:eve --topic t --operation ClusterAction",
        "--add --allow-principal eve --topic t",
        "--add --topic t",
        "--add --allow-principal User:eve",
        "--add --allow-principal User:eve --topic t --resource-pattern-type match",
        "--add --allow-principal User:eve --topic t --operation Foo",
        "--list --add",
        "--producer --add --allow-principal User:x",
        "--consumer --add --allow-principal User:x --topic t",
        "--list --allow-principal User:x",
    ):
        tools.assert_rejected(acls, *words.split())


def test_cluster_features_and_quorum(tools: Tools) -> None:
    assert tools.assert_same(lines, "kafka-cluster", "cluster-id")
    assert tools.assert_same(table(), "kafka-cluster", "list-endpoints")
    assert tools.assert_same(table(), "kafka-cluster", "list-endpoints", "--include-fenced-brokers")
    tools.assert_rejected("kafka-cluster", "unregister", "--id", "7")
    assert len(tools.assert_same(named, "kafka-features", "describe")) > 5
    for words in (
        "downgrade --feature group.version=0 --dry-run",
        "disable --feature share.version --dry-run",
        "upgrade --feature metadata.version=30",
    ):
        tools.assert_same(lines, "kafka-features", *words.split())
    for words in ("upgrade --feature foo=1 --dry-run", "upgrade --release-version 4.2 --dry-run", "disable"):
        tools.assert_rejected("kafka-features", *words.split())
    quorum = "kafka-metadata-quorum"
    status = tools.assert_same(
        lambda text: [line for line in lines(text) if "HighWatermark" not in line],
        quorum,
        "describe",
        "--status",
    )
    assert len(status) == 7
    moving = ("LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp")
    assert tools.assert_same(table(*moving), quorum, "describe", "--replication")
    tools.assert_rejected(quorum, "describe")


def test_partitions(tools: Tools, tmp_path: Path) -> None:
    tools.ours_succeeds("kafka-topics", "--create --topic parts --partitions 2")
    for words in (
        "--topic parts",
        "--topic parts --time earliest",
        "--topic parts --partitions 0,9",
        "--topic-partitions parts:0-1,nope",
        "--topic-partitions par.*:1-",
        "--topic parts --time -3",
    ):
        tools.assert_same(lines, "kafka-get-offsets", *words.split())
    for words in (
        "--topic nope",
        "--topic parts --partitions a",
        "--topic a --topic-partitions b",
        "--time foo",
    ):
        tools.assert_rejected("kafka-get-offsets", *words.split())
    file = tmp_path / "records.json"
    file.write_text('{"partitions": [{"topic": "parts", "partition": 0, "offset": -1}]}')
    tools.assert_same(tabbed, "kafka-delete-records", "--offset-json-file", str(file))
    election = "kafka-leader-election"
    for words in ("--all-topic-partitions", "--topic parts --partition 0", f"--path-to-json-file {file}"):
        tools.assert_same(lines, election, "--election-type", "preferred", *words.split())
    for words in ("", "--topic parts", "--topic parts --partition 7", "--all-topic-partitions --topic parts"):
        tools.assert_rejected(election, "--election-type", "preferred", *words.split())


def test_reassignments(tools: Tools, tmp_path: Path) -> None:
    reassign = "kafka-reassign-partitions"
    tools.ours_succeeds("kafka-topics", "--create --topic moves --partitions 2")
    (found,) = documents(tools.ours("kafka-log-dirs", "--describe", "--topic-list", "moves", "--json").out)
    partitions = [
        {"topic": "moves", "partition": number, "replicas": [1], "log_dirs": [found["logDir"]]}
        for number in (0, 1)
    ]
    plan, topics = tmp_path / "plan.json", tmp_path / "topics.json"
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    topics.write_text('{"topics": [{"topic": "moves"}], "version": 1}')
    file = ("--reassignment-json-file", str(plan))
    tools.assert_same(lines, reassign, "--list")
    tools.assert_same(
        documents, reassign, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1"
    )
    tools.assert_same(lines, reassign, "--execute", *file)
    tools.assert_same(lines, reassign, "--verify", *file, "--preserve-throttles")
    assert tools.ours(reassign, "--execute", *file, "--throttle", "100000").status == 0
    throttled = sections(tools.kafka("kafka-configs", "--describe", "--topic", "moves").out)
    assert any(
        "leader.replication.throttled.replicas=0:1,1:1 " in line for line in next(iter(throttled.values()))
    )
    tools.assert_same(lines, reassign, "--verify", *file)
    assert (
        next(iter(sections(tools.kafka("kafka-configs", "--describe", "--topic", "moves").out).values()))
        == []
    )
    for words in ("--list --execute", "--execute", "--generate --broker-list 1", "--list --throttle 5"):
        tools.assert_rejected(reassign, *words.split())


# ---- groups


@pytest.fixture(scope="module")
def consumers(tools: Tools) -> Iterator[list[Consumer]]:
    """Two members of a stable classic group, one of them static, and one of a stable consumer group."""
    for topic, partitions in (("grp", "3"), ("grq", "1")):
        shape = ("--partitions", partitions, "--config", "retention.ms=-1")  # its records are old
        tools.ours("kafka-topics", "--create", "--topic", topic, *shape, "--if-not-exists")
    producer = Producer({"bootstrap.servers": tools.bootstrap})
    for number in range(30):
        timestamp = 1_700_000_000_000 + number * 1000
        producer.produce("grp", b"v", partition=number % 3, timestamp=timestamp)
    producer.flush()
    shared = {
        "bootstrap.servers": tools.bootstrap,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    classic = {**shared, "group.id": "classic"}
    found = [
        Consumer({**classic, "client.id": "a"}),
        Consumer({**classic, "client.id": "b", "group.instance.id": "static"}),
        Consumer({**shared, "group.id": "new", "group.protocol": "consumer", "client.id": "c"}),
    ]
    for consumer in found:
        consumer.subscribe(["grp"])
    deadline = time.monotonic() + 60
    while [len(consumer.assignment()) for consumer in found] not in ([1, 2, 3], [2, 1, 3]):
        assert time.monotonic() < deadline
        for consumer in found:
            consumer.poll(0.05)
    for consumer in found:
        consumer.commit(offsets=consumer.assignment() and [_at(each, 4) for each in consumer.assignment()])
    yield found
    for consumer in found:
        consumer.close()


def _at(partition: TopicPartition, offset: int) -> TopicPartition:
    return TopicPartition(partition.topic, partition.partition, offset)


def test_groups(tools: Tools, consumers: list[Consumer]) -> None:
    groups = "kafka-consumer-groups"
    moved = tools.ours(
        groups, *["--reset-offsets", "--group", "empty", "--topic", "grp", "--to-offset", "3", "--execute"]
    )
    assert moved.status == 0, moved
    listed = tools.assert_same(lines, groups, "--list")
    assert listed == ["classic", "empty", "new"]
    for words in (
        "--list --state",
        "--list --state stable,Empty --type",
        "--list --type consumer",
        "--describe --all-groups",
        "--describe --group classic --verbose",
        "--describe --group new --offsets --verbose",
        "--describe --group classic --members",
        "--describe --group classic --members --verbose",
        "--describe --group new --members --verbose",
        "--describe --group empty --state",
        "--describe --all-groups --state --verbose",
        "--reset-offsets --group empty --topic grp --to-earliest --dry-run",
        "--reset-offsets --group empty --all-topics --to-latest --dry-run",
        "--reset-offsets --group empty --topic grp:0,2 --shift-by 2 --dry-run",
        "--reset-offsets --group empty --topic grp --shift-by -100 --dry-run",
        "--reset-offsets --group empty --topic grp --topic grq --to-current --dry-run",
        "--reset-offsets --group empty --topic grp --to-datetime 2023-11-14T22:13:25.000 --dry-run",
        "--reset-offsets --group empty --topic grp --to-datetime 2033-11-14T22:13:25.000Z --dry-run",
        "--reset-offsets --group empty --topic grp --by-duration P1D --dry-run",
        "--reset-offsets --group unheard-of --topic grp --to-latest --dry-run",
        "--delete-offsets --group empty --topic grp:0",
    ):
        tools.assert_same(table(), groups, *words.split())
    for words in ("", "--consumer", "--group-type classic", "--protocol consumer", "--share"):
        theirs = tools.kafka("kafka-groups", "--list", *words.split()).out
        ours = tools.ours(groups, "--list", *(words or "--consumer").split()).out
        assert table()(ours) == table()(theirs), words


def test_groups_as_json(tools: Tools, consumers: list[Consumer]) -> None:
    """The JSON output has the values of the tables."""
    groups = "kafka-consumer-groups"
    tools.ours_succeeds(groups, "--reset-offsets --group json --topic grp:1 --to-offset 3 --execute")
    offsets = documents(tools.ours(groups, "--describe", "--all-groups", "--json").out)
    shown = table()(tools.kafka(groups, "--describe", "--all-groups").out)
    assert sorted(
        (one["group"], one["topic"], str(one["partition"]), str(one["lag"])) for one in offsets
    ) == (sorted((row["GROUP"], row["TOPIC"], row["PARTITION"], row["LAG"]) for row in shown))
    members = documents(tools.ours(groups, "--describe", "--all-groups", "--members", "--json").out)
    assert sorted((one["group"], one["clientId"], one["groupInstanceId"]) for one in members) == [
        ("classic", "a", None),
        ("classic", "b", "static"),
        ("new", "c", None),
    ]
    states = documents(tools.ours(groups, "--describe", "--all-groups", "--state", "--json").out)
    found = {one["group"]: (one["groupType"], one["state"]) for one in states}
    assert found["classic"] == ("Classic", "Stable")
    assert found["new"] == ("Consumer", "Stable")
    assert found["json"] == ("Classic", "Empty")
    line = "--reset-offsets --group json --topic grp:1 --shift-by 1 --dry-run --json"
    (moved,) = documents(tools.ours(groups, *line.split()).out)
    assert (moved["group"], moved["topic"], moved["partition"], moved["newOffset"]) == ("json", "grp", 1, 4)
    tools.ours_succeeds(groups, "--delete --group json")


def test_offset_resets_from_a_file(tools: Tools, consumers: list[Consumer], tmp_path: Path) -> None:
    groups = "kafka-consumer-groups"
    tools.ours_succeeds(groups, "--reset-offsets --group plan --topic grp --to-offset 3 --execute")
    line = "--reset-offsets --group plan --topic grp --to-latest --export --dry-run"
    one = tools.assert_same(lines, groups, *line.split())
    plan = tmp_path / "plan.csv"
    plan.write_text("".join(f"{line}\n" for line in one))
    ran = tools.ours(groups, "--reset-offsets", "--group", "plan", "--from-file", str(plan), "--execute")
    assert ran.status == 0, ran
    described = table("CONSUMER-ID", "HOST", "CLIENT-ID")(
        tools.kafka(groups, "--describe", "--group", "plan").out
    )
    assert [row["LAG"] for row in described] == ["0", "0", "0"]
    more = ("--group", "plan", "--group", "other", "--topic", "grq", "--to-earliest", "--export", "--dry-run")
    several = tools.assert_same(lines, groups, "--reset-offsets", *more)
    plan.write_text("".join(f"{line}\n" for line in several))
    read = ("--group", "plan", "--group", "other", "--from-file", str(plan), "--dry-run")
    assert tools.assert_same(table(), groups, "--reset-offsets", *read)


def test_both_tools_reset_offsets_alike(tools: Tools, consumers: list[Consumer], tmp_path: Path) -> None:
    """Several resets in a row, each starting from the offsets of the one before."""
    groups = "kafka-consumer-groups"
    plan = tmp_path / "plan.csv"
    plan.write_text("".join(f'"grp",{index},{index + 1}\n' for index in range(3)))
    for words in (
        "--topic grp --to-latest",
        "--topic grp:0,1 --shift-by -4",
        "--topic grp --shift-by 1",
        "--all-topics --to-current",
        "--topic grp:2 --to-offset 5",
        "--topic grp --topic grq --to-earliest",
        "--topic grp --to-datetime 2023-11-14T22:13:35.000Z",
        "--topic grp --by-duration PT1H",
        f"--from-file {plan}",
        "--all-topics --shift-by 100",
    ):
        line = f"{words} --execute"
        tools.ours_succeeds(groups, f"--reset-offsets --group by-ours {line}")
        tools.kafka_succeeds(groups, f"--reset-offsets --group by-kafka {line}")
        ours, theirs = (
            _positions(tools.kafka(groups, "--describe", "--group", group).out)
            for group in ("by-ours", "by-kafka")
        )
        assert ours == theirs != [], words
    tools.ours_succeeds(groups, "--delete-offsets --group by-kafka --topic grq")
    assert "grq" not in tools.kafka(groups, "--describe", "--group", "by-kafka").out
    tools.ours_succeeds(groups, "--delete --group by-kafka --group by-ours")
    assert not {"by-kafka", "by-ours"} & set(tools.assert_same(lines, groups, "--list"))


def _positions(text: str) -> list[tuple[str, ...]]:
    """Topics, partitions and offsets of a description."""
    rows = table("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID")(text)
    return sorted((row["TOPIC"], row["PARTITION"], row["CURRENT-OFFSET"], row["LAG"]) for row in rows)


def test_groups_that_cannot_be_changed(tools: Tools, consumers: list[Consumer]) -> None:
    """Kafka's tool prints an error but exits with 0."""
    groups = "kafka-consumer-groups"
    for words, code in (
        ("--describe --group nope", "GROUP_ID_NOT_FOUND"),
        ("--delete --group classic", "NON_EMPTY_GROUP"),
        ("--delete --group nope", "GROUP_ID_NOT_FOUND"),
        ("--delete-offsets --group new --topic grp", "GROUP_SUBSCRIBED_TO_TOPIC"),
        ("--delete-offsets --group nope --topic grp", "GROUP_ID_NOT_FOUND"),
        ("--reset-offsets --group new --topic grp --to-latest --execute", "the current state is Stable"),
        ("--reset-offsets --group x --topic nope --to-latest --execute", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("--reset-offsets --group x --topic grp:9 --to-latest --execute", "UNKNOWN_TOPIC_OR_PARTITION"),
    ):
        ran = tools.both(groups, *words.split())
        assert "Error: " in ran.kafka.out, (words, ran.kafka)
        assert ran.ours.status == 1
        assert code in ran.ours.err, (words, ran.ours)
    for words in (
        "--list --state foo",
        "--list --type foo",
        "--describe",
        "--describe --group a --all-groups",
        "--describe --group a --members --state",
        "--describe --group a --state foo",
        "--list --group a",
        "--list --describe",
        "",
        "--delete",
        "--delete --group a --topic t",
        "--delete-offsets --group a",
        "--reset-offsets --group a --topic grp",
        "--reset-offsets --group a --to-latest",
        "--reset-offsets --topic t --to-latest",
        "--reset-offsets --group a --topic t --to-latest --to-earliest",
        "--reset-offsets --group a --topic t --to-latest --execute --dry-run",
        "--reset-offsets --group a --topic t:x --to-latest",
        "--reset-offsets --group unheard-of --topic grp --shift-by 1",
    ):
        tools.assert_rejected(groups, *words.split())
    assert tools.ours(groups, *["--delete", "--group", "unheard-of", "--group", "nope"]).status == 1


# ---- without a broker


FLAGS_NOT_SUPPORTED = {"help", "admin.config"}
"""--help has its own test, and --admin.config is deprecated in Kafka, too."""


@pytest.mark.parametrize(
    "tool",
    sorted(
        {
            *(
                "kafka-topics",
                "kafka-configs",
                "kafka-consumer-groups",
                "kafka-groups",
                "kafka-log-dirs",
                "kafka-acls",
            ),
            *(
                "kafka-reassign-partitions",
                "kafka-leader-election",
                "kafka-delete-records",
                "kafka-get-offsets",
            ),
        }
    ),
)
def test_commands_have_every_flag_of_kafkas_tools(java: JavaAdmin, tool: str) -> None:
    ran = java.tool(tool, "--help")
    theirs = set(re.findall(r"^(?:\* )?--([a-z][a-z.-]*)", ran.out + ran.err, re.MULTILINE))
    name = OUR_NAMES.get(tool, tool.removeprefix("kafka-"))
    command = main.get_command(click.Context(main), name)
    assert command is not None
    ours = {name.removeprefix("--") for each in command.params for name in each.opts}
    assert len(theirs) > 3
    assert theirs - ours - FLAGS_NOT_SUPPORTED == set()


def test_regular_expressions_are_validated_as_by_kafka(java: JavaAdmin) -> None:
    patterns = (
        "a.*",
        "a(",
        "[z-a]",
        "a**",
        "(?P<n>a)",
        "(?<n>a)",
        "(?=a)",
        r"\p{Greek}",
        r"\pQ",
        "a{1001}",
        "é",
    )
    for pattern in patterns:
        theirs = java.tool("kafka-consumer-groups", "--validate-regex", pattern).out
        ours = Tools(java, "nobody:1").ours("kafka-consumer-groups", "--validate-regex", pattern)
        verdict = theirs.partition("` is ")[2].partition("valid")[0]  # each RE2 has its own error messages
        assert ours.out.startswith(f"The regular expression `{pattern}` is {verdict}valid")
        assert ours.status == (1 if verdict else 0)

"""AlterConfigs, IncrementalAlterConfigs and ListConfigResources.

Kafka responds before its broker applies the controller's records, so dialogues wait for the effect of a change. Each
restores the configs that belong to the whole broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.configs import (
    AlterConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.configs import describe, in_order

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
DESCRIBED = 4

Op = tuple[str, int, str | None]
Incremental = tuple[int, str, Sequence[Op]]
Setting = tuple[str, str | None]
Whole = tuple[int, str, Sequence[Setting]]


def altering(*resources: Incremental, validate_only: bool = False) -> IncrementalAlterConfigsRequest:
    one, config = (
        IncrementalAlterConfigsRequest.AlterConfigsResource,
        IncrementalAlterConfigsRequest.AlterableConfig,
    )
    return IncrementalAlterConfigsRequest(
        resources=[
            one(
                resource_type=kind,
                resource_name=name,
                configs=[
                    config(name=key, config_operation=operation, value=value)
                    for key, operation, value in operations
                ],
            )
            for kind, name, operations in resources
        ],
        validate_only=validate_only,
    )


def replacing(*resources: Whole, validate_only: bool = False) -> AlterConfigsRequest:
    one, config = AlterConfigsRequest.AlterConfigsResource, AlterConfigsRequest.AlterableConfig
    return AlterConfigsRequest(
        resources=[
            one(
                resource_type=kind,
                resource_name=name,
                configs=[config(name=key, value=value) for key, value in settings],
            )
            for kind, name, settings in resources
        ],
        validate_only=validate_only,
    )


def has(key: str, value: str | None) -> Any:
    """A predicate: the one described resource sets `key` to this value; None: it does not set `key`."""

    def has_value(answer: DescribeConfigsResponse) -> bool:
        own = {
            entry.name: entry for entry in answer.results[0].configs if entry.config_source in (1, 2, 3, 7, 8)
        }
        return (own[key].value if key in own else None) == value

    return has_value


def own(answer: DescribeConfigsResponse) -> object:
    """The configs that are set (not defaults), with all their fields."""
    for result in answer.results:
        result.configs = [entry for entry in result.configs if entry.config_source != 5]
    return in_order(answer)


def note_applied(client: DialogueClient, kind: int, name: str, key: str, value: str | None) -> None:
    """Waits until `key` has the value, then notes it with its synonyms."""
    request = describe((kind, name, [key]), synonyms=True)
    client.request_until(request, has(key, value), DESCRIBED)
    client.request(request, DESCRIBED, noting=in_order)


# ---- topics


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def a_topics_settings(client: DialogueClient) -> None:
    name = client.create("a")
    for operations in (
        [("retention.ms", SET, "1000"), ("segment.ms", SET, "5")],
        [("retention.ms", DELETE, None), ("segment.ms", DELETE, "whatever")],
        [],
        [("retention.ms", SET, " 5 ")],
    ):
        client.request(altering((TOPIC, name, operations)))
    note_applied(client, TOPIC, name, "retention.ms", "5")


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def append_to_and_subtract_from_topic_lists(client: DialogueClient) -> None:
    name = client.create("a")
    for operation, value, after in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact,delete", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "compact", ""),
        (APPEND, "delete,delete", "delete"),
        (APPEND, ",", "delete"),
        (APPEND, "compact,", "delete,compact"),
        (SET, " delete , compact ", "delete,compact"),
        (SET, "delete,delete", "delete"),
    ):
        client.request(altering((TOPIC, name, [("cleanup.policy", operation, value)])))
        note_applied(client, TOPIC, name, "cleanup.policy", after)
    replicas = "leader.replication.throttled.replicas"
    client.request(altering((TOPIC, name, [(replicas, APPEND, "0:1,0:2")])))
    client.request(altering((TOPIC, name, [(replicas, SUBTRACT, "0:1")])))
    note_applied(client, TOPIC, name, replicas, "0:2")


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def invalid_topic_configs(client: DialogueClient) -> None:
    name = client.create("a")
    for operations in (
        [("nope", SET, "1")],
        [("", SET, "1")],
        [("retention.ms", SET, "x")],
        [("retention.ms", SET, "")],
        [("retention.ms", SET, "-5")],
        [("retention.ms", SET, None)],
        [("cleanup.policy", APPEND, None)],
        [("retention.ms", SET, "1"), ("retention.ms", SET, "1")],
        [("retention.ms", APPEND, "1")],
        [("nope", SUBTRACT, "1")],
        [("cleanup.policy", APPEND, "")],
        [("cleanup.policy", APPEND, ",compact")],
        [("cleanup.policy", APPEND, "zap")],
        [("min.compaction.lag.ms", SET, "10"), ("max.compaction.lag.ms", SET, "5")],
        [("remote.storage.enable", SET, "true")],
        [("message.downconversion.enable", SET, "true")],
        [("leader.replication.throttled.replicas", SET, "x")],
        [("compression.gzip.level", SET, "0")],
    ):
        client.request(altering((TOPIC, name, operations)))
    client.request(describe((TOPIC, name, None)), DESCRIBED, noting=own)


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def topic_configs_without_effect(client: DialogueClient) -> None:
    name = client.create("a")
    for key, value in (
        ("local.retention.ms", "-1"),
        ("remote.log.copy.disable", "true"),
        ("remote.storage.enable", "false"),
        ("internal.segment.bytes", "100"),
        ("min.insync.replicas", "2"),
        ("unclean.leader.election.enable", "true"),
    ):
        client.request(altering((TOPIC, name, [(key, SET, value)])))
        note_applied(client, TOPIC, name, key, value)


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def unknown_topics(client: DialogueClient) -> None:
    missing = client.topic("none")
    for name, operations in (
        (missing, [("retention.ms", SET, "1")]),
        (missing, [("nope", SET, "1")]),
        (missing, [("retention.ms", DELETE, None)]),
        (missing, []),
        ("a b", [("retention.ms", SET, "1")]),
        ("", [("retention.ms", SET, "1")]),
    ):
        client.request(altering((TOPIC, name, operations)))


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def many_resources(client: DialogueClient) -> None:
    name, other = client.create("a"), client.create("b")
    retention = [("retention.ms", SET, "9")]
    client.request(
        altering((TOPIC, name, retention), (TOPIC, name, [("segment.ms", SET, "9")]), (TOPIC, other, []))
    )
    client.request(
        altering(
            (TOPIC, name, retention), (TOPIC, client.topic("none"), retention), (TOPIC, other, retention)
        )
    )
    client.request(altering((TOPIC, name, [("retention.ms", SET, "99")]), validate_only=True))
    client.request(altering((TOPIC, name, [("retention.ms", SET, "x")]), validate_only=True))
    note_applied(client, TOPIC, other, "retention.ms", "9")
    client.request(describe((TOPIC, name, None)), DESCRIBED, noting=own)
    client.request(altering())


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def unknown_resource_types(client: DialogueClient) -> None:
    for kind in (0, 1, 3, 99):
        client.request(altering((kind, "x", [("y", SET, "1")])))


@dialogue(
    ApiKey.INCREMENTAL_ALTER_CONFIGS,
    0,
    1,
    differs="an unknown operation is UNKNOWN_SERVER_ERROR in Kafka, and an error of the request in Barnabas",
)
def an_unknown_operation(client: DialogueClient) -> None:
    client.request(altering((TOPIC, client.create("a"), [("retention.ms", 7, "1")])))


# ---- brokers


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def a_brokers_settings(client: DialogueClient) -> None:
    key = "log.cleaner.backoff.ms"
    for name, value in (("", "12345"), ("1", "23456")):
        client.request(altering((BROKER, name, [(key, SET, value)])))
        note_applied(client, BROKER, name, key, value)
    client.request(altering((BROKER, "1", [(key, SET, "54321")])))
    note_applied(client, BROKER, "1", key, "54321")
    client.request(altering((BROKER, "1", [(key, DELETE, None)])))
    note_applied(client, BROKER, "1", key, "12345")
    client.request(altering((BROKER, "", [(key, DELETE, None)])))
    note_applied(client, BROKER, "", key, None)
    note_applied(client, BROKER, "1", key, None)


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def topics_inherit_broker_configs(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(altering((BROKER, "", [("log.segment.delete.delay.ms", SET, "50000")])))
    note_applied(client, TOPIC, name, "file.delete.delay.ms", "50000")
    client.request(altering((BROKER, "1", [("log.segment.delete.delay.ms", SET, "40000")])))
    note_applied(client, TOPIC, name, "file.delete.delay.ms", "40000")
    client.request(altering((BROKER, "1", [("log.segment.delete.delay.ms", DELETE, None)])))
    client.request(altering((BROKER, "", [("log.segment.delete.delay.ms", DELETE, None)])))
    note_applied(client, TOPIC, name, "file.delete.delay.ms", None)


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def append_to_and_subtract_from_broker_lists(client: DialogueClient) -> None:
    key = "log.cleanup.policy"
    for operation, value, after in (
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SET, "delete, compact", "delete,compact"),
        (DELETE, None, None),
    ):
        client.request(altering((BROKER, "1", [(key, operation, value)])))
        note_applied(client, BROKER, "1", key, after)


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def invalid_broker_configs(client: DialogueClient) -> None:
    for name, operations in (
        ("1", [("num.partitions", SET, "3")]),
        ("1", [("log.retention.hours", SET, "3")]),
        ("1", [("advertised.listeners", SET, "PLAINTEXT://a:1")]),
        ("", [("listeners", SET, "PLAINTEXT://:1")]),
        ("", [("cordoned.log.dirs", SET, "*")]),
        ("", [("listener.name.plaintext.ssl.protocol", SET, "x")]),
        ("1", [("ssl.keystore.location", SET, "/x")]),
        ("1", [("listener.name.plaintext.max.connections", SET, "x")]),
        ("2", [("log.cleaner.backoff.ms", SET, "5")]),
        ("-1", [("log.cleaner.backoff.ms", SET, "5")]),
        ("x", [("log.cleaner.backoff.ms", SET, "5")]),
        ("1", [("log.cleaner.threads", SET, "x")]),
        ("1", [("log.cleaner.threads", SET, "-1")]),
        ("1", [("log.cleaner.threads", SET, "0")]),
        ("1", [("log.cleaner.threads", SET, "5")]),
        ("1", [("num.recovery.threads.per.data.dir", SET, "80")]),
        ("1", [("num.io.threads", SET, "1")]),
        ("1", [("remote.log.reader.threads", SET, "100")]),
        ("1", [("log.cleaner.min.cleanable.ratio", SET, "2")]),
        ("1", [("log.cleaner.dedupe.buffer.size", SET, "10")]),
        ("1", [("log.retention.ms", SET, "0")]),
        ("1", [("log.retention.bytes", SET, "")]),
        ("1", [("max.connections.per.ip", SET, "0")]),
        ("1", [("max.connections.per.ip.overrides", SET, "x")]),
        ("1", [("cordoned.log.dirs", SET, "/nope")]),
        ("1", [("producer.id.expiration.ms", SET, "0")]),
        ("1", [("group.consumer.assignment.interval.ms", SET, "99999")]),
        ("1", [("leader.replication.throttled.rate", SET, "-1")]),
        ("1", [("max.connections", SET, "0")]),
        ("1", [("max.connection.creation.rate", SET, "0")]),
        ("1", [("listener.name.plaintext.max.connections", SET, "0")]),
        ("1", [("log.local.retention.ms", SET, "5"), ("log.retention.ms", SET, "4")]),
        ("1", [("principal.builder.class", SET, "a.b.Builder")]),
        ("1", [("metric.reporters", SET, "a.b.Reporter")]),
        ("1", [("metric.reporters", APPEND, "a.b.Reporter")]),
        ("1", [("log.cleaner.threads", APPEND, "2")]),
        ("1", [("nope", APPEND, "2")]),
        ("1", [("log.cleaner.backoff.ms", 7, "2")]),
        ("1", [("log.cleaner.backoff.ms", SET, None)]),
    ):
        client.request(altering((BROKER, name, operations)))


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def min_insync_replicas_of_brokers(client: DialogueClient) -> None:
    """With eligible leader replicas (ELR), which Kafka 4.3 enables in a new log directory."""
    key = "min.insync.replicas"
    for name, operation, value in (
        ("1", SET, "2"),
        ("1", DELETE, None),
        ("", DELETE, None),
        ("", SET, "2"),
        ("", SET, "1"),
    ):
        client.request(altering((BROKER, name, [(key, operation, value)])))
    note_applied(client, BROKER, "", key, "1")


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def listener_configs_and_unknown_configs(client: DialogueClient) -> None:
    keys = ("listener.name.plaintext.max.connections", "nope", "leader.replication.throttled.rate")
    for key in keys:
        client.request(altering((BROKER, "1", [(key, SET, "1000")])))
    client.request_until(describe((BROKER, "1", [keys[2]])), has(keys[2], "1000"), DESCRIBED)
    client.request(
        describe((BROKER, "1", keys), synonyms=True, documentation=True), DESCRIBED, noting=in_order
    )
    client.request(altering((BROKER, "", [(keys[0], SET, "999")])))
    note_applied(client, BROKER, "", keys[0], "999")
    client.request(altering((BROKER, "", [(keys[0], DELETE, None)])))
    client.request(altering((BROKER, "1", [(key, DELETE, None) for key in keys])))
    note_applied(client, BROKER, "1", keys[2], None)


# ---- loggers


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def root_logger_levels(client: DialogueClient) -> None:
    for name, operations in (
        ("1", []),
        ("1", [("root", SET, "INFO")]),
        ("1", [("root", SET, "info")]),
        ("1", [("root", SET, "OFF")]),
        ("1", [("root", SET, "NOPE")]),
        ("1", [("root", SET, None)]),
        ("1", [("root", DELETE, None)]),
        ("1", [("root", APPEND, "INFO")]),
        ("1", [("root", SUBTRACT, "INFO")]),
        ("1", [("no.such.logger", SET, "INFO")]),
        ("1", [("no.such.logger", DELETE, None)]),
        ("2", [("root", SET, "INFO")]),
        ("x", [("root", SET, "INFO")]),
        ("", [("root", SET, "INFO")]),
    ):
        client.request(altering((LOGGER, name, operations)))
    for level in ("WARN", "ERROR", "FATAL", "TRACE", "DEBUG", "INFO"):
        client.request(altering((LOGGER, "1", [("root", SET, level)])))
        client.request(describe((LOGGER, "1", ["root"]), synonyms=True, documentation=True), DESCRIBED)
    client.request(altering((LOGGER, "1", [("root", SET, "ERROR")]), validate_only=True))
    client.request(describe((LOGGER, "1", ["root"])), DESCRIBED)


# ---- client metrics and groups


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def a_subscription_to_client_metrics(client: DialogueClient) -> None:
    name = client.topic("m")
    for operation in (
        ("metrics", SET, "a,b"),
        ("interval.ms", SET, "100"),
        ("match", SET, "client_id=abc.*, client_software_name = java"),
        ("nope", SET, "a"),
        ("interval.ms", SET, "a"),
        ("interval.ms", SET, "99"),
        ("interval.ms", SET, "3600001"),
        ("match", SET, "a=b"),
        ("match", SET, "client_id=["),
        ("match", SET, "client_id=a=b"),
        ("match", SET, "client_id"),
        ("match", SET, "client_id="),
        ("metrics", APPEND, "b"),
        ("metrics", SUBTRACT, "b"),
    ):
        client.request(altering((METRICS, name, [operation])))
    note_applied(client, METRICS, name, "match", "client_id=abc.*,client_software_name = java")
    client.request(describe((METRICS, name, None), synonyms=True), DESCRIBED, noting=in_order)
    client.request(altering((METRICS, "", [("metrics", SET, "a")])))
    client.request(
        altering((METRICS, name, [(key, DELETE, None) for key in ("metrics", "interval.ms", "match")]))
    )
    note_applied(client, METRICS, name, "match", None)


@dialogue(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1)
def a_groups_settings(client: DialogueClient) -> None:
    name = client.topic("g")
    for operation in (
        ("consumer.session.timeout.ms", SET, "50000"),
        ("consumer.session.timeout.ms", SET, "5000000"),
        ("consumer.session.timeout.ms", SET, "5"),
        ("consumer.session.timeout.ms", SET, "0"),
        ("consumer.session.timeout.ms", SET, "x"),
        ("consumer.heartbeat.interval.ms", SET, "1"),
        ("consumer.assignment.interval.ms", SET, "99999"),
        ("nope", SET, "x"),
        ("share.auto.offset.reset", SET, "x"),
        ("share.auto.offset.reset", SET, "by_duration:PT1H"),
        ("share.isolation.level", SET, "READ_COMMITTED"),
        ("share.isolation.level", APPEND, "read_committed"),
        ("share.isolation.level", SET, "read_committed"),
        ("share.delivery.count.limit", SET, "11"),
        ("share.record.lock.duration.ms", SET, "1000"),
        ("share.partition.max.record.locks", SET, "5000"),
        ("streams.num.standby.replicas", SET, "3"),
        ("streams.num.standby.replicas", SET, "2"),
        ("streams.initial.rebalance.delay.ms", SET, "11"),
        ("streams.session.timeout.ms", SET, "44999"),
    ):
        client.request(altering((GROUP, name, [operation])))
    note_applied(client, GROUP, name, "streams.initial.rebalance.delay.ms", "11")
    client.request(describe((GROUP, name, None), synonyms=True), DESCRIBED, noting=in_order)
    client.request(altering((GROUP, "", [("consumer.session.timeout.ms", SET, "50000")])))
    gone = [
        "consumer.session.timeout.ms",
        "share.auto.offset.reset",
        "share.isolation.level",
        "streams.num.standby.replicas",
        "streams.initial.rebalance.delay.ms",
    ]
    client.request(altering((GROUP, name, [(key, DELETE, None) for key in gone])))
    note_applied(client, GROUP, name, gone[-1], None)


# ---- AlterConfigs: replacement of all configs


@dialogue(ApiKey.ALTER_CONFIGS, 0, 2)
def replace_topic_configs(client: DialogueClient) -> None:
    name = client.create("a", configs={"segment.ms": "5"})
    client.request(replacing((TOPIC, name, [("retention.ms", "9"), ("flush.ms", "7")])))
    note_applied(client, TOPIC, name, "retention.ms", "9")
    client.request(describe((TOPIC, name, None)), DESCRIBED, noting=own)
    client.request(replacing((TOPIC, name, []), validate_only=True))
    client.request(replacing((TOPIC, name, [("flush.ms", "7")])))
    note_applied(client, TOPIC, name, "retention.ms", None)
    client.request(replacing((TOPIC, name, [])))
    note_applied(client, TOPIC, name, "flush.ms", None)
    client.request(describe((TOPIC, name, None)), DESCRIBED, noting=own)


@dialogue(ApiKey.ALTER_CONFIGS, 0, 2)
def invalid_replacements(client: DialogueClient) -> None:
    name = client.create("a")
    for kind, resource, settings in (
        (TOPIC, name, [("retention.ms", None)]),
        (TOPIC, name, [("retention.ms", "1"), ("retention.ms", "1")]),
        (TOPIC, name, [("nope", "1")]),
        (TOPIC, name, [("retention.ms", "x")]),
        (TOPIC, client.topic("none"), [("retention.ms", "1")]),
        (TOPIC, client.topic("none"), []),
        (TOPIC, "", []),
        (LOGGER, "1", [("root", "INFO")]),
        (LOGGER, "1", []),
        (77, "1", []),
        (BROKER, "1", [("num.partitions", "1")]),
        (BROKER, "3", [("message.max.bytes", "1")]),
        (BROKER, "x", []),
        (BROKER, "1", [("min.insync.replicas", "1")]),
        (BROKER, "", []),
        (BROKER, "", [("message.max.bytes", "5000000")]),
        (METRICS, "", []),
        (METRICS, "m", [("nope", "1")]),
        (GROUP, "", []),
        (GROUP, "g", [("nope", "1")]),
    ):
        client.request(replacing((kind, resource, settings)))
    client.request(replacing())


@dialogue(ApiKey.ALTER_CONFIGS, 0, 2)
def replace_configs_of_other_resources(client: DialogueClient) -> None:
    key = "log.cleaner.backoff.ms"
    client.request(replacing((BROKER, "1", [(key, "12345")])))
    note_applied(client, BROKER, "1", key, "12345")
    client.request(replacing((BROKER, "1", [])))
    note_applied(client, BROKER, "1", key, None)
    client.request(replacing((BROKER, "", [(key, "12345"), ("min.insync.replicas", "1")])))
    note_applied(client, BROKER, "", key, "12345")
    client.request(replacing((BROKER, "", [("min.insync.replicas", "1")])))
    note_applied(client, BROKER, "", key, None)
    subscription, group = client.topic("m"), client.topic("g")
    client.request(
        replacing(
            (METRICS, subscription, [("metrics", "a")]), (GROUP, group, [("share.isolation.level", "x")])
        )
    )
    note_applied(client, METRICS, subscription, "metrics", "a")
    client.request(replacing((METRICS, subscription, [])))
    note_applied(client, METRICS, subscription, "metrics", None)


# ---- ListConfigResources


@dialogue(ApiKey.LIST_CONFIG_RESOURCES, 0, 1)
def resources_by_type(client: DialogueClient) -> None:
    name, subscription, group = client.create("a"), client.topic("m"), client.topic("g")
    client.request(altering((METRICS, subscription, [("metrics", SET, "a")])), 1)
    client.request(altering((GROUP, group, [("consumer.session.timeout.ms", SET, "50000")])), 1)
    note_applied(client, GROUP, group, "consumer.session.timeout.ms", "50000")

    def ours(answer: ListConfigResourcesResponse) -> object:
        mine = {name, subscription, group, "1"}
        return answer.error_code, sorted(
            (found.resource_type, found.resource_name)
            for found in answer.config_resources
            if found.resource_name in mine
        )

    kinds: Sequence[Sequence[int]] = [[]]
    if client.version > 0:
        kinds = [[], [TOPIC], [BROKER, LOGGER], [METRICS, METRICS], [GROUP], [TOPIC, 99], [0]]
    for wanted in kinds:
        client.request(ListConfigResourcesRequest(resource_types=list(wanted)), noting=ours)
    client.request(altering((METRICS, subscription, [("metrics", DELETE, None)])), 1)
    client.request(altering((GROUP, group, [("consumer.session.timeout.ms", DELETE, None)])), 1)
    note_applied(client, GROUP, group, "consumer.session.timeout.ms", None)
    client.request(ListConfigResourcesRequest(), noting=ours)

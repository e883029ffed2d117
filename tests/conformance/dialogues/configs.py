"""DescribeConfigs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue

FIRST, LAST = 1, 4
TOPIC, BROKER = 2, 4
DYNAMIC_DEFAULT_BROKER, STATIC_BROKER, DEFAULT = 3, 4, 5

AUTHORIZER_KEYS = ("allow.everyone.if.no.acl.found", "super.users")
"""Kafka lists these only when they are set, Barnabas always."""

Resource = tuple[int, str, Sequence[str] | None]


def describe(
    *resources: Resource, synonyms: bool = False, documentation: bool = False
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=[
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=kind,
                resource_name=name,
                configuration_keys=None if keys is None else list(keys),
            )
            for kind, name, keys in resources
        ],
        include_synonyms=synonyms,
        include_documentation=documentation,
    )


def in_order(answer: DescribeConfigsResponse) -> object:
    for result in answer.results:
        result.configs.sort(key=lambda entry: entry.name)
    return answer


def kinds(answer: DescribeConfigsResponse) -> object:
    """The fields of each config that do not depend on the settings of this broker."""
    return [
        (entry.name, entry.config_type, entry.is_sensitive, entry.read_only, entry.documentation is None)
        for entry in sorted(answer.results[0].configs, key=lambda entry: entry.name)
        if not entry.name.startswith("barnabas.") and entry.name not in AUTHORIZER_KEYS
    ]


@dialogue(ApiKey.DESCRIBE_CONFIGS, FIRST, LAST)
def a_topic(client: DialogueClient) -> None:
    name = client.create("a", configs={"retention.ms": "1000", "cleanup.policy": "compact,delete"})
    client.request(describe((TOPIC, name, None)), noting=in_order)


@dialogue(ApiKey.DESCRIBE_CONFIGS, FIRST, LAST)
def a_topic_with_synonyms(client: DialogueClient) -> None:
    name = client.create("a", configs={"retention.ms": "1000"})
    client.request(describe((TOPIC, name, None), synonyms=True), noting=in_order)


@dialogue(ApiKey.DESCRIBE_CONFIGS, 3, LAST)
def a_topic_with_documentation(client: DialogueClient) -> None:
    client.request(describe((TOPIC, client.create("a"), None), documentation=True), noting=kinds)


@dialogue(ApiKey.DESCRIBE_CONFIGS, FIRST, LAST)
def selected_keys_of_a_topic(client: DialogueClient) -> None:
    name = client.create("a")
    for keys in ([], ["retention.ms"], ["retention.ms", "no.such.key", "retention.ms"], ["no.such.key"]):
        client.request(describe((TOPIC, name, keys)), noting=in_order)


@dialogue(ApiKey.DESCRIBE_CONFIGS, FIRST, LAST)
def the_broker(client: DialogueClient) -> None:
    client.request(describe((BROKER, "1", None)), noting=kinds)


@dialogue(ApiKey.DESCRIBE_CONFIGS, FIRST, LAST)
def selected_keys_of_the_broker(client: DialogueClient) -> None:
    keys = [
        "log.retention.hours",
        "log.retention.ms",
        "num.partitions",
        "message.max.bytes",
        "node.id",
        "log.cleaner.threads",
    ]
    client.request(describe((BROKER, "1", keys)), noting=in_order)
    client.request(describe((BROKER, "1", keys), synonyms=True), noting=in_order)


@dialogue(ApiKey.DESCRIBE_CONFIGS, FIRST, LAST)
def unknown_resources(client: DialogueClient) -> None:
    for kind, name in (
        (TOPIC, client.topic("b")),
        (TOPIC, "a b"),
        (TOPIC, ""),
        (BROKER, "2"),
        (BROKER, "one"),
        (0, "a"),
        (1, "a"),
        (3, "a"),
        (99, "a"),
        (8, "x"),
        (8, ""),
    ):
        client.request(describe((kind, name, None)), noting=codes)


@dialogue(ApiKey.DESCRIBE_CONFIGS, FIRST, LAST)
def loggers(client: DialogueClient) -> None:
    client.request(describe((8, "1", None)), noting=codes)
    client.request(describe((8, "1", ["root"]), synonyms=True))
    client.request(describe((8, "1", ["no.such.logger"])))


@dialogue(ApiKey.DESCRIBE_CONFIGS, FIRST, LAST)
def groups_and_subscriptions(client: DialogueClient) -> None:
    for kind in (16, 32):
        client.request(describe((kind, client.topic("x"), None)), noting=in_order)
        client.request(describe((kind, client.topic("x"), None), synonyms=True), noting=in_order)
        client.request(
            describe((kind, client.topic("x"), ["interval.ms", "share.isolation.level"])), noting=in_order
        )
        client.request(describe((kind, "", None)))


@dialogue(ApiKey.DESCRIBE_CONFIGS, FIRST, LAST)
def the_cluster_wide_default(client: DialogueClient) -> None:
    """With eligible leader replicas (ELR), min.insync.replicas is set from the start."""
    client.request(describe((BROKER, "", ["min.insync.replicas"]), synonyms=True), noting=in_order)
    client.request(describe((BROKER, "", ["no.such.key"])))


@dialogue(ApiKey.DESCRIBE_CONFIGS, 3, LAST)
def other_resources_with_documentation(client: DialogueClient) -> None:
    for kind, name in ((BROKER, ""), (16, client.topic("x")), (32, client.topic("x"))):
        client.request(describe((kind, name, None), documentation=True), noting=kinds)
    client.request(describe((8, "1", ["root"]), documentation=True))


@dialogue(ApiKey.DESCRIBE_CONFIGS, FIRST, LAST)
def one_resource_of_an_unknown_type_among_others(client: DialogueClient) -> None:
    name = client.create("a")
    client.request(describe((TOPIC, name, ["retention.ms"]), (99, "x", None)), noting=codes)


def codes(answer: Any) -> object:
    return [
        (
            result.resource_type,
            result.resource_name,
            result.error_code,
            len(result.configs) > 0,
            result.error_message is None,
        )
        for result in answer.results
    ]


@dialogue(ApiKey.DESCRIBE_CONFIGS, FIRST, LAST)
def many_resources(client: DialogueClient) -> None:
    a, b = client.create("a"), client.create("b")
    keys = ["retention.ms"]
    client.request(
        describe((TOPIC, a, keys), (TOPIC, client.topic("c"), keys), (TOPIC, b, keys), (TOPIC, a, keys)),
        noting=sorted_results,
    )
    client.request(describe())


def sorted_results(answer: DescribeConfigsResponse) -> object:
    answer.results.sort(key=lambda result: result.resource_name)
    return answer

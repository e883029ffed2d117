"""DescribeConfigs and ListConfigResources."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from barnabas.broker.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from barnabas.config.catalogue import GROUP_KEYS, TOPIC_KEYS
from barnabas.config.config_source import ConfigSource
from barnabas.config.values import ConfigType
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from tests.broker.broker_fixture import NODE_ID, InProcessBroker
from tests.broker.guarded_broker import GuardedBroker
from tests.support.difference import Like

VERSIONS = range(1, 5)
LATEST = 4
PUBLIC_KEYS = {name for name in TOPIC_KEYS if not name.startswith("internal.")}

Resource = DescribeConfigsRequest.DescribeConfigsResource
Entries = dict[str, DescribeConfigsResponse.DescribeConfigsResourceResult]


def resource(kind: int, name: str, keys: Sequence[str] | None = None) -> Resource:
    return Resource(
        resource_type=kind, resource_name=name, configuration_keys=None if keys is None else list(keys)
    )


def asking(
    *resources: Resource, synonyms: bool = False, documentation: bool = False
) -> DescribeConfigsRequest:
    return DescribeConfigsRequest(
        resources=list(resources), include_synonyms=synonyms, include_documentation=documentation
    )


def entries(broker: InProcessBroker, request: DescribeConfigsRequest, version: int = LATEST) -> Entries:
    """The settings of the one resource that was requested."""
    answer = broker.client(version=version).ask(request)
    assert isinstance(answer, DescribeConfigsResponse)
    (result,) = answer.results
    assert (result.error_code, result.error_message) == (ErrorCode.NONE, "")  # as Kafka has it
    return {entry.name: entry for entry in result.configs}


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_describes_a_topic(broker: InProcessBroker, version: int) -> None:
    broker.create_topic("t", retention_ms="1000")
    found = entries(broker, asking(resource(TOPIC_RESOURCE, "t")), version)
    assert found.keys() == PUBLIC_KEYS
    retention, policy = found["retention.ms"], found["cleanup.policy"]
    assert (retention.value, retention.config_source) == ("1000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert (policy.value, policy.config_source) == ("delete", ConfigSource.DEFAULT_CONFIG)
    typed = version >= 3
    assert (retention.config_type, policy.config_type) == (
        (ConfigType.LONG, ConfigType.LIST) if typed else (ConfigType.UNKNOWN, ConfigType.UNKNOWN)
    )
    assert not any(entry.read_only or entry.is_sensitive or entry.synonyms for entry in found.values())
    assert not any(entry.documentation for entry in found.values())


def test_only_requested_keys_are_described(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    some = asking(resource(TOPIC_RESOURCE, "t", ["segment.ms", "no.such.key", "retention.ms"]))
    assert entries(broker, some).keys() == {"segment.ms", "retention.ms"}


def test_no_keys_means_all_of_them(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    assert entries(broker, asking(resource(TOPIC_RESOURCE, "t", []))).keys() == PUBLIC_KEYS


def test_synonyms_are_included_on_request(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, {"log.retention.ms": "5000"})
    broker.create_topic("t", retention_ms="1000")
    request = asking(resource(TOPIC_RESOURCE, "t", ["retention.ms"]), synonyms=True)
    assert [(s.name, s.value, s.source) for s in entries(broker, request)["retention.ms"].synonyms] == [
        ("retention.ms", "1000", ConfigSource.DYNAMIC_TOPIC_CONFIG),
        ("log.retention.ms", "5000", ConfigSource.STATIC_BROKER_CONFIG),
        ("log.retention.hours", "168", ConfigSource.DEFAULT_CONFIG),
    ]
    broker.kill()


def test_documentation_is_included_on_request(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    found = entries(broker, asking(resource(TOPIC_RESOURCE, "t"), documentation=True))
    assert found["retention.ms"].documentation == TOPIC_KEYS["retention.ms"].documentation


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_describes_this_broker(tmp_path: Path, version: int) -> None:
    settings = {"num.partitions": "3", "ssl.key.password": "secret"}
    broker = InProcessBroker(tmp_path, settings)
    found = entries(broker, asking(resource(BROKER_RESOURCE, str(NODE_ID))), version)
    partitions, password = found["num.partitions"], found["ssl.key.password"]
    assert (partitions.value, partitions.config_source) == ("3", ConfigSource.STATIC_BROKER_CONFIG)
    assert partitions.read_only
    assert not found["log.retention.ms"].read_only
    assert (password.value, password.is_sensitive) == (None, True)
    broker.kill()


def test_the_default_broker_resource_has_the_cluster_defaults(broker: InProcessBroker) -> None:
    """With ELR, which a new directory has enabled, min.insync.replicas is one from the beginning."""
    (entry,) = entries(broker, asking(resource(BROKER_RESOURCE, ""))).values()
    assert (entry.name, entry.value) == ("min.insync.replicas", "1")
    assert entry.config_source == ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG


def test_logger_levels_are_described(broker: InProcessBroker) -> None:
    logging.getLogger("barnabas.server")
    found = entries(broker, asking(resource(BROKER_LOGGER_RESOURCE, str(NODE_ID))))
    assert {"root", "barnabas.server"} <= found.keys()
    assert {entry.config_source for entry in found.values()} == {ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG}
    one = asking(resource(BROKER_LOGGER_RESOURCE, str(NODE_ID), ["root", "no.such"]))
    assert entries(broker, one).keys() == {"root"}


@pytest.mark.parametrize("is_asked_for", [False, True])
def test_the_documentation_of_a_logger_is_an_empty_string(
    broker: InProcessBroker, is_asked_for: bool
) -> None:
    request = asking(resource(BROKER_LOGGER_RESOURCE, str(NODE_ID), ["root"]))
    request.include_documentation = is_asked_for
    assert entries(broker, request)["root"].documentation == ""


def test_unknown_groups_and_subscriptions_are_described_too(
    broker: InProcessBroker,
) -> None:
    assert entries(broker, asking(resource(GROUP_RESOURCE, "g"))).keys() == set(GROUP_KEYS)
    subscription = entries(broker, asking(resource(CLIENT_METRICS_RESOURCE, "m")))
    assert {name: entry.value for name, entry in subscription.items()} == {
        "interval.ms": "300000",
        "match": "",
        "metrics": "",
    }


def test_one_resource_of_an_unknown_type_fails_the_request(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    answer = broker.client(version=LATEST).ask(asking(resource(TOPIC_RESOURCE, "t"), resource(7, "x")))
    assert isinstance(answer, DescribeConfigsResponse)
    assert [result.error_code for result in answer.results] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC_RESOURCE, "u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC_RESOURCE, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (TOPIC_RESOURCE, "", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER_RESOURCE, "2", ErrorCode.INVALID_REQUEST),
        (BROKER_RESOURCE, "one", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER_RESOURCE, "", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER_RESOURCE, "2", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS_RESOURCE, "", ErrorCode.INVALID_REQUEST),
        (GROUP_RESOURCE, "", ErrorCode.INVALID_REQUEST),
        (0, "x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_that_cannot_be_described(
    broker: InProcessBroker, kind: int, name: str, code: ErrorCode
) -> None:
    answer = broker.client(version=LATEST).ask(asking(resource(kind, name)))
    assert isinstance(answer, DescribeConfigsResponse)
    (result,) = answer.results
    assert (result.error_code, result.resource_type, result.resource_name) == (code, kind, name)
    assert result.error_message
    assert result.configs == []


def test_each_resource_has_its_own_result(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    request = asking(resource(TOPIC_RESOURCE, "u"), resource(TOPIC_RESOURCE, "t", ["segment.ms"]))
    assert (
        broker.client(version=LATEST)
        >> request
        << Like(
            results=[
                Like(resource_name="u", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                Like(resource_name="t", error_code=ErrorCode.NONE, configs=[Like(name="segment.ms")]),
            ]
        )
    )


def listed(broker: InProcessBroker, version: int, *types: int) -> object:
    answer = broker.client(version=version).ask(ListConfigResourcesRequest(resource_types=list(types)))
    assert isinstance(answer, ListConfigResourcesResponse)
    return answer.error_code or [
        (resource.resource_type, resource.resource_name) for resource in answer.config_resources
    ]


def test_list_config_resources(broker: InProcessBroker) -> None:
    broker.create_topic("t")
    every = [(TOPIC_RESOURCE, "t"), (BROKER_RESOURCE, str(NODE_ID)), (BROKER_LOGGER_RESOURCE, str(NODE_ID))]
    assert listed(broker, 1) == every
    assert listed(broker, 1, TOPIC_RESOURCE, TOPIC_RESOURCE) == every[:1]
    assert listed(broker, 1, CLIENT_METRICS_RESOURCE) == []
    assert listed(broker, 1, TOPIC_RESOURCE, 7) == ErrorCode.UNSUPPORTED_VERSION
    assert listed(broker, 0) == []


# ---- authorization


def test_each_resource_is_described_to_who_may(guarded: GuardedBroker) -> None:
    guarded.create_topic("mine")
    guarded.allow(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, "mine", "absent")
    asked = asking(
        resource(TOPIC_RESOURCE, "hidden"),
        resource(TOPIC_RESOURCE, "mine", ["retention.ms"]),
        resource(TOPIC_RESOURCE, "absent"),
        resource(GROUP_RESOURCE, "g"),
        resource(BROKER_RESOURCE, str(NODE_ID)),
    )
    codes = (
        ("mine", 0),
        ("absent", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("hidden", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ("g", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        (str(NODE_ID), ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    )
    expected = Like(results=[Like(resource_name=name, error_code=code) for name, code in codes])
    assert guarded.client(version=LATEST) >> asked << expected
    denied = Like(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, config_resources=[])
    assert guarded.client(version=1) >> ListConfigResourcesRequest() << denied
    guarded.allow(AclOperation.DESCRIBE_CONFIGS)
    assert guarded.client(version=1) >> ListConfigResourcesRequest() << Like(error_code=0)

"""Configurations of topics, brokers, loggers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.cli.admin.client import ANYONE, AdminClient, Node, Target, every_code
from barnabas.cli.admin.errors import check
from barnabas.cli.admin.names import ResourceType
from barnabas.config.config_source import ConfigSource
from barnabas.protocol.messages.configs import (
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
    ListConfigResourcesRequest,
)

SET: Final = 0
DELETE: Final = 1
RESOURCES_A_REQUEST: Final = 500
"""A topic has some 35 values; this bounds the size of a response."""


class Synonym(NamedTuple):
    """A key that can set a value: the first of the synonyms is in force."""

    source: int
    name: str
    value: str | None


class ConfigValue(NamedTuple):
    """One value of a configuration; None if the broker hides it."""

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    synonyms: list[Synonym]

    @property
    def is_default(self) -> bool:
        """Whether the value is the default (`ConfigEntry.isDefault`)."""
        return self.source == ConfigSource.DEFAULT_CONFIG


def describe_configs(
    client: AdminClient,
    kind: ResourceType,
    names: Sequence[str],
    *,
    include_synonyms: bool = True,
) -> dict[str, list[ConfigValue]]:
    """The configuration of each resource, in the broker's order. Raises ServerError."""
    found: dict[str, list[ConfigValue]] = {}
    for start in range(0, len(names), RESOURCES_A_REQUEST):
        some = names[start : start + RESOURCES_A_REQUEST]
        resources = [
            DescribeConfigsRequest.DescribeConfigsResource(
                resource_type=kind, resource_name=name, configuration_keys=None
            )
            for name in some
        ]
        request = DescribeConfigsRequest(resources=resources, include_synonyms=include_synonyms)
        answer = client.send(request, target_of(kind, some[0]), codes=every_code)
        for result in answer.results:
            check(result.error_code, result.error_message)
            found[result.resource_name] = [_value(each) for each in result.configs]
    return found


def target_of(kind: ResourceType, name: str) -> Target:
    """The broker that describes and alters this resource: its own for values and loggers of a broker, otherwise any."""
    is_own = kind in {ResourceType.BROKER, ResourceType.BROKER_LOGGER} and name != ""
    return Node(int(name)) if is_own else ANYONE


def alter_configs(
    client: AdminClient,
    changes: Mapping[tuple[ResourceType, str], Mapping[str, str | None]],
) -> None:
    """Sets keys of resources, and deletes those whose value is None; each broker changes its own resources.

    Raises ServerError for the first change that is rejected.
    """
    for target, resources in _by_target(changes).items():
        request = IncrementalAlterConfigsRequest(
            resources=[_resource(kind, name, changes[kind, name]) for kind, name in resources]
        )
        answer = client.send(request, target, codes=every_code)
        for response in answer.responses:
            check(response.error_code, response.error_message)


def _by_target(resources: Iterable[tuple[ResourceType, str]]) -> dict[Target, list[tuple[ResourceType, str]]]:
    grouped: dict[Target, list[tuple[ResourceType, str]]] = {}
    for kind, name in resources:
        grouped.setdefault(target_of(kind, name), []).append((kind, name))
    return grouped


def _resource(kind: ResourceType, name: str, changes: Mapping[str, str | None]) -> Any:
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(
            name=key, config_operation=DELETE if value is None else SET, value=value
        )
        for key, value in changes.items()
    ]
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=configs
    )


def list_config_resources(client: AdminClient, kind: ResourceType) -> list[str]:
    """The resources of this kind that have a configuration of their own, sorted."""
    if kind is ResourceType.CLIENT_METRICS:
        answer = client.send(
            ListConfigResourcesRequest(), versions="0"
        )  # Kafka before 4.1 lists this kind alone
    else:
        answer = client.send(ListConfigResourcesRequest(resource_types=[kind]), versions="1")
    check(answer.error_code)
    return sorted(each.resource_name for each in answer.config_resources if each.resource_type == kind)


def _value(result: Any) -> ConfigValue:
    synonyms = [Synonym(each.source, each.name, each.value) for each in result.synonyms]
    return ConfigValue(
        result.name,
        result.value,
        result.config_source,
        result.read_only,
        result.is_sensitive,
        synonyms,
    )

"""DescribeConfigs: every setting of a resource with its value, source, type and documentation.

ListConfigResources: the resources that can be described.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.broker.controller.config_admin import CLUSTER_DEFAULT
from barnabas.broker.controller.loggers import logger_levels
from barnabas.broker.controller.topic_admin import check_topic_name
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import denied, is_allowed
from barnabas.broker.metadata.image import (
    BROKER_LOGGER_RESOURCE,
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from barnabas.broker.request import RequestContext, api
from barnabas.config.config_source import ConfigSource
from barnabas.config.describe import (
    ConfigEntry,
    describe_broker_configs,
    describe_cluster_default,
    describe_topic_configs,
)
from barnabas.config.describe_resources import describe_client_metrics_configs, describe_group_configs
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.acls import CLUSTER_NAME
from barnabas.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

RESOURCE_TYPES: Final = (
    TOPIC_RESOURCE,
    BROKER_RESOURCE,
    BROKER_LOGGER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
)
_DESCRIBE_TOPIC, _DESCRIBE_GROUP, _DESCRIBE_CLUSTER = checks_of(ApiKey.DESCRIBE_CONFIGS)
_CHECKS: Final = {TOPIC_RESOURCE: _DESCRIBE_TOPIC, GROUP_RESOURCE: _DESCRIBE_GROUP}
"""Of the other types the cluster's."""

_TYPES_SINCE: Final = 1
"""Before, ListConfigResources had another name and listed client metrics only."""

Names = Collection[str] | None
Result = DescribeConfigsResponse.DescribeConfigsResult
Entry = DescribeConfigsResponse.DescribeConfigsResourceResult


@api(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4))
def describe_configs(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    if any(resource.resource_type not in RESOURCE_TYPES for resource in request.resources):
        # With one resource of an unknown type, Kafka rejects the others too.
        unknown = ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type: types are {RESOURCE_TYPES}.")
        return DescribeConfigsResponse(
            results=[_rejected(resource, unknown) for resource in request.resources]
        )
    may_describe, refused = [], []
    for resource in request.resources:
        check = _CHECKS.get(resource.resource_type, _DESCRIBE_CLUSTER)
        name = CLUSTER_NAME if check is _DESCRIBE_CLUSTER else resource.resource_name
        if is_allowed(broker, context, check, name):
            may_describe.append(resource)
        else:
            refused.append(_rejected(resource, denied(check)))
    return DescribeConfigsResponse(
        results=[_describe(broker, request, resource) for resource in may_describe] + refused
    )


def _describe(
    broker: Broker, request: DescribeConfigsRequest, resource: DescribeConfigsRequest.DescribeConfigsResource
) -> Result:
    names = resource.configuration_keys or None
    describe = _DESCRIBERS[resource.resource_type]
    try:
        entries = list(describe(broker, resource.resource_name, names))
    except ApiError as error:
        return _rejected(resource, error)
    if not request.include_synonyms:
        for entry in entries:
            entry.synonyms = []
    if not request.include_documentation and resource.resource_type != BROKER_LOGGER_RESOURCE:
        for entry in entries:
            entry.documentation = None
    return Result(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=entries,
    )


def _rejected(resource: DescribeConfigsRequest.DescribeConfigsResource, error: ApiError) -> Result:
    return Result(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        error_code=error.code,
        error_message=error.message,
    )


# ---- one describer for each type of resource; each raises ApiError when there is no such resource


def _describe_topic(broker: Broker, name: str, names: Names) -> Iterable[Entry]:
    check_topic_name(name)
    if name not in broker.image.topics:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
    overrides = broker.image.topic_config(name)
    return map(_entry, describe_topic_configs(broker.config, overrides, names))


def _describe_broker(broker: Broker, name: str, names: Names) -> Iterable[Entry]:
    if name == CLUSTER_DEFAULT:
        return map(_entry, describe_cluster_default(broker.config, names))
    _check_broker_id(broker, name)
    return map(_entry, describe_broker_configs(broker.config, names))


def _describe_loggers(broker: Broker, name: str, names: Names) -> Iterable[Entry]:
    _check_broker_id(broker, name)
    return [
        Entry(
            name=logger,
            value=level,
            config_source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            documentation="",  # empty and not null, asked for or not, as Apache Kafka has it
        )
        for logger, level in logger_levels().items()
        if names is None or logger in names
    ]


def _describe_client_metrics(broker: Broker, name: str, names: Names) -> Iterable[Entry]:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Client metrics subscription name must not be empty")
    settings = broker.image.configs.get((CLIENT_METRICS_RESOURCE, name), {})
    return map(_entry, describe_client_metrics_configs(settings, names))


def _describe_group(broker: Broker, name: str, names: Names) -> Iterable[Entry]:
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    overrides = broker.image.configs.get((GROUP_RESOURCE, name), {})
    return map(_entry, describe_group_configs(broker.config, overrides, names))


_DESCRIBERS: Final[Mapping[int, Callable[[Broker, str, Names], Iterable[Entry]]]] = {
    TOPIC_RESOURCE: _describe_topic,
    BROKER_RESOURCE: _describe_broker,
    BROKER_LOGGER_RESOURCE: _describe_loggers,
    CLIENT_METRICS_RESOURCE: _describe_client_metrics,
    GROUP_RESOURCE: _describe_group,
}


def _check_broker_id(broker: Broker, name: str) -> None:
    if name == str(broker.node_id):
        return
    if not name:
        message = "Broker id must not be empty"
    elif not name.removeprefix("-").isdecimal():
        message = f"Broker id must be an integer, but it is: {name}"
    else:
        message = f"Unexpected broker id, expected {broker.node_id} or empty string, but received {name}"
    raise ApiError(ErrorCode.INVALID_REQUEST, message)


def _entry(entry: ConfigEntry) -> Entry:
    return Entry(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsResponse.DescribeConfigsSynonym(
                name=synonym.name, value=synonym.value, source=synonym.source
            )
            for synonym in entry.synonyms
        ],
        config_type=entry.type,
        documentation=entry.documentation,
    )


# ---- the resources


@api(ApiKey.LIST_CONFIG_RESOURCES, versions=(0, 1))
def list_config_resources(
    broker: Broker, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    wanted = set(request.resource_types) or set(RESOURCE_TYPES)
    if context.api_version < _TYPES_SINCE:
        wanted = {CLIENT_METRICS_RESOURCE}
    if not wanted.issubset(RESOURCE_TYPES):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ListConfigResourcesResponse.ConfigResource(resource_name=name, resource_type=kind)
            for kind in sorted(wanted)
            for name in _resource_names(broker.image, broker.node_id, kind)
        ]
    )


def _resource_names(image: MetadataImage, node_id: int, kind: int) -> Iterable[str]:
    """All topics and brokers; of the other types the resources with settings."""
    if kind == TOPIC_RESOURCE:
        return image.topics
    if kind in (BROKER_RESOURCE, BROKER_LOGGER_RESOURCE):
        return [str(broker) for broker in sorted(image.brokers) or [node_id]]
    return [name for of_kind, name in image.configs if of_kind == kind]

"""DescribeConfigs: every setting of a topic or a broker with its value, where that comes from, type and text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from broker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from broker.request import RequestContext, api
from broker.topic_admin import check_topic_name
from config.describe import ConfigEntry, describe_broker_configs, describe_topic_configs
from protocol.api_keys import ApiKey
from protocol.errors import ApiError, ErrorCode
from protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse

if TYPE_CHECKING:
    from broker.services import Broker

_RESOURCE_NAMES: Final = {TOPIC_RESOURCE: "topic", BROKER_RESOURCE: "broker"}


@api(ApiKey.DESCRIBE_CONFIGS, versions=(1, 4))
def describe_configs(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(broker, request, resource) for resource in request.resources]
    )


def _describe(
    broker: Broker, request: DescribeConfigsRequest, resource: DescribeConfigsRequest.DescribeConfigsResource
) -> DescribeConfigsResponse.DescribeConfigsResult:
    result = DescribeConfigsResponse.DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        entries = _entries(broker, resource)
    except ApiError as error:
        result.error_code = error.code
        result.error_message = error.message
        return result
    keys = resource.configuration_keys
    result.configs = [
        _entry(entry, synonyms=request.include_synonyms, documentation=request.include_documentation)
        for entry in entries
        if not keys or entry.name in keys
    ]
    return result


def _entries(
    broker: Broker, resource: DescribeConfigsRequest.DescribeConfigsResource
) -> Iterable[ConfigEntry]:
    """The resource's settings. Raises ApiError when there is no such resource."""
    name = resource.resource_name
    if resource.resource_type == TOPIC_RESOURCE:
        check_topic_name(name)
        if name not in broker.image.topics:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic '{name}'.")
        return describe_topic_configs(broker.config, broker.image.topic_config(name))
    if resource.resource_type == BROKER_RESOURCE:
        return describe_broker_configs(broker.config) if _is_this_broker(broker, name) else ()
    raise ApiError(
        ErrorCode.INVALID_REQUEST,
        f"Resources of type {resource.resource_type} are not described here; types are {_RESOURCE_NAMES}.",
    )


def _is_this_broker(broker: Broker, name: str) -> bool:
    """True for this node's id; False for the cluster-wide default (an empty name), which sets nothing here yet."""
    if not name:
        return False
    if name != str(broker.node_id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"This is broker {broker.node_id}; '{name}' has to be asked about itself.",
        )
    return True


def _entry(
    entry: ConfigEntry, *, synonyms: bool, documentation: bool
) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
    return DescribeConfigsResponse.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[
            DescribeConfigsResponse.DescribeConfigsSynonym(
                name=synonym.name, value=synonym.value, source=synonym.source
            )
            for synonym in (entry.synonyms if synonyms else ())
        ],
        config_type=entry.type,
        documentation=entry.documentation if documentation else None,
    )

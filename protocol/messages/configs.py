"""Reading and changing the configuration of topics, brokers, groups and client metrics."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bool_, int8, int16, int32, string


class DescribeConfigsRequest(Message, api_key=32, versions="1-4", flexible="4+"):
    """Asks for configuration values with their sources and synonyms."""

    class DescribeConfigsResource(Struct):
        resource_type: int = int8()
        resource_name: str = string()
        configuration_keys: list[str] | None = array(string, nullable="0+")

    resources: list[DescribeConfigsRequest.DescribeConfigsResource] = array("DescribeConfigsResource")
    include_synonyms: bool = bool_(versions="1+")
    include_documentation: bool = bool_(versions="3+")


class DescribeConfigsResponse(Message, api_key=32, versions="1-4", flexible="4+"):
    class DescribeConfigsSynonym(Struct):
        name: str = string(versions="1+")
        value: str | None = string(versions="1+", nullable="0+")
        source: int = int8(versions="1+")

    class DescribeConfigsResourceResult(Struct):
        name: str = string()
        value: str | None = string(nullable="0+")
        read_only: bool = bool_()
        config_source: int = int8(versions="1+", default=-1, ignorable=True)
        is_sensitive: bool = bool_()
        synonyms: list[DescribeConfigsResponse.DescribeConfigsSynonym] = array(
            "DescribeConfigsSynonym", versions="1+", ignorable=True
        )
        config_type: int = int8(versions="3+", ignorable=True)
        documentation: str | None = string(versions="3+", nullable="0+", ignorable=True)

    class DescribeConfigsResult(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        resource_type: int = int8()
        resource_name: str = string()
        configs: list[DescribeConfigsResponse.DescribeConfigsResourceResult] = array(
            "DescribeConfigsResourceResult"
        )

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResponse.DescribeConfigsResult] = array("DescribeConfigsResult")


class AlterConfigsRequest(Message, api_key=33, versions="0-2", flexible="2+"):
    """Replaces the whole configuration of a resource."""

    class AlterableConfig(Struct):
        name: str = string()
        value: str | None = string(nullable="0+")

    class AlterConfigsResource(Struct):
        resource_type: int = int8()
        resource_name: str = string()
        configs: list[AlterConfigsRequest.AlterableConfig] = array("AlterableConfig")

    resources: list[AlterConfigsRequest.AlterConfigsResource] = array("AlterConfigsResource")
    validate_only: bool = bool_()


class AlterConfigsResponse(Message, api_key=33, versions="0-2", flexible="2+"):
    class AlterConfigsResourceResponse(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        resource_type: int = int8()
        resource_name: str = string()

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResponse.AlterConfigsResourceResponse] = array("AlterConfigsResourceResponse")


class IncrementalAlterConfigsRequest(Message, api_key=44, versions="0-1", flexible="1+"):
    """Sets, deletes, appends to and subtracts from configuration values (KIP-339)."""

    class AlterableConfig(Struct):
        name: str = string()
        config_operation: int = int8()
        value: str | None = string(nullable="0+")

    class AlterConfigsResource(Struct):
        resource_type: int = int8()
        resource_name: str = string()
        configs: list[IncrementalAlterConfigsRequest.AlterableConfig] = array("AlterableConfig")

    resources: list[IncrementalAlterConfigsRequest.AlterConfigsResource] = array("AlterConfigsResource")
    validate_only: bool = bool_()


class IncrementalAlterConfigsResponse(Message, api_key=44, versions="0-1", flexible="1+"):
    class AlterConfigsResourceResponse(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        resource_type: int = int8()
        resource_name: str = string()

    throttle_time_ms: int = int32()
    responses: list[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse] = array(
        "AlterConfigsResourceResponse"
    )


class ListConfigResourcesRequest(Message, api_key=74, versions="0-1", flexible="0+"):
    """Asks which resources have a configuration."""

    resource_types: list[int] = array(int8, versions="1+")


class ListConfigResourcesResponse(Message, api_key=74, versions="0-1", flexible="0+"):
    class ConfigResource(Struct):
        resource_name: str = string()
        resource_type: int = int8(versions="1+", default=16, ignorable=True)

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ListConfigResourcesResponse.ConfigResource] = array("ConfigResource")

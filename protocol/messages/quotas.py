"""Client quotas."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bool_, float64, int8, int16, int32, string


class DescribeClientQuotasRequest(Message, api_key=48, versions="0-1", flexible="1+"):
    """Asks for the quotas that match a filter (KIP-546)."""

    class ComponentData(Struct):
        entity_type: str = string()
        match_type: int = int8()
        match: str | None = string(nullable="0+")

    components: list[DescribeClientQuotasRequest.ComponentData] = array("ComponentData")
    strict: bool = bool_()


class DescribeClientQuotasResponse(Message, api_key=48, versions="0-1", flexible="1+"):
    class EntityData(Struct):
        entity_type: str = string()
        entity_name: str | None = string(nullable="0+")

    class ValueData(Struct):
        key: str = string()
        value: float = float64()

    class EntryData(Struct):
        entity: list[DescribeClientQuotasResponse.EntityData] = array("EntityData")
        values: list[DescribeClientQuotasResponse.ValueData] = array("ValueData")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    entries: list[DescribeClientQuotasResponse.EntryData] | None = array("EntryData", nullable="0+")


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    """Sets and removes quotas."""

    class EntityData(Struct):
        entity_type: str = string()
        entity_name: str | None = string(nullable="0+")

    class OpData(Struct):
        key: str = string()
        value: float = float64()
        remove: bool = bool_()

    class EntryData(Struct):
        entity: list[AlterClientQuotasRequest.EntityData] = array("EntityData")
        ops: list[AlterClientQuotasRequest.OpData] = array("OpData")

    entries: list[AlterClientQuotasRequest.EntryData] = array("EntryData")
    validate_only: bool = bool_()


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    class EntityData(Struct):
        entity_type: str = string()
        entity_name: str | None = string(nullable="0+")

    class EntryData(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        entity: list[AlterClientQuotasResponse.EntityData] = array("EntityData")

    throttle_time_ms: int = int32()
    entries: list[AlterClientQuotasResponse.EntryData] = array("EntryData")

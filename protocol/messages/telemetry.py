"""Client metrics pushed to the broker (KIP-714)."""

from __future__ import annotations

from barnabas.protocol.schema import Message, array, bool_, bytes_, int8, int16, int32, string, uuid
from barnabas.protocol.wire import Uuid


class GetTelemetrySubscriptionsRequest(Message, api_key=71, versions="0", flexible="0+"):
    """A client asks which of its metrics are wanted."""

    client_instance_id: Uuid = uuid()


class GetTelemetrySubscriptionsResponse(Message, api_key=71, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()
    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    accepted_compression_types: list[int] = array(int8)
    push_interval_ms: int = int32()
    telemetry_max_bytes: int = int32()
    delta_temporality: bool = bool_()
    requested_metrics: list[str] = array(string)


class PushTelemetryRequest(Message, api_key=72, versions="0", flexible="0+"):
    """A client sends metrics, compressed OTLP."""

    client_instance_id: Uuid = uuid()
    subscription_id: int = int32()
    terminating: bool = bool_()
    compression_type: int = int8()
    metrics: bytes = bytes_()


class PushTelemetryResponse(Message, api_key=72, versions="0", flexible="0+"):
    throttle_time_ms: int = int32()
    error_code: int = int16()

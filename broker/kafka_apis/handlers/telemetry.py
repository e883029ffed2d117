"""GetTelemetrySubscriptions and PushTelemetry: subscriptions to metrics of clients, and their pushes (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext, api
from barnabas.broker.telemetry.client_metrics import ACCEPTED_COMPRESSION_TYPES
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError
from barnabas.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
    PushTelemetryResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def _offered(broker: Broker) -> bool:
    return broker.client_metrics.is_offered


@api(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, versions=(0, 0), offered=_offered)
def get_telemetry_subscriptions(
    broker: Broker, context: RequestContext, request: GetTelemetrySubscriptionsRequest
) -> GetTelemetrySubscriptionsResponse:
    manager = broker.client_metrics
    try:
        instance_id, subscription = manager.get_subscription(request.client_instance_id, context)
    except ApiError as error:
        return GetTelemetrySubscriptionsResponse(error_code=error.code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription.subscription_id,
        accepted_compression_types=list(ACCEPTED_COMPRESSION_TYPES),
        push_interval_ms=subscription.push_interval_ms,
        telemetry_max_bytes=manager.max_bytes,
        delta_temporality=True,
        requested_metrics=list(subscription.metrics),
    )


@api(ApiKey.PUSH_TELEMETRY, versions=(0, 0), offered=_offered)
def push_telemetry(
    broker: Broker, context: RequestContext, request: PushTelemetryRequest
) -> Pending[PushTelemetryResponse]:
    answer = broker.client_metrics.push(request, context)
    return answer.then(lambda code: PushTelemetryResponse(error_code=code))

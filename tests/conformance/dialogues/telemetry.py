"""GetTelemetrySubscriptions and PushTelemetry, with a receiver of metrics and without one."""

from __future__ import annotations

import gzip
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest
from barnabas.protocol.messages.telemetry import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
    PushTelemetryRequest,
)
from barnabas.protocol.wire import ZERO_UUID, Uuid
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import SECURED, dialogue

CLIENT_METRICS = 16
SET, DELETE = 0, 1
HOUR_MS = "3600000"
NONE, GZIP, ZSTD = 0, 1, 4

ONE_GAUGE = bytes.fromhex("0a180a0012140a0012100a06672e617567652a060a04210000")
"""Not OTLP: the receiver decompresses it without parsing."""


def get(instance_id: Uuid = ZERO_UUID) -> GetTelemetrySubscriptionsRequest:
    return GetTelemetrySubscriptionsRequest(client_instance_id=instance_id)


def push(
    instance_id: Uuid,
    subscription_id: int,
    metrics: bytes = b"",
    *,
    terminating: bool = False,
    codec: int = NONE,
) -> PushTelemetryRequest:
    return PushTelemetryRequest(
        client_instance_id=instance_id,
        subscription_id=subscription_id,
        terminating=terminating,
        compression_type=codec,
        metrics=metrics,
    )


def subscribed(answer: GetTelemetrySubscriptionsResponse) -> object:
    """The fields that do not depend on a random id."""
    return (
        answer.error_code,
        answer.throttle_time_ms,
        len(answer.client_instance_id),
        answer.client_instance_id == ZERO_UUID,
        answer.accepted_compression_types,
        answer.push_interval_ms,
        answer.telemetry_max_bytes,
        answer.delta_temporality,
        sorted(answer.requested_metrics),
    )


def subscribe(client: DialogueClient, word: str, **settings: str | None) -> None:
    """Subscribes to metrics of clients with a name that only this dialogue uses, and waits until that takes effect."""
    client.connection.client_id = client.topic("client")
    settings.setdefault("match", f"client_id={client.topic('client')}")
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(
            name=name.replace("_", "."), config_operation=DELETE if value is None else SET, value=value
        )
        for name, value in settings.items()
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=client.topic(word), configs=configs
    )
    answer = client.connection.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer  # type: ignore[attr-defined]
    wanted = [name for name in (settings.get("metrics") or "").split(",") if name]
    client.request_until(get(), lambda it: set(wanted) <= set(it.requested_metrics), 0)


def offered(answer: ApiVersionsResponse) -> object:
    telemetry = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}
    return [(it.api_key, it.min_version, it.max_version) for it in answer.api_keys if it.api_key in telemetry]


@dialogue(ApiKey.API_VERSIONS, 0, 4)
def not_offered_without_a_receiver(client: DialogueClient) -> None:
    client.request(
        ApiVersionsRequest(client_software_name="dialogue", client_software_version="1"), noting=offered
    )


@dialogue(ApiKey.API_VERSIONS, 0, 4, brokers=SECURED)
def offered_with_a_receiver(client: DialogueClient) -> None:
    client.request(
        ApiVersionsRequest(client_software_name="dialogue", client_software_version="1"), noting=offered
    )


@dialogue(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0)
def asked_without_a_receiver(client: DialogueClient) -> None:
    client.request(get(), noting=subscribed)
    instance_id = bytes(range(16))
    client.request(get(instance_id), noting=subscribed)
    client.request(get(instance_id), noting=subscribed)


@dialogue(ApiKey.PUSH_TELEMETRY, 0, 0)
def pushed_without_a_receiver(client: DialogueClient) -> None:
    first = client.request(get(), noting=subscribed)
    instance_id, subscription_id = first.client_instance_id, first.subscription_id
    client.request(push(instance_id, subscription_id, ONE_GAUGE))
    client.request(push(instance_id, subscription_id, ONE_GAUGE))
    client.request(
        push(instance_id, subscription_id, b"nothing that could be unpacked", terminating=True, codec=GZIP)
    )


@dialogue(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, brokers=SECURED)
def without_a_subscription(client: DialogueClient) -> None:
    client.request(get(), noting=subscribed)
    for number in (1, 99, 100):
        client.request(get(bytes(15) + bytes([number])), noting=subscribed)


@dialogue(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, brokers=SECURED)
def one_subscription(client: DialogueClient) -> None:
    subscribe(client, "one", metrics="org.apache.kafka.producer.", interval_ms=HOUR_MS)
    instance_id = b"a client with id"
    answer = client.request(get(instance_id), noting=subscribed)
    client.note(answer.subscription_id)
    client.request(get(instance_id), noting=subscribed)
    client.request(push(instance_id, answer.subscription_id))
    client.request(get(instance_id), noting=subscribed)


@dialogue(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, brokers=SECURED)
def several_subscriptions(client: DialogueClient) -> None:
    subscribe(client, "one", metrics="b.,a.", interval_ms=HOUR_MS)
    client.request(get(), noting=subscribed)
    subscribe(client, "two", metrics="c.", interval_ms="100")
    client.request(get(), noting=subscribed)
    subscribe(client, "three", metrics="*")
    client.request(get(), noting=subscribed)
    subscribe(client, "two", metrics=None, interval_ms=None, match=None)
    client.request_until(get(), lambda it: it.push_interval_ms == 300_000, 0)
    client.request(get(), noting=subscribed)


@dialogue(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, brokers=SECURED)
def clients_that_match_a_subscription(client: DialogueClient) -> None:
    """A subscription that does not match has no effect; the last one shows that the broker has applied all."""
    name = client.topic("client")
    patterns = {
        "prefix": f"client_id={name[:-1]}",
        "letters": f"client_id={name[:-1]}.",
        "software": f"client_id={name},client_software_name=unknown",
        "other-software": f"client_id={name},client_software_name=java",
        "version": f"client_id={name},client_software_version=unk.*",
        "address": f"client_id={name},client_source_address=127[.]0[.]0[.]1",
        "port": f"client_id={name},client_source_port=[0-9]+",
        "no-port": f"client_id={name},client_source_port=0",
        "instance": f"client_id={name},client_instance_id=[A-Za-z0-9_-]{{22}}",
    }
    for word, match in patterns.items():
        metrics = f"{word}." if word not in {"prefix", "other-software", "no-port"} else ""
        subscribe(client, word, metrics=metrics, match=match)
    subscribe(client, "last", metrics="last.")
    client.request(get(), noting=subscribed)


@dialogue(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, brokers=SECURED)
def a_changed_subscription_ends_the_interval(client: DialogueClient) -> None:
    subscribe(client, "one", metrics="a.", interval_ms=HOUR_MS)
    instance_id = b"a changed client"
    first = client.request(get(instance_id), noting=subscribed)
    client.request(get(instance_id), noting=subscribed)
    subscribe(client, "one", metrics="b.", interval_ms=HOUR_MS)
    client.request(push(instance_id, first.subscription_id, ONE_GAUGE))
    client.request(get(instance_id), noting=subscribed)
    client.request(get(instance_id), noting=subscribed)


@dialogue(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, brokers=SECURED)
def a_client_that_reconnects(client: DialogueClient) -> None:
    """A new connection is a new client, which need not wait for the interval."""
    subscribe(client, "one", metrics="a.", interval_ms=HOUR_MS)
    instance_id = b"back once again."
    client.request(get(instance_id), noting=subscribed)
    client.request(get(instance_id), noting=subscribed)
    client.connection.close()
    client.request_until(get(instance_id), lambda it: it.error_code == 0, 0)
    client.request(get(instance_id), noting=subscribed)


@dialogue(ApiKey.PUSH_TELEMETRY, 0, 0, brokers=SECURED)
def pushes(client: DialogueClient) -> None:
    subscribe(client, "one", metrics="a.", interval_ms=HOUR_MS)
    first = client.request(get(), noting=subscribed)
    instance_id, subscription_id = first.client_instance_id, first.subscription_id
    for request in (
        push(instance_id, subscription_id),
        push(instance_id, subscription_id),
        push(instance_id, subscription_id + 1),
        push(instance_id, subscription_id, terminating=True),
        push(instance_id, subscription_id, terminating=True),
        push(instance_id, subscription_id),
    ):
        client.request(request)
    client.request(get(instance_id), noting=subscribed)


@dialogue(ApiKey.PUSH_TELEMETRY, 0, 0, brokers=SECURED)
def pushes_without_a_subscription_request(client: DialogueClient) -> None:
    subscribe(client, "one", metrics="a.", interval_ms=HOUR_MS)
    instance_id = b"came without id."
    client.request(push(instance_id, 1))
    client.request(push(instance_id, 1))
    client.request(get(instance_id), noting=subscribed)
    for reserved in (ZERO_UUID, bytes(15) + b"\x01", bytes(15) + b"\x63", bytes(15) + b"\x64"):
        client.request(push(reserved, 1))


@dialogue(ApiKey.PUSH_TELEMETRY, 0, 0, brokers=SECURED)
def invalid_pushes(client: DialogueClient) -> None:
    subscribe(client, "one", metrics="a.", interval_ms=HOUR_MS)
    bomb, large = gzip.compress(bytes(1 << 21)), bytes((1 << 20) + 1)
    for wrong in (
        {"subscription": 1},
        {"codec": 5},
        {"codec": -1},
        {"codec": 9, "metrics": large},
        {"metrics": large},
        {"codec": GZIP, "metrics": large},
        {"codec": GZIP, "metrics": b"no gzip"},
        {"codec": ZSTD, "metrics": b"no zstd"},
        {"codec": GZIP, "metrics": gzip.compress(b"x")[:-4]},
        {"codec": GZIP, "metrics": bomb},
        {"codec": ZSTD, "metrics": b""},
    ):
        client.note(first_push(client, **wrong))


def first_push(client: DialogueClient, subscription: int = 0, metrics: bytes = b"", codec: int = NONE) -> Any:
    """The response to the first push of a client."""
    first = client.request_until(get(), lambda it: it.error_code == 0, 0)
    request = push(first.client_instance_id, first.subscription_id + subscription, metrics, codec=codec)
    answer: Any = client.connection.request(request, 0)
    return len(metrics), codec, answer.error_code

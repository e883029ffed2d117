"""GetTelemetrySubscriptions and PushTelemetry. The rules for clients are tested in test_client_metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest
from barnabas.protocol.wire import ZERO_UUID
from tests.broker.broker_fixture import WAITS, InProcessBroker, Wait
from tests.broker.held_runner import HeldRunner
from tests.broker.telemetry.otlp_payloads import counter, payload, point
from tests.conformance.dialogues.telemetry import CLIENT_METRICS, SET, get, push
from tests.support.difference import Like

TELEMETRY = {ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY}


def subscribe(broker: InProcessBroker, name: str, **settings: str) -> None:
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(
            name=key.replace("_", "."), config_operation=SET, value=value
        )
        for key, value in settings.items()
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name=name, configs=configs
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    assert broker.client(version=1) >> request << Like(responses=[Like(error_code=0)])


def shown(broker: InProcessBroker) -> dict[str, list[float]]:
    store = broker.client_metrics.store
    assert store is not None
    return {family.name: [value for _, value in samples] for family, samples in store.families()}


def test_a_client_gets_its_subscription_and_pushes_metrics(broker: InProcessBroker) -> None:
    subscribe(broker, "one", metrics="org.apache.kafka.", interval_ms="1000")
    client = broker.client(version=0)
    asked = client.ask(get())
    assert asked.error_code == 0  # type: ignore[attr-defined]
    assert asked.requested_metrics == ["org.apache.kafka."]  # type: ignore[attr-defined]
    assert asked.accepted_compression_types == [4, 3, 1, 2]  # type: ignore[attr-defined]
    assert (asked.push_interval_ms, asked.telemetry_max_bytes) == (1000, 1 << 20)  # type: ignore[attr-defined]
    assert asked.delta_temporality  # type: ignore[attr-defined]
    instance_id, subscription_id = asked.client_instance_id, asked.subscription_id  # type: ignore[attr-defined]
    assert instance_id != ZERO_UUID
    one = push(instance_id, subscription_id, payload(counter("org.apache.kafka.records", point(2.0))))
    assert client >> one << Like(throttle_time_ms=0, error_code=0)
    assert client >> one << Like(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    assert client >> Wait(1) >> one << Like(error_code=0)
    assert shown(broker) == {"org_apache_kafka_records_total": [4.0]}


def test_a_rejection_has_only_an_error_code(broker: InProcessBroker) -> None:
    client = broker.client(version=0)
    instance_id = b"a client with id"
    assert client >> get(instance_id) << Like(error_code=0, client_instance_id=instance_id)
    nothing = Like(
        error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        client_instance_id=ZERO_UUID,
        push_interval_ms=0,
        requested_metrics=[],
        delta_temporality=False,
    )
    assert client >> get(instance_id) << nothing


def test_a_push_is_decoded_off_the_event_loop(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client = broker.client(version=0)
    asked = client.ask(get())
    instance_id, subscription_id = asked.client_instance_id, asked.subscription_id  # type: ignore[attr-defined]
    assert client >> push(instance_id, subscription_id, payload(counter("c", point(1.0)))) << WAITS
    runner.release_all()
    assert client << Like(error_code=0)
    broker.kill()


@pytest.mark.parametrize("max_series", [0, 10])
def test_telemetry_is_advertised_only_if_metrics_are_exported(tmp_path: Path, max_series: int) -> None:
    broker = InProcessBroker(tmp_path, {"barnabas.client.metrics.max.series": str(max_series)})
    asked = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    answer = broker.client(version=4).ask(asked)
    assert isinstance(answer, ApiVersionsResponse)
    offered = {it.api_key for it in answer.api_keys} & TELEMETRY
    assert offered == (TELEMETRY if max_series else set())
    assert broker.client(version=0) >> get() << Like(error_code=0)
    broker.kill()

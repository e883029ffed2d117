"""The metrics of quotas, of managers in a known state."""

from __future__ import annotations

import pytest

from barnabas.broker.metrics import quota_metrics
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.metrics.quota_metrics import add_connection_rates, add_quotas
from barnabas.broker.network.connection_quotas import ConnectionLimits, ConnectionQuotas
from barnabas.broker.quotas.limits import ANY
from barnabas.broker.quotas.quota_managers import QuotaManagers
from barnabas.broker.quotas.request_meter import RequestMeter
from barnabas.broker.request import KafkaPrincipal
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.api_keys import ApiKey
from tests.broker.metrics.snapshots import snapshot_at_once
from tests.broker.metrics.test_sources import values

ALICE = KafkaPrincipal("a b")


@pytest.fixture
def quotas() -> QuotaManagers:
    return QuotaManagers(BrokerConfig.of(None, overrides=[]), lambda: 100.0, lambda: 0.0)


def metrics_of(quotas: QuotaManagers) -> Metrics:
    metrics = Metrics()
    add_quotas(metrics, quotas)
    return metrics


def test_without_quotas_there_are_no_series(quotas: QuotaManagers) -> None:
    shown = {
        family.name: dict(samples) for family, samples in snapshot_at_once(metrics_of(quotas)) if samples
    }
    nothing = {("Produce",): 0, ("Fetch",): 0, ("Request",): 0, ("ControllerMutation",): 0}
    assert shown == {
        "kafka_server_quota_queue_size": nothing,
        "kafka_server_quota_counters": nothing,
        "kafka_server_quota_exempt_request_time": {(): 0.0},
    }


def test_quotas_have_series_by_user_and_client_id(quotas: QuotaManagers) -> None:
    for manager, limit in zip(quotas.each(), (50.0, 1000.0, 60.0, 2.0), strict=True):
        manager.update((ANY, ANY), limit)
    meter = RequestMeter(quotas, ALICE, "c", 1000, 0.0)
    charge = meter.mutation_charge(is_strict=True)
    assert charge is not None
    charge("t", 15)
    meter.handled_s = 1.0
    meter.settle(ApiKey.PRODUCE)
    quotas.throttled("LIST_OFFSETS", 40)
    metrics, alice = metrics_of(quotas), ("a%20b", "c")
    prefix = "kafka_server_quota"
    assert values(metrics, f"{prefix}_byte_rate") == {("Fetch", *alice): 0.0, ("Produce", *alice): 100.0}
    assert values(metrics, f"{prefix}_request_time") == {("Request", *alice): 10.0}
    assert values(metrics, f"{prefix}_mutation_rate") == {("ControllerMutation", *alice): 0.5}
    assert values(metrics, f"{prefix}_tokens") == {("ControllerMutation", *alice): 7.0}
    assert values(metrics, f"{prefix}_throttle_time") == {("Produce", *alice): 10_000.0}
    assert values(metrics, f"{prefix}_queue_size")["Produce",] == 1
    assert values(metrics, f"{prefix}_counters")["Request",] == 1
    ((labels, count, times),) = [
        sample
        for family, samples in snapshot_at_once(metrics)
        if family.name.endswith("_throttletimems")
        for sample in samples
    ]
    assert (labels, count, list(times)) == (("ListOffsets",), 1, [40.0])


def test_series_are_bounded(quotas: QuotaManagers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quota_metrics, "MAX_SERIES", 3)
    quotas.produce.update((None, ANY), 5.0)
    for number in range(20):
        quotas.produce.counter(ALICE, str(number), 0)
    shown = values(metrics_of(quotas), "kafka_server_quota_byte_rate")
    assert [client_id for _, _, client_id in shown] == ["19", "18", "17"]


def test_rates_of_connections() -> None:
    limits = ConnectionLimits(max_connection_creation_rate_per_listener={"A": 2}, protected_listener="B")
    quotas = ConnectionQuotas(limits, lambda: 100.0, samples=2, window_ms=1000)
    quotas.change_ip_limits({"192.0.2.1": 0.0}, None)
    for _ in range(3):
        quotas.arrived("A")
    quotas.arrived("B")
    quotas.ip_throttle_ms("B", "192.0.2.1")
    metrics = Metrics()
    add_connection_rates(metrics, quotas)
    prefix = "kafka_server_socket_server_metrics"
    assert values(metrics, f"{prefix}_connection_accept_rate") == {("A",): 3.0, ("B",): 0.0}
    assert values(metrics, f"{prefix}_broker_connection_accept_rate") == {(): 3.0}
    assert values(metrics, f"{prefix}_connection_accept_throttle_time") == {("A",): 500.0, ("B",): 0.0}
    assert values(metrics, f"{prefix}_ip_connection_accept_throttle_time") == {("A",): 0.0, ("B",): 1000.0}


def test_long_client_ids_are_shortened_and_stay_apart(quotas: QuotaManagers) -> None:
    """Two series with the same labels would make the whole scrape fail."""
    quotas.produce.update((None, ANY), 50.0)
    for client_id in ("x" * 30_000, "x" * 30_001):
        RequestMeter(quotas, ALICE, client_id, 1000, 0.0).settle(ApiKey.PRODUCE)
    series = values(metrics_of(quotas), "kafka_server_quota_byte_rate")
    assert len(series) == 2
    assert all(len(label) <= 256 for labels in series for label in labels)

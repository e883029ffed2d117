"""The metrics of authentications."""

from __future__ import annotations

from barnabas.broker.metrics.authentication_metrics import add_authentications
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.broker.probes import SocketServerProbe
from tests.broker.metrics.test_sources import value, values
from tests.broker.network.logins import LoginHarness

PREFIX = "kafka_server_socket_server_metrics"


def test_counts_and_rates_of_each_listener() -> None:
    probe = SocketServerProbe()
    metrics = Metrics()
    add_authentications(metrics, probe, lambda: None)
    one, two = probe.listener("ONE"), probe.listener("TWO")
    probe.sample(0)
    one.successful_authentications = 10
    one.successful_authentications_no_reauth = 4
    one.failed_authentications = 5
    two.successful_reauthentications = 20
    two.failed_reauthentications = 2
    two.expired_connections_killed = 3
    one.expired_connections_killed = 1
    for seconds in (0.010, 0.030):
        two.reauthentication_times.add(seconds)
    probe.sample(10)

    def of(name: str) -> list[float]:
        found = values(metrics, f"{PREFIX}_{name}")
        return [found["ONE", "0"], found["TWO", "0"]]

    assert of("successful_authentication_total") == [10, 0]
    assert of("successful_authentication_rate") == [1, 0]
    assert of("failed_authentication_total") == [5, 0]
    assert of("failed_authentication_rate") == [0.5, 0]
    assert of("successful_reauthentication_total") == [0, 20]
    assert of("failed_reauthentication_total") == [0, 2]
    assert of("successful_authentication_no_reauth_total") == [4, 0]
    assert of("expired_connections_killed_count") == [1, 3]
    assert of("reauthentication_latency_avg") == [0, 20]
    assert of("reauthentication_latency_max") == [0, 30]
    assert value(metrics, "kafka_network_socketserver_expiredconnectionskilledcount") == 4
    assert value(metrics, "barnabas_network_unauthenticated_connections") == 0
    assert value(metrics, "barnabas_network_unauthenticated_memory_bytes") == 0


def test_what_clients_hold_before_they_have_logged_in() -> None:
    harness = LoginHarness()
    metrics = Metrics()
    add_authentications(metrics, SocketServerProbe(), lambda: harness.authentications)
    harness.client().send(b"\0\0\1\0abc")
    assert value(metrics, "barnabas_network_unauthenticated_connections") == 1
    assert value(metrics, "barnabas_network_unauthenticated_memory_bytes") == 3

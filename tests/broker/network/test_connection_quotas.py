"""Limits on the number and the rate of connections."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.broker.network import connection_quotas
from barnabas.broker.network.connection_quotas import (
    ConnectionLimits,
    ConnectionLimitsUpdate,
    ConnectionQuotas,
    limits_by_address,
    limits_of,
    plain_address,
)
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import InvalidConfigError
from tests.broker.held_runner import HeldRunner


def test_without_limits_every_connection_is_accepted() -> None:
    quotas = ConnectionQuotas()
    assert all(quotas.may_accept("L") and quotas.admit("L", "192.0.2.1") for _ in range(1000))
    assert (quotas.total, quotas.count("L")) == (1000, 1000)


def test_the_broker_has_a_maximum_over_all_listeners() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(max_connections=2))
    quotas.admit("A", "192.0.2.1")
    quotas.admit("B", "192.0.2.2")
    assert not quotas.may_accept("A")
    quotas.release("B", "192.0.2.2")
    assert quotas.may_accept("A")


def test_a_listener_may_have_its_own_maximum() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(max_connections_per_listener={"A": 1}))
    quotas.admit("A", "192.0.2.1")
    assert not quotas.may_accept("A")
    assert quotas.may_accept("B")


def test_an_address_has_a_maximum_over_all_listeners() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(max_connections_per_ip=2))
    assert quotas.admit("A", "192.0.2.1")
    assert quotas.admit("B", "192.0.2.1")
    assert not quotas.admit("A", "192.0.2.1")
    assert quotas.admit("A", "192.0.2.2")
    quotas.release("B", "192.0.2.1")
    assert quotas.admit("A", "192.0.2.1")


def test_an_address_may_have_its_own_maximum() -> None:
    quotas = ConnectionQuotas(
        ConnectionLimits(max_connections_per_ip=5, max_connections_per_ip_overrides={"192.0.2.9": 0})
    )
    assert quotas.max_of("192.0.2.9") == 0
    assert not quotas.admit("A", "192.0.2.9")
    assert quotas.admit("A", "192.0.2.8")


def test_addresses_without_connections_are_removed() -> None:
    quotas = ConnectionQuotas()
    for n in range(100):
        quotas.admit("A", f"192.0.2.{n}")
        quotas.release("A", f"192.0.2.{n}")
    assert quotas._by_ip == {}


def test_overrides_apply_to_an_address() -> None:
    assert limits_by_address({"192.0.2.1": 7, "[2001:db8::1]": 8, "2001:db8::2": 9}) == {
        "192.0.2.1": 7,
        "2001:db8::1": 8,
        "2001:db8::2": 9,
    }


def test_an_override_for_a_name_applies_to_its_addresses() -> None:
    assert limits_by_address({"localhost": 3})["127.0.0.1"] == 3


@pytest.mark.parametrize("name", ["no such host", "no..host", "fe80::1%no-such-interface"])
def test_an_unknown_host_name_is_rejected(name: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"max\.connections\.per\.ip\.overrides"):
        limits_by_address({name: 7})


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("::1", "::1"),
        ("fe80::1%lo", "fe80::1%lo"),
    ],
)
def test_an_ipv4_mapped_address_counts_as_ipv4(address: str, plain: str) -> None:
    assert plain_address(address) == plain


class Clock:
    """Seconds, set by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def rated(clock: Clock, **limits: Any) -> ConnectionQuotas:
    """Over two windows of a second: as many connections as the limit says may come at once."""
    return ConnectionQuotas(ConnectionLimits(**limits), clock, samples=2, window_ms=1000)


def test_connections_above_the_rate_have_to_wait() -> None:
    clock = Clock()
    quotas = rated(clock, max_connection_creation_rate=2)
    assert [quotas.arrived("A"), quotas.arrived("B"), quotas.arrived("A")] == [0, 0, 500]
    assert quotas.arrived("B") == 1000  # a window at most
    clock.now += 60
    assert [quotas.arrived("A"), quotas.arrived("A"), quotas.arrived("A")] == [0, 0, 500]
    assert quotas.accept_rates() == [(None, 3.0), ("A", 3.0), ("B", 0.0)]
    assert quotas.accept_throttle_times_ms() == [("A", 500.0, 0.0), ("B", 0.0, 0.0)]


def test_a_burst_of_all_windows_may_come_at_once() -> None:
    quotas = ConnectionQuotas(ConnectionLimits(max_connection_creation_rate=2), Clock())
    assert [quotas.arrived("A") for _ in range(21)] == [0] * 20 + [500]


def test_a_listener_may_have_its_own_rate() -> None:
    quotas = rated(Clock(), max_connection_creation_rate_per_listener={"A": 1})
    assert [quotas.arrived("A"), quotas.arrived("A"), quotas.arrived("B")] == [0, 1000, 0]


def test_a_rate_of_zero_has_each_connection_wait() -> None:
    assert rated(Clock(), max_connection_creation_rate=0).arrived("A") == 1000


def test_a_new_rate_counts_earlier_connections() -> None:
    quotas = rated(Clock(), max_connection_creation_rate=3)
    assert [quotas.arrived("A"), quotas.arrived("A")] == [0, 0]
    quotas.change_limits(ConnectionLimits(max_connection_creation_rate=2))
    assert quotas.arrived("A") == 500
    quotas.change_limits(ConnectionLimits())
    assert quotas.arrived("A") == 0


def test_an_address_may_have_a_rate_and_its_attempts_above_it_do_not_count() -> None:
    clock = Clock()
    quotas = rated(clock, max_connection_creation_rate=2)
    assert quotas.ip_throttle_ms("A", "192.0.2.1") == 0
    quotas.change_ip_limits({"192.0.2.1": 1.0}, None)
    for _ in range(5):
        quotas.arrived("A")
        quotas.ip_throttle_ms("A", "192.0.2.1")
    assert dict(quotas.accept_rates()) == {None: 1.0, "A": 1.0}
    assert quotas.ip_throttle_ms("A", "192.0.2.1") == 1000
    assert quotas.ip_throttle_ms("A", "192.0.2.2") == 0
    ((_, waited_ms, held_ms),) = quotas.accept_throttle_times_ms()
    assert (waited_ms, held_ms) == (0, 1000)
    clock.now += 3
    assert quotas.ip_throttle_ms("A", "192.0.2.1") == 0


def test_the_default_rate_is_for_each_address_without_its_own() -> None:
    quotas = rated(Clock())
    quotas.change_ip_limits({"192.0.2.1": 2.0}, 1.0)
    hosts = ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"]
    assert [quotas.ip_throttle_ms("A", host) for host in hosts] == [0, 0, 0, 0]
    assert [quotas.ip_throttle_ms("A", host) for host in hosts] == [500, 500, 1000, 1000]
    quotas.change_ip_limits({}, None)
    assert quotas.ip_throttle_ms("A", "192.0.2.1") == 0


def test_the_rates_of_addresses_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_quotas, "MAX_IP_RATES", 3)
    quotas = rated(Clock())
    quotas.change_ip_limits({}, 1.0)
    for number in range(50):
        quotas.ip_throttle_ms("A", "192.0.2.1")
        quotas.ip_throttle_ms("A", f"198.51.100.{number}")
    assert len(quotas._ip_rates) == 3
    assert quotas.ip_throttle_ms("A", "192.0.2.1") == 1000


def test_the_listener_between_brokers_is_protected_from_the_limits_of_all() -> None:
    limits = ConnectionLimits(max_connections=1, max_connection_creation_rate=1, protected_listener="B")
    quotas = ConnectionQuotas(limits, Clock(), samples=2, window_ms=1000)
    quotas.admit("A", "192.0.2.1")
    assert (quotas.may_accept("A"), quotas.may_accept("B"), quotas.excess) == (False, True, 0)
    assert [quotas.arrived(name) for name in "BBBA"] == [0, 0, 0, 0]
    quotas.change_ip_limits({}, 1.0)
    quotas.ip_throttle_ms("B", "192.0.2.1")
    assert quotas.ip_throttle_ms("B", "192.0.2.1") == 1000
    assert dict(quotas.accept_rates()) == {None: 1.0, "A": 1.0, "B": 2.0}
    quotas.admit("B", "192.0.2.2")
    assert quotas.excess == 1
    assert not quotas.has_maximum("B")
    quotas.change_limits(limits._replace(max_connections_per_listener={"B": 1}))
    assert quotas.has_maximum("B")
    assert not quotas.may_accept("B")


def test_new_limits_apply_to_new_connections() -> None:
    quotas = ConnectionQuotas()
    quotas.admit("A", "192.0.2.1")
    quotas.admit("A", "192.0.2.1")
    quotas.change_limits(ConnectionLimits(max_connections=2, max_connections_per_ip=1))
    assert not quotas.may_accept("A")
    assert not quotas.admit("A", "192.0.2.1")
    assert quotas.total == 2


def config_of(**settings: str) -> BrokerConfig:
    values = {
        "listeners": "A://localhost:1,B://localhost:2",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
    }
    values |= {key.replace("_", "."): value for key, value in settings.items()}
    return BrokerConfig.of(None, overrides=[f"{key}={value}" for key, value in values.items()])


def test_limits_come_from_the_configuration() -> None:
    config = config_of(
        max_connections="9",
        listener_name_b_max_connections="4",
        max_connections_per_ip="3",
        max_connections_per_ip_overrides="192.0.2.9:5",
        max_connection_creation_rate="7",
        listener_name_a_max_connection_creation_rate="6",
        inter_broker_listener_name="B",
    )
    assert limits_of(config) == ConnectionLimits(
        max_connections=9,
        max_connections_per_listener={"A": 9, "B": 4},
        max_connections_per_ip=3,
        max_connections_per_ip_overrides={"192.0.2.9": 5},
        max_connection_creation_rate=7,
        max_connection_creation_rate_per_listener={"A": 6, "B": 7},
        protected_listener="B",
    )
    assert limits_of(BrokerConfig.of(None, overrides=[])).protected_listener is None


@pytest.mark.parametrize(("overrides", "waits"), [("192.0.2.9:5,[::1]:2", False), ("localhost:5", True)])
def test_names_are_resolved_off_the_loop(overrides: str, waits: bool) -> None:
    runner, changed = HeldRunner(), list[ConnectionLimits]()
    config = config_of(max_connections_per_ip_overrides=overrides)
    ConnectionLimitsUpdate(config, changed.append, runner).reconfigure()
    assert (len(changed), runner.held) == ((0, 1) if waits else (1, 0))
    runner.release_all()
    assert changed == [limits_of(config)]


@pytest.mark.parametrize("name", ["no.such.host.invalid", "no..host", "fe80::1%no-such-interface"])
def test_an_unknown_name_leaves_the_limits_unchanged(name: str, caplog: pytest.LogCaptureFixture) -> None:
    runner, changed = HeldRunner(), list[ConnectionLimits]()
    config = config_of(max_connections_per_ip_overrides=f"{name}:5")
    ConnectionLimitsUpdate(config, changed.append, runner).reconfigure()
    runner.release_all()
    assert changed == []
    assert "stay as they were" in caplog.text

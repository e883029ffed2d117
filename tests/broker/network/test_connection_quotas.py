"""Limits on the number and the rate of connections."""

from __future__ import annotations

import math

import pytest

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


def test_connections_above_the_rate_are_delayed() -> None:
    clock = Clock()
    quotas = ConnectionQuotas(ConnectionLimits(max_connection_creation_rate=2), clock)
    assert quotas.admit("A", "192.0.2.1")
    assert quotas.delay_s("A") == 0
    assert quotas.admit("B", "192.0.2.1")
    assert quotas.delay_s("A") == quotas.delay_s("B") == pytest.approx(0.5)
    clock.now += 0.5
    assert quotas.delay_s("A") == 0
    clock.now += 60
    quotas.admit("A", "192.0.2.1")
    quotas.admit("A", "192.0.2.1")
    assert quotas.delay_s("A") == pytest.approx(0.5)


def test_a_listener_may_have_its_own_rate() -> None:
    clock = Clock()
    quotas = ConnectionQuotas(ConnectionLimits(max_connection_creation_rate_per_listener={"A": 1}), clock)
    quotas.admit("A", "192.0.2.1")
    assert (quotas.delay_s("A"), quotas.delay_s("B")) == (1.0, 0)


def test_a_rate_of_zero_accepts_no_connection() -> None:
    assert ConnectionQuotas(ConnectionLimits(max_connection_creation_rate=0)).delay_s("A") == math.inf


def test_a_new_rate_counts_earlier_connections() -> None:
    clock = Clock()
    quotas = ConnectionQuotas(ConnectionLimits(max_connection_creation_rate=3), clock)
    quotas.admit("A", "192.0.2.1")
    quotas.admit("A", "192.0.2.1")
    quotas.change_limits(ConnectionLimits(max_connection_creation_rate=2))
    assert quotas.delay_s("A") == pytest.approx(0.5)
    quotas.change_limits(ConnectionLimits())
    assert quotas.delay_s("A") == 0


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
    )
    assert limits_of(config) == ConnectionLimits(
        max_connections=9,
        max_connections_per_listener={"A": 9, "B": 4},
        max_connections_per_ip=3,
        max_connections_per_ip_overrides={"192.0.2.9": 5},
        max_connection_creation_rate=7,
        max_connection_creation_rate_per_listener={"A": 6, "B": 7},
    )


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

"""How many connections are let in, and whose."""

from __future__ import annotations

import pytest

from broker.connection_quotas import ConnectionLimits, ConnectionQuotas, limits_by_address, plain_address
from config.layers import InvalidConfigError


def test_without_limits_everybody_is_let_in() -> None:
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


def test_addresses_without_connections_are_forgotten() -> None:
    quotas = ConnectionQuotas()
    for n in range(100):
        quotas.admit("A", f"192.0.2.{n}")
        quotas.release("A", f"192.0.2.{n}")
    assert quotas._by_ip == {}


def test_overrides_are_by_address() -> None:
    assert limits_by_address({"192.0.2.1": 7, "[2001:db8::1]": 8, "2001:db8::2": 9}) == {
        "192.0.2.1": 7,
        "2001:db8::1": 8,
        "2001:db8::2": 9,
    }


def test_an_override_for_a_name_goes_for_its_addresses() -> None:
    assert limits_by_address({"localhost": 3})["127.0.0.1"] == 3


def test_a_name_that_nobody_knows_is_refused() -> None:
    with pytest.raises(InvalidConfigError, match=r"max\.connections\.per\.ip\.overrides"):
        limits_by_address({"no such host": 7})


@pytest.mark.parametrize(
    ("address", "plain"),
    [
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("::1", "::1"),
        ("fe80::1%lo", "fe80::1%lo"),
    ],
)
def test_an_ipv4_client_goes_by_its_ipv4_address(address: str, plain: str) -> None:
    assert plain_address(address) == plain

"""Rules between keys; conformance holds each against Kafka's own."""

from __future__ import annotations

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS
from barnabas.config.checks import AT_MOST, LESS_THAN, is_loopback, parse_connection_overrides
from barnabas.config.keys import ConfigKey
from barnabas.config.layers import InvalidConfigError


def refused(*lines: str) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        BrokerConfig.of("\n".join(lines).encode(), file_name="f")
    return [str(error) for error in caught.value.errors]


def test_the_defaults_keep_every_rule() -> None:
    BrokerConfig()


@pytest.mark.parametrize(("small", "great"), [*AT_MOST, *LESS_THAN])
def test_the_defaults_are_in_order(small: ConfigKey[int], great: ConfigKey[int]) -> None:
    assert small.default <= great.default
    assert {small.name, great.name} <= set(BROKER_KEYS)


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (
            ["process.roles=controller"],
            "f line 1: process.roles=controller must be broker,controller for a node",
        ),
        (
            ["node.id=1", "broker.id=2"],
            "f line 2: broker.id=2 must be equal to node.id, which is 1, or left out",
        ),
        (["log.roll.ms=0"], "f line 1: log.roll.ms=0 must be at least 1"),
        (["log.roll.jitter.ms=-1"], "f line 1: log.roll.jitter.ms=-1 must be at least 0"),
        (["log.retention.minutes=0"], "f line 1: log.retention.minutes=0 must be at least 1, or -1"),
        (
            ["queued.max.request.bytes=9"],
            "must be at least socket.request.max.bytes, which is 104857600, or -1",
        ),
        (
            ["connections.max.idle.ms=50"],
            "connection.failed.authentication.delay.ms=100 must be less than connections",
        ),
        (
            ["authorizer.class.name=python:a:B", "barnabas.http.host=0.0.0.0"],
            "f line 2: barnabas.http.host=0.0.0.0 must be localhost, as authorizer.class.name restricts",
        ),
        (
            ["authorizer.class.name=com.example.Authorizer"],
            "f line 1: authorizer.class.name=com.example.Authorizer must be empty, org.apache.kafka",
        ),
        (["max.connections.per.ip.overrides=a"], "must be host:count, comma-separated"),
        (["max.connections.per.ip=0"], "must allow some address"),
        (
            ["log.cleaner.threads=200"],
            "log.cleaner.dedupe.buffer.size=134217728 must be more than 1048576 for each",
        ),
        (["log.dirs=/a", "cordoned.log.dirs=/b"], "must be among the log directories, or * alone"),
        (["cordoned.log.dirs=/b"], "must be among the log directories"),
        (["offsets.topic.compression.codec=9"], "must be from 0 to 4"),
        (
            ["inter.broker.listener.name=PLAINTEXT", "security.inter.broker.protocol=PLAINTEXT"],
            "must be left out",
        ),
        (["group.share.assignors=a,b"], "must be a single assignor"),
        (["group.consumer.assignors=range,best"], "must be of uniform, range"),
        (
            ["replica.socket.timeout.ms=1"],
            "replica.socket.timeout.ms=1 must be at least replica.fetch.wait.max.ms",
        ),
        (["replica.fetch.wait.max.ms=40000"], "must be at most replica.socket.timeout.ms, which is 30000"),
    ],
)
def test_a_broken_rule_names_the_key_that_is_set(lines: list[str], complaint: str) -> None:
    assert any(complaint in error for error in refused(*lines))


def test_the_key_that_is_set_is_blamed() -> None:
    (error,) = refused(
        "group.consumer.min.session.timeout.ms=1",
        "group.consumer.session.timeout.ms=5000",
    )
    assert error.startswith(
        "f line 2: group.consumer.session.timeout.ms=5000 must be more than group.consumer.heartbeat"
    )
    (error,) = refused(
        "group.consumer.heartbeat.interval.ms=15000", "group.consumer.max.heartbeat.interval.ms=14000"
    )
    assert error.startswith("f line 1: group.consumer.heartbeat.interval.ms=15000 must be at most")


def test_rules_skip_values_that_are_invalid_by_themselves() -> None:
    assert (
        len(refused("replica.fetch.wait.max.ms=x", "socket.request.max.bytes=x", "node.id=x", "log.dirs="))
        == 4
    )


def test_limits_by_address() -> None:
    assert parse_connection_overrides("a:1, [::1]:2,") == {"a": 1, "[::1]": 2}
    assert parse_connection_overrides("") == {}
    for text in ("a", "a:", ":1", "a:x"):
        with pytest.raises(ValueError):
            parse_connection_overrides(text)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_hosts_that_only_this_host_reaches(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["", "0.0.0.0", "::", "10.0.0.1", "broker", "localhost.example"])
def test_hosts_that_others_may_reach(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    "settings", ["barnabas.http.port=-1", "barnabas.http.without.login.allow=true", "authorizer.class.name="]
)
def test_the_http_port_may_be_open_where_nothing_is_protected_or_it_is_wanted(settings: str) -> None:
    BrokerConfig.of(
        f"authorizer.class.name=python:a:B\nbarnabas.http.host=\n{settings}".encode(), file_name="f"
    )


@pytest.mark.parametrize(
    "settings",
    [
        "barnabas.http.security.protocol=SASL_SSL\nbarnabas.http.sasl.jaas.config=x",
        "barnabas.http.security.protocol=SSL\nbarnabas.http.ssl.client.auth=required",
    ],
)
def test_the_http_port_may_be_open_where_it_knows_its_clients(settings: str) -> None:
    BrokerConfig.of(
        f"authorizer.class.name=python:a:B\nbarnabas.http.host=\n{settings}".encode(), file_name="f"
    )

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS, log, network, server
from barnabas.config.catalogue.metrics import REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND
from barnabas.config.dynamic import (
    WORKER_COUNTS,
    apply_dynamic_settings,
    check_dynamic_settings,
    dynamic_key,
    sound_settings,
)
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError, Source


def broker(*settings: str) -> BrokerConfig:
    return BrokerConfig.of(None, overrides=settings)


def refusal(
    config: BrokerConfig,
    key: str,
    text: str,
    *,
    per_broker: bool = True,
    others: dict[str, str] | None = None,
) -> str:
    with pytest.raises((ConfigError, InvalidConfigError)) as caught:
        check_dynamic_settings(config, {key: text}, others or {}, per_broker=per_broker)
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("num.partitions", "3", "cannot change while the broker runs"),
        ("log.retention.hours", "3", "cannot change while the broker runs"),
        ("advertised.listeners", "A://a:1", "cannot change while the broker runs"),
        (
            "ssl.keystore.location",
            "/x",
            "is set for one listener, with listener.name.<name>. in front of it",
        ),
        ("log.cleaner.threads", "x", "must be a whole number"),
        ("log.cleaner.threads", "0", "must be from 1 to 2"),
        ("log.cleaner.threads", "3", "must be from 1 to 2"),
        ("num.recovery.threads.per.data.dir", "5", "must be from 1 to 4"),
        ("listener.name.a.max.connections", "x", "must be a whole number"),
        ("log.retention.ms", "0", "must be at least 1"),
        ("log.cleaner.dedupe.buffer.size", "1", "must be more than 1048576"),
        ("max.connections.per.ip", "0", "must be at least 1"),
        ("cordoned.log.dirs", "/nope", "among the log directories"),
        ("leader.replication.throttled.rate", "-1", "whole number"),
        ("listeners", "nonsense", "must be NAME://host:port"),
        ("metric.reporters", "a.b.Reporter", "of classes that are there"),
        ("principal.builder.class", "a.b.Builder", "of classes that are there"),
        ("ssl.engine.factory.class", "a.b.Factory", "of classes that are there"),
        ("max.connections", "0", "at least 1 where it is set"),
        ("max.connection.creation.rate", "0", "at least 1 where it is set"),
        ("listener.name.plaintext.max.connections", "0", "at least 1 where it is set"),
        ("log.local.retention.ms", "-1", "from 0 to what is kept at all, 604800000"),
        ("log.local.retention.ms", "604800001", "from 0 to what is kept at all, 604800000"),
    ],
)
def test_invalid_dynamic_settings(key: str, text: str, why: str) -> None:
    assert why in refusal(broker(), key, text)


def test_all_names_that_cannot_be_set_are_in_kafkas_phrase() -> None:
    texts = {"num.partitions": "3", "log.cleaner.threads": "x", "advertised.listeners": "A://a:1"}
    with pytest.raises(ConfigError) as caught:
        check_dynamic_settings(broker(), texts, {}, per_broker=True)
    phrase = "Cannot update these configs dynamically: [num.partitions, advertised.listeners]"
    assert caught.value.answer.startswith(f"{phrase} (num.partitions=3 cannot change")


@pytest.mark.parametrize("key", ["listeners", "cordoned.log.dirs", "listener.name.a.ssl.protocol"])
def test_keys_without_a_cluster_default(key: str) -> None:
    assert "one broker" in refusal(broker(), key, "*", per_broker=False)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("message.max.bytes", "5"),
        ("listener.name.a.max.connections", "5"),
        ("no.such.key", "anything"),
        ("leader.replication.throttled.rate", "5"),
        ("metric.reporters", ""),
        ("log.local.retention.ms", "604800000"),
        ("log.local.retention.bytes", "-1"),
        ("log.local.retention.bytes", "5"),
    ],
)
@pytest.mark.parametrize("per_broker", [True, False])
def test_valid_dynamic_settings(key: str, text: str, per_broker: bool) -> None:
    config = broker()
    check_dynamic_settings(config, {key: text}, {}, per_broker=per_broker)
    assert config.generation == 0


def test_a_password_is_not_repeated() -> None:
    assert "[hidden]" in refusal(broker(), "ssl.keystore.password", "secret")
    assert "secret" not in refusal(broker(), "ssl.keystore.password", "secret")


def test_workers_may_double_and_halve_in_one_step() -> None:
    assert all(dynamic_key(key.name) is key for key in WORKER_COUNTS)
    config = broker("num.io.threads=8")
    for count in (4, 16):
        check_dynamic_settings(config, {server.NUM_IO_THREADS.name: str(count)}, {}, per_broker=True)
    for count in (3, 17):
        assert "from 4 to 16" in refusal(config, server.NUM_IO_THREADS.name, str(count))


def test_settings_of_the_other_layer_count() -> None:
    overrides = {network.MAX_CONNECTIONS_PER_IP_OVERRIDES.name: "127.0.0.1:5"}
    check_dynamic_settings(broker(), {"max.connections.per.ip": "0"}, overrides, per_broker=True)
    unsound = {"log.cleaner.threads": "x", "num.partitions": "5"}
    check_dynamic_settings(broker(), {"message.max.bytes": "5"}, unsound, per_broker=True)


LISTENERS = ("listeners=A://h:1", "listener.security.protocol.map=A:PLAINTEXT,B:PLAINTEXT,C:SASL_SSL")


def test_listeners_come_and_go_where_the_advertised_ones_stay() -> None:
    config = broker(*LISTENERS, "advertised.listeners=A://out:1")
    for listeners in ("A://h:1,B://h:2", "A://h:3"):
        check_dynamic_settings(config, {"listeners": listeners}, {}, per_broker=True)
    for listeners in ("B://h:2", "A://h:1,D://h:2"):
        refusal(config, "listeners", listeners)


def test_a_listener_keeps_its_protocol_while_it_is_open() -> None:
    assert "while it is open" in refusal(broker(*LISTENERS), "listener.security.protocol.map", "A:SSL")


def test_parts_of_the_broker_check_a_change() -> None:
    config, checked = broker(), []

    def check(candidate: BrokerConfig) -> None:
        checked.append(candidate.unknown["listener.name.a.ssl.keystore.location"].text)
        raise ConfigError("ssl.keystore.location", "/x", "cannot be read")

    config.reconfiguration_checks.append(check)
    assert "cannot be read" in refusal(config, "listener.name.a.ssl.keystore.location", "/x")
    assert checked == ["/x"]


@pytest.mark.parametrize(
    "key", ["sasl.enabled.mechanisms", "plain.sasl.jaas.config", "connections.max.reauth.ms"]
)
def test_a_listener_keeps_its_settings_while_it_is_open(key: str) -> None:
    config = broker(*LISTENERS, "listener.name.a.sasl.enabled.mechanisms=PLAIN")
    error = refusal(config, f"listener.name.a.{key}", "7")
    assert "cannot change while listener A is open" in error
    for name in (
        f"listener.name.b.{key}",
        "listener.name.a.max.connections",
        "listener.name.a.ssl.keystore.type",
    ):
        check_dynamic_settings(config, {name: "7"}, {}, per_broker=True)
    same = {"listener.name.a.sasl.enabled.mechanisms": "PLAIN"}
    check_dynamic_settings(config, same, {}, per_broker=True)


@pytest.mark.parametrize("listeners", ["A://h:1,B://h:2", "A://h:3"])
def test_advertised_addresses_do_not_change(listeners: str) -> None:
    assert "advertised.listeners names" in refusal(broker(*LISTENERS), "listeners", listeners)


def test_this_brokers_settings_override_the_clusters_and_those_the_file() -> None:
    config = broker("message.max.bytes=1")
    key = log.MESSAGE_MAX_BYTES
    for of_cluster, of_broker, value, source in (
        ({}, {}, 1, Source.OVERRIDE),
        ({key.name: "2"}, {}, 2, Source.DYNAMIC_DEFAULT),
        ({key.name: "2"}, {key.name: "3"}, 3, Source.DYNAMIC_BROKER),
        ({}, {key.name: "3"}, 3, Source.DYNAMIC_BROKER),
        ({}, {}, 1, Source.OVERRIDE),
    ):
        assert apply_dynamic_settings(config, of_cluster, of_broker) == []
        assert (config[key], config.source(key)) == (value, source)
    assert config.generation == 5


def test_the_layers_can_be_told_apart() -> None:
    config = broker("message.max.bytes=1")
    apply_dynamic_settings(config, {"message.max.bytes": "2", "odd": "x"}, {"message.max.bytes": "3"})
    assert [setting.text for setting in config.layers("message.max.bytes")] == ["3", "2", "1"]
    assert [setting.key for setting in config.dynamic_settings(Source.DYNAMIC_DEFAULT)] == [
        "message.max.bytes",
        "odd",
    ]
    assert config.unknown["odd"].text == "x"
    assert [setting.key for setting in config.settings() if setting.source.is_dynamic] == [
        "message.max.bytes"
    ]


def test_keys_that_are_only_dynamic_have_values() -> None:
    config = broker()
    key = REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND
    assert config[key] == key.default
    apply_dynamic_settings(config, {key.name: "77"}, {})
    assert config[key] == 77


def test_a_listener_has_its_own_value_or_that_of_all() -> None:
    config = broker("listener.name.a.max.connections=4", "max.connections=9")
    key = network.MAX_CONNECTIONS
    assert (config.listener_value("A", key), config.listener_value("B", key)) == (4, 9)
    apply_dynamic_settings(config, {"max.connections": "8"}, {"listener.name.a.max.connections": "3"})
    assert (config.listener_value("A", key), config.listener_value("B", key)) == (3, 8)


def test_an_invalid_value_of_a_listener_is_an_error() -> None:
    with pytest.raises(InvalidConfigError, match=r"max\.connections=x must be"):
        broker("listener.name.a.max.connections=x")


@pytest.mark.parametrize(
    ("of_cluster", "of_broker", "left_out"),
    [
        ({"log.cleaner.threads": "x"}, {}, ["log.cleaner.threads"]),
        ({"num.partitions": "5"}, {}, ["num.partitions"]),
        ({"listeners": "A://:1"}, {}, ["listeners"]),
        ({}, {"ssl.keystore.location": "/x"}, ["ssl.keystore.location"]),
        ({}, {"log.cleaner.dedupe.buffer.size": "1"}, ["log.cleaner.dedupe.buffer.size"]),
        ({}, {"log.cleaner.threads": "200"}, ["log.cleaner.threads"]),
        ({}, {"max.connections.per.ip": "0"}, ["max.connections.per.ip"]),
    ],
)
def test_invalid_settings_are_left_out_and_reported(
    of_cluster: dict[str, str], of_broker: dict[str, str], left_out: list[str]
) -> None:
    config = broker()
    good = {"message.max.bytes": "77"}
    errors = apply_dynamic_settings(config, {**good, **of_cluster}, of_broker)
    assert [error.key for error in errors] == left_out
    assert all("dynamic" in error.place for error in errors)
    assert config[log.MESSAGE_MAX_BYTES] == 77
    assert all(config.value_of(key) == BROKER_KEYS[key].default for key in left_out if key != "listeners")


def test_settings_that_depend_on_each_other_are_applied_together() -> None:
    """Alone and in this order each would be refused."""
    config = broker()
    together = {
        "log.cleaner.dedupe.buffer.size": "1",
        "max.connections.per.ip": "0",
        "max.connections.per.ip.overrides": "127.0.0.1:1",
    }
    (error,) = apply_dynamic_settings(config, {}, together)
    assert error.key == "log.cleaner.dedupe.buffer.size"
    assert config[network.MAX_CONNECTIONS_PER_IP] == 0


def test_workers_are_not_counted_against_the_file_at_a_start() -> None:
    config = broker("num.io.threads=2")
    assert apply_dynamic_settings(config, {}, {"num.io.threads": "64"}) == []
    assert config[server.NUM_IO_THREADS] == 64


def test_the_node_id_that_was_settled_stays() -> None:
    config = broker()
    config.settle_node_id(7, "/d")
    apply_dynamic_settings(config, {"message.max.bytes": "5"}, {})
    assert config.node_id == 7


def test_sound_settings_are_those_in_force() -> None:
    texts = {"log.cleaner.threads": "x", "message.max.bytes": "5", "listeners": "A://:1"}
    assert sound_settings(texts, per_broker=False) == {"message.max.bytes": "5"}
    assert sound_settings(texts, per_broker=True) == {"message.max.bytes": "5", "listeners": "A://:1"}


KEYS = ("message.max.bytes", "log.index.interval.bytes", "max.connections")
TEXTS = st.dictionaries(st.sampled_from(KEYS), st.integers(0, 9).map(str) | st.just("x"))


@settings(deadline=None)
@given(TEXTS.filter(lambda texts: "x" not in texts.values()), st.lists(st.tuples(TEXTS, TEXTS), max_size=5))
def test_values_follow_a_model_of_three_layers(
    static: dict[str, str], changes: list[tuple[dict[str, str], dict[str, str]]]
) -> None:
    config = broker(*(f"{key}={text}" for key, text in static.items()))
    for of_cluster, of_broker in changes:
        errors = apply_dynamic_settings(config, of_cluster, of_broker)
        assert len(errors) == [*of_cluster.values(), *of_broker.values()].count("x")
        for key in KEYS:
            layers = [layer[key] for layer in (of_broker, of_cluster, static) if layer.get(key, "x") != "x"]
            assert config.value_of(key) == (int(layers[0]) if layers else BROKER_KEYS[key].default)
            assert [setting.text for setting in config.layers(key)] == layers

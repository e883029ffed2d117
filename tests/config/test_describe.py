"""What DescribeConfigs answers; conformance holds it against Kafka's own answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.config_source import ConfigSource
from barnabas.config.describe import (
    ConfigEntry,
    describe_broker_configs,
    describe_cluster_default,
    describe_new_topic,
    describe_topic_configs,
)
from barnabas.config.dynamic import apply_dynamic_settings
from barnabas.config.values import ConfigType


def broker(*lines: str) -> BrokerConfig:
    return BrokerConfig.of("\n".join(lines).encode())


def only(entries: Iterator[ConfigEntry]) -> ConfigEntry:
    (entry,) = entries
    return entry


def test_a_topics_own_setting_comes_first() -> None:
    base = broker("log.segment.bytes=2000000")
    entry = only(describe_topic_configs(base, {"segment.bytes": " 3000000"}, ["segment.bytes"]))
    assert (entry.value, entry.source, entry.type) == (
        "3000000",
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        ConfigType.INT,
    )
    assert [repr(synonym) for synonym in entry.synonyms] == [
        "DYNAMIC_TOPIC_CONFIG:segment.bytes=3000000",
        "STATIC_BROKER_CONFIG:log.segment.bytes=2000000",
        "DEFAULT_CONFIG:log.segment.bytes=1073741824",
    ]
    assert (entry.read_only, entry.sensitive, entry.is_default) == (False, False, False)
    assert entry.documentation


def test_a_topic_inherits_from_the_broker() -> None:
    entry = only(describe_topic_configs(broker("log.retention.ms=5"), {}, {"retention.ms"}))
    assert (entry.value, entry.source) == ("5", ConfigSource.STATIC_BROKER_CONFIG)


def test_a_value_from_another_unit_has_no_synonyms_as_in_kafka() -> None:
    entry = only(describe_topic_configs(broker("log.retention.hours=1"), {}, {"retention.ms"}))
    assert (entry.value, entry.source, entry.synonyms) == ("3600000", ConfigSource.DEFAULT_CONFIG, [])
    assert entry.is_default


def test_internal_keys_are_described_only_when_set() -> None:
    assert not list(describe_topic_configs(broker(), {}, {"internal.segment.bytes"}))
    assert (
        only(
            describe_topic_configs(broker(), {"internal.segment.bytes": "9"}, {"internal.segment.bytes"})
        ).value
        == "9"
    )
    assert not list(describe_broker_configs(broker(), {"log.initial.task.delay.ms"}))
    assert (
        only(
            describe_broker_configs(broker("log.initial.task.delay.ms=4"), {"log.initial.task.delay.ms"})
        ).value
        == "4"
    )


def test_a_brokers_family_of_keys() -> None:
    base = broker("log.retention.minutes=600", "log.retention.hours=24")
    entry = only(describe_broker_configs(base, {"log.retention.minutes"}))
    assert [repr(synonym) for synonym in entry.synonyms] == [
        "STATIC_BROKER_CONFIG:log.retention.minutes=600",
        "STATIC_BROKER_CONFIG:log.retention.hours=24",
        "DEFAULT_CONFIG:log.retention.hours=168",
    ]
    assert entry.read_only


def test_passwords_and_unknown_keys_are_hidden() -> None:
    base = broker("ssl.key.password=secret", "some.key=1")
    password = only(describe_broker_configs(base, {"ssl.key.password"}))
    assert (password.value, password.sensitive, password.synonyms[0].value) == (None, True, None)
    unknown = only(describe_broker_configs(base, {"some.key"}))
    assert (unknown.value, unknown.sensitive, unknown.type, unknown.documentation) == (
        None,
        True,
        ConfigType.UNKNOWN,
        None,
    )
    assert unknown.source is ConfigSource.STATIC_BROKER_CONFIG


def test_the_settings_of_one_listener_are_described() -> None:
    base = broker(
        "listener.name.plaintext.ssl.client.auth=required", "listener.name.a.plain.sasl.jaas.config=x"
    )
    entry = only(describe_broker_configs(base, {"listener.name.plaintext.ssl.client.auth"}))
    assert (entry.value, entry.read_only, entry.sensitive) == ("required", True, False)
    assert entry.synonyms[-1].name == "ssl.client.auth"
    assert only(describe_broker_configs(base, {"listener.name.a.plain.sasl.jaas.config"})).value is None


def test_a_profile_counts_as_the_brokers_file() -> None:
    entry = only(describe_broker_configs(BrokerConfig.load(), {"offsets.topic.num.partitions"}))
    assert (entry.value, entry.source) == ("4", ConfigSource.STATIC_BROKER_CONFIG)
    assert repr(entry).startswith("<ConfigEntry offsets.topic.num.partitions=4 ")


def test_all_keys_are_described_when_none_are_named() -> None:
    assert len(list(describe_topic_configs(broker(), {}))) == 33
    names = {entry.name for entry in describe_broker_configs(broker())}
    assert {"num.partitions", "barnabas.profile", "listeners"} <= names


def dynamic(static: list[str], of_cluster: dict[str, str], of_broker: dict[str, str]) -> BrokerConfig:
    broker = BrokerConfig.of(None, overrides=static)
    assert apply_dynamic_settings(broker, of_cluster, of_broker) == []
    return broker


def the(entries: Iterable[ConfigEntry]) -> ConfigEntry:
    (entry,) = entries
    return entry


def test_dynamic_settings_come_before_the_file() -> None:
    key = "message.max.bytes"
    broker = dynamic([f"{key}=1"], {key: "2"}, {key: "3"})
    expected = [f"DYNAMIC_BROKER_CONFIG:{key}=3", f"DYNAMIC_DEFAULT_BROKER_CONFIG:{key}=2"]
    expected += [f"STATIC_BROKER_CONFIG:{key}=1", f"DEFAULT_CONFIG:{key}=1048588"]
    entry = the(describe_broker_configs(broker, [key]))
    assert (entry.value, entry.read_only, [repr(synonym) for synonym in entry.synonyms]) == (
        "3",
        False,
        expected,
    )
    of_topic = the(describe_topic_configs(broker, {}, ["max.message.bytes"]))
    assert (of_topic.value, [repr(synonym) for synonym in of_topic.synonyms]) == ("3", expected)
    of_new_topic = new_topic(broker)["max.message.bytes"]
    assert (of_new_topic.value, of_new_topic.source) == ("3", ConfigSource.DYNAMIC_BROKER_CONFIG)


def new_topic(broker: BrokerConfig, own: dict[str, str] | None = None) -> dict[str, ConfigEntry]:
    return {entry.name: entry for entry in describe_new_topic(broker, own or {})}


@pytest.mark.parametrize(
    ("static", "of_cluster", "value", "source"),
    [
        ([], {}, "604800000", ConfigSource.DEFAULT_CONFIG),
        ([], {"log.retention.ms": "-99"}, "-99", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        ([], {"log.retention.ms": " 7 "}, " 7 ", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (["log.retention.hours=-1"], {}, "-3600000", ConfigSource.STATIC_BROKER_CONFIG),
        (
            ["log.retention.minutes= 5", "log.retention.hours=2"],
            {},
            "300000",
            ConfigSource.STATIC_BROKER_CONFIG,
        ),
        (
            ["log.retention.minutes=5"],
            {"log.retention.ms": "9"},
            "9",
            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
        ),
    ],
)
def test_a_new_topic_has_the_brokers_texts_in_its_own_units(
    static: list[str], of_cluster: dict[str, str], value: str, source: ConfigSource
) -> None:
    entry = new_topic(dynamic(static, of_cluster, {}))["retention.ms"]
    assert (entry.value, entry.source, entry.read_only, entry.sensitive) == (value, source, False, False)


def test_a_new_topics_own_settings_are_described_as_given() -> None:
    own = {"retention.ms": " 5 ", "internal.segment.bytes": "9"}
    told = new_topic(dynamic([], {"log.cleanup.policy": "compact, delete"}, {}), own)
    assert told.keys() == new_topic(BrokerConfig.of(None)).keys() | own.keys()
    assert {name: told[name].value for name in own} == own
    assert told["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert told["cleanup.policy"].value == "compact, delete"


def test_the_clusters_default_is_described_as_stored() -> None:
    texts = {"log.cleanup.policy": "delete, compact", "odd": "x", "leader.replication.throttled.rate": "5"}
    broker = dynamic(["log.cleanup.policy=compact"], texts, {"log.cleanup.policy": "delete"})
    told = {entry.name: entry for entry in describe_cluster_default(broker)}
    assert {name: entry.value for name, entry in told.items()} == {**texts, "odd": None}
    assert [repr(synonym) for synonym in told["log.cleanup.policy"].synonyms] == [
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.cleanup.policy=delete, compact"
    ]
    assert (told["odd"].sensitive, told["odd"].read_only) == (True, True)
    assert not told["leader.replication.throttled.rate"].read_only
    assert the(describe_cluster_default(broker, ["odd"])).name == "odd"


def test_dynamic_only_keys_are_described_when_set() -> None:
    key = "leader.replication.throttled.rate"
    assert list(describe_broker_configs(BrokerConfig.of(None), [key])) == []
    entry = the(describe_broker_configs(dynamic([], {key: "5"}, {}), [key]))
    assert (entry.value, entry.type, entry.read_only, entry.documentation) == (
        "5",
        ConfigType.LONG,
        False,
        None,
    )
    assert [repr(synonym) for synonym in entry.synonyms] == [f"DYNAMIC_DEFAULT_BROKER_CONFIG:{key}=5"]


def test_a_listeners_setting_has_that_of_all_behind_it() -> None:
    key = "listener.name.a.max.connections"
    broker = dynamic(["max.connections=9"], {key: "6"}, {key: "5"})
    entry = the(describe_broker_configs(broker, [key]))
    assert (entry.value, entry.type, entry.read_only) == ("5", ConfigType.INT, True)
    assert [repr(synonym) for synonym in entry.synonyms] == [
        f"DYNAMIC_BROKER_CONFIG:{key}=5",
        f"DYNAMIC_DEFAULT_BROKER_CONFIG:{key}=6",
        "STATIC_BROKER_CONFIG:max.connections=9",
        "DEFAULT_CONFIG:max.connections=2147483647",
    ]


def test_a_topics_invalid_and_unknown_settings() -> None:
    broker = BrokerConfig.of(None)
    own = {"retention.ms": "x", "odd": "1"}
    told = {entry.name: entry for entry in describe_topic_configs(broker, own)}
    assert (told["retention.ms"].value, told["retention.ms"].is_default) == ("604800000", True)
    assert (told["odd"].value, told["odd"].sensitive) == (None, True)
    assert told["odd"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG

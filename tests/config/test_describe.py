"""What DescribeConfigs answers; conformance holds it against Kafka's own answers."""

from __future__ import annotations

from collections.abc import Iterator

from config.broker_config import BrokerConfig
from config.describe import ConfigEntry, ConfigSource, describe_broker_configs, describe_topic_configs
from config.values import ConfigType


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


def test_internal_keys_show_only_where_they_are_set() -> None:
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

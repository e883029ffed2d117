from __future__ import annotations

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import CLIENT_METRICS_KEYS, GROUP_KEYS
from barnabas.config.describe import ConfigEntry
from barnabas.config.describe_resources import describe_client_metrics_configs, describe_group_configs


def told(entry: ConfigEntry) -> list[str]:
    return [repr(synonym) for synonym in entry.synonyms]


def test_a_groups_values_and_where_they_come_from() -> None:
    broker = BrokerConfig.of(None, overrides=["group.share.heartbeat.interval.ms=6000"])
    own = {"consumer.session.timeout.ms": "50000", "share.isolation.level": "read_committed"}
    found = {entry.name: entry for entry in describe_group_configs(broker, own)}
    assert found.keys() == GROUP_KEYS.keys()
    assert told(found["consumer.session.timeout.ms"]) == [
        "DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000",
        "DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000",
    ]
    assert told(found["share.isolation.level"]) == [
        "DYNAMIC_GROUP_CONFIG:share.isolation.level=read_committed",
        "DEFAULT_CONFIG:share.isolation.level=read_uncommitted",
    ]
    assert found["share.heartbeat.interval.ms"].value == "6000"
    assert told(found["share.heartbeat.interval.ms"])[0].startswith("STATIC_BROKER_CONFIG:group.share")


def test_a_subscription() -> None:
    found = {
        entry.name: entry
        for entry in describe_client_metrics_configs({"match": " client_id=a , client_id=b"})
    }
    assert found.keys() == CLIENT_METRICS_KEYS.keys()
    assert told(found["match"]) == ["DYNAMIC_CLIENT_METRICS_CONFIG:match=client_id=a,client_id=b"]
    assert (found["interval.ms"].value, told(found["interval.ms"]), found["interval.ms"].is_default) == (
        "300000",
        [],
        True,
    )


def test_invalid_settings_are_ignored() -> None:
    (entry,) = describe_client_metrics_configs({"interval.ms": "x", "nope": "1"}, ["interval.ms"])
    assert (entry.value, entry.is_default) == ("300000", True)
    (entry,) = describe_group_configs(
        BrokerConfig.of(None), {"share.isolation.level": "x"}, ["share.isolation.level"]
    )
    assert (entry.value, entry.is_default) == ("read_uncommitted", True)

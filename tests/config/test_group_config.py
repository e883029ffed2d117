from __future__ import annotations

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS, GROUP_KEYS, resources
from barnabas.config.group_config import BOUNDS, effective_group_values, group_value, validate_group_overrides
from barnabas.config.keys import ConfigError


def test_a_group_inherits_the_brokers_values() -> None:
    broker = BrokerConfig.of(None, overrides=["group.consumer.session.timeout.ms=50000"])
    values = effective_group_values(broker, {"share.isolation.level": "read_committed"})
    assert values.keys() == GROUP_KEYS.keys()
    assert values["consumer.session.timeout.ms"] == 50_000
    assert values["share.isolation.level"] == "read_committed"
    assert values["share.auto.offset.reset"] == "latest"


@pytest.mark.parametrize("name", sorted(GROUP_KEYS))
def test_the_defaults_can_be_set(name: str) -> None:
    key = GROUP_KEYS[name]
    validate_group_overrides({name: key.format(key.default) or ""}, BrokerConfig.of(None))


@pytest.mark.parametrize(("key", "low", "high"), BOUNDS, ids=lambda key: getattr(key, "name", ""))
def test_the_brokers_bounds_hold(key: object, low: object, high: object) -> None:
    name = key.name  # type: ignore[attr-defined]
    for bound, step in ((low, -1), (high, 1)):
        if bound is None:
            continue
        limit = BROKER_KEYS[bound.name].default  # type: ignore[attr-defined]
        with pytest.raises(ConfigError, match=f"^{name}="):
            validate_group_overrides({name: str(limit + step)}, BrokerConfig.of(None))


@pytest.mark.parametrize(
    ("overrides", "why"),
    [
        ({"nope": "1"}, "is not a group configuration key"),
        ({"consumer.session.timeout.ms": "x"}, "whole number"),
        ({"share.auto.offset.reset": "x"}, "latest, earliest"),
    ],
)
def test_invalid_group_settings(overrides: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        validate_group_overrides(overrides, BrokerConfig.of(None))


def test_errors_about_bounds_have_kafkas_phrase() -> None:
    limit = "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas"
    with pytest.raises(ConfigError) as caught:
        validate_group_overrides({"streams.num.standby.replicas": "3"}, BrokerConfig.of(None))
    assert caught.value.answer == (
        f"{limit} (streams.num.standby.replicas=3 must be at most the broker's group.streams.max.standby.replicas, "
        "which is 2)"
    )


def test_heartbeats_come_more_often_than_sessions_end() -> None:
    bounds = (
        "max.heartbeat.interval.ms=50000",
        "min.session.timeout.ms=1000",
        "min.heartbeat.interval.ms=1000",
    )
    broker = BrokerConfig.of(None, overrides=[f"group.consumer.{bound}" for bound in bounds])
    with pytest.raises(ConfigError, match=r"less than consumer\.session\.timeout\.ms"):
        validate_group_overrides({"consumer.heartbeat.interval.ms": "45000"}, broker)


def test_group_settings_are_clamped_to_the_brokers_current_bounds() -> None:
    broker = BrokerConfig.of(None, overrides=["group.consumer.max.session.timeout.ms=50000"])
    key = resources.CONSUMER_SESSION_TIMEOUT_MS
    given = {"1": 45_000, "48000": 48_000, "60000": 50_000}
    assert {text: group_value(broker, {key.name: text}, key) for text in given} == given
    assert group_value(broker, {}, key) == 45_000
    most = resources.STREAMS_NUM_STANDBY_REPLICAS
    assert group_value(broker, {most.name: "9"}, most) == 2

"""The sets of defaults to start from."""

from __future__ import annotations

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS
from barnabas.config.catalogue.barnabas import BARNABAS_PROFILE
from barnabas.config.profiles import PROFILES, WITH_FILE, WITHOUT_FILE
from barnabas.config.replicas import clamp_replication
from barnabas.config.validators import OneOf


def test_the_profiles_are_those_that_the_key_takes() -> None:
    validator = BARNABAS_PROFILE.validator
    assert isinstance(validator, OneOf)
    assert set(validator.words) == set(PROFILES)
    assert {WITH_FILE, WITHOUT_FILE} <= set(PROFILES)


@pytest.mark.parametrize("profile", PROFILES)
def test_every_setting_of_a_profile_is_a_known_key_with_another_value_than_its_default(profile: str) -> None:
    for name, text in PROFILES[profile].items():
        assert BROKER_KEYS[name].parse(text) != BROKER_KEYS[name].default


def test_dev_asks_for_no_other_broker() -> None:
    assert clamp_replication(BrokerConfig.load()) == []


def test_kafka_is_kafkas_defaults() -> None:
    config = BrokerConfig.of(b"")
    assert config.profile == "kafka"
    assert all(config[key] == key.default for key in BROKER_KEYS.values())


def test_durable_waits_for_the_disk() -> None:
    assert BrokerConfig.of(b"barnabas.profile=durable").value_of("log.flush.interval.messages") == 1

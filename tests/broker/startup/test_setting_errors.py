"""Errors about settings, named as the configuration has them."""

from __future__ import annotations

from barnabas.broker.startup.setting_errors import setting_error
from barnabas.config.broker_config import BrokerConfig
from barnabas.security.errors import SettingError


def named(key: str, listener: str, *settings: str) -> tuple[str, str]:
    config = BrokerConfig.of(b"", environ={}, overrides=settings)
    error = setting_error(config, listener, SettingError(key, "x", "must be y"), "Kafka says")
    assert (error.value, error.requirement, error.phrase) == ("x", "must be y", "Kafka says")
    return error.key, error.place


def test_an_error_names_the_setting_as_it_is_set() -> None:
    settings = ("listener.name.a.ssl.protocol=TLS", "ssl.protocol=TLS")
    assert named("ssl.protocol", "A", *settings) == ("listener.name.a.ssl.protocol", "--override")
    assert named("ssl.protocol", "B", *settings) == ("ssl.protocol", "--override")
    assert named("ssl.key.password", "B") == ("ssl.key.password", "")


def test_the_name_of_a_mechanism_s_own_setting_stays() -> None:
    key = "listener.name.a.plain.sasl.jaas.config"
    assert named(key, "A", f"{key}=x") == (key, "--override")
    assert named(key, "A") == (key, "")

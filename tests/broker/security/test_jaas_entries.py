"""The login modules of a mechanism, from its own value or the static file."""

from __future__ import annotations

import pytest

from barnabas.broker.security.jaas_entries import JaasEntries, JaasFile, jaas_entries, jaas_key, options_of
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.keys import ConfigError
from barnabas.security.jaas import JaasEntry, parse_file

OWN = "listener.name.a.plain.sasl.jaas.config"
FILE = JaasFile(
    parse_file('KafkaServer { M required x="1"; }; b.KafkaServer { N optional; };'), "/file", "env"
)


def config(*settings: str) -> BrokerConfig:
    return BrokerConfig.of(b"", environ={}, overrides=settings)


def test_a_mechanism_s_own_value_comes_before_the_file() -> None:
    own = config(f'{OWN}=M required x="2";')
    assert jaas_entries(own, "A", "PLAIN", FILE) == JaasEntries(
        [JaasEntry("M", "REQUIRED", {"x": "2"})], True
    )
    in_file = JaasEntries([JaasEntry("M", "REQUIRED", {"x": "1"})], False)
    assert jaas_entries(own, "A", "SCRAM-SHA-256", FILE) == in_file
    assert jaas_entries(own, "B", "PLAIN", FILE) == JaasEntries([JaasEntry("N", "OPTIONAL", {})], False)
    assert jaas_entries(own, "B", "PLAIN", None) is None
    assert jaas_entries(own, "B", "PLAIN", JaasFile({}, "/file")) is None
    assert jaas_key("A", "PLAIN") == OWN


def test_what_cannot_be_read_is_an_error_without_its_value() -> None:
    with pytest.raises(ConfigError) as caught:
        jaas_entries(config(f"{OWN}=M required secret"), "A", "PLAIN", FILE)
    assert str(caught.value) == (
        f"--override: {OWN}=[hidden] must be the entry of one login module: it ends where there must be ="
    )
    ldap = parse_file("KafkaServer { com.sun.security.auth.module.LdapLoginModule required; };")
    with pytest.raises(ConfigError, match=r"env: barnabas.jaas.config.file=/file must be .* is not allowed"):
        jaas_entries(config(), "A", "PLAIN", JaasFile(ldap, "/file", "env"))


def test_the_options_of_a_login_module() -> None:
    entries = [
        JaasEntry("M", "REQUIRED", {"a": "1"}),
        JaasEntry("N", "REQUIRED", {"c": "4"}),
        JaasEntry("M", "REQUIRED", {"a": "2", "b": "3"}),
    ]
    assert options_of("M", entries) == {"a": "1", "b": "3"}
    assert options_of("O", entries) == {}

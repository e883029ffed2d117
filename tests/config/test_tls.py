from __future__ import annotations

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS
from barnabas.config.messages import LISTENER_TLS_KEYS
from barnabas.config.tls import ignored_client_auth, refuse_unknown_classes, tls_texts
from barnabas.security.settings import TLS_KEYS


def broker(*settings: str) -> BrokerConfig:
    return BrokerConfig.of(b"", environ={}, overrides=["listeners=SSL://:1", *settings])


def test_the_keys_are_those_that_security_reads() -> None:
    assert set(LISTENER_TLS_KEYS) == set(TLS_KEYS)
    assert set(LISTENER_TLS_KEYS) <= set(BROKER_KEYS)


def test_a_listener_has_its_own_settings_and_those_of_all() -> None:
    config = broker(
        "ssl.protocol=TLS", "ssl.keystore.location=/all", "listener.name.ssl.ssl.keystore.location= /own "
    )
    assert tls_texts(config, "SSL", "SSL") == {"ssl.keystore.location": "/own", "ssl.protocol": "TLS"}
    assert tls_texts(config, "OTHER", "SSL") == {"ssl.keystore.location": "/all", "ssl.protocol": "TLS"}


def test_client_certificates_of_all_are_not_asked_for_where_clients_log_in() -> None:
    config = broker("ssl.client.auth=required", "listener.name.b.ssl.client.auth=requested")
    assert tls_texts(config, "A", "SSL") == {"ssl.client.auth": "required"}
    assert tls_texts(config, "A", "SASL_SSL") == {}
    assert tls_texts(config, "B", "SASL_SSL") == {"ssl.client.auth": "requested"}


def test_it_is_known_that_they_are_not_asked_for() -> None:
    config = broker("ssl.client.auth= required ", "listener.name.b.ssl.client.auth=none")
    ignored = ignored_client_auth(config, "A", "SASL_SSL")
    assert ignored is not None
    assert (ignored.key, ignored.text.strip()) == ("ssl.client.auth", "required")
    assert ignored_client_auth(config, "A", "SSL") is None
    assert ignored_client_auth(config, "B", "SASL_SSL") is None
    assert ignored_client_auth(broker(), "A", "SASL_SSL") is None
    assert ignored_client_auth(broker("ssl.client.auth=none"), "A", "SASL_SSL") is None


@pytest.mark.parametrize(
    "setting",
    [
        "principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "ssl.engine.factory.class=",
    ],
)
def test_classes_that_do_nothing_more_are_no_error(setting: str) -> None:
    assert list(refuse_unknown_classes(broker(setting), "SSL")) == []


@pytest.mark.parametrize("prefix", ["", "listener.name.ssl."])
@pytest.mark.parametrize("key", ["ssl.engine.factory.class"])
def test_a_class_that_is_to_protect_is_refused(prefix: str, key: str) -> None:
    config = broker(f"{prefix}{key}=my.Class")
    (error,) = refuse_unknown_classes(config, "SSL")
    assert str(error).startswith(f"--override: {prefix}{key}=my.Class must be unset")
    assert len(list(refuse_unknown_classes(config, "OTHER"))) == (not prefix)

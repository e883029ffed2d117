"""What the keys of the HTTP port mean together."""

from __future__ import annotations

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.http import has_login, has_tls, http_tls_settings, is_open, knows_its_clients
from barnabas.config.layers import InvalidConfigError


def config_of(*lines: str) -> BrokerConfig:
    return BrokerConfig.of("\n".join(lines).encode(), file_name="f")


@pytest.mark.parametrize(
    ("protocol", "tls", "login"),
    [
        ("plaintext", False, False),
        ("SSL", True, False),
        ("SASL_PLAINTEXT", False, True),
        ("sasl_ssl", True, True),
    ],
)
def test_the_protocol_says_what_holds(protocol: str, tls: bool, login: bool) -> None:
    jaas = ("barnabas.http.sasl.jaas.config=x",) if login else ()
    config = config_of(f"barnabas.http.security.protocol={protocol}", *jaas)
    assert (has_tls(config), has_login(config), knows_its_clients(config)) == (tls, login, login)


def test_a_certificate_of_the_client_stands_for_a_login() -> None:
    for auth in ("required", "requested"):
        config = config_of("barnabas.http.security.protocol=SSL", f"barnabas.http.ssl.client.auth={auth}")
        assert knows_its_clients(config) is (auth == "required")


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        (["barnabas.http.security.protocol=SASL_SSL"], "barnabas.http.sasl.jaas.config must name the users"),
        (["barnabas.http.sasl.jaas.config=x"], "must be SASL_SSL or SASL_PLAINTEXT, as barnabas.http.sasl"),
        (
            ["barnabas.http.ssl.client.auth=required"],
            "must be SSL or SASL_SSL, as barnabas.http.ssl.client.auth",
        ),
        (
            [
                "barnabas.http.security.protocol=SASL_PLAINTEXT",
                "barnabas.http.sasl.jaas.config=x",
                "barnabas.http.ssl.key.password=secret",
                "barnabas.http.ssl.keystore.location=a",
            ],
            "f line 1: barnabas.http.security.protocol=SASL_PLAINTEXT must be SSL or SASL_SSL, as ",
        ),
        (["barnabas.http.security.protocol=TLS"], "must be one of"),
    ],
)
def test_a_key_whose_protection_does_not_hold_refuses_the_start(lines: list[str], wanted: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        config_of(*lines)
    assert wanted in str(caught.value)
    assert "secret" not in str(caught.value)
    assert len(caught.value.errors) == 1


def test_a_port_that_is_closed_needs_nothing() -> None:
    config = config_of("barnabas.http.port=-1", "barnabas.http.security.protocol=SASL_SSL")
    assert not is_open(config)


def places(config: BrokerConfig) -> dict[str, str]:
    return {name: setting.place for name, setting in http_tls_settings(config).items()}


def test_the_stores_of_all_listeners_hold_where_the_port_has_none() -> None:
    of_all = [
        "ssl.keystore.type=PEM",
        "ssl.keystore.location=a",
        "ssl.truststore.location=b",
        "ssl.client.auth=required",
        "ssl.protocol=TLSv1.2",
    ]
    assert places(config_of(*of_all)) == {
        "ssl.keystore.type": "f line 1",
        "ssl.keystore.location": "f line 2",
        "ssl.truststore.location": "f line 3",
        "ssl.protocol": "f line 5",
    }
    own = ["barnabas.http.security.protocol=SSL", "barnabas.http.ssl.keystore.location=c"]
    own += ["barnabas.http.ssl.client.auth=required"]
    assert places(config_of(*of_all, *own)) == {
        "ssl.keystore.location": "f line 7",
        "ssl.truststore.location": "f line 3",
        "ssl.protocol": "f line 5",
        "ssl.client.auth": "f line 8",
    }

"""What the HTTP port asks of its clients, from a configuration."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.broker.http.server import OPEN
from barnabas.broker.startup.http_security import http_security
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import InvalidConfigError
from tests.broker.http.test_login import basic
from tests.broker.http.test_tls import JAAS
from tests.broker.network.tls_listeners import write_certificates

CLIENT = ("192.0.2.7", 50_000)


def config_of(**settings: str) -> BrokerConfig:
    lines = [f"{name.replace('__', '.')}={text}" for name, text in settings.items()]
    return BrokerConfig.of("\n".join(lines).encode(), file_name="f")


def test_a_port_without_protection_or_without_a_port() -> None:
    assert http_security(BrokerConfig()) is not None
    assert http_security(BrokerConfig()) == OPEN
    closed = config_of(barnabas__http__port="-1", barnabas__http__security__protocol="SASL_SSL")
    assert http_security(closed) is OPEN


def test_nothing_is_imported_for_it() -> None:
    code = (
        "import sys; from barnabas.broker.startup.http_security import http_security; "
        "from barnabas.config.broker_config import BrokerConfig; http_security(BrokerConfig()); "
        "print([it for it in ('cryptography', 'barnabas.broker.http.login') if it in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_users() -> None:
    config = config_of(
        barnabas__http__security__protocol="SASL_PLAINTEXT",
        barnabas__http__sasl__jaas__config=JAAS,
        connection__failed__authentication__delay__ms="0",
    )
    tls, login = http_security(config)
    assert tls is None
    assert login is not None
    assert login.admits(basic("alice", "pencil"), CLIENT)
    assert not login.admits(basic("alice", "pen"), CLIENT)


@pytest.mark.parametrize("prefix", ["barnabas__http__", ""])
def test_stores_of_its_own_or_of_all_listeners(tmp_path: Path, prefix: str) -> None:
    write_certificates(tmp_path)
    stores = {
        f"{prefix}ssl__keystore__type": "PEM",
        f"{prefix}ssl__keystore__location": f"{tmp_path}/broker.pem",
    }
    tls, login = http_security(config_of(barnabas__http__security__protocol="SSL", **stores))
    assert login is None
    assert tls is not None
    assert tls.stores.name == "http"


def test_every_error_is_named_and_no_password() -> None:
    for jaas, wanted in {
        "secret": "must be the entry of one login module: ",
        JAAS.replace(
            "plain.Plain", "scram.Scram"
        ): "must be an entry of org.apache.kafka.common.security.plain",
        JAAS.replace("user_alice", "password"): "must be an entry with users, as org",
    }.items():
        config = config_of(
            barnabas__http__security__protocol="SASL_SSL",
            barnabas__http__sasl__jaas__config=jaas,
            barnabas__http__ssl__keystore__location="/missing",
            barnabas__http__ssl__keystore__password="pencil",
        )
        with pytest.raises(InvalidConfigError) as caught:
            http_security(config)
        first, second = str(caught.value).splitlines()
        assert first.startswith("f line 2: barnabas.http.sasl.jaas.config=[hidden] " + wanted)
        assert second.startswith("f line 3: barnabas.http.ssl.keystore.location=/missing cannot be read")
        assert "secret" not in first
        assert "pencil" not in str(caught.value)


def test_a_key_store_is_missing() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        http_security(config_of(barnabas__http__security__protocol="SSL"))
    assert str(caught.value).startswith("barnabas.http.ssl.keystore.location")

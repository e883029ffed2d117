"""How listeners are secured by a configuration."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from barnabas.broker.security.sasl.listener import PLAIN_LOGIN_MODULE
from barnabas.broker.startup.listener_securities import ListenerSecurities
from barnabas.broker.startup.scram_secret import FILE_NAME
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.dynamic import apply_dynamic_settings, check_dynamic_settings
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError
from barnabas.config.listeners import Listener
from tests.broker.fakes import ManualTimer
from tests.broker.network.tls_listeners import CA, pem, write_certificates
from tests.broker.network.tls_listeners import config as tls_config
from tests.broker.network.tls_listeners import securities as tls_securities

MAP = {"listener.security.protocol.map": "SASL:SASL_PLAINTEXT,SECURE:SASL_SSL,PLAINTEXT:PLAINTEXT"}
PLAIN = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_LOGIN_MODULE} required user_alice="pencil";',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_certificates(tmp_path)
    return tmp_path


def config_of(listeners: str, settings: Mapping[str, str] | None = None) -> BrokerConfig:
    overrides = {"listeners": listeners, **MAP, **(settings or {})}
    return BrokerConfig.of(None, overrides=[f"{key}={value}" for key, value in overrides.items()])


def securities(listeners: str, settings: Mapping[str, str] | None = None) -> ListenerSecurities:
    config = config_of(listeners, settings)
    return ListenerSecurities(config, NO_LOOP, InlineRunner(), environ={})


NO_LOOP: asyncio.AbstractEventLoop = ManualTimer()  # type: ignore[assignment]  # nothing of these waits


def test_a_plaintext_listener_needs_nothing() -> None:
    made = securities("PLAINTEXT://:9092")
    (listener,) = made._config.listeners
    assert made(listener).security_protocol == "PLAINTEXT"
    assert made.by_name == {}
    made.start()
    made.reconfigure()
    made.close()


def test_a_listener_with_logins() -> None:
    made = securities("PLAINTEXT://:9092,SASL://localhost:9093", PLAIN)
    _, listener = made._config.listeners
    security = made(listener)
    assert security.security_protocol == "SASL_PLAINTEXT"
    assert security.sasl is not None
    assert list(security.sasl.mechanisms) == ["PLAIN"]
    assert made.by_name == {"SASL": security}


def test_the_errors_of_all_listeners_are_reported_at_once() -> None:
    more = {"principal.builder.class": "org.example.Own", "sasl.enabled.mechanisms": "DIGEST"}
    with pytest.raises(InvalidConfigError) as caught:
        securities("SASL://:9093,SECURE://:9094,PLAINTEXT://:9095", more)
    errors = [error.key for error in caught.value.errors]
    assert errors == [
        "principal.builder.class",
        "sasl.enabled.mechanisms",
        "sasl.enabled.mechanisms",
        "ssl.keystore.location",
    ]
    assert "sasl.enabled.mechanisms=DIGEST must be among" in str(caught.value)


@pytest.mark.parametrize("listeners", ["PLAINTEXT://:9092", "SASL://:9093"])
def test_an_unknown_principal_builder_prevents_the_start(listeners: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"principal\.builder\.class=org\.example\.Own must be"):
        securities(listeners, PLAIN | {"principal.builder.class": "org.example.Own"})


async def test_a_listener_of_sasl_ssl_has_both(folder: Path) -> None:
    made = tls_securities(folder, **BOTH)
    (security,) = made.by_name.values()
    assert (security.sasl is None, security.tls is None) == (False, False)
    assert made(made._config.listeners[0]) is security
    made.close()


BOTH = {
    "listeners": "SECURE://127.0.0.1:0",
    "listener__security__protocol__map": "SECURE:SASL_SSL,SASL:SASL_PLAINTEXT,SSL:SSL",
    "sasl__enabled__mechanisms": "PLAIN",
    "listener.name.secure.plain.sasl.jaas.config": PLAIN["listener.name.sasl.plain.sasl.jaas.config"],
}


# ---- changes


def mechanisms_of(made: ListenerSecurities, name: str) -> list[str]:
    (listener,) = (each for each in made._config.listeners if each.name == name)
    sasl = made(listener).sasl
    assert sasl is not None
    return list(sasl.mechanisms)


def test_settings_of_logins_in_the_metadata_count_before_the_start_alone() -> None:
    made = securities("SASL://localhost:9093", PLAIN | {"barnabas.tls.reload.interval.ms": "0"})
    change = {"listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}
    assert apply_dynamic_settings(made._config, {}, change) == []
    made.reconfigure()
    assert mechanisms_of(made, "SASL") == ["PLAIN", "SCRAM-SHA-256"]
    made.start()
    assert apply_dynamic_settings(made._config, {}, {}) == []
    assert mechanisms_of(made, "SASL") == ["PLAIN", "SCRAM-SHA-256"]


async def test_a_listener_that_is_added_needs_what_protects_it(folder: Path) -> None:
    changes = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "advertised__listeners": "PLAINTEXT://127.0.0.1:9",
        "listener__security__protocol__map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
    }
    settings = tls_config(folder, **{**BOTH, **changes})
    made = ListenerSecurities(settings, asyncio.get_running_loop(), InlineRunner(), environ={})
    made.start()
    both = {"listeners": "PLAINTEXT://127.0.0.1:0,SECURE://127.0.0.1:0"}
    check_dynamic_settings(settings, both, {}, per_broker=True)
    for key, text, said in (
        ("ssl.keystore.location", "/missing", "cannot be read"),
        ("sasl.enabled.mechanisms", "DIGEST", "must be among"),
        ("principal.builder.class", "my.Own", "must be .* or python:module:Class"),
    ):
        name = f"listener.name.secure.{key}"
        with pytest.raises(ConfigError, match=f"{name}={text} {said}"):
            check_dynamic_settings(settings, {**both, name: text}, {}, per_broker=True)
    assert made.by_name == {}
    assert apply_dynamic_settings(settings, {}, both) == []
    security = made(settings.listeners[1])
    assert made.by_name == {"SECURE": security}
    check_dynamic_settings(settings, both, {}, per_broker=True)
    made.close()


async def test_a_listener_that_was_closed_is_forgotten(folder: Path) -> None:
    settings = tls_config(folder)
    made = ListenerSecurities(settings, asyncio.get_running_loop(), InlineRunner(), environ={})
    assert list(made.by_name) == ["SSL"]
    assert apply_dynamic_settings(settings, {}, {"listeners": "PLAINTEXT://127.0.0.1:0"}) == []
    made.reconfigure()
    assert list(made.by_name) == []


def test_files_are_watched_until_the_end(folder: Path) -> None:
    timer = ManualTimer()
    settings = tls_config(folder, **BOTH)
    made = ListenerSecurities(settings, timer, InlineRunner(), environ={})  # type: ignore[arg-type]
    tls = made(settings.listeners[0]).tls
    assert tls is not None
    made.attach(dict, str(folder))
    assert (folder / FILE_NAME).exists()
    made.start()
    for reloads in (1, 2):
        (folder / "broker.pem").write_text(pem(CA.issue("broker", ["localhost", "127.0.0.1"])))
        check_dynamic_settings(settings, {}, {}, per_broker=True)  # they may take the place of those in use
        timer.advance(60)
        assert (tls.stores.reloads, tls.stores.reload_failures) == (reloads, 0)
    made.close()
    (folder / "broker.pem").write_text("damaged")
    timer.advance(600)
    assert tls.stores.reload_failures == 0


async def test_files_are_not_watched_where_that_is_off_or_in_vain(folder: Path) -> None:
    for changes in ({"barnabas__tls__reload__interval__ms": "0"}, {"listeners": "PLAINTEXT://127.0.0.1:0"}):
        made = tls_securities(folder, **changes)
        made.start()
        assert made._timer is None
        made.close()


def test_a_listener_without_a_name_in_the_configuration_is_made_all_the_same() -> None:
    assert securities("PLAINTEXT://:0")(Listener("OTHER", None, 0)).security_protocol == "PLAINTEXT"


PASSWORD_LISTENER = """
import sys
from barnabas.broker.security.sasl.listener import sasl_listener
from barnabas.broker.security.sasl.scram import ScramCredentials
from barnabas.config.broker_config import BrokerConfig
jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="x";'
config = BrokerConfig.of(None, overrides=[
    "listeners=SASL_PLAINTEXT://:9093", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
    f"listener.name.sasl_plaintext.plain.sasl.jaas.config={jaas}",
])
sasl_listener(config, "SASL_PLAINTEXT", ScramCredentials())
unwanted = ("cryptography", "jwt", "http.client", "barnabas.security.identity_provider")
print(sorted(name for name in sys.modules if name.startswith(unwanted)))
"""


def test_a_listener_of_passwords_loads_nothing_of_tokens() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PASSWORD_LISTENER], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


PLAIN_BROKER = """
import asyncio, sys
import barnabas.broker.startup.process
from barnabas.broker.startup.listener_securities import ListenerSecurities
from barnabas.broker.startup.scram_secret import FILE_NAME
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.config.broker_config import BrokerConfig

async def main():
    securities = ListenerSecurities(BrokerConfig.of(b""), asyncio.get_running_loop(), InlineRunner())
    securities.attach(dict, "/")
    securities.start()
    securities.reconfigure()
    securities.close()

asyncio.run(main())
unwanted = ("cryptography", "barnabas.security", "barnabas.broker.security.sasl", "barnabas.broker.network.tls", "jwt")
print(sorted(name for name in sys.modules if name.startswith(unwanted)))
"""


def test_a_plain_broker_loads_nothing_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", PLAIN_BROKER], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


class Everybody:
    """A principal builder."""

    def build(self, context: object) -> tuple[str, str]:
        return "User", "everybody"


def test_a_class_of_the_operators_own_names_clients() -> None:
    made = securities("PLAINTEXT://:9092", {"principal.builder.class": f"python:{__name__}:Everybody"})
    (listener,) = made._config.listeners
    security = made(listener)
    assert isinstance(security.builder, Everybody)
    assert made(listener) is security
    assert made.by_name == {"PLAINTEXT": security}

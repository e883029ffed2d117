"""How listeners are secured by a configuration, and what a start says about it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from barnabas.broker.security.sasl.listener import PLAIN_LOGIN_MODULE
from barnabas.broker.startup.listener_securities import ListenerSecurities, is_loopback
from barnabas.broker.startup.scram_secret import FILE_NAME
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import InvalidConfigError
from barnabas.protocol.messages.cluster_records import UserScramCredentialRecord
from barnabas.protocol.messages.security import ScramMechanism

MAP = {"listener.security.protocol.map": "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT"}
PLAIN = {
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl.plain.sasl.jaas.config": f'{PLAIN_LOGIN_MODULE} required user_alice="pencil";',
}
FILE = f'KafkaServer {{ {PLAIN_LOGIN_MODULE} required user_bob="hush"; }};'


def securities(
    listeners: str, settings: Mapping[str, str] | None = None, environ: Mapping[str, str] | None = None
) -> ListenerSecurities:
    overrides = {"listeners": listeners, **MAP, **(settings or {})}
    config = BrokerConfig.of(None, overrides=[f"{key}={value}" for key, value in overrides.items()])
    return ListenerSecurities(config, environ or {})


def test_a_plaintext_listener_needs_nothing() -> None:
    made = securities("PLAINTEXT://:9092")
    (listener,) = made._config.listeners
    assert made(listener).sasl is None
    assert made._scram is None
    assert list(made.notices()) == []


def test_a_listener_with_logins() -> None:
    made = securities("PLAINTEXT://:9092,SASL://localhost:9093", PLAIN)
    _, listener = made._config.listeners
    security = made(listener)
    assert security.security_protocol == "SASL_PLAINTEXT"
    assert security.sasl is not None
    assert list(security.sasl.mechanisms) == ["PLAIN"]
    assert made.scram is made.scram


def test_a_listener_with_logins_and_no_mechanism_prevents_the_start() -> None:
    made = securities("SASL://localhost:9093")
    with pytest.raises(InvalidConfigError, match=r"sasl\.enabled\.mechanisms=GSSAPI must be among"):
        made(made._config.listeners[0])


@pytest.mark.parametrize("listeners", ["PLAINTEXT://:9092", "SASL://:9093"])
def test_an_unknown_principal_builder_prevents_the_start(listeners: str) -> None:
    made = securities(listeners, PLAIN | {"principal.builder.class": "org.example.Own"})
    with pytest.raises(InvalidConfigError, match=r"principal\.builder\.class=org\.example\.Own must be"):
        made(made._config.listeners[0])


def static(path: Path, how: str) -> ListenerSecurities:
    mechanisms = {"sasl.enabled.mechanisms": "PLAIN"}
    if how == "key":
        environ = {"KAFKA_OPTS": "-Djava.security.auth.login.config=/elsewhere"}
        return securities("SASL://:9093", mechanisms | {"barnabas.jaas.config.file": str(path)}, environ)
    options = f"-Xmx1g -Djava.security.auth.login.config={path}"
    return securities("SASL://:9093", mechanisms, {"KAFKA_OPTS": options})


@pytest.mark.parametrize("how", ["key", "variable"])
def test_the_static_file_is_found(tmp_path: Path, how: str) -> None:
    path = tmp_path / "jaas.conf"
    path.write_text(FILE)
    made = static(path, how)
    assert made(made._config.listeners[0]).sasl is not None


@pytest.mark.parametrize(
    ("how", "place"), [("key", "--override"), ("variable", "environment variable KAFKA_OPTS")]
)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"KafkaServer", "it ends where there must be {"),
        (b"\xff\xfe", "can't decode byte"),
    ],
)
def test_a_static_file_that_cannot_be_read_prevents_the_start(
    tmp_path: Path, how: str, place: str, content: bytes | None, reason: str
) -> None:
    path = tmp_path / "jaas.conf"
    if content is not None:
        path.write_bytes(content)
    made = static(path, how)
    with pytest.raises(InvalidConfigError) as caught:
        made(made._config.listeners[0])
    wanted = f"{place}: barnabas.jaas.config.file={path} must be a JAAS file that can be read: "
    assert str(caught.value).startswith(wanted)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("listeners", "mechanisms", "is_told"),
    [
        ("SASL://:9093", "PLAIN", True),
        ("SASL://10.0.0.1:9093", "SCRAM-SHA-256,PLAIN", True),
        ("SASL://10.0.0.1:9093", "SCRAM-SHA-256", False),
        ("SASL://localhost:9093", "PLAIN", False),
        ("SASL://[::1]:9093", "PLAIN", False),
    ],
)
def test_a_start_says_that_passwords_go_over_the_wire(listeners: str, mechanisms: str, is_told: bool) -> None:
    made = securities(listeners, PLAIN | {"sasl.enabled.mechanisms": mechanisms})
    told = [line for line in made.notices() if "takes passwords (SASL mechanism PLAIN)" in line]
    assert len(told) == int(is_told)


def test_a_start_says_that_there_are_logins_and_no_authorizer() -> None:
    (line,) = securities("SASL://localhost:9093,PLAINTEXT://:9092", PLAIN).notices()
    assert line.startswith("clients of listener SASL have to log in, and may do everything then")
    authorizer = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}
    assert list(securities("SASL://localhost:9093", PLAIN | authorizer).notices()) == []


@pytest.mark.parametrize(
    ("host", "is_local"),
    [
        (None, False),
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("kafka.example", False),
    ],
)
def test_hosts_of_this_machine_alone(host: str | None, is_local: bool) -> None:
    assert is_loopback(host) is is_local


ALICE = UserScramCredentialRecord(name="alice", mechanism=1, iterations=4096)


@pytest.mark.parametrize("opens_first", [True, False])
def test_credentials_are_those_of_the_metadata_whenever_a_listener_opens(
    tmp_path: Path, opens_first: bool
) -> None:
    made = securities("PLAINTEXT://:9092,SASL://:9093", PLAIN)
    plaintext, sasl = made._config.listeners
    made(plaintext)
    if opens_first:
        made(sasl)
        assert made.scram.find("alice", ScramMechanism.SCRAM_SHA_256) is None
    made.attach(lambda: {("alice", 1): ALICE}, str(tmp_path))
    assert (tmp_path / FILE_NAME).exists() is opens_first
    made(sasl)
    assert (tmp_path / FILE_NAME).exists()
    assert made.scram.find("alice", ScramMechanism.SCRAM_SHA_256) is not None


def test_a_secret_that_cannot_be_made_keeps_the_listener_closed(tmp_path: Path) -> None:
    made = securities("SASL://:9093", PLAIN)
    made.attach(dict, str(tmp_path / "nowhere"))
    with pytest.raises(
        InvalidConfigError, match=r"barnabas\.scram\.secret cannot be read or made in .*nowhere"
    ):
        made(made._config.listeners[0])

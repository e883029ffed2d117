"""Principals by a class of the operator's own; the example of the module is run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.request import ConnectionInfo, KafkaPrincipal
from barnabas.broker.security import principals
from barnabas.broker.security.principals import (
    AuthenticationContext,
    Naming,
    PrincipalBuilder,
    PrincipalError,
    TlsPeer,
    has_builder,
    principal_builder,
    serialized_principal,
)
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.keys import ConfigError
from tests.support.certificates import Authority
from tests.support.examples import importable, indented_after

HERE = f"python:{__name__}"
KAFKAS = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
MEMBER = {
    "process.roles": "broker",
    "controller.quorum.bootstrap.servers": "h:1",
    "controller.listener.names": "CONTROLLER",
    "node.id": "1",
}


class Recorder:
    """Makes the principals that it is given, and keeps what it has been asked."""

    def __init__(self, result: object = ("User", "x")) -> None:
        self.result = result
        self.asked: list[AuthenticationContext] = []
        self.settings: dict[str, str] = {}

    def configure(self, settings: dict[str, str]) -> None:
        self.settings = settings

    def build(self, context: AuthenticationContext) -> tuple[str, str]:
        self.asked.append(context)
        return self.result  # type: ignore[return-value]


class Serializer(Recorder):
    serialize = staticmethod(serialized_principal)


class WrongSerializer(Recorder):
    def serialize(self, principal: KafkaPrincipal) -> str:
        return str(principal)


class FailingSerializer(Recorder):
    def serialize(self, principal: KafkaPrincipal) -> bytes:
        raise KeyError("type")


class Failing:
    def build(self, context: AuthenticationContext) -> tuple[str, str]:
        raise LookupError("no such team")


class Unmakeable(Recorder):
    def __init__(self, needed: object) -> None:
        super().__init__(needed)


class Misconfigured(Recorder):
    def configure(self, settings: dict[str, str]) -> None:
        raise ValueError("no team.url")


class Nothing:
    """Has no method build."""


def info(protocol: str = "SASL_SSL") -> ConnectionInfo:
    return ConnectionInfo(
        connection_id=1,
        listener_name="OWN",
        client_host="192.0.2.7",
        client_port=50_000,
        local_host="192.0.2.1",
        local_port=9092,
        security_protocol=protocol,
        principal=None,
    )


def config(named: str, prefix: str = "", **more: str) -> BrokerConfig:
    overrides = {f"{prefix}principal.builder.class": named, "ssl.key.password": "hush", **more}
    return BrokerConfig.of(None, overrides=[f"{key}={value}" for key, value in overrides.items()])


def made(named: str, **more: str) -> PrincipalBuilder | None:
    return principal_builder(config(named, "", **more), "PLAINTEXT")


# ---- the example


@pytest.fixture
def example(tmp_path: Path) -> Iterator[PrincipalBuilder]:
    """The class of the docstring, by the line of configuration that stands there."""
    documentation = principals.__doc__
    assert documentation is not None
    code = indented_after(documentation, "the module\n`company_principals`")
    key, _, named = indented_after(documentation, "and in server.properties").strip().partition("=")
    assert key == "principal.builder.class"
    with importable(code, "company_principals", tmp_path):
        builder = principal_builder(config(named, "", **MEMBER), "PLAINTEXT")
        assert builder is not None
        yield builder


def test_the_example_names_clients_by_what_they_have_shown(example: PrincipalBuilder) -> None:
    naming = Naming(example, info())
    assert naming.principal() == KafkaPrincipal("ANONYMOUS")
    assert naming.principal("GSSAPI", "alice@EXAMPLE.COM") == KafkaPrincipal("alice")
    certificate = Authority().issue("alice", []).der
    naming.tls = TlsPeer(certificate, "TLSv1.3", "TLS_AES_128_GCM_SHA256")
    with pytest.raises(PrincipalError, match=r"principal\.builder\.class has failed with KeyError: 'OU'"):
        naming.principal()
    context = AuthenticationContext("SSL", "OWN", "192.0.2.7", peer_name="CN=alice,OU=Payments")
    assert example.build(context) == ("Team", "payments")
    assert naming.serialized(KafkaPrincipal("a", "Team")) == b"\0\0\x05Team\x02a\0\0"


# ---- what a builder learns


def test_a_builder_gets_all_that_is_known() -> None:
    recorder = Recorder(("Team", "payments"))
    naming = Naming(recorder, info())
    principal = naming.principal("SCRAM-SHA-512", "t1", token_authenticated=True, expires_ms=77)
    assert (principal, principal.token_authenticated) == (KafkaPrincipal("payments", "Team"), True)
    certificate = Authority().issue("alice", []).der
    naming.tls = TlsPeer(certificate, "TLSv1.3", "TLS_AES_128_GCM_SHA256")
    naming.principal()
    assert recorder.asked == [
        AuthenticationContext(
            "SASL_SSL",
            "OWN",
            "192.0.2.7",
            sasl_mechanism="SCRAM-SHA-512",
            authorization_id="t1",
            token_authenticated=True,
            session_expires_ms=77,
        ),
        AuthenticationContext(
            "SASL_SSL",
            "OWN",
            "192.0.2.7",
            "CN=alice",
            certificate,
            "TLSv1.3",
            "TLS_AES_128_GCM_SHA256",
        ),
    ]


def test_a_builder_may_return_a_principal() -> None:
    assert Naming(Recorder(KafkaPrincipal("x", "Team")), info()).principal() == KafkaPrincipal("x", "Team")


@pytest.mark.parametrize(
    "result", [None, "User:x", ("User",), ("User", ""), ("", "x"), ("User", 1), ["User", "x", "y"]]
)
def test_what_is_no_principal_lets_nobody_in(result: object) -> None:
    with pytest.raises(PrincipalError, match=r"principal\.builder\.class returns .*, not a type and a name"):
        Naming(Recorder(result), info()).principal()


def test_a_builder_that_fails_lets_nobody_in() -> None:
    with pytest.raises(PrincipalError, match="failed with LookupError: no such team"):
        Naming(Failing(), info()).principal()


# ---- principals in Envelopes


def test_a_principal_is_written_whole() -> None:
    assert serialized_principal(KafkaPrincipal("u", token_authenticated=True)) == b"\0\0\x05User\x02u\x01\0"
    assert serialized_principal(KafkaPrincipal("g", "Group")) == b"\0\0\x06Group\x02g\0\0"
    assert serialized_principal(KafkaPrincipal("CN=a:b")) == b"\0\0\x05User\x07CN=a:b\0\0"
    assert Naming(Recorder(), info()).serialized(KafkaPrincipal("g", "Group")) == b"\0\0\x06Group\x02g\0\0"


@pytest.mark.parametrize(
    ("builder", "why"),
    [
        (WrongSerializer(), "serialize returns str, not bytes"),
        (FailingSerializer(), "serialize has failed with KeyError: 'type'"),
    ],
)
def test_a_client_whose_principal_cannot_be_passed_on_is_not_let_in(
    builder: PrincipalBuilder, why: str
) -> None:
    with pytest.raises(PrincipalError, match=why):
        Naming(builder, info()).principal()


# ---- the configuration


@pytest.mark.parametrize("named", ["", KAFKAS])
def test_kafkas_own_needs_no_class(named: str) -> None:
    assert made(named) is None
    assert not has_builder(config(named), "PLAINTEXT")


def test_a_builder_is_configured_without_secrets() -> None:
    builder = made(f"{HERE}:Recorder")
    assert isinstance(builder, Recorder)
    assert builder.settings["principal.builder.class"] == f"{HERE}:Recorder"
    assert "hush" not in builder.settings.values()


def test_a_builder_may_be_that_of_one_listener() -> None:
    named = config(f"{HERE}:Recorder", "listener.name.own.")
    assert isinstance(principal_builder(named, "OWN"), Recorder)
    assert principal_builder(named, "OTHER") is None
    assert has_builder(named, "OWN")


@pytest.mark.parametrize(
    ("named", "why"),
    [
        (
            "org.example.Own",
            f"must be {KAFKAS}, or python:module:Class for a class that can be loaded; it is not",
        ),
        (f"{HERE}:Absent", "has no class Absent"),
        (f"{HERE}:Nothing", "class Nothing has no method build"),
        (f"{HERE}:Unmakeable", "can be made without arguments; TypeError"),
        (f"{HERE}:Misconfigured", "can be made without arguments; ValueError: no team.url"),
    ],
)
def test_a_class_that_cannot_be_refuses_the_start(named: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        made(named)
    assert str(caught.value).startswith(f"--override: principal.builder.class={named} must ")
    assert why in str(caught.value)


def test_in_a_cluster_principals_have_to_be_written() -> None:
    with pytest.raises(
        ConfigError, match=r"must name a class with the method serialize\(principal\) in a member"
    ):
        made(f"{HERE}:Recorder", **MEMBER)
    assert isinstance(made(f"{HERE}:Serializer", **MEMBER), Serializer)

"""The logins of a listener from its configuration: what is looked up where, and what prevents a start."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from barnabas.broker.security.jaas_entries import JaasFile
from barnabas.broker.security.sasl.listener import (
    PLAIN_LOGIN_MODULE,
    SCRAM_LOGIN_MODULE,
    SaslListener,
    sasl_listener,
)
from barnabas.broker.security.sasl.plain import PlainServer
from barnabas.broker.security.sasl.scram import ScramCredentials
from barnabas.broker.security.sasl.server import SaslError
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import InvalidConfigError
from barnabas.security.jaas import parse_file
from barnabas.security.token_settings import LOGIN_HANDLER
from tests.broker.security.sasl import token_broker
from tests.security.fake_gssapi import installed

PLAIN_KEY = "listener.name.sasl.plain.sasl.jaas.config"
ALICE = f'{PLAIN_LOGIN_MODULE} required user_alice="pencil";'
HANDLER = "listener.name.sasl.plain.sasl.server.callback.handler.class"


def config_of(**settings: str) -> BrokerConfig:
    """A configuration with a listener named SASL; keys by name."""
    base = {
        "listeners": "SASL://:9093,PLAINTEXT://:9092",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
    }
    return BrokerConfig.of(None, overrides=[f"{key}={value}" for key, value in {**base, **settings}.items()])


def listener_of(settings: dict[str, str], jaas_file: str | None = None) -> SaslListener:
    read = None if jaas_file is None else JaasFile(parse_file(jaas_file), "/etc/jaas.conf")
    return sasl_listener(config_of(**settings), "SASL", ScramCredentials(), read)


def errors_of(settings: dict[str, str], jaas_file: str | None = None) -> str:
    with pytest.raises(InvalidConfigError) as caught:
        listener_of(settings, jaas_file)
    return str(caught.value)


def lets_in(listener: SaslListener, user: str, password: str) -> bool:
    server = listener.mechanisms["PLAIN"].new_server()
    assert isinstance(server, PlainServer)
    try:
        server.evaluate(f"\0{user}\0{password}".encode())
    except Exception:
        return False
    return server.login is not None


def test_plain_and_scram() -> None:
    mechanisms = "SCRAM-SHA-512,PLAIN,SCRAM-SHA-256"
    listener = listener_of({"sasl.enabled.mechanisms": mechanisms, PLAIN_KEY: ALICE})
    assert list(listener.mechanisms) == ["SCRAM-SHA-512", "PLAIN", "SCRAM-SHA-256"]
    assert [each.name for each in listener.mechanisms.values()] == list(listener.mechanisms)
    assert listener.max_receive_bytes == 524_288
    assert lets_in(listener, "alice", "pencil")
    assert not lets_in(listener, "alice", "pencils")


def test_the_closest_value_counts() -> None:
    listener = listener_of(
        {
            "sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "sasl.server.max.receive.size": "1000",
            "listener.name.sasl.sasl.server.max.receive.size": "2000",
            "connections.max.reauth.ms": "1",
            "listener.name.sasl.connections.max.reauth.ms": "2",
            "listener.name.sasl.scram-sha-256.connections.max.reauth.ms": "3",
            "listener.name.other.scram-sha-512.connections.max.reauth.ms": "4",
            PLAIN_KEY: ALICE,
        }
    )
    assert listener.max_receive_bytes == 2000
    assert {name: each.max_reauth_ms for name, each in listener.mechanisms.items()} == {
        "PLAIN": 2,
        "SCRAM-SHA-256": 3,
        "SCRAM-SHA-512": 2,
    }


def test_the_default_needs_kerberos_and_the_error_says_what_to_set_instead(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)  # as if the extra were not installed
    error = errors_of({})
    assert (
        "default: sasl.enabled.mechanisms=GSSAPI needs the extra `kerberos`: pip install barnabas[kerberos]"
        in error
    )
    assert "libgssapi-krb5-2" in error
    assert "    sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-512\n" in error
    assert f"    {PLAIN_KEY}={PLAIN_LOGIN_MODULE} required user_alice=" in error
    assert f"    listener.name.sasl.scram-sha-512.sasl.jaas.config={SCRAM_LOGIN_MODULE} required;" in error


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms= must be among PLAIN"),
        (
            {"sasl.enabled.mechanisms": "PLAIN,DIGEST"},
            "must be among PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI, OAUTHBEARER",
        ),
        (
            {"listener.name.sasl.sasl.enabled.mechanisms": "plain"},
            "listener.name.sasl.sasl.enabled.mechanisms=plain",
        ),
        ({"sasl.enabled.mechanisms": "PLAIN"}, f"{PLAIN_KEY} must be set, as {PLAIN_LOGIN_MODULE} required"),
        ({PLAIN_KEY: "rubbish"}, f"{PLAIN_KEY}=[hidden] must be the entry of one login module: it ends"),
        ({PLAIN_KEY: f"{ALICE} {ALICE}"}, "it has 2 login modules"),
        (
            {PLAIN_KEY: 'org.example.Own required secret="x";'},
            f"must name {PLAIN_LOGIN_MODULE}; it names org.example",
        ),
        (
            {PLAIN_KEY: "com.sun.security.auth.module.JndiLoginModule required;"},
            "JndiLoginModule is not allowed",
        ),
        (
            {PLAIN_KEY: ALICE, HANDLER: "org.example.Own"},
            f"{HANDLER}=org.example.Own must be python:module:Class",
        ),
        (
            {PLAIN_KEY: ALICE, HANDLER: "python:nowhere_at_all:Own"},
            "must name a class that can be loaded: module nowhere",
        ),
        ({PLAIN_KEY: ALICE, HANDLER: "python:logging:Logger"}, "class Logger has no method authenticate"),
        (
            {PLAIN_KEY: ALICE, "sasl.server.callback.handler.class": "org.example.Own"},
            f"sasl.server.callback.handler.class=org.example.Own must have its prefix, as {HANDLER}",
        ),
        (
            {PLAIN_KEY: ALICE, "listener.name.sasl.plain.sasl.login.class": "org.example.Own"},
            "listener.name.sasl.plain.sasl.login.class=org.example.Own must be left out",
        ),
        (
            {
                PLAIN_KEY: ALICE,
                "listener.name.sasl.plain.sasl.login.callback.handler.class": "org.example.Own",
            },
            "sasl.login.callback.handler.class=org.example.Own must be left out",
        ),
    ],
)
def test_what_prevents_a_start(settings: dict[str, str], message: str) -> None:
    error = errors_of({"sasl.enabled.mechanisms": "PLAIN", **settings})
    assert message in error
    assert "pencil" not in error


def test_errors_come_all_at_once() -> None:
    error = errors_of(
        {
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
            "listener.name.sasl.scram-sha-256.sasl.jaas.config": "x",
            "listener.name.sasl.scram-sha-256.sasl.server.callback.handler.class": "python:a:B",
        }
    )
    assert len(error.splitlines()) == 3


@pytest.mark.parametrize(
    "handler",
    ["org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler"],
)
def test_kafkas_own_handler_is_the_one_that_is_built_in(handler: str) -> None:
    settings = {"sasl.enabled.mechanisms": "PLAIN", PLAIN_KEY: ALICE, HANDLER: handler}
    assert lets_in(listener_of(settings), "alice", "pencil")


@pytest.fixture
def own_logins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "own_logins_of_a_test.py").write_text(
        "class Own:\n"
        "    def __init__(self, options):\n"
        "        self.wanted = options['answer']\n"
        "    def authenticate(self, username, password):\n"
        "        return password == self.wanted\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    return "python:own_logins_of_a_test:Own"


def test_a_class_of_the_operators_own(own_logins: str) -> None:
    entry = f'{PLAIN_LOGIN_MODULE} required answer="hush" user_alice="pencil";'
    settings = {"sasl.enabled.mechanisms": "PLAIN", PLAIN_KEY: entry, HANDLER: own_logins}
    listener = listener_of(settings)
    assert lets_in(listener, "anybody", "hush")
    assert not lets_in(listener, "alice", "pencil")
    assert listener.mechanisms["PLAIN"].new_server().blocks


def test_a_class_that_cannot_be_made_prevents_a_start(own_logins: str) -> None:
    settings = {"sasl.enabled.mechanisms": "PLAIN", PLAIN_KEY: ALICE, HANDLER: own_logins}
    error = errors_of(settings)
    assert "must name a class that can be made: it fails with KeyError" in error


def test_the_static_file_counts_where_a_mechanism_has_no_entry_of_its_own() -> None:
    text = f'KafkaServer {{ {SCRAM_LOGIN_MODULE} required; {PLAIN_LOGIN_MODULE} required user_bob="hush"; }};'
    settings = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256"}
    listener = listener_of(settings, text)
    assert lets_in(listener, "bob", "hush")
    own = listener_of({**settings, PLAIN_KEY: ALICE}, text)
    assert lets_in(own, "alice", "pencil")
    assert not lets_in(own, "bob", "hush")


def test_several_modules_of_a_file_count_in_their_order() -> None:
    text = (
        f'KafkaServer {{ {PLAIN_LOGIN_MODULE} required user_bob="first";'
        f' {PLAIN_LOGIN_MODULE} required user_bob="second" user_carol="third"; }};'
    )
    listener = listener_of({"sasl.enabled.mechanisms": "PLAIN"}, text)
    assert [lets_in(listener, "bob", word) for word in ("first", "second")] == [True, False]
    assert lets_in(listener, "carol", "third")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("KafkaServer { };", "it names none"),
        ("Other { };", "must be set"),
        (
            "KafkaServer { com.sun.security.auth.module.LdapLoginModule required; };",
            "barnabas.jaas.config.file=/etc/jaas.conf must be a JAAS file of login modules that are allowed",
        ),
    ],
)
def test_a_static_file_that_prevents_a_start(text: str, message: str) -> None:
    assert message in errors_of({"sasl.enabled.mechanisms": "PLAIN"}, text)


def test_scram_needs_no_entry() -> None:
    assert listener_of({"sasl.enabled.mechanisms": "SCRAM-SHA-256"}, "KafkaServer { };").mechanisms


def test_a_value_of_the_listener_that_is_no_number() -> None:
    settings = {
        "sasl.enabled.mechanisms": "SCRAM-SHA-256",
        "listener.name.sasl.scram-sha-256.connections.max.reauth.ms": "3",
    }
    config = config_of(**settings)
    name = "listener.name.sasl.scram-sha-256.connections.max.reauth.ms"
    config.unknown[name] = config.unknown[name]._replace(text="soon")
    with pytest.raises(InvalidConfigError, match=f"{name}=soon must be a whole number"):
        sasl_listener(config, "SASL", ScramCredentials())


@pytest.mark.parametrize(
    ("settings", "is_wrong"),
    [
        ({"inter.broker.listener.name": "SASL"}, True),
        ({"inter.broker.listener.name": "SASL", "sasl.mechanism.inter.broker.protocol": "PLAIN"}, False),
        ({"inter.broker.listener.name": "PLAINTEXT"}, False),
    ],
)
def test_the_mechanism_between_brokers_must_be_enabled(settings: dict[str, str], is_wrong: bool) -> None:
    settings = {"sasl.enabled.mechanisms": "PLAIN", PLAIN_KEY: ALICE, **settings}
    if is_wrong:
        assert "sasl.mechanism.inter.broker.protocol=GSSAPI must be among" in errors_of(settings)
    else:
        assert listener_of(settings).mechanisms


# ---- Kerberos

GSSAPI_KEY = "listener.name.sasl.gssapi.sasl.jaas.config"
RULES = "sasl.kerberos.principal.to.local.rules"


def krb5(keytab: str = "/kafka.keytab", **more: str) -> str:
    options = {
        "useKeyTab": "true",
        "storeKey": "true",
        "keyTab": keytab,
        "principal": "kafka/h@R",
        "serviceName": "kafka",
        **more,
    }
    words = " ".join(f'{key}="{value}"' for key, value in options.items() if value)
    return f"com.sun.security.auth.module.Krb5LoginModule required {words};"


def login_by_kerberos(listener: SaslListener, principal: str) -> str | None:
    """The name of whom the mechanism lets in; None where it lets nobody in."""
    server = listener.mechanisms["GSSAPI"].new_server()
    server.evaluate(f"AP-REQ {principal} kafka@h".encode())
    server.evaluate(b"")
    try:
        server.evaluate(b"wrapped \1\0\0\0")
    except SaslError:
        return None
    return None if server.login is None else server.login.authorization_id


def test_kerberos(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    listener = listener_of({GSSAPI_KEY: krb5(), "connections.max.reauth.ms": "9"})
    assert list(listener.mechanisms) == ["GSSAPI"]
    assert listener.mechanisms["GSSAPI"].max_reauth_ms == 9
    assert login_by_kerberos(listener, "alice@R") == "alice"
    assert login_by_kerberos(listener, "alice@OTHER") is None


def test_kerberos_from_the_static_file_with_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    rules = {f"listener.name.sasl.{RULES}": "RULE:[1:$1@$0](.*@OTHER)s/@.*//U", RULES: "DEFAULT"}
    service = {"sasl.kerberos.service.name": "kafka"}
    listener = listener_of({**rules, **service}, f"KafkaServer {{ {krb5(serviceName='')} }};")
    assert login_by_kerberos(listener, "alice@OTHER") == "ALICE"
    assert login_by_kerberos(listener, "alice@R") is None


def test_beside_a_builder_of_the_operators_own_the_rules_do_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    installed(monkeypatch)
    listener = listener_of({GSSAPI_KEY: krb5(), "principal.builder.class": "python:somewhere:Else"})
    assert login_by_kerberos(listener, "alice@OTHER") == "alice@OTHER"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {},
            f"{GSSAPI_KEY} must be set, as com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true",
        ),
        ({GSSAPI_KEY: ALICE}, "must name com.sun.security.auth.module.Krb5LoginModule; it names"),
        (
            {GSSAPI_KEY: krb5("/absent")},
            f"{GSSAPI_KEY}=[hidden] must have a principal whose keys are in its keytab: Key",
        ),
        ({GSSAPI_KEY: krb5(useTicketCache="true")}, f"{GSSAPI_KEY}=[hidden] must have no useTicketCache"),
        (
            {GSSAPI_KEY: krb5(), "sasl.kerberos.service.name": "other"},
            "must have the serviceName of sasl.kerberos.service.name, which is other",
        ),
        (
            {GSSAPI_KEY: krb5(), f"listener.name.sasl.{RULES}": "nonsense"},
            f"--override: listener.name.sasl.{RULES}=nonsense must be of DEFAULT and RULE:",
        ),
        (
            {GSSAPI_KEY: krb5(), "listener.name.sasl.gssapi.sasl.server.callback.handler.class": "a.B"},
            "must be org.apache.kafka.common.security.authenticator.SaslServerCallbackHandler, or left out",
        ),
    ],
)
def test_kerberos_that_cannot_be(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], message: str
) -> None:
    installed(monkeypatch)
    assert message in errors_of(settings)


def test_an_error_about_a_default_of_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    assert f"{RULES}=x must be of DEFAULT" in errors_of({GSSAPI_KEY: krb5(), RULES: "x"})


# ---- OAUTHBEARER, whose settings have tests of their own


def test_oauthbearer_with_a_login_of_this_broker() -> None:
    handler = f"{token_broker.PREFIX}sasl.login.callback.handler.class"
    settings = {**token_broker.SIGNED, **token_broker.KEYS_URL, handler: LOGIN_HANDLER}
    assert list(token_broker.Broker().listener(settings).mechanisms) == ["OAUTHBEARER"]
    assert "must be left out" in token_broker.Broker().errors({**settings, handler: "org.example.Own"})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, f"{token_broker.HANDLER} must be {token_broker.PACKAGE}.OAuthBearerValidatorCallbackHandler"),
        (token_broker.SIGNED, f"{token_broker.PREFIX}{token_broker.URL} must be a URL"),
        (
            {**token_broker.SIGNED, token_broker.URL: "x"},
            f"{token_broker.URL}=x must be a URL of http, https or file",
        ),
        ({token_broker.HANDLER: "org.example.Own"}, "there is no JVM here for another Java class"),
    ],
)
def test_oauthbearer_that_prevents_a_start(settings: dict[str, str], message: str) -> None:
    assert message in token_broker.Broker().errors(settings)

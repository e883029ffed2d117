"""What is refused before a start, and what is weak, of a whole configuration with its files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from barnabas.broker.http.server import OPEN
from barnabas.broker.startup.listener_securities import ListenerSecurities
from barnabas.broker.startup.security_check import check_security, weaknesses_of
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import InvalidConfigError
from barnabas.security.token_settings import LOGIN_HANDLER, LOGIN_MODULE, VALIDATOR_HANDLER
from tests.broker.network.tls_listeners import BROKER, CA, pem, write_certificates
from tests.broker.security.test_weaknesses import MEMBER, PLAIN, STANDARD
from tests.support.certificates import Authority
from tests.support.identity_provider import IdentityProvider
from tests.support.tokens import SigningKey, key_set

PLAIN_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
MAP = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,SSL:SSL,CONTROLLER:SASL_SSL"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_certificates(tmp_path)
    return tmp_path


def config_of(*lines: str) -> BrokerConfig:
    return BrokerConfig.of("\n".join([MAP, *lines]).encode(), file_name="f")


def tls(folder: Path, name: str = "broker") -> list[str]:
    return [
        "listeners=SSL://localhost:9093",
        STANDARD,
        "ssl.keystore.type=PEM",
        f"ssl.keystore.location={folder}/{name}.pem",
        "ssl.truststore.type=PEM",
        f"ssl.truststore.location={folder}/ca.pem",
    ]


def weak(*lines: str, environ: dict[str, str] | None = None) -> list[str]:
    return [str(each) for each in check_security(config_of(*lines), environ or {})]


def errors(*lines: str, environ: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(InvalidConfigError) as caught:
        check_security(config_of(*lines), environ or {})
    return str(caught.value).splitlines()


def test_a_broker_that_protects_nothing() -> None:
    assert weak("listeners=PLAINTEXT://:9092") == []


def test_everything_that_prevents_a_start_is_reported_at_once(folder: Path) -> None:
    found = errors(
        "listeners=SASL://localhost:9092,SSL://localhost:9093",
        PLAIN,
        f'listener.name.sasl.plain.sasl.jaas.config={PLAIN_LOGIN_MODULE} required user_alice="secret',
        "ssl.keystore.location=/missing",
        "ssl.keystore.password=secret",
        "authorizer.class.name=python:no_such_module:Class",
        "barnabas.http.security.protocol=SASL_PLAINTEXT",
        "barnabas.http.sasl.jaas.config=secret",
    )
    wanted = [
        "f line 4: listener.name.sasl.plain.sasl.jaas.config=[hidden] must be the entry of one login module: ",
        "f line 5: ssl.keystore.location=/missing cannot be read",
        "f line 9: barnabas.http.sasl.jaas.config=[hidden] must be the entry",
        "authorizer.class.name=python:no_such_module:Class must be python:module:Class",
    ]
    assert len(found) == len(wanted)
    assert all(text in line for line, text in zip(found, wanted, strict=True)), found
    assert not any("secret" in line for line in found)


def test_the_logins_of_a_member_to_its_peers_are_checked(folder: Path) -> None:
    lines = [*tls(folder), *MEMBER, "sasl.mechanism.controller.protocol=PLAIN"]
    (error,) = errors(*lines)
    assert "listener.name.controller.plain.sasl.jaas.config" in error
    login = f'listener.name.controller.plain.sasl.jaas.config={PLAIN_LOGIN_MODULE} required username="b" password="c";'
    found = [line for line in weak(*lines, login) if "localhost" not in line]
    assert not any("expires" not in line for line in found)


def test_certificates_of_listeners_and_of_the_http_port(folder: Path) -> None:
    found = weak(*tls(folder), "barnabas.http.security.protocol=SSL")
    assert [line.partition(" that expires")[0] for line in found] == [
        "f line 5: ssl.keystore.location has a certificate of listener SSL",
        "f line 5: ssl.keystore.location has a certificate of listener http",
    ]


def test_certificates_within_the_configuration(folder: Path) -> None:
    chain, key = (text.replace("\n", "\\n") for text in (BROKER.chain_pem(), BROKER.key_pem()))
    inline = [f"ssl.keystore.certificate.chain={chain}", f"ssl.keystore.key={key}", "ssl.keystore.type=PEM"]
    (line, *_) = weak("listeners=SSL://localhost:9093", STANDARD, *inline)
    assert line.startswith(
        "f line 4: ssl.keystore.certificate.chain has a certificate of listener SSL that expires"
    )


def test_a_trust_store_that_has_expired(folder: Path) -> None:
    old = CA.issue("old authority", ends_in_days=-1)
    (folder / "ca.pem").write_text(old.pem)
    (folder / "broker.pem").write_text(pem(Authority().issue("broker", ends_in_days=400)))
    found = weak(*tls(folder))
    assert [line.partition("location ")[2] for line in found] == [
        "is of listener SSL, which trusts no certificate that has not expired"
    ]


def test_files_that_every_user_can_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from barnabas.broker.security import weaknesses

    monkeypatch.setattr(weaknesses, "is_public", lambda path: path.endswith((".jaas", "broker.pem")))
    (folder / "a.jaas").write_text(f'KafkaServer {{ {PLAIN_LOGIN_MODULE} required user_a="b"; }};')
    options = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={folder}/a.jaas"}
    found = [line for line in weak(*tls(folder), environ=options) if "every user" in line]
    assert [line.partition(",")[0] for line in found] == [
        f"environment variable KAFKA_OPTS: barnabas.jaas.config.file names passwords in {folder}/a.jaas",
        "f line 5: ssl.keystore.location names a private key",
    ]
    missing = {"KAFKA_OPTS": "-Djava.security.auth.login.config=/missing"}
    assert not any("jaas" in line for line in weak(*tls(folder), environ=missing))


def test_a_start_says_the_same(folder: Path) -> None:
    loop = asyncio.new_event_loop()
    config = config_of(*tls(folder))
    securities = ListenerSecurities(config, loop, InlineRunner(), {})
    assert weaknesses_of(config, securities, OPEN, {}) == check_security(config, {})
    loop.close()


# ---- OAUTHBEARER

PREFIX = "listener.name.sasl.oauthbearer.sasl."
TOKENS = (
    "listeners=SASL://localhost:9093",
    STANDARD,
    "sasl.enabled.mechanisms=OAUTHBEARER",
    f"{PREFIX}server.callback.handler.class={VALIDATOR_HANDLER}",
    f"{PREFIX}oauthbearer.expected.issuer=https://login.example",
)


def test_the_keys_of_an_identity_provider_are_not_fetched() -> None:
    with IdentityProvider() as provider:
        assert weak(*TOKENS, f"{PREFIX}oauthbearer.jwks.endpoint.url={provider.keys_url}") == []
        assert provider.asked("/keys") == 0


def test_the_keys_of_an_identity_provider_in_a_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    url = f"{PREFIX}oauthbearer.jwks.endpoint.url=file://{path}"
    (error,) = errors(*TOKENS, url)
    assert "must have the identity provider's keys: " in error
    path.write_text("{}")
    (error,) = errors(*TOKENS, url)
    assert "cannot be used" in error
    path.write_bytes(key_set(SigningKey()))
    assert weak(*TOKENS, url) == []


def test_every_setting_of_oauthbearer_is_checked() -> None:
    found = errors(
        *TOKENS,
        f"{PREFIX}oauthbearer.jwks.endpoint.url=https://login.example/keys",
        f'{PREFIX}jaas.config={LOGIN_MODULE} required ssl.truststore.location="/missing";',
    )
    assert len(found) == 1
    assert f"{PREFIX}jaas.config" in found[0]
    assert "must have an option ssl.truststore.location that can be used" in found[0]
    (error,) = errors(*TOKENS, f"{PREFIX}oauthbearer.clock.skew.seconds=many")
    assert "sasl.oauthbearer.clock.skew.seconds=many must be a whole number" in error
    (error,) = errors("listeners=SASL://localhost:9093", STANDARD, "sasl.enabled.mechanisms=OAUTHBEARER")
    assert f"{PREFIX}server.callback.handler.class must be {VALIDATOR_HANDLER}" in error


def test_the_logins_of_a_member_by_tokens_are_checked(folder: Path) -> None:
    peer = "listener.name.controller.oauthbearer.sasl."
    lines = [
        *tls(folder),
        *MEMBER,
        "sasl.mechanism.controller.protocol=OAUTHBEARER",
        f"{peer}jaas.config={LOGIN_MODULE} required;",
        f"{peer}login.callback.handler.class={LOGIN_HANDLER}",
        f"{peer}oauthbearer.client.credentials.client.id=broker",
        f"{peer}oauthbearer.client.credentials.client.secret=secret",
    ]
    (error,) = errors(*lines)
    assert "oauthbearer.token.endpoint.url must be a URL" in error
    with IdentityProvider({"broker": "secret"}) as provider:
        assert all(
            "expires" in line
            for line in weak(*lines, f"{peer}oauthbearer.token.endpoint.url={provider.token_url}")
        )
        assert provider.requests == []

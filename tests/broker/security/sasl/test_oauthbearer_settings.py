"""OAUTHBEARER of a listener from its configuration: who checks the tokens, and what prevents a start."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.security.sasl.jwks import RefreshTimes
from barnabas.broker.security.sasl.listener import SaslListener
from barnabas.broker.security.sasl.oauthbearer import OAuthBearerMechanism
from barnabas.broker.security.sasl.oauthbearer_settings import Provider, handler_hint
from barnabas.security.errors import ProviderError
from tests.broker.security.sasl.test_oauthbearer import message
from tests.broker.security.sasl.token_broker import (
    HANDLER,
    JAAS,
    KEY,
    KEYS_URL,
    MODULE,
    NOW,
    PACKAGE,
    PREFIX,
    SIGNED,
    URL,
    Broker,
)
from tests.support.certificates import Authority
from tests.support.tokens import ISSUER, unsigned_token

UNSECURED = {HANDLER: f"{PACKAGE}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"}
ALLOWED = {"barnabas.oauthbearer.allow.unsecured": "true"}


def user_of(listener: SaslListener, token: str) -> str | None:
    server = listener.mechanisms["OAUTHBEARER"].new_server()
    server.evaluate(message(token))
    return None if server.login is None else server.login.authorization_id


def test_signed_tokens_with_every_setting() -> None:
    broker = Broker()
    listener = broker.listener(
        {
            **SIGNED,
            f"{PREFIX}{URL}": "http://login.example/keys",
            URL: "http://elsewhere.example/",
            "sasl.oauthbearer.jwks.endpoint.refresh.ms": "5",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "6",
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "7",
            f"listener.name.sasl.{'sasl.oauthbearer.expected.issuer'}": ISSUER,
            f"{PREFIX}sasl.oauthbearer.expected.audience": "kafka,other",
            "sasl.oauthbearer.clock.skew.seconds": "0",
            "sasl.oauthbearer.sub.claim.name": "name",
            "sasl.oauthbearer.scope.claim.name": "scp",
            "sasl.oauthbearer.jwt.validator.class": f"{PACKAGE}.BrokerJwtValidator",
            f"{PREFIX}connections.max.reauth.ms": "8",
            f"{PREFIX}sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
            JAAS: f'{MODULE} required clientId="broker";',
        }
    )
    assert broker.asked == [Provider("http://login.example/keys", (), RefreshTimes(5, 6, 7))]
    mechanism = listener.mechanisms["OAUTHBEARER"]
    assert isinstance(mechanism, OAuthBearerMechanism)
    assert (mechanism.name, mechanism.max_reauth_ms, mechanism.takes_unsigned) == ("OAUTHBEARER", 8, False)
    claims = {"name": "alice", "iss": ISSUER, "aud": "other"}
    assert user_of(listener, KEY.token(claims, NOW)) == "alice"
    assert user_of(listener, KEY.token({**claims, "iss": "x"}, NOW)) is None
    assert user_of(listener, KEY.token({**claims, "aud": "x"}, NOW)) is None
    assert user_of(listener, KEY.token({**claims, "scp": [1]}, NOW)) is None
    assert user_of(listener, KEY.token({**claims, "exp": NOW, "iat": NOW - 1}, NOW)) is None


def test_an_entry_is_not_needed() -> None:
    assert user_of(Broker().listener({**SIGNED, **KEYS_URL}), KEY.token({"sub": "alice"}, NOW)) == "alice"


def test_a_provider_at_https_with_stores_of_the_entry(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(Authority("CA").pem)
    entry = f'{MODULE} required ssl.truststore.type="PEM" ssl.truststore.location="{path}" x="y";'
    broker = Broker()
    broker.listener({**SIGNED, URL: "https://login.example/keys", JAAS: entry})
    options = (("ssl.truststore.location", str(path)), ("ssl.truststore.type", "PEM"))
    assert (broker.asked[0].tls, broker.has_context) == (options, [True])
    path.unlink()
    error = broker.errors({**SIGNED, URL: "https://login.example/keys", JAAS: entry})
    assert f"{JAAS}=[hidden] must have an option ssl.truststore.location that can be used: it" in error


# ---- unsigned tokens


@pytest.mark.parametrize(
    "settings", [{}, UNSECURED, {"barnabas.oauthbearer.allow.unsecured": "false"}, KEYS_URL]
)
def test_unsigned_tokens_are_never_taken_silently(settings: dict[str, str]) -> None:
    error = Broker().errors(settings)
    assert f"{HANDLER}" in error
    assert f"must be {PACKAGE}.OAuthBearerValidatorCallbackHandler, with {URL} beside it" in error
    assert "takes tokens that nobody has signed" in error
    assert "barnabas.oauthbearer.allow.unsecured=true" in error


@pytest.mark.parametrize("settings", [ALLOWED, {**ALLOWED, **UNSECURED}])
def test_unsigned_tokens_where_they_are_allowed(settings: dict[str, str]) -> None:
    listener = Broker().listener(
        {**settings, JAAS: f'{MODULE} required unsecuredValidatorPrincipalClaimName="name";'}
    )
    assert user_of(listener, unsigned_token({"name": "alice", "exp": NOW + 9})) == "alice"
    assert user_of(listener, unsigned_token({"sub": "alice", "exp": NOW + 9})) is None


def test_the_permission_does_not_weaken_signed_tokens() -> None:
    listener = Broker().listener({**ALLOWED, **SIGNED, **KEYS_URL})
    assert user_of(listener, unsigned_token({"sub": "alice", "exp": NOW + 9, "iat": NOW})) is None


# ---- a class of the operator's own


def test_a_hook() -> None:
    hook = f"python:{__name__}:Hook"
    listener = Broker().listener({HANDLER: hook, JAAS: f'{MODULE} required answer="alice";'})
    assert user_of(listener, "opaque") == "alice"
    assert "has no method validate" in Broker().errors({HANDLER: f"python:{__name__}:Broker"})
    assert "must name a class that can be made: it fails with KeyError" in Broker().errors({HANDLER: hook})


class Hook:
    def __init__(self, options: dict[str, str]) -> None:
        self._answer = options["answer"]

    def validate(self, token: str) -> tuple[str, int]:
        return self._answer, (NOW + 9) * 1000


# ---- what prevents a start


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            SIGNED,
            f"{PREFIX}{URL} must be a URL of http, https or file: where the identity provider publishes",
        ),
        ({**SIGNED, URL: "ftp://x"}, f"{URL}=ftp://x must be a URL of http, https or file"),
        (
            {**SIGNED, **KEYS_URL, "sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"},
            "refresh.ms=0 must be at least 1",
        ),
        (
            {**SIGNED, **KEYS_URL, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "-1"},
            "backoff.ms=-1 must be at least 0",
        ),
        (
            {**SIGNED, **KEYS_URL, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "99"},
            "backoff.max.ms=99 must be at least 100",
        ),
        (
            {**SIGNED, **KEYS_URL, "sasl.oauthbearer.clock.skew.seconds": "-1"},
            "seconds=-1 must be at least 0",
        ),
        ({**SIGNED, **KEYS_URL, "sasl.oauthbearer.sub.claim.name": " "}, "must be the name of a claim"),
        ({**SIGNED, **KEYS_URL, "sasl.oauthbearer.scope.claim.name": ""}, "must be the name of a claim"),
        ({**SIGNED, **KEYS_URL, f"{PREFIX}sasl.oauthbearer.clock.skew.seconds": "x"}, "seconds=x must be"),
        (
            {**SIGNED, **KEYS_URL, "sasl.oauthbearer.jwt.validator.class": f"{PACKAGE}.ClientJwtValidator"},
            "must be left out, or one of",
        ),
        ({HANDLER: "org.example.Own"}, "there is no JVM here for another Java class"),
        (
            {HANDLER: f"{PACKAGE}.secured.OAuthBearerValidatorCallbackHandler"},
            "the name that it had before Kafka 4",
        ),
        (
            {**SIGNED, **KEYS_URL, f"{PREFIX}sasl.login.callback.handler.class": "org.example.X"},
            "must be left out",
        ),
        ({**SIGNED, **KEYS_URL, f"{PREFIX}sasl.login.class": "org.example.X"}, "must be left out"),
        (
            {**ALLOWED, JAAS: f'{MODULE} required unsecuredValidatorAllowableClockSkewMs="x";'},
            "ClockSkewMs must be",
        ),
        ({**SIGNED, **KEYS_URL, JAAS: "org.example.Own required;"}, f"must name {MODULE}"),
    ],
)
def test_what_prevents_a_start(settings: dict[str, str], reason: str) -> None:
    assert reason in Broker().errors(settings)


def test_a_provider_that_does_not_answer_prevents_a_start() -> None:
    broker = Broker()
    broker.error = ProviderError("it does not answer")
    error = broker.errors({**SIGNED, **KEYS_URL})
    assert (
        f"{URL}=http://login.example/keys must have the identity provider's keys: it does not answer" in error
    )


@pytest.mark.parametrize(
    ("java_options", "is_allowed"),
    [
        ("", True),
        ("-Xmx1g", True),
        ("-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=http://login.example/keys", True),
        ("-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=http://a,http://login.example/keys -Xmx1g", True),
        ("-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=http://login.example/", False),
        ("-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=", False),
    ],
)
def test_the_permission_of_java_is_kept_to_where_there_is_one(java_options: str, is_allowed: bool) -> None:
    broker = Broker(java_options)
    if is_allowed:
        broker.listener({**SIGNED, **KEYS_URL})
    else:
        assert "org.apache.kafka.sasl.oauthbearer.allowed.urls= of KAFKA_OPTS" in broker.errors(
            {**SIGNED, **KEYS_URL}
        )


def test_the_hint_for_a_class() -> None:
    assert "python:module:Class" in handler_hint("x")

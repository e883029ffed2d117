"""Stock clients log in by OAUTHBEARER with tokens of an identity provider: librdkafka, aiokafka, kafka-python, Java."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Consumer, KafkaError, Producer

from barnabas.security.json_web_tokens import unverified_parts
from tests.conformance.kafka_jars import KAFKA_VERSION
from tests.interop.clients.kafka_python import AbstractTokenProvider
from tests.interop.clients.lines import LineClientError
from tests.interop.clients.logging_in import (
    aiokafka_keeps_sending,
    aiokafka_round_trip,
    aiokafka_stays_outside,
    kafka_python_round_trip,
)
from tests.interop.clients.login_programs import GO, TRIP, Login, LoginProgram, java_logins, login_program
from tests.support.broker_process import BrokerProcess
from tests.support.identity_provider import IdentityProvider
from tests.support.ports import held_ports
from tests.support.sasl import listener_settings
from tests.support.tokens import ISSUER, SigningKey

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(120),
]

LIMIT_S = 40.0
RENEWAL_LIMIT_S = 200.0
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{PACKAGE}.OAuthBearerLoginModule"
SECRETS = {"alice": "alice-secret", "bob": "bob-secret"}
SESSION_S = 8
HTTP = re.compile(r"metrics on (http://\S+/metrics)")


class TokenBroker:
    """A broker that takes the tokens of an identity provider, and a listener without logins for its administrator."""

    def __init__(self, broker: BrokerProcess, provider: IdentityProvider) -> None:
        self.broker = broker
        self.provider = provider
        (self.port,) = held_ports(1)
        handler = f"{PACKAGE}.OAuthBearerValidatorCallbackHandler"
        mechanism = "listener.name.sasl.oauthbearer"
        broker.overrides |= {
            "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},SASL://127.0.0.1:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT",
            "group.initial.rebalance.delay.ms": "0",
            "barnabas.http.port": "0",
            **listener_settings("SASL", {"OAUTHBEARER": f"{MODULE} required;"}),
            f"{mechanism}.sasl.server.callback.handler.class": handler,
            f"{mechanism}.sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
            f"{mechanism}.sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": "kafka",
            "sasl.oauthbearer.clock.skew.seconds": "120",  # a client may get no processor between token and login
        }
        provider.claims = {"aud": ["kafka", "account"]}

    def metric(self, name: str) -> float:
        """A metric of all listeners."""
        found = HTTP.search(self.broker.output)
        assert found is not None
        with urllib.request.urlopen(found[1], timeout=LIMIT_S) as response:
            lines = response.read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name}{{"))

    def authentications(self, name: str) -> float:
        return self.metric(f"kafka_server_socket_server_metrics_{name}")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenBroker]:
    broker = BrokerProcess(tmp_path_factory.mktemp("tokens") / "data")
    with IdentityProvider(SECRETS) as provider:
        made = TokenBroker(broker, provider)
        try:
            broker.start()
            yield made
            assert broker.stop() == broker.clean_status
            for secret in (*SECRETS.values(), "eyJ"):  # as every token begins
                assert secret not in broker.output
        finally:
            broker.kill()


@pytest.fixture
def short_sessions(tokens: TokenBroker) -> Iterator[None]:
    tokens.provider.lifetime_s = SESSION_S
    yield
    tokens.provider.lifetime_s = 300


# ---- librdkafka


def librdkafka(tokens: TokenBroker, make: Callable[[], str]) -> dict[str, Any]:
    def oauth(_: str) -> tuple[str, float]:
        token = make()
        ends: float = unverified_parts(token)[1]["exp"]
        return token, max(ends, time.time() + 2)  # of one that has ended, too, or the client does not send it

    return {
        "bootstrap.servers": f"127.0.0.1:{tokens.port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": oauth,
        "log_level": 0,
    }


def failed_login(settings: dict[str, Any]) -> str:
    """What librdkafka reports of a login that has failed."""
    texts: list[str] = []

    def error(found: KafkaError) -> None:
        if found.code() == KafkaError._AUTHENTICATION:
            texts.append(found.str())

    producer = Producer({**settings, "error_cb": error})
    deadline = time.monotonic() + LIMIT_S
    while not texts and time.monotonic() < deadline:
        producer.poll(0.05)
    producer.purge()
    return texts[0] if texts else ""


def consume(settings: dict[str, Any], topic: str, count: int) -> list[bytes]:
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    values: list[bytes] = []
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + LIMIT_S
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                values.append(message.value() or b"")
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    return values


def test_librdkafka_produces_and_consumes_in_a_group(tokens: TokenBroker) -> None:
    topic = f"tokens-{uuid.uuid4().hex[:8]}"
    producer = Producer(librdkafka(tokens, lambda: tokens.provider.token("alice")))
    for number in range(10):
        producer.produce(topic, str(number))
    assert producer.flush(LIMIT_S) == 0
    settings = librdkafka(tokens, lambda: tokens.provider.token("bob"))
    assert consume(settings, topic, 10) == [b"%d" % number for number in range(10)]


def test_librdkafka_asks_the_provider_itself(tokens: TokenBroker) -> None:
    topic = f"tokens-{uuid.uuid4().hex[:8]}"
    settings = librdkafka(tokens, str)
    del settings["oauth_cb"]
    settings |= {
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "alice",
        "sasl.oauthbearer.client.secret": SECRETS["alice"],
        "sasl.oauthbearer.token.endpoint.url": tokens.provider.token_url,
        "sasl.oauthbearer.scope": "kafka",
    }
    producer = Producer(settings)
    producer.produce(topic, b"x")
    assert producer.flush(LIMIT_S) == 0


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"aud": "other"}, "its claim aud names none of"),
        ({"iss": "https://elsewhere"}, "its claim iss is not"),
        ({"exp": 1_500_000_000, "iat": 1_400_000_000}, "it has expired"),
    ],
)
def test_librdkafka_with_a_wrong_token_stays_outside(
    tokens: TokenBroker, claims: dict[str, Any], reason: str
) -> None:
    failures = tokens.authentications("failed_authentication_total")
    settings = librdkafka(tokens, lambda: tokens.provider.token("mallory", **claims))
    assert 'SASL authentication error: {"status":"invalid_token"}' in failed_login(settings)
    assert tokens.authentications("failed_authentication_total") > failures
    line = f"mechanism OAUTHBEARER, user mallory: the token is rejected: {reason}"
    deadline = time.monotonic() + LIMIT_S
    while line not in tokens.broker.output and time.monotonic() < deadline:
        failed_login(settings)  # a line a second at most
    assert line in tokens.broker.output


def test_librdkafka_renews_its_session_three_times(tokens: TokenBroker, short_sessions: None) -> None:
    """It renews after nine tenths of a session, with the token that it has. An old one, on a busy machine, makes the
    next session so short that it renews within the same second, which is refused as by Apache Kafka, or too late. Then
    it connects again, with a token that may have expired, which the skew between clocks allows.
    """
    renewals = tokens.authentications("successful_reauthentication_total")
    refusals: list[str] = []

    def error(found: KafkaError) -> None:
        if found.code() == KafkaError._AUTHENTICATION:
            refusals.append(found.str())

    settings = librdkafka(tokens, lambda: tokens.provider.token("alice"))
    producer = Producer({**settings, "error_cb": error})
    topic = f"renewals-{uuid.uuid4().hex[:8]}"
    deadline = time.monotonic() + 3 * LIMIT_S
    while (
        tokens.authentications("successful_reauthentication_total") < renewals + 3
        and time.monotonic() < deadline
    ):
        producer.produce(topic, b"x")
        producer.poll(0.2)
    assert producer.flush(LIMIT_S) == 0
    assert tokens.authentications("successful_reauthentication_total") >= renewals + 3
    assert [text for text in refusals if "Request not valid in current SASL state" not in text] == []


def test_a_new_key_of_the_provider_is_fetched_when_a_token_names_it(tokens: TokenBroker) -> None:
    old = tokens.provider.keys
    tokens.provider.keys = [SigningKey("ES256", uuid.uuid4().hex), *old]
    try:
        producer = Producer(librdkafka(tokens, lambda: tokens.provider.token("alice")))
        topic = f"tokens-{uuid.uuid4().hex[:8]}"
        producer.produce(topic, b"x")
        assert producer.flush(LIMIT_S) == 0
    finally:
        tokens.provider.keys = old
    assert tokens.metric("barnabas_oauthbearer_jwks_keys") == 2
    assert tokens.metric("barnabas_oauthbearer_jwks_age_seconds") < 60
    assert tokens.metric("barnabas_oauthbearer_jwks_refresh_failures_total") == 0


# ---- aiokafka


class AioTokens(AioTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, make: Callable[[], str]) -> None:
        self._make = make

    async def token(self) -> str:
        return self._make()


def aiokafka(tokens: TokenBroker, make: Callable[[], str]) -> dict[str, Any]:
    return {
        "bootstrap_servers": f"127.0.0.1:{tokens.port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": AioTokens(make),
    }


async def test_aiokafka_produces_and_consumes_in_a_group(tokens: TokenBroker) -> None:
    topic = f"aio-{uuid.uuid4().hex[:8]}"
    settings = aiokafka(tokens, lambda: tokens.provider.token("alice"))
    await aiokafka_round_trip(settings, topic, limit_s=LIMIT_S)


async def test_aiokafka_with_a_wrong_token_stays_outside(tokens: TokenBroker) -> None:
    await aiokafka_stays_outside(aiokafka(tokens, lambda: tokens.provider.token("alice", aud="other")))


async def test_aiokafka_connects_again_when_its_token_has_ended(
    tokens: TokenBroker, short_sessions: None
) -> None:
    topic = f"aio-{uuid.uuid4().hex[:8]}"
    settings = aiokafka(tokens, lambda: tokens.provider.token("alice"))
    await aiokafka_keeps_sending(settings, topic, 1.5 * SESSION_S)


# ---- kafka-python


class KafkaPythonTokens(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python has no types
    def __init__(self, make: Callable[[], str]) -> None:
        super().__init__()
        self._make = make

    def token(self) -> str:
        return self._make()


def test_kafka_python_produces_and_consumes_in_a_group(tokens: TokenBroker) -> None:
    topic = f"kp-{uuid.uuid4().hex[:8]}"
    settings: dict[str, Any] = {
        "bootstrap_servers": f"127.0.0.1:{tokens.port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": KafkaPythonTokens(lambda: tokens.provider.token("alice")),
    }
    kafka_python_round_trip(settings, topic, limit_s=LIMIT_S)


KAFKA_PYTHON = """
import json, sys
import kafka
from kafka.net.sasl.oauth import AbstractTokenProvider
settings = json.loads(sys.argv[1])
class Tokens(AbstractTokenProvider):
    def token(self):
        return settings["token"]
try:
    kafka.KafkaProducer(
        bootstrap_servers=settings["servers"], security_protocol="SASL_PLAINTEXT", sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Tokens(), bootstrap_timeout_ms=1000,
    )
except kafka.errors.KafkaError as error:
    print("rejected", type(error).__name__)
"""
"""In a process of its own: it leaves its sockets open where it cannot connect."""


def test_kafka_python_with_a_wrong_token_stays_outside(tokens: TokenBroker) -> None:
    token = tokens.provider.token("alice", aud="other")
    settings = json.dumps({"servers": f"127.0.0.1:{tokens.port}", "token": token})
    command = [sys.executable, "-W", "ignore", "-c", KAFKA_PYTHON, settings]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.startswith("rejected"), ran.stdout + ran.stderr


# ---- Go


@pytest.fixture(scope="module", params=[pytest.param(name, marks=pytest.mark.slow) for name in GO])
def go(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginProgram]:
    """franz-go, and sarama."""
    program = login_program(request.param, tmp_path_factory.mktemp("go"))
    yield program
    program.close()


def go_login(tokens: TokenBroker, file: Path, token: str) -> Login:
    """A login by this token, until another one is in the file."""
    replace_token(file, token)
    return Login(f"127.0.0.1:{tokens.port}", "OAUTHBEARER", bearer=str(file))


def replace_token(file: Path, token: str) -> None:
    """At once, since a client may be reading it."""
    new = file.with_suffix(".new")
    new.write_text(token + "\n")
    os.replace(new, file)


@pytest.mark.timeout(900)
def test_go_commits_a_transaction_and_reads_it_in_a_group(
    tokens: TokenBroker, go: LoginProgram, tmp_path: Path
) -> None:
    login = go_login(tokens, tmp_path / "token", tokens.provider.token("alice"))
    assert go.trip(login, f"go-{uuid.uuid4().hex[:8]}") == TRIP


def test_go_with_a_wrong_token_stays_outside(tokens: TokenBroker, go: LoginProgram, tmp_path: Path) -> None:
    login = go_login(tokens, tmp_path / "token", tokens.provider.token("alice", aud="other"))
    with pytest.raises(LineClientError, match=r"oauth response|invalid credentials"):
        go.open(login, "never")
    go.shut()


@pytest.mark.timeout(400)
def test_go_renews_its_session_three_times(
    tokens: TokenBroker, short_sessions: None, go: LoginProgram, tmp_path: Path
) -> None:
    """By the broker's count: one that got no processor in time may have to connect again."""
    renewals = tokens.authentications("successful_reauthentication_total")
    file = tmp_path / "token"
    go.open(go_login(tokens, file, tokens.provider.token("alice")), f"go-{uuid.uuid4().hex[:8]}")
    deadline = time.monotonic() + RENEWAL_LIMIT_S
    while (
        tokens.authentications("successful_reauthentication_total") < renewals + 3
        and time.monotonic() < deadline
    ):
        replace_token(file, tokens.provider.token("alice"))
        go.send()
    go.shut()
    assert tokens.authentications("successful_reauthentication_total") >= renewals + 3


# ---- our own commands


def properties(directory: Path, tokens: TokenBroker, secret: str = SECRETS["alice"], **more: str) -> Path:
    """The properties of a client, of Kafka's tools and of ours."""
    found = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": tokens.provider.token_url,
        "sasl.jaas.config": f'{MODULE} required clientId="alice" clientSecret="{secret}" scope="kafka";',
        **more,
    }
    path = directory / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in found.items()))
    return path


def barnabas(tokens: TokenBroker, file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "barnabas.cli.main", *words]
    where = ["--bootstrap-server", f"127.0.0.1:{tokens.port}", "--command-config", str(file)]
    return subprocess.run([*command, *where], capture_output=True, text=True, timeout=60, check=False)


def test_a_command_of_ours(tokens: TokenBroker, tmp_path: Path) -> None:
    ran = barnabas(tokens, properties(tmp_path, tokens), "topics", "--list")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_command_of_ours_with_a_token_in_a_file(tokens: TokenBroker, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(tokens.provider.token("alice") + "\n")
    url = f"file://{tmp_path / 'token'}"
    file = properties(tmp_path, tokens, **{"sasl.oauthbearer.token.endpoint.url": url})
    ran = barnabas(tokens, file, "topics", "--list")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_command_of_ours_with_a_wrong_secret(tokens: TokenBroker, tmp_path: Path) -> None:
    ran = barnabas(tokens, properties(tmp_path, tokens, "wrong"), "topics", "--list")
    assert ran.returncode != 0
    assert "invalid_client" in ran.stderr
    assert "wrong" not in ran.stdout + ran.stderr


# ---- Java


@pytest.fixture(scope="module")
def java(tokens: TokenBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginProgram]:
    """Java's clients, which may ask the provider for tokens."""
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.provider.token_url}"
    program = java_logins(KAFKA_VERSION, tmp_path_factory.mktemp("java"), allowed)
    yield program
    program.close()


def java_login(tokens: TokenBroker, directory: Path) -> Login:
    more = {"sasl.login.refresh.min.period.seconds": "0", "sasl.login.refresh.buffer.seconds": "0"}
    lines = properties(directory, tokens, **more).read_text().splitlines()
    return Login(f"127.0.0.1:{tokens.port}", more=dict(line.split("=", 1) for line in lines))


@pytest.mark.conformance
@pytest.mark.timeout(400)
def test_java_renews_its_session_three_times(
    tokens: TokenBroker, short_sessions: None, java: LoginProgram, tmp_path: Path
) -> None:
    """By the broker's count: one that got no processor in time may have to connect again, but loses no record."""
    renewals = tokens.authentications("successful_reauthentication_total")
    topic = f"java-{uuid.uuid4().hex[:8]}"
    java.open(java_login(tokens, tmp_path), topic)
    sent, deadline = 1, time.monotonic() + RENEWAL_LIMIT_S
    while (
        tokens.authentications("successful_reauthentication_total") < renewals + 3
        and time.monotonic() < deadline
    ):
        java.send()
        sent += 1
    java.shut()
    assert tokens.authentications("successful_reauthentication_total") >= renewals + 3
    consumer = librdkafka(tokens, lambda: tokens.provider.token("bob"))
    assert len(consume(consumer, topic, sent)) == sent


@pytest.mark.conformance
@pytest.mark.timeout(400)
def test_java_with_a_wrong_token_is_told_so(tokens: TokenBroker, java: LoginProgram, tmp_path: Path) -> None:
    tokens.provider.claims["aud"] = "other"
    try:
        with pytest.raises(LineClientError) as caught:
            java.open(java_login(tokens, tmp_path), "never")
    finally:
        tokens.provider.claims["aud"] = ["kafka", "account"]
        java.shut()
    assert 'SaslAuthenticationException: {"status":"invalid_token"}' in str(caught.value)

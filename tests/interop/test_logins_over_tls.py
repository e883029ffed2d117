"""Stock clients log in over TLS (SASL_SSL): librdkafka, aiokafka, kafka-python, and our own commands.

Java's clients, franz-go and sarama: test_login_programs.py.
"""

from __future__ import annotations

import ssl
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from tests.conformance.admin_cli import Tools
from tests.conformance.java_admin import ToolRun
from tests.interop.clients.logging_in import (
    aiokafka_round_trip,
    aiokafka_stays_outside,
    kafka_python_round_trip,
)
from tests.interop.test_logins import (
    LIMIT_S,
    MECHANISMS,
    PASSWORDS,
    RENEWAL_LIMIT_S,
    LoginBroker,
    failed_login,
    java_client,
    librdkafka,
    python_client,
    set_passwords,
)
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

CA = Authority()
LARGE = b"v" * 100_000
"""Several records of TLS."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("stores")
    broker, alice = CA.issue("broker", ["localhost", "127.0.0.1"]), CA.issue("somebody")
    (directory / "ca.pem").write_text(CA.pem)
    (directory / "broker.pem").write_text(broker.key_pem() + broker.chain_pem())
    (directory / "client.pem").write_text(alice.key_pem() + alice.chain_pem())
    return directory


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[LoginBroker]:
    """Listener SASL asks for a certificate as well; RENEWING does not, and has short sessions."""
    broker = BrokerProcess(tmp_path_factory.mktemp("logins") / "data")
    made = LoginBroker(broker)
    broker.overrides |= {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_SSL,RENEWING:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{folder}/broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{folder}/ca.pem",
        "ssl.client.auth": "required",
        "listener.name.sasl.ssl.client.auth": "required",
    }
    try:
        broker.start()
        set_passwords(made.admin_settings, PASSWORDS)
        yield made
        assert broker.stop() == broker.clean_status
        assert "clients of listener RENEWING, which is SASL_SSL, show no certificate unless" in broker.output
        assert "clients of listener SASL, which" not in broker.output
        for password in (*PASSWORDS.values(), "wrong-secret"):
            assert password not in broker.output
    finally:
        broker.kill()


def over_tls(settings: dict[str, Any], folder: Path, *, certificate: bool = True) -> dict[str, Any]:
    """The settings of librdkafka with TLS."""
    own = {"ssl.certificate.location": f"{folder}/client.pem", "ssl.key.location": f"{folder}/client.pem"}
    trust = {"security.protocol": "SASL_SSL", "ssl.ca.location": f"{folder}/ca.pem"}
    return {**settings, **trust, **(own if certificate else {})}


def python_over_tls(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Those of aiokafka and kafka-python."""
    context = ssl.create_default_context(cafile=f"{folder}/ca.pem")
    context.load_cert_chain(folder / "client.pem")
    return {**settings, "security_protocol": "SASL_SSL", "ssl_context": context}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_produces_and_consumes_in_a_group(
    logins: LoginBroker, folder: Path, mechanism: str
) -> None:
    topic = f"tls-{uuid.uuid4().hex[:8]}"
    settings = over_tls(librdkafka(logins.port, mechanism), folder)
    producer = Producer(settings)
    for _ in range(20):
        producer.produce(topic, LARGE)
    assert producer.flush(LIMIT_S) == 0
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        values: list[bytes | None] = []
        deadline = time.monotonic() + LIMIT_S
        while len(values) < 20 and time.monotonic() < deadline:
            values += [record.value() for record in consumer.consume(20, 0.2) if record.error() is None]
        assert values == [LARGE] * 20
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_with_a_wrong_password_stays_outside(
    logins: LoginBroker, folder: Path, mechanism: str
) -> None:
    failures = logins.metric("failed_authentication_total")
    assert failed_login(over_tls(librdkafka(logins.port, mechanism, password="wrong-secret"), folder))
    assert logins.metric("failed_authentication_total") > failures


def test_a_password_does_not_stand_for_a_certificate(logins: LoginBroker, folder: Path) -> None:
    producer = Producer(over_tls(librdkafka(logins.port, "PLAIN"), folder, certificate=False))
    producer.produce("none", b"x")
    line = "failed authentication: listener SASL, client 127.0.0.1:"
    deadline = time.monotonic() + LIMIT_S
    while "the peer shows no certificate" not in logins.broker.output and time.monotonic() < deadline:
        producer.poll(0.05)
    producer.purge()
    assert "the peer shows no certificate, and ssl.client.auth=required" in logins.broker.output
    assert line in logins.broker.output


def test_librdkafka_renews_its_session(logins: LoginBroker, folder: Path) -> None:
    renewals = logins.metric("successful_reauthentication_total")
    codes: list[int] = []
    settings = over_tls(librdkafka(logins.renewing_port, "SCRAM-SHA-256"), folder, certificate=False)
    producer = Producer({**settings, "error_cb": lambda error: codes.append(error.code())})
    deadline = time.monotonic() + RENEWAL_LIMIT_S
    while logins.metric("successful_reauthentication_total") < renewals + 2 and time.monotonic() < deadline:
        producer.produce("renewals", b"x")
        producer.poll(0.05)
    assert producer.flush(LIMIT_S) == 0
    assert logins.metric("successful_reauthentication_total") >= renewals + 2
    assert KafkaError._AUTHENTICATION not in codes


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka(logins: LoginBroker, folder: Path, mechanism: str) -> None:
    topic = f"tls-{uuid.uuid4().hex[:8]}"
    settings = python_over_tls(python_client(logins.port, mechanism), folder)
    await aiokafka_round_trip(settings, topic, [LARGE] * 5)


async def test_aiokafka_with_a_wrong_password_stays_outside(logins: LoginBroker, folder: Path) -> None:
    wrong = python_client(logins.port, "SCRAM-SHA-512", "wrong-secret")
    await aiokafka_stays_outside(python_over_tls(wrong, folder))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_kafka_python(logins: LoginBroker, folder: Path, mechanism: str) -> None:
    topic = f"tls-{uuid.uuid4().hex[:8]}"
    settings = python_over_tls(python_client(logins.port, mechanism), folder)
    kafka_python_round_trip(settings, topic, [LARGE] * 5)


# ---- our commands


def client_file(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    """The properties of a client with a login, with TLS."""
    return {
        **settings,
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{folder}/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{folder}/client.pem",
    }


def ours(folder: Path, port: int, settings: dict[str, str], *words: str) -> ToolRun:
    path = folder / "command.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in client_file(folder, settings).items()))
    tools = Tools(None, f"127.0.0.1:{port}")  # type: ignore[arg-type]  # Kafka's tools are not run
    return tools.ours(*words, "--command-config", str(path))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_our_commands(logins: LoginBroker, folder: Path, mechanism: str) -> None:
    topic = f"ours-{mechanism.lower()}"
    settings = java_client(logins.port, mechanism)
    made = ours(folder, logins.port, settings, "topics", "--create", "--topic", topic)
    assert made.status == 0, made
    assert topic in ours(folder, logins.port, settings, "topics", "--list").out.split()
    refused = ours(
        folder, logins.port, java_client(logins.port, mechanism, "wrong-secret"), "topics", "--list"
    )
    assert refused.status == 1
    assert f"the login as alice by {mechanism} at 127.0.0.1:{logins.port} failed: Auth" in refused.err

"""Stock clients log in to a broker that asks for it: librdkafka, aiokafka and kafka-python.

Java's clients, franz-go and sarama: test_login_programs.py.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import confluent_kafka.admin
import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from tests.interop.clients.logging_in import (
    aiokafka_keeps_sending,
    aiokafka_round_trip,
    aiokafka_stays_outside,
    authentications,
    kafka_python_keeps_sending,
    kafka_python_round_trip,
    kafka_python_stays_outside,
)
from tests.support.broker_process import BrokerProcess
from tests.support.ports import held_ports
from tests.support.sasl import PLAIN_MODULE, SCRAM_MODULE, listener_settings, plain_entry

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(600),
]

ADMIN: Any = confluent_kafka.admin  # its stubs lack exports and optional types
LIMIT_S = 120.0
RENEWAL_LIMIT_S = 120.0
PATIENT = {"api.version.request.timeout.ms": 60_000}
"""For librdkafka, where a starved broker takes more than its ten seconds for the first answer."""
SESSION_MS = 2000
PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
SCRAM = {"SCRAM-SHA-256": "SCRAM_SHA_256", "SCRAM-SHA-512": "SCRAM_SHA_512"}
MECHANISMS = ("PLAIN", *SCRAM)


class LoginBroker:
    """A broker with a listener without logins for its administrator, one with logins, and one with short sessions."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.port, self.renewing_port = held_ports(2)
        broker.overrides |= {
            "listeners": (
                f"PLAINTEXT://127.0.0.1:{broker.port},SASL://127.0.0.1:{self.port},"
                f"RENEWING://127.0.0.1:{self.renewing_port}"
            ),
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,RENEWING:SASL_PLAINTEXT"
            ),
            "group.initial.rebalance.delay.ms": "0",
            "barnabas.http.port": "0",
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            **listener_settings("SASL", {"PLAIN": plain_entry(**PASSWORDS)}),
            **listener_settings(
                "RENEWING", {"PLAIN": plain_entry(**PASSWORDS)}, connections_max_reauth_ms=str(SESSION_MS)
            ),
        }
        for listener in ("sasl", "renewing"):
            broker.overrides[f"listener.name.{listener}.sasl.enabled.mechanisms"] = ",".join(MECHANISMS)

    @property
    def admin_settings(self) -> dict[str, Any]:
        """Those of librdkafka, for the administrator."""
        return {"bootstrap.servers": self.broker.bootstrap, **PATIENT}

    def metric(self, name: str) -> float:
        """A metric of authentications, over all listeners."""
        return authentications(self.broker, name)


@pytest.fixture(scope="module")
def logins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginBroker]:
    broker = BrokerProcess(tmp_path_factory.mktemp("logins") / "data")
    made = LoginBroker(broker)
    try:
        broker.start()
        set_passwords(made.admin_settings, PASSWORDS)
        yield made
        assert broker.stop() == broker.clean_status
        for password in (*PASSWORDS.values(), "wrong-secret"):
            assert password not in broker.output
    finally:
        broker.kill()


def set_passwords(admin_settings: dict[str, Any], passwords: dict[str, str]) -> None:
    admin = ADMIN.AdminClient(admin_settings)
    for mechanism in SCRAM.values():
        info = ADMIN.ScramCredentialInfo(getattr(ADMIN.ScramMechanism, mechanism), 4096)
        changes = [
            ADMIN.UserScramCredentialUpsertion(user, info, password.encode())
            for user, password in passwords.items()
        ]
        for future in admin.alter_user_scram_credentials(changes).values():
            future.result(LIMIT_S)


def remove_credentials(admin_settings: dict[str, Any], user: str) -> None:
    admin = ADMIN.AdminClient(admin_settings)
    for mechanism in SCRAM.values():
        change = ADMIN.UserScramCredentialDeletion(user, getattr(ADMIN.ScramMechanism, mechanism))
        admin.alter_user_scram_credentials([change])[user].result(LIMIT_S)


def librdkafka(port: int, mechanism: str, user: str = "alice", password: str | None = None) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": PASSWORDS.get(user, "?") if password is None else password,
        "log_level": 0,
        **PATIENT,
    }


def python_client(port: int, mechanism: str, password: str = PASSWORDS["alice"]) -> dict[str, Any]:
    """The settings of aiokafka and of kafka-python."""
    return {
        "bootstrap_servers": f"127.0.0.1:{port}",
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }


def failed_login(settings: dict[str, Any]) -> bool:
    """Whether librdkafka reports that a login has failed."""
    codes: list[int] = []
    producer = Producer({**settings, "error_cb": lambda error: codes.append(error.code())})
    deadline = time.monotonic() + LIMIT_S
    while KafkaError._AUTHENTICATION not in codes and time.monotonic() < deadline:
        producer.poll(0.05)
    producer.purge()
    return KafkaError._AUTHENTICATION in codes


# ---- librdkafka


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_produces_and_consumes_in_a_group(logins: LoginBroker, mechanism: str) -> None:
    topic = f"logins-{uuid.uuid4().hex[:8]}"
    producer = Producer(librdkafka(logins.port, mechanism))
    for number in range(10):
        producer.produce(topic, str(number))
    assert producer.flush(LIMIT_S) == 0
    group = {"group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**librdkafka(logins.port, mechanism, "bob"), **group})
    try:
        consumer.subscribe([topic])
        values: list[bytes] = []
        deadline = time.monotonic() + LIMIT_S
        while len(values) < 10 and time.monotonic() < deadline:
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                values.append(message.value() or b"")
        assert values == [b"%d" % number for number in range(10)]
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_librdkafka_with_a_wrong_password_or_user_stays_outside(logins: LoginBroker, mechanism: str) -> None:
    failures = logins.metric("failed_authentication_total")
    assert failed_login(librdkafka(logins.port, mechanism, password="wrong-secret"))
    assert failed_login(librdkafka(logins.port, mechanism, "mallory", "wrong-secret"))
    assert logins.metric("failed_authentication_total") >= failures + 2


def test_the_log_says_who_could_not_log_in(logins: LoginBroker) -> None:
    """A line a second at most, for each address."""
    line = "mechanism SCRAM-SHA-256, user trudy: the user has no credential"
    deadline = time.monotonic() + LIMIT_S
    while line not in logins.broker.output and time.monotonic() < deadline:
        assert failed_login(librdkafka(logins.port, "SCRAM-SHA-256", "trudy", "wrong-secret"))
    assert line in logins.broker.output


def test_librdkafka_without_a_login_stays_outside(logins: LoginBroker) -> None:
    line = "to listener SASL: METADATA is not allowed before a login"
    admin = ADMIN.AdminClient({"bootstrap.servers": f"127.0.0.1:{logins.port}", "log_level": 0})
    deadline = time.monotonic() + LIMIT_S
    with pytest.raises(KafkaException):
        admin.list_topics(timeout=1)
    while line not in logins.broker.output and time.monotonic() < deadline:
        admin.poll(0.05)
    assert line in logins.broker.output


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_librdkafka_renews_its_session_three_times(logins: LoginBroker, mechanism: str) -> None:
    """One that got no processor in time may have to connect again; it is let in, and loses no record."""
    renewals = logins.metric("successful_reauthentication_total")
    codes: list[int] = []
    producer = Producer(
        {**librdkafka(logins.renewing_port, mechanism), "error_cb": lambda error: codes.append(error.code())}
    )
    topic = f"renewals-{uuid.uuid4().hex[:8]}"
    deadline = time.monotonic() + RENEWAL_LIMIT_S
    while logins.metric("successful_reauthentication_total") < renewals + 3 and time.monotonic() < deadline:
        producer.produce(topic, b"x")
        producer.poll(0.05)
    assert producer.flush(LIMIT_S) == 0
    assert logins.metric("successful_reauthentication_total") >= renewals + 3
    assert KafkaError._AUTHENTICATION not in codes


def test_a_credential_that_is_removed_opens_no_more_sessions(logins: LoginBroker) -> None:
    set_passwords(logins.admin_settings, {"carol": "alice-secret"})
    carol = librdkafka(logins.renewing_port, "SCRAM-SHA-512", "carol", "alice-secret")
    codes: list[int] = []
    producer = Producer({**carol, "error_cb": lambda error: codes.append(error.code())})
    topic = f"removed-{uuid.uuid4().hex[:8]}"
    producer.produce(topic, b"x")
    assert producer.flush(LIMIT_S) == 0
    remove_credentials(logins.admin_settings, "carol")
    deadline = time.monotonic() + LIMIT_S
    while KafkaError._AUTHENTICATION not in codes and time.monotonic() < deadline:
        producer.produce(topic, b"x")
        producer.poll(0.05)
    producer.purge()
    assert KafkaError._AUTHENTICATION in codes
    assert failed_login({**carol, "bootstrap.servers": f"127.0.0.1:{logins.port}"})


# ---- aiokafka


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_produces_and_consumes_in_a_group(logins: LoginBroker, mechanism: str) -> None:
    topic = f"aio-{uuid.uuid4().hex[:8]}"
    await aiokafka_round_trip(python_client(logins.port, mechanism), topic)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka_with_a_wrong_password_stays_outside(logins: LoginBroker, mechanism: str) -> None:
    await aiokafka_stays_outside(python_client(logins.port, mechanism, "wrong-secret"))


async def test_aiokafka_connects_again_when_its_session_has_ended(logins: LoginBroker) -> None:
    topic = f"aio-{uuid.uuid4().hex[:8]}"
    await aiokafka_keeps_sending(python_client(logins.renewing_port, "PLAIN"), topic, 2.5 * SESSION_MS / 1000)


# ---- kafka-python


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_produces_and_consumes_in_a_group(logins: LoginBroker, mechanism: str) -> None:
    topic = f"kp-{uuid.uuid4().hex[:8]}"
    kafka_python_round_trip(python_client(logins.port, mechanism), topic)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python_with_a_wrong_password_stays_outside(logins: LoginBroker, mechanism: str) -> None:
    kafka_python_stays_outside(python_client(logins.port, mechanism, "wrong-secret"))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_kafka_python_renews_its_session_three_times(logins: LoginBroker, mechanism: str) -> None:
    renewals = logins.metric("successful_reauthentication_total")

    def are_enough() -> bool:
        return logins.metric("successful_reauthentication_total") >= renewals + 3

    topic = f"kp-{uuid.uuid4().hex[:8]}"
    kafka_python_keeps_sending(
        python_client(logins.renewing_port, mechanism), topic, are_enough, RENEWAL_LIMIT_S
    )
    assert are_enough()


async def send_for(producer: AIOKafkaProducer, topic: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        await producer.send_and_wait(topic, b"x")


async def test_python_clients_whose_credential_is_removed_stay_outside(logins: LoginBroker) -> None:
    set_passwords(logins.admin_settings, {"dora": "alice-secret"})
    dora = {**python_client(logins.renewing_port, "SCRAM-SHA-256"), "sasl_plain_username": "dora"}
    producer = AIOKafkaProducer(**dora, request_timeout_ms=2000)
    await producer.start()
    try:
        await producer.send_and_wait("removed", b"x")
        remove_credentials(logins.admin_settings, "dora")
        with pytest.raises(AioKafkaError):  # its session has ended, and no other begins
            await send_for(producer, "removed", RENEWAL_LIMIT_S)
    finally:
        await producer.stop()
    await aiokafka_stays_outside(dora)
    kafka_python_stays_outside(dora)


def java_client(port: int, mechanism: str, password: str = PASSWORDS["alice"]) -> dict[str, str]:
    """The properties of a client of Java's, or of ours."""
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    return {
        "bootstrap.servers": f"127.0.0.1:{port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="alice" password="{password}";',
    }

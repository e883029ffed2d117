"""Users whose passwords Barnabas has stored log in to Apache Kafka on the same directory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import KafkaException

from tests.conformance.handover.sides import KAFKA, OURS, Directory
from tests.support.apache_kafka import ApacheKafka
from tests.support.ports import held_ports

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

ADMIN: Any = confluent_kafka.admin  # its type stubs lack exports and optional values
LIMIT_S = 30.0
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
USERS = {
    "alice": (SHA_256, 4096, "pencil"),
    "bob": (SHA_512, 16384, "ein Paßwort, ✓"),
}
LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


def login_settings(kafka: ApacheKafka, port: int) -> dict[str, str]:
    """Settings that add a listener with SASL to the usual ones."""
    sasl = f"SASL_PLAINTEXT://127.0.0.1:{port}"
    prefix = "listener.name.sasl_plaintext"
    return {
        "listeners": f"PLAINTEXT://{kafka.bootstrap},{sasl},CONTROLLER://127.0.0.1:{kafka.controller_port}",
        "advertised.listeners": f"PLAINTEXT://{kafka.bootstrap},{sasl}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        f"{prefix}.sasl.enabled.mechanisms": f"{SHA_256},{SHA_512}",
        f"{prefix}.scram-sha-256.sasl.jaas.config": LOGIN_MODULE,
        f"{prefix}.scram-sha-512.sasl.jaas.config": LOGIN_MODULE,
    }


@pytest.fixture(scope="module")
def login_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The SASL port of an Apache Kafka on the directory in which Barnabas has stored the users."""
    directory = Directory(tmp_path_factory.mktemp("logins"))
    (port,) = held_ports(1)
    try:
        ours = directory.broker(OURS)
        ours.start()
        set_passwords(ours.bootstrap)
        assert ours.stop() == 0
        kafka = directory.broker(KAFKA)
        assert isinstance(kafka, ApacheKafka)
        kafka.overrides.update(login_settings(kafka, port))
        kafka.start()
        yield port
    finally:
        directory.end()


def set_passwords(bootstrap: str) -> None:
    alterations = [
        ADMIN.UserScramCredentialUpsertion(
            user,
            ADMIN.ScramCredentialInfo(getattr(ADMIN.ScramMechanism, mechanism.replace("-", "_")), iterations),
            password.encode(),
        )
        for user, (mechanism, iterations, password) in USERS.items()
    ]
    admin = ADMIN.AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.alter_user_scram_credentials(alterations).values():
        future.result(LIMIT_S)


def client(port: int, user: str, password: str, mechanism: str) -> Any:
    return ADMIN.AdminClient(
        {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
        }
    )


@pytest.mark.parametrize("user", USERS)
def test_login_with_the_password_succeeds(user: str, login_port: int) -> None:
    mechanism, _, password = USERS[user]
    assert client(login_port, user, password, mechanism).list_topics(timeout=LIMIT_S).brokers


@pytest.mark.parametrize("user", USERS)
def test_login_with_another_password_fails(user: str, login_port: int) -> None:
    mechanism, _, password = USERS[user]
    with pytest.raises(KafkaException):
        client(login_port, user, password + "x", mechanism).list_topics(timeout=3)

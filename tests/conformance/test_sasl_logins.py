"""The same scripts of bytes for the logins of Apache Kafka and of Barnabas: answers, their order, and how each ends.

Compared are classes of time alone: closed at once, or after the delay of failures.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import confluent_kafka.admin
import pytest

from tests.conformance.kafka_jars import require_classpath
from tests.conformance.sasl_scripts import (
    DELAY_S,
    PASSWORD,
    PLAINTEXT,
    RENEWING,
    SASL,
    SCRIPTS,
    SESSION_MS,
    USERS,
)
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.ports import held_ports
from tests.support.sasl import SCRAM_MODULE, listener_settings, plain_entry

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

ADMIN: Any = confluent_kafka.admin  # its type stubs lack exports and optional values
MECHANISMS: Final = {
    "PLAIN": plain_entry(**dict.fromkeys(USERS, PASSWORD)),
    "SCRAM-SHA-256": f"{SCRAM_MODULE} required;",
    "SCRAM-SHA-512": f"{SCRAM_MODULE} required;",
}
SETTINGS: Final = {
    "connection.failed.authentication.delay.ms": str(int(DELAY_S * 1000)),
    "listener.security.protocol.map": (
        f"{PLAINTEXT}:PLAINTEXT,{SASL}:SASL_PLAINTEXT,{RENEWING}:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT"
    ),
    "inter.broker.listener.name": PLAINTEXT,
    **listener_settings(SASL, MECHANISMS),
    **listener_settings(RENEWING, MECHANISMS, connections_max_reauth_ms=str(SESSION_MS)),
}
DIFFERENCES: Final[Mapping[str, str]] = {
    "scram-of-an-unknown-user": "it fails in the last round, so that a login does not tell which users exist",
    "scram-with-an-unknown-token": "as with an unknown user",
    "scram-final-messages-c=biws,r={nonce},p=AAAA": "a proof of a wrong length is a wrong proof; Kafka's fails within",
    "raw-scram-with-a-wrong-password": "the delay of failures holds for it as well",
}
"""Scripts whose transcripts differ, with the reason: docs/differences.md has it too."""


def with_listeners(broker: ApacheKafka | BrokerProcess) -> dict[str, int]:
    """Gives a broker the listeners of the scripts, and returns their ports."""
    ports = {PLAINTEXT: broker.port, **dict(zip((SASL, RENEWING), held_ports(2), strict=True))}
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    controller = ""
    if isinstance(broker, ApacheKafka):
        controller = f",CONTROLLER://127.0.0.1:{broker.controller_port}"
        broker.overrides["advertised.listeners"] = listeners
    broker.overrides |= {**SETTINGS, "listeners": listeners + controller}
    return ports


class Sides:
    """Both brokers, and the transcripts of all scripts with each."""

    def __init__(self, directory: Path) -> None:
        (directory / "kafka").mkdir()
        self.brokers: dict[str, ApacheKafka | BrokerProcess] = {
            "kafka": ApacheKafka(directory / "kafka", require_classpath()),
            "ours": BrokerProcess(directory / "ours"),
        }
        self._ports: dict[str, dict[str, int]] = {}
        self._played: dict[str, dict[str, list[object]]] = {}

    def start(self) -> None:
        """Starts both, and plays all scripts side by side: most of their time they wait."""
        for side, broker in self.brokers.items():
            self._ports[side] = with_listeners(broker)
            broker.start()
            add_users(broker.bootstrap)
            with ThreadPoolExecutor(4) as pool:
                played = pool.map(lambda name, side=side: (name, self._play(side, name)), SCRIPTS)
                self._played[side] = dict(played)

    def _play(self, side: str, name: str) -> list[object]:
        return SCRIPTS[name](self._ports[side])

    def transcripts(self, name: str) -> tuple[list[object], list[object]]:
        return self._played["kafka"][name], self._played["ours"][name]

    def again(self, name: str) -> tuple[list[object], list[object]]:
        """Plays a script by itself: on a busy machine what is closed at once may take longer than the delay."""
        return self._play("kafka", name), self._play("ours", name)

    def kill(self) -> None:
        for broker in self.brokers.values():
            broker.kill()


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    both = Sides(tmp_path_factory.mktemp("logins"))
    try:
        both.start()
        yield both
    finally:
        both.kill()


def add_users(bootstrap: str) -> None:
    infos = [
        ADMIN.ScramCredentialInfo(mechanism, 4096)
        for mechanism in (ADMIN.ScramMechanism.SCRAM_SHA_256, ADMIN.ScramMechanism.SCRAM_SHA_512)
    ]
    admin = ADMIN.AdminClient({"bootstrap.servers": bootstrap})
    for info in infos:
        alterations = [ADMIN.UserScramCredentialUpsertion(user, info, PASSWORD.encode()) for user in USERS]
        for future in admin.alter_user_scram_credentials(alterations).values():
            future.result(30)


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_has_the_same_transcript(name: str, sides: Sides) -> None:
    kafka, ours = sides.transcripts(name)
    if name in DIFFERENCES:
        assert ours != kafka, f"no exception any more: {DIFFERENCES[name]}"
        return
    for _ in range(2):
        if ours != kafka:
            kafka, ours = sides.again(name)
    assert ours == kafka

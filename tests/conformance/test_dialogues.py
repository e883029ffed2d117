"""Holds the same dialogues with Barnabas and Apache Kafka, in every version, and compares the responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import JBOD, PLAIN, Dialogue, all_dialogues
from tests.conformance.kafka_jars import require_classpath, require_compiled
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.conformance

SETTINGS = {
    "node.id": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.hours": "168",
    "log.retention.ms": "-1",
    "log.segment.bytes": "1073741824",
    "num.partitions": "1",
    "group.consumer.assignment.interval.ms": "0",
}
"""Settings of both brokers, as in the files that come with Kafka, except that the old records of the dialogues are
retained and members of consumer groups receive their assignment at once."""

CASES = [
    pytest.param(known, version, id=f"{known.name}-v{version}")
    for known in all_dialogues()
    for version in range(known.low, known.high + 1)
]


SECURITY = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
"""More settings of SECURED brokers: they store ACLs, which restrict no dialogue."""

RECEIVER = {"metric.reporters": "TelemetryReceiver"}
"""Kafka accepts clients' metrics only with a plugin; Barnabas exposes them on its HTTP port."""

RECEIVER_SOURCE = Path(__file__).parent / "java" / "TelemetryReceiver.java"


class Pair:
    """An Apache Kafka and a Barnabas with the same settings."""

    def __init__(self, kind: str, tmp_path_factory: pytest.TempPathFactory) -> None:
        kafka_dir, our_dir = tmp_path_factory.mktemp("kafka"), tmp_path_factory.mktemp("barnabas")
        if kind == PLAIN:
            self.kafka = ApacheKafka(kafka_dir, require_classpath(), SETTINGS)
            settings = {**SETTINGS, "barnabas.profile": "kafka"}
        elif kind == JBOD:
            self.kafka = ApacheKafka(kafka_dir, require_classpath(), SETTINGS | three_dirs(kafka_dir))
            settings = {**SETTINGS, "barnabas.profile": "kafka", **three_dirs(our_dir)}
        else:
            classpath = require_compiled(RECEIVER_SOURCE)
            self.kafka = ApacheKafka(kafka_dir, classpath, SETTINGS | SECURITY | RECEIVER)
            settings = {**SETTINGS, **SECURITY, "barnabas.profile": "kafka", "barnabas.http.port": "0"}
        self.barnabas = BrokerProcess(our_dir, settings)

    def kill(self) -> None:
        self.kafka.kill()
        self.barnabas.kill()


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Pair]]:
    """One pair of each kind for all dialogues, started on first use: each dialogue uses names of its own."""
    known: dict[str, Pair] = {}

    def pair(kind: str) -> Pair:
        if kind not in known:
            known[kind] = Pair(kind, tmp_path_factory)  # before the start, so that a failed one is killed too
            known[kind].kafka.start()
            known[kind].barnabas.start()
        return known[kind]

    yield pair
    for each in known.values():
        each.kill()


def three_dirs(parent: Path) -> dict[str, str]:
    """The setting of a broker with three log directories."""
    return {"log.dirs": ",".join(str(parent / name) for name in ("d1", "d2", "d3"))}


def transcript(port: int, held: Dialogue, version: int) -> list[object]:
    """Holds a dialogue with the broker on that port and returns its transcript."""
    with BrokerConnection("127.0.0.1", port) as connection:
        client = DialogueClient(connection, version, f"{held.name}-v{version}")
        held.play(client)
        return client.transcript


@pytest.mark.parametrize(("held", "version"), CASES)
def test_dialogue_has_the_same_transcript(held: Dialogue, version: int, pairs: Callable[[str], Pair]) -> None:
    pair = pairs(held.brokers)
    expected = transcript(pair.kafka.port, held, version)
    ours = transcript(pair.barnabas.port, held, version)
    if held.differs is None:
        assert ours == expected
    else:
        assert ours != expected, f"no exception any more: {held.differs}"


def test_dialogues_cover_every_version_of_every_api() -> None:
    from barnabas.broker.kafka_apis import handlers
    from barnabas.broker.request import REGISTRY

    handlers.register_all()
    held = {(known.key, version) for known in all_dialogues() for version in range(known.low, known.high + 1)}
    served = {
        (key, version)
        for key, handler in REGISTRY.items()
        for version in range(handler.versions[0], handler.versions[1] + 1)
    }
    assert served - held == set()

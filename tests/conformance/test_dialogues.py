"""Barnabas answers as Apache Kafka does: the same dialogues with both, in every version, come to the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.dialogues import Dialogue, all_dialogues
from tests.conformance.kafka_jars import require_classpath
from tests.conformance.peer import Peer
from tests.conformance.speaker import Speaker
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.conformance

SETTINGS = {
    "node.id": "1",
    "log.retention.hours": "168",
    "log.retention.ms": "-1",
    "log.segment.bytes": "1073741824",
    "num.partitions": "1",
}
"""What both are told, as the files that come with Kafka do; but the old records of the dialogues are to stay."""

CASES = [
    pytest.param(known, version, id=f"{known.name}-v{version}")
    for known in all_dialogues()
    for version in range(known.low, known.high + 1)
]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """One Apache Kafka for all dialogues: each keeps to topics of its own."""
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), require_classpath(), SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def barnabas(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One Barnabas, on the same terms."""
    settings = {**SETTINGS, "barnabas.profile": "kafka"}
    with BrokerProcess(Path(tmp_path_factory.mktemp("barnabas")), settings) as running:
        yield running


def transcript(port: int, held: Dialogue, version: int) -> list[object]:
    """What a dialogue with the broker on that port came to."""
    with Peer("127.0.0.1", port) as peer:
        speaker = Speaker(peer, version, f"{held.name}-v{version}")
        held.play(speaker)
        return speaker.transcript


@pytest.mark.parametrize(("held", "version"), CASES)
def test_the_same_dialogue_comes_to_the_same(
    held: Dialogue, version: int, kafka: ApacheKafka, barnabas: BrokerProcess
) -> None:
    expected = transcript(kafka.port, held, version)
    ours = transcript(barnabas.port, held, version)
    if held.differs is None:
        assert ours == expected
    else:
        assert ours != expected, f"no exception any more: {held.differs}"


def test_every_api_that_is_served_is_talked_about_in_every_version() -> None:
    from broker import handlers
    from broker.request import REGISTRY

    handlers.register_all()
    held = {(known.key, version) for known in all_dialogues() for version in range(known.low, known.high + 1)}
    served = {
        (key, version)
        for key, handler in REGISTRY.items()
        for version in range(handler.versions[0], handler.versions[1] + 1)
    }
    assert served - held == set()

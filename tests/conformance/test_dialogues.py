"""Barnabas answers as Apache Kafka does: the same dialogues with both, in every version, end in the same transcripts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.dialogues import Dialogue, all_dialogues
from tests.conformance.peer import Peer
from tests.conformance.speaker import Speaker
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.conformance

CASES = [
    pytest.param(known, version, id=f"{known.name}-v{version}")
    for known in all_dialogues()
    for version in range(known.low, known.high + 1)
]


def transcript(address: tuple[str, int], held: Dialogue, version: int) -> list[object]:
    """What a dialogue with the broker at `address` came to."""
    with Peer(*address) as peer:
        speaker = Speaker(peer, version, f"{held.name}-v{version}")
        held.play(speaker)
        return speaker.transcript

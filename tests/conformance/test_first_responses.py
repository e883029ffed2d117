"""A fresh Apache Kafka and a fresh Barnabas give a fresh client equal responses, field by field, in every version.

Each remaining difference is a row of docs/differences.md, with its reason; a row without a difference must go.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.handover.sides import KAFKA, OURS, Directory
from tests.conformance.parity.differences import FIRST_RESPONSES, differences, known_differences, unexplained
from tests.conformance.parity.first_requests import FRESH, ROUNDS, SECURED
from tests.conformance.parity.transcript import Place, Transcript, Tree
from tests.conformance.parity.wire import TranscriptClient

pytestmark = [pytest.mark.conformance, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """Returns the differences of a round; each round is played once."""

    @cache
    def found(name: str) -> list[str]:
        place = tmp_path_factory.mktemp("first-responses")
        kafka, ours = (answers(place / side, side, name) for side in (KAFKA, OURS))
        assert list(kafka) == list(ours)
        return list(differences(kafka, ours))

    return found


def answers(place: Path, side: str, name: str) -> dict[str, Tree]:
    """Plays one round with a fresh broker of that side."""
    place.mkdir(parents=True)
    directory = Directory(place, base=FRESH | (SECURED if name == "secured" else {}))
    try:
        broker = directory.broker(side)
        broker.start()
        where = Place(broker.bootstrap, str(directory.data), str(place), str(directory.ports[1]), "")
        transcript = Transcript(where)
        with BrokerConnection("127.0.0.1", broker.port) as connection:
            ROUNDS[name](TranscriptClient(connection, transcript))
        return transcript.answers
    finally:
        directory.end()


@pytest.mark.parametrize("name", ROUNDS)
def test_fresh_client_gets_the_same_responses(name: str, played: Callable[[str], list[str]]) -> None:
    left, _ = unexplained(played(name), known_differences(FIRST_RESPONSES))
    assert not left, "\n".join(left)


def test_every_documented_difference_still_exists(played: Callable[[str], list[str]]) -> None:
    found = [line for name in ROUNDS for line in played(name)]
    _, superfluous = unexplained(found, known_differences(FIRST_RESPONSES))
    assert not superfluous, f"differences that are gone: {superfluous}"

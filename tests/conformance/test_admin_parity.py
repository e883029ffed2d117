"""The same history on a fresh Apache Kafka and a fresh Barnabas: every admin client gets the same answers.

Each remaining difference is a row of docs/differences.md, with its reason; a row without a difference must go.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.handover.sides import KAFKA, OURS, Directory
from tests.conformance.java_admin import JavaAdmin
from tests.conformance.parity import by_confluent, by_groups, by_java, by_kafka_python, by_tools
from tests.conformance.parity.differences import (
    FIRST_RESPONSES,
    HISTORY,
    differences,
    known_differences,
    unexplained,
)
from tests.conformance.parity.transcript import Place, Transcript

pytestmark = [pytest.mark.conformance, pytest.mark.slow, pytest.mark.timeout(600)]

HISTORIES = (by_java, by_tools, by_confluent, by_kafka_python, by_groups)


def play_history(place: Path, side: str, java: JavaAdmin) -> Transcript:
    """Plays the history with a fresh broker of that side."""
    work = place / "work"
    work.mkdir(parents=True)
    directory = Directory(place)
    try:
        properties = directory.write_properties()
        broker = directory.broker(side)
        broker.start()
        transcript = Transcript(
            Place(broker.bootstrap, str(directory.data), str(work), str(directory.ports[1]), str(properties))
        )
        for module in HISTORIES:
            module.run_history(transcript, java)
        java.forget(broker.bootstrap)
        return transcript
    finally:
        directory.end()


def test_every_admin_client_gets_the_same_answers(tmp_path: Path, java: JavaAdmin) -> None:
    kafka = play_history(tmp_path / "kafka", KAFKA, java)
    ours = play_history(tmp_path / "ours", OURS, java)
    assert list(kafka.answers) == list(ours.answers)
    left, superfluous = unexplained(differences(kafka.answers, ours.answers), known_differences(HISTORY))
    assert not left, "\n".join(left)
    assert not superfluous, f"differences that are gone: {superfluous}"


@pytest.mark.parametrize("heading", [HISTORY, FIRST_RESPONSES])
def test_every_documented_difference_has_a_reason(heading: str) -> None:
    known = known_differences(heading)
    assert known
    assert all(one.kafka and one.ours and one.reason for one in known)
    assert len({one.where for one in known}) == len(known)

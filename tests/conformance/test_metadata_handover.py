"""Apache Kafka and Barnabas pass one directory back and forth and keep all metadata of the cluster, for three rounds.

In each turn Kafka's Java clients describe the cluster, which must equal the description from the broker before; then
the history continues (`handover/history.py`), the clients describe the cluster again, and the broker stops or dies.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.handover.cluster_view import COORDINATED, assert_same_cluster, unlike
from tests.conformance.handover.history import Cluster, Turn
from tests.conformance.handover.sides import KAFKA, OLD_KAFKA, OURS, Directory
from tests.conformance.java_admin import JavaAdmin

pytestmark = [pytest.mark.conformance, pytest.mark.slow, pytest.mark.timeout(900)]

SEEDS = int(os.environ.get("BARNABAS_HANDOVER_SEEDS", "1"))
"""The number of histories; from two on there are more orders of brokers, too."""

STOP, KILL = "stop", "kill"


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    """The directory that the brokers share."""
    place = Directory(tmp_path)
    yield place
    place.end()


ROUNDS = [
    pytest.param((KAFKA, OURS) * 3 + (KAFKA,), (STOP,), id="kafka-first"),
    pytest.param((OURS, KAFKA) * 3 + (OURS,), (STOP, STOP, KILL), id="ours-first-and-kills"),
    pytest.param((OLD_KAFKA, OURS, KAFKA, OURS, OLD_KAFKA), (STOP,), id="kafka-4.1"),
]
if SEEDS > 1:
    ROUNDS += [
        pytest.param((OLD_KAFKA, OURS) * 3 + (OLD_KAFKA,), (KILL, STOP), id="kafka-4.1-and-kills"),
        pytest.param((KAFKA, OURS) * 3 + (KAFKA,), (KILL,), id="only-kills"),
    ]
"""The order of the brokers, and how their turns end; the ends repeat from the first."""


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize(("sides", "ends"), ROUNDS)
def test_metadata_survives_three_rounds_of_takeovers(
    sides: tuple[str, ...], ends: tuple[str, ...], seed: int, directory: Directory, java: JavaAdmin
) -> None:
    Journey(directory, java, seed).go(sides, ends)


class Journey:
    """One directory that passes from broker to broker."""

    def __init__(self, directory: Directory, java: JavaAdmin, seed: int) -> None:
        self.directory = directory
        self.java = java
        self.cluster = Cluster(seed)
        self.shown: dict[str, Any] | None = None
        self.coordinated: dict[str, Any] | None = None
        self._is_one_version = True

    def go(self, sides: tuple[str, ...], ends: tuple[str, ...]) -> None:
        """Plays a turn for each side, with the `ends` in turn. The last one only describes the cluster."""
        self._is_one_version = OLD_KAFKA not in sides
        for number, side in enumerate(sides):
            end = ends[number % len(ends)]
            broker = self.directory.broker(side)
            broker.start()
            self._check(broker.bootstrap)
            if number < len(sides) - 1:
                turn = Turn(self.cluster, number, self.java, broker.bootstrap)
                turn.play(self.directory.data, ends_with_kill=end == KILL)
                self._note(broker.bootstrap)
            self.java.forget(broker.bootstrap)
            if end == KILL:
                broker.kill()
            else:
                assert broker.stop() == broker.clean_status

    def _check(self, bootstrap: str) -> None:
        """The cluster is the one of the broker before."""
        shown = self.java.describe(bootstrap)
        if self.shown is not None:
            assert_same_cluster(shown, self.shown, one_version=self._is_one_version)
        if self.coordinated is not None:
            found = list(unlike(self.coordinated, {name: shown[name] for name in COORDINATED}))
            assert not found, "\n".join(found)

    def _note(self, bootstrap: str) -> None:
        """Stores the description that the next broker must give."""
        self.java.settle(bootstrap)
        self.shown = self.java.describe(bootstrap)
        self.coordinated = {name: self.shown[name] for name in COORDINATED}

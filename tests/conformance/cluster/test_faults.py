"""The long run: faults of all kinds, drawn by chance, one broker at a time, under load.

BARNABAS_CLUSTER_FAULTS sets how many there are (`make cluster FAULTS=200 ...`), BARNABAS_SEED which.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from random import Random
from typing import Final

import pytest

from tests.conformance.cluster.outcomes import assert_sound, fresh, wait_acknowledged
from tests.conformance.cluster.topics import led_in_turn
from tests.support.chance import seed_or
from tests.support.cluster.history import History
from tests.support.cluster.load import Reading, Sending, Transacting, load
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.settings import SESSION_S
from tests.support.cluster.waiting import wait_for

VARIABLE: Final = "BARNABAS_CLUSTER_FAULTS"
FEW: Final = 12
AT_ONCE: Final = 25
"""After so many faults the histories and the logs are judged, and a new topic begins."""

Fault = Callable[["Troubles"], None]
FAULTS: Final[dict[str, Fault]] = {}

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(0)]


def fault(call: Fault) -> Fault:
    FAULTS[call.__name__] = call
    return call


class Troubles:
    """One broker at a time is in trouble, for a time that is drawn; the others go on."""

    def __init__(self, rig: ClusterRig, history: History, rng: Random) -> None:
        self.rig = rig
        self.rng = rng
        self.node = -1
        self._history = history

    def one(self) -> None:
        """Draws a broker and a fault, and ends it once the cluster has gone on."""
        rig = self.rig
        self.node = self.rng.choice(list(rig.brokers))
        name = self.rng.choice(list(FAULTS))
        rig.note(f"-- {name}: {self.node}")
        FAULTS[name](self)
        rig.network.heal()
        rig.restart_missing()
        wait_acknowledged(self._history, 50)
        rig.wait_in_sync()

    def last(self) -> None:
        """Some records, or longer than a session."""
        if self.rng.random() < 0.5:
            wait_acknowledged(self._history, self.rng.randint(1, 200))
        else:
            seconds = self.rng.uniform(0, 2 * SESSION_S)
            until = time.monotonic() + seconds
            wait_for(f"{seconds:.1f} s are over", lambda: time.monotonic() > until)

    def other(self) -> int:
        return self.rng.choice([node for node in self.rig.brokers if node != self.node])


@fault
def kill(troubles: Troubles) -> None:
    troubles.rig.kill(troubles.node)
    troubles.last()


@fault
def kill_twice(troubles: Troubles) -> None:
    """The second time while it starts, or catches up."""
    rig, node = troubles.rig, troubles.node
    rig.kill(node)
    rig.start_node(node, wait=troubles.rng.random() < 0.5)
    rig.kill(node)
    troubles.last()


@fault
def freeze(troubles: Troubles) -> None:
    troubles.rig.pause(troubles.node)
    troubles.last()
    troubles.rig.resume(troubles.node)


@fault
def freeze_and_kill(troubles: Troubles) -> None:
    troubles.rig.pause(troubles.node)
    troubles.last()
    troubles.rig.kill(troubles.node)
    troubles.last()


@fault
def stop(troubles: Troubles) -> None:
    troubles.rig.stop_node(troubles.node)
    troubles.last()


@fault
def cut_from_a_broker(troubles: Troubles) -> None:
    one_way = troubles.rng.random() < 0.5
    ends = [troubles.node, troubles.other()]
    troubles.rng.shuffle(ends)
    act = troubles.rig.network.cut if troubles.rng.random() < 0.5 else troubles.rig.network.stall
    act(*ends, one_way=one_way)
    troubles.rig.note(f"{act.__name__} {ends}, one way: {one_way}")
    troubles.last()


@fault
def cut_from_all(troubles: Troubles) -> None:
    nodes = [node for node in troubles.rig.nodes if node != troubles.node]
    troubles.rig.network.isolate(troubles.node, nodes, by_cut=troubles.rng.random() < 0.5)
    troubles.last()


@fault
def cut_from_the_controllers(troubles: Troubles) -> None:
    one_way = troubles.rng.random() < 0.5
    for controller in troubles.rig.controllers:
        troubles.rig.network.stall(troubles.node, controller, one_way=one_way)
    troubles.last()


@fault
def slow(troubles: Troubles) -> None:
    for other in troubles.rig.nodes:
        if other != troubles.node:
            troubles.rig.network.delay(troubles.node, other, troubles.rng.uniform(0.01, 0.5))
    troubles.last()


@fault
def controller_fails(troubles: Troubles) -> None:
    """One of them is killed, or all that there are."""
    controller = troubles.rng.choice(list(troubles.rig.controllers))
    troubles.rig.kill(controller)
    troubles.last()
    if troubles.rng.random() < 0.5:
        troubles.rig.kill(troubles.node)


def test_nothing_is_lost_in_faults_by_chance(rig: ClusterRig) -> None:
    rng = Random(seed_or(0))
    left = int(os.environ.get(VARIABLE, FEW))
    while left > 0:
        partitions = led_in_turn(rig, fresh("troubled"))
        history = History()
        troubles = Troubles(rig, history, rng)
        with load(
            Sending(history, rig.bootstrap, fresh("all"), partitions),
            Transacting(history, rig.bootstrap, fresh("transactional"), partitions),
            Reading(history, rig.bootstrap, fresh("reader"), partitions),
        ):
            wait_acknowledged(history, 100)
            for _ in range(min(left, AT_ONCE)):
                troubles.one()
        left -= AT_ONCE
        assert_sound(rig, history, partitions)

"""Row 7: the network between brokers, and between a broker and the controllers, is cut or stalled and heals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.conformance.cluster.outcomes import assert_sound, fresh, wait_acknowledged
from tests.conformance.cluster.topics import led_in_turn
from tests.support.cluster.history import History
from tests.support.cluster.load import Reading, Sending, Transacting, load
from tests.support.cluster.network import Network
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.waiting import wait_for

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(600)]

Fault = Callable[[Network, int, int], None]

FAULTS: Final[dict[str, Fault]] = {
    "cut": lambda network, one, other: network.cut(one, other),
    "stalled": lambda network, one, other: network.stall(one, other),
    "deaf": lambda network, one, other: network.stall(other, one, one_way=True),
    "mute": lambda network, one, other: network.stall(one, other, one_way=True),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_brokers_that_do_not_reach_each_other_leave_the_isr(rig: ClusterRig, fault: Fault) -> None:
    first, second, *_ = rig.brokers
    topic = fresh("between")
    partitions = rig.create_topic(
        topic, assignment={0: [first, second], 1: [second, first]}, configs={"min.insync.replicas": "1"}
    )
    history = History()
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
    ):
        wait_acknowledged(history, 200)
        fault(rig.network, first, second)
        rig.note("fault between the brokers")
        for at, leader in zip(partitions, (first, second), strict=True):
            rig.wait_isr(at, {leader})
        wait_acknowledged(history, 300)
        rig.network.heal()
        rig.wait_in_sync({topic})
        wait_acknowledged(history, 200)
    assert_sound(rig, history, partitions)


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_broker_that_does_not_reach_the_controllers_is_fenced(rig: ClusterRig, fault: Fault) -> None:
    partitions = led_in_turn(rig, fresh("controlled"))
    history = History()
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions),
        Sending(history, rig.bootstrap, fresh("one"), partitions, acks="1"),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
    ):
        for node in rig.brokers:
            wait_acknowledged(history, 200)
            for controller in rig.controllers:
                fault(rig.network, node, controller)
            rig.note(f"fault between {node} and the controllers")
            others = [each for each in rig.brokers if each != node]
            wait_for("it is fenced", lambda node=node, others=others: node not in rig.unfenced(among=others))  # type: ignore[misc]
            rig.network.heal()
            rig.wait_unfenced([node])
            rig.wait_in_sync({partitions[0].topic})
    assert_sound(rig, history, partitions)


def test_a_network_that_flaps(rig: ClusterRig) -> None:
    partitions = led_in_turn(rig, fresh("flapping"))
    first, second, *_ = rig.brokers
    history = History()
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions),
        Transacting(history, rig.bootstrap, fresh("transactional"), partitions),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
    ):
        for number in range(12):
            fault = list(FAULTS.values())[number % len(FAULTS)]
            if number % 3:
                fault(rig.network, first, second)
            else:
                for controller in rig.controllers:
                    fault(rig.network, first, controller)
            wait_acknowledged(history, 20)
            rig.network.heal()
            wait_acknowledged(history, 50)
        rig.wait_unfenced(rig.brokers)
        rig.wait_in_sync({partitions[0].topic})
    assert_sound(rig, history, partitions)

"""Row 15: the data path does without a controller, and what needs one waits for it."""

from __future__ import annotations

import pytest

from tests.conformance.cluster.outcomes import assert_sound, fresh, wait_acknowledged
from tests.conformance.cluster.topics import led_in_turn
from tests.support.cluster.history import History
from tests.support.cluster.load import Reading, Sending, Transacting, load
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.settings import LAG_S
from tests.support.cluster.waiting import NeverHappenedError

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(600)]


def test_data_flows_while_all_controllers_are_down(rig: ClusterRig) -> None:
    partitions = led_in_turn(rig, fresh("uncontrolled"))
    history = History()
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions),
        Transacting(history, rig.bootstrap, fresh("transactional"), partitions),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
    ):
        wait_acknowledged(history, 100)
        rig.kill(*rig.controllers)
        wait_acknowledged(history, 2_000)  # for longer than a session
        for node in rig.controllers:
            rig.start_node(node)
        rig.wait_unfenced(rig.brokers)
        wait_acknowledged(history, 300)
    assert_sound(rig, history, partitions)


def test_an_isr_shrinks_as_soon_as_there_is_a_controller(rig: ClusterRig) -> None:
    first, second, *_ = rig.brokers
    (at,) = rig.create_topic(
        fresh("shrinks"), assignment={0: [first, second]}, configs={"min.insync.replicas": "1"}
    )
    history = History()
    with load(Sending(history, rig.bootstrap, fresh("all"), [at])):
        wait_acknowledged(history, 100)
        rig.kill(*rig.controllers, second)
        with pytest.raises(NeverHappenedError):
            wait_acknowledged(history, 5_000, limit_s=2 * LAG_S)
        for node in rig.controllers:
            rig.start_node(node)
        rig.wait_isr(at, {first})
        wait_acknowledged(history, 300)
        rig.start_node(second)
    assert_sound(rig, history, [at])

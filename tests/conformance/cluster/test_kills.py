"""Row 5: brokers are killed and are back before the cluster knows it; `test_replication.py` has longer absences."""

from __future__ import annotations

import pytest

from tests.conformance.cluster.outcomes import assert_sound, fresh, wait_acknowledged
from tests.conformance.cluster.topics import led_in_turn
from tests.support.cluster.history import History
from tests.support.cluster.load import Reading, Sending, Transacting, load
from tests.support.cluster.rig import ClusterRig

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(600)]


def test_a_killed_broker_that_is_back_before_its_session_ends(rig: ClusterRig) -> None:
    partitions = led_in_turn(rig, fresh("back"))
    history = History()
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions),
        Transacting(history, rig.bootstrap, fresh("transactional"), partitions),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
    ):
        for node in rig.brokers:
            wait_acknowledged(history, 300)
            rig.kill(node)
            rig.start_node(node)
            rig.wait_in_sync({partitions[0].topic})
    assert_sound(rig, history, partitions)

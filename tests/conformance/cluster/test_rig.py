"""The rig sees what it is there to see: losses that a correct cluster is made to have."""

from __future__ import annotations

import pytest

from tests.conformance.cluster.outcomes import fresh, wait_acknowledged
from tests.support.cluster.checker import Kind, check
from tests.support.cluster.history import History
from tests.support.cluster.load import Sending, final_read, load
from tests.support.cluster.rig import ClusterRig

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(300)]


def test_what_acks_1_loses_is_seen_where_it_is_taken_for_durable(rig: ClusterRig) -> None:
    """The leader dies with records that its frozen follower, which is in the ISR still, does not have."""
    first, second, *_ = rig.brokers
    partitions = rig.create_topic(
        fresh("lossy"), assignment={0: [first, second]}, configs={"min.insync.replicas": "1"}
    )
    history = History()
    with load(Sending(history, rig.bootstrap, fresh("one"), partitions, acks="1", is_durable=True)):
        wait_acknowledged(history, 50)
        rig.pause(second)
        wait_acknowledged(history, 100)
        rig.kill(first)
        rig.resume(second)
        rig.wait_leader(partitions[0], not_in={first})
        rig.start_node(first)
        rig.wait_in_sync({partitions[0].topic})
    final_read(history, rig.bootstrap, partitions)
    assert Kind.LOST in {anomaly.kind for anomaly in check(history)}

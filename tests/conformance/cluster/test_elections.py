"""Row 11: who leads after an election, and what a partition with too few replicas in sync does."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer

from barnabas.cli.admin.calls.reassignments import elect_leaders
from barnabas.cli.admin.names import ResourceType
from barnabas.cli.admin.partitions import TopicPartition
from barnabas.protocol.errors import ErrorCode
from tests.conformance.cluster.outcomes import assert_sound, fresh, wait_acknowledged
from tests.support.cluster.history import At, History
from tests.support.cluster.load import Sending, consumer_settings, load, watermarks
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.waiting import wait_for

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(600)]

PREFERRED, UNCLEAN = 0, 1


def pair(rig: ClusterRig, topic: str, **configs: str) -> At:
    """A partition led by the first broker, and followed by the second."""
    first, second, *_ = rig.brokers
    named = {key.replace("_", "."): value for key, value in configs.items()}
    (at,) = rig.create_topic(topic, assignment={0: [first, second]}, configs=named)
    return at


def high_watermark(rig: ClusterRig, at: At) -> int:
    consumer = Consumer(consumer_settings(rig.bootstrap, "watermark", is_committed=False))
    try:
        return watermarks(consumer, at, time.monotonic() + 30)[1]
    finally:
        consumer.close()


def test_the_imbalance_check_gives_the_lead_back(rig: ClusterRig) -> None:
    at = pair(rig, fresh("balanced"))
    first, second, *_ = rig.brokers
    rig.kill(first)
    assert rig.wait_leader(at, not_in={first}) == second
    rig.start_node(first)
    assert rig.wait_leader(at, not_in={second}) == first


def test_a_preferred_election_by_tool(rig: ClusterRig) -> None:
    at = pair(rig, fresh("preferred"))
    first, second, *_ = rig.brokers
    rig.kill(first)
    rig.wait_leader(at, not_in={first})
    rig.start_node(first)
    rig.wait_isr(at, {first, second})
    (error,) = rig.ask(lambda admin: elect_leaders(admin, PREFERRED, [TopicPartition(*at)])).values()
    assert error is None or error.code == ErrorCode.ELECTION_NOT_NEEDED  # the imbalance check was first
    assert rig.wait_leader(at, not_in={second}, limit_s=1) == first


def test_under_min_isr_the_high_watermark_stands_still(rig: ClusterRig) -> None:
    at = pair(rig, fresh("under"), min_insync_replicas="1")
    first, second, *_ = rig.brokers
    history = History()
    with load(Sending(history, rig.bootstrap, fresh("all"), [at])):
        wait_acknowledged(history, 100)
        rig.configure(ResourceType.TOPIC, at.topic, {"min.insync.replicas": "2"})
        rig.kill(second)
        rig.wait_isr(at, {first})
        end = high_watermark(rig, at)
        with load(Sending(history, rig.bootstrap, fresh("one"), [at], acks="1")):
            wait_acknowledged(history, 200)  # of acks=1 alone
        assert high_watermark(rig, at) == end
        rig.configure(ResourceType.TOPIC, at.topic, {"min.insync.replicas": "1"})
        wait_acknowledged(history, 100)
        assert high_watermark(rig, at) > end
        rig.start_node(second)
    assert_sound(rig, history, [at])


def test_an_eligible_replica_outside_the_isr_is_elected(rig: ClusterRig) -> None:
    """KIP-966: it left the ISR when that fell below its minimum, so that it has all that was acknowledged."""
    if rig.release < (4, 1):
        pytest.skip("eligible leader replicas are a preview before Kafka 4.1")
    at = pair(rig, fresh("eligible"), min_insync_replicas="2")
    first, second, *_ = rig.brokers
    history = History()
    with load(Sending(history, rig.bootstrap, fresh("all"), [at])):
        wait_acknowledged(history, 200)
        rig.stop_node(second)  # cleanly: a killed one does not know whether it has what it had
        rig.wait_isr(at, {first})
        assert rig.partition(at).elr == [second]
        rig.kill(first)
        rig.start_node(second, wait=False)
        wait_for("it leads", lambda: rig.partition(at).leader == second)
        rig.start_node(first)
        wait_acknowledged(history, 100)
    assert_sound(rig, history, [at])


def test_an_unclean_election_loses_what_the_new_leader_lacks_and_nothing_else(rig: ClusterRig) -> None:
    at = pair(rig, fresh("unclean"), min_insync_replicas="1")
    first, second, *_ = rig.brokers
    history = History()
    with load(Sending(history, rig.bootstrap, fresh("before"), [at])):
        wait_acknowledged(history, 100)
    rig.kill(second)
    rig.wait_isr(at, {first})
    with load(Sending(history, rig.bootstrap, fresh("lost"), [at], is_durable=False)):
        wait_acknowledged(history, 100)
    rig.kill(first)
    rig.start_node(second)
    rig.wait_fenced(first)
    wait_for("there is no leader", lambda: rig.partition(at).leader is None)
    (error,) = rig.ask(lambda admin: elect_leaders(admin, UNCLEAN, [TopicPartition(*at)])).values()
    assert error is None
    assert rig.wait_leader(at) == second
    with load(Sending(history, rig.bootstrap, fresh("after"), [at])):
        wait_acknowledged(history, 100)
        rig.start_node(first)
        rig.wait_isr(at, {first, second})
    assert_sound(rig, history, [at])

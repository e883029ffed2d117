"""Row 10: partitions move from broker to broker, throttled, cancelled, and with brokers that die meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from barnabas.cli.admin.names import ResourceType
from tests.conformance.cluster.outcomes import assert_sound, fresh, wait_acknowledged
from tests.conformance.cluster.topics import replica_of
from tests.support.cluster.history import At, History
from tests.support.cluster.load import Reading, Sending, load
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.waiting import wait_for, wait_until

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(600)]

RATE = 1_000_000
"""Bytes per second of a throttled move."""
PADDING = 8_000


def wait_gone(rig: ClusterRig, node: int, at: At) -> None:
    """Until a broker has deleted its replica."""
    wait_until(f"{at} is gone from {node}", lambda: rig.partition_directory(node, at))


def size_of(rig: ClusterRig, node: int, at: At) -> int:
    """The bytes of a replica's log."""
    return sum(path.stat().st_size for path in replica_of(rig, node, at).glob("*.log"))


@contextmanager
def throttle(rig: ClusterRig, topic: str) -> Iterator[None]:
    """Throttles all replicas of a topic."""
    brokers = {
        (ResourceType.BROKER, str(node)): dict.fromkeys(
            ("leader.replication.throttled.rate", "follower.replication.throttled.rate"), str(RATE)
        )
        for node in rig.brokers
    }
    replicas = dict.fromkeys(
        ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"), "*"
    )
    for (kind, name), values in {**brokers, (ResourceType.TOPIC, topic): replicas}.items():
        rig.configure(kind, name, values)
    try:
        yield
    finally:
        for (kind, name), values in {**brokers, (ResourceType.TOPIC, topic): replicas}.items():
            rig.configure(kind, name, dict.fromkeys(values))


def filled(rig: ClusterRig, topic: str, history: History, records: int = 800) -> list[At]:
    """A partition on each broker alone, with some megabytes."""
    partitions = rig.create_topic(
        topic, assignment={number: [node] for number, node in enumerate(rig.brokers)}
    )
    sender = Sending(history, rig.bootstrap, fresh("filler"), partitions, padding=PADDING, per_second=2_000)
    with load(sender):
        wait_acknowledged(history, records * len(partitions))
    return partitions


def test_partitions_change_places_under_load(rig: ClusterRig) -> None:
    brokers = list(rig.brokers)
    others = [*brokers[1:], brokers[0]]
    history = History()
    partitions = rig.create_topic(
        fresh("moved"), assignment={number: [node] for number, node in enumerate(brokers)}
    )
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
    ):
        for sources, targets in ((brokers, others), (others, brokers)):
            wait_acknowledged(history, 300)
            rig.move({at: [node] for at, node in zip(partitions, targets, strict=True)})
            rig.wait_moved()
            for at, source, target in zip(partitions, sources, targets, strict=True):
                assert rig.wait_leader(at, not_in={source}) == target
                wait_gone(rig, source, at)
    assert_sound(rig, history, partitions)


def test_a_throttled_move_keeps_to_its_rate(rig: ClusterRig) -> None:
    history = History()
    topic = fresh("throttled")
    first, second, *_ = rig.brokers
    (at, *_) = partitions = filled(rig, topic, history)
    size = size_of(rig, first, at)
    with throttle(rig, topic):
        begun = time.monotonic()
        rig.move({at: [second]})
        rig.wait_moved()
        took_s = time.monotonic() - begun
    # Two windows of a second begin empty, and the last request may go beyond the rate.
    assert took_s > (size - 2 * RATE) / (1.1 * RATE) - 1
    assert took_s < size / (0.9 * RATE) + 10
    assert_sound(rig, history, partitions)


def test_a_cancelled_move_leaves_nothing_behind(rig: ClusterRig) -> None:
    history = History()
    topic = fresh("cancelled")
    first, second, *_ = rig.brokers
    (at, *_) = partitions = filled(rig, topic, history)
    with throttle(rig, topic):
        rig.move({at: [second]})
        wait_for("the move has begun", lambda: rig.partition_directory(second, at))
        rig.move({at: None})
    rig.wait_moved()
    rig.wait_replicas(at, [first])
    wait_gone(rig, second, at)
    assert_sound(rig, history, partitions)


@pytest.mark.parametrize("killed", ["source", "target"])
def test_a_broker_dies_while_a_partition_moves(rig: ClusterRig, killed: str) -> None:
    history = History()
    topic = fresh(f"killed-{killed}")
    first, second, *_ = rig.brokers
    (at, *_) = partitions = filled(rig, topic, history)
    with throttle(rig, topic):
        rig.move({at: [second]})
        wait_for("the move has begun", lambda: rig.partition_directory(second, at))
        node = first if killed == "source" else second
        rig.kill(node)
        rig.start_node(node)
    rig.wait_moved()
    rig.wait_replicas(at, [second])
    wait_gone(rig, first, at)
    assert_sound(rig, history, partitions)

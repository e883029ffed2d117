"""Row 12: coordinators of groups and of transactions move from broker to broker, while these are at work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from barnabas.cli.admin.calls.cluster import UpgradeType, update_features
from barnabas.cli.admin.calls.groups import describe_group
from barnabas.cli.admin.calls.transactions import list_transactions
from tests.conformance.cluster.outcomes import assert_sound, fresh
from tests.conformance.cluster.topics import led_in_turn
from tests.support.cluster.history import Assigned, At, History, OffsetCommitted, Outcome, TransactionEnded
from tests.support.cluster.load import InGroup, Reading, Sending, Transacting, load
from tests.support.cluster.nodes import Implementation
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.waiting import NeverHappenedError, wait_for

NEWEST = 2
"""The level of transaction.version that a new cluster has."""

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(600)]


def wait_commits(history: History, more: int) -> None:
    """Until the group has committed so many more times."""
    wanted = history.count(OffsetCommitted, Outcome.OK) + more
    wait_for(f"{more} more commits", lambda: history.count(OffsetCommitted, Outcome.OK) >= wanted)


def consumers(history: History) -> set[str]:
    """The consumers that were given partitions."""
    return {event.consumer for event in history.events if isinstance(event, Assigned)}


def wait_partitions(rig: ClusterRig, history: History, member: str, group: str) -> None:
    """Until a consumer has partitions; says what the group is waiting for where it never gets any."""
    try:
        wait_for(f"{member} has partitions", lambda: member in consumers(history))
    except NeverHappenedError:
        rig.note(f"{member} waits: {rig.ask(partial(describe_group, group=group))}")
        rig.note("; ".join(map(str, history.events[-20:])))
        raise


def wait_transactions(history: History, more: int) -> None:
    """Until so many more transactions are committed."""
    wanted = history.count(TransactionEnded, Outcome.OK) + more
    wait_for(f"{more} more transactions", lambda: history.count(TransactionEnded, Outcome.OK) >= wanted)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_group_outlives_its_coordinator(rig: ClusterRig, protocol: str, how: str) -> None:
    if protocol == "consumer" and rig.release < (4, 0):
        pytest.skip("the consumer protocol is a preview in Kafka 3.9")
    topic, group = fresh("grouped"), fresh(protocol)
    partitions = rig.create_topic(topic, 6)  # more than members
    history = History()
    sender = Sending(history, rig.bootstrap, fresh("all"), partitions, per_second=100)
    members = [
        InGroup(history, rig.bootstrap, fresh("member"), group, topic, protocol=protocol) for _ in range(3)
    ]
    with load(sender, *members[:2]):
        wait_commits(history, 10)
        for _ in rig.brokers:
            coordinator = rig.group_coordinator(group)
            if how == "stopped":
                rig.stop_node(coordinator)
            else:
                rig.kill(coordinator)
            wait_commits(history, 5)
            rig.start_node(coordinator)
            rig.wait_in_sync()
        with load(members[2]):  # a rebalance
            coordinator = rig.group_coordinator(group)
            rig.kill(coordinator)
            wait_partitions(rig, history, members[2].name, group)
            wait_commits(history, 5)
            rig.start_node(coordinator)
            rig.wait_in_sync()
        wait_commits(history, 5)
    assert_sound(rig, history, partitions)


@contextmanager
def transaction_version(rig: ClusterRig, level: int) -> Iterator[None]:
    """Finalizes a level of transaction.version, and puts the newest back."""

    def finalize(to: int) -> None:
        kind = UpgradeType.UPGRADE if to == NEWEST else UpgradeType.SAFE_DOWNGRADE
        levels = {"transaction.version": to}
        found = rig.ask(lambda admin: update_features(admin, levels, kind, validate_only=False))
        assert not any(found.values()), found

    if level != NEWEST:
        finalize(level)
    try:
        yield
    finally:
        rig.restart_missing()
        if level != NEWEST:
            finalize(NEWEST)


@pytest.mark.parametrize("level", [1, 2], ids=["TV1", "TV2"])
def test_transactions_outlive_their_coordinators(rig: ClusterRig, level: int) -> None:
    if rig.release < (4, 0):
        pytest.skip("transaction.version is a preview in Kafka 3.9")
    partitions = led_in_turn(rig, fresh("transactional"))
    history = History()
    names = [fresh("x"), fresh("y")]
    with transaction_version(rig, level):
        with load(
            *(Transacting(history, rig.bootstrap, name, partitions) for name in names),
            Reading(history, rig.bootstrap, fresh("committed"), partitions),
            Reading(history, rig.bootstrap, fresh("uncommitted"), partitions, is_committed=False),
        ):
            wait_transactions(history, 5)
            for name in names:
                coordinator = rig.transaction_coordinator(name)
                rig.kill(coordinator)
                wait_transactions(history, 5)
                rig.start_node(coordinator)
                rig.wait_in_sync()
                coordinator = rig.transaction_coordinator(name)
                rig.stop_node(coordinator)
                wait_transactions(history, 5)
                rig.start_node(coordinator)
                rig.wait_in_sync()
        assert_sound(rig, history, partitions)


def waiting_for_markers(rig: ClusterRig) -> list[str]:
    """Transactions that are decided, and whose markers are not in all partitions."""
    return [each.transactional_id for each in rig.ask(list_transactions) if each.state.startswith("Prepare")]


def on_one_broker_each(rig: ClusterRig) -> list[At]:
    """Two partitions without followers."""
    first, second, *_ = rig.brokers
    return rig.create_topic(fresh("marked"), assignment={0: [first], 1: [second]})


def test_markers_wait_for_a_leader_that_cannot_be_reached(rig: ClusterRig) -> None:
    first, second, *_ = rig.brokers
    partitions = on_one_broker_each(rig)
    history = History()
    names = [fresh("transactional") for _ in range(2)]
    with load(*(Transacting(history, rig.bootstrap, name, partitions) for name in names)):
        wait_transactions(history, 10)
        rig.network.cut(first, second)
        assert wait_for("a transaction waits", lambda: waiting_for_markers(rig) or None)
        rig.network.heal()
        wait_transactions(history, 10)
    rig.wait_in_sync()
    assert_sound(rig, history, partitions)


def test_markers_wait_for_a_leader_that_is_dead(rig: ClusterRig) -> None:
    """A coordinator of Kafka 4.3.1 takes the partition for deleted and forgets its markers (KAFKA-20734)."""
    if Implementation.JVM in {broker.implementation for broker in rig.brokers.values()}:
        pytest.skip("Kafka 4.3.1 forgets the markers of a partition without a leader (KAFKA-20734)")
    partitions = on_one_broker_each(rig)
    history = History()
    names = [fresh("transactional") for _ in range(2)]
    with load(*(Transacting(history, rig.bootstrap, name, partitions) for name in names)):
        wait_transactions(history, 10)
        for node in list(rig.brokers)[:2]:
            rig.kill(node)
            rig.start_node(node)
            rig.wait_in_sync()
            wait_transactions(history, 5)
    assert_sound(rig, history, partitions)

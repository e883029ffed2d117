"""Row 9: all brokers are restarted one after the other under load, or replaced by the other implementation and back."""

from __future__ import annotations

import signal

import pytest

from tests.conformance.cluster.outcomes import assert_sound, fresh, wait_acknowledged
from tests.conformance.cluster.topics import led_in_turn
from tests.support.cluster.history import At, History, Outcome, Sent
from tests.support.cluster.load import InGroup, Reading, Sending, Transacting, load
from tests.support.cluster.nodes import Implementation
from tests.support.cluster.rig import ClusterRig

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(600)]

CLEAN = {0, 128 + signal.SIGTERM}
"""Exit statuses of a clean end: a JVM's names the signal."""


def at_rest(rig: ClusterRig, partitions: list[At]) -> None:
    """Until a broker may be restarted: all replicas in sync."""
    rig.wait_in_sync({at.topic for at in partitions})


def test_a_rolling_restart_under_load(rig: ClusterRig) -> None:
    partitions = led_in_turn(rig, fresh("rolling"))
    history = History()
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions),
        Transacting(history, rig.bootstrap, fresh("transactional"), partitions),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
    ):
        for node in rig.brokers:
            wait_acknowledged(history, 300)
            assert rig.stop_node(node) in CLEAN
            # It left no leadership behind: there is nothing to wait for.
            assert [str(at) for at in partitions if rig.partition(at).leader in {node, None}] == []
            for directory in rig.brokers[node].files.log_dirs:
                assert (directory / ".kafka_cleanshutdown").exists()
            rig.start_node(node)
            at_rest(rig, partitions)
    assert_sound(rig, history, partitions)


def test_all_brokers_are_replaced_on_their_directories_and_back(rig: ClusterRig) -> None:
    """From JVMs alone to Barnabas alone, and back."""
    partitions = led_in_turn(rig, fresh("all-replaced"))
    history = History()
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions),
        Transacting(history, rig.bootstrap, fresh("transactional"), partitions),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
        InGroup(history, rig.bootstrap, fresh("member"), fresh("group"), partitions[0].topic),
    ):
        for implementation in (Implementation.JVM, Implementation.BARNABAS, Implementation.JVM):
            for node, broker in rig.brokers.items():
                if broker.implementation is not implementation:
                    wait_acknowledged(history, 200)
                    rig.swap(node, implementation)
                    at_rest(rig, partitions)
        wait_acknowledged(history, 200)
    assert_sound(rig, history, partitions)
    assert history.count(Sent, Outcome.FAILED) == 0


def test_each_broker_is_replaced_on_its_directory_and_back(rig: ClusterRig) -> None:
    """Where the layout has one implementation only, this restarts each twice."""
    partitions = led_in_turn(rig, fresh("replaced"))
    history = History()
    there = {Implementation(letter) for letter in rig.layout}
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
    ):
        for node in rig.brokers:
            own = rig.brokers[node].implementation
            (other,) = there - {own} or {own}
            for implementation in (other, own):
                wait_acknowledged(history, 200)
                rig.swap(node, implementation)
                at_rest(rig, partitions)
    assert_sound(rig, history, partitions)

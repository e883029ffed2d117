"""Rows 3 and 4: followers of logs that are deleted from, and a broker that was away when a topic was deleted."""

from __future__ import annotations

import pytest

from barnabas.cli.admin.calls.offsets import delete_records
from barnabas.cli.admin.partitions import TopicPartition
from tests.conformance.cluster.outcomes import assert_replicas_equal, assert_sound, fresh, wait_acknowledged
from tests.conformance.cluster.topics import SMALL_SEGMENTS, led_in_turn, replica_of
from tests.support.cluster.history import At, FinalRead, History
from tests.support.cluster.load import Reading, Sending, load
from tests.support.cluster.replicas import batches_in
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.waiting import wait_until

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(600)]

FIRST_SEGMENT = f"{0:020d}.log"


def has_deleted(rig: ClusterRig, node: int, at: At) -> bool:
    """Whether a replica has lost its first segment."""
    directory = rig.partition_directory(node, at)
    return directory is not None and any(directory.glob("*.log")) and not (directory / FIRST_SEGMENT).exists()


def test_a_new_follower_of_a_log_whose_start_is_inside_a_batch(rig: ClusterRig) -> None:
    brokers = list(rig.brokers)
    topic = fresh("deleted")
    partitions = rig.create_topic(topic, assignment={number: [node] for number, node in enumerate(brokers)})
    history = History()
    with load(Sending(history, rig.bootstrap, fresh("all"), partitions, configs={"linger.ms": 50})):
        wait_acknowledged(history, 600)
    starts = {}
    for at, node in zip(partitions, brokers, strict=True):
        batches = batches_in(replica_of(rig, node, at))[1:]
        long = next(batch for batch in batches if batch.last_offset > batch.base_offset)
        starts[TopicPartition(*at)] = long.last_offset
    rig.ask(lambda admin: delete_records(admin, starts))
    rig.move(
        {
            at: [node, *(each for each in brokers if each != node)]
            for at, node in zip(partitions, brokers, strict=True)
        }
    )
    rig.wait_moved()
    assert_sound(rig, history, partitions)
    found = {event.at: event.start for event in history.events if isinstance(event, FinalRead)}
    assert found == {At(*key): start for key, start in starts.items()}
    for at, node in zip(partitions, brokers, strict=True):
        follower = next(each for each in brokers if each != node)
        first = batches_in(replica_of(rig, follower, at))[0]
        assert first.base_offset < starts[TopicPartition(*at)] <= first.last_offset


def test_retention_deletes_on_leaders_and_followers(rig: ClusterRig) -> None:
    configs = {**SMALL_SEGMENTS, "retention.bytes": "2000000", "file.delete.delay.ms": "1000"}
    partitions = led_in_turn(rig, fresh("retained"), configs)
    history = History()
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions, padding=8000),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
    ):
        wait_until(
            "all replicas have deleted segments",
            lambda: [
                (node, at)
                for at in partitions
                for node in rig.partition(at).replicas
                if not has_deleted(rig, node, at)
            ],
        )
    assert_sound(rig, history, partitions)


def test_a_topic_that_is_deleted_while_a_broker_is_away_is_deleted_there_too(rig: ClusterRig) -> None:
    kept, deleted = led_in_turn(rig, fresh("kept")), led_in_turn(rig, fresh("gone"))
    away = list(rig.brokers)[-1]
    rig.stop_node(away)
    rig.delete_topic(deleted[0].topic)
    rig.start_node(away)
    wait_until(
        "its directories are gone",
        lambda: [at for at in deleted if rig.partition_directory(away, at) is not None],
    )
    assert_replicas_equal(rig, kept)

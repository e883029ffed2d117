"""Row 14: brokers with two log directories, between which replicas move, and of which one fails."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from barnabas.cli.admin.calls.log_dirs import alter_replica_log_dirs, describe_log_dirs
from barnabas.cli.admin.partitions import TopicPartition
from tests.conformance.cluster.outcomes import assert_sound, fresh, wait_acknowledged
from tests.conformance.cluster.topics import replica_of
from tests.support.cluster.history import At, History
from tests.support.cluster.load import Reading, Sending, load
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.waiting import wait_until

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(300)]


def move_to(rig: ClusterRig, node: int, at: At, directory: Path) -> None:
    """Moves a replica to a log directory of its broker, and waits until it is there."""
    if replica_of(rig, node, at).parent == directory:
        return
    targets = {TopicPartition(*at): str(directory)}
    (error,) = rig.ask(lambda admin: alter_replica_log_dirs(admin, node, targets)).values()
    assert error is None, error
    wait_until(
        f"{at} is in {directory}",
        lambda: [found for found in [rig.partition_directory(node, at)] if found != directory / str(at)],
    )


def pair(rig: ClusterRig, topic: str) -> At:
    """A partition led by the first broker and followed by the second."""
    first, second, *_ = rig.brokers
    (at,) = rig.create_topic(topic, assignment={0: [first, second]}, configs={"min.insync.replicas": "1"})
    return at


def test_replicas_move_between_directories_under_load(jbod: ClusterRig) -> None:
    at = pair(jbod, fresh("shelved"))
    history = History()
    with load(
        Sending(history, jbod.bootstrap, fresh("all"), [at]),
        Reading(history, jbod.bootstrap, fresh("reader"), [at]),
    ):
        for node in jbod.partition(at).replicas:  # the leader, and a follower while it follows
            wait_acknowledged(history, 200)
            here = replica_of(jbod, node, at).parent
            (there,) = (each for each in jbod.brokers[node].files.log_dirs if each != here)
            for directory in (there, here):
                move_to(jbod, node, at, directory)
                wait_acknowledged(history, 100)
    assert_sound(jbod, history, [at])


def test_the_leaders_in_a_failed_directory_move(jbod: ClusterRig) -> None:
    """The directory is taken away: the broker finds out with the next file that it writes there."""
    at = pair(jbod, fresh("failed"))
    first, second, *_ = jbod.brokers
    broken = jbod.brokers[first].files.log_dirs[1]
    history = History()
    with load(
        Sending(history, jbod.bootstrap, fresh("all"), [at]),
        Reading(history, jbod.bootstrap, fresh("reader"), [at]),
    ):
        move_to(jbod, first, at, broken)
        wait_acknowledged(history, 200)
        aside = broken.rename(broken.with_suffix(".gone"))
        try:
            assert jbod.wait_leader(at, not_in={first}) == second
            wait_acknowledged(history, 200)
            assert jbod.brokers[first].is_running
            failed = [
                Path(each.path)
                for each in jbod.ask(lambda admin: describe_log_dirs(admin, first))
                if each.error is not None
            ]
            assert failed == [broken]
        finally:
            jbod.kill(first)
            shutil.rmtree(broken, ignore_errors=True)
            aside.rename(broken)
        jbod.start_node(first)
        jbod.wait_in_sync({at.topic})
        wait_acknowledged(history, 200)
    assert_sound(jbod, history, [at])

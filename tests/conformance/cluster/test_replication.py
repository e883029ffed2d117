"""Rows 3, 4 and 5 in short: what .ci/run tries too. In one file, so that there is one cluster at a time."""

from __future__ import annotations

import pytest

from tests.conformance.cluster.outcomes import assert_sound, fresh, wait_acknowledged
from tests.conformance.cluster.topics import SMALL_SEGMENTS, led_in_turn
from tests.support.cluster.history import At, History
from tests.support.cluster.load import Reading, Sending, Transacting, load
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.waiting import wait_until

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(600)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def segments(rig: ClusterRig, node: int, at: At) -> int:
    """How many segments a replica has; 0 where it does not exist so far."""
    directory = rig.partition_directory(node, at)
    return 0 if directory is None else len(list(directory.glob("*.log")))


def test_followers_have_the_batches_of_all_codecs_and_of_transactions(rig: ClusterRig) -> None:
    topics = {codec: led_in_turn(rig, fresh(codec), SMALL_SEGMENTS) for codec in CODECS}
    partitions = [at for each in topics.values() for at in each]
    history = History()
    senders = [
        Sending(
            history,
            rig.bootstrap,
            fresh(codec),
            topics[codec],
            per_second=400 if codec == "none" else 100,
            padding=4000 if codec == "none" else 100,
            configs={"compression.type": codec},
        )
        for codec in CODECS
    ]
    with load(*senders, Transacting(history, rig.bootstrap, fresh("transactional"), partitions)):
        wait_until(
            "segments are rolled on all replicas",
            lambda: [
                (node, at)
                for at in topics["none"]
                for node in rig.partition(at).replicas
                if segments(rig, node, at) < 2
            ],
        )
    assert_sound(rig, history, partitions)


def test_no_acknowledged_record_is_lost_with_a_killed_broker(rig: ClusterRig) -> None:
    partitions = led_in_turn(rig, fresh("killed"))
    history = History()
    with load(
        Sending(history, rig.bootstrap, fresh("all"), partitions),
        Sending(history, rig.bootstrap, fresh("one"), partitions, acks="1"),
        Reading(history, rig.bootstrap, fresh("reader"), partitions),
    ):
        wait_acknowledged(history, 500)
        for node in rig.brokers:
            rig.kill(node)
            for at in partitions:
                rig.wait_leader(at, not_in={node})
            wait_acknowledged(history, 500)
            rig.start_node(node)
            rig.wait_in_sync({partitions[0].topic})
            wait_acknowledged(history, 500)
    assert_sound(rig, history, partitions)

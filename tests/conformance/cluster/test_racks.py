"""Row 13: a consumer reads from the replica in its rack, and from the leader when that replica is gone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.conformance.cluster.outcomes import assert_sound, fresh, wait_acknowledged
from tests.support.cluster.history import At, History, Polled
from tests.support.cluster.load import Reading, Sending, load
from tests.support.cluster.rig import ClusterRig
from tests.support.cluster.settings import rack_of
from tests.support.cluster.waiting import wait_for

pytestmark = [pytest.mark.conformance, pytest.mark.cluster, pytest.mark.timeout(300)]


class Source:
    """From which broker a consumer reads a partition now, by the statistics of its library."""

    def __init__(self, at: At) -> None:
        self.at = at
        self.broker = -1

    def note(self, text: str) -> None:
        topics: dict[str, Any] = json.loads(text)["topics"]
        partition = topics.get(self.at.topic, {}).get("partitions", {}).get(str(self.at.partition), {})
        self.broker = partition.get("broker", self.broker)


def test_a_consumer_reads_from_the_replica_in_its_rack(rig: ClusterRig) -> None:
    first, second, *_ = rig.brokers
    (at,) = rig.create_topic(
        fresh("racked"), assignment={0: [first, second]}, configs={"min.insync.replicas": "1"}
    )
    history, source = History(), Source(at)
    reader = Reading(
        history,
        rig.bootstrap,
        fresh("reader"),
        [at],
        configs={"client.rack": rack_of(second), "statistics.interval.ms": 200, "stats_cb": source.note},
    )
    with load(Sending(history, rig.bootstrap, fresh("all"), [at]), reader):
        wait_for("it reads from the follower", lambda: source.broker == second)
        read = history.count(Polled)
        wait_for("it reads on", lambda: history.count(Polled) > read + 200)
        assert source.broker == second
        rig.kill(second)
        wait_for("it reads from the leader", lambda: source.broker == first)
        read = history.count(Polled)
        wait_for("it reads on", lambda: history.count(Polled) > read + 200)
        rig.start_node(second)
        rig.wait_in_sync({at.topic})
        wait_acknowledged(history, 100)
    assert_sound(rig, history, [at])

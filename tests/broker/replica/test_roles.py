"""Leading and following as the metadata change them, over a ReplicaManager with real logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.replica.partition import Partition
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from tests.broker.cluster_images import fencing, registration
from tests.broker.logs import batch, partition_image
from tests.broker.replica.isr_harness import Cluster, FakeFetchers
from tests.broker.replica_node import ELSEWHERE, HERE, Node, T

THIRD = 3
KEY = ("t", 0)
EPOCH = 5
LED = partition_image(replicas=(HERE, ELSEWHERE), leader_epoch=EPOCH)
FOLLOWED = partition_image(replicas=(HERE, ELSEWHERE), leader=ELSEWHERE, leader_epoch=EPOCH)


@pytest.fixture
def fetchers() -> FakeFetchers:
    return FakeFetchers()


@pytest.fixture
def node(tmp_path: Path, fetchers: FakeFetchers) -> Node:
    made = Node(tmp_path, context=Cluster().context)
    assert made.manager.roles is not None
    made.manager.roles.fetchers = fetchers
    made.commit(registration(HERE), registration(ELSEWHERE), registration(THIRD))
    fetchers.lines.clear()
    return made


def the_partition(node: Node) -> Partition:
    return node.manager.partition(*KEY)


def change(node: Node, **changed: Any) -> None:
    node.commit(PartitionChangeRecord(partition_id=0, topic_id=T, **changed))


def test_a_new_follower_is_fetched_from_its_log_end_on(node: Node, fetchers: FakeFetchers) -> None:
    node.create("t", T, FOLLOWED)
    assert fetchers.fetched == {KEY: (ELSEWHERE, EPOCH, 0)}
    assert fetchers.lines == ["add t-0 in 5", "close idle"]


def test_a_leader_that_follows_is_fetched_in_the_new_epoch(node: Node, fetchers: FakeFetchers) -> None:
    node.create("t", T, LED)
    node.append(("t", 0, batch("a", "b")), acks=1)
    node.elect(T, ELSEWHERE)
    assert fetchers.fetched == {KEY: (ELSEWHERE, EPOCH + 1, 2)}


def test_a_log_without_epochs_is_fetched_from_the_high_watermark_on(
    node: Node, fetchers: FakeFetchers
) -> None:
    node.create("t", T, LED)
    node.append(("t", 0, batch("a", "b")), acks=1)
    the_partition(node).log.leader_epoch_cache.clear_and_flush()
    node.elect(T, ELSEWHERE)
    assert fetchers.fetched == {KEY: (ELSEWHERE, EPOCH + 1, 0)}


def test_a_follower_leaves_its_fetcher_before_it_changes(node: Node, fetchers: FakeFetchers) -> None:
    node.create("t", T, FOLLOWED)
    fetchers.lines.clear()
    node.elect(T, THIRD)
    assert fetchers.lines == ["remove t-0", "add t-0 in 6", "close idle"]
    fetchers.lines.clear()
    node.elect(T, HERE)
    assert fetchers.lines == ["remove t-0", "close idle"]
    assert the_partition(node).is_leader


def test_an_image_of_the_same_epoch_leaves_the_fetcher_alone(node: Node, fetchers: FakeFetchers) -> None:
    node.create("t", T, FOLLOWED)
    fetchers.lines.clear()
    change(node, isr=[ELSEWHERE])
    assert fetchers.lines == ["close idle"]
    assert fetchers.fetched == {KEY: (ELSEWHERE, EPOCH, 0)}


def test_a_leader_that_cannot_be_reached_is_fetched_from_when_it_can(
    node: Node, fetchers: FakeFetchers
) -> None:
    node.commit(fencing(ELSEWHERE, fenced=True))
    node.create("t", T, FOLLOWED)
    assert fetchers.fetched == {}
    node.commit(fencing(ELSEWHERE, fenced=False))
    assert fetchers.fetched == {KEY: (ELSEWHERE, EPOCH, 0)}
    node.elect(T, -1)
    assert fetchers.fetched == {}
    node.elect(T, HERE)
    node.commit(fencing(THIRD, fenced=True))
    assert fetchers.fetched == {}


def test_a_broker_that_is_about_to_stop_does_not_fetch_what_was_taken_from_it(
    node: Node, fetchers: FakeFetchers
) -> None:
    node.create("t", T, FOLLOWED)
    assert node.manager.roles is not None
    node.manager.roles.begin_controlled_shutdown()
    node.elect(T, THIRD)
    assert fetchers.fetched == {KEY: (THIRD, EPOCH + 1, 0)}
    change(node, isr=[THIRD])
    assert fetchers.fetched == {}
    node.elect(T, ELSEWHERE)
    assert fetchers.fetched == {}

"""Truncations of followers' logs: off the loop, with nothing else at work on the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.replica.partition import Partition
from barnabas.storage.errors import KafkaStorageError
from tests.broker.replica.isr_harness import truncating_follower
from tests.broker.replica_node import Node

EPOCH = 5


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return truncating_follower(tmp_path)


def the_partition(node: Node) -> Partition:
    found = node.manager.find("t", 0)
    assert found is not None
    return found


def test_a_truncation_waits_for_the_flush_under_way_and_closes_the_partition(node: Node) -> None:
    partition = the_partition(node)
    heard: list[Exception | None] = []
    partition.truncate_to(1).add_done_callback(heard.append)
    assert partition.is_truncating
    assert (node.disk.held, partition.log_end_offset) == (1, 2)
    node.disk.release()  # the flush
    assert (heard, partition.is_truncating, node.disk.held) == ([], True, 1)
    node.disk.release()
    assert (heard, partition.is_truncating, partition.log_end_offset) == ([None], False, 1)
    node.disk.release_all()
    assert node.failed_dirs == []


def test_the_log_is_emptied_in_the_same_way(node: Node) -> None:
    partition = the_partition(node)
    node.disk.release_all()
    heard: list[Exception | None] = []
    partition.truncate_fully_and_start_at(9).add_done_callback(heard.append)
    node.disk.release_all()
    assert (heard, partition.log_start_offset, partition.log_end_offset) == ([None], 9, 9)


def test_an_error_is_the_result(node: Node) -> None:
    partition = the_partition(node)
    node.disk.release_all()
    node.env.broken.add("sync")
    heard: list[Exception | None] = []
    partition.truncate_to(0).add_done_callback(heard.append)
    node.disk.release_all()
    (error,) = heard
    assert isinstance(error, KafkaStorageError)
    assert not partition.is_truncating

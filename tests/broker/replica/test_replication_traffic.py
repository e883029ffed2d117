"""Bytes between brokers, and which of them are a reassignment's."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.topics import PartitionImage, TopicImage
from barnabas.broker.replica.replication_traffic import ReplicationTraffic

HERE, OTHER, NEW = 1, 2, 3
KEY = "t", 0


def traffic(*, adding: tuple[int, ...] = (), removing: tuple[int, ...] = ()) -> ReplicationTraffic:
    image = PartitionImage(
        0,
        replicas=(HERE, OTHER, NEW),
        isr=(HERE, OTHER),
        leader=HERE,
        leader_epoch=0,
        partition_epoch=0,
        adding_replicas=adding,
        removing_replicas=removing,
    )
    result = ReplicationTraffic()
    result.topics = {"t": TopicImage("t", b"t" * 16, {0: image})}
    return result


def totals(traffic: ReplicationTraffic) -> tuple[int, int, int, int]:
    return (
        traffic.bytes_in,
        traffic.bytes_out,
        traffic.reassignment_bytes_in,
        traffic.reassignment_bytes_out,
    )


def test_without_a_reassignment() -> None:
    found = traffic()
    found.received(KEY, HERE, 10)
    found.sent(KEY, NEW, 3)
    assert totals(found) == (10, 3, 0, 0)
    assert not found.is_reassigning(KEY)


def test_the_replicas_that_are_added_count_for_the_reassignment() -> None:
    found = traffic(adding=(NEW,), removing=(OTHER,))
    found.sent(KEY, NEW, 3)
    found.sent(KEY, OTHER, 4)
    found.received(KEY, HERE, 10)
    found.received(KEY, NEW, 20)
    assert totals(found) == (30, 7, 20, 3)


@pytest.mark.parametrize("change", [{"adding": (NEW,)}, {"removing": (OTHER,)}])
def test_a_reassignment_adds_or_removes_replicas(change: dict[str, tuple[int, ...]]) -> None:
    assert traffic(**change).is_reassigning(KEY)


@pytest.mark.parametrize("key", [("gone", 0), ("t", 1)])
def test_partitions_that_the_metadata_do_not_have(key: tuple[str, int]) -> None:
    found = traffic(adding=(HERE, NEW))
    found.received(key, HERE, 10)
    found.sent(key, NEW, 3)
    assert totals(found) == (10, 3, 0, 0)
    assert not found.is_reassigning(key)

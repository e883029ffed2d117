"""Which fetcher fetches which partition."""

from __future__ import annotations

import pytest

from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.replica.fetcher.fetch_state import InitialFetchState
from barnabas.broker.replica.fetcher.manager import ReplicaFetcherManager, fetcher_number
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.storage.offsets import TopicPartition
from tests.broker.fakes import ManualTimer
from tests.broker.held_runner import HeldRunner
from tests.broker.replica.fetcher.fetcher_harness import (
    LEADER,
    LEADER_ID,
    SESSION_ID,
    Disk,
    Events,
    Follower,
    Leader,
    Quota,
    asked,
    batch,
    config,
    data,
    initial,
    topic_id,
)


class Rig:
    """A manager, and one leader that answers at every address."""

    def __init__(self, count: int = 1, disk: Disk | None = None) -> None:
        self.timer = ManualTimer()
        self.leader = Leader()
        self.disk = disk or Disk()
        self.events = Events()
        self.quota = Quota()
        self.manager = ReplicaFetcherManager(
            self.leader.connect, self.timer, config(), events=self.events, quota=self.quota, count=count
        )

    def follow(
        self, topic: str, partition: int = 0, *, leader_id: int = LEADER_ID, epoch: int = 0
    ) -> Follower:
        log = self.disk.follower(topic, partition)
        self.manager.add(log, initial(log.log_end_offset, leader_id=leader_id, epoch=epoch))
        return log

    def run(self) -> None:
        self.timer.advance(0)

    def requests(self) -> list[list[TopicPartition]]:
        """The partitions of each request in flight."""
        return [[one[:2] for one in asked(request)] for request, _, _ in self.leader.waiting]  # type: ignore[arg-type]

    @property
    def client_ids(self) -> list[str]:
        return [figures.client_id for figures in self.manager.figures()]


@pytest.mark.parametrize(
    ("topic", "partition", "count", "expected"),
    [
        ("t", 0, 1, 0),
        ("t", 0, 3, 31 * 116 % 3),
        ("t", 1, 3, (31 * 116 + 1) % 3),
        ("orders", 5, 4, 0),
        ("a-topic-with-a-long-name", 7, 8, 4),
    ],
)
def test_the_fetcher_is_that_of_kafka(topic: str, partition: int, count: int, expected: int) -> None:
    """Java's ints wrap: the hashes of the last two topics are negative."""
    assert fetcher_number((topic, partition), count) == expected == _by_wrapping(topic, partition) % count


def _by_wrapping(topic: str, partition: int) -> int:
    def wrap(number: int) -> int:
        return (number + (1 << 31)) % (1 << 32) - (1 << 31)

    result = 0
    for letter in topic:
        result = wrap(31 * result + ord(letter))
    return abs(wrap(31 * result + partition))


def test_one_fetcher_for_each_leader_and_number() -> None:
    rig = Rig(count=2)
    rig.follow("t", 0)
    rig.follow("t", 1)
    rig.follow("t", 2)
    rig.follow("u", 0, leader_id=3)
    rig.run()
    assert sorted(rig.requests()) == [[("t", 0), ("t", 2)], [("t", 1)], [("u", 0)]]
    assert sorted(rig.client_ids) == [
        "ReplicaFetcherThread-0-2",
        "ReplicaFetcherThread-1-2",
        f"ReplicaFetcherThread-{fetcher_number(('u', 0), 2)}-3",
    ]


def test_a_new_leader_takes_the_partition_over() -> None:
    rig = Rig()
    log = rig.follow("t", epoch=1)
    rig.run()
    rig.follow("t", epoch=2, leader_id=3)
    rig.run()
    assert rig.requests() == [[("t", 0)], [("t", 0)]]
    rig.leader.channels[0].sent[0][2].complete(_records(batch(0)))
    assert log.log_end_offset == 0, "of the old leader nothing is taken any more"
    rig.manager.close_idle()
    assert rig.client_ids == ["ReplicaFetcherThread-0-3"]
    assert rig.leader.channels[0].closed


def _records(records: bytes) -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse(
        topic="t", topic_id=topic_id("t"), partitions=[data(records)]
    )
    return FetchResponse(session_id=1, responses=[topic])


def test_a_removed_partition_is_fetched_no_more() -> None:
    rig = Rig()
    log = rig.follow("t")
    rig.follow("u")
    rig.run()
    rig.manager.remove([("t", 0), ("unknown", 0)])
    rig.leader.answer(("t", data(batch(0))), ("u", data()))
    assert log.log_end_offset == 0
    rig.manager.close_idle()
    assert len(rig.client_ids) == 1, "it still has another partition"


def test_idle_fetchers_are_closed() -> None:
    rig = Rig()
    rig.follow("t")
    rig.run()
    rig.manager.remove([("t", 0)])
    rig.manager.close_idle()
    assert rig.client_ids == []
    assert rig.leader.channels[0].closed


def test_a_fetcher_whose_partition_failed_is_kept_until_the_metadata_change() -> None:
    rig = Rig()
    rig.follow("t")
    rig.run()
    rig.leader.answer(("t", data(error=ErrorCode.FENCED_LEADER_EPOCH)))
    assert rig.manager.failed_partitions_count == 1
    assert rig.manager.failed_partitions == {("t", 0)}
    rig.manager.close_idle()
    assert len(rig.client_ids) == 1
    rig.follow("t", epoch=1)
    assert rig.manager.failed_partitions_count == 0
    rig.manager.remove([("t", 0)])
    rig.manager.close_idle()
    assert rig.client_ids == []


def test_a_failed_partition_that_leaves_is_not_counted() -> None:
    rig = Rig()
    rig.follow("t")
    rig.run()
    rig.leader.answer(("t", data(error=ErrorCode.FENCED_LEADER_EPOCH)))
    rig.manager.remove([("t", 0)])
    assert rig.manager.failed_partitions_count == 0


def test_a_leader_at_a_new_address_keeps_its_partitions() -> None:
    rig = Rig()
    rig.follow("t")
    rig.follow("u")
    rig.run()
    moved = NodeAddress("moved.test", 9093)
    log = rig.disk.follower("t")
    rig.manager.add(log, InitialFetchState(LEADER_ID, moved, 1, 0))
    rig.run()
    assert rig.leader.addresses == [LEADER, moved]
    assert rig.leader.channels[0].closed
    assert sorted(asked(rig.leader.fetch)) == [("t", 0, 0, 1, -1), ("u", 0, 0, 0, -1)]


def test_a_changed_number_of_fetchers_moves_the_partitions_with_their_states() -> None:
    rig = Rig()
    log = rig.follow("t", 0)
    rig.follow("t", 1)
    rig.run()
    rig.leader.answer(("t", data(batch(0))), ("t", data(partition=1)))
    rig.manager.resize(2)
    rig.run()
    assert log.log_end_offset == 1
    assert sorted(asked(request)[0] for request, _, _ in rig.leader.waiting) == [  # type: ignore[arg-type]
        ("t", 0, 1, 0, 0),
        ("t", 1, 0, 0, -1),
    ]
    rig.manager.resize(2)
    assert len(rig.leader.waiting) == 2
    rig.manager.remove([("t", 0), ("t", 1)])
    rig.manager.close_idle()
    assert rig.client_ids == []


def test_a_truncation_ends_at_the_fetcher_that_has_the_partition_then() -> None:
    runner = HeldRunner()
    rig = Rig(disk=Disk(runner=runner))
    log = rig.disk.follower("t", 0)
    log.append_as_follower(batch(0, epoch=1) + batch(1, epoch=2), 2)
    rig.manager.add(log, initial(2, epoch=5))
    rig.run()
    rig.leader.answer(("t", data(diverging=(1, 1))))
    rig.manager.resize(3)
    rig.run()
    assert not rig.leader.waiting
    runner.release()
    rig.run()
    assert asked(rig.leader.fetch) == [("t", 0, 1, 5, 1)]


def test_waking_looks_at_the_quota_again() -> None:
    rig = Rig()
    rig.quota.throttled = {("t", 0)}
    rig.quota.delay = 100.0
    rig.follow("t")
    rig.run()
    assert not rig.leader.waiting
    rig.quota.delay = 0.0
    rig.manager.wake()
    rig.run()
    assert len(rig.leader.waiting) == 1


def test_closing_closes_all_connections() -> None:
    rig = Rig(count=2)
    rig.follow("t", 0)
    rig.follow("t", 1)
    rig.run()
    rig.manager.close()
    assert [channel.closed for channel in rig.leader.channels] == [True, True]
    rig.timer.advance(60)
    assert len(rig.leader.channels) == 2


def test_the_figures() -> None:
    rig = Rig()
    assert (rig.manager.max_lag, rig.manager.min_fetch_rate) == (0, 0.0)
    rig.follow("t")
    rig.follow("u")
    rig.run()
    assert list(rig.manager.lags()) == []
    rig.leader.answer(("t", data(batch(0), high_watermark=8)), ("u", data(high_watermark=2)))
    client_id = "ReplicaFetcherThread-0-2"
    assert sorted(rig.manager.lags()) == [(client_id, ("t", 0), 7), (client_id, ("u", 0), 2)]
    assert rig.manager.max_lag == 7
    assert list(rig.manager.figures()) == [(client_id, *LEADER, 2, len(batch(0)))]
    rig.timer.advance(5)
    assert rig.manager.min_fetch_rate == pytest.approx(0.4)


def test_the_figures_come_and_go_with_partitions_and_fetchers() -> None:
    """A scrape reads them over several turns of the loop, in which both change."""
    rig = Rig()
    rig.follow("t")
    rig.follow("u")
    rig.follow("v", leader_id=3)
    rig.run()
    answer = FetchResponse(
        session_id=SESSION_ID,
        responses=[
            FetchResponse.FetchableTopicResponse(
                topic=topic, topic_id=topic_id(topic), partitions=[data(high_watermark=1)]
            )
            for topic in ("t", "u")
        ],
    )
    rig.leader.waiting[0][2].complete(answer)
    lags, figures = rig.manager.lags(), rig.manager.figures()
    assert next(lags).partition == ("t", 0)
    assert next(figures).client_id == "ReplicaFetcherThread-0-2"
    rig.manager.remove([("t", 0), ("v", 0)])
    rig.manager.close_idle()
    assert [lag.partition for lag in lags] == [("u", 0)]
    assert [each.client_id for each in figures] == ["ReplicaFetcherThread-0-3"]
    assert [lag.partition for lag in rig.manager.lags()] == [("u", 0)]
    assert rig.client_ids == ["ReplicaFetcherThread-0-2"]

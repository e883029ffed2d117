"""Reads of many partitions are answered together, at once or later."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.fetch.leader_throttle import LeaderThrottle
from barnabas.broker.fetch.partition import FetchPartition, size_of
from barnabas.broker.fetch.preferred_replica import RackAwareReplicaSelector
from barnabas.broker.fetch.reader import ReplicaReader
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.pending import Pending
from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.topic_records import PartitionChangeRecord, RemoveTopicRecord
from barnabas.storage.offsets import FileRecords
from tests.broker.cluster_images import fencing, registration
from tests.broker.logs import batch, partition_image
from tests.broker.replica.isr_harness import Cluster
from tests.broker.replica_node import (
    BOTH,
    ELSEWHERE,
    HERE,
    Node,
    T,
    U,
    V,
    errors,
    result,
    wanted,
)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def sizes(answer: Pending[list[FetchResponse.PartitionData]]) -> list[int]:
    return [size_of(each) for each in result(answer)]


def test_available_records_are_returned_at_once(node: Node) -> None:
    node.create()
    node.append(("t", 0, batch("a", "b")))
    (answer,) = result(node.fetch(wanted()))
    assert isinstance(answer.records, FileRecords)
    assert len(answer.records.read()) == len(batch("a", "b"))
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (2, 2, 0)
    assert node.probe.lines[-1] == "t gave something"


def test_limits_apply_except_to_the_first_batch(node: Node) -> None:
    node.create("t", T, *(partition_image(partition=index) for index in range(3)))
    for index in (1, 2):
        node.append(("t", index, batch("x" * 100)), ("t", index, batch("y" * 100)))
    size = len(batch("x" * 100))
    everything = [wanted("t", index) for index in range(3)]
    assert sizes(node.fetch(*everything)) == [0, 2 * size, 2 * size]
    assert sizes(node.fetch(*everything, max_bytes=1)) == [0, size, 0]
    assert sizes(node.fetch(*everything, max_bytes=3 * size)) == [0, 2 * size, size]
    small = [wanted("t", index, max_bytes=size - 1) for index in range(3)]
    assert sizes(node.fetch(*small)) == [0, size, 0]


def test_a_long_poll_is_completed_by_an_append(node: Node) -> None:
    node.create("t", T, partition_image(), partition_image(partition=1))
    poll = node.fetch(wanted("t", 0), wanted("t", 1))
    assert not poll.done
    assert node.probe.lines == []
    node.append(("t", 1, batch("a")))
    assert sizes(poll) == [0, len(batch("a"))]
    assert node.probe.lines == ["t +1", "t gave nothing", "t gave something"]


def test_a_long_poll_over_many_partitions_returns_all_appends_of_a_request(node: Node) -> None:
    node.create("t", T, partition_image(), partition_image(partition=1))
    poll = node.fetch(wanted("t", 0), wanted("t", 1))
    node.append(("t", 0, batch("a")), ("t", 0, b"no batch"), ("t", 1, batch("b", "c")))
    assert sizes(poll) == [len(batch("a")), len(batch("b", "c"))]


def test_a_long_poll_times_out(node: Node) -> None:
    node.create()
    poll = node.fetch(wanted())
    node.timer.advance(0.5)
    assert sizes(poll) == [0]


@pytest.mark.parametrize("options", [{"max_wait_ms": 0}, {"min_bytes": 0}])
def test_a_fetch_without_wait_is_answered_at_once(node: Node, options: dict[str, Any]) -> None:
    node.create()
    assert sizes(node.fetch(wanted(), **options)) == [0]


def test_a_fetch_without_partitions_is_answered_at_once(node: Node) -> None:
    assert sizes(node.fetch()) == []


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (wanted(offset=5), ErrorCode.OFFSET_OUT_OF_RANGE),
        (wanted(epoch=7), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (wanted(topic_id=V), ErrorCode.INCONSISTENT_TOPIC_ID),
    ],
)
def test_errors_are_returned_at_once(node: Node, request_: FetchPartition, code: ErrorCode) -> None:
    node.create()
    node.create("u", U)
    answers = result(node.fetch(wanted("u"), request_))
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE, code]
    assert node.probe.lines == ["u gave nothing", "t gave an error"]


@pytest.mark.parametrize("unknown", [wanted("nowhere"), wanted(None, topic_id=V), wanted("t", 9)])
def test_unknown_partitions_do_not_end_the_wait_of_others(node: Node, unknown: FetchPartition) -> None:
    node.create()
    assert [answer.error_code for answer in result(node.fetch(unknown))] != [ErrorCode.NONE]
    poll = node.fetch(unknown, wanted())
    assert not poll.done
    node.append(("t", 0, batch("a")))
    first, second = result(poll)
    assert first.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    assert size_of(second) == len(batch("a"))


def test_a_reader_with_a_diverging_log_gets_the_diverging_epoch(node: Node) -> None:
    node.create()
    node.append(("t", 0, batch("a", "b")))
    node.elect(T, HERE)
    (answer,) = result(node.fetch(wanted(offset=3, last_fetched_epoch=0)))
    assert answer.diverging_epoch == FetchResponse.EpochEndOffset(epoch=0, end_offset=2)
    assert size_of(answer) == 0
    (answer,) = result(node.fetch(wanted(offset=2, last_fetched_epoch=0), max_wait_ms=0))
    assert answer.diverging_epoch == FetchResponse.EpochEndOffset()


def test_a_follower_advances_the_high_watermark_and_completes_waiting_fetches(node: Node) -> None:
    node.create("t", T, BOTH)
    acknowledgement = node.append(("t", 0, batch("a")))
    consumer = node.fetch(wanted())
    assert sizes(node.fetch(wanted(), replica_id=ELSEWHERE)) == [len(batch("a"))]
    assert (acknowledgement.done, consumer.done) == (False, False)
    poll = node.fetch(wanted(offset=1), replica_id=ELSEWHERE)
    assert errors(acknowledgement) == [ErrorCode.NONE]
    assert sizes(consumer) == [len(batch("a"))]
    assert not poll.done
    assert node.probe.lines == [
        "t +1",
        "t gave something",
    ]  # what a follower gets is not counted with the topic's


def test_a_node_without_a_replica_is_no_follower(node: Node) -> None:
    node.create()
    (answer,) = result(node.fetch(wanted(), replica_id=ELSEWHERE))
    assert answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_long_polls_complete_when_leadership_ends(node: Node) -> None:
    node.create("t", T, BOTH)
    node.create("u", U)
    moved, deleted = node.fetch(wanted("t")), node.fetch(wanted("u"))
    node.elect(T, ELSEWHERE)
    node.delete(U)
    assert [each.error_code for each in result(moved)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert [each.error_code for each in result(deleted)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize("only_leader", [True, False])
def test_a_long_poll_ends_when_the_topic_is_deleted(node: Node, only_leader: bool) -> None:
    """From version 11 on consumers read from followers too: a replica that is gone is none."""
    node.create()
    poll = node.fetch(wanted(), only_leader=only_leader)
    assert not poll.done
    node.delete(T)
    assert [each.error_code for each in result(poll)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_long_poll_ends_when_the_image_without_its_topic_is_published(node: Node) -> None:
    """The next request on its connection must not find the topic any more; until then it is not offline either."""
    node.create()
    waiting = node.fetch(wanted())
    image, delta = replayed(node.image, [RemoveTopicRecord(topic_id=T)])
    node.manager.prepare(image, delta)
    assert not waiting.done
    assert not node.manager.is_offline("t", 0)
    node.manager.apply(image, delta)
    assert [each.error_code for each in result(waiting)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert node.manager.is_offline("t", 0)


# ---- a member of a cluster

EPOCH = 5
LED = partition_image(replicas=(HERE, ELSEWHERE), isr=(HERE,), leader_epoch=EPOCH)
FOLLOWED = partition_image(replicas=(HERE, ELSEWHERE), leader=ELSEWHERE, leader_epoch=EPOCH)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


@pytest.fixture
def member(tmp_path: Path, cluster: Cluster) -> Node:
    made = Node(tmp_path, context=cluster.context)
    made.commit(registration(HERE), registration(ELSEWHERE, rack="r2"), registration(3))
    return made


def follower_fetch(
    member: Node, offset: int, *, epoch: int = EPOCH, max_wait_ms: int = 0, **options: Any
) -> Pending[list[FetchResponse.PartitionData]]:
    """A fetch of the follower's process that has registered, unless `options` says otherwise."""
    last = options.pop("last_fetched_epoch", -1)
    entry = wanted(offset=offset, epoch=epoch, last_fetched_epoch=last)
    settings = {"replica_id": ELSEWHERE, "replica_epoch": ELSEWHERE} | options
    return member.fetch(entry, max_wait_ms=max_wait_ms, **settings)


def code_in(answer: Pending[list[FetchResponse.PartitionData]]) -> ErrorCode:
    return ErrorCode(result(answer)[0].error_code)


def test_only_the_first_read_of_a_fetch_says_what_the_follower_has(member: Node, cluster: Cluster) -> None:
    member.create("t", T, LED)
    poll = follower_fetch(member, 0, max_wait_ms=500)
    cluster.changes.fail(ErrorCode.INELIGIBLE_REPLICA)
    cluster.ms = 10_000
    member.append(("t", 0, batch("a")), acks=1)
    assert sizes(poll) == [len(batch("a"))]
    (follower,) = member.manager.partition("t", 0).remote_replicas
    assert (follower.last_fetch_ms, follower.leader_end_at_fetch) == (0, 0)


def test_a_diverging_follower_changes_nothing(member: Node, cluster: Cluster) -> None:
    member.create("t", T, LED)
    member.append(("t", 0, batch("a")), acks=1)
    (answer,) = result(follower_fetch(member, 1, last_fetched_epoch=3))
    assert (answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset) == (3, 0)
    (follower,) = member.manager.partition("t", 0).remote_replicas
    assert (follower.log_end_offset, cluster.changes.proposals) == (-1, [])


@pytest.mark.parametrize(
    ("epoch", "options", "code"),
    [
        (EPOCH - 1, {"replica_id": 9}, ErrorCode.FENCED_LEADER_EPOCH),
        (EPOCH + 1, {"replica_id": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (EPOCH, {"replica_id": 9}, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-1, {"replica_id": 9}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (EPOCH, {"last_fetched_epoch": EPOCH + 1}, ErrorCode.OFFSET_OUT_OF_RANGE),
        (EPOCH, {"replica_epoch": ELSEWHERE - 1}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (EPOCH, {}, ErrorCode.NONE),
    ],
)
def test_checks_of_a_followers_fetch(
    member: Node, cluster: Cluster, epoch: int, options: dict[str, Any], code: ErrorCode
) -> None:
    member.create("t", T, LED)
    assert code_in(follower_fetch(member, 0, epoch=epoch, **options)) is code
    assert bool(cluster.changes.proposals) is (code is ErrorCode.NONE)


def test_a_fetch_that_moves_the_high_watermark_completes_acknowledgements(
    member: Node, cluster: Cluster
) -> None:
    member.create("t", T, partition_image(replicas=(HERE, ELSEWHERE), leader_epoch=EPOCH))
    waiting = member.append(("t", 0, batch("a")))
    follower_fetch(member, 0)
    assert not waiting.done
    follower_fetch(member, 1)
    assert errors(waiting) == [ErrorCode.NONE]


def test_a_committed_shrink_completes_acknowledgements(member: Node, cluster: Cluster) -> None:
    member.create("t", T, partition_image(replicas=(HERE, ELSEWHERE), leader_epoch=EPOCH))
    waiting = member.append(("t", 0, batch("a")))
    cluster.ms = 5000
    member.manager.maybe_shrink_isrs()
    assert not waiting.done
    cluster.changes.commit()
    assert errors(waiting) == [ErrorCode.NONE]


def test_consumers_read_from_followers_up_to_their_high_watermark(member: Node) -> None:
    member.create("t", T, FOLLOWED)
    assert code_in(member.fetch(wanted())) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    poll = member.fetch(wanted(epoch=EPOCH), only_leader=False)
    leader = Node(Path(member.log_manager.dirs[0].path).parent / "leader")
    leader.create("t", T, partition_image(leader_epoch=EPOCH))
    leader.append(("t", 0, batch("a")))
    (data,) = result(leader.fetch(wanted()))
    assert isinstance(data.records, FileRecords)
    follower = member.manager.partition("t", 0)
    follower.append_as_follower(data.records.read(), EPOCH)
    member.manager.follower_offsets_moved(follower)
    assert not poll.done
    assert follower.update_follower_high_watermark(1)
    member.manager.follower_offsets_moved(follower)
    assert sizes(poll) == [len(batch("a"))]


def test_the_leader_names_the_follower_of_the_consumers_rack(member: Node, cluster: Cluster) -> None:
    member.create("t", T, partition_image(replicas=(HERE, ELSEWHERE), leader_epoch=EPOCH))
    member.append(("t", 0, batch("a", "b")), acks=1)
    member.reader = ReplicaReader(
        member.manager, member.probe, RackAwareReplicaSelector(cluster.context, own_rack="r1")
    )

    def preferred(offset: int = 0, rack: str = "r2") -> tuple[int, int]:
        (data,) = result(member.fetch(wanted(offset=offset), only_leader=False, rack=rack, max_wait_ms=0))
        return data.preferred_read_replica, size_of(data)

    assert preferred() == (-1, 0)
    member.fetch(
        wanted(offset=1, log_start_offset=0), replica_id=ELSEWHERE, replica_epoch=ELSEWHERE, max_wait_ms=0
    )
    assert preferred() == (ELSEWHERE, 0)
    poll = member.fetch(wanted(), only_leader=False, rack="r2")
    assert poll.done  # at once
    assert preferred(rack="") == (-1, 0)
    assert preferred(offset=2)[0] == -1
    member.commit(fencing(ELSEWHERE, fenced=True))
    assert preferred()[0] == -1


# ---- the leader's replication quota


class Throttled:
    """A member whose partition t-0 is throttled, at a rate of 100 bytes a second, and u-0 is not. `isr` is that of
    both; each has a batch."""

    def __init__(self, directory: Path, *isr: int) -> None:
        self.traffic = (context := Cluster().context).traffic
        self.node = Node(
            directory,
            config=LogConfig(leader_replication_throttled_replicas=(f"0:{HERE}",)),
            context=context,
        )
        self.node.commit(registration(HERE), registration(ELSEWHERE))
        led = partition_image(replicas=(HERE, ELSEWHERE), isr=isr, leader_epoch=EPOCH)
        self.node.create("t", T, led)
        self.node.config = LogConfig()
        self.node.create("u", U, led)
        self.node.append(("t", 0, batch("a")), ("u", 0, batch("b")), acks=1)
        self.quota = ReplicationQuota(lambda: 100, samples=11, window_s=1.0, clock=self.node.timer.time)
        self.node.reader = ReplicaReader(
            self.node.manager, self.node.probe, throttle=LeaderThrottle(self.quota), traffic=self.traffic
        )

    def exceed(self) -> None:
        """The rate is above the quota for eleven seconds."""
        self.quota.record(1_000_000)

    def fetch(
        self, *entries: FetchPartition, max_wait_ms: int = 500
    ) -> Pending[list[FetchResponse.PartitionData]]:
        return self.node.fetch(
            *entries, replica_id=ELSEWHERE, replica_epoch=ELSEWHERE, max_wait_ms=max_wait_ms
        )


def test_a_throttled_follower_gets_no_records_and_no_error_while_the_rate_is_above_the_quota(
    tmp_path: Path,
) -> None:
    leader = Throttled(tmp_path, HERE)
    size = len(batch("a"))
    assert sizes(leader.fetch(wanted("t"))) == [size]
    leader.exceed()
    (data,) = result(leader.fetch(wanted("t"), max_wait_ms=0))
    assert (size_of(data), data.error_code, data.high_watermark) == (0, ErrorCode.NONE, 1)
    assert sizes(leader.fetch(wanted("t"), wanted("u"))) == [0, size]
    assert sizes(leader.node.fetch(wanted("t"))) == [size]  # a consumer
    leader.node.timer.advance(11.0)
    assert sizes(leader.fetch(wanted("t"))) == [size]


def test_a_fetch_without_records_still_says_what_the_follower_has(tmp_path: Path) -> None:
    leader = Throttled(tmp_path, HERE)
    leader.exceed()
    assert sizes(leader.fetch(wanted("t", offset=1), max_wait_ms=0)) == [0]
    (follower,) = leader.node.manager.partition("t", 0).remote_replicas
    assert follower.log_end_offset == 1


def test_a_follower_in_sync_gets_its_records_and_counts(tmp_path: Path) -> None:
    leader = Throttled(tmp_path, HERE, ELSEWHERE)
    leader.exceed()
    size = len(batch("a"))
    assert sizes(leader.fetch(wanted("t"))) == [size]
    leader.node.timer.advance(11.0)
    assert leader.quota.delay_s() == 0
    for _ in range(1 + 1000 // size):
        leader.fetch(wanted("t"))
    assert leader.quota.delay_s() > 0


@pytest.mark.parametrize("reader", ["a consumer", "a follower of another partition", "a diverging follower"])
def test_what_is_not_sent_to_a_follower_of_a_throttled_partition_is_not_counted(
    tmp_path: Path, reader: str
) -> None:
    leader = Throttled(tmp_path, HERE)
    for _ in range(100):
        if reader == "a consumer":
            leader.node.fetch(wanted("t"))
        elif reader == "a diverging follower":
            leader.fetch(wanted("t", last_fetched_epoch=EPOCH - 1, offset=1))
        else:
            leader.fetch(wanted("u"))
    assert leader.quota.delay_s() == 0


def test_a_long_poll_of_throttled_partitions_waits_for_its_timeout(tmp_path: Path) -> None:
    leader = Throttled(tmp_path, HERE)
    leader.exceed()
    poll = leader.fetch(wanted("t"))
    assert not poll.done
    leader.node.append(("t", 0, batch("more")), acks=1)
    leader.node.timer.advance(0.4)
    assert not poll.done
    leader.node.timer.advance(0.1)
    assert sizes(poll) == [0]


def test_records_of_another_partition_end_the_long_poll(tmp_path: Path) -> None:
    leader = Throttled(tmp_path, HERE)
    leader.exceed()
    poll = leader.fetch(wanted("t"), wanted("u", offset=1))
    leader.node.append(("t", 0, batch("more")), acks=1)
    assert not poll.done
    leader.node.append(("u", 0, batch("c")), acks=1)
    assert sizes(poll) == [0, len(batch("c"))]


def test_a_long_poll_gets_records_at_its_end_when_the_rate_has_fallen(tmp_path: Path) -> None:
    leader = Throttled(tmp_path, HERE)
    leader.exceed()
    leader.node.timer.advance(10.75)
    by_timeout, by_append = leader.fetch(wanted("t")), leader.fetch(wanted("t"), max_wait_ms=10_000)
    leader.node.timer.advance(0.5)
    assert sizes(by_timeout) == [len(batch("a"))]
    assert not by_append.done
    leader.node.append(("t", 0, batch("more")), acks=1)
    assert sizes(by_append) == [len(batch("a")) + len(batch("more"))]


def test_what_followers_are_sent_counts_and_that_of_a_reassignment_twice(tmp_path: Path) -> None:
    leader = Throttled(tmp_path, HERE, ELSEWHERE)
    size = len(batch("a"))
    leader.fetch(wanted("t"), wanted("u"))
    leader.fetch(wanted("t", offset=1), max_wait_ms=0)
    leader.node.fetch(wanted("t"))  # a consumer
    assert (leader.traffic.bytes_out, leader.traffic.reassignment_bytes_out) == (2 * size, 0)
    leader.node.commit(PartitionChangeRecord(partition_id=0, topic_id=U, adding_replicas=[ELSEWHERE]))
    leader.fetch(wanted("t"), wanted("u"))
    assert (leader.traffic.bytes_out, leader.traffic.reassignment_bytes_out) == (4 * size, size)


def test_a_reader_without_counters_sends_followers_the_same(tmp_path: Path) -> None:
    leader = Throttled(tmp_path, HERE)
    leader.node.reader = ReplicaReader(leader.node.manager, leader.node.probe)
    assert sizes(leader.fetch(wanted("t"))) == [len(batch("a"))]
    assert leader.traffic.bytes_out == 0


def test_a_fetch_that_expires_is_counted(tmp_path: Path) -> None:
    leader = Throttled(tmp_path, HERE)
    leader.fetch(wanted("u", offset=1))
    leader.node.fetch(wanted("u", offset=1))
    leader.node.timer.advance(0.5)
    expirations = leader.node.reader.expirations
    assert (expirations.consumer, expirations.follower) == (1, 1)

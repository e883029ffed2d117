"""The fetcher: what it asks its leader, and what it does about each answer."""

from __future__ import annotations

import pytest

from barnabas.broker.node_client.channel import NodeUnavailable
from barnabas.broker.replica.fetcher import fetched
from barnabas.broker.replica.fetcher.fetch_state import NO_OFFSET, FetchPhase, PartitionFetchState
from barnabas.broker.replica.fetcher.fetcher import (
    LOOK_AT_ALL_S,
    FetcherConfig,
    FetcherStep,
    ReplicaFetcher,
)
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.wire import ZERO_UUID
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.offsets import TopicPartition
from tests.broker.fakes import ManualTimer
from tests.broker.held_runner import HeldRunner
from tests.broker.replica.fetcher.fetcher_harness import (
    BACKOFF_MS,
    LEADER,
    NODE_ID,
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
    forgotten,
)
from tests.storage.fault_env import from_nth
from tests.storage.helpers import read_values


class Rig:
    """A fetcher, its leader, its disk and its clock."""

    def __init__(self, settings: FetcherConfig | None = None, runner: BlockingRunner | None = None) -> None:
        self.timer = ManualTimer()
        self.leader = Leader()
        self.disk = Disk(runner=runner)
        self.events = Events()
        self.quota = Quota()
        self.failed: set[TopicPartition] = set()
        self.fetcher = ReplicaFetcher(
            "ReplicaFetcherThread-0-2",
            LEADER,
            connect=self.leader.connect,
            config=settings or config(),
            timer=self.timer,
            events=self.events,
            quota=self.quota,
            failed=self.failed,
        )

    def follow(
        self, topic: str = "t", partition: int = 0, *, epoch: int = 0, offset: int | None = None
    ) -> Follower:
        log = self.disk.follower(topic, partition)
        self.fetcher.add(log, epoch, log.log_end_offset if offset is None else offset)
        return log

    def run(self) -> None:
        """What is due now, but no more."""
        self.timer.advance(0)

    def pause(self) -> None:
        """The delay after an error."""
        self.timer.advance(BACKOFF_MS / 1000)

    def state(self, topic: str = "t", partition: int = 0) -> PartitionFetchState:
        return next(state for state in self.fetcher.states if state.key == (topic, partition))


def with_records(log: Follower, *epochs: int) -> None:
    """One record of each epoch."""
    for epoch in epochs:
        log.append_as_follower(batch(log.log_end_offset, b"%d" % epoch, epoch=epoch), epoch)


# ---- requests


def test_asks_for_all_partitions_in_one_request() -> None:
    rig = Rig()
    with_records(log := rig.disk.follower("a"), 3)
    rig.fetcher.add(log, 5, 1)
    rig.follow("b", 2, epoch=4)
    assert not rig.leader.channels, "the request is for all that is added in one pass"
    rig.run()
    request = rig.leader.fetch
    assert asked(request) == [("a", 0, 1, 5, 3), ("b", 2, 0, 4, -1)]
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes) == (500, 1, 10 << 20)
    assert request.topics[0].partitions[0].partition_max_bytes == 1 << 20
    assert (request.replica_state.replica_id, request.replica_state.replica_epoch) == (NODE_ID, 55)
    assert request.isolation_level == 0
    assert rig.leader.version == 18
    assert rig.leader.addresses == [LEADER]


def test_asks_by_name_where_an_id_is_unknown() -> None:
    rig = Rig()
    log = rig.disk.follower("a")
    log.topic_id = ZERO_UUID
    rig.fetcher.add(log, 0, 0)
    rig.follow("b")
    rig.run()
    assert rig.leader.version == 12
    assert rig.leader.fetch.replica_id == NODE_ID


def test_uses_the_version_of_the_metadata_version() -> None:
    rig = Rig(config(metadata_version=lambda: 10))
    rig.follow()
    rig.run()
    assert rig.leader.version == 15


def test_has_one_request_in_flight() -> None:
    rig = Rig()
    rig.follow("a")
    rig.run()
    rig.follow("b")
    rig.fetcher.wake()
    rig.timer.advance(10)
    assert len(rig.leader.waiting) == 1
    rig.leader.answer(("a", data()))
    assert asked(rig.leader.fetch) == [("b", 0, 0, 0, -1)]
    assert rig.leader.fetch.session_id == SESSION_ID
    assert rig.leader.fetch.session_epoch == 1


def test_a_request_costs_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    for partition in range(20):
        rig.follow("t", partition)
    rig.run()
    rig.leader.answer(*(("t", data(partition=partition)) for partition in range(20)))
    looked_at: list[TopicPartition] = []
    is_ready = PartitionFetchState.is_ready

    def noted(state: PartitionFetchState, now: float) -> bool:
        looked_at.append(state.key)
        return is_ready(state, now)

    monkeypatch.setattr(PartitionFetchState, "is_ready", noted)
    rig.leader.answer(("t", data(batch(0), partition=3)))
    assert asked(rig.leader.fetch) == [("t", 3, 1, 0, 0)]
    assert set(looked_at) == {("t", 3)}


def test_a_log_start_that_moved_by_itself_is_said_a_little_later() -> None:
    rig = Rig()
    with_records(log := rig.disk.follower(), 0, 0, 0)
    rig.fetcher.add(log, 0, 3)
    rig.follow("u")
    rig.run()
    rig.leader.answer(("t", data(high_watermark=3)), ("u", data()))
    log.maybe_increment_log_start_offset(2)
    rig.leader.answer(("u", data(batch(0))))
    assert [one[0] for one in asked(rig.leader.fetch)] == ["u"]
    rig.timer.advance(LOOK_AT_ALL_S)
    rig.leader.answer(("u", data(batch(1))))
    request = rig.leader.fetch
    assert [one[0] for one in asked(request)] == ["t", "u"]
    assert request.topics[0].partitions[0].log_start_offset == 2


# ---- records


def test_appends_and_asks_for_the_next() -> None:
    rig = Rig()
    log = rig.follow(epoch=3)
    rig.run()
    records = batch(0, b"a", b"b", epoch=2) + batch(2, b"c", epoch=3)
    rig.leader.answer(("t", data(records, high_watermark=2)))
    assert read_values(log.log) == {0: b"a", 1: b"b", 2: b"c"}
    assert log.high_watermark == 2
    assert rig.events.appended == [(("t", 0), len(records))]
    assert rig.events.moved == [("t", 0)]
    assert rig.state().lag == 0
    assert asked(rig.leader.fetch) == [("t", 0, 3, 3, 3)]
    assert rig.leader.fetch.session_epoch == 1
    assert rig.fetcher.byte_count == len(records)
    assert rig.fetcher.request_count == 2


def test_the_high_watermark_never_falls_and_never_passes_the_end() -> None:
    rig = Rig()
    log = rig.follow()
    rig.run()
    rig.leader.answer(("t", data(batch(0, b"a", b"b"), high_watermark=7)))
    assert log.high_watermark == 2
    assert rig.state().lag == 5
    rig.leader.answer(("t", data(high_watermark=1)))
    assert log.high_watermark == 2


def test_follows_the_log_start_offset() -> None:
    rig = Rig()
    log = rig.follow()
    rig.run()
    rig.leader.answer(("t", data(batch(0, b"a", b"b"), high_watermark=2, log_start_offset=1)))
    assert log.log_start_offset == 1
    assert rig.leader.fetch.topics[0].partitions[0].log_start_offset == 1


def test_ignores_what_was_asked_for_another_offset_or_epoch() -> None:
    rig = Rig()
    log = rig.follow(epoch=1)
    rig.run()
    rig.fetcher.remove(("t", 0))
    rig.fetcher.add(log, 2, 0)
    rig.leader.answer(("t", data(batch(0), high_watermark=1)))
    assert (log.log_end_offset, log.high_watermark) == (0, 0)
    assert asked(rig.leader.fetch) == [("t", 0, 0, 2, -1)]


def test_offsets_that_came_for_the_epoch_before_are_asked_for_again() -> None:
    rig = Rig()
    log = rig.follow()
    rig.run()
    rig.leader.answer(("t", data(batch(0, b"a"), high_watermark=0)))
    rig.fetcher.add(log, 1, 1)
    rig.leader.answer(("t", data(high_watermark=1)))
    assert log.high_watermark == 0
    assert rig.leader.fetch.session_epoch == 0, "in the same session the leader would not say it again"
    assert asked(rig.leader.fetch) == [("t", 0, 1, 1, 0)]
    rig.leader.answer(("t", data(high_watermark=1)))
    assert log.high_watermark == 1
    assert rig.leader.fetch.session_epoch == 1


def test_offsets_beside_a_divergence_are_heard_after_the_truncation() -> None:
    rig = Rig()
    with_records(log := rig.disk.follower("t"), 0, 0)
    rig.fetcher.add(log, 1, 2)
    rig.run()
    rig.leader.answer(("t", data(high_watermark=1, diverging=(0, 1))))
    rig.run()
    assert asked(rig.leader.fetch) == [("t", 0, 1, 1, 0)]
    assert rig.leader.fetch.session_epoch == 0, "in the same session the leader would not say it again"
    rig.leader.answer(("t", data(high_watermark=1)))
    assert log.high_watermark == 1


def test_ignores_what_comes_after_the_removal() -> None:
    rig = Rig()
    log = rig.follow()
    rig.follow("other")
    rig.run()
    assert rig.fetcher.remove(("t", 0)) is not None
    rig.leader.answer(("t", data(batch(0), high_watermark=1)), ("other", data()))
    assert log.log_end_offset == 0
    assert forgotten(rig.leader.fetch) == [("t", [0])]


def test_a_partition_in_the_same_epoch_goes_on_as_it_is() -> None:
    rig = Rig()
    log = rig.follow(epoch=1)
    rig.run()
    rig.leader.answer(("t", data(batch(0, epoch=1))))
    rig.fetcher.add(log, 1, 0)
    assert rig.state().fetch_offset == 1


def test_leaves_batches_of_a_later_epoch_out() -> None:
    rig = Rig()
    log = rig.follow(epoch=1)
    rig.run()
    rig.leader.answer(("t", data(batch(0, epoch=1) + batch(1, epoch=2))))
    assert log.log_end_offset == 1
    rig.leader.answer(("t", data(batch(1, epoch=2))))
    assert log.log_end_offset == 1
    assert asked(rig.leader.fetch) == []
    assert forgotten(rig.leader.fetch) == [
        ("t", [0])
    ]  # delayed: asking again at once would go round and round


def test_leaves_a_batch_that_is_cut_off_out() -> None:
    rig = Rig()
    log = rig.follow()
    rig.run()
    rig.leader.answer(("t", data(batch(0) + batch(1)[:-1])))
    assert asked(rig.leader.fetch) == [("t", 0, 1, 0, 0)]
    assert log.log_end_offset == 1


def test_lets_the_loop_run_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched, "SLICE_BYTES", 200)
    monkeypatch.setattr("barnabas.broker.replica.fetcher.fetcher.SLICE_BYTES", 200)
    rig = Rig()
    log = rig.follow()
    other = rig.follow("other")
    rig.run()
    many = b"".join(batch(offset, bytes(50)) for offset in range(5))
    rig.leader.answer(("t", data(many, high_watermark=5)), ("other", data(batch(0))))
    assert rig.fetcher.step is FetcherStep.APPLYING
    assert (log.log_end_offset, log.high_watermark) == (2, 2)
    rig.run()
    assert log.log_end_offset == 5
    assert other.log_end_offset == 1
    assert asked(rig.leader.fetch) == [("t", 0, 5, 0, 0), ("other", 0, 1, 0, 0)]


def test_a_removal_between_slices_ends_the_appending(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched, "SLICE_BYTES", 1)
    monkeypatch.setattr("barnabas.broker.replica.fetcher.fetcher.SLICE_BYTES", 1)
    rig = Rig()
    log = rig.follow()
    rig.run()
    rig.leader.answer(("t", data(batch(0) + batch(1) + batch(2))))
    assert log.log_end_offset == 1
    rig.fetcher.remove(("t", 0))
    rig.run()
    assert log.log_end_offset == 1


# ---- errors of a partition


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_an_error_delays_one_partition(error: ErrorCode) -> None:
    rig = Rig()
    rig.follow("good")
    rig.follow("bad")
    rig.run()
    rig.leader.answer(("good", data(batch(0))), ("bad", data(error=error)))
    assert asked(rig.leader.fetch) == [("good", 0, 1, 0, 0)]
    assert forgotten(rig.leader.fetch) == [("bad", [0])]
    rig.pause()
    rig.leader.answer()
    assert asked(rig.leader.fetch) == [("bad", 0, 0, 0, -1)]
    assert not rig.failed


def test_the_delay_ends_without_another_partition() -> None:
    rig = Rig()
    rig.follow()
    rig.run()
    rig.leader.answer(("t", data(error=ErrorCode.NOT_LEADER_OR_FOLLOWER)))
    assert forgotten(rig.leader.fetch) == [("t", [0])]
    rig.leader.session_id = 0  # a session without partitions ends
    rig.leader.answer()
    assert not rig.leader.waiting
    rig.timer.advance(0.9)
    assert not rig.leader.waiting
    rig.timer.advance(0.1)
    assert asked(rig.leader.fetch) == [("t", 0, 0, 0, -1)]
    assert rig.leader.fetch.session_epoch == 0


def test_a_fenced_partition_waits_for_the_metadata() -> None:
    rig = Rig()
    log = rig.follow(epoch=3)
    rig.run()
    rig.leader.answer(("t", data(error=ErrorCode.FENCED_LEADER_EPOCH)))
    assert rig.failed == {("t", 0)}
    assert not rig.events.failed
    rig.fetcher.add(log, 4, 0)
    rig.leader.session_id = 0
    rig.leader.answer()
    rig.run()
    assert asked(rig.leader.fetch) == [("t", 0, 0, 4, -1)]


def test_tiered_storage_is_refused_with_the_reason() -> None:
    rig = Rig()
    rig.follow()
    rig.run()
    rig.leader.answer(("t", data(error=ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)))
    assert rig.failed == {("t", 0)}
    [(key, error)] = rig.events.failed
    assert key == ("t", 0)
    assert "remote.storage.enable=false" in str(error)


def test_corrupt_records_are_fetched_again() -> None:
    rig = Rig()
    log = rig.follow()
    rig.run()
    broken = bytearray(batch(0))
    broken[-1] ^= 1
    rig.leader.answer(("t", data(bytes(broken))))
    assert log.log_end_offset == 0
    assert not rig.failed
    rig.leader.session_id = 0
    rig.leader.answer()
    rig.pause()
    rig.leader.answer(("t", data(batch(0))))
    assert log.log_end_offset == 1


def test_a_disk_that_fails_takes_the_partition_out() -> None:
    rig = Rig()
    rig.follow()
    rig.run()
    rig.disk.env.inject(from_nth(0))
    rig.leader.answer(("t", data(batch(0))))
    assert rig.failed == {("t", 0)}
    [(_, error)] = rig.events.failed
    assert isinstance(error, KafkaStorageError)


def test_a_log_that_somebody_else_changed_takes_the_partition_out() -> None:
    rig = Rig()
    log = rig.follow()
    rig.follow("other")
    rig.run()
    with_records(log, 0)
    rig.leader.answer(("t", data(batch(0))), ("other", data(batch(0))))
    assert rig.failed == {("t", 0)}
    assert asked(rig.leader.fetch) == [("other", 0, 1, 0, 0)]


# ---- divergence


def test_truncates_where_the_logs_diverge() -> None:
    rig = Rig()
    with_records(log := rig.disk.follower(), 1, 1, 2, 2)
    rig.fetcher.add(log, 5, 4)
    rig.run()
    rig.leader.answer(("t", data(high_watermark=4, diverging=(1, 3), log_start_offset=1)))
    assert log.log_end_offset == 2  # where its own epoch 1 ends
    assert (log.high_watermark, log.log_start_offset) == (0, 0)
    assert asked(rig.leader.fetch) == [("t", 0, 2, 5, 1)]


@pytest.mark.parametrize("end", [2, 3])
def test_a_log_that_diverges_at_its_leaders_start_is_emptied(end: int) -> None:
    """The leader has deleted the epoch, which may have ended before: what is here was perhaps never committed."""
    rig = Rig()
    with_records(log := rig.disk.follower(), 1, 1, 1, 1)
    rig.fetcher.add(log, 5, 4)
    rig.run()
    rig.leader.answer(("t", data(high_watermark=9, diverging=(1, end), log_start_offset=3)))
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (3, 3, 3)
    assert asked(rig.leader.fetch) == [("t", 0, 3, 5, -1)]


def test_a_log_that_begins_where_its_leaders_does_is_truncated_there() -> None:
    rig = Rig()
    with_records(log := rig.disk.follower(), 1, 1, 1, 1)
    log.update_follower_high_watermark(2)
    log.maybe_increment_log_start_offset(2)
    rig.fetcher.add(log, 5, 4)
    rig.run()
    rig.leader.answer(("t", data(high_watermark=9, diverging=(1, 2), log_start_offset=2)))
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (2, 2, 2)
    assert asked(rig.leader.fetch)[0][:3] == ("t", 0, 2)


def test_a_truncation_goes_on_while_others_are_fetched() -> None:
    runner = HeldRunner()
    rig = Rig(runner=runner)
    with_records(log := rig.disk.follower(), 1, 2)
    rig.fetcher.add(log, 5, 2)
    rig.follow("other")
    rig.run()
    rig.leader.answer(("t", data(diverging=(1, 1))), ("other", data(batch(0))))
    assert rig.state().phase is FetchPhase.TRUNCATING
    assert asked(rig.leader.fetch) == [("other", 0, 1, 0, 0)]
    assert forgotten(rig.leader.fetch) == [("t", [0])]
    runner.release()
    rig.leader.answer()
    assert asked(rig.leader.fetch) == [("t", 0, 1, 5, 1)]


def test_a_partition_removed_while_it_truncates_is_forgotten() -> None:
    runner = HeldRunner()
    rig = Rig(runner=runner)
    with_records(log := rig.disk.follower(), 1, 2)
    rig.fetcher.add(log, 5, 2)
    rig.run()
    rig.leader.answer(("t", data(diverging=(1, 1))))
    rig.fetcher.remove(("t", 0))
    assert log.is_truncating
    runner.release()
    assert log.log_end_offset == 1
    rig.fetcher.add(log, 6, 1)
    rig.leader.session_id = 0
    rig.leader.answer()
    rig.run()
    assert asked(rig.leader.fetch) == [("t", 0, 1, 6, 1)]


def test_a_truncation_that_fails_takes_the_partition_out() -> None:
    rig = Rig()
    with_records(log := rig.disk.follower(), 1, 2)
    rig.fetcher.add(log, 5, 2)
    rig.run()
    rig.disk.env.inject(from_nth(0))
    rig.leader.answer(("t", data(diverging=(1, 1))))
    assert rig.failed == {("t", 0)}
    assert isinstance(rig.events.failed[0][1], KafkaStorageError)


def test_a_log_without_epochs_is_cut_at_the_offset_given() -> None:
    rig = Rig()
    log = rig.disk.follower()
    with_records(log, 0, 0)
    log.log.leader_epoch_cache.clear_and_flush()
    rig.fetcher.add(log, 5, 1)
    rig.run()
    assert log.log_end_offset == 1
    assert asked(rig.leader.fetch) == [("t", 0, 1, 5, -1)]


# ---- offsets that the leader has not


def out_of_range(rig: Rig) -> None:
    rig.leader.answer(("t", data(error=ErrorCode.OFFSET_OUT_OF_RANGE)))


def test_truncates_to_the_end_of_a_shorter_leader() -> None:
    rig = Rig()
    with_records(log := rig.disk.follower(), 1, 1, 1)
    rig.fetcher.add(log, 5, 3)
    rig.run()
    out_of_range(rig)
    request = rig.leader.list_offsets
    assert rig.leader.version == 11
    assert request.replica_id == NODE_ID
    part = request.topics[0].partitions[0]
    assert (part.timestamp, part.current_leader_epoch) == (-1, 5)
    rig.leader.answer_offset(2)
    assert log.log_end_offset == 2
    assert asked(rig.leader.fetch) == [("t", 0, 2, 5, 1)]


def test_begins_anew_where_the_leader_begins() -> None:
    rig = Rig()
    with_records(log := rig.disk.follower(), 1)
    rig.fetcher.add(log, 5, 1)
    rig.run()
    out_of_range(rig)
    rig.leader.answer_offset(20)
    assert rig.leader.list_offsets.topics[0].partitions[0].timestamp == -2
    rig.leader.answer_offset(10)
    assert (log.log_start_offset, log.log_end_offset) == (10, 10)
    assert rig.state().lag == 10
    assert asked(rig.leader.fetch) == [("t", 0, 10, 5, -1)]


def test_goes_on_after_a_delay_where_the_leader_has_the_offset_after_all() -> None:
    rig = Rig()
    with_records(log := rig.disk.follower(), 1)
    rig.fetcher.add(log, 5, 1)
    rig.run()
    out_of_range(rig)
    rig.leader.answer_offset(20)
    rig.leader.answer_offset(0)
    assert log.log_end_offset == 1
    rig.leader.session_id = 0
    rig.leader.answer()  # the session forgets it
    rig.pause()
    assert asked(rig.leader.fetch) == [("t", 0, 1, 5, 1)]


def test_without_an_offset_the_leader_is_asked_for_one() -> None:
    rig = Rig()
    rig.follow(offset=NO_OFFSET)
    rig.run()
    rig.leader.answer_offset(9)
    rig.leader.answer_offset(4)
    assert asked(rig.leader.fetch) == [("t", 0, 4, 0, -1)]


def test_offsets_that_are_refused_are_asked_for_again() -> None:
    rig = Rig()
    rig.follow(offset=NO_OFFSET)
    rig.run()
    rig.leader.answer_offset(-1, error=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert not rig.leader.waiting
    rig.pause()
    assert rig.leader.list_offsets.topics[0].partitions[0].timestamp == -1


def test_offsets_in_a_fenced_epoch_fail_the_partition() -> None:
    rig = Rig()
    rig.follow(offset=NO_OFFSET)
    rig.run()
    rig.leader.answer_offset(-1, error=ErrorCode.FENCED_LEADER_EPOCH)
    assert rig.failed == {("t", 0)}


def test_offsets_without_a_response_are_asked_for_on_a_new_connection() -> None:
    rig = Rig()
    rig.follow(offset=NO_OFFSET)
    rig.run()
    rig.leader.reply(NodeUnavailable("gone"))
    assert rig.leader.channels[0].closed
    rig.pause()
    assert rig.leader.list_offsets.topics[0].partitions[0].timestamp == -1


def test_an_empty_log_that_begins_inside_a_batch_takes_the_whole_batch() -> None:
    rig = Rig()
    log = rig.disk.follower()
    log.truncate_fully_and_start_at(2)
    rig.fetcher.add(log, 0, 2)
    rig.run()
    rig.leader.answer(("t", data(batch(0, b"a", b"b", b"c"), high_watermark=3, log_start_offset=2)))
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (2, 3, 3)
    assert read_values(log.log) == {2: b"c"}
    assert asked(rig.leader.fetch) == [("t", 0, 3, 0, 0)]


def test_the_whole_batch_is_kept_while_the_log_is_emptied() -> None:
    runner = HeldRunner()
    rig = Rig(runner=runner)
    log = rig.disk.follower()
    log.truncate_fully_and_start_at(2)
    runner.release()
    rig.fetcher.add(log, 0, 2)
    rig.run()
    rig.leader.answer(("t", data(batch(0, b"a", b"b", b"c"), high_watermark=3, log_start_offset=2)))
    assert log.is_truncating
    runner.release()
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)


def test_a_log_cut_at_a_leaders_start_inside_a_batch_takes_the_whole_batch() -> None:
    rig = Rig()
    with_records(log := rig.disk.follower(), 0, 0)
    rig.fetcher.add(log, 1, 2)
    rig.run()
    records = batch(1, b"a", b"b", b"c", epoch=1)
    rig.leader.answer(("t", data(records, high_watermark=4, log_start_offset=2)))
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (2, 4, 4)
    assert read_values(log.log) == {2: b"b", 3: b"c"}


def test_a_batch_below_the_end_of_a_log_with_records_is_a_failure() -> None:
    rig = Rig()
    with_records(log := rig.disk.follower(), 0)
    rig.fetcher.add(log, 0, 1)
    rig.run()
    rig.leader.answer(("t", data(batch(0, b"a", b"b"))))
    assert rig.failed == {("t", 0)}


# ---- the connection and the session


def test_no_response_delays_all_and_begins_the_session_again() -> None:
    rig = Rig()
    rig.follow("a")
    rig.follow("b")
    rig.run()
    rig.leader.answer(("a", data(batch(0))), ("b", data()))
    rig.leader.reply(NodeUnavailable("the connection broke"))
    assert rig.leader.channels[0].closed
    assert not rig.leader.waiting
    rig.pause()
    request = rig.leader.fetch
    assert (request.session_id, request.session_epoch) == (SESSION_ID, 0), "which ends the old session"
    assert sorted(asked(request)) == [("a", 0, 1, 0, 0), ("b", 0, 0, 0, -1)]
    assert len(rig.leader.channels) == 2


def test_an_evicted_session_begins_again_at_once() -> None:
    rig = Rig()
    rig.follow()
    rig.run()
    rig.leader.answer(("t", data(batch(0))))
    rig.leader.answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert (rig.leader.fetch.session_id, rig.leader.fetch.session_epoch) == (0, 0)
    assert asked(rig.leader.fetch) == [("t", 0, 1, 0, 0)]
    rig.leader.answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert not rig.leader.waiting, "but not twice in a row"
    rig.pause()
    assert rig.leader.fetch.session_epoch == 0


def test_another_error_of_the_whole_response_delays_all() -> None:
    rig = Rig()
    rig.follow()
    rig.run()
    rig.leader.answer(error=ErrorCode.UNKNOWN_SERVER_ERROR)
    assert not rig.leader.waiting
    rig.pause()
    assert rig.leader.fetch.session_epoch == 0


def test_an_unexpected_partition_in_the_response_begins_the_session_again() -> None:
    rig = Rig()
    log = rig.follow()
    rig.run()
    rig.leader.answer(("t", data(batch(0))), ("strange", data()))
    assert log.log_end_offset == 0
    rig.pause()
    assert rig.leader.fetch.session_epoch == 0


def test_a_closed_fetcher_uses_no_response() -> None:
    rig = Rig()
    log = rig.follow()
    rig.run()
    [(_, _, pending)] = rig.leader.waiting
    rig.fetcher.close()
    assert rig.leader.channels[0].closed
    assert pending.done
    assert log.log_end_offset == 0
    rig.timer.advance(60)
    assert len(rig.leader.channels) == 1


# ---- the throttle


def test_throttled_partitions_that_lag_are_left_out_while_the_quota_is_spent() -> None:
    rig = Rig()
    rig.quota.throttled = {("slow", 0)}
    rig.follow("slow")
    rig.follow("fast")
    rig.run()
    rig.quota.delay = 2.0
    rig.leader.answer(("slow", data(batch(0), high_watermark=9)), ("fast", data(batch(0))))
    assert rig.quota.recorded == len(batch(0))
    assert asked(rig.leader.fetch) == [("fast", 0, 1, 0, 0)]
    assert forgotten(rig.leader.fetch) == [("slow", [0])]
    rig.quota.delay = 0.0
    rig.leader.answer()
    assert asked(rig.leader.fetch) == [("slow", 0, 1, 0, 0)]


def test_a_throttled_partition_in_sync_is_fetched() -> None:
    rig = Rig()
    rig.quota.throttled = {("t", 0)}
    rig.follow()
    rig.run()
    rig.quota.delay = 2.0
    rig.leader.answer(("t", data(batch(0), high_watermark=1)))
    assert asked(rig.leader.fetch) == [("t", 0, 1, 0, 0)]


def test_a_spent_quota_is_looked_at_again() -> None:
    rig = Rig()
    rig.quota.throttled = {("t", 0)}
    rig.quota.delay = 0.25
    rig.follow()
    rig.run()
    assert not rig.leader.waiting
    rig.quota.delay = 0.0
    rig.timer.advance(0.25)
    assert len(rig.leader.waiting) == 1


def test_follows_a_leader_without_sessions() -> None:
    rig = Rig()
    rig.leader.session_id = 0
    log = rig.follow()
    rig.run()
    for offset in range(3):
        assert rig.leader.fetch.session_epoch == 0
        rig.leader.answer(("t", data(batch(offset))))
    assert log.log_end_offset == 3


def test_records_may_be_absent() -> None:
    rig = Rig()
    rig.follow()
    rig.run()
    answer = FetchResponse.PartitionData(partition_index=0, high_watermark=0, records=None)
    rig.leader.answer(("t", answer))
    assert rig.state().lag == 0

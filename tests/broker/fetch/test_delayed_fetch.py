"""DelayedFetch: the conditions that complete it, named as in its docstring."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.fetch.context import FetchParams
from barnabas.broker.fetch.delayed_fetch import DelayedFetch, FetchExpirations
from barnabas.broker.fetch.leader_throttle import LeaderThrottle
from barnabas.broker.fetch.partition import FetchPartition
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
from barnabas.broker.replica.partition import Partition
from barnabas.broker.waiting.purgatory import DelayedOperationPurgatory
from barnabas.config.log_config import LogConfig
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.control import end_transaction_marker
from barnabas.storage.offsets import AppendOrigin, FetchIsolation, LogOffsetMetadata
from tests.broker.coordinator.transaction.txn_fakes import PRODUCER_ID, txn_batch
from tests.broker.fakes import ManualTimer
from tests.broker.logs import START_MS, batch, log, partition_image

HERE, ELSEWHERE = 1, 2
KEY = ("t", 0)
TWO = partition_image(replicas=(HERE, ELSEWHERE))


def abort_marker() -> bytes:
    """Ends the transaction of `txn_batch`."""
    return end_transaction_marker(
        commit=False, coordinator_epoch=0, producer_id=PRODUCER_ID, producer_epoch=0, timestamp=START_MS
    )


class Waiting:
    """A partition, a purgatory, and the number of completed fetches."""

    def __init__(self, directory: Path, image: PartitionImage, config: LogConfig | None = None) -> None:
        self.partition = Partition("t", b"t" * 16, image, log(directory, config=config), HERE)
        self.timer = ManualTimer()
        self.purgatory = DelayedOperationPurgatory("test", self.timer)
        self.expirations = FetchExpirations()
        self.answers = 0

    def answered(self) -> None:
        self.answers += 1

    def look(self) -> int:
        """Checks the fetches that watch the partition."""
        self.purgatory.check_and_complete(KEY)
        return self.answers

    def fetch(
        self,
        offset: int = 0,
        min_bytes: int = 1,
        *,
        max_bytes: int = 1_000_000,
        epoch: int = -1,
        isolation: FetchIsolation = FetchIsolation.HIGH_WATERMARK,
        only_leader: bool = True,
        last_fetched_epoch: int = -1,
        replica_id: int = -1,
        throttle: LeaderThrottle | None = None,
    ) -> None:
        """Waits for records 500 ms at most."""
        params = FetchParams(
            replica_id=replica_id,
            max_wait_ms=500,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            isolation=isolation,
            only_leader=only_leader,
        )
        wanted = FetchRequest.FetchPartition(
            fetch_offset=offset,
            partition_max_bytes=max_bytes,
            current_leader_epoch=epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        entry = FetchPartition(KEY, "t", b"t" * 16, wanted)
        start = self.partition.log.high_watermark_metadata
        if offset > start.message_offset:
            start = LogOffsetMetadata(offset)
        elif isolation is FetchIsolation.TXN_COMMITTED:
            start = self.partition.log.read(offset, 0, isolation, min_one_message=False).fetch_offset_metadata
        entry.partition, entry.start = self.partition, start
        operation = DelayedFetch(params, [entry], self.answered, self.expirations, throttle)
        self.purgatory.try_complete_else_watch(operation, [KEY])


@pytest.fixture
def led(tmp_path: Path) -> Waiting:
    """A partition with a follower in its ISR."""
    return Waiting(tmp_path, TWO)


@pytest.fixture
def alone(tmp_path: Path) -> Waiting:
    """A partition with this replica only."""
    return Waiting(tmp_path, partition_image())


def test_a_long_poll_waits_for_min_bytes(alone: Waiting) -> None:
    size = len(batch("a"))
    alone.fetch(min_bytes=2 * size)
    assert alone.look() == 0
    alone.partition.append_as_leader(batch("a"), 1)
    assert alone.look() == 0
    alone.partition.append_as_leader(batch("b"), 1)
    assert alone.look() == 1  # case E


def test_bytes_beyond_a_partitions_limit_do_not_count(alone: Waiting) -> None:
    alone.fetch(min_bytes=200, max_bytes=100)
    for value in "abcdef":
        alone.partition.append_as_leader(batch(value), 1)
    assert alone.look() == 0


def test_uncommitted_records_do_not_count_for_a_consumer(led: Waiting) -> None:
    led.fetch()
    led.partition.append_as_leader(batch("a"), 1)
    assert led.look() == 0
    led.partition.follower_fetched(ELSEWHERE, 1, 0)
    assert led.look() == 1


@pytest.mark.parametrize("isolation", FetchIsolation)
def test_readers_of_every_isolation_level_are_completed(alone: Waiting, isolation: FetchIsolation) -> None:
    alone.fetch(isolation=isolation)
    alone.partition.append_as_leader(batch("a"), 1)
    assert alone.look() == 1


def test_a_follower_is_completed_by_uncommitted_records(led: Waiting) -> None:
    led.fetch(isolation=FetchIsolation.LOG_END)
    led.partition.append_as_leader(batch("a"), 1)
    assert led.look() == 1


def test_a_higher_high_watermark_completes_a_fetch_below_the_log_end(led: Waiting) -> None:
    led.fetch()
    led.partition.append_as_leader(batch("a"), 1)
    led.partition.append_as_leader(batch("b"), 1)
    led.partition.follower_fetched(ELSEWHERE, 1, 0)
    assert led.look() == 1


def test_read_committed_is_completed_by_records_before_an_open_transaction(alone: Waiting) -> None:
    alone.fetch(isolation=FetchIsolation.TXN_COMMITTED)
    alone.partition.append_as_leader(batch("a"), 1)
    transactional = build_batch(
        [(None, b"b", START_MS, ())], producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    alone.partition.append_as_leader(transactional, 1)
    assert (alone.partition.log.last_stable_offset, alone.partition.log.high_watermark) == (1, 2)
    assert alone.look() == 1


def test_read_committed_waits_for_min_bytes_of_decided_records(alone: Waiting) -> None:
    """Bytes beyond the last stable offset do not count, and those before it do not complete the fetch early."""
    alone.partition.append_as_leader(batch("a"), 1)
    alone.fetch(offset=0, min_bytes=300, isolation=FetchIsolation.TXN_COMMITTED)
    alone.partition.append_as_leader(txn_batch("b", "c"), 1)
    for _ in range(10):
        alone.partition.append_as_leader(batch("d"), 1)
    assert alone.look() == 0
    alone.partition.append_as_leader(abort_marker(), 1, AppendOrigin.COORDINATOR)
    assert alone.look() == 1


def test_read_committed_beyond_the_last_stable_offset_waits_for_it(alone: Waiting) -> None:
    alone.partition.append_as_leader(txn_batch("a"), 1)
    alone.partition.append_as_leader(batch("b"), 1)
    alone.fetch(offset=2, isolation=FetchIsolation.TXN_COMMITTED)
    alone.partition.append_as_leader(batch("c"), 1)
    assert alone.look() == 0
    alone.partition.append_as_leader(abort_marker(), 1, AppendOrigin.COORDINATOR)
    assert alone.look() == 1


def test_a_change_of_leader_completes_at_once(led: Waiting) -> None:
    led.fetch()
    led.partition.update(partition_image(replicas=(HERE, ELSEWHERE), leader=ELSEWHERE, leader_epoch=1))
    assert led.look() == 1  # case A


def test_a_failed_disk_completes_at_once(alone: Waiting) -> None:
    alone.fetch()
    alone.partition.offline = True
    assert alone.look() == 1  # case A


def test_a_mismatched_leader_epoch_completes_at_once(alone: Waiting) -> None:
    alone.fetch(epoch=0)
    assert alone.look() == 0
    alone.partition.update(partition_image(leader_epoch=1))
    assert alone.look() == 1  # case B


def test_a_truncated_log_completes_at_once(alone: Waiting) -> None:
    alone.partition.append_as_leader(batch("a", "b"), 1)
    alone.fetch(offset=2)
    assert alone.look() == 0
    alone.partition.log.truncate_to(0)
    assert alone.look() == 1  # case C


def test_a_new_segment_completes_whatever_its_size(alone: Waiting) -> None:
    alone.partition.append_as_leader(batch("a"), 1)
    alone.fetch(offset=1, min_bytes=1_000_000)
    alone.partition.log.roll()
    alone.partition.append_as_leader(batch("b"), 1)
    assert alone.look() == 1  # case D


def test_a_timeout_completes_with_an_ordinary_response(alone: Waiting) -> None:
    alone.fetch()
    alone.timer.advance(0.499)
    assert alone.answers == 0
    alone.timer.advance(0.001)
    assert alone.answers == 1


def test_expirations_are_counted_by_who_fetches(led: Waiting) -> None:
    led.fetch()
    led.fetch(isolation=FetchIsolation.LOG_END, replica_id=ELSEWHERE)
    led.fetch()
    led.timer.advance(0.5)
    assert led.answers == 3
    assert (led.expirations.consumer, led.expirations.follower) == (2, 1)
    led.fetch()
    led.partition.append_as_leader(batch("a"), 1)
    led.fetch(isolation=FetchIsolation.LOG_END, replica_id=ELSEWHERE)
    led.timer.advance(0.1)
    led.partition.resign()
    assert led.look() == 5
    assert (led.expirations.consumer, led.expirations.follower) == (2, 1)


FOLLOWED = partition_image(replicas=(HERE, ELSEWHERE), leader=ELSEWHERE, leader_epoch=2, partition_epoch=1)


def test_a_reader_of_followers_waits_on_one_until_it_is_truncated(led: Waiting) -> None:
    led.partition.update(FOLLOWED)
    led.fetch(only_leader=False)
    assert led.look() == 0
    led.partition.is_truncating = True
    assert led.look() == 1  # case A


def test_a_follower_that_diverges_by_now_responds(led: Waiting) -> None:
    led.partition.append_as_leader(batch("a", "b"), 1)
    led.partition.log.assign_epoch_start_offset(1, 2)
    led.partition.update(FOLLOWED)
    led.partition.update_follower_high_watermark(2)
    led.fetch(2, only_leader=False, last_fetched_epoch=1)
    assert led.look() == 0
    led.partition.log.leader_epoch_cache.truncate_from_end(1)
    led.partition.log.assign_epoch_start_offset(2, 1)
    assert led.look() == 1  # case H


@pytest.mark.parametrize("rolls", [False, True])
def test_records_that_a_follower_does_not_get_now_complete_nothing(tmp_path: Path, rolls: bool) -> None:
    """Neither as bytes (case E) nor in a new segment (case D); a truncation does (case C)."""
    image = partition_image(replicas=(HERE, ELSEWHERE), isr=(HERE,))
    led = Waiting(tmp_path, image, LogConfig(leader_replication_throttled_replicas=("*",)))
    quota = ReplicationQuota(lambda: 100, samples=11, window_s=1.0, clock=led.timer.time)
    throttle = LeaderThrottle(quota)
    led.partition.append_as_leader(batch("a"), 1)
    for _ in range(2):
        led.fetch(1, isolation=FetchIsolation.LOG_END, replica_id=ELSEWHERE, throttle=throttle)
    quota.record(1_000_000)
    if rolls:
        led.partition.log.roll()
    led.partition.append_as_leader(batch("b"), 1)
    assert led.look() == 0
    led.timer.advance(0.499)
    assert led.look() == 0
    led.partition.log.truncate_to(0)
    assert led.look() == 2


@pytest.mark.parametrize("rolls", [False, True])
def test_they_complete_it_when_the_rate_has_fallen(tmp_path: Path, rolls: bool) -> None:
    image = partition_image(replicas=(HERE, ELSEWHERE), isr=(HERE,))
    led = Waiting(tmp_path, image, LogConfig(leader_replication_throttled_replicas=("*",)))
    rate = 100
    quota = ReplicationQuota(lambda: rate, samples=11, window_s=1.0, clock=led.timer.time)
    quota.record(1_000_000)
    led.fetch(isolation=FetchIsolation.LOG_END, replica_id=ELSEWHERE, throttle=LeaderThrottle(quota))
    if rolls:
        led.partition.log.roll()
    led.partition.append_as_leader(batch("a"), 1)
    assert led.look() == 0
    rate = 1_000_000
    assert led.look() == 1

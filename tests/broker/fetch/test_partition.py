"""One partition of a fetch session: its state, and the notification of its listener."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.fetch.partition import EntryState, FetchPartition, readable_end, size_of
from barnabas.broker.replica.partition import NO_EPOCH, Partition
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.storage.offsets import FetchIsolation, LogStartOffsetIncrementReason
from tests.broker.coordinator.transaction.txn_fakes import txn_batch
from tests.broker.logs import batch, log, partition_image
from tests.broker.replica_node import wanted

COMMITTED, UNCOMMITTED = FetchIsolation.TXN_COMMITTED, FetchIsolation.HIGH_WATERMARK


class Listener:
    """A session that records its notifications."""

    def __init__(self) -> None:
        self.is_waiting = False
        self.heard: list[tuple[str, FetchPartition]] = []

    def wake(self, entry: FetchPartition) -> None:
        self.heard.append(("wake", entry))

    def changed(self, entry: FetchPartition) -> int:
        self.heard.append(("changed", entry))
        return 2


@pytest.fixture
def leader(tmp_path: Path) -> Partition:
    """A partition with the offsets 0 and 1."""
    leader = Partition("t", b"t" * 16, partition_image(), log(tmp_path), 1)
    leader.append_as_leader(batch("a", "b"), 1)
    return leader


def read(leader: Partition, offset: int, last_fetched_epoch: int = -1) -> FetchPartition:
    """The state of the reader: its request, its last result, its position."""
    entry = wanted("t", 0, offset, last_fetched_epoch=last_fetched_epoch)
    entry.partition = leader
    entry.answered(data_of(leader))
    return entry


def data_of(leader: Partition) -> FetchResponse.PartitionData:
    return FetchResponse.PartitionData(
        high_watermark=leader.log.high_watermark, log_start_offset=leader.log.log_start_offset, records=b""
    )


# ---- what is asked for


def test_it_copies_the_values_of_the_request() -> None:
    entry = wanted("t", 3, 7, max_bytes=10, epoch=5)
    assert (entry.topic, entry.index, entry.fetch_offset, entry.max_bytes) == ("t", 3, 7, 10)
    assert entry.current_leader_epoch == 5
    entry.update(FetchRequest.FetchPartition(fetch_offset=8, current_leader_epoch=-7))
    assert (entry.fetch_offset, entry.current_leader_epoch) == (8, NO_EPOCH)


# ---- what is new


def test_before_the_first_response_everything_is_new(leader: Partition) -> None:
    entry = wanted("t", 0, 2)
    assert entry.is_news(data_of(leader))
    entry.answered(data_of(leader))
    assert not entry.is_news(data_of(leader))


def test_after_an_error_every_result_is_new(leader: Partition) -> None:
    entry = read(leader, 2)
    data = data_of(leader)
    data.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    assert entry.is_news(data)
    entry.answered(data)
    assert entry.is_news(data_of(leader))


def test_at_the_log_end_nothing_is_to_be_read_until_an_append(leader: Partition) -> None:
    entry = read(leader, 2)
    assert entry.has_nothing_new(UNCOMMITTED)
    leader.append_as_leader(batch("c"), 1)
    assert not entry.has_nothing_new(UNCOMMITTED)


def test_a_read_is_due_before_the_log_end_and_after_a_new_log_start(leader: Partition) -> None:
    assert not read(leader, 1).has_nothing_new(UNCOMMITTED)
    entry = read(leader, 2)
    leader.log.maybe_increment_log_start_offset(1, LogStartOffsetIncrementReason.SEGMENT_DELETION)
    assert not entry.has_nothing_new(UNCOMMITTED)


def test_an_error_or_a_request_with_an_epoch_makes_a_read_due(leader: Partition) -> None:
    assert not wanted("t", 0, 2).has_nothing_new(UNCOMMITTED)
    assert not read(leader, 2, last_fetched_epoch=0).has_nothing_new(UNCOMMITTED)


class Session:
    """A fetch session by its last request."""

    last_used_ms = 500


def test_a_follower_rests_at_the_log_end_in_the_leaders_epoch(tmp_path: Path) -> None:
    leader = Partition("t", b"t" * 16, partition_image(replicas=(1, 2)), log(tmp_path), 1)
    leader.append_as_leader(batch("a"), 1)
    follower = 2, NO_EPOCH
    assert not read(leader, 1).has_nothing_new(FetchIsolation.LOG_END, follower)
    leader.follower_fetched(2, 1, 0)
    entry = read(leader, 1, last_fetched_epoch=0)
    assert entry.has_nothing_new(FetchIsolation.LOG_END, follower)
    assert not entry.has_nothing_new(FetchIsolation.LOG_END, (3, NO_EPOCH)), "another node"
    session = Session()
    entry.rest(session, follower)
    assert [entry.remote] == list(leader.remote_replicas)
    entry.end_rest(session)
    assert entry.remote is None
    assert [remote.last_fetch_ms for remote in leader.remote_replicas] == [500]
    entry.end_rest(session)
    entry.current_leader_epoch = leader.leader_epoch + 1
    assert not entry.has_nothing_new(FetchIsolation.LOG_END, follower)


def test_an_open_transaction_is_new_only_to_readers_of_uncommitted_records(leader: Partition) -> None:
    leader.append_as_leader(txn_batch("c"), 1)
    entry = read(leader, 2)
    assert entry.has_nothing_new(COMMITTED)
    assert not entry.has_nothing_new(UNCOMMITTED)
    ends = [readable_end(leader.log, isolation) for isolation in (COMMITTED, UNCOMMITTED)]
    assert ends == [2, 3]


def test_records_are_measured_in_memory_and_in_files(leader: Partition) -> None:
    data = FetchResponse.PartitionData(records=None)
    assert size_of(data) == 0
    for data.records in (b"xy", memoryview(b"xy")):
        assert size_of(data) == 2
    data.records = leader.log.read(0, 1000, UNCOMMITTED, min_one_message=True).records
    assert size_of(data) == len(batch("a", "b"))


# ---- notifications


def test_changes_notify_the_listener() -> None:
    entry, listener = wanted(), Listener()
    entry.listener = listener
    entry.wake()
    assert entry.look() == 2
    assert listener.heard == [("wake", entry), ("changed", entry)]
    assert not entry.is_waiting
    listener.is_waiting = True
    assert entry.is_waiting


def test_changes_without_a_listener_have_no_effect() -> None:
    entry = wanted()
    entry.wake()
    assert (entry.look(), entry.is_waiting, entry.state) == (0, False, EntryState.ACTIVE)

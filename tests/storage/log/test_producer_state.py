"""ProducerStateManager: checks of appends, snapshots, and open transactions."""

import pytest

from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.layout import MAX_SEQUENCE
from barnabas.storage.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceError,
    TransactionCoordinatorFencedError,
)
from barnabas.storage.log.producer_entry import CompletedTxn
from barnabas.storage.log.producer_snapshots import ProducerSnapshotFiles
from barnabas.storage.log.producer_state import LAST_EPOCH, LATE_TRANSACTION_BUFFER_MS, ProducerStateManager
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.offsets import AppendOrigin
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import T0, end_txn, make_batch

PID = 9
CLIENT = AppendOrigin.CLIENT


class Producers:
    """A manager, the log end, and appends as by a leader: check, then update."""

    def __init__(self) -> None:
        self.env = FaultEnv()
        self.env.mkdir("/d")
        self.manager = self.fresh()
        self.end = 0

    def fresh(self) -> ProducerStateManager:
        files = ProducerSnapshotFiles(self.env, "/d", self.env.listdir("/d"))
        return ProducerStateManager(files, "t-0", 1000)

    def append(
        self,
        sequence: int,
        count: int = 1,
        *,
        epoch: int = 0,
        pid: int = PID,
        transactional: bool = False,
        timestamp: int = T0,
        origin: AppendOrigin = CLIENT,
    ) -> tuple[int, int]:
        """Returns (first, last) offset: new ones, or for a repeated batch those of the first append."""
        data = make_batch(
            *(b"v",) * count,
            producer=(pid, epoch, sequence),
            transactional=transactional,
            timestamp=timestamp,
        )
        batch = RecordBatch(data)
        known = self.manager.check_append(batch, origin)
        if known is not None:
            return known.first_offset, known.last_offset
        first, last = self.end, self.end + count - 1
        self.end += count
        self.manager.update(batch, first, last)
        self.manager.map_end_offset = self.end
        return first, last

    def end_txn(
        self, *, commit: bool, epoch: int = 0, pid: int = PID, coordinator_epoch: int = 3
    ) -> CompletedTxn | None:
        batch = RecordBatch(end_txn(pid, epoch, commit=commit, coordinator_epoch=coordinator_epoch))
        assert self.manager.check_append(batch, AppendOrigin.COORDINATOR) is None
        offset = self.end
        self.end += 1
        completed = self.manager.update(batch, offset, offset)
        self.manager.map_end_offset = self.end
        if completed is not None:
            self.manager.last_stable_offset_after(completed)
            self.manager.complete_txn(completed)
        return completed

    def reload(self) -> None:
        """Restart from a snapshot taken now."""
        self.manager.take_snapshot(sync=True)
        self.manager = self.fresh()
        self.manager.truncate_and_reload(0, self.end, self.env.time_ms)


@pytest.fixture
def log() -> Producers:
    return Producers()


def test_the_last_five_batches_are_answered_with_their_offsets(log: Producers) -> None:
    for number in range(6):
        assert log.append(3 * number, 3) == (3 * number, 3 * number + 2)
    for number in range(1, 6):
        assert log.append(3 * number, 3) == (3 * number, 3 * number + 2)
    with pytest.raises(OutOfOrderSequenceError, match=r"sequence 0, expected 18"):
        log.append(0, 3)
    assert log.end == 18


@pytest.mark.parametrize(("sequence", "count"), [(0, 2), (1, 2), (3, 1), (4, 1), (4, 2), (6, 1), (7, 1)])
def test_a_batch_that_overlaps_a_known_one_is_out_of_order(log: Producers, sequence: int, count: int) -> None:
    log.append(0, 3)
    log.append(3, 2)
    with pytest.raises(OutOfOrderSequenceError, match=f"sequence {sequence}, expected 5"):
        log.append(sequence, count)


def test_an_unknown_producer_may_begin_at_any_sequence(log: Producers) -> None:
    assert log.append(77) == (0, 0)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(79)
    assert log.append(78) == (1, 1)


def test_sequences_wrap_around(log: Producers) -> None:
    log.append(MAX_SEQUENCE - 1, 4)  # the last two are 0 and 1
    assert log.manager.producers[PID].last_sequence == 1
    assert log.append(MAX_SEQUENCE - 1, 4) == (0, 3)
    assert log.append(2) == (4, 4)


def test_the_largest_sequence_is_followed_by_zero(log: Producers) -> None:
    log.append(MAX_SEQUENCE)
    assert log.append(0) == (1, 1)


def test_a_new_epoch_begins_at_zero_and_fences_the_old(log: Producers) -> None:
    log.append(0, 5)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(5, epoch=1)
    assert log.append(0, epoch=1) == (5, 5)
    with pytest.raises(InvalidProducerEpochError, match="epoch 0"):
        log.append(5)
    with pytest.raises(InvalidProducerEpochError):
        log.append(0, 5)  # a repeated batch, but of a fenced producer
    assert log.append(1, epoch=1) == (6, 6)


@pytest.mark.parametrize("epoch", [-2, -(2**15)])
def test_no_epoch_is_below_minus_one(log: Producers, epoch: int) -> None:
    for _ in range(2):
        with pytest.raises(InvalidProducerEpochError):
            log.append(0, epoch=epoch)
        with pytest.raises(InvalidProducerEpochError):
            log.append(0, epoch=epoch, origin=AppendOrigin.COORDINATOR)
        log.append(0, epoch=-1)


def test_followers_check_neither_sequences_nor_epochs(log: Producers) -> None:
    log.append(0, epoch=2)
    assert log.append(50, epoch=1, origin=AppendOrigin.REPLICATION) == (1, 1)


def test_coordinators_append_without_sequences(log: Producers) -> None:
    log.append(5, origin=AppendOrigin.COORDINATOR)
    log.append(0, origin=AppendOrigin.COORDINATOR)
    with pytest.raises(InvalidProducerEpochError):
        log.append(0, epoch=-1, origin=AppendOrigin.COORDINATOR)


def test_producers_are_independent(log: Producers) -> None:
    log.append(0, pid=1)
    log.append(0, pid=2)
    assert log.append(1, pid=1) == (2, 2)


# -- snapshots --


def test_a_restart_remembers_the_last_batch(log: Producers) -> None:
    for number in range(3):
        log.append(2 * number, 2)
    log.reload()
    assert log.manager.map_end_offset == 6
    assert log.append(4, 2) == (4, 5)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(2, 2)
    assert log.append(6) == (6, 6)


def test_a_snapshot_is_taken_once_for_each_point(log: Producers) -> None:
    assert log.manager.take_snapshot(sync=True) is None  # nothing has happened yet
    log.append(0)
    assert log.manager.take_snapshot(sync=True) is not None
    assert log.manager.take_snapshot(sync=True) is None


def test_batches_without_sequences_survive_a_snapshot(log: Producers) -> None:
    """A coordinator appends such batches for offsets committed in a transaction."""
    log.append(-1, 2, transactional=True, origin=AppendOrigin.COORDINATOR)
    log.end_txn(commit=True)
    log.manager.take_snapshot(sync=True)
    again = log.fresh()
    again.truncate_and_reload(0, log.end, T0)
    assert again.last_records() == log.manager.last_records() == {PID: (0, 1)}
    assert list(again._as_snapshot()) == list(log.manager._as_snapshot())


def test_snapshots_have_producers_in_the_order_of_javas_hash_map(log: Producers) -> None:
    """Both lists are the order of Java's HashMap for these ids; at the thirteenth its table doubles."""
    for pid in (15, 16, 17, 1001, 1 << 32 | 7):
        log.append(0, pid=pid)
    assert order_in_snapshot(log) == [16, 17, 1 << 32 | 7, 1001, 15]
    for pid in range(100, 108):
        log.append(0, pid=pid)
    assert order_in_snapshot(log) == [100, 101, 1 << 32 | 7, 102, 103, 104, 1001, 105, 106, 107, 15, 16, 17]


def order_in_snapshot(log: Producers) -> list[int]:
    """The producers in the order of a snapshot file written now."""
    log.manager.take_snapshot(sync=False)
    return [entry.producer_id for entry in log.manager.snapshots.read(log.end)]


def test_the_snapshot_before_a_damaged_one_is_loaded(log: Producers) -> None:
    log.append(0)
    log.manager.take_snapshot(sync=True)
    log.append(1)
    path = log.manager.take_snapshot(sync=True)
    assert path is not None
    log.env.write_file(path, b"damaged")
    log.manager = log.fresh()
    log.manager.truncate_and_reload(0, log.end, T0)
    assert log.manager.map_end_offset == 1
    assert log.manager.producers[PID].last_sequence == 0
    assert log.manager.snapshots.offsets == [1]


def test_a_truncation_to_the_current_end_changes_nothing(log: Producers) -> None:
    log.append(0)
    log.append(1)
    log.manager.truncate_and_reload(0, 2, T0)
    assert len(log.manager.producers[PID].batches) == 2
    log.manager.truncate_and_reload(0, 1, T0)
    assert log.manager.is_empty
    assert log.manager.map_end_offset == 0


def test_silent_producers_without_an_open_transaction_expire(log: Producers) -> None:
    log.append(0, pid=1, timestamp=T0)
    log.append(0, pid=2, timestamp=T0 + 500)
    log.append(0, pid=3, timestamp=T0, transactional=True)
    assert log.manager.remove_expired_producers(T0 + 999) == 0
    assert log.manager.remove_expired_producers(T0 + 1000) == 1
    assert set(log.manager.producers) == {2, 3}
    log.env.time_ms = T0 + 1500
    log.reload()
    assert set(log.manager.producers) == {3}


# -- transactions --


def test_a_transaction_is_unstable_until_its_marker_is_replicated(log: Producers) -> None:
    manager = log.manager
    log.append(0, 2)
    log.append(2, 2, transactional=True)
    log.append(0, pid=1, transactional=True)
    assert manager.first_unstable_offset == 2
    log.end_txn(commit=True)
    assert manager.first_unstable_offset == 2
    manager.on_high_watermark_updated(5)
    assert manager.first_unstable_offset == 2
    manager.on_high_watermark_updated(6)
    assert manager.first_unstable_offset == 4
    log.end_txn(commit=False, pid=1)
    manager.on_high_watermark_updated(7)
    assert manager.first_unstable_offset is None


def test_the_transaction_that_a_marker_ends(log: Producers) -> None:
    assert log.end_txn(commit=True) is None  # nothing was open
    log.append(0, transactional=True)
    log.append(1, transactional=True)
    completed = log.end_txn(commit=False)
    assert completed is not None
    assert (completed.producer_id, completed.first_offset, completed.last_offset, completed.is_aborted) == (
        PID,
        1,
        3,
        True,
    )


def test_a_marker_with_a_new_epoch_resets_the_sequence(log: Producers) -> None:
    log.append(0, 4, transactional=True)
    log.end_txn(commit=True, epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        log.append(4, transactional=True)
    with pytest.raises(OutOfOrderSequenceError):
        log.append(4, epoch=1, transactional=True)
    assert log.append(0, epoch=1, transactional=True) == (5, 5)


def test_an_open_transaction_rejects_other_batches_of_its_producer(log: Producers) -> None:
    log.append(0, transactional=True)
    with pytest.raises(InvalidTxnStateError):
        log.append(1)


def test_replaced_coordinators_are_fenced(log: Producers) -> None:
    log.manager.check_coordinator_epoch(PID, 0)
    log.append(0, transactional=True)
    log.end_txn(commit=True, coordinator_epoch=3)
    log.manager.check_coordinator_epoch(PID, 3)
    with pytest.raises(TransactionCoordinatorFencedError):
        log.manager.check_coordinator_epoch(PID, 2)


def test_open_transactions_survive_a_restart(log: Producers) -> None:
    log.append(0)
    log.append(1, transactional=True)
    log.reload()
    assert log.manager.first_unstable_offset == 1
    assert log.end_txn(commit=True) is not None


def test_a_new_log_start_removes_transactions_below_it(log: Producers) -> None:
    log.append(0, transactional=True)
    log.end_txn(commit=True)
    log.manager.on_log_start_offset_incremented(1)
    assert log.manager.first_unstable_offset == 0
    log.manager.on_log_start_offset_incremented(2)
    assert log.manager.first_unstable_offset is None


def test_control_batches_of_the_metadata_log_are_ignored(log: Producers) -> None:
    from barnabas.protocol.records.batch import build_batch

    data = build_batch([(b"\0\0\0\2", b"leader", T0, [])], producer_id=PID, producer_epoch=0, is_control=True)
    assert log.manager.update(RecordBatch(data), 0, 0) is None


def test_an_emptied_log_has_no_producers(log: Producers) -> None:
    log.append(0, transactional=True)
    log.manager.take_snapshot(sync=True)
    log.manager.truncate_fully_and_start_at(10)
    assert log.manager.is_empty
    assert log.manager.first_unstable_offset is None
    assert (log.manager.map_end_offset, log.manager.snapshots.offsets) == (10, [])


# -- verified transactions (KIP-890) --


@pytest.fixture
def verified(log: Producers) -> Producers:
    log.manager.verifies_transactions = True
    return log


def guard(
    log: Producers, sequence: int = 0, epoch: int = 0, *, bumps: bool = False
) -> VerificationGuard | None:
    return log.manager.start_verification(PID, sequence, epoch, supports_epoch_bump=bumps, now_ms=T0)


def take(log: Producers, sequence: int, held: VerificationGuard | None, epoch: int = 0) -> None:
    """Append a transactional batch with a guard."""
    data = make_batch(b"v", producer=(PID, epoch, sequence), transactional=True)
    batch = RecordBatch(data)
    assert log.manager.check_append(batch, CLIENT, held) is None
    log.manager.update(batch, log.end, log.end)
    log.end += 1


def test_only_the_first_batch_of_a_transaction_needs_a_guard(verified: Producers) -> None:
    held = guard(verified)
    with pytest.raises(InvalidTxnStateError, match="outside of any transaction"):
        take(verified, 0, None)
    take(verified, 0, held)
    assert guard(verified) is None  # it is open
    take(verified, 1, None)
    verified.end_txn(commit=True)
    with pytest.raises(InvalidTxnStateError):
        take(verified, 2, None)
    with pytest.raises(InvalidTxnStateError):
        take(verified, 2, held)  # this guard was for the last transaction
    take(verified, 2, guard(verified, 2))


def test_an_abort_during_the_verification_invalidates_the_guard(verified: Producers) -> None:
    held = guard(verified)
    verified.end_txn(commit=False)
    with pytest.raises(InvalidTxnStateError):
        take(verified, 0, held)


def test_an_open_transaction_of_another_epoch_does_not_verify(verified: Producers) -> None:
    take(verified, 0, guard(verified))
    with pytest.raises(InvalidTxnStateError):
        take(verified, 0, None, epoch=1)


@pytest.mark.parametrize("bumps", [False, True])
def test_an_old_epoch_is_not_verified(verified: Producers, bumps: bool) -> None:
    """Nor does it block the producer of the new epoch."""
    take(verified, 0, guard(verified, epoch=1, bumps=bumps), epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        guard(verified, bumps=bumps)
    take(verified, 1, None, epoch=1)
    verified.end_txn(commit=True, epoch=2)
    for epoch in (0, 1):
        with pytest.raises(InvalidProducerEpochError):
            guard(verified, epoch=epoch, bumps=bumps)
    take(verified, 0, guard(verified, epoch=2, bumps=bumps), epoch=2)
    take(verified, 1, None, epoch=2)


def test_an_old_epoch_is_reported_before_a_missing_guard(verified: Producers) -> None:
    take(verified, 0, guard(verified, epoch=1), epoch=1)
    with pytest.raises(InvalidProducerEpochError):
        take(verified, 0, None)
    with pytest.raises(InvalidTxnStateError):
        take(verified, 0, None, epoch=2)


def test_a_batch_behind_one_to_be_resent_is_rejected(verified: Producers) -> None:
    held = guard(verified, 3)
    assert guard(verified, 8) is held
    with pytest.raises(OutOfOrderSequenceError, match=r"sequence 8 .* where 3 is the first"):
        take(verified, 8, held)
    take(verified, 3, held)


def test_with_an_epoch_for_each_transaction_an_unknown_producer_begins_at_zero(verified: Producers) -> None:
    held = guard(verified, 3, bumps=True)
    with pytest.raises(OutOfOrderSequenceError, match="where 0 is the first"):
        take(verified, 3, held)
    guard(verified, 0, bumps=True)
    take(verified, 0, held)


def test_the_lowest_sequence_counts_with_an_epoch_for_each_transaction_too(verified: Producers) -> None:
    """As in Kafka, an invalid batch (here without a sequence number) blocks later ones until a marker."""
    held = guard(verified, -1, bumps=True)
    with pytest.raises(OutOfOrderSequenceError, match="where -1 is the first"):
        take(verified, 0, held)
    verified.end_txn(commit=False, epoch=1)
    take(verified, 0, guard(verified, epoch=1, bumps=True), epoch=1)


def test_a_marker_clears_no_guard_of_its_own_epoch_where_each_transaction_has_one(
    verified: Producers,
) -> None:
    held = guard(verified, epoch=1, bumps=True)
    marker(verified, 1, 2)  # which ends the transaction of epoch 0
    take(verified, 0, held, epoch=1)


def test_a_batch_without_a_transaction_needs_no_guard(verified: Producers) -> None:
    assert verified.append(0) == (0, 0)
    assert verified.append(1, origin=AppendOrigin.COORDINATOR) == (1, 1)


def test_a_repeated_batch_needs_no_guard(verified: Producers) -> None:
    take(verified, 0, guard(verified))
    verified.end_txn(commit=True)
    assert verified.append(0, transactional=True) == (0, 0)


# -- markers --


def marker(log: Producers, epoch: int, version: int, coordinator_epoch: int = 3) -> None:
    batch = RecordBatch(end_txn(PID, epoch, commit=True, coordinator_epoch=coordinator_epoch))
    log.manager.check_append(batch, AppendOrigin.COORDINATOR, None, version)
    completed = log.manager.update(batch, log.end, log.end)
    log.end += 1
    if completed is not None:
        log.manager.complete_txn(completed)


@pytest.mark.parametrize(
    ("version", "epoch", "fine"),
    [(0, 4, False), (0, 5, True), (0, 6, True), (1, 5, True), (2, 4, False), (2, 5, False), (2, 6, True)],
)
def test_a_marker_of_version_two_has_a_higher_epoch(
    log: Producers, version: int, epoch: int, fine: bool
) -> None:
    log.append(0, epoch=5, transactional=True)
    if fine:
        marker(log, epoch, version)
        assert not log.manager.has_ongoing_transaction(PID, 5)
    else:
        with pytest.raises(InvalidProducerEpochError):
            marker(log, epoch, version)
        assert log.manager.has_ongoing_transaction(PID, 5)


def test_a_repeated_marker_is_accepted_once_the_transaction_has_ended(log: Producers) -> None:
    log.append(0, epoch=5, transactional=True)
    marker(log, 6, 2)
    marker(log, 6, 2)
    with pytest.raises(InvalidProducerEpochError):
        marker(log, 5, 2)


def test_a_marker_of_the_last_epoch_keeps_the_epoch(log: Producers) -> None:
    log.append(0, epoch=LAST_EPOCH, transactional=True)
    marker(log, LAST_EPOCH, 2)
    assert not log.manager.has_ongoing_transaction(PID, LAST_EPOCH)


@pytest.mark.parametrize("version", [0, 2])
def test_the_epoch_of_a_marker_is_checked_for_an_unknown_producer_too(log: Producers, version: int) -> None:
    with pytest.raises(InvalidProducerEpochError):
        marker(log, -2, version)
    with pytest.raises(TransactionCoordinatorFencedError):
        marker(log, 0, version, coordinator_epoch=-2)
    marker(log, 0, version, coordinator_epoch=-1)


def test_a_marker_of_a_replaced_coordinator_is_rejected(log: Producers) -> None:
    log.append(0, transactional=True)
    marker(log, 0, 0, coordinator_epoch=3)
    with pytest.raises(TransactionCoordinatorFencedError):
        marker(log, 0, 0, coordinator_epoch=2)
    marker(log, 0, 0, coordinator_epoch=4)


def test_a_transaction_is_late_five_minutes_after_the_longest_timeout(log: Producers) -> None:
    limit_ms = 60_000
    assert not log.manager.has_late_transaction(T0 + 10**9, limit_ms)
    log.append(0, transactional=True)
    log.append(1, transactional=True, timestamp=T0 + 50)
    log.append(0, pid=PID + 1, transactional=True)
    assert not log.manager.has_late_transaction(T0 + 50 + limit_ms + LATE_TRANSACTION_BUFFER_MS, limit_ms)
    assert log.manager.has_late_transaction(T0 + 51 + limit_ms + LATE_TRANSACTION_BUFFER_MS, limit_ms)
    log.end_txn(commit=True)
    log.end_txn(commit=True, pid=PID + 1)
    assert not log.manager.has_late_transaction(T0 + 10**9, limit_ms)


def test_the_expiration_time_of_producers_may_change(log: Producers) -> None:
    log.append(0)
    assert log.manager.remove_expired_producers(T0 + 999) == 0
    guard(log)
    log.manager.expiration_ms = 500
    assert log.manager.remove_expired_producers(T0 + 999) == 1
    assert len(log.manager.verifications) == 0

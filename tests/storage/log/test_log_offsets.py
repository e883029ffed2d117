"""LogOffsets: the high watermark and the last stable offset, and their order."""

import pytest

from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import AppendOrigin, FetchIsolation, LogStartOffsetIncrementReason
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import append, end_txn, fill, make_batch, new_log


@pytest.fixture
def log() -> UnifiedLog:
    return new_log(FaultEnv())


def test_last_stable_offset(log: UnifiedLog) -> None:
    fill(log, 3)
    assert log.last_stable_offset_metadata == log.high_watermark_metadata
    log.append_as_leader(make_batch(b"open", producer=(7, 0, 0), transactional=True), 0)
    append(log, b"after it")
    log.update_high_watermark(log.log_end_offset)
    metadata = log.last_stable_offset_metadata
    assert (metadata.message_offset, metadata.segment_base_offset) == (3, 0)
    assert (
        metadata.position
        == log.read(0, 10_000, FetchIsolation.TXN_COMMITTED, min_one_message=True).records.size
    )
    assert log.last_stable_offset_metadata is metadata  # looked up once
    log.truncate_to(1)
    append(log, b"longer than what was cut off")
    append(log, b"x")
    log.append_as_leader(make_batch(b"open", producer=(7, 0, 0), transactional=True), 0)
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset_metadata.message_offset == 3
    cut = log.read(0, 10_000, FetchIsolation.TXN_COMMITTED, min_one_message=True)
    assert log.last_stable_offset_metadata.position == cut.records.size != metadata.position


def test_a_transaction_is_stable_once_its_marker_is_replicated(log: UnifiedLog) -> None:
    append(log, b"plain")
    log.append_as_leader(make_batch(b"a", producer=(7, 0, 0), transactional=True), 0)
    log.update_high_watermark(2)
    assert log.last_stable_offset == 1
    log.append_as_leader(end_txn(7, 0, commit=True), 0, AppendOrigin.COORDINATOR)
    assert log.last_stable_offset == 1
    log.update_high_watermark(3)
    assert (log.last_stable_offset, log.offsets.first_unstable_offset) == (3, None)


def test_the_high_watermark_keeps_within_the_log(log: UnifiedLog) -> None:
    fill(log, 8)
    assert log.update_high_watermark(99) == 8
    assert log.update_high_watermark(3) == 3
    assert log.update_high_watermark(5) == 5
    assert log.high_watermark_metadata.segment_base_offset == 5
    log.maybe_increment_log_start_offset(4, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    assert log.update_high_watermark(1) == 4
    assert "start=4" in repr(log)


def test_offsets_out_of_order_fail_an_assertion(log: UnifiedLog) -> None:
    fill(log, 3)
    log.offsets.high_watermark = 4
    with pytest.raises(AssertionError, match="start=0, stable=4, hw=4, end=3"):
        log.offsets.check_order()

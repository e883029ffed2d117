"""Offset metadata and file records: the small value classes."""

from barnabas.storage.offsets import (
    AbortedTransaction,
    EpochEndOffset,
    FetchDataInfo,
    FileRecords,
    LogAppendInfo,
    LogOffsetMetadata,
    TimestampAndOffset,
)
from tests.storage.fault_env import FaultEnv


def test_offset_metadata() -> None:
    known, other, unknown = LogOffsetMetadata(5, 0, 100), LogOffsetMetadata(9, 0, 300), LogOffsetMetadata(5)
    assert known.on_same_segment(other)
    assert not known.on_same_segment(unknown)
    assert not unknown.on_same_segment(known)
    assert not known.on_same_segment(LogOffsetMetadata(9, 7, 300))


def test_values_compare_by_their_fields() -> None:
    pairs: list[tuple[object, object, object]] = [
        (LogOffsetMetadata(5, 0, 100), LogOffsetMetadata(5, 0, 100), LogOffsetMetadata(5)),
        (TimestampAndOffset(1, 2, 3), TimestampAndOffset(1, 2, 3), TimestampAndOffset(1, 2)),
        (EpochEndOffset(1, 2), EpochEndOffset(1, 2), EpochEndOffset(2, 2)),
    ]
    for value, same, different in pairs:
        assert value == same
        assert hash(value) == hash(same)
        assert value != different
        assert value != "something else"
        assert repr(value) == repr(same) != repr(different)
    assert repr(AbortedTransaction(7, 8)) == "AbortedTransaction(producer_id=7, first_offset=8)"


def test_file_records() -> None:
    env = FaultEnv()
    env.write_file("/f", b"0123456789")
    records = FileRecords(env.open("/f"), 2, 5)
    assert (records.size, records.read()) == (5, b"23456")
    assert FileRecords(None, 0, 0).read() == b""
    assert "size=5" in repr(records)
    assert records.slice(1, 3).read() == b"345"
    info = FetchDataInfo(LogOffsetMetadata(7, 0, 2), records)
    assert (info.fetch_offset, info.first_entry_incomplete, info.aborted_transactions) == (7, False, None)


def test_the_result_of_an_append_shows_its_offsets() -> None:
    assert repr(LogAppendInfo(3, 5, 0, duplicate=True)) == "LogAppendInfo(3..5, duplicate=True)"

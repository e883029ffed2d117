"""Cleaner: the records it keeps and removes, the files it writes, how it fails; its loops interpreted and compiled."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.protocol.records.batch import CompressionType, CorruptRecordError
from barnabas.protocol.records.errors import InvalidRecordError
from barnabas.storage.cleaner.cleaner import Cleaner, clean, group_segments_by_size, legacy_delete_horizon_ms
from barnabas.storage.errors import LogCleaningAbortedError, SegmentOverflowError
from barnabas.storage.log.cleaning_plan import CleaningResult, SegmentToClean
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import AppendOrigin
from barnabas.storage.segment.names import segment_path
from tests.protocol.records.message_sets import message_set
from tests.protocol.records.raw_batches import empty_batch
from tests.storage.cleaning import (
    aborted_transactions,
    base_offsets,
    plan_for,
    running,
    stored_batches,
    stored_records,
    swap_in,
)
from tests.storage.fault_env import FaultEnv, PowerCut, nth, power_cut
from tests.storage.helpers import DIRECTORY, T0, end_txn, make_batch, names, new_log, small_config
from tests.support.loops import FORMS

RETENTION_MS = 100_000
HORIZON = T0 + 1_000_000 + RETENTION_MS  # of the records that these plans clean first


@pytest.fixture(params=FORMS, autouse=True)
def _form(request: pytest.FixtureRequest) -> Iterator[None]:
    with running(request.param):
        yield


class CleaningHarness:
    """A log in memory, and the cleaner that cleans it."""

    def __init__(self, **settings: object) -> None:
        self.env = FaultEnv()
        self.log: UnifiedLog = new_log(self.env, small_config(**settings))

    def put(self, key: bytes | None, value: bytes | None, **how: Any) -> int:
        return self.log.append_as_leader(make_batch(value, key=key, **how), 0).first_offset

    def end(self, producer_id: int, *, commit: bool, epoch: int = 0) -> int:
        marker = end_txn(producer_id, epoch, commit=commit)
        return self.log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR).first_offset

    def roll(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        self.log.roll()

    def clean(self, **changes: Any) -> CleaningResult:
        """Cleans all but the active segment, and puts the result in place."""
        self.log.close()
        result = clean(self.env, plan_for(self.env, self.log, **changes))
        swap_in(self.env, DIRECTORY, result)
        return result

    @property
    def contents(self) -> dict[int, tuple[bytes | None, bytes | None]]:
        return {
            offset: (record.key, record.value)
            for offset, record in stored_records(self.env, DIRECTORY).items()
        }

    @property
    def batches(self) -> list[Any]:
        return stored_batches(self.env, DIRECTORY)


# -- what stays --


def test_the_last_value_of_each_key_stays_where_it_was() -> None:
    harness = CleaningHarness()
    for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4"), (b"b", b"5")):
        harness.put(key, value)
    harness.roll()
    result = harness.clean()
    assert harness.contents == {2: (b"a", b"3"), 3: (b"c", b"4"), 4: (b"b", b"5")}
    assert result.next_first_dirty_offset == 5
    stats = result.stats
    assert (stats.messages_read, stats.messages_written, stats.map_messages_read) == (5, 3, 5)
    assert stats.bytes_read == stats.map_bytes_read > stats.bytes_written > 0


def test_records_of_the_active_segment_stay_and_supersede_nothing() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1")
    harness.roll()
    harness.put(b"a", b"2")
    harness.clean()
    assert harness.contents == {0: (b"a", b"1"), 1: (b"a", b"2")}


def test_only_keys_of_the_dirty_part_supersede_records() -> None:
    harness = CleaningHarness()
    for value in (b"1", b"2"):
        harness.put(b"a", value)
    harness.roll()
    harness.put(b"b", b"3")
    harness.roll()
    harness.clean(first_dirty_offset=2)
    assert harness.contents == {0: (b"a", b"1"), 1: (b"a", b"2"), 2: (b"b", b"3")}


def test_records_without_a_key_are_removed() -> None:
    harness = CleaningHarness()
    harness.put(None, b"1")
    harness.put(b"a", b"2")
    harness.roll()
    assert harness.clean().stats.invalid_messages_read == 1
    assert harness.contents == {1: (b"a", b"2")}


@pytest.mark.parametrize("codec", list(CompressionType))
def test_a_batch_that_loses_records_is_rebuilt(codec: CompressionType) -> None:
    harness = CleaningHarness()
    harness.log.append_as_leader(
        make_batch(b"1", b"2", b"3", compression=codec, producer=(7, 0, 5), epoch=0), 0
    )
    harness.roll()
    harness.clean()
    (batch,) = harness.batches
    assert (batch.base_offset, batch.last_offset, batch.record_count) == (0, 2, 1)
    assert (batch.producer_id, batch.base_sequence, batch.last_sequence) == (7, 5, 7)
    assert batch.compression_type == codec
    assert harness.contents == {2: (b"k", b"3")}


def test_a_batch_that_loses_nothing_is_copied_as_it_stands() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1", compression=CompressionType.GZIP)
    harness.roll()
    before = bytes(harness.env.file(segment_path(DIRECTORY, 0, ".log")).data)
    harness.clean()
    assert harness.env.file(segment_path(DIRECTORY, 0, ".log")).data == before


def test_a_tombstone_gets_a_delete_horizon_and_is_removed_after_it() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1")
    harness.put(b"a", None)
    harness.put(b"b", b"2")
    harness.roll()
    harness.clean()
    assert harness.contents == {1: (b"a", None), 2: (b"b", b"2")}
    assert [batch.delete_horizon_ms for batch in harness.batches] == [HORIZON, None]
    harness.clean(now_ms=HORIZON - 1)
    assert [batch.delete_horizon_ms for batch in harness.batches] == [HORIZON, None]
    harness.clean(now_ms=HORIZON)
    assert harness.contents == {2: (b"b", b"2")}


def test_a_delete_retention_beyond_all_times_keeps_tombstones_and_markers_for_ever() -> None:
    """delete.retention.ms=9223372036854775807 gives a horizon beyond int64: like Kafka, the cleaner sets none."""
    for_ever = (1 << 63) - 1
    harness = CleaningHarness()
    harness.put(b"a", b"1")
    harness.put(b"a", None)
    harness.put(b"b", b"2", producer=(7, 0, 0), transactional=True)
    harness.end(7, commit=True)
    harness.put(b"b", b"3")
    harness.roll()
    for now_ms in (T0 + 1_000_000, T0 + 2_000_000, T0 + 900_000_000):
        harness.clean(now_ms=now_ms, delete_retention_ms=for_ever)
        assert harness.contents == {1: (b"a", None), 4: (b"b", b"3")}
        assert any(batch.is_control and batch.record_count for batch in harness.batches)
        assert {batch.delete_horizon_ms for batch in harness.batches} == {None}
    harness.clean()
    harness.clean(now_ms=HORIZON)
    assert harness.contents == {4: (b"b", b"3")}, "it goes once the setting is another"


def test_timestamps_survive_the_delete_horizon() -> None:
    harness = CleaningHarness()
    harness.put(b"a", None, timestamp=T0 + 77)
    harness.roll()
    harness.clean()
    (record,) = stored_records(harness.env, DIRECTORY).values()
    (batch,) = harness.batches
    assert (record.timestamp, batch.max_timestamp, batch.base_timestamp) == (T0 + 77, T0 + 77, HORIZON)


def test_the_last_batch_of_a_cleaning_is_kept_empty() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1")
    harness.put(None, b"2")
    harness.roll()
    harness.clean()
    assert [(batch.last_offset, batch.record_count) for batch in harness.batches] == [(0, 1), (1, 0)]


# -- producers and transactions --


def test_the_last_batch_of_a_producer_is_kept_empty() -> None:
    harness = CleaningHarness()
    for sequence in range(3):
        harness.put(b"a", b"1", producer=(7, 0, sequence))
    harness.put(b"a", b"2")
    harness.roll()
    harness.clean()
    first, second = harness.batches
    assert (first.producer_id, first.last_sequence, first.record_count) == (7, 2, 0)
    assert (second.base_offset, second.record_count) == (3, 1)
    assert bytes(first.buffer[:61]) == empty_batch(
        base_offset=2,
        last_offset=2,
        timestamp=T0,
        producer_id=7,
        producer_epoch=0,
        base_sequence=2,
        partition_leader_epoch=0,
    )
    harness.clean(last_records_of_producers={})
    assert [batch.base_offset for batch in harness.batches] == [3]


def test_aborted_data_are_removed_at_once_and_their_marker_two_cleanings_later() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1")
    harness.put(b"a", b"2", producer=(7, 0, 0), transactional=True)
    harness.end(7, commit=False)
    harness.put(b"b", b"3")
    harness.roll()
    forgotten: dict[str, Any] = {"last_records_of_producers": {}}
    harness.clean(**forgotten)
    assert harness.contents == {0: (b"a", b"1"), 3: (b"b", b"3")}
    assert [batch.is_control for batch in harness.batches] == [False, True, False]
    assert len(aborted_transactions(harness.env, DIRECTORY)) == 1  # there were data until now

    harness.clean(**forgotten)
    assert [batch.delete_horizon_ms for batch in harness.batches] == [None, HORIZON, None]
    assert aborted_transactions(harness.env, DIRECTORY) == []

    harness.clean(now_ms=HORIZON, **forgotten)
    assert [batch.base_offset for batch in harness.batches] == [0, 3]


def test_the_marker_of_a_commit_stays_while_its_data_do() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1", producer=(7, 0, 0), transactional=True)
    harness.end(7, commit=True)
    harness.put(b"b", b"2")
    harness.roll()
    for now_ms in (T0 + 1_000_000, HORIZON * 2):
        harness.clean(now_ms=now_ms)
        assert [batch.is_control for batch in harness.batches] == [False, True, False]
        assert harness.batches[1].delete_horizon_ms is None


def test_a_producer_with_only_a_marker_left_keeps_it() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1", producer=(7, 0, 0), transactional=True)
    harness.end(7, commit=False)
    harness.put(b"b", b"2")
    harness.roll()
    changes: dict[str, Any] = {"last_records_of_producers": {7: (0, None)}}
    harness.clean(**changes)
    harness.clean(**changes)
    harness.clean(now_ms=HORIZON, **changes)
    marker, _ = harness.batches
    assert (marker.is_control, marker.record_count, marker.producer_id) == (True, 0, 7)


def test_an_abort_whose_marker_is_beyond_the_cleaned_segments() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1")
    harness.put(b"a", b"2", producer=(7, 0, 0), transactional=True)
    harness.put(b"b", b"3")
    harness.log.update_high_watermark(harness.log.log_end_offset)
    harness.log.roll()
    harness.end(7, commit=False)
    harness.clean(last_records_of_producers={})
    assert harness.contents == {0: (b"a", b"1"), 2: (b"b", b"3")}


# -- older formats --


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP, CompressionType.LZ4])
def test_message_sets_become_batches(magic: int, codec: CompressionType) -> None:
    harness = CleaningHarness()
    harness.put(b"z", b"9")
    harness.roll()
    rows: list[Any] = [(b"a", b"1", 5), (b"a", b"2", 6), (b"b", None, 7)]
    data = message_set(rows, magic=magic, base_offset=0, compression=codec)
    harness.env.write_file(segment_path(DIRECTORY, 0, ".log"), data)
    harness.log.close()
    plan = plan_for(harness.env, harness.log)
    segment = plan.segments[0]._replace(size=len(data), last_modified_ms=T0)
    result = clean(
        harness.env, plan._replace(segments=(segment,), first_uncleanable_offset=10, first_dirty_offset=0)
    )
    swap_in(harness.env, DIRECTORY, result)
    assert harness.contents == {1: (b"a", b"2"), 2: (b"b", None)}
    assert {batch.magic for batch in harness.batches} == {2}
    assert harness.batches[-1].delete_horizon_ms == HORIZON
    assert {batch.compression_type for batch in harness.batches} == {codec}


def test_message_sets_have_no_horizon_beyond_int64() -> None:
    harness = CleaningHarness()
    harness.put(b"z", b"9")
    harness.roll()
    data = message_set([(b"b", None, 7)], magic=1, base_offset=0)
    harness.env.write_file(segment_path(DIRECTORY, 0, ".log"), data)
    harness.log.close()
    plan = plan_for(harness.env, harness.log, delete_retention_ms=(1 << 63) - 1)
    segment = plan.segments[0]._replace(size=len(data), last_modified_ms=T0)
    swap_in(harness.env, DIRECTORY, clean(harness.env, plan._replace(segments=(segment,))))
    assert harness.contents == {0: (b"b", None)}
    assert harness.batches[0].delete_horizon_ms is None


def test_the_horizon_of_older_formats_follows_the_last_clean_segment() -> None:
    harness = CleaningHarness()
    plan = plan_for(harness.env, harness.log)
    segments = tuple(SegmentToClean(base, 10, 0, 0, 1_000_000 + base) for base in (0, 10, 20))
    plan = plan._replace(segments=segments, first_uncleanable_offset=30)
    assert legacy_delete_horizon_ms(plan, 0) == 0
    assert legacy_delete_horizon_ms(plan, 15) == 1_000_010 - RETENTION_MS


# -- groups --


def segment(base_offset: int, size: int = 10, index: int = 8, time_index: int = 12) -> SegmentToClean:
    return SegmentToClean(base_offset, size, index, time_index, 0)


def grouped(*segments: SegmentToClean, size: int = 100, index: int = 100, end: int = 1000) -> list[list[int]]:
    groups = group_segments_by_size(segments, size, index, end)
    return [[each.base_offset for each in group] for group in groups]


def test_segments_are_grouped_by_the_size_of_log_and_indexes() -> None:
    assert grouped() == []
    assert grouped(segment(0), segment(10), segment(20)) == [[0, 10, 20]]
    assert grouped(segment(0, 60), segment(10, 40), segment(20, 1)) == [[0, 10], [20]]
    assert grouped(segment(0, 500), segment(10, 40)) == [[0], [10]]
    assert grouped(segment(0, index=60), segment(10, index=41)) == [[0], [10]]
    assert grouped(segment(0, time_index=60), segment(10, time_index=41)) == [[0], [10]]


def test_groups_are_bounded_by_relative_offsets() -> None:
    far = (1 << 31) - 1
    assert grouped(segment(0), segment(5), end=far + 1) == [[0, 5]]
    assert grouped(segment(0), segment(5), end=far + 2) == [[0], [5]]
    assert grouped(segment(0), segment(5), segment(far + 1), end=far + 9) == [[0, 5], [far + 1]]
    assert grouped(segment(0), segment(5, 0), end=far + 2) == [[0, 5]]


def test_small_segments_are_merged() -> None:
    harness = CleaningHarness()
    for number in range(40):
        harness.put(b"%d" % (number % 5), bytes(100))
    harness.roll()
    assert len(base_offsets(harness.env, DIRECTORY)) > 3
    harness.clean()
    result = harness.clean()
    assert [cleaned.base_offset for cleaned in result.segments] == [0]
    assert len(base_offsets(harness.env, DIRECTORY)) == 2


# -- the map is small --


def test_a_full_map_ends_the_round_within_a_segment() -> None:
    harness = CleaningHarness(segment_bytes=1 << 20)
    for number in range(20):
        harness.put(b"%d" % (number % 10), b"%d" % number)
    harness.roll()
    result = harness.clean(dedupe_buffer_bytes=24 * 5, load_factor=0.8)
    assert result.next_first_dirty_offset == 4
    assert len(harness.contents) == 20
    first_dirty = 4
    while first_dirty < 20:
        first_dirty = harness.clean(
            first_dirty_offset=first_dirty, dedupe_buffer_bytes=24 * 5, load_factor=0.8
        ).next_first_dirty_offset
    assert harness.contents == {offset: (b"%d" % (offset % 10), b"%d" % offset) for offset in range(10, 20)}


def test_a_log_without_a_dirty_part_is_not_cleaned() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1")
    harness.roll()
    result = harness.clean(first_dirty_offset=1)
    assert (result.segments, result.next_first_dirty_offset) == ((), 1)


def test_offsets_below_the_log_start_are_not_dirty() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1")
    harness.put(b"a", b"2")
    harness.put(b"b", b"3")
    harness.roll()
    result = harness.clean(log_start_offset=2)
    assert result.next_first_dirty_offset == 3
    assert sorted(harness.contents) == [0, 1, 2]


# -- files --


def test_indexes_are_the_same_as_after_appends() -> None:
    harness = CleaningHarness(segment_bytes=1 << 20)
    for number in range(30):
        harness.put(b"%d" % number, bytes(60), timestamp=T0 + number % 7)
    harness.roll()
    harness.log.close()
    files = {name: bytes(harness.env.file(f"{DIRECTORY}/{name}").data) for name in names(harness.env)}
    harness.clean()
    assert files == {name: bytes(harness.env.file(f"{DIRECTORY}/{name}").data) for name in names(harness.env)}
    assert len(files["00000000000000000000.index"]) > 24


def test_cleaned_segments_keep_the_age_of_the_last_source() -> None:
    harness = CleaningHarness()
    for number in range(30):
        harness.env.time_ms += 1000
        harness.put(b"%d" % (number % 3), bytes(50))
    harness.roll()
    harness.log.close()
    segments = plan_for(harness.env, harness.log).segments
    harness.env.time_ms += 1_000_000
    result = harness.clean()
    ages = {segment.base_offset: segment.last_modified_ms for segment in segments}
    for cleaned in result.segments:
        for suffix in (".log", ".index", ".timeindex"):
            path = segment_path(DIRECTORY, cleaned.base_offset, suffix)
            assert harness.env.mtime_ms(path) == ages[cleaned.replaces[-1]]


def test_a_cleaned_segment_without_records_is_an_empty_file() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1")
    harness.roll()
    harness.put(b"a", b"2")
    harness.roll()
    result = harness.clean(segment_bytes=80)
    assert [(cleaned.base_offset, cleaned.size > 0) for cleaned in result.segments] == [(0, False), (1, True)]


def test_files_of_an_earlier_cleaning_are_overwritten() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1")
    harness.roll()
    for suffix in (".log", ".index", ".timeindex", ".txnindex"):
        harness.env.write_file(segment_path(DIRECTORY, 0, suffix) + ".cleaned", bytes(5000))
    harness.clean()
    assert harness.contents == {0: (b"a", b"1")}
    assert not harness.env.exists(segment_path(DIRECTORY, 0, ".txnindex"))
    assert not harness.env.exists(segment_path(DIRECTORY, 0, ".txnindex") + ".cleaned")


def test_batches_larger_than_the_buffers_are_cleaned() -> None:
    harness = CleaningHarness(segment_bytes=1 << 20, max_message_bytes=1 << 20)
    for number in range(6):
        harness.put(b"%d" % (number % 4), bytes(30_000))
    harness.roll()
    harness.clean(io_buffer_bytes=64)
    assert sorted(harness.contents) == [2, 3, 4, 5]


# -- stopping and failing --


def filled() -> CleaningHarness:
    harness = CleaningHarness()
    for number in range(40):
        harness.put(b"%d" % (number % 7), bytes(60), producer=(9, 0, number), transactional=number % 3 == 0)
        if number % 3 == 0:
            harness.end(9, commit=number % 2 == 0)
    harness.roll()
    harness.log.close()
    return harness


def cleaned_files(harness: CleaningHarness) -> list[str]:
    return [name for name in names(harness.env) if name.endswith(".cleaned")]


def test_progress_grows_to_the_end() -> None:
    harness = filled()
    heard: list[float] = []
    clean(harness.env, plan_for(harness.env, harness.log, io_buffer_bytes=200), heard.append)
    assert heard == sorted(set(heard))
    assert len(heard) > 10
    assert heard[-1] == 1.0


def test_a_stopped_cleaning_leaves_no_files() -> None:
    harness = filled()
    before = names(harness.env)
    for allowed in range(0, 60, 7):
        left = iter(range(allowed))

        def stops(left: Iterator[int] = left) -> bool:
            return next(left, None) is None

        with pytest.raises(LogCleaningAbortedError):
            clean(harness.env, plan_for(harness.env, harness.log, io_buffer_bytes=100), should_stop=stops)
        assert names(harness.env) == before


def test_a_fault_at_any_operation_leaves_no_files_and_the_log_unchanged() -> None:
    harness = filled()
    plan = plan_for(harness.env, harness.log)
    files = {name: bytes(harness.env.file(f"{DIRECTORY}/{name}").data) for name in names(harness.env)}
    harness.env.inject(None)
    clean(harness.env, plan)
    operations = harness.env.operations
    assert operations > 50
    for number in range(operations):
        for name in cleaned_files(harness):
            harness.env.remove(f"{DIRECTORY}/{name}")
        harness.env.inject(nth(number))
        with pytest.raises(OSError, match="injected"):
            clean(harness.env, plan)
        harness.env.inject(None)
        assert names(harness.env) == sorted(files)
        assert all(harness.env.file(f"{DIRECTORY}/{name}").data == data for name, data in files.items())


def test_a_cleaning_after_a_power_cut_has_the_same_result() -> None:
    harness = filled()
    harness.env.sync_dir(DIRECTORY)
    for name in names(harness.env):
        harness.env.open(f"{DIRECTORY}/{name}").sync()
    plan = plan_for(harness.env, harness.log)
    expected = clean(harness.env, plan)
    wanted = {name: bytes(harness.env.file(f"{DIRECTORY}/{name}").data) for name in cleaned_files(harness)}
    harness.env.inject(None)
    clean(harness.env, plan)
    for number in range(0, harness.env.operations, 9):
        harness.env.inject(power_cut(number))
        with pytest.raises(PowerCut):
            clean(harness.env, plan)
        harness.env.inject(None)
        harness.env.crash(harness.env.random)
        result = clean(harness.env, plan)
        assert result.segments == expected.segments
        assert wanted == {
            name: bytes(harness.env.file(f"{DIRECTORY}/{name}").data) for name in cleaned_files(harness)
        }


def test_a_completed_cleaning_is_on_stable_storage() -> None:
    harness = filled()
    result = clean(harness.env, plan_for(harness.env, harness.log))
    wanted = {name: bytes(harness.env.file(f"{DIRECTORY}/{name}").data) for name in cleaned_files(harness)}
    harness.env.crash()
    assert {
        name: bytes(harness.env.file(f"{DIRECTORY}/{name}").data) for name in cleaned_files(harness)
    } == wanted
    assert len(result.segments) >= 1


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
def test_damaged_bytes_are_not_copied(codec: CompressionType) -> None:
    harness = CleaningHarness()
    for number in range(4):
        harness.put(b"%d" % number, bytes(40), compression=codec)
    harness.roll()
    harness.log.close()
    data = harness.env.file(segment_path(DIRECTORY, 0, ".log")).data
    for position in range(12, len(data), 13):
        if position % (len(data) // 4) < 17:
            continue  # no checksum covers the offset and the leader epoch
        data[position] ^= 0x10
        with pytest.raises((CorruptRecordError, InvalidRecordError)):
            clean(harness.env, plan_for(harness.env, harness.log))
        data[position] ^= 0x10
        assert cleaned_files(harness) == []


def test_a_segment_that_ends_within_a_batch_is_damaged() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1")
    harness.roll()
    harness.log.close()
    plan = plan_for(harness.env, harness.log)
    (only,) = plan.segments
    for size in (only.size - 1, 30, 5):
        with pytest.raises(CorruptRecordError):
            clean(harness.env, plan._replace(segments=(only._replace(size=size),)))


def test_offsets_too_far_from_the_base_offset_are_damage() -> None:
    harness = CleaningHarness()
    harness.put(b"a", b"1")
    harness.roll()
    harness.log.close()
    batch = make_batch(b"1", base_offset=1 << 31, epoch=0)
    harness.env.write_file(segment_path(DIRECTORY, 0, ".log"), batch)
    plan = plan_for(harness.env, harness.log)._replace(first_uncleanable_offset=1 << 32)
    with pytest.raises(SegmentOverflowError) as caught:
        clean(harness.env, plan)
    assert caught.value.base_offset == 0
    assert cleaned_files(harness) == []


def test_a_full_disk_fails_the_cleaning() -> None:
    harness = filled()
    harness.env.inject(
        lambda _number, kind, path: (
            nth(0)(0, kind, path) if kind == "pwritev" and path.endswith(".log.cleaned") else None
        )
    )
    with pytest.raises(OSError) as caught:
        clean(harness.env, plan_for(harness.env, harness.log))
    assert caught.value.errno == errno.EIO
    harness.env.inject(None)
    assert cleaned_files(harness) == []


# -- the throttle --


class Clock:
    """A clock that advances only in sleep()."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds <= 0.5  # so that a stop takes effect
        self.now += seconds


def test_the_throttle_bounds_the_rate() -> None:
    harness = filled()
    clock = Clock()
    plan = plan_for(harness.env, harness.log, max_io_bytes_per_second=500.0, io_buffer_bytes=100)
    result = Cleaner(harness.env, plan, clock=clock, sleep=clock.sleep).clean()
    stats = result.stats
    through = stats.map_bytes_read + stats.bytes_read + stats.bytes_written
    assert through / 500 * 0.9 < clock.now < through / 500 * 1.5
    assert stats.elapsed_seconds == pytest.approx(clock.now)


def test_a_stop_takes_effect_while_the_throttle_waits() -> None:
    harness = filled()
    clock = Clock()
    plan = plan_for(harness.env, harness.log, max_io_bytes_per_second=0.001)
    with pytest.raises(LogCleaningAbortedError):
        Cleaner(
            harness.env, plan, clock=clock, sleep=clock.sleep, should_stop=lambda: clock.now > 100
        ).clean()
    assert clock.now < 102

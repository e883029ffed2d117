"""LogSegment: one .log with its indexes."""

import errno

import pytest

from barnabas.protocol.records.batch import CorruptRecordError, RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.segment.index import MAX_RELATIVE_OFFSET, TAIL_BYTES
from barnabas.storage.segment.open_segments import OpenSegments
from barnabas.storage.segment.segment import LogSegment
from barnabas.storage.segment.times import find_offset_by_timestamp, find_offset_of_max_timestamp
from tests.storage.fault_env import Fault, FaultEnv, nth
from tests.storage.helpers import T0, make_batch

BASE = 100


@pytest.fixture
def env() -> FaultEnv:
    env = FaultEnv()
    env.mkdir("/d")
    return env


def make_segment(env: FaultEnv, *, size: int = 0, interval: int = 200, index_bytes: int = 1200) -> LogSegment:
    return LogSegment(
        env,
        "/d",
        BASE,
        open_segments=OpenSegments(),
        size=size,
        index_interval_bytes=interval,
        index_bytes=index_bytes,
    )


def new_segment(env: FaultEnv, **settings: int) -> LogSegment:
    segment = make_segment(env, **settings)
    segment.create_files()
    return segment


def put(segment: LogSegment, offset: int, *values: bytes, timestamp: int = T0) -> None:
    data = make_batch(*(values or (bytes(40),)), base_offset=offset, timestamp=timestamp, epoch=3)
    segment.append([data], len(data), [(offset + len(values or (b"",)) - 1, len(data), timestamp)])


def test_new_files_have_kafkas_names_and_sizes(env: FaultEnv) -> None:
    env.write_file("/d/00000000000000000100.txnindex", b"left behind")
    segment = new_segment(env)
    sizes = {name: env.size(f"/d/{name}") for name in env.listdir("/d")}
    assert sizes == {
        "00000000000000000100.log": 0,
        "00000000000000000100.index": 1200,
        "00000000000000000100.timeindex": 1200,
    }
    assert "00000000000000000100.log" in repr(segment)


def test_a_preallocated_log_is_trimmed_when_it_is_full(env: FaultEnv) -> None:
    segment = make_segment(env)
    segment.create_files(preallocate_bytes=5000)
    assert env.size(segment.path) == 5000
    put(segment, BASE)
    assert env.size(segment.path) == 5000
    segment.on_become_inactive()
    assert env.size(segment.path) == segment.size


def test_an_index_entry_is_added_after_more_than_the_interval(env: FaultEnv) -> None:
    """Kafka's rule: the batch that follows index.interval.bytes gets one, under its last offset."""
    segment = new_segment(env, interval=200)
    sizes = []
    for number in range(6):
        before = segment.size
        put(segment, BASE + 2 * number, b"x" * 30, b"y" * 20, timestamp=T0 + number)
        sizes.append(segment.size - before)
    assert set(sizes) == {127}
    entries = [segment.offset_index.entry(slot) for slot in range(segment.offset_index.entries)]
    assert entries == [(BASE + 5, 254), (BASE + 9, 508)]
    times = [segment.time_index.entry(slot) for slot in range(segment.time_index.entries)]
    assert times == [(T0 + 2, BASE + 5), (T0 + 4, BASE + 9)]
    segment.on_become_inactive()
    assert segment.time_index.entry(2) == (T0 + 5, BASE + 11)
    assert (env.size("/d/00000000000000000100.index"), env.size("/d/00000000000000000100.timeindex")) == (
        16,
        36,
    )


def test_a_read_begins_with_the_batch_that_has_the_offset(env: FaultEnv) -> None:
    segment = new_segment(env)
    for number in range(20):
        put(segment, BASE + 3 * number, b"a", b"b", b"c")
    for offset in range(BASE, BASE + 60):
        found = segment.read(offset, 10_000, segment.size, min_one_message=True)
        assert found is not None
        first = next(iter(batches(found.records.read())))
        assert first.base_offset <= offset <= first.last_offset
        assert found.fetch_offset_metadata.message_offset == offset
        assert found.fetch_offset_metadata.position + found.records.size == segment.size
    assert segment.read(BASE + 60, 10_000, segment.size, min_one_message=True) is None


def test_a_read_skips_a_gap_of_offsets(env: FaultEnv) -> None:
    segment = new_segment(env)
    put(segment, BASE)
    put(segment, BASE + 50)
    found = segment.read(BASE + 1, 10_000, segment.size, min_one_message=True)
    assert found is not None
    assert RecordBatch(found.records.read()).base_offset == BASE + 50


@pytest.mark.parametrize(
    ("max_bytes", "min_one_message", "size", "incomplete"),
    [
        (10, True, 108, False),
        (10, False, 10, True),
        (200, False, 200, False),
        (1000, True, 216, False),
        (0, False, 0, False),
    ],
)
def test_limits_of_a_read(
    env: FaultEnv, max_bytes: int, min_one_message: bool, size: int, incomplete: bool
) -> None:
    segment = new_segment(env)
    for number in range(3):
        put(segment, BASE + number, bytes(39))
    assert segment.size == 324
    found = segment.read(BASE, max_bytes, 216, min_one_message=min_one_message)
    assert found is not None
    assert (found.records.size, found.first_entry_incomplete) == (size, incomplete)
    assert len(found.records.read()) == size


def test_records_of_a_read_outlive_the_segment(env: FaultEnv) -> None:
    segment = new_segment(env)
    put(segment, BASE, b"still here")
    found = segment.read(BASE, 1000, segment.size, min_one_message=True)
    for path in segment.mark_deleted():
        env.remove(path)
    assert env.listdir("/d") == []
    assert found is not None
    assert RecordBatch(found.records.read()).base_offset == BASE


def test_deletion_renames_first(env: FaultEnv) -> None:
    segment = new_segment(env)
    put(segment, BASE)
    stem = "/d/00000000000000000100"
    doomed = [f"{stem}.index.deleted", f"{stem}.log.deleted", f"{stem}.timeindex.deleted"]
    assert sorted(segment.mark_deleted()) == doomed
    assert all(name.endswith(".deleted") for name in env.listdir("/d"))
    found = segment.read(BASE, 1000, segment.size, min_one_message=True)
    assert found is not None
    assert found.records.size == segment.size


# -- rolling --


def should_roll(segment: LogSegment, **changes: int) -> bool:
    usual = {
        "now_ms": T0,
        "size": 100,
        "last_offset": BASE + 5,
        "max_timestamp": T0,
        "segment_bytes": 1000,
        "segment_ms": 500,
    }
    return segment.should_roll(**{**usual, **changes})


def test_a_segment_rolls_by_size(env: FaultEnv) -> None:
    segment = new_segment(env)
    put(segment, BASE)
    assert not should_roll(segment, size=1000 - segment.size)
    assert should_roll(segment, size=1001 - segment.size)


def test_a_segment_rolls_by_the_time_in_its_batches(env: FaultEnv) -> None:
    segment = new_segment(env)
    assert not should_roll(segment, max_timestamp=T0 + 10_000)  # never while it is empty
    put(segment, BASE, timestamp=T0 - 1000)
    assert not should_roll(segment, max_timestamp=T0 - 500)
    assert should_roll(segment, max_timestamp=T0 - 499)
    segment.roll_jitter_ms = 100
    assert should_roll(segment, max_timestamp=T0 - 599)
    assert not should_roll(segment, max_timestamp=T0 - 600)


def test_a_segment_without_timestamps_rolls_by_its_age(env: FaultEnv) -> None:
    segment = new_segment(env)
    put(segment, BASE, timestamp=-1)
    assert not should_roll(segment, now_ms=env.time_ms + 500, max_timestamp=-1)
    assert should_roll(segment, now_ms=env.time_ms + 501, max_timestamp=-1)


def test_a_segment_rolls_when_an_index_is_full(env: FaultEnv) -> None:
    segment = new_segment(env, interval=0, index_bytes=36)
    for number in range(5):
        assert not should_roll(segment)
        put(segment, BASE + number, timestamp=T0)
    assert segment.offset_index.is_full
    assert should_roll(segment)
    put(segment, BASE + 5)  # is appended nevertheless: one append may have several batches
    assert segment.offset_index.entries == 4


def test_a_segment_rolls_when_the_time_index_is_full(env: FaultEnv) -> None:
    segment = new_segment(env, interval=0, index_bytes=24)
    for number in range(2):
        assert not should_roll(segment)
        put(segment, BASE + number, timestamp=T0 + number)
    assert should_roll(segment)


def test_a_segment_rolls_before_offsets_too_large_for_the_index(env: FaultEnv) -> None:
    segment = new_segment(env)
    assert not should_roll(segment, last_offset=BASE + MAX_RELATIVE_OFFSET)
    assert should_roll(segment, last_offset=BASE + MAX_RELATIVE_OFFSET + 1)


# -- failures --


@pytest.mark.parametrize("fault", [Fault(errno.ENOSPC), Fault(errno.EIO, half=True)])
def test_a_failed_write_is_undone(env: FaultEnv, fault: Fault) -> None:
    segment = new_segment(env, interval=0)
    put(segment, BASE, timestamp=T0 + 5)
    size = segment.size
    env.inject(nth(0, fault))
    with pytest.raises(KafkaStorageError) as caught:
        put(segment, BASE + 1)
    assert caught.value.undone
    assert env.size(segment.path) == segment.size == size
    env.inject(None)
    put(segment, BASE + 1)
    assert segment.read_next_offset() == BASE + 2
    assert segment.max_timestamp_so_far == T0 + 5


def test_a_failed_index_entry_is_undone_with_its_batch(env: FaultEnv) -> None:
    """The write succeeds, the offset index has its entry, the time index cannot write its pending entries."""
    segment = new_segment(env, interval=0, index_bytes=4 * TAIL_BYTES)
    entries = -(-TAIL_BYTES // 12)
    for number in range(entries + 1):
        put(segment, BASE + number, timestamp=T0 + number)
    env.inject(lambda _number, kind, path: Fault() if kind == "pwritev" and "timeindex" in path else None)
    offset = BASE + entries + 1
    with pytest.raises(KafkaStorageError) as caught:
        put(segment, offset, timestamp=T0 + offset)
    assert caught.value.undone
    assert segment.offset_index.entries == segment.time_index.entries == entries
    env.inject(None)
    put(segment, offset, timestamp=T0 + offset)
    put(segment, offset + 1, timestamp=T0 + offset + 1)
    assert segment.offset_index.entry(entries)[0] == offset + 1
    assert env.size(segment.path) == segment.size


@pytest.mark.parametrize("full_for", ["index", "timeindex", ""])
def test_indexes_that_a_full_disk_cuts_short_still_find_everything(env: FaultEnv, full_for: str) -> None:
    """An entry missing in one index must not count because the other has it."""
    segment = new_segment(env, interval=0, index_bytes=4 * TAIL_BYTES)
    count = TAIL_BYTES // 12 + 200
    for number in range(count):
        put(segment, BASE + number, timestamp=T0 + number)
    env.inject(
        lambda _number, kind, path: (
            Fault(errno.ENOSPC)
            if kind == "pwritev" and path.endswith("." + full_for if full_for else "index")
            else None
        )
    )
    segment.close()
    env.inject(None)
    again = make_segment(env, size=segment.size, interval=0, index_bytes=4 * TAIL_BYTES)
    assert again.max_timestamp_so_far == T0 + count - 1
    assert again.offset_of_max_timestamp == BASE + count - 1
    for number in (0, 1, count // 2, count - 1):
        assert again.translate_offset(BASE + number) is not None
        found = find_offset_by_timestamp(again, T0 + number, BASE)
        assert found is not None
        assert found.offset == BASE + number
    put(again, BASE + count, timestamp=T0 + count)
    assert again.read_next_offset() == BASE + count + 1


def test_a_write_that_cannot_be_undone_raises_its_own_error(env: FaultEnv) -> None:
    segment = new_segment(env)
    put(segment, BASE)
    size = segment.size
    env.inject(lambda _number, kind, _path: Fault(half=True) if kind in ("pwritev", "truncate") else None)
    with pytest.raises(KafkaStorageError) as caught:
        put(segment, BASE + 1)
    assert not caught.value.undone
    assert segment.size == size


# -- repair --


def reopened(env: FaultEnv, segment: LogSegment, **settings: int) -> LogSegment:
    segment.close()
    env.kill()
    return make_segment(env, size=env.size("/d/00000000000000000100.log"), **settings)


def contents(env: FaultEnv) -> dict[str, bytes]:
    return {name: env.read_file(f"/d/{name}") for name in env.listdir("/d")}


def filled(env: FaultEnv, count: int = 12) -> LogSegment:
    segment = new_segment(env)
    for number in range(count):
        put(segment, BASE + number, timestamp=T0 + number % 5)
    return segment


def test_a_closed_segment_reopens_unchanged(env: FaultEnv) -> None:
    segment = reopened(env, filled(env))
    assert segment.read_next_offset() == BASE + 12
    assert segment.max_timestamp_so_far == segment.largest_timestamp == T0 + 4
    assert segment.offset_index.entries == 5
    put(segment, BASE + 12, timestamp=T0 + 1)
    assert segment.max_timestamp_so_far == T0 + 4


def test_the_time_index_of_a_closed_segment_covers_its_last_records(
    env: FaultEnv,
) -> None:
    """After a clean stop Kafka reads the last entry as that of the youngest record."""
    segment = reopened(env, filled(env))
    put(segment, BASE + 12, timestamp=T0 + 77)
    assert segment.offset_index.entries == 5
    segment = reopened(env, segment)
    assert (segment.time_index.last_timestamp, segment.time_index.last_offset) == (T0 + 77, BASE + 12)


def test_the_youngest_batch_after_the_last_index_entry_is_restored(env: FaultEnv) -> None:
    segment = new_segment(env, interval=10_000)
    put(segment, BASE, timestamp=T0)
    put(segment, BASE + 1, timestamp=T0 + 9)
    put(segment, BASE + 2, timestamp=T0 + 1)
    segment.release()
    again = make_segment(env, size=segment.size)
    env.write_file("/d/00000000000000000100.index", b"")
    env.write_file("/d/00000000000000000100.timeindex", b"")
    assert again.max_timestamp_so_far == T0 + 9
    assert find_offset_of_max_timestamp(again) is not None


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damage", [None, bytes(24), b"\xff" * 5])
def test_a_damaged_index_is_rebuilt(env: FaultEnv, suffix: str, damage: bytes | None) -> None:
    segment = filled(env)
    segment.close()
    good = contents(env)
    if damage is None:
        env.remove(f"/d/00000000000000000100.{suffix}")
    else:
        env.write_file(f"/d/00000000000000000100.{suffix}", damage)
    again = reopened(env, make_segment(env, size=segment.size))
    found = again.read(BASE + 11, 1000, again.size, min_one_message=True)
    assert found is not None
    assert RecordBatch(found.records.read()).base_offset == BASE + 11
    assert again.max_timestamp_so_far > 0
    again.close()
    assert contents(env) == good


def test_an_index_cannot_be_rebuilt_over_damage(env: FaultEnv) -> None:
    segment = filled(env)
    segment.close()
    env.write_file(segment.path, env.read_file(segment.path)[:50] + bytes(200))
    with pytest.raises(CorruptRecordError, match="damaged"):
        make_segment(env, size=250).rebuild_indexes()


def test_an_append_that_needs_such_an_index_fails(env: FaultEnv) -> None:
    segment = filled(env)
    segment.close()
    env.write_file(segment.path, env.read_file(segment.path)[:50] + bytes(200))
    env.remove("/d/00000000000000000100.index")
    again = make_segment(env, size=250)
    put(again, BASE + 100, bytes(300))
    with pytest.raises(KafkaStorageError, match="damaged"):
        put(again, BASE + 101)
    assert env.size(again.path) > again.size, "readers do not see the new bytes"


def test_bytes_after_the_last_batch_are_detected(env: FaultEnv) -> None:
    segment = reopened(env, filled(env))
    segment.size -= 1
    with pytest.raises(CorruptRecordError, match="after the last batch"):
        segment.read_next_offset()


def test_the_first_record_is_the_youngest_if_none_has_a_timestamp(env: FaultEnv) -> None:
    segment = new_segment(env)
    for number in range(3):
        put(segment, BASE + number, timestamp=-1)
    for found in (
        find_offset_of_max_timestamp(segment),
        find_offset_of_max_timestamp(reopened(env, segment)),
    ):
        assert found is not None
        assert (found.offset, found.timestamp) == (BASE, -1)


def test_truncation_removes_the_batch_with_the_offset_and_all_after_it(env: FaultEnv) -> None:
    segment = filled(env)
    size_before = segment.size
    dropped = segment.truncate_to(BASE + 7)
    assert segment.size == env.size(segment.path) == size_before - dropped
    assert segment.read_next_offset() == BASE + 7
    assert segment.offset_index.last_offset < BASE + 7
    assert segment.truncate_to(BASE + 50) == 0
    put(segment, BASE + 7, timestamp=T0 + 100)
    assert segment.max_timestamp_so_far == T0 + 100
    segment.truncate_to(BASE)
    assert (segment.size, segment.offset_index.entries, segment.time_index.entries) == (0, 0, 0)
    assert segment.max_timestamp_so_far == -1
    assert find_offset_of_max_timestamp(segment) is None


def test_truncation_is_durable(env: FaultEnv) -> None:
    segment = filled(env)
    segment.file.sync()
    env.sync_dir("/d")
    env.sync_dir("/")
    segment.truncate_to(BASE + 7)
    size = segment.size
    env.crash()
    assert env.size("/d/00000000000000000100.log") == size


# -- timestamps --


def test_a_search_by_time_finds_the_first_record_that_is_young_enough(env: FaultEnv) -> None:
    segment = new_segment(env)
    for number, timestamp in enumerate([10, 30, 20, 50, 40, 60]):
        put(segment, BASE + 2 * number, b"a", b"b", timestamp=timestamp)
    answers = {0: 0, 10: 0, 11: 2, 30: 2, 31: 6, 50: 6, 51: 10, 60: 10}
    for timestamp, position in answers.items():
        found = find_offset_by_timestamp(segment, timestamp, BASE)
        assert found is not None
        assert (found.offset, found.leader_epoch) == (BASE + position, 3)
    assert find_offset_by_timestamp(segment, 61, BASE) is None
    later = find_offset_by_timestamp(segment, 10, BASE + 3)
    assert later is not None
    assert (later.offset, later.timestamp) == (BASE + 3, 30)
    youngest = find_offset_of_max_timestamp(segment)
    assert youngest is not None
    assert (youngest.timestamp, youngest.offset) == (60, BASE + 10)


def test_a_segment_without_timestamps_is_as_old_as_its_file(env: FaultEnv) -> None:
    segment = new_segment(env)
    env.time_ms += 1234
    put(segment, BASE, timestamp=-1)
    assert segment.max_timestamp_so_far == -1
    assert segment.largest_timestamp == env.time_ms


def test_a_released_segment_reopens(env: FaultEnv) -> None:
    segment = filled(env)
    segment.release()
    assert env.maps == 0
    put(segment, BASE + 12)
    assert segment.read_next_offset() == BASE + 13


def test_a_segment_moves_with_its_directory(env: FaultEnv) -> None:
    segment = filled(env)
    segment.release()
    env.rename("/d", "/e")
    segment.update_directory("/e")
    put(segment, BASE + 12)
    segment.on_become_inactive()
    assert segment.path.startswith("/e/")
    assert segment.read_next_offset() == BASE + 13

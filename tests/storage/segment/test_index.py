"""The indexes: the bytes of their formats, and searches against plain lists."""

import errno
from bisect import bisect_right
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.storage.env import write_atomically
from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.segment.index import BULK_BYTES, TAIL_BYTES, OffsetIndex, TimeIndex
from tests.storage.fault_env import Fault, FaultEnv, from_nth

BASE = 4940


@pytest.fixture
def env() -> FaultEnv:
    return FaultEnv()


def offset_index(env: FaultEnv, max_bytes: int = 1001) -> OffsetIndex:
    index = OffsetIndex(env, "/i", BASE, max_bytes)
    index.preallocate()
    return index


def time_index(env: FaultEnv, max_bytes: int = 1001) -> TimeIndex:
    index = TimeIndex(env, "/t", BASE, max_bytes)
    index.preallocate()
    return index


def test_offset_index_bytes_are_kafkas(env: FaultEnv) -> None:
    index = offset_index(env)
    assert env.size("/i") == 1000  # rounded down to whole entries
    index.append(BASE + 56, 8064)
    index.append(BASE + 94, 16128)
    index.trim_to_valid_size()
    assert env.read_file("/i").hex(" ") == "00 00 00 38 00 00 1f 80 00 00 00 5e 00 00 3f 00"
    assert env.maps == 0


def test_time_index_bytes_are_kafkas(env: FaultEnv) -> None:
    index = time_index(env)
    assert env.size("/t") == 996
    index.maybe_append(0x1A1FD74F5E2, BASE + 56)
    index.trim_to_valid_size()
    assert env.read_file("/t").hex(" ") == "00 00 01 a1 fd 74 f5 e2 00 00 00 38"


def test_an_index_is_mapped_at_its_first_use(env: FaultEnv) -> None:
    index = offset_index(env)
    assert index.lookup(BASE + 5) == (BASE, 0)
    index.append(BASE + 5, 100)
    index.append(BASE + 9, 200)
    assert index.lookup(BASE + 9) == (BASE + 9, 200)
    assert index.lookup(BASE + 7) == (BASE + 5, 100)
    assert env.maps == 0  # new entries are in memory anyway
    index.trim_to_valid_size()
    assert index.lookup(BASE + 9) == (BASE + 9, 200)
    assert env.maps == 0  # and so is the last entry
    assert index.lookup(BASE + 7) == (BASE + 5, 100)
    assert env.maps == 1
    index.unmap()
    assert env.maps == 0
    assert index.lookup(BASE + 7) == (BASE + 5, 100)


def test_the_map_shows_entries_written_after_it(env: FaultEnv) -> None:
    index = offset_index(env, 4 * TAIL_BYTES)
    count = 3 * TAIL_BYTES // 8
    for number in range(count):
        index.append(BASE + 1 + number, number)
        if number > 1000:
            for target in (1, number // 2, number):
                assert index.lookup(BASE + target) == (BASE + target, target - 1)
    assert env.maps == 1


offset_entries = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 50)), max_size=300)


def test_a_search_in_a_large_index_begins_in_the_warm_section(env: FaultEnv) -> None:
    """The last 8192 bytes are searched first, so that a reader near the end touches few pages."""
    index = offset_index(env, 40_000)
    for number in range(3000):
        index.append(BASE + 3 * number + 3, number)
    for target in (*range(-3, 30), *range(5900, 5960), *range(8950, 9010)):
        slot = min(target // 3 - 1, 2999)
        expected = (BASE + 3 * slot + 3, slot) if slot >= 0 else (BASE, 0)
        assert index.lookup(BASE + target) == expected


@given(offset_entries, st.lists(st.integers(-5, 2000), max_size=20))
def test_offset_lookup_agrees_with_bisect(steps: list[tuple[int, int]], targets: list[int]) -> None:
    index = offset_index(FaultEnv(), 16_000)
    offsets, positions = [BASE], [0]
    for offset_step, position_step in steps:
        index.append(offsets[-1] + offset_step, positions[-1] + position_step)
        offsets.append(offsets[-1] + offset_step)
        positions.append(positions[-1] + position_step)
    for target in [*targets, *(offset - BASE for offset in offsets[-3:])]:
        slot = max(bisect_right(offsets, BASE + target) - 1, 0)
        assert index.lookup(BASE + target) == (offsets[slot], positions[slot])
        after = next(
            ((offset, at) for offset, at in zip(offsets[1:], positions[1:], strict=True) if at >= target),
            None,
        )
        assert index.first_after_position(target) == after


@given(
    st.lists(st.tuples(st.integers(-3, 9), st.integers(1, 9)), max_size=100),
    st.integers(-5, 500),
    st.integers(0, 600),
)
def test_time_index_agrees_with_a_list(steps: list[tuple[int, int]], target: int, cut: int) -> None:
    """Entries with no later timestamp are left out; truncation removes entries at or after the offset."""
    index = time_index(FaultEnv(), 4000)
    kept = [(-1, BASE)]
    timestamp, offset = 0, BASE
    for time_step, offset_step in steps:
        timestamp, offset = max(timestamp + time_step, 0), offset + offset_step
        index.maybe_append(timestamp, offset)
        if timestamp > kept[-1][0]:
            kept.append((timestamp, offset))
    assert [index.entry(slot) for slot in range(index.entries)] == kept[1:]
    assert index.lookup(target) == max(entry for entry in kept if entry[0] <= max(target, -1))
    index.truncate_to(BASE + cut)
    kept = kept[:1] + [entry for entry in kept[1:] if entry[1] < BASE + cut]
    assert [index.entry(slot) for slot in range(index.entries)] == kept[1:]
    assert (index.last_timestamp, index.last_offset) == kept[-1]


@given(offset_entries, st.integers(0, 12_000))
def test_truncation_keeps_earlier_entries(steps: list[tuple[int, int]], cut: int) -> None:
    env = FaultEnv()
    index = offset_index(env, 16_000)
    entries, offset, position = [], BASE, 0
    for offset_step, position_step in steps:
        offset, position = offset + offset_step, position + position_step
        index.append(offset, position)
        entries.append((offset, position))
    index.truncate_to(BASE + cut)
    entries = [entry for entry in entries if entry[0] < BASE + cut]
    assert [index.entry(slot) for slot in range(index.entries)] == entries
    assert index.last_offset == (entries[-1][0] if entries else BASE)
    assert not any(env.read_file("/i")[len(entries) * 8 :])
    index.append(BASE + 20_000, 99)
    assert index.lookup(BASE + 20_000) == (BASE + 20_000, 99)


def test_a_closed_index_is_loaded_and_takes_more_entries(env: FaultEnv) -> None:
    index = offset_index(env)
    index.append(BASE + 3, 70)
    index.trim_to_valid_size()
    loaded = OffsetIndex.load(env, "/i", BASE, 1001)
    assert (loaded.entries, loaded.last_offset) == (1, BASE + 3)
    assert loaded.lookup(BASE + 4) == (BASE + 3, 70)
    assert env.size("/i") == 8  # reading changes nothing
    loaded.append(BASE + 9, 140)
    assert env.size("/i") == 1000
    assert loaded.lookup(BASE + 9) == (BASE + 9, 140)
    loaded.trim_to_valid_size()
    assert OffsetIndex.load(env, "/i", BASE, 1001).entries == 2


def test_a_closed_time_index_is_loaded_and_takes_more_entries(env: FaultEnv) -> None:
    index = time_index(env)
    index.maybe_append(50, BASE + 3)
    index.trim_to_valid_size()
    loaded = TimeIndex.load(env, "/t", BASE, 1001)
    assert (loaded.last_timestamp, loaded.last_offset) == (50, BASE + 3)
    loaded.maybe_append(60, BASE + 4)
    assert loaded.lookup(55) == (50, BASE + 3)


def test_an_empty_file_is_an_empty_index(env: FaultEnv) -> None:
    env.write_file("/i", b"")
    assert OffsetIndex.load(env, "/i", BASE, 1001).lookup(BASE + 99) == (BASE, 0)
    assert TimeIndex.load(env, "/i", BASE, 1001).lookup(99) == (-1, BASE)


@pytest.mark.parametrize("data", [bytes(7), bytes(8), bytes(80), b"\0\0\0\5\xff\xff\xff\xff", b"\xff" * 8])
def test_a_corrupt_offset_index_is_rejected(env: FaultEnv, data: bytes) -> None:
    env.write_file("/i", data)
    with pytest.raises(CorruptIndexError, match="/i"):
        OffsetIndex.load(env, "/i", BASE, 1001)


@pytest.mark.parametrize("data", [bytes(13), bytes(24), b"\xff" * 12, bytes(8) + b"\xff\xff\xff\xff"])
def test_a_corrupt_time_index_is_rejected(env: FaultEnv, data: bytes) -> None:
    env.write_file("/t", data)
    with pytest.raises(CorruptIndexError, match="/t"):
        TimeIndex.load(env, "/t", BASE, 1001)


def test_offsets_must_grow(env: FaultEnv) -> None:
    index, times = offset_index(env), time_index(env)
    index.append(BASE + 5, 10)
    with pytest.raises(CorruptIndexError, match="after"):
        index.append(BASE + 5, 20)
    times.maybe_append(10, BASE + 5)
    with pytest.raises(CorruptIndexError, match="after"):
        times.maybe_append(11, BASE + 4)


def test_the_last_slot_of_the_time_index_is_kept(env: FaultEnv) -> None:
    index = time_index(env, 36)
    fullness = []
    for number in range(2):
        index.maybe_append(1 + number, BASE + number)
        fullness.append(index.is_full)
    assert fullness == [False, True]
    index.maybe_append(3, BASE + 2)
    assert index.entries == 2
    index.maybe_append(4, BASE + 3, last_slot=True)
    index.maybe_append(5, BASE + 4, last_slot=True)
    assert (index.entries, index.last_timestamp) == (3, 4)


def test_an_offset_index_is_full_at_its_last_entry(env: FaultEnv) -> None:
    index = offset_index(env, 17)
    fullness = []
    for number in (1, 2):
        index.append(BASE + number, number)
        fullness.append(index.is_full)
    assert fullness == [False, True]


def test_reset_removes_all_entries(env: FaultEnv) -> None:
    index, times = offset_index(env), time_index(env)
    index.append(BASE + 1, 1)
    times.maybe_append(7, BASE + 1)
    index.reset()
    times.reset()
    assert index.lookup(BASE + 5) == (BASE, 0)
    assert times.lookup(9) == (-1, BASE)


def test_a_full_disk_is_an_error_and_never_a_store_into_a_hole(env: FaultEnv) -> None:
    """Maps are read-only: a store for which the disk has no block would end the process."""
    index = offset_index(env, 4 * TAIL_BYTES)
    per_piece = TAIL_BYTES // 8
    for number in range(2 * per_piece):
        index.append(BASE + 1 + number, number)
    modes: list[bool] = []
    real_map = env.map

    def remember(path: str, size: int, *, write: bool) -> memoryview:
        modes.append(write)
        return real_map(path, size, write=write)

    env.map = remember  # type: ignore[method-assign]
    env.inject(lambda _number, kind, _path: Fault(errno.ENOSPC) if kind == "pwritev" else None)
    with pytest.raises(OSError, match="injected"):
        index.append(BASE + 1 + 2 * per_piece, 7)
    assert (index.entries, index.last_offset) == (2 * per_piece, BASE + 2 * per_piece)
    for offset in (1, per_piece, per_piece + 1, 2 * per_piece):
        assert index.lookup(BASE + offset) == (BASE + offset, offset - 1)
    assert modes == [False]
    env.inject(None)
    index.append(BASE + 1 + 2 * per_piece, 2 * per_piece)
    assert index.lookup(BASE + 1 + 2 * per_piece) == (BASE + 1 + 2 * per_piece, 2 * per_piece)
    assert index.lookup(BASE + 1) == (BASE + 1, 0)


def test_entries_that_a_full_disk_rejected_can_be_abandoned(env: FaultEnv) -> None:
    index, times = offset_index(env, 4 * TAIL_BYTES), time_index(env, 4 * TAIL_BYTES)
    for number in range(TAIL_BYTES // 8 + 3):
        index.append(BASE + 1 + number, number)
        times.maybe_append(number, BASE + 1 + number)
    lost = TAIL_BYTES // 12 + 1
    assert times.first_unwritten_offset == BASE + 1 + lost
    env.inject(from_nth(0, Fault(errno.ENOSPC)))
    with pytest.raises(OSError, match="injected"):
        times.trim_to_valid_size()
    env.inject(lambda _number, kind, _path: Fault(errno.ENOSPC) if kind == "pwritev" else None)
    times.drop_unwritten()
    index.drop_unwritten()
    index.truncate_to(BASE + 1 + lost)
    assert (times.entries, times.last_offset, times.last_timestamp) == (lost, BASE + lost, lost - 1)
    assert (index.entries, index.last_offset) == (lost, BASE + lost)
    times.trim_to_valid_size()
    index.trim_to_valid_size()
    assert (env.size("/i"), env.size("/t")) == (8 * lost, 12 * lost)


def test_a_rebuilt_index_is_written_in_few_pieces(env: FaultEnv) -> None:
    index = offset_index(env, 1 << 20)
    for number in range(100):
        index.append(BASE + 1 + number, number)
    writes = []
    env.inject(lambda _number, kind, _path: writes.append(kind) if kind == "pwritev" else None)
    index.begin_bulk()
    assert (index.entries, index.lookup(BASE + 50)) == (0, (BASE, 0))
    count = BULK_BYTES // 8 + 5
    for number in range(count):
        index.append(BASE + 2 + 2 * number, number)
    assert len(writes) == 1
    assert index.lookup(BASE + 7) == (BASE + 6, 2)  # a reader finds all entries
    assert index.lookup(BASE + 2 * count - 1) == (BASE + 2 * count - 2, count - 2)
    index.trim_to_valid_size()
    assert env.size("/i") == 8 * count
    loaded = OffsetIndex.load(env, "/i", BASE, 1 << 20)
    assert [loaded.entry(slot) for slot in (0, count - 1)] == [(BASE + 2, 0), (BASE + 2 * count, count - 1)]


def test_a_rebuilt_index_on_a_full_disk_stays_in_memory(env: FaultEnv) -> None:
    index = time_index(env, 1 << 20)
    index.begin_bulk()
    env.inject(lambda _number, kind, _path: Fault(errno.ENOSPC) if kind == "pwritev" else None)
    count = 2 * BULK_BYTES // 12
    for number in range(count):
        index.maybe_append(number, BASE + number)
    assert index.entries == count
    assert index.lookup(77) == (77, BASE + 77)
    with pytest.raises(OSError, match="injected"):
        index.trim_to_valid_size()
    assert index.entries == count
    env.inject(None)
    index.trim_to_valid_size()
    assert env.size("/t") == 12 * count
    assert index.lookup(77) == (77, BASE + 77)
    index.begin_bulk()
    index.maybe_append(5, BASE + 5)
    index.clear()
    assert (index.entries, index.last_timestamp, env.size("/t")) == (0, -1, 0)
    index.maybe_append(6, BASE + 6)
    assert index.lookup(6) == (6, BASE + 6)


def test_errors_other_than_a_full_disk_are_raised_at_once(env: FaultEnv) -> None:
    index = offset_index(env, 1 << 20)
    index.begin_bulk()
    for number in range(BULK_BYTES // 8):
        index.append(BASE + 1 + number, number)
    env.inject(from_nth(0, Fault(errno.EIO)))
    with pytest.raises(OSError, match="injected"):
        index.append(BASE + BULK_BYTES, 1)


def test_reading_an_index_that_a_broker_is_writing(env: FaultEnv) -> None:
    """Only whole entries are read, not the preallocated room, and nothing is mapped or written."""
    writer = offset_index(env)
    for number in range(1, 6):
        writer.append(BASE + 256 * number, 100 * number)
    assert OffsetIndex.as_it_is(env, "/i", BASE).entries == 0
    writer.trim_to_valid_size()
    data = env.read_file("/i")
    for size in (len(data), len(data) - 3):
        file = env.open("/i")
        file.truncate(size)
        file.truncate(1000)
        file.close()
        found = OffsetIndex.as_it_is(env, "/i", BASE)
        entries = 5 if size == len(data) else 4
        assert found.entries in (entries, 5)
        assert found.lookup(BASE + 700) == (BASE + 512, 200)
        assert found.lookup(BASE + 256) == (BASE + 256, 100)
        assert found.lookup(BASE) == (BASE, 0)
    env.remove("/i")
    assert OffsetIndex.as_it_is(env, "/i", BASE).lookup(BASE + 9) == (BASE, 0)


def test_the_preallocated_room_of_an_index_is_not_read(
    env: FaultEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, room = 20_000, 10 << 20
    data = b"".join(OffsetIndex.ENTRY.pack(number, 5 * number) for number in range(1, entries + 1))
    write_atomically(env, "/i", data + bytes(room - len(data)))
    read: list[int] = []
    file = env.open("/i")
    pread = type(file).pread

    def counted(self: Any, length: int, position: int) -> bytes:
        read.append(length)
        return pread(self, length, position)

    monkeypatch.setattr(type(file), "pread", counted)
    found = OffsetIndex.as_it_is(env, "/i", BASE)
    assert (found.entries, found.last_offset) == (entries, BASE + entries)
    assert sum(read) <= len(data) + 2 * BULK_BYTES


def test_reading_a_time_index_that_a_broker_is_writing(env: FaultEnv) -> None:
    writer = time_index(env)
    for number in range(1, 4):
        writer.maybe_append(1000 * number, BASE + number)
    writer.trim_to_valid_size()
    found = TimeIndex.as_it_is(env, "/t", BASE)
    assert (found.last_timestamp, found.last_offset) == (3000, BASE + 3)
    assert found.lookup(1999) == (1000, BASE + 1)
    assert env.size("/t") == 36

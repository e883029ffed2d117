"""Tests that indexes are used where they are right, and for no more than they state."""

from __future__ import annotations

from barnabas.pipeline.log_reading.planning import TimeBounds, first_offset_of, plan_ranges
from barnabas.pipeline.log_reading.segments import End, ListedSegment, OpenedSegment, open_segment
from barnabas.storage.segment.names import OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX
from tests.pipeline.log_reading.reading import look, read
from tests.pipeline.log_reading.test_formats import write_log
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import DIRECTORY, T0, make_batch


def offset_entries(*entries: tuple[int, int]) -> bytes:
    return b"".join(offset.to_bytes(4, "big") + position.to_bytes(4, "big") for offset, position in entries)


def time_entries(*entries: tuple[int, int]) -> bytes:
    return b"".join(timestamp.to_bytes(8, "big") + offset.to_bytes(4, "big") for timestamp, offset in entries)


class Watched(OpenedSegment):
    """A segment that records the positions from which its end was searched."""

    scanned: list[int]

    def _scanned_end(self, position: int, *, check_crc: bool) -> End:
        self.scanned.append(position)
        return super()._scanned_end(position, check_crc=check_crc)


def test_an_index_that_has_grown_since_the_log_was_opened() -> None:
    """Entries for batches appended meanwhile do not send the reader to the beginning of the segment."""
    env, positions = FaultEnv(), [0]
    data = b""
    for number in range(10):
        data += make_batch(b"%d" % number, base_offset=number)
        positions.append(len(data))
    write_log(env, data)
    entries = [(number, positions[number]) for number in range(1, 10)]
    write_log(env, offset_entries(*entries), OFFSET_INDEX_SUFFIX)
    listed = ListedSegment(DIRECTORY, 0)
    file = open_segment(env, listed).file
    for torn, scanned in ((0, [5]), (20, [6, 5])):
        segment = Watched(env, listed, file, positions[6] + torn)
        segment.scanned = []
        assert segment.find_end() == End(6, positions[6])
        assert segment.scanned == [positions[number] for number in scanned]


def two_segments(env: FaultEnv, *times: tuple[int, int]) -> None:
    """Offsets 0 to 2, of T0, T0 + 1 and T0 + 100, with these entries in the time index; then 3, of T0 + 200."""
    batches = [
        make_batch(b"v", timestamp=T0 + at, base_offset=offset) for offset, at in ((0, 0), (1, 1), (2, 100))
    ]
    write_log(env, b"".join(batches))
    write_log(env, offset_entries((1, len(batches[0]))), OFFSET_INDEX_SUFFIX)
    write_log(env, time_entries(*times), TIME_INDEX_SUFFIX)
    write_log(env, make_batch(b"v", timestamp=T0 + 200, base_offset=3), base_offset=3)


def offsets_from(env: FaultEnv, first_ms: int) -> list[int]:
    found = read(env, look(env, "/logs"), times=TimeBounds(first_ms))
    return [row["offset"] for row in found]


def test_a_segment_that_was_closed_without_its_last_time() -> None:
    """As after a roll on a full disk: its youngest record is found nevertheless."""
    env = FaultEnv()
    two_segments(env, (T0 + 1, 1))
    assert offsets_from(env, T0 + 50) == [2, 3]
    assert first_offset_of(env, look(env, "/logs"), T0 + 50) == 2
    assert offsets_from(env, T0 + 150) == [3]


def test_a_segment_that_is_too_old_is_not_read() -> None:
    env = FaultEnv()
    two_segments(env, (T0 + 1, 1), (T0 + 100, 2))
    view = look(env, "/logs")
    [wanted] = plan_ranges(env, view, 0, 4, times=TimeBounds(T0 + 101))
    assert (wanted.first_offset, wanted.end_offset, wanted.segment_base_offset) == (3, 4, 3)
    assert first_offset_of(env, view, T0 + 101) == 3


def test_a_preallocated_index_does_not_determine_a_segments_age() -> None:
    """A closed segment's index is trimmed, except after a crash of the machine, perhaps without its last entries."""
    env = FaultEnv()
    two_segments(env, (T0 + 1, 1), (0, 0))
    assert offsets_from(env, T0 + 50) == [2, 3]


def test_an_entry_for_several_batches_is_where_a_range_may_begin() -> None:
    """Compaction and older brokers write one entry for all batches of a write."""
    env, data, entries = FaultEnv(), b"", []
    for first in range(0, 40, 4):
        if data:
            entries.append((first + 3, len(data)))
        data += b"".join(make_batch(b"v" * 20, base_offset=offset) for offset in range(first, first + 4))
    write_log(env, data)
    write_log(env, offset_entries(*entries), OFFSET_INDEX_SUFFIX)
    view = look(env, "/logs")
    ranges = plan_ranges(env, view, 0, 40, range_bytes=300)
    assert [it.first_offset for it in ranges] == list(range(0, 40, 4))
    assert [row["offset"] for row in read(env, view, range_bytes=300)] == list(range(40))

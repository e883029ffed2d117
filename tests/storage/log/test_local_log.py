"""LocalLog: segments in order, reads across them, and the edges that UnifiedLog does not show."""

import random

import pytest

from barnabas.protocol.records.entries import batches
from barnabas.storage.errors import OffsetOutOfRangeError
from barnabas.storage.log.local_log import LogSegments
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import FetchIsolation, LogOffsetMetadata
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import T0, append, fill, make_batch, new_log, small_config
from tests.storage.segment.test_segment import make_segment
from tests.support.chance import seeds


def test_segments_keep_their_order() -> None:
    segments = LogSegments()
    made = {}
    for base_offset in (50, 10, 30):
        segment = make_segment(FaultEnv(), size=base_offset)
        segment.base_offset = base_offset
        segments.add(segment)
        made[base_offset] = segment
    assert [segment.base_offset for segment in segments] == [10, 30, 50]
    assert segments.size == 90
    assert [segments.floor_position(offset) for offset in (9, 10, 29, 30, 99)] == [-1, 0, 0, 1, 2]
    assert [segment.base_offset for segment in segments.from_offset(35)] == [30, 50]
    assert len(segments.from_offset(0)) == 3
    again = make_segment(FaultEnv())
    again.base_offset = 30
    segments.add(again)
    assert segments[1] is again
    segments.remove(again)
    assert len(segments) == 2


def test_a_read_skips_compacted_offsets() -> None:
    """A read at an offset that compaction removed returns the next batch, if need be of a later segment."""
    env = FaultEnv()
    log = new_log(env)
    for base_offset in (0, 5, 20):
        log.append_as_follower(make_batch(bytes(500), base_offset=base_offset, epoch=0), 0)
    log.append_as_follower(make_batch(bytes(900), base_offset=50, epoch=0), 0)
    local = log._local
    assert local.offset_metadata(6).segment_base_offset == 20
    assert local.offset_metadata(21).segment_base_offset == 50
    end = local.log_end_offset_metadata
    assert local.read(30, 1000, end, min_one_message=True).fetch_offset_metadata.segment_base_offset == 50
    limit = LogOffsetMetadata(50, 50, 0)
    assert local.read(30, 1000, limit, min_one_message=True).records.size == 0


def test_a_log_whose_end_was_compacted_away_reads_as_empty() -> None:
    log = new_log(FaultEnv())
    fill(log, 1)
    local = log._local
    local._set_log_end_offset(9)
    assert local.log_end_offset_metadata == LogOffsetMetadata(9, 0, local.active_segment.size)
    assert local.read(5, 1000, local.log_end_offset_metadata, min_one_message=True).fetch_offset == 9
    assert local.offset_metadata(5) is local.log_end_offset_metadata


def test_offsets_before_the_first_segment_are_out_of_range() -> None:
    log = new_log(FaultEnv(), log_start_offset=10)
    local = log._local
    for offset in (9, 11):
        with pytest.raises(OffsetOutOfRangeError):
            local.read(offset, 10, local.log_end_offset_metadata, min_one_message=True)


def test_an_empty_segment_with_full_indexes_is_recreated() -> None:
    env = FaultEnv()
    log = new_log(env, small_config(segment_index_bytes=8))
    local = log._local
    first = local.active_segment
    assert local.roll(0) is not first
    assert len(local.segments) == 1
    fill(log, 2)
    assert log.segment_count == 2


def test_a_roll_at_an_offset_beyond_the_end() -> None:
    """A follower rolls at the first offset of an append, which may be beyond its log end."""
    log = new_log(FaultEnv())
    fill(log, 4)
    log.append_as_follower(make_batch(bytes(900), base_offset=70, epoch=0), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 70]


def test_offsets_too_large_for_an_index_get_a_new_segment() -> None:
    log = new_log(FaultEnv())
    log.append_as_follower(make_batch(b"a", base_offset=0, epoch=0), 0)
    log.append_as_follower(make_batch(b"b", base_offset=1 << 31, epoch=0), 0)
    log.append_as_follower(make_batch(b"c", base_offset=(1 << 31) + 5, epoch=0), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 1 << 31]


def test_the_end_offset_only_increases() -> None:
    """Offsets that the log has already would be a bug, not a disk error: they are not written."""
    env = FaultEnv()
    log = new_log(env)
    fill(log, 3)
    size = log.size
    batch = make_batch(b"again", base_offset=1)
    with pytest.raises(AssertionError, match="which ends later"):
        log._local.append(1, [batch], len(batch), [(1, len(batch), T0)])
    assert (log.log_end_offset, log.size) == (3, size)


# -- readers at the log end --


def read(log: UnifiedLog, offset: int, max_bytes: int = 10_000) -> tuple[bytes, LogOffsetMetadata]:
    found = log.read(offset, max_bytes, FetchIsolation.LOG_END, min_one_message=True)
    return found.records.read(), found.fetch_offset_metadata


def test_a_read_from_the_end_of_another_does_not_search_the_file() -> None:
    env = FaultEnv()
    log = new_log(env)
    append(log, b"a")
    for _ in range(2):  # two readers
        assert read(log, 0)[0]
        assert read(log, 1)[0] == b""
    append(log, b"b", b"c")
    position = log.segments[0].size
    append(log, b"d")
    kinds: list[str] = []
    env.inject(lambda _number, kind, _path: kinds.append(kind))
    for _ in range(2):
        assert log.read(1, 10_000, FetchIsolation.LOG_END, min_one_message=True).records.size
        assert log.read(4, 10_000, FetchIsolation.LOG_END, min_one_message=True).records.size == 0
    assert kinds == []
    env.inject(None)
    assert read(log, 1)[1] == LogOffsetMetadata(1, 0, log.segments[0].size - len(read(log, 1)[0]))
    assert read(log, 3)[1] == LogOffsetMetadata(3, 0, position)


def test_a_read_of_fewer_bytes_than_available_is_unchanged() -> None:
    log = new_log(FaultEnv())
    append(log, b"a")
    read(log, 0)
    append(log, b"b")
    append(log, b"c")
    first, start = read(log, 1, 1)
    assert [batch.base_offset for batch in batches(first)] == [1]
    assert start.message_offset == 1
    incomplete = log.read(1, 1, FetchIsolation.LOG_END, min_one_message=False)
    assert (incomplete.first_entry_incomplete, incomplete.records.size) == (True, 1)


def test_a_read_end_above_a_truncation_is_forgotten() -> None:
    log = new_log(FaultEnv())
    fill(log, 2)
    read(log, 0)
    append(log, b"goes")
    read(log, 2)
    log.truncate_to(1)
    append(log, b"longer than what lay here before" * 4)
    append(log, b"last")
    found = [batch.base_offset for batch in batches(read(log, 2)[0])]
    assert found == [2]


@pytest.mark.parametrize("seed", seeds(20))
def test_reads_from_remembered_ends_equal_searches(seed: int) -> None:
    """Appends, rolls, truncations and readers at any offset: each read returns what a search finds."""
    rng = random.Random(seed)
    env = FaultEnv()
    log = new_log(env)
    at = 0
    for _ in range(150):
        step = rng.random()
        if step < 0.5:
            append(log, *[bytes(rng.randrange(200))] * rng.randint(1, 3))
        elif step < 0.55:
            log.roll()
        elif step < 0.6:
            log.truncate_to(rng.randint(0, log.log_end_offset))
        offset = rng.choice((at, rng.randint(0, log.log_end_offset)))
        if not log.log_start_offset <= offset <= log.log_end_offset:
            continue
        isolation = rng.choice(list(FetchIsolation))
        max_bytes = rng.choice((1, 200, 10_000))
        found = log.read(offset, max_bytes, isolation, min_one_message=True)
        log._local._set_log_end_offset(log.log_end_offset)  # forgets the ends of reads
        again = log.read(offset, max_bytes, isolation, min_one_message=True)
        assert found.fetch_offset_metadata == again.fetch_offset_metadata
        assert found.records.read() == again.records.read()
        if rng.random() < 0.5:
            read(log, offset)
            at = log.log_end_offset

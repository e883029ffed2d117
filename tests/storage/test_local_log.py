"""LocalLog: segments in order, reads across them, and the edges that UnifiedLog does not show."""

import pytest

from storage.errors import OffsetOutOfRangeError
from storage.local_log import LogSegments
from storage.offsets import LogOffsetMetadata
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import T0, fill, make_batch, new_log, small_config
from tests.storage.test_segment import make_segment


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


def test_what_lies_between_is_passed_over() -> None:
    """Offsets that compaction took: the read goes on to the next batch, in a later segment if need be."""
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


def test_an_empty_segment_with_full_indexes_is_made_anew() -> None:
    env = FaultEnv()
    log = new_log(env, small_config(segment_index_bytes=8))
    local = log._local
    first = local.active_segment
    assert local.roll(0) is not first
    assert len(local.segments) == 1
    fill(log, 2)
    assert log.segment_count == 2


def test_a_roll_leaves_room_for_offsets_to_come() -> None:
    """A follower rolls at the first offset that it is given, which may lie beyond its end."""
    log = new_log(FaultEnv())
    fill(log, 4)
    log.append_as_follower(make_batch(bytes(900), base_offset=70, epoch=0), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 70]


def test_offsets_that_outgrow_an_index_get_a_segment_of_their_own() -> None:
    log = new_log(FaultEnv())
    log.append_as_follower(make_batch(b"a", base_offset=0, epoch=0), 0)
    log.append_as_follower(make_batch(b"b", base_offset=1 << 31, epoch=0), 0)
    log.append_as_follower(make_batch(b"c", base_offset=(1 << 31) + 5, epoch=0), 0)
    assert [segment.base_offset for segment in log.segments] == [0, 1 << 31]


def test_the_end_moves_forward_only() -> None:
    """Offsets that are in the log already would be a mistake of ours, not of the disk: it is not written."""
    env = FaultEnv()
    log = new_log(env)
    fill(log, 3)
    size = log.size
    batch = make_batch(b"again", base_offset=1)
    with pytest.raises(AssertionError, match="which ends later"):
        log._local.append(1, [batch], len(batch), [(1, len(batch), T0)])
    assert (log.log_end_offset, log.size) == (3, size)

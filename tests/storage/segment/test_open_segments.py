"""OpenSegments: never more open than allowed, and segments in use stay open."""

from barnabas.storage.segment.open_segments import OpenSegments
from tests.storage.fault_env import FaultEnv
from tests.storage.segment.test_segment import make_segment, put


def test_the_limit_holds_and_segments_in_use_stay_open() -> None:
    env = FaultEnv()
    shared = OpenSegments(3)
    segments = []
    for number in range(6):
        env.mkdir(f"/{number}/d")
        segment = make_segment(env)
        segment._open_segments = shared
        segment.directory = f"/{number}/d"
        segment.create_files()
        segments.append(segment)
    for round_number in range(3):
        for segment in segments:
            put(segment, 100 + round_number)
            assert len(shared) <= 3
    assert [segment.is_open for segment in segments] == [False] * 3 + [True] * 3
    for segment in (segments[4], segments[5]):
        segment.was_used = False
    assert segments[0].read_next_offset() == 103
    assert [segment.is_open for segment in segments] == [True, False, False, True, False, True]
    assert [segment.read_next_offset() for segment in segments] == [103] * 6
    segments[5].mark_deleted()
    assert len(shared) == 2
    shared.discard(segments[5])


def test_one_segment_may_always_be_open() -> None:
    assert OpenSegments(0).limit == 1

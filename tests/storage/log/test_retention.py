"""The segments that retention removes: the table in `storage.log.retention`, row by row."""

import pytest

from barnabas.storage.log.deletion import DeletionQueue
from barnabas.storage.log.local_log import LocalLog, LogSegments
from barnabas.storage.log.retention import deletable_segments
from barnabas.storage.segment.open_segments import OpenSegments
from barnabas.storage.segment.segment import LogSegment
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import T0, small_config
from tests.storage.segment.test_segment import put

COMPACT = frozenset({"compact"})
BOTH = frozenset({"compact", "delete"})


def new_local(sizes: list[int], ages_ms: list[int]) -> LocalLog:
    """Segments of ten offsets each, of the given sizes and ages at T0."""
    env = FaultEnv()
    env.mkdir("/d")
    segments = []
    for number, (size, age_ms) in enumerate(zip(sizes, ages_ms, strict=True)):
        segment = LogSegment(
            env,
            "/d",
            10 * number,
            open_segments=OpenSegments(),
            size=0,
            index_interval_bytes=100,
            index_bytes=1200,
        )
        segment.create_files()
        if size:
            put(segment, 10 * number, bytes(40), timestamp=T0 - age_ms)
            segment.size = size
        segments.append(segment)
    end = 10 * len(sizes) - (0 if sizes[-1] else 10)
    return LocalLog(
        env,
        "/d",
        small_config(),
        LogSegments(segments),
        recovery_point=0,
        log_end_offset=end,
        deletions=DeletionQueue(env),
        open_segments=OpenSegments(),
    )


@pytest.mark.parametrize(
    ("config", "log_start", "high_watermark", "gone"),
    [
        ({}, 0, 40, []),
        ({}, 9, 40, []),
        ({}, 10, 40, [0]),
        ({}, 39, 40, [0, 10, 20]),
        ({}, 40, 40, [0, 10, 20]),  # never the active one for this reason
        ({"cleanup_policy": COMPACT}, 20, 40, [0, 10]),
        ({"retention_bytes": 399}, 0, 40, []),
        ({"retention_bytes": 300}, 0, 40, [0]),
        ({"retention_bytes": 201}, 0, 40, [0]),
        ({"retention_bytes": 0}, 0, 40, [0, 10, 20, 30]),
        ({"retention_bytes": 0}, 0, 25, [0, 10]),  # the high watermark keeps the others
        ({"retention_bytes": 0, "cleanup_policy": COMPACT}, 0, 40, []),
        ({"retention_bytes": 0, "cleanup_policy": BOTH}, 0, 40, [0, 10, 20, 30]),
        ({"retention_ms": 5000}, 0, 40, []),
        ({"retention_ms": 3999}, 0, 40, [0]),
        ({"retention_ms": 999}, 0, 40, [0, 10, 20]),
        ({"retention_ms": 0}, 0, 40, [0, 10, 20, 30]),
        ({"retention_ms": 0, "cleanup_policy": COMPACT}, 0, 40, []),
        ({"retention_ms": -1, "retention_bytes": -1}, 0, 40, []),
        ({"retention_ms": 3999, "retention_bytes": 200}, 10, 40, [0, 10]),
    ],
)
def test_the_retention_table(
    config: dict[str, object], log_start: int, high_watermark: int, gone: list[int]
) -> None:
    local = new_local([100, 100, 100, 100], [4000, 3000, 2000, 1])
    usual = {"retention_bytes": -1, "retention_ms": -1}
    found = deletable_segments(local, small_config(**{**usual, **config}), log_start, high_watermark, T0 + 1)
    assert [segment.base_offset for segment in found] == gone


def test_an_empty_active_segment_stays() -> None:
    local = new_local([100, 0], [4000, 0])
    found = deletable_segments(local, small_config(retention_bytes=0), 0, 10, T0)
    assert [segment.base_offset for segment in found] == [0]


def test_a_younger_segment_keeps_those_after_it() -> None:
    local = new_local([100, 100, 100], [4000, 10, 4000])
    found = deletable_segments(local, small_config(retention_ms=1000), 0, 30, T0)
    assert [segment.base_offset for segment in found] == [0]

"""Tests the findings about implausible timestamps."""

import pytest

from barnabas.pipeline.audit.timestamps import BACKWARDS_MS, FUTURE_MS, Timestamps, backwards_after, in_words
from barnabas.protocol.records.batch import RecordBatch, TimestampType, build_batch
from barnabas.storage.verify.verifier import Check, Severity
from tests.storage.helpers import T0, end_txn

PATH = "/a/t-0/00000000000000000000.log"


def told(*batches: bytes, now_ms: int = T0) -> list[tuple[int | None, str]]:
    times = Timestamps(now_ms)
    for each in batches:
        times.add(RecordBatch(each))
    found = list(times.findings(PATH))
    assert all(
        (one.path, one.check, one.severity) == (PATH, Check.TIMESTAMPS, Severity.WARNING) for one in found
    )
    return [(one.offset, one.problem) for one in found]


def batch(offset: int, *timestamps: int) -> bytes:
    return build_batch([(b"k", b"v", each, []) for each in timestamps], base_offset=offset)


def appended(offset: int, timestamp: int) -> bytes:
    return build_batch(
        [(b"k", b"v", 0, [])],
        base_offset=offset,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time=timestamp,
    )


def test_plausible_times_have_no_findings() -> None:
    assert told(batch(0, T0 - 5, T0), batch(2, T0 - 90_000), batch(3, T0 + FUTURE_MS)) == []


def test_times_over_an_hour_ahead_are_found_and_the_worst_reported() -> None:
    assert told(batch(0, T0), batch(1, T0 + FUTURE_MS + 1), batch(2, T0, T0 + 86_400_000), batch(4, T0)) == [
        (1, "2 batches have records as young as 2023-11-15 22:13:20")
    ]


def test_microseconds_are_guessed() -> None:
    assert told(batch(7, T0 * 1000)) == [
        (7, f"1 batch has records as young as {T0 * 1000} (are these micro- or nanoseconds?)")
    ]


def test_seconds_look_like_1970() -> None:
    assert told(batch(0, T0), batch(1, T0 // 1000, T0), batch(3, T0 // 1000 - 60)) == [
        (1, "2 batches have records as old as 1970-01-20 16:13:19")
    ]


def test_no_timestamps() -> None:
    assert told(batch(0, -1), batch(1, T0), batch(2, -1, -1)) == [(0, "2 batches have no timestamps")]


def test_a_clock_that_goes_backwards_is_found_in_append_times_only() -> None:
    late = BACKWARDS_MS + 5000
    assert told(appended(0, T0), appended(1, T0 - late), appended(2, T0 - BACKWARDS_MS)) == [
        (1, "1 batch has times of appending up to 65 s before earlier ones")
    ]
    assert told(batch(0, T0), batch(1, T0 - late)) == []


def test_markers_and_empty_batches_are_ignored() -> None:
    assert told(end_txn(7, 0, commit=True, timestamp=T0 * 2)) == []


def test_what_is_counted() -> None:
    times = Timestamps(T0)
    for each in (batch(0, T0 - 50, T0), batch(2, T0 - 700, T0 - 600), batch(4, T0 - 100)):
        times.add(RecordBatch(each))
    assert times.stats == (T0 - 700, T0, 700, 0, 0, 0, None, None)
    assert Timestamps(T0).stats == (None, None, 0, 0, 0, 0, None, None)


@pytest.mark.parametrize("timestamp", [-1, 1 << 60])
def test_times_outside_the_calendar(timestamp: int) -> None:
    assert str(timestamp) in in_words(timestamp)


@pytest.mark.parametrize(("behind", "count"), [(BACKWARDS_MS, 0), (BACKWARDS_MS + 5000, 1)])
def test_a_clock_that_goes_back_where_a_segment_begins(behind: int, count: int) -> None:
    times = Timestamps(T0), Timestamps(T0)
    for each, data in zip(
        times, ((appended(0, T0 - 9), appended(1, T0)), (appended(2, T0 - behind),)), strict=True
    ):
        for one in data:
            each.add(RecordBatch(one))
        assert list(each.findings(PATH)) == []
    found = list(backwards_after(times[0].stats, PATH, 2, times[1].stats))
    assert [(one.offset, one.problem) for one in found] == [
        (2, "1 batch has times of appending up to 65 s before earlier ones")
    ] * count


def test_times_that_producers_chose_may_go_back() -> None:
    before, after = Timestamps(T0), Timestamps(T0)
    before.add(RecordBatch(batch(0, T0)))
    after.add(RecordBatch(batch(1, T0 - 90_000_000)))
    assert list(backwards_after(before.stats, PATH, 1, after.stats)) == []

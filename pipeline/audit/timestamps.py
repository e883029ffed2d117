"""Finds implausible timestamps: they pin retention, hide records from searches by time, or spoil joins."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.protocol.records.batch import MAGIC_V0, RecordBatch, TimestampType
from barnabas.storage.verify.verifier import Check, Finding, Severity

if TYPE_CHECKING:
    from barnabas.storage.segment.batch_reading import Batch

FUTURE_MS: Final = 3_600_000  # Kafka's default of message.timestamp.after.max.ms
OLDEST_MS: Final = 100_000_000_000  # March 1973: what is below counts seconds, as a rule
BACKWARDS_MS: Final = 60_000  # clocks of brokers differ by less
_LAST_MS: Final = 253_402_300_799_999  # the year 9999
_REMEDY: Final = "a start takes it as it is"


class _Odd:
    """Batches with one kind of implausible timestamp: how many, the first, and the worst."""

    __slots__ = ("count", "first_offset", "worst")

    def __init__(self) -> None:
        self.count = 0
        self.first_offset = -1
        self.worst = 0

    def add(self, offset: int, value: int, distance: int, worst: int) -> None:
        """`distance`: how implausible its timestamp is; `worst`: the greatest distance so far."""
        if not self.count:
            self.first_offset = offset
        if not self.count or distance > worst:
            self.worst = value
        self.count += 1


class TimeStats(NamedTuple):
    """The times in the headers of a segment's batches, in ms since 1970; None where no batch has a timestamp.

    `least` is that of first records of batches, `most` of all. `max_lateness_ms`: how far behind a younger one before
    it a batch begins. `first_appended` and `last_appended`: times of appending, of the first batch and the youngest.
    """

    least: int | None
    most: int | None
    max_lateness_ms: int
    future_batches: int
    ancient_batches: int
    missing_batches: int
    first_appended: int | None = None
    last_appended: int | None = None


class Timestamps:
    """Collects the timestamps of one segment, batch by batch; at the end the findings about them."""

    def __init__(self, now_ms: int) -> None:
        self._limit = now_ms + FUTURE_MS
        self._least: int | None = None
        self._most: int | None = None
        self._first_appended: int | None = None
        self._last_appended: int | None = None
        self._lateness = 0
        self._future, self._ancient, self._missing, self._backwards = _Odd(), _Odd(), _Odd(), _Odd()

    def add(self, batch: Batch) -> None:
        """Follows a whole batch, but for markers, whose time is the coordinator's, and v0, which has no timestamps."""
        if batch.magic == MAGIC_V0 or batch.is_control:
            return
        is_v2 = isinstance(batch, RecordBatch)
        if is_v2 and not batch.record_count:
            return  # compaction keeps an empty batch for a producer's state
        offset = batch.base_offset if is_v2 else batch.last_offset
        most = batch.max_timestamp
        appended = batch.timestamp_type is TimestampType.LOG_APPEND_TIME
        first = batch.base_timestamp if isinstance(batch, RecordBatch) and not appended else most
        if most < 0:
            self._missing.add(offset, most, 0, 0)
            return
        if most > self._limit:
            self._future.add(offset, most, most, self._future.worst)
        if first < OLDEST_MS:
            self._ancient.add(offset, first, -first, -self._ancient.worst)
        self._follow(offset, first, most, appended=appended)

    def _follow(self, offset: int, first: int, most: int, *, appended: bool) -> None:
        if self._most is not None:
            behind = self._most - first
            self._lateness = max(self._lateness, behind)
            if appended and behind > BACKWARDS_MS:
                self._backwards.add(offset, behind, behind, self._backwards.worst)
        if appended:
            self._first_appended = first if self._first_appended is None else self._first_appended
            self._last_appended = max(first, self._last_appended or first)
        self._least = first if self._least is None else min(self._least, first)
        self._most = most if self._most is None else max(self._most, most)

    @property
    def stats(self) -> TimeStats:
        return TimeStats(
            self._least,
            self._most,
            self._lateness,
            self._future.count,
            self._ancient.count,
            self._missing.count,
            self._first_appended,
            self._last_appended,
        )

    def findings(self, path: str) -> Iterator[Finding]:
        """One for each kind of oddity in the segment whose .log is `path`."""
        if self._future.count:
            yield _finding(
                path,
                self._future,
                f"records as young as {in_words(self._future.worst)}",
                "at most an hour from now; retention.ms keeps the segment until then",
            )
        if self._ancient.count:
            yield _finding(
                path,
                self._ancient,
                f"records as old as {in_words(self._ancient.worst)}",
                "milliseconds since 1970: these look like seconds, and retention.ms takes them at once",
            )
        if self._missing.count:
            yield _finding(path, self._missing, "no timestamps", "one for each record")
        if self._backwards.count:
            yield _backwards(path, self._backwards)


def backwards_after(before: TimeStats, path: str, base_offset: int, stats: TimeStats) -> Iterator[Finding]:
    """The finding where a segment, whose .log is `path`, begins with times of appending before its predecessor's."""
    if before.last_appended is None or stats.first_appended is None:
        return
    behind = before.last_appended - stats.first_appended
    if behind > BACKWARDS_MS:
        odd = _Odd()
        odd.add(base_offset, behind, 0, 0)
        yield _backwards(path, odd)


def _backwards(path: str, odd: _Odd) -> Finding:
    return _finding(
        path,
        odd,
        f"times of appending up to {odd.worst / 1000:.0f} s before earlier ones",
        "a clock that does not go backwards, and brokers whose clocks agree",
    )


def _finding(path: str, odd: _Odd, what: str, expected: str) -> Finding:
    batches = "1 batch has" if odd.count == 1 else f"{odd.count} batches have"
    return Finding(
        Severity.WARNING,
        path,
        f"{batches} {what}",
        expected,
        _REMEDY,
        None,
        odd.first_offset,
        Check.TIMESTAMPS,
    )


def in_words(timestamp_ms: int) -> str:
    """A readable time, or the number where it is outside the range of datetime."""
    if not 0 <= timestamp_ms <= _LAST_MS:
        return f"{timestamp_ms} ({'before 1970' if timestamp_ms < 0 else 'are these micro- or nanoseconds?'})"
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")

"""Reports of ended cleanings: the log line, and the figures for metrics and users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.storage.cleaner.log_to_clean import LogToClean
from barnabas.storage.offsets import TopicPartition
from barnabas.storage.worker_messages import Failed, FailureKind

if TYPE_CHECKING:
    from barnabas.storage.log.cleaning_plan import CleaningResult, CleaningStats

MIB = 1 << 20


class LastCleanings:
    """The last cleaning in each worker slot, as Kafka's metrics show them, and the last failure of each partition."""

    def __init__(self) -> None:
        self._stats: dict[int, CleaningStats] = {}
        self._dead: set[int] = set()
        self.cleanings = 0
        self.failures: dict[TopicPartition, str] = {}

    def succeeded(self, slot: int, key: TopicPartition, stats: CleaningStats) -> None:
        self._stats[slot] = stats
        self._dead.discard(slot)
        self.cleanings += 1
        self.failures.pop(key, None)

    def failed(self, slot: int, key: TopicPartition, failure: Failed) -> None:
        if failure.kind in (FailureKind.ENDED, FailureKind.MEMORY):
            self._dead.add(slot)
        self.failures[key] = failure.text

    @property
    def dead_worker_count(self) -> int:
        """Slots whose last worker ended before its job did."""
        return len(self._dead)

    @property
    def max_buffer_utilization_percent(self) -> int:
        return int(100 * max((stats.buffer_utilization for stats in self._stats.values()), default=0.0))

    @property
    def recopy_percent(self) -> int:
        """The share of the bytes read that were written again."""
        read = sum(stats.bytes_read for stats in self._stats.values())
        written = sum(stats.bytes_written for stats in self._stats.values())
        return 100 * written // max(read, 1)

    @property
    def max_clean_time_secs(self) -> int:
        return int(max((stats.elapsed_seconds for stats in self._stats.values()), default=0.0))


def cleaning_line(found: LogToClean, result: CleaningResult, elapsed_s: float, slot: int) -> str:
    """The report that Kafka's cleaner logs for each cleaning, on one line; `elapsed_s` includes the swap."""
    stats = result.stats
    seconds = stats.elapsed_seconds
    return (
        f"compacted {found.log.name} (worker {slot}, dirty offsets {found.offsets.first_dirty_offset} to "
        f"{result.next_first_dirty_offset}) in {elapsed_s:.1f} s: "
        f"{_mib(stats.bytes_read)} with {stats.messages_read:,} records became "
        f"{_mib(stats.bytes_written)} with {stats.messages_written:,}, "
        f"{_less(stats.bytes_read, stats.bytes_written)} smaller, "
        f"{_less(stats.messages_read, stats.messages_written)} fewer records; "
        f"keys: {_rate(stats.map_bytes_read, stats.index_seconds)}, map {100 * stats.buffer_utilization:.1f} % full; "
        f"copying: {_rate(stats.bytes_read, stats.clean_seconds)}; "
        f"in all {_mib(stats.bytes_read / seconds if seconds else 0)}/s"
    )


def _mib(size: float) -> str:
    return f"{size / MIB:,.1f} MiB"


def _rate(size: int, seconds: float) -> str:
    return f"{_mib(size)} in {seconds:.1f} s"


def _less(before: int, after: int) -> str:
    return f"{100 * (1 - after / before):.1f} %" if before else "0.0 %"

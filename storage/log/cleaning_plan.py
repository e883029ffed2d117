"""CleaningPlan and CleaningResult: plain data that is sent to a worker process that cleans a log, and back.

Kafka's LogToClean with the settings of the log and of the cleaner, and CleanerStats.
"""

from typing import NamedTuple


class SegmentToClean(NamedTuple):
    """The files of one closed segment: sizes in bytes, and the modification time of the .log in ms."""

    base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int
    last_modified_ms: int


class CleaningPlan(NamedTuple):
    """The part of a log to be compacted, and the rules.

    `segments`: all from the log's first up to `first_uncleanable_offset`, oldest first, never the active one. The
    dirty part begins at `first_dirty_offset` (inclusive) and ends at `first_uncleanable_offset` (exclusive).

    `last_records_of_producers`: by producer id, the epoch and the offset of the last data, None if only a marker is
    left (Kafka's LastRecord).

    `dedupe_buffer_bytes` is the size of the offset map, `load_factor` how far it may be filled (0 < factor < 1),
    `io_buffer_bytes` the initial size of each of the two buffers, `max_io_bytes_per_second` the limit of this worker
    for reads and writes together, `inf` for none.
    """

    directory: str
    topic: str
    partition: int
    segments: tuple[SegmentToClean, ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    log_start_offset: int
    now_ms: int
    last_records_of_producers: dict[int, tuple[int, int | None]]
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int
    max_io_bytes_per_second: float

    @property
    def log_name(self) -> str:
        """topic-partition."""
        return f"{self.topic}-{self.partition}"


class CleanedSegment(NamedTuple):
    """A finished segment with the suffix .cleaned; `replaces`: the base offsets of the segments that it replaces."""

    base_offset: int
    size: int
    replaces: tuple[int, ...]


class CleaningStats(NamedTuple):
    """The counters of one cleaning, as in Kafka's CleanerStats.

    `map_*` count the pass that fills the offset map, `buffer_utilization` is the part of the map that was filled (0 to
    1); the others count the pass that copies. `index_seconds` and `clean_seconds` are the durations of the two,
    throttling included.
    """

    map_bytes_read: int = 0
    map_messages_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    messages_read: int = 0
    messages_written: int = 0
    invalid_messages_read: int = 0
    buffer_utilization: float = 0.0
    index_seconds: float = 0.0
    clean_seconds: float = 0.0

    @property
    def elapsed_seconds(self) -> float:
        return self.index_seconds + self.clean_seconds


class CleaningResult(NamedTuple):
    """The finished segments, oldest first, and the new first dirty offset."""

    segments: tuple[CleanedSegment, ...]
    next_first_dirty_offset: int
    stats: CleaningStats

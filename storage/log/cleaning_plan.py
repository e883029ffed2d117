"""What a cleaning of one log is told and what it answers: plain data that travels to a worker process and back.

Kafka's LogToClean with those of the log's and the cleaner's settings that matter here, and CleanerStats.
"""

from typing import NamedTuple


class SegmentToClean(NamedTuple):
    """One closed segment as it lies on disk: sizes in bytes, when its .log was last written to in ms."""

    base_offset: int
    size: int
    index_bytes: int
    time_index_bytes: int
    last_modified_ms: int


class CleaningPlan(NamedTuple):
    """Which part of which log is to be compacted, and by what rules.

    `segments`: all from the log's first up to `first_uncleanable_offset`, oldest first, never the active one. The
    dirty part begins at `first_dirty_offset` (inclusive) and ends at `first_uncleanable_offset` (exclusive).

    `last_records_of_producers`: for each producer that the log knows its epoch and the offset of its last data, None
    where only its marker is left (Kafka's LastRecord).

    `dedupe_buffer_bytes` is what the offset map may have, `load_factor` how far it may be filled (0 < factor < 1),
    `io_buffer_bytes` what each of the two buffers begins with, `max_io_bytes_per_second` what this worker may read
    and write in all: its share, `inf` for no limit.
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
    max_message_bytes: int
    delete_retention_ms: int
    dedupe_buffer_bytes: int
    load_factor: float
    io_buffer_bytes: int
    max_io_bytes_per_second: float

    @property
    def log_name(self) -> str:
        """The log as log lines and Kafka's name it: topic-partition."""
        return f"{self.topic}-{self.partition}"


class CleanedSegment(NamedTuple):
    """A finished segment that waits under the suffix .cleaned; `replaces`: base offsets of those it stands for."""

    base_offset: int
    size: int
    replaces: tuple[int, ...]


class CleaningStats(NamedTuple):
    """What one cleaning did, as Kafka's CleanerStats counts it.

    `map_*` is the pass over the dirty segments that fills the offset map; `buffer_utilization` the part of the map
    that was filled (0 to 1); the rest is the pass that copies. `index_seconds` and `clean_seconds` are how long the
    two took, waiting for the throttle included.
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
    """What a cleaning leaves behind: finished segments, oldest first, and where the dirty part begins from now on."""

    segments: tuple[CleanedSegment, ...]
    next_first_dirty_offset: int
    stats: CleaningStats

"""Which segments of a log retention deletes: by time, by size, and by log start offset."""

import logging
from typing import TYPE_CHECKING

from barnabas.storage.log.local_log import LocalLog
from barnabas.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from barnabas.config.log_config import LogConfig

logger = logging.getLogger("barnabas.storage")


def deletable_segments(
    local: LocalLog, config: "LogConfig", log_start_offset: int, high_watermark: int, now_ms: int
) -> list[LogSegment]:
    """The oldest segments that retention deletes, in order, all below the high watermark.

    cleanup.policy | a segment is deleted when
    ---------------+-------------------------------------------------------------------------------
    any            | the next one begins at or before the log start offset
    with delete    | its largest timestamp is older than retention.ms, or
                   | without it the log still has retention.bytes

    The list may be the whole log with a non-empty active segment: then the caller rolls first.
    """
    surplus_bytes = local.segments.size - config.retention_bytes if config.retention_bytes >= 0 else -1
    doomed: list[LogSegment] = []
    for position in range(len(local.segments)):
        segment = local.segments[position]
        is_active = position + 1 == len(local.segments)
        end = local.log_end_offset if is_active else local.segments[position + 1].base_offset
        if high_watermark < end or (is_active and segment.size == 0):
            break
        is_below_start = not is_active and end <= log_start_offset
        is_surplus = surplus_bytes - segment.size >= 0 and config.delete
        if not (is_below_start or is_surplus or _is_expired(segment, config, now_ms)):
            break
        surplus_bytes -= segment.size
        doomed.append(segment)
    return doomed


def _is_expired(segment: LogSegment, config: "LogConfig", now_ms: int) -> bool:
    return (
        config.delete
        and config.retention_ms >= 0
        and now_ms - segment.largest_timestamp > config.retention_ms
    )


def warn_of_the_future(
    local: LocalLog, config: "LogConfig", position: int, now_ms: int, warned_of: int
) -> int:
    """Logs once that retention by time stops at a segment with timestamps in the future.

    `position` is that of the first segment to keep. Returns the base offset of the segment of the last warning.
    """
    if not config.delete or config.retention_ms < 0 or position >= len(local.segments):
        return warned_of
    segment = local.segments[position]
    if segment.max_timestamp_so_far <= now_ms or segment.base_offset == warned_of:
        return warned_of
    logger.warning(
        "%s has timestamps from the future, up to %d ms; it is kept until they are too old",
        segment.path,
        segment.max_timestamp_so_far,
    )
    return segment.base_offset

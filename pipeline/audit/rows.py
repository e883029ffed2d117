"""The tables that an audit writes: their columns and rows.

    findings    one row for each finding
    segments    one row for each segment
    partitions  one row for each partition

Every row names its audit (`audit_id`, `audited_at`), so that one table holds many and shows trends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa

from barnabas.pipeline.audit.keys import KeptRecords, KeyStats
from barnabas.storage.segment.names import LOG_SUFFIX, segment_path
from barnabas.storage.verify.verifier import Severity, legible

if TYPE_CHECKING:
    from barnabas.pipeline.audit.partition import PartitionReport
    from barnabas.pipeline.audit.segment import SegmentReport
    from barnabas.storage.verify.directory import PartitionToVerify
    from barnabas.storage.verify.verifier import Finding

Row = dict[str, Any]

_TIME: Final = pa.timestamp("us", tz="UTC")
_LONG: Final = pa.int64()
_TEXT: Final = pa.string()


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema({"audit_id": _TEXT, "audited_at": _TIME, "log_dir": _TEXT} | columns)


_PLACE: Final = {"topic": _TEXT, "partition": pa.int32()}
_KEYED: Final = {
    "keyed_records": _LONG,
    "keyed_bytes": _LONG,
    "keyless_records": _LONG,
    "keyless_bytes": _LONG,
    "aborted_records": _LONG,
    "aborted_bytes": _LONG,
    "compactable_bytes": _LONG,
    "kept_records": _LONG,
    "kept_bytes": _LONG,
    "kept_tombstones": _LONG,
    "saved_bytes": _LONG,
}
_COUNTED: Final = {
    "bytes": _LONG,
    "batches": _LONG,
    "records": _LONG,
    "first_timestamp": _TIME,
    "last_timestamp": _TIME,
    "max_lateness_ms": _LONG,
    "errors": _LONG,
    "warnings": _LONG,
    "notes": _LONG,
    "codec_bytes": pa.map_(_TEXT, _LONG),
} | _KEYED

FINDINGS: Final = _schema(
    **_PLACE,
    severity=_TEXT,
    check=_TEXT,
    path=_TEXT,
    position=_LONG,
    offset=_LONG,
    problem=_TEXT,
    expected=_TEXT,
    remedy=_TEXT,
)
SEGMENTS: Final = _schema(
    **_PLACE,
    path=_TEXT,
    base_offset=_LONG,
    next_offset=_LONG,
    is_active=pa.bool_(),
    is_whole=pa.bool_(),
    has_gaps=pa.bool_(),
    **_COUNTED,
)
PARTITIONS: Final = _schema(
    **_PLACE,
    path=_TEXT,
    start_offset=_LONG,
    end_offset=_LONG,
    has_gaps=pa.bool_(),
    segments=_LONG,
    distinct_keys=_LONG,
    **_COUNTED,
)


class Stamp(NamedTuple):
    """Identifies an audit, and states when it was made."""

    audit_id: str
    audited_at: datetime

    def row(self, log_dir: str, **values: Any) -> Row:
        row = {"audit_id": self.audit_id, "audited_at": self.audited_at, "log_dir": log_dir, **values}
        return {name: legible(value) if isinstance(value, str) else value for name, value in row.items()}


def finding_row(stamp: Stamp, log_dir: str, place: tuple[str, int] | None, finding: Finding) -> Row:
    """`place`: topic and partition, None for findings outside of partitions."""
    topic, partition = place or (None, None)
    values = finding._asdict() | {"severity": finding.severity.value, "check": finding.check.value}
    return stamp.row(log_dir, topic=topic, partition=partition, **values)


def segment_rows(stamp: Stamp, of: PartitionToVerify, report: PartitionReport) -> Iterator[Row]:
    """A row for each segment that still existed."""
    tally = Counter((_stem(one.path), one.severity) for one in report.findings.all)
    for segment in report.segments:
        if segment.verification.outcome is not None:
            kept = report.kept.by_segment.get(segment.task.base_offset) if report.kept else None
            yield _segment_row(stamp, of, segment, tally, kept)


def _segment_row(
    stamp: Stamp,
    of: PartitionToVerify,
    segment: SegmentReport,
    tally: Counter[tuple[str, Severity]],
    kept: KeptRecords | None,
) -> Row:
    outcome, counts, task = segment.verification.outcome, segment.verification.counts, segment.task
    assert outcome is not None
    path = segment_path(task.path, task.base_offset, LOG_SUFFIX)
    stem = _stem(path)
    return stamp.row(
        of.log_dir,
        topic=of.key[0],
        partition=of.key[1],
        path=path,
        base_offset=task.base_offset,
        next_offset=outcome.next_offset,
        is_active=task.is_active,
        is_whole=outcome.is_whole,
        has_gaps=outcome.has_gaps,
        bytes=counts.bytes,
        batches=counts.batches,
        records=counts.records,
        first_timestamp=as_time(segment.times.least),
        last_timestamp=as_time(segment.times.most),
        max_lateness_ms=segment.times.max_lateness_ms,
        errors=tally[stem, Severity.ERROR],
        warnings=tally[stem, Severity.WARNING],
        notes=tally[stem, Severity.NOTE],
        codec_bytes=sorted(segment.codecs.items()),
        **_key_values(segment.keys, kept),
    )


def _stem(path: str) -> str:
    """The common stem of a segment's file names."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/{name.partition('.')[0]}"


def _key_values(stats: KeyStats | None, kept: KeptRecords | None) -> Row:
    """Null where keys were not counted; what compaction leaves is null for a segment that it leaves alone."""
    values: Row = dict.fromkeys(_KEYED)
    if stats is None:
        return values
    values |= stats._asdict()
    if kept is not None:
        compactable = stats.keyed_bytes + stats.keyless_bytes + stats.aborted_bytes
        values |= {
            "compactable_bytes": compactable,
            "kept_records": kept.records,
            "kept_bytes": kept.bytes,
            "kept_tombstones": kept.tombstones,
            "saved_bytes": max(compactable - kept.bytes, 0),
        }
    return values


def partition_row(stamp: Stamp, of: PartitionToVerify, report: PartitionReport, segments: list[Row]) -> Row:
    """The sum of a partition's segments, and what only it knows."""
    tally = Counter(one.severity for one in report.findings.all)
    sums = {name: sum(row[name] for row in segments) for name in ("bytes", "batches", "records")}
    keyed = {name: _sum(row[name] for row in segments) for name in _KEYED}
    firsts = [row["first_timestamp"] for row in segments if row["first_timestamp"] is not None]
    lasts = [row["last_timestamp"] for row in segments if row["last_timestamp"] is not None]
    codecs: Counter[str] = Counter()
    for row in segments:
        codecs.update(dict(row["codec_bytes"]))
    return stamp.row(
        of.log_dir,
        topic=of.key[0],
        partition=of.key[1],
        path=of.path,
        start_offset=report.range.start_offset,
        end_offset=report.range.end_offset,
        has_gaps=report.range.has_gaps,
        segments=len(segments),
        distinct_keys=report.kept.distinct_keys if report.kept else None,
        first_timestamp=min(firsts, default=None),
        last_timestamp=max(lasts, default=None),
        max_lateness_ms=_lateness(report.segments),
        codec_bytes=sorted(codecs.items()),
        errors=tally[Severity.ERROR],
        warnings=tally[Severity.WARNING],
        notes=tally[Severity.NOTE],
        **sums,
        **keyed,
    )


def _lateness(segments: Iterable[SegmentReport]) -> int:
    """The most by which a batch begins before the youngest record ahead of it, in any segment, in ms."""
    found = 0
    most: int | None = None
    for times in (segment.times for segment in segments):
        if most is not None and times.least is not None:
            found = max(found, most - times.least)
        if times.most is not None:
            most = times.most if most is None else max(most, times.most)
        found = max(found, times.max_lateness_ms)
    return found


def _sum(values: Iterable[int | None]) -> int | None:
    """The sum without nulls; None where all are null."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def as_time(timestamp_ms: int | None) -> datetime | None:
    """A time; None outside the range of datetime."""
    if timestamp_ms is None or not 0 <= timestamp_ms < 253_402_300_800_000:
        return None
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)

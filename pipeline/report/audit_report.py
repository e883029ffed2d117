"""The report of an audit: findings, the logs in time and on disk, the savings of compaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.report.compact_report import savings_by_topic
from barnabas.pipeline.report.figures import (
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    RED,
    SKY,
    Figure,
    Series,
    Span,
    in_bytes,
    spans,
    stacked_bars,
)
from barnabas.pipeline.report.page import Page, Section, Table
from barnabas.pipeline.report.tables import (
    TOPICS_IN_A_FIGURE,
    by_topic,
    cut,
    left_out,
    log_dirs,
    names_of,
    place_of,
    total,
)
from barnabas.storage.verify.verifier import Check, Severity

if TYPE_CHECKING:
    from barnabas.pipeline.audit.audit import AuditResult
    from barnabas.pipeline.audit.rows import Row, Stamp

ROWS_IN_TIME: Final = 40
STRETCHES_IN_A_ROW: Final = 150
FINDINGS_IN_A_PAGE: Final = 500
_COLOURS: Final = {Severity.ERROR: RED, Severity.WARNING: ORANGE, Severity.NOTE: SKY}
_OLDEST: Final = datetime(1990, 1, 1, tzinfo=UTC)
_STATES: Final = {"whole": GREEN, "with warnings": ORANGE, "with errors": RED, "active": GREY}

_WORST_FIRST: Final = ("with errors", "with warnings", "whole", "active")


def page_of(result: AuditResult, *, tables: str = "") -> Page:
    """The page; `tables`: where the tables are, which have all rows."""
    sections = [_findings(result, tables), _in_time(result), _on_disk(result)]
    if any(row["distinct_keys"] is not None for row in result.partitions):
        sections.append(_keys(result))
    sections.append(_partitions(result))
    return Page(
        "Audit of log directories",
        f"{', '.join(log_dirs(result))}, on {result.stamp.audited_at:%Y-%m-%d at %H:%M:%S} UTC"
        f" (audit {result.stamp.audit_id})",
        *_verdict(result),
        _facts(result),
        sections,
    )


def _verdict(result: AuditResult) -> tuple[str, str]:
    tally = result.tally()
    errors, warnings = tally[Severity.ERROR], tally[Severity.WARNING]
    if errors:
        where = {place_of(row) for row in result.findings if row["severity"] == "error"}
        return (
            f"{_count(errors, 'error')} in {_count(len(where), 'place')}: something is lost or contradicts itself.",
            "bad",
        )
    if any(row["severity"] == "warning" and row["check"] == Check.OFFSETS for row in result.findings):
        verdict = f"No errors, {_count(warnings, 'warning')}: offsets do not follow each other."
        return f"{verdict} Unless compaction explains it, records are lost.", "fair"
    if warnings:
        return f"No errors. {_count(warnings, 'warning')}: nothing is lost.", "fair"
    return "Nothing is wrong.", "good"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _facts(result: AuditResult) -> list[tuple[str, str]]:
    counts = result.counts
    facts = [(name, f"{counts[name]:,}") for name in ("partitions", "segments", "batches", "records")]
    facts.append(("bytes of logs", in_bytes(counts["bytes"])))
    facts += [(f"{severity}s", f"{number:,}") for severity, number in result.tally().items()]
    return facts


def _findings(result: AuditResult, tables: str) -> Section:
    if not result.findings:
        return Section(
            "Findings",
            "None. Checked were lengths, checksums, records, the order of offsets, leader epochs, sequences of "
            "producers, timestamps, all indexes, producer snapshots, checkpoints, identities and names.",
        )
    tally = Counter((row["check"], row["severity"]) for row in result.findings)
    totals = Counter(row["check"] for row in result.findings)
    checks = [check for check, _ in totals.most_common()]
    figure = stacked_bars(
        "Findings by check",
        "Errors: something is lost or contradicts itself. Warnings: nothing is lost. Notes: as it should be, though "
        "it may surprise.",
        checks,
        [
            Series(f"{severity}s", [tally[check, severity.value] for check in checks], _COLOURS[severity])
            for severity in Severity
        ],
        unit="findings",
    )
    order = {severity.value: at for at, severity in enumerate(Severity)}
    shown = sorted(result.findings, key=lambda row: order[row["severity"]])[:FINDINGS_IN_A_PAGE]
    left = len(result.findings) - len(shown)
    table = Table(
        ("severity", "check", "path", "offset", "what is wrong", "what would be right", "what a start does"),
        [
            (
                row["severity"],
                row["check"],
                row["path"],
                None if row["offset"] is None else str(row["offset"]),
                row["problem"],
                row["expected"],
                row["remedy"],
            )
            for row in shown
        ],
        note=left_out(left, f"the table of findings, {tables}/findings" if tables else ""),
    )
    return Section("Findings", figures=[figure], tables=[table])


def _in_time(result: AuditResult) -> Section:
    """The segments of the largest partitions, each from its first timestamp to its last."""
    largest = sorted(result.partitions, key=lambda row: -row["bytes"])[:ROWS_IN_TIME]
    names = names_of(largest)
    by_partition: dict[tuple[str, str, int], list[Row]] = {place: [] for place in names}
    for row in result.segments:
        if row["first_timestamp"] is not None and place_of(row) in names:
            by_partition[place_of(row)].append(row)
    found = [
        span for place, rows in by_partition.items() for span in _stretches(names[place], rows, result.stamp)
    ]
    if not found:
        return Section("In time", "No batch has a timestamp.")
    figure = spans(
        "Segments in time",
        "Each stretch is a segment, from its first batch's first timestamp to its youngest record; where there are "
        "very many, neighbours are one. The dotted line is the time of the audit: what lies beyond it keeps retention "
        "from deleting the segment. Implausible times are cut off.",
        found,
        _STATES,
        mark=result.stamp.audited_at,
    )
    return Section("In time", figures=[figure])


def _stretches(name: str, rows: Sequence[Row], stamp: Stamp) -> Iterator[Span]:
    """The segments of one partition, several joined where there are too many to be seen."""
    size = -(-len(rows) // STRETCHES_IN_A_ROW) or 1
    latest = stamp.audited_at + timedelta(days=1)
    for at in range(0, len(rows), size):
        together = rows[at : at + size]
        start = max(min(row["first_timestamp"] for row in together), _OLDEST)
        # None where it is outside of datetime's range: the producer counts in micro- or nanoseconds.
        end = min(max(row["last_timestamp"] or latest for row in together), latest)
        states = {_state(row) for row in together}
        yield Span(name, min(start, end), end, next(state for state in _WORST_FIRST if state in states))


def _state(row: Row) -> str:
    if row["errors"]:
        return "with errors"
    if row["warnings"]:
        return "with warnings"
    return "active" if row["is_active"] else "whole"


def _on_disk(result: AuditResult) -> Section:
    topics = by_topic(result.partitions)
    shown = list(topics)[:TOPICS_IN_A_FIGURE]
    codecs = {topic: _codecs(rows) for topic, rows in topics.items()}
    names = sorted({codec for topic in shown for codec in codecs[topic]})
    figure = stacked_bars(
        "Bytes by topic and codec",
        _of_how_many(len(shown), len(topics), "topics"),
        shown,
        [
            Series(name, [codecs[topic][name] for topic in shown], PALETTE[at % len(PALETTE)])
            for at, name in enumerate(names)
        ],
        unit="bytes",
    )
    return Section("On disk", figures=[figure])


def _codecs(rows: Sequence[Row]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row in rows:
        found.update(dict(row["codec_bytes"]))
    return found


def _of_how_many(shown: int, all_of_them: int, what: str) -> str:
    return f"The largest {shown} of {all_of_them} {what}." if shown < all_of_them else f"All {what}."


def _keys(result: AuditResult) -> Section:
    topics = by_topic(result.partitions)
    shown = [topic for topic in topics if any(row["distinct_keys"] for row in topics[topic])][
        :TOPICS_IN_A_FIGURE
    ]
    figures: list[Figure] = []
    if shown:
        distinct = [total(topics[topic], "distinct_keys") for topic in shown]
        more = [
            max(total(topics[topic], "keyed_records") - number, 0)
            for topic, number in zip(shown, distinct, strict=True)
        ]
        figures.append(
            stacked_bars(
                "Keys and records by topic",
                "Distinct keys, counted exactly by their hashes, and what other records there are with the same keys.",
                shown,
                [Series("distinct keys", distinct, GREEN), Series("more records of these", more, GREY)],
                unit="records",
            )
        )
    savings = savings_by_topic(result)
    return Section(
        "Keys, and what compaction would save",
        "If all segments that the log cleaner may compact were compacted now, whatever cleanup.policy says. "
        "More of it: barnabas pipeline compact-report.",
        [*figures, *([savings] if savings else [])],
    )


def _partitions(result: AuditResult) -> Section:
    heads = (
        "log directory",
        "topic",
        "partition",
        "offsets",
        "segments",
        "records",
        "bytes",
        "keys",
        "first record",
        "last record",
        "latest, s",
        "errors",
        "warnings",
    )
    return Section("Partitions", tables=[cut(heads, [_partition(row) for row in result.partitions], "All")])


def _partition(row: Row) -> tuple[Any, ...]:
    return (
        row["log_dir"],
        row["topic"],
        row["partition"],
        f"{row['start_offset']} to {row['end_offset']}",
        row["segments"],
        row["records"],
        in_bytes(row["bytes"]),
        row["distinct_keys"],
        row["first_timestamp"],
        row["last_timestamp"],
        (row["max_lateness_ms"] or 0) / 1000,
        row["errors"],
        row["warnings"],
    )

"""What compaction would save, by topic, partition and segment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.report.figures import BLUE, GREEN, GREY, ORANGE, Figure, Series, in_bytes, stacked_bars
from barnabas.pipeline.report.page import Page, Section, Table
from barnabas.pipeline.report.tables import (
    TOPICS_IN_A_FIGURE,
    by_topic,
    cut,
    log_dirs,
    names_of,
    place_of,
    total,
)
from barnabas.storage.verify.verifier import Severity

if TYPE_CHECKING:
    from barnabas.pipeline.audit.audit import AuditResult
    from barnabas.pipeline.audit.rows import Row

SEGMENTS_IN_A_FIGURE: Final = 60
PARTITIONS_IN_A_FIGURE: Final = 40
_SAVED: Final = "would go"
_KEPT: Final = "would stay"
_LEFT_ALONE: Final = "left alone"
_RULES: Final = (
    "If all segments that the log cleaner may compact were compacted now, whatever cleanup.policy says: of each key "
    "the last record stays, records without a key and those of aborted transactions go, tombstones stay for "
    "delete.retention.ms. The active segment is left alone, and so are the segment in which the oldest open "
    "transaction begins and all after it. Bytes are those on disk, a record having its share of its batch: what is "
    "left of a batch may compress a little worse."
)


def page_of(result: AuditResult) -> Page:
    """The page. Keys have to have been counted."""
    saved, size = total(result.partitions, "saved_bytes"), total(result.partitions, "bytes")
    keyless = sum(row["keyless_records"] for row in result.segments if row["saved_bytes"] is not None)
    errors = result.tally()[Severity.ERROR]
    verdict = f"Compaction would save {in_bytes(saved)} of {in_bytes(size)} ({share(saved, size)})."
    if keyless:
        verdict += f" {keyless:,} records that have no key would be lost by it."
    if errors:
        verdict += f" {damage(errors)}"
    facts = [
        ("topics", f"{len(by_topic(result.partitions)):,}"),
        ("records", f"{result.counts['records']:,}"),
        ("distinct keys", f"{total(result.partitions, 'distinct_keys'):,}"),
        ("records without a key", f"{total(result.partitions, 'keyless_records'):,}"),
        ("of aborted transactions", f"{total(result.partitions, 'aborted_records'):,}"),
        ("tombstones that stay", f"{total(result.partitions, 'kept_tombstones'):,}"),
        ("segments behind open transactions", f"{len(_behind_transactions(result.segments)):,}"),
    ]
    figure = savings_by_topic(result)
    return Page(
        "What compaction would save",
        f"{', '.join(log_dirs(result))}, on {result.stamp.audited_at:%Y-%m-%d at %H:%M:%S} UTC",
        verdict,
        "bad" if errors else "fair" if keyless else "good",
        facts,
        [
            Section("By topic", _RULES, [figure] if figure else [], [_topics(result)]),
            _by_partition(result),
            _by_segment(result),
        ],
    )


def _behind_transactions(segments: Sequence[Row]) -> list[Row]:
    """The closed segments that an open transaction keeps from being compacted."""
    return [row for row in segments if not row["is_active"] and row["saved_bytes"] is None]


def damage(errors: int) -> str:
    """States the effect of damage on the numbers."""
    return f"Errors were found ({errors:,}): what cannot be read is not counted. See barnabas pipeline audit."


def share(part: float, whole: float) -> str:
    """Per cent, as people read it."""
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def savings_by_topic(result: AuditResult) -> Figure | None:
    """The figure; None where there are no cleanable segments whose keys were counted."""
    topics = by_topic(result.partitions)
    shown = [topic for topic, rows in topics.items() if total(rows, "compactable_bytes")][:TOPICS_IN_A_FIGURE]
    if not shown:
        return None
    rows = [topics[topic] for topic in shown]
    return stacked_bars(
        "What compaction would leave, by topic",
        "Bytes on disk. The active segment is never compacted, nor what lies behind an open transaction.",
        shown,
        _stack(
            [total(each, "kept_bytes") for each in rows],
            [total(each, "saved_bytes") for each in rows],
            [_left_alone(each) for each in rows],
        ),
        unit="bytes",
    )


def _left_alone(rows: Sequence[Row]) -> int:
    return max(total(rows, "bytes") - total(rows, "compactable_bytes"), 0)


def _stack(kept: list[int], saved: list[int], left_alone: list[int]) -> list[Series]:
    return [Series(_KEPT, kept, BLUE), Series(_SAVED, saved, ORANGE), Series(_LEFT_ALONE, left_alone, GREY)]


def _topics(result: AuditResult) -> Table:
    heads = (
        "topic",
        "partitions",
        "records",
        "distinct keys",
        "records a key",
        "bytes",
        "would go",
        "share",
        "without key",
    )
    rows = [_topic(topic, each) for topic, each in by_topic(result.partitions).items()]
    return cut(heads, rows, "All topics") if len(rows) > TOPICS_IN_A_FIGURE else Table(heads, rows)


def _topic(topic: str, rows: Sequence[Row]) -> tuple[Any, ...]:
    keyed, distinct = total(rows, "keyed_records"), total(rows, "distinct_keys")
    return (
        topic,
        len(rows),
        total(rows, "records"),
        distinct,
        round(keyed / distinct, 1) if distinct else None,
        in_bytes(total(rows, "bytes")),
        in_bytes(total(rows, "saved_bytes")),
        share(total(rows, "saved_bytes"), total(rows, "bytes")),
        total(rows, "keyless_records"),
    )


def _by_partition(result: AuditResult) -> Section:
    rows = sorted(result.partitions, key=lambda row: -(row["saved_bytes"] or 0))
    shown = [row for row in rows if row["compactable_bytes"]][:PARTITIONS_IN_A_FIGURE]
    names = names_of(shown)
    figures = []
    if shown:
        figures.append(
            stacked_bars(
                "What compaction would leave, by partition",
                "Those with most to save first. Partitions of one topic that differ much have keys that do.",
                [names[place_of(row)] for row in shown],
                _stack(
                    [row["kept_bytes"] for row in shown],
                    [row["saved_bytes"] for row in shown],
                    [_left_alone([row]) for row in shown],
                ),
                unit="bytes",
            )
        )
    heads = ("log directory", "topic", "partition", "records", "distinct keys", "bytes", "would go", "share")
    table = cut(
        heads,
        [
            (
                row["log_dir"],
                row["topic"],
                row["partition"],
                row["records"],
                row["distinct_keys"],
                in_bytes(row["bytes"]),
                in_bytes(row["saved_bytes"] or 0),
                share(row["saved_bytes"] or 0, row["bytes"]),
            )
            for row in rows
        ],
        "All partitions",
    )
    return Section("By partition", figures=figures, tables=[table])


def _by_segment(result: AuditResult) -> Section:
    cleanable = [row for row in result.segments if row["saved_bytes"] is not None]
    heads = ("topic", "partition", "segment", "records", "would stay", "bytes", "would go", "share")
    table = cut(
        heads,
        [
            (
                row["topic"],
                row["partition"],
                f"{row['base_offset']:020d}",
                row["records"],
                row["kept_records"],
                in_bytes(row["bytes"]),
                in_bytes(row["saved_bytes"]),
                share(row["saved_bytes"], row["bytes"]),
            )
            for row in cleanable
        ],
        "All segments that may be compacted",
    )
    return Section("By segment", figures=list(_segments_of_the_largest(cleanable)), tables=[table])


def _segments_of_the_largest(cleanable: Sequence[Row]) -> Iterator[Figure]:
    """The segments of the partition with most to save, oldest first."""
    of: dict[tuple[str, str, int], list[Row]] = {}
    for row in cleanable:
        of.setdefault((row["log_dir"], row["topic"], row["partition"]), []).append(row)
    if not of:
        return
    (_, topic, partition), rows = max(of.items(), key=lambda item: total(item[1], "saved_bytes"))
    shown = rows[-SEGMENTS_IN_A_FIGURE:]
    yield stacked_bars(
        f"The segments of {topic}-{partition}",
        "The partition with most to save, oldest segment first: what the past has that the present has again."
        + (f" The latest {len(shown)} of {len(rows)}." if len(shown) < len(rows) else ""),
        [str(row["base_offset"]) for row in shown],
        [
            Series(_KEPT, [row["kept_bytes"] for row in shown], BLUE),
            Series("without a key", [row["keyless_bytes"] for row in shown], GREEN),
            Series(
                "superseded, or aborted",
                [max(row["saved_bytes"] - row["keyless_bytes"], 0) for row in shown],
                ORANGE,
            ),
        ],
        unit="bytes",
    )

"""The report of the demonstration: the stream, the tables, the quarantine, and the log behind them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.report import audit_report, compact_report
from barnabas.pipeline.report.figures import (
    BLUE,
    GREEN,
    ORANGE,
    PALETTE,
    RED,
    Figure,
    Series,
    columns,
    in_bytes,
    stacked_bars,
)
from barnabas.pipeline.report.page import Page, Section, Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.pipeline.demo.run import Demonstration

_COLOURS: Final = {"malformed": RED, "late": ORANGE}
Rows = list[dict[str, Any]]


def page_of(demo: Demonstration) -> Page:
    """The page."""
    verdict = "Every record that was produced is in a table or in quarantine, exactly once."
    if not demo.is_complete:
        verdict = f"{demo.produced:,} records were produced, and the tables do not have each of them once."
    facts = [
        ("produced", f"{demo.produced:,}"),
        ("in quarantine", f"{demo.quarantined:,}"),
        ("log", in_bytes(demo.audit.counts["bytes"])),
        ("segments", f"{demo.audit.counts['segments']:,}"),
        ("errors in the log", f"{sum(row['severity'] == 'error' for row in demo.audit.findings):,}"),
    ]
    return Page(
        "A shop's week, from producer to table",
        f"The demonstration of Barnabas's data pipeline, in {demo.directory}",
        verdict,
        "good" if demo.is_complete else "bad",
        facts,
        [_stream(demo), _shop(demo), _aside(demo), _places(demo), _log(demo)],
    )


def _stream(demo: Demonstration) -> Section:
    figure = _by_time(
        "Records by hour",
        "By the timestamps of the records, as the tables have them. The last day came after the others were ingested.",
        [{**row, "hour": datetime.fromtimestamp(row["hour"], UTC)} for row in demo.answers["hours"]],
        ("hour", "topic", "records"),
        timedelta(hours=1),
        "records",
    )
    steps = Table(
        ("step", "records", "seconds", "a second"),
        [
            (step.what, step.records, round(step.seconds, 1), round(step.records / max(step.seconds, 1e-9)))
            for step in demo.steps
        ],
        note="Spark's own start, and the first run of each of its plans, are in these times.",
    )
    return Section(
        "The stream",
        "Orders and clicks with keys, headers and JSON values, produced by confluent-kafka with idempotence, lz4 and "
        "zstd; ingested in two runs by Spark's Kafka connector.",
        [figure],
        [steps],
    )


def _shop(demo: Demonstration) -> Section:
    answers = demo.answers
    revenue = [
        {**row, "day": datetime.combine(row["day"], datetime.min.time())} for row in answers["revenue"]
    ]
    figures = [
        _by_time(
            "Revenue by day and country",
            "Of orders that were paid, in euro.",
            revenue,
            ("day", "country", "revenue"),
            timedelta(days=0.9),
            "euro",
        ),
        _bars(
            "How far people come",
            "Sessions and orders with at least one such event.",
            answers["funnel"],
            "step",
            "sessions",
            BLUE,
        ),
        _bars(
            "What sells",
            "Revenue of paid orders by product, in euro.",
            answers["products"],
            "product",
            "revenue",
            GREEN,
        ),
        _bars(
            "How orders stand",
            "By the last record of each order: what a compacted topic would still have.",
            answers["open_orders"],
            "status",
            "orders",
            BLUE,
        ),
    ]
    return Section("What the tables say", "Asked in SQL, of the decoded columns.", figures)


def _aside(demo: Demonstration) -> Section:
    found = demo.answers["quarantine"]
    intended = ", ".join(f"{count:,} {flaw}" for flaw, count in sorted(demo.flawed.items()))
    text = (
        f"The producer made flawed records on purpose: {intended}. They are in quarantine, with the reason."
    )
    if not found:
        return Section("The quarantine", f"{text} But it is empty.")
    topics = sorted({row["topic"] for row in found})
    reasons = sorted({row["reason"] for row in found})
    by_place = {(row["topic"], row["reason"]): row["records"] for row in found}
    figure = stacked_bars(
        "Quarantine by topic and reason",
        "Late: more than twelve hours older than the newest record before the batch.",
        topics,
        [
            Series(
                reason,
                [by_place.get((topic, reason), 0) for topic in topics],
                _COLOURS.get(reason, PALETTE[at % len(PALETTE)]),
            )
            for at, reason in enumerate(reasons)
        ],
        unit="records",
    )
    table = Table(
        ("topic", "reason", "records", "an example"),
        [(row["topic"], row["reason"], row["records"], row["example"]) for row in found],
    )
    return Section("The quarantine", text, [figure], [table])


def _places(demo: Demonstration) -> Section:
    heads = ("topic", "partition", "records", "distinct offsets", "first offset", "last offset")
    return Section(
        "Exactly once",
        "Tables and quarantine together: as many records as offsets, and none between the first and the last missing.",
        tables=[
            Table(
                heads,
                [
                    (
                        row["topic"],
                        row["partition"],
                        row["records"],
                        row["distinct_offsets"],
                        row["first"],
                        row["last"],
                    )
                    for row in demo.answers["offsets"]
                ],
            )
        ],
    )


def _log(demo: Demonstration) -> Section:
    whole = audit_report.page_of(demo.audit)
    figures = [
        figure for section in whole.sections if section.title == "In time" for figure in section.figures
    ]
    savings = compact_report.savings_by_topic(demo.audit)
    return Section(
        "The log",
        f"The broker has stopped, and Spark has read its log directory: {whole.verdict} Orders come several times, "
        "and compaction would leave the last.",
        [*figures, *([savings] if savings else [])],
    )


def _by_time(  # noqa: PLR0917
    title: str, caption: str, rows: Rows, names: tuple[str, str, str], width: timedelta, unit: str
) -> Figure:
    """`names`: of the columns with times, with what is stacked, and with the numbers."""
    time, kind, number = names
    times = sorted({row[time] for row in rows})
    kinds = sorted({row[kind] for row in rows})
    found = {(row[time], row[kind]): float(row[number]) for row in rows}
    series = [
        Series(each, [found.get((moment, each), 0.0) for moment in times], PALETTE[at % len(PALETTE)])
        for at, each in enumerate(kinds)
    ]
    return columns(title, caption, times, series, width=width, unit=unit)


def _bars(  # noqa: PLR0917
    title: str, caption: str, rows: Sequence[dict[str, Any]], name: str, number: str, colour: str
) -> Figure:
    values = [float(row[number]) for row in rows]
    return stacked_bars(
        title, caption, [row[name] for row in rows], [Series(number, values, colour)], unit=number
    )

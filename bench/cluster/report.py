"""The section of docs/performance.md on clusters: medians and spread of both, their ratios, the aims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from bench.cluster.figures import SHOWN, Figure, Group
from bench.cluster.row import Row
from bench.section import Section, Table, number
from bench.side_by_side.contestants import KAFKA, OURS
from bench.side_by_side.figures import Samples
from bench.side_by_side.report import errors_of, numbers_of

NAME: Final = "cluster"
HEADS: Final = ("", "Barnabas", "least to most", "Kafka", "least to most", "ratio", "aim", "met")

_HOW: Final = (
    "Three brokers of one kind and one controller of Apache Kafka make a cluster. Both clusters run at once on "
    "the machine that the clients run on, and are measured in turns: in each round every row on one, then on the "
    "other; the next round begins with the other. {rounds} rounds count, after {warm_ups} that only warm both up. "
    "Figures are medians of the rounds, with the smallest and the largest beside them; ratios (Barnabas to Apache "
    "Kafka) are medians of the rounds' ratios. All JVMs have the heap and the flags of Apache Kafka's own start "
    "script (1 GiB), and both kinds of brokers Apache Kafka's defaults. Clients are librdkafka's, with acks=all; "
    "min.insync.replicas is 2. Each measurement begins when nothing is left on the disk of what the one before "
    "deleted. Before each row of clients and each catch-up free memory of the machine is touched, since a virtual "
    "machine pays for the first touch of a page that its host has taken back."
)
_ROWS: Final = (
    "Leaders are spread over the three brokers, but for the processor time of one broker, where one leads all "
    "partitions and the two others follow. Processor time is that of the whole process during the row, what an "
    "idle broker takes included. Latency is the age of a record when the consumer's application has it. For the "
    "catch-up a reassignment adds a broker to partitions of one replica, until it is in all ISRs; what it fetches "
    "is in the page cache. Memory is that of each broker in a cluster which has done nothing else, five seconds "
    "after the topic was created, and after a load over all partitions (200,000 records of 1 KiB); its spread is "
    "over the brokers."
)
_LEADERS: Final = (
    "For the leaders a topic of 2,000 partitions with three replicas has one broker that leads half of them. It "
    "is killed, and a partition counts as moved when another broker answers ListOffsets as its leader. The "
    "controller waits for broker.session.timeout.ms (9 s) after the last heartbeat, of which there is one every 2 "
    "s: that is part of the time from the kill on, and says nothing about a broker. So the time that is judged "
    "begins when the controller logs that it fences the broker. At most {kills} rounds count."
)


class Judged(NamedTuple):
    """A line of a table, and whether its aim is met; None where there is no aim, or no ratio."""

    cells: Sequence[str]
    is_met: bool | None


def section(samples: Samples, rows: Sequence[Row], options: Mapping[str, str], kills: int) -> Section:
    """The tables of all rows that were measured on ours. `kills` is the most rounds of the row of the leaders."""
    by_group = {group: _lines(samples, [row for row in rows if row.group is group]) for group in Group}
    tables = [
        Table(HEADS, [line.cells for line in lines], group.value)
        for group, lines in by_group.items()
        if lines
    ]
    verdicts = [line.is_met for lines in by_group.values() for line in lines if line.is_met is not None]
    names = [row.name for row in rows]
    how = _HOW.format(rounds=options["rounds"], warm_ups=options["rounds to warm up"])
    return Section(
        name=NAME,
        title="A cluster of three brokers, beside the same of Apache Kafka",
        prose=[how, _ROWS, _LEADERS.format(kills=kills), _summary(samples, verdicts)],
        tables=tables,
        figures=_figures(samples, rows) | {"aims met": float(sum(verdicts)), "aims": float(len(verdicts))},
        options=options,
        remarks=errors_of(samples, names),
    )


def _summary(samples: Samples, verdicts: Sequence[bool]) -> str:
    missing = number(samples.missing(OURS) + samples.missing(KAFKA), 0)
    return (
        f"{sum(verdicts)} of {len(verdicts)} aims are met. An aim bounds the ratio to Apache Kafka. {missing} "
        "acknowledged records were missing at the end of any row, of either cluster."
    )


def _lines(samples: Samples, rows: Sequence[Row]) -> list[Judged]:
    return [
        judged(samples, row, figure)
        for row in rows
        for figure in SHOWN[row.group]
        if samples.median(row.name, OURS, figure.name) is not None
    ]


def judged(samples: Samples, row: Row, figure: Figure) -> Judged:
    """The line of one figure of one row."""
    ratio, target = samples.ratio(row.name, figure.name, OURS, KAFKA), figure.target(row.name)
    is_met = None if target is None or ratio is None else target.is_kept(ratio)
    cells = [
        f"{row.title}: {figure.head}",
        *(cell for who in (OURS, KAFKA) for cell in _cells(samples, row, who, figure)),
        "-" if ratio is None else f"{number(ratio, 2)} x",
        "-" if target is None else target.text,
        {True: "yes", False: "**no**", None: "-"}[is_met],
    ]
    return Judged(cells, is_met)


def _cells(samples: Samples, row: Row, who: str, figure: Figure) -> tuple[str, str]:
    """The median and the spread."""
    extremes = samples.extremes(row.name, who, figure.name)
    median = number(samples.median(row.name, who, figure.name), figure.digits)
    return median, "-" if extremes is None else " to ".join(number(each, figure.digits) for each in extremes)


def _figures(samples: Samples, rows: Sequence[Row]) -> dict[str, float]:
    return {
        name: value
        for row in rows
        for name, value in numbers_of(samples, row.name, [figure.name for figure in SHOWN[row.group]])
    }

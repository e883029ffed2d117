"""The common part of an audit's reports: rows by topic, names of partitions, tables that are cut."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from barnabas.pipeline.report.page import Table

if TYPE_CHECKING:
    from barnabas.pipeline.audit.audit import AuditResult
    from barnabas.pipeline.audit.rows import Row

TOPICS_IN_A_FIGURE: Final = 25
ROWS_IN_A_TABLE: Final = 1000


def log_dirs(result: AuditResult) -> list[str]:
    return sorted({row["log_dir"] for row in (*result.partitions, *result.findings)})


def by_topic(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows of each topic, the topic with most bytes first."""
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["topic"]].append(row)
    return dict(sorted(found.items(), key=lambda item: -total(item[1], "bytes")))


def total(rows: Sequence[Row], column: str) -> int:
    """The sum of a column, nulls left out."""
    return sum(row[column] or 0 for row in rows)


def left_out(left: int, table: str = "") -> str:
    """A note on the rows that the page leaves out; `table`: a table that has them."""
    if left <= 0:
        return ""
    return (
        f"{left:,} more are in {table}."
        if table
        else f"{left:,} more are not shown: --tables DIR writes all of them."
    )


def place_of(row: Row) -> tuple[str, str, int]:
    """Identifies the partition of a row among those of several brokers."""
    return row["log_dir"], row["topic"], row["partition"]


def names_of(rows: Sequence[Row]) -> dict[tuple[str, str, int], str]:
    """The display names of partitions: with the part of their log directories in which these differ."""
    directories = {row["log_dir"] for row in rows}
    common = os.path.commonpath(directories) if len(directories) > 1 else ""
    return {
        place_of(row): (f"{os.path.relpath(row['log_dir'], common)}/" if common else "")
        + f"{row['topic']}-{row['partition']}"
        for row in rows
    }


def cut(heads: Sequence[str], rows: Sequence[Sequence[object]], title: str) -> Table:
    """A folded table of the first rows, which says how many it leaves out."""
    note = left_out(len(rows) - ROWS_IN_A_TABLE)
    return Table(heads, rows[:ROWS_IN_A_TABLE], title, note, is_long=True)

"""The result of a benchmark: a section of docs/performance.md, with its tables and figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Table:
    """Cells are text: `number()` writes one. The first column is aligned to the left."""

    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            assert len(row) == len(self.heads), f"{len(row)} cells under {len(self.heads)} heads: {row}"


@dataclass(frozen=True)
class Section:
    """One heading of docs/performance.md with its contents."""

    name: str
    title: str
    prose: Sequence[str] = ()
    tables: Sequence[Table] = ()
    figures: Mapping[str, float] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)
    """Left empty by benchmarks: `publish` asks the machine."""
    remarks: Sequence[str] = ()
    """Below the tables: what somebody has to know who reads them."""


def number(value: float | None, digits: int | None = None) -> str:
    """Formats a figure: about three digits unless the decimals are given; `-` for None."""
    if value is None or math.isnan(value):
        return "-"
    if digits is None:
        size = abs(value)
        digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{value:,.{digits}f}"

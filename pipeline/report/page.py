"""The page of a report: sections of text, figures and tables, as one HTML file."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from barnabas.pipeline.report.figures import Figure

TEMPLATE: Final = "page.html.j2"


@dataclass(frozen=True, slots=True)
class Table:
    """A table; numbers stand to the right. `is_long`: it is folded at first. `note`: what it leaves out."""

    heads: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""
    note: str = ""
    is_long: bool = False

    def numeric_columns(self) -> list[bool]:
        """Which columns have numbers and nothing else."""
        return [self.numeric(column) for column in range(len(self.heads))]

    def numeric(self, column: int) -> bool:
        values = [row[column] for row in self.rows if row[column] is not None]
        return bool(values) and all(isinstance(value, (int, float)) or is_amount(value) for value in values)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: text, then figures, then tables."""

    title: str
    text: str = ""
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A report. `verdict` is its one sentence, `tone` one of good, fair and bad; `facts` are numbers with names."""

    title: str
    subtitle: str
    verdict: str
    tone: str
    facts: Sequence[tuple[str, str]] = ()
    sections: Sequence[Section] = field(default_factory=tuple)


def is_amount(value: object) -> bool:
    """Whether a text is a number with a unit: it stands to the right, too."""
    return (
        isinstance(value, str)
        and value[:1].isdigit()
        and len(value.split()) <= 2
        and ":" not in value
        and "-" not in value
    )


def cell(value: object) -> str:
    """A value as a table shows it."""
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.2f}"
        case datetime():
            return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    return str(value)


def render(page: Page) -> str:
    """The page as HTML. Everything that comes from data is escaped; the figures are our own SVG."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("barnabas.pipeline.report", "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = cell
    return environment.get_template(TEMPLATE).render(page=page)


def write(page: Page, path: Path) -> Path:
    """Writes the page; the file is there as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")  # an unused name
    temporary.write_text(render(page), encoding="utf-8")
    return temporary.replace(path)

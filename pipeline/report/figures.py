"""Draws figures by matplotlib as SVG with text as text, which can be searched, copied, printed and read aloud."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

Axes = Any
"""Any, since matplotlib's stubs are wrong about dates, among others."""

BLUE, ORANGE, GREEN, RED, GREY, PURPLE, SKY, YELLOW = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#d55e00",
    "#9aa0a6",
    "#cc79a7",
    "#56b4e9",
    "#f0e442",
)
PALETTE: Final = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, RED, GREY)
"""Okabe and Ito's palette, which is distinguishable with colour blindness."""

_WIDTH_INCHES: Final = 9.6
_ROW_INCHES: Final = 0.28
_PAD_INCHES: Final = 0.12
_LEGEND_COLUMNS: Final = 6
_STYLE: Final[Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a dollar in a name does not begin mathematical text
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e3e6e8",
    "legend.frameon": False,
}
_PROLOGUE: Final = re.compile(r"^.*?(?=<svg)", re.DOTALL)


class Figure(NamedTuple):
    """A figure in a report; `alt` describes it in a sentence."""

    title: str
    caption: str
    alt: str
    svg: str


class Series(NamedTuple):
    """One colour of a stack of bars: a number for each row."""

    name: str
    values: Sequence[float]
    colour: str


class Span(NamedTuple):
    """A stretch of time in a row."""

    row: str
    start: datetime
    end: datetime
    kind: str


def draw(title: str, caption: str, alt: str, paint: Callable[[Axes], None], *, height: float = 3.0) -> Figure:
    """A figure of one pair of axes, `height` in inches."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Canvas

    with mpl.rc_context({**_STYLE, "svg.hashsalt": title}):
        canvas = Canvas(figsize=(_WIDTH_INCHES, height))
        # A reader's font may be wider than the one of the layout.
        canvas.set_layout_engine("constrained", w_pad=_PAD_INCHES, h_pad=_PAD_INCHES / 2)
        paint(canvas.add_subplot())
        text = io.StringIO()
        canvas.savefig(text, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return Figure(title, caption, alt, _PROLOGUE.sub("", text.getvalue()))


def stacked_bars(
    title: str,
    caption: str,
    rows: Sequence[str],
    series: Sequence[Series],
    *,
    unit: str,
) -> Figure:
    """Horizontal bars, the first row on top. `unit`: what the numbers are of, "bytes" for those."""
    shown = [each for each in series if any(each.values)]

    def paint(axes: Axes) -> None:
        left = [0.0] * len(rows)
        for each in shown:
            axes.barh(
                range(len(rows)), each.values, left=left, color=each.colour, label=each.name, height=0.7
            )
            left = [a + b for a, b in zip(left, each.values, strict=True)]
        axes.set_yticks(range(len(rows)), labels=[_shortened(row) for row in rows])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        _label_numbers(axes, unit)
        if len(shown) > 1:
            axes.figure.legend(loc="outside lower center", ncols=_LEGEND_COLUMNS)

    alt = f"{title}: " + "; ".join(
        f"{row}: " + ", ".join(f"{each.name} {in_unit(each.values[at], unit)}" for each in shown)
        for at, row in enumerate(rows[:12])
    )
    return draw(title, caption, alt, paint, height=1.3 + _ROW_INCHES * max(len(rows), 2))


def columns(
    title: str,
    caption: str,
    times: Sequence[datetime],
    series: Sequence[Series],
    *,
    width: timedelta,
    unit: str,
) -> Figure:
    """Upright bars over time, stacked, each as wide as `width`."""

    def paint(axes: Axes) -> None:
        bottom = [0.0] * len(times)
        for each in series:
            axes.bar(
                times,
                each.values,
                width=width,
                bottom=bottom,
                color=each.colour,
                label=each.name,
                align="edge",
            )
            bottom = [a + b for a, b in zip(bottom, each.values, strict=True)]
        _label_times(axes)
        axes.set_ylabel(unit)
        axes.grid(visible=False, axis="x")
        if len(series) > 1:
            axes.figure.legend(loc="outside lower center", ncols=_LEGEND_COLUMNS)

    total = {each.name: sum(each.values) for each in series}
    alt = f"{title}: " + ", ".join(f"{name} {value:,.0f} {unit}" for name, value in total.items())
    return draw(title, caption, alt, paint, height=3.4)


def spans(
    title: str,
    caption: str,
    found: Sequence[Span],
    colours: Mapping[str, str],
    *,
    mark: datetime | None = None,
) -> Figure:
    """Stretches of time, a row for each name, coloured by kind; `mark` is a line at a moment."""
    rows = list(dict.fromkeys(span.row for span in found))
    first, last = min(span.start for span in found), max(span.end for span in found)
    least = max((last - first) / 400, timedelta(milliseconds=1))  # a shorter one would not be visible

    def paint(axes: Axes) -> None:
        for kind, colour in colours.items():
            mine = [span for span in found if span.kind == kind]
            if mine:
                axes.barh(
                    [rows.index(span.row) for span in mine],
                    [max(span.end - span.start, least) for span in mine],
                    left=[span.start for span in mine],
                    height=0.7,
                    color=colour,
                    edgecolor="white",
                    linewidth=0.4,
                    label=kind,
                )
        if mark is not None:
            axes.axvline(mark, color="black", linewidth=0.8, linestyle=":")
        axes.set_yticks(range(len(rows)), labels=[_shortened(row) for row in rows])
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        _label_times(axes)
        axes.figure.legend(loc="outside lower center", ncols=_LEGEND_COLUMNS)

    alt = f"{title}: {len(found)} stretches in {len(rows)} rows, from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}"
    return draw(title, caption, alt, paint, height=1.4 + _ROW_INCHES * max(len(rows), 2))


def _shortened(name: str, limit: int = 42) -> str:
    """Cuts the middle out of a long name: the names of one topic's partitions differ at their ends."""
    if len(name) <= limit:
        return name
    end = limit // 2
    return f"{name[: limit - end - 1]}…{name[-end:]}"


def _label_times(axes: Axes) -> None:
    from matplotlib import dates

    untyped: Any = dates
    locator = untyped.AutoDateLocator()
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator))


def _label_numbers(axes: Axes, unit: str) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

    if unit == "bytes":
        axes.xaxis.set_major_locator(MultipleLocator(binary_step(axes.get_xlim()[1])))
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: in_unit(value, unit, bare=True)))
    axes.set_xlabel("" if unit == "bytes" else unit)


def binary_step(limit: float) -> int:
    """The power of two that cuts 0 to `limit` into three to six pieces, or 1."""
    step = 1
    while limit / step > 6:
        step *= 2
    return step


def in_unit(value: float, unit: str, *, bare: bool = False) -> str:
    """A number as people read it: bytes in binary units, others with commas and, unless `bare`, the unit behind."""
    if unit == "bytes":
        return in_bytes(value)
    text = f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:,.2f}"
    return text if bare else f"{text} {unit}"


def in_bytes(value: float) -> str:
    """Bytes in the largest binary unit that leaves more than one."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            return f"{value:,.0f} {unit}" if unit == "B" or value >= 100 else f"{value:,.1f} {unit}"
        value /= 1024
    raise AssertionError("not reached")

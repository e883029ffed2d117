"""The target for each ratio to Apache Kafka, and the rule for rows without one."""

from __future__ import annotations

from typing import Final, NamedTuple

MORE_IS_BETTER: Final = frozenset({"rate", "mb_s"})


class Target(NamedTuple):
    """A ratio to Apache Kafka as a lower or upper bound."""

    row: str
    figure: str
    ratio: float

    @property
    def text(self) -> str:
        """As one says it."""
        return f"{'at least' if self.figure in MORE_IS_BETTER else 'at most'} {self.ratio:g} x"

    def is_kept(self, ratio: float) -> bool:
        """Whether a measured ratio is good enough."""
        return ratio >= self.ratio if self.figure in MORE_IS_BETTER else ratio <= self.ratio


def _both(rows: str, rate: float, cpu: float) -> list[Target]:
    return [
        target for row in rows.split() for target in (Target(row, "rate", rate), Target(row, "cpu_us", cpu))
    ]


def _end_to_end(row: str) -> list[Target]:
    return [Target(row, "p50_ms", 0.8), Target(row, "p99_ms", 0.6), Target(row, "cpu_us", 0.6)]


TARGETS: Final[tuple[Target, ...]] = (
    *_both("produce-1k", 1.5, 0.5),
    *_both("produce-16k", 1.2, 0.7),
    *_both("produce-100", 1.0, 0.5),
    *_both("produce-lz4 produce-zstd", 1.05, 0.6),
    *_both("produce-200p", 2.5, 0.4),
    *_both("consume-1k consume-100", 1.0, 1.0),
    *_both("consume-200p", 2.0, 1.0),
    *_both("small", 1.5, 0.4),
    *_end_to_end("latency-200"),
    *_end_to_end("latency-1000"),
    Target("catch-up", "rate", 1.0),
    Target("processes", "start_s", 0.15),
    Target("processes", "idle_mib", 0.16),
    Target("processes", "loaded_mib", 0.2),
    Target("processes", "restart_s", 0.15),
)

AHEAD: Final = {
    "produce": ("rate", "cpu_us", "peak_mib"),
    "consume": ("rate", "cpu_us", "peak_mib"),
    "latency": ("p50_ms", "p99_ms", "cpu_us", "peak_mib"),
}
"""What every row has to be ahead in, by part, where the table says nothing stricter."""


def targets_of(row: str, part: str) -> list[Target]:
    """The row's own targets, and to be ahead in the other figures."""
    own = [target for target in TARGETS if target.row == row]
    named = {target.figure for target in own}
    return own + [Target(row, figure, 1.0) for figure in AHEAD.get(part, ()) if figure not in named]

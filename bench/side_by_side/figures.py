"""Samples of rounds, and their medians, percentiles and ratios."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sample:
    """One workload on one broker in one round; rounds that only warm up have numbers below 1."""

    row: str
    broker: str
    round: int
    figures: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    @property
    def counts(self) -> bool:
        """Whether medians include the sample."""
        return self.round > 0 and not self.error


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of all does not exceed (nearest rank); nan of nothing."""
    if not values:
        return math.nan
    return sorted(values)[max(math.ceil(len(values) * share) - 1, 0)]


class Samples:
    """All samples of a run."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self.all = list(samples)

    def of(self, row: str, broker: str) -> dict[int, Sample]:
        """The samples that count, by round."""
        return {
            sample.round: sample
            for sample in self.all
            if sample.row == row and sample.broker == broker and sample.counts
        }

    def median(self, row: str, broker: str, figure: str) -> float | None:
        """The median over the rounds; None without samples."""
        values = self._values(row, broker, figure)
        return statistics.median(values) if values else None

    def extremes(self, row: str, broker: str, figure: str) -> tuple[float, float] | None:
        """The smallest and the largest value of the rounds; None without samples."""
        values = self._values(row, broker, figure)
        return (min(values), max(values)) if values else None

    def _values(self, row: str, broker: str, figure: str) -> list[float]:
        return [
            sample.figures[figure] for sample in self.of(row, broker).values() if figure in sample.figures
        ]

    def worst(self, row: str, broker: str, figure: str) -> float | None:
        """The largest value of all rounds, warming up included: for values that must never occur."""
        values = [
            sample.figures[figure]
            for sample in self.all
            if sample.row == row and sample.broker == broker and figure in sample.figures
        ]
        return max(values) if values else None

    def ratio(self, row: str, figure: str, ours: str, theirs: str) -> float | None:
        """The median of the rounds' ratios: a disturbed round affects both brokers."""
        base = self.of(row, theirs)
        ratios = [
            sample.figures[figure] / base[number].figures[figure]
            for number, sample in self.of(row, ours).items()
            if figure in sample.figures and number in base and base[number].figures.get(figure)
        ]
        return statistics.median(ratios) if ratios else None

    @property
    def disturbance(self) -> float:
        """The median share of the machine that neither broker nor clients used."""
        shares = [sample.figures["others"] for sample in self.all if "others" in sample.figures]
        return statistics.median(shares) if shares else 0.0

    def missing(self, broker: str) -> float:
        """Messages, of all rows and rounds."""
        return sum(sample.figures.get("missing", 0.0) for sample in self.all if sample.broker == broker)

    def errors(self, row: str, broker: str) -> list[str]:
        """The errors, by their last lines."""
        return [
            sample.error.strip().splitlines()[-1]
            for sample in self.all
            if sample.row == row and sample.broker == broker and sample.error
        ]

"""Times small steps in many short rounds, of which the best and the median count."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeVar

ROUND_S: Final = 0.002
"""Short, so that one is found in which nothing else had the processor, and long for the clock."""
LEAST_ROUNDS: Final = 5

T = TypeVar("T")


class Figure(NamedTuple):
    """Microseconds of one call."""

    best_us: float
    median_us: float


def timed(call: Callable[[], object], seconds: float, most_calls: int = 10**9) -> Figure:
    """Calls again and again for `seconds`, at most `most_calls` times, which is for calls that fill a disk."""
    count = max(1, min(_calls_in_a_round(call, most_calls), most_calls // LEAST_ROUNDS))
    rounds = range(count)
    taken: list[float] = []
    deadline = time.perf_counter() + seconds
    while len(taken) < LEAST_ROUNDS or (time.perf_counter() < deadline and len(taken) * count < most_calls):
        started = time.perf_counter()
        for _ in rounds:
            call()
        taken.append((time.perf_counter() - started) / count)
    return _figure(taken)


def timed_each(make: Callable[[], Sequence[T]], call: Callable[[T], object], rounds: int) -> Figure:
    """Times calls with changing arguments: `make` prepares those of each round before it starts."""
    taken = []
    for _ in range(rounds):
        items = make()
        started = time.perf_counter()
        for item in items:
            call(item)
        taken.append((time.perf_counter() - started) / len(items))
    return _figure(taken)


def _calls_in_a_round(call: Callable[[], object], most: int) -> int:
    """Makes the call a few times, which also warms it up."""
    count, started = 0, time.perf_counter()
    while time.perf_counter() - started < ROUND_S and count < most // LEAST_ROUNDS:
        call()
        count += 1
    return count


def _figure(seconds: Sequence[float]) -> Figure:
    return Figure(min(seconds) * 1e6, statistics.median(seconds) * 1e6)

"""Throttler: bytes per second, by a clock that only the throttler moves."""

from __future__ import annotations

import pytest

from barnabas.storage.cleaner.throttler import LONGEST_SLEEP_S, Throttler


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.sleeps: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.now += seconds


def throttler(rate: float, clock: Clock) -> Throttler:
    return Throttler(rate, clock=clock, sleep=clock.sleep, check=lambda: None)


def test_no_limit_never_waits() -> None:
    clock = Clock()
    throttle = throttler(float("inf"), clock)
    for _ in range(5):
        throttle.observe(1 << 40)
    assert clock.sleeps == []


@pytest.mark.parametrize("size", [1, 100, 30_000, 5_000_000])
def test_the_rate_holds_for_pieces_of_any_size(size: int) -> None:
    clock = Clock()
    throttle = throttler(10_000.0, clock)
    pieces = max(200_000 // size, 2)
    for _ in range(pieces):
        throttle.observe(size)
    assert pieces * size / 10_000 * 0.9 - 0.4 <= clock.now - 100 <= pieces * size / 10_000 * 1.01
    assert max(clock.sleeps) <= LONGEST_SLEEP_S


def test_work_below_the_rate_is_not_throttled() -> None:
    clock = Clock()
    throttle = throttler(10_000.0, clock)
    for _ in range(20):
        clock.now += 1
        throttle.observe(5000)
    assert clock.sleeps == []

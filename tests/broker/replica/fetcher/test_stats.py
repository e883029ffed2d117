"""Rates over the last minute."""

from __future__ import annotations

import pytest

from barnabas.broker.replica.fetcher.stats import OneMinuteRate
from tests.broker.fakes import ManualTimer


def test_a_steady_rate_is_shown() -> None:
    timer = ManualTimer()
    rate = OneMinuteRate(timer.time)
    assert rate.value == 0
    for _ in range(600):
        timer.advance(0.5)
        rate.mark()
    assert rate.value == pytest.approx(2.0, rel=0.05)


def test_it_falls_to_a_third_in_a_minute() -> None:
    timer = ManualTimer()
    rate = OneMinuteRate(timer.time)
    rate.mark(100)
    timer.advance(5)
    assert rate.value == 20
    timer.advance(60)
    assert rate.value == pytest.approx(20 / 2.71828, rel=0.01)

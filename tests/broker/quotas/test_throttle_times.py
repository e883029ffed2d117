"""ThrottleTimes."""

from __future__ import annotations

from barnabas.broker.quotas.throttle_times import ThrottleTimes


def test_the_average_is_of_this_window_and_the_last() -> None:
    times = ThrottleTimes()
    assert times.average_ms(0) == 0.0
    times.add(10, 100_000)
    times.add(20, 101_000)
    assert times.average_ms(101_000) == 15.0
    times.add(60, 130_000)
    assert times.average_ms(131_000) == 30.0
    assert times.average_ms(160_000) == 60.0
    assert times.average_ms(300_000) == 0.0
    assert times.count == 3

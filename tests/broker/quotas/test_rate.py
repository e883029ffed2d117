"""Rate. tests/conformance/test_quotas.py compares it with Kafka's, event by event."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.quotas.rate import LONGEST_THROTTLE_MS, Rate, throttle_ms

BEGAN = 1_000_000


def test_missing_windows_count_as_empty_ones() -> None:
    rate = Rate(11, 1000)
    assert rate.measure(BEGAN) == 0.0
    rate.record(500, BEGAN)
    assert rate.window_size_ms(BEGAN) == 10_000
    assert rate.measure(BEGAN) == 50.0
    assert rate.measure(BEGAN + 10_000) == 50.0
    assert rate.measure(BEGAN + 10_500) == pytest.approx(500 / 10.5)


def test_a_sample_is_dropped_when_nothing_was_recorded_in_it_for_all_windows() -> None:
    rate = Rate(3, 1000)
    rate.record(30, BEGAN)
    rate.record(30, BEGAN + 999)
    rate.record(60, BEGAN + 1000)
    assert rate.measure(BEGAN + 3998) == pytest.approx(120 / 3.998)
    assert rate.measure(BEGAN + 3999) == pytest.approx(60 / 2.999)
    assert rate.measure(BEGAN + 4000) == 0.0


def test_samples_are_used_again() -> None:
    rate = Rate(2, 1000)
    for second in range(10):
        rate.record(10, BEGAN + 1000 * second)
    assert len(rate._kept) == 3 * 3
    assert rate.measure(BEGAN + 9000) == pytest.approx(20 / 1.0)


def test_what_is_taken_back_does_not_count() -> None:
    rate = Rate(11, 1000)
    rate.record(700, BEGAN)
    rate.record(-700, BEGAN)
    assert rate.measure(BEGAN) == 0.0


def test_throttled_until_the_rate_is_down_to_the_limit() -> None:
    rate = Rate(11, 1000)
    rate.record(10_000, BEGAN)
    assert rate.throttle_time_ms(1000, BEGAN) == 0
    rate.record(1, BEGAN)
    assert rate.throttle_time_ms(1000, BEGAN) == 1
    rate.record(4999, BEGAN)
    assert rate.throttle_time_ms(1000, BEGAN) == 5000
    assert rate.throttle_time_ms(1000, BEGAN + 2000) == 5000  # the window does not grow before it is full
    assert rate.throttle_time_ms(1000, BEGAN + 10_900) == 4100


def test_a_single_window_begins_with_a_millisecond() -> None:
    rate = Rate(1, 1000)
    rate.record(5, BEGAN)
    assert rate.window_size_ms(BEGAN) == 1
    assert rate.measure(BEGAN) == 5000.0


def test_a_limit_of_none_throttles_for_the_longest_time() -> None:
    rate = Rate(11, 1000)
    assert rate.throttle_time_ms(0, BEGAN) == 0
    rate.record(1, BEGAN)
    assert rate.throttle_time_ms(0, BEGAN) == LONGEST_THROTTLE_MS


@pytest.mark.parametrize(
    ("exact", "whole"),
    [
        (0.49999999999999994, 0),
        (0.5, 1),
        (1.5, 2),
        (2.5, 3),
        (-3.0, 0),
        (1e300, LONGEST_THROTTLE_MS),
        (float("inf"), LONGEST_THROTTLE_MS),
        (float("nan"), LONGEST_THROTTLE_MS),
    ],
)
def test_times_are_rounded_as_in_java(exact: float, whole: int) -> None:
    assert throttle_ms(exact) == whole


@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(0, 4000), st.integers(-100, 1000)), max_size=60),
)
def test_a_rate_is_what_a_list_of_all_events_says(samples: int, events: list[tuple[int, int]]) -> None:
    """A model without samples that are used again: those that are over are in a list, the newest last."""
    rate, window_ms = Rate(samples, 1000), 1000
    model: list[list[float]] = []
    now = BEGAN
    for pause, value in events:
        now += pause
        rate.record(value, now)
        if not model or now - model[-1][0] >= window_ms:
            model = [*model[-samples:], [now, now, 0]]
        model[-1][1] = now
        model[-1][2] += value
        model = [[now, now, 0] if now - sample[1] >= samples * window_ms else sample for sample in model]
        began = min(sample[0] for sample in model)
        missing = max(0, samples - 1 - (now - began) // window_ms)
        elapsed = max(1, now - began + missing * window_ms)
        assert rate.measure(now) == pytest.approx(sum(sample[2] for sample in model) / elapsed * 1000)

"""The limit on the rate of replication, and of copies between log directories."""

from __future__ import annotations

import random

import pytest

from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
from tests.broker.fakes import ManualTimer

SAMPLES = 11
WINDOW_S = 1.0
RATE = 1_000
"""Bytes a second."""


def quota_of(bytes_per_second: int, timer: ManualTimer) -> ReplicationQuota:
    return ReplicationQuota(lambda: bytes_per_second, samples=SAMPLES, window_s=WINDOW_S, clock=timer.time)


def test_the_first_window_passes_at_once() -> None:
    timer = ManualTimer()
    quota = quota_of(100, timer)
    assert quota.delay_s() == 0
    quota.record(100)  # one second's worth
    assert quota.delay_s() == 0
    quota.record(50)
    assert quota.delay_s() == 1.5


def test_a_copy_waits_until_the_rate_is_below_the_limit() -> None:
    timer = ManualTimer()
    quota = quota_of(100, timer)
    quota.record(1080)
    assert round(quota.delay_s(), 6) == 10.8
    timer.advance(10.7)
    assert round(quota.delay_s(), 6) == 0.1
    timer.advance(0.11)
    assert quota.delay_s() == 0


def test_expired_windows_do_not_count() -> None:
    timer = ManualTimer()
    quota = quota_of(100, timer)
    quota.record(1_000_000)
    assert quota.delay_s() == 11.0
    timer.advance(11.0)
    assert quota.delay_s() == 0
    quota.record(10)
    assert quota.delay_s() == 0


def test_a_window_counts_until_its_last_bytes_are_too_old() -> None:
    timer = ManualTimer()
    quota = quota_of(100, timer)
    quota.record(1_000_000)
    timer.advance(0.5)
    quota.record(1)
    assert quota.delay_s() == 11.0
    timer.advance(10.9)
    assert quota.delay_s() > 0
    timer.advance(0.1)
    assert quota.delay_s() == 0


def test_windows_expire_one_by_one() -> None:
    timer = ManualTimer()
    quota = quota_of(100, timer)
    for _ in range(11):
        quota.record(100)
        timer.advance(1.0)
    assert quota.delay_s() == 0
    quota.record(100)
    quota.record(100)
    assert quota.delay_s() > 0


def test_a_rate_of_zero_lets_nothing_pass() -> None:
    timer = ManualTimer()
    quota = quota_of(0, timer)
    quota.record(1)
    assert quota.delay_s() == 11.0


def test_a_changed_limit_applies_at_once() -> None:
    timer = ManualTimer()
    limit = 100
    quota = ReplicationQuota(lambda: limit, samples=11, window_s=1.0, clock=timer.time)
    quota.record(500)
    assert quota.delay_s() > 0
    limit = 1000
    assert quota.delay_s() == 0


def test_the_rate_is_that_which_the_limit_applies_to() -> None:
    timer = ManualTimer()
    quota = quota_of(RATE, timer)
    assert quota.byte_rate == 0
    quota.record(1000)
    assert quota.byte_rate == 1000 / WINDOW_S
    timer.advance(4.0)
    assert quota.byte_rate == 250
    timer.advance(60)
    assert quota.byte_rate == 0


def test_a_pause_saves_up_no_more_than_a_window() -> None:
    timer = ManualTimer()
    quota = quota_of(RATE, timer)
    for pause_s in (0, 11, 60, 3_600):
        timer.advance(pause_s)
        passed = 0
        while quota.delay_s() == 0:
            quota.record(10)
            passed += 10
        assert passed == RATE * WINDOW_S + 10


def test_what_is_only_counted_takes_no_more_memory_over_time() -> None:
    """A leader counts what replicas in sync are sent without ever asking for the delay."""
    timer = ManualTimer()
    quota = quota_of(RATE, timer)
    for _ in range(100):
        quota.record(1)
        timer.advance(1.0)
    assert len(quota._samples) <= SAMPLES + 1


class Model:
    """The rate by the definition of SimpleRate, from the whole history."""

    def __init__(self) -> None:
        self.samples: list[list[tuple[float, int]]] = []

    def record(self, now: float, size: int) -> None:
        if not self.samples or now - self.samples[-1][0][0] >= WINDOW_S:
            self.samples.append([])
        self.samples[-1].append((now, size))

    def rate(self, now: float) -> float:
        counted = [sample for sample in self.samples if now - sample[-1][0] < SAMPLES * WINDOW_S]
        if not counted:
            return 0.0
        return sum(size for sample in counted for _, size in sample) / max(now - counted[0][0][0], WINDOW_S)


@pytest.mark.parametrize("seed", range(20))
def test_any_traffic_passes_exactly_while_the_measured_rate_allows_it(seed: int) -> None:
    rng, timer, model = random.Random(seed), ManualTimer(), Model()
    quota = quota_of(RATE, timer)
    for _ in range(2_000):
        # quarters of a second: exact in binary, so that the two compute the same
        timer.advance(rng.choice((0, 0.25, 0.25, 0.5, 1, 3, 12)) if rng.random() < 0.5 else 0)
        delay_s = quota.delay_s()
        assert (delay_s == 0) is (model.rate(timer.time()) <= RATE), f"{seed=}"
        if delay_s:
            assert model.rate(timer.time() + delay_s / 2) > RATE, f"{seed=}: earlier than said"
        if delay_s == 0 or rng.random() < 0.05:  # some of what is counted asks for no leave
            size = rng.choice((1, 50, 250, 1_000, 4_000))
            quota.record(size)
            model.record(timer.time(), size)


@pytest.mark.parametrize("seed", range(20))
def test_the_rate_of_much_traffic_is_held_within_a_tenth(seed: int) -> None:
    rng, timer = random.Random(seed), ManualTimer()
    quota = quota_of(RATE, timer)
    passed: list[tuple[float, int]] = []
    began = timer.time()
    while timer.time() < began + 60:
        if (delay_s := quota.delay_s()) > 0:
            timer.advance(delay_s)
            continue
        size = rng.randint(1, RATE // 4)
        quota.record(size)
        passed.append((timer.time() - began, size))
        timer.advance(rng.choice((0, 0.001, 0.05)))

    def rate(start_s: float, end_s: float) -> float:
        return sum(size for at, size in passed if start_s <= at < end_s) / (end_s - start_s)

    for end_s in range(3, 60):  # the first window's worth passes at once
        assert rate(0, end_s) == pytest.approx(RATE, rel=0.1), f"{seed=}, the first {end_s} s"
    for start_s in range(2, 55):
        assert rate(start_s, start_s + 5) == pytest.approx(RATE, rel=0.1), f"{seed=}, from {start_s} s on"

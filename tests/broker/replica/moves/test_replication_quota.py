"""The limit on the rate of copies between log directories."""

from __future__ import annotations

from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
from tests.broker.fakes import ManualTimer


def quota_of(bytes_per_second: int, timer: ManualTimer) -> ReplicationQuota:
    return ReplicationQuota(lambda: bytes_per_second, samples=11, window_s=1.0, clock=timer.time)


def test_the_first_windows_pass_at_once() -> None:
    timer = ManualTimer()
    quota = quota_of(100, timer)
    assert quota.delay_s() == 0
    quota.record(1000)  # ten seconds' worth
    assert quota.delay_s() == 0
    quota.record(50)
    assert quota.delay_s() == 0.5


def test_a_copy_waits_until_the_rate_is_below_the_limit() -> None:
    timer = ManualTimer()
    quota = quota_of(100, timer)
    quota.record(1080)
    delay_s = quota.delay_s()
    assert delay_s == 0.8 or round(delay_s, 6) == 0.8
    timer.advance(10.81)
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
    assert quota.delay_s() > 0


def test_a_changed_limit_applies_at_once() -> None:
    timer = ManualTimer()
    limit = 100
    quota = ReplicationQuota(lambda: limit, samples=11, window_s=1.0, clock=timer.time)
    quota.record(5000)
    assert quota.delay_s() > 0
    limit = 1000
    assert quota.delay_s() == 0

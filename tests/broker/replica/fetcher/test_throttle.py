"""The follower's replication quota."""

from __future__ import annotations

import pytest

from barnabas.broker.replica.fetcher.throttle import UNLIMITED, FollowerThrottle, names_replica
from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
from tests.broker.fakes import ManualTimer


@pytest.mark.parametrize(
    ("throttled", "expected"),
    [((), False), (("*",), True), (("3:1",), True), (("3:2", "4:1"), False), (("0:7", "3:1"), True)],
)
def test_the_list_names_replicas(throttled: tuple[str, ...], expected: bool) -> None:
    assert names_replica(throttled, 3, 1) is expected


def test_the_topics_list_decides_and_may_change() -> None:
    timer = ManualTimer()
    lists: dict[str, tuple[str, ...]] = {"a": ("0:1",)}
    quota = ReplicationQuota(lambda: 100, samples=11, window_s=1.0, clock=timer.time)
    throttle = FollowerThrottle(quota, lambda topic: lists.get(topic, ()), 1)
    assert throttle.is_throttled(("a", 0))
    assert not throttle.is_throttled(("a", 1))
    assert not throttle.is_throttled(("b", 0))
    lists["a"] = ()
    assert not throttle.is_throttled(("a", 0))


def test_the_rate_is_held() -> None:
    timer = ManualTimer()
    quota = ReplicationQuota(lambda: 100, samples=11, window_s=1.0, clock=timer.time)
    throttle = FollowerThrottle(quota, lambda topic: ("*",), 1)
    assert throttle.delay_s() == 0
    count = 0
    began = timer.time()
    while timer.time() < began + 60:
        throttle.record(200)
        while (delay_s := throttle.delay_s()) > 0:
            timer.advance(delay_s)
        timer.advance(0.01)
        count += 200
    assert count == pytest.approx(100 * 60, rel=0.1)


def test_the_rate_is_shown() -> None:
    timer = ManualTimer()
    quota = ReplicationQuota(lambda: 100, samples=11, window_s=1.0, clock=timer.time)
    throttle = FollowerThrottle(quota, lambda topic: ("*",), 1)
    throttle.record(200)
    assert throttle.byte_rate == 200


def test_without_a_quota_nothing_is_throttled() -> None:
    UNLIMITED.record(10)
    assert not UNLIMITED.is_throttled(("t", 0))
    assert UNLIMITED.delay_s() == 0

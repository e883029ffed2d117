"""Strict and permissive quotas of changes to topics."""

from __future__ import annotations

import pytest

from barnabas.broker.quotas.client_quotas import ClientCounter
from barnabas.broker.quotas.mutation_quotas import MutationQuota
from barnabas.broker.quotas.rate import Rate
from barnabas.broker.quotas.token_bucket import TokenBucket
from barnabas.protocol.errors import ApiError, ErrorCode


class Clock:
    def __init__(self) -> None:
        self.now_ms = 7

    def __call__(self) -> int:
        return self.now_ms


def counter_of(limit: float) -> ClientCounter:
    counter = ClientCounter(Rate(2, 30_000), TokenBucket(10, 1000))
    counter.limit = limit
    return counter


def test_strict_quotas_allow_one_change_too_many_and_then_none() -> None:
    clock, counter = Clock(), counter_of(1.0)
    quota = MutationQuota(counter, clock, is_strict=True)
    quota.charge("a", 10)
    quota.charge("b", 3)
    assert quota.throttle_time_ms() == 0
    for _ in range(2):
        with pytest.raises(ApiError) as refused:
            quota.charge("c", 1)
        assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert quota.throttle_time_ms() == 3000
    clock.now_ms += 1000
    assert quota.throttle_time_ms() == 2000
    clock.now_ms += 3000
    assert quota.throttle_time_ms() == 0
    MutationQuota(counter, clock, is_strict=True).charge("c", 1)


def test_a_topic_is_charged_once() -> None:
    clock, counter = Clock(), counter_of(1.0)
    quota = MutationQuota(counter, clock, is_strict=True)
    for _ in range(5):
        quota.charge("a", 10)
    assert counter.bucket is not None
    assert counter.bucket.tokens(1.0, clock.now_ms) == 0
    assert counter.rate.measure(clock.now_ms) == pytest.approx(10 / 30)


def test_permissive_quotas_allow_all_and_throttle() -> None:
    clock, counter = Clock(), counter_of(1.0)
    quota = MutationQuota(counter, clock, is_strict=False)
    quota.charge("a", 10)
    assert quota.throttle_time_ms() == 0
    quota.charge("b", 3)
    assert quota.throttle_time_ms() == 3000
    quota.charge("c", 1)
    assert quota.throttle_time_ms() == 4000

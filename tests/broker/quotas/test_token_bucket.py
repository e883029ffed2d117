"""TokenBucket."""

from __future__ import annotations

import pytest

from barnabas.broker.quotas.rate import LONGEST_THROTTLE_MS
from barnabas.broker.quotas.token_bucket import TokenBucket

BEGAN = 5


def test_a_bucket_begins_full_and_fills_up_at_the_rate() -> None:
    bucket = TokenBucket(10, 1000)
    assert bucket.tokens(5, BEGAN) == 50
    bucket.take(56, 5, BEGAN)
    assert bucket.tokens(5, BEGAN) == -6
    assert bucket.throttle_time_ms(5, BEGAN) == 1200
    assert bucket.tokens(5, BEGAN + 1000) == -1
    assert bucket.throttle_time_ms(5, BEGAN + 1200) == 0
    assert bucket.tokens(5, BEGAN + 100_000) == 50


def test_taking_back_fills_it_at_most() -> None:
    bucket = TokenBucket(10, 1000)
    bucket.take(-7, 5, BEGAN)
    assert bucket.tokens(5, BEGAN) == 50


def test_a_lower_rate_holds_fewer_tokens() -> None:
    bucket = TokenBucket(10, 1000)
    assert bucket.tokens(1e18, BEGAN) == 1e19
    assert bucket.tokens(2, BEGAN) == 20
    bucket.take(30, 2, BEGAN)
    assert bucket.throttle_time_ms(4, BEGAN) == pytest.approx(2500)


def test_a_rate_of_none_throttles_for_the_longest_time() -> None:
    bucket = TokenBucket(10, 1000)
    bucket.take(1, 0, BEGAN)
    assert bucket.throttle_time_ms(0, BEGAN) == LONGEST_THROTTLE_MS

"""The keys of an identity provider: when they are fetched, and what becomes of a fetch that fails."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.security.sasl.jwks import (
    KEY_ID_INTERVAL_MS,
    MAX_KEY_ID_CHARACTERS,
    MIN_INTERVAL_MS,
    REMEMBERED_KEY_IDS,
    ProviderKeys,
    RefreshTimes,
)
from barnabas.security.errors import ProviderError
from barnabas.security.json_web_keys import parse_keys
from tests.support.tokens import SigningKey, key_set

ONE, TWO = SigningKey(), SigningKey("ES256", "two")
HOURLY = RefreshTimes()
URL = "https://login.example/keys"


class Harness:
    """ProviderKeys with a clock that a test turns, and a provider that answers what it is told."""

    def __init__(self, times: RefreshTimes = HOURLY) -> None:
        self.now_ms = 1_000_000
        self.answer: bytes | ProviderError = key_set(ONE)
        self.asked = 0
        self.keys = ProviderKeys(URL, self.fetch, times, lambda: self.now_ms)
        self.keys.wanted = self.ask

    def fetch(self) -> bytes:
        if isinstance(self.answer, ProviderError):
            raise self.answer
        return self.answer

    def ask(self) -> None:
        self.asked += 1

    def refresh(self) -> int | None:
        """Returns when the next one is due."""
        try:
            return self.keys.fetched(self.keys.fetch_now())
        except ProviderError as error:
            return self.keys.failed(error)


def test_a_fetch_that_succeeds() -> None:
    harness = Harness()
    assert harness.keys.age_ms() is None
    assert harness.refresh() == 3_600_000
    assert harness.keys.current.key_ids == {"one"}
    harness.now_ms += 5
    assert (harness.keys.age_ms(), harness.keys.failures) == (5, 0)
    harness.answer = key_set(ONE, TWO)
    assert harness.keys.current.key_ids == {"one"}
    harness.refresh()
    assert harness.keys.current.key_ids == {"one", "two"}


@pytest.mark.parametrize("answer", [ProviderError("gone"), b"<html>", b'{"keys":[]}'])
def test_a_fetch_that_fails_keeps_the_keys_and_is_tried_again_for_a_while(
    answer: bytes | ProviderError, caplog: pytest.LogCaptureFixture
) -> None:
    harness = Harness()
    harness.refresh()
    harness.answer = answer
    waits = []
    while (wait_ms := harness.refresh()) != 3_600_000:
        assert wait_ms is not None
        waits.append(wait_ms)
        harness.now_ms += wait_ms
    assert waits == [100, 200, 400, 800, 1600, 3200, 3700]
    assert harness.keys.failures == 8
    assert harness.keys.current.key_ids == {"one"}
    assert harness.keys.age_ms() == 10_000
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    harness.now_ms += 3_600_000
    assert harness.refresh() == 100  # it begins anew
    harness.answer = key_set(TWO)
    assert harness.refresh() == 3_600_000
    assert harness.keys.current.key_ids == {"two"}


def test_without_a_backoff_there_is_one_try() -> None:
    harness = Harness(RefreshTimes(5000, 0, 0))
    harness.answer = ProviderError("gone")
    assert harness.refresh() == 5000


def test_keys_that_are_fetched_once() -> None:
    harness = Harness(RefreshTimes(0))
    assert harness.refresh() is None
    harness.keys.missed("two")
    assert harness.asked == 0


# ---- keys that are not known


def test_an_unknown_key_is_asked_for_once_a_minute() -> None:
    harness = Harness()
    harness.refresh()
    harness.keys.missed("two")
    assert harness.asked == 1
    harness.now_ms += KEY_ID_INTERVAL_MS - 1
    harness.keys.missed("two")
    assert harness.asked == 1
    harness.now_ms += 1
    harness.keys.missed("two")
    assert harness.asked == 2


def test_a_key_that_has_come_may_be_missed_again() -> None:
    harness = Harness()
    harness.refresh()
    harness.keys.missed("two")
    harness.answer = key_set(TWO)
    harness.refresh()
    harness.now_ms += MIN_INTERVAL_MS
    harness.keys.missed("two")
    assert harness.asked == 2


def test_a_key_that_is_fetched_is_missed_no_more() -> None:
    harness = Harness()
    harness.answer = key_set(TWO.public_jwk(kid=None), ONE)
    harness.refresh()
    assert harness.keys.current.key_ids == {None, "one"}


def test_what_is_not_asked_for() -> None:
    harness = Harness()
    harness.refresh()
    harness.keys.missed(None)
    harness.keys.missed("k" * (MAX_KEY_ID_CHARACTERS + 1))
    assert harness.asked == 0
    harness.keys.missed("k" * MAX_KEY_ID_CHARACTERS)
    assert harness.asked == 1
    harness.keys.wanted = None
    harness.now_ms += MIN_INTERVAL_MS
    harness.keys.missed("other")
    assert harness.asked == 1


def test_a_flood_of_unknown_keys_asks_once_a_second() -> None:
    harness = Harness()
    harness.refresh()
    for number in range(10_000):
        harness.keys.missed(f"k{number}")
        harness.now_ms += 1
    assert harness.asked == 10


def test_sixteen_unknown_keys_are_remembered() -> None:
    harness = Harness()
    harness.refresh()
    for number in [*range(REMEMBERED_KEY_IDS + 1), 1, 0]:  # the second is remembered, the first no more
        harness.keys.missed(f"k{number}")
        harness.now_ms += MIN_INTERVAL_MS
    assert harness.asked == REMEMBERED_KEY_IDS + 2


@given(st.lists(st.tuples(st.integers(0, 70_000), st.integers(0, 20)), max_size=60))
def test_no_key_is_asked_for_twice_a_minute_while_it_is_remembered(steps: list[tuple[int, int]]) -> None:
    harness = Harness()
    harness.refresh()
    last: dict[int, int] = {}
    for pause_ms, number in steps:
        harness.now_ms += pause_ms
        before = harness.asked
        harness.keys.missed(str(number))
        if harness.asked > before:
            since = [each for each in last if last[each] > last.get(number, -(10**9))]
            if len(since) < REMEMBERED_KEY_IDS:
                assert harness.now_ms - last.get(number, -(10**9)) >= KEY_ID_INTERVAL_MS
            last[number] = harness.now_ms


def test_the_keys_are_those_of_a_set() -> None:
    assert Harness().keys.fetch_now().key_ids == parse_keys(key_set(ONE)).key_ids

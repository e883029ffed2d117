"""ClientQuotaManager: counters, their limits, and their bounds."""

from __future__ import annotations

from typing import Any

from barnabas.broker.quotas.client_quotas import (
    EXPIRES_AFTER_MS,
    KEPT_COUNTERS,
    MAX_KEY_CHARACTERS,
    UNLIMITED,
    ClientQuotaManager,
)
from barnabas.broker.quotas.limits import ANY
from barnabas.broker.quotas.quota_types import QuotaType
from barnabas.broker.request import KafkaPrincipal

ALICE, BOB = KafkaPrincipal("alice"), KafkaPrincipal("bob")
NOW = 5_000_000


def manager_of(quota_type: QuotaType = QuotaType.PRODUCE, **options: Any) -> ClientQuotaManager:
    return ClientQuotaManager(quota_type, samples=11, window_ms=1000, **options)


def test_clients_with_one_key_share_a_counter() -> None:
    manager = manager_of()
    before = manager.is_enabled
    manager.update((ANY, None), 100.0)
    assert (before, manager.is_enabled) == (False, True)
    one, other = (manager.counter(ALICE, client, NOW) for client in "cd")
    assert one is other
    assert manager.counter(BOB, "c", NOW) is not one
    assert manager.record(one, 1000, NOW) == 0
    assert manager.record(other, 500, NOW) == 5000
    assert manager.record(manager.counter(BOB, "c", NOW), 1000, NOW) == 0


def test_a_change_acts_at_once_on_a_counter_that_runs() -> None:
    manager = manager_of()
    manager.update((ANY, None), 100.0)
    counter = manager.counter(ALICE, "c", NOW)
    manager.record(counter, 1000, NOW)
    assert counter.is_limited
    manager.update((("alice",), None), 50.0)
    assert manager.counter(ALICE, "c", NOW) is counter
    assert (counter.limit, manager.record(counter, 0, NOW)) == (50.0, 10_000)
    manager.update((("alice",), None), None)
    assert manager.record(manager.counter(ALICE, "c", NOW), 0, NOW) == 0
    manager.update((("bob",), None), 1.0)
    manager.update((ANY, None), None)
    assert manager.counter(ALICE, "c", NOW).limit == UNLIMITED
    assert not counter.is_limited


def test_a_quota_that_comes_back_finds_what_was_recorded() -> None:
    manager = manager_of()
    manager.update((ANY, None), 100.0)
    manager.record(manager.counter(ALICE, "c", NOW), 1000, NOW)
    manager.update((ANY, None), None)
    assert not manager.is_enabled
    manager.update((ANY, None), 100.0)
    assert manager.record(manager.counter(ALICE, "c", NOW), 500, NOW) == 5000


def test_without_quotas_few_counters_stay() -> None:
    manager = manager_of()
    manager.update((None, ANY), 100.0)
    for number in range(KEPT_COUNTERS + 10):
        manager.counter(ALICE, str(number), NOW)
    manager.update((None, ANY), None)
    assert len(manager) == KEPT_COUNTERS
    assert next(manager.latest(1))[0] == ("", str(KEPT_COUNTERS + 9))


def test_throttle_times_may_have_a_bound() -> None:
    manager = manager_of(max_throttle_ms=1000)
    manager.update((None, ANY), 1.0)
    assert manager.record(manager.counter(ALICE, "c", NOW), 1000, NOW) == 1000


def test_the_most_that_is_not_throttled_for_certain() -> None:
    manager = manager_of()
    manager.update((None, ("c",)), 100.0)
    limited, other = (manager.counter(ALICE, client, NOW) for client in "cd")
    assert manager.max_in_window(limited) == 1000.0
    assert manager.record(limited, 1000, NOW) == 0
    assert manager.max_in_window(other) == UNLIMITED


def test_counters_are_bounded_and_the_longest_unused_go() -> None:
    manager = manager_of(max_counters=3)
    manager.update((None, ANY), 1.0)
    first = manager.counter(ALICE, "0", NOW)
    for number in range(1, 100):
        manager.counter(ALICE, str(number), NOW)
        assert manager.counter(ALICE, "0", NOW) is first
    assert len(manager) == 3
    assert [labels for labels, _ in manager.latest(2)] == [("", "0"), ("", "99")]


def test_counters_that_are_unused_for_an_hour_go() -> None:
    manager = manager_of()
    manager.update((None, ANY), 1.0)
    for number in range(10):
        manager.counter(ALICE, str(number), NOW + number)
    manager.counter(ALICE, "new", NOW + EXPIRES_AFTER_MS + 5)
    assert len(manager) == 6


def test_changes_to_topics_have_tokens() -> None:
    manager = manager_of(QuotaType.CONTROLLER_MUTATION)
    manager.update((None, ANY), 2.0)
    counter = manager.counter(ALICE, "c", NOW)
    assert counter.bucket is not None
    assert counter.bucket.tokens(counter.limit, NOW) == 22.0
    assert manager_of().counter(ALICE, "c", NOW).bucket is None


def test_long_client_ids_are_bounded_together() -> None:
    manager = manager_of()
    manager.update((None, ANY), 1.0)
    long = 32_000
    for number in range(MAX_KEY_CHARACTERS // long + 50):
        manager.counter(ALICE, str(number).ljust(long, "x"), NOW)
    assert len(manager) <= MAX_KEY_CHARACTERS // long + 2
    for number in range(100):
        manager.counter(ALICE, str(number), NOW)
    assert len(manager) > 100  # short ones replace few of them


def test_a_client_with_many_ids_costs_a_bounded_number_of_counters() -> None:
    """A million client ids, each new: what is kept stays the same from 100,000 on."""
    manager = manager_of(max_counters=1000)
    manager.update((None, ANY), 1e9)
    for number in range(20_000):
        counter = manager.counter(ALICE, f"client-{number}", NOW + number)
        manager.record(counter, 10, NOW + number)
    assert len(manager) == 1000

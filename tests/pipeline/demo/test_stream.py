"""Tests that the generated stream is the same for the same seed, with flaws where intended."""

from __future__ import annotations

import json
from collections import Counter

from barnabas.pipeline.demo.stream import (
    CLICKS,
    DAY_MS,
    DAYS,
    FIRST_WAVE_DAYS,
    LATE_AFTER_MS,
    ORDERS,
    flaws,
    waves,
)

NOW = 1_795_000_000_000
FIRST, SECOND = waves(1, 8000, NOW)
EVENTS = [*FIRST, *SECOND]
SPLIT = NOW - (DAYS - FIRST_WAVE_DAYS) * DAY_MS


def test_the_same_seed_is_the_same_stream() -> None:
    assert waves(1, 8000, NOW) == (FIRST, SECOND)
    assert waves(2, 8000, NOW) != (FIRST, SECOND)


def test_the_stream_has_every_kind_of_event() -> None:
    assert 7000 < len(EVENTS) < 8200
    assert Counter(event.topic for event in EVENTS)[ORDERS] > 800
    statuses = Counter(
        json.loads(event.value)["status"] for event in EVENTS if event.topic == ORDERS and not event.flaw
    )
    assert set(statuses) == {"placed", "paid", "shipped", "cancelled"}
    assert all(event.key and event.headers for event in EVENTS)


def test_times_are_of_those_days() -> None:
    assert all(NOW - DAYS * DAY_MS <= event.timestamp_ms < NOW for event in EVENTS)
    assert all(event.timestamp_ms < SPLIT for event in FIRST)
    assert [event.timestamp_ms for event in FIRST] == sorted(event.timestamp_ms for event in FIRST)


def test_late_records_are_in_the_second_wave_and_clearly_late() -> None:
    late = [event for event in SECOND if event.timestamp_ms < SPLIT]
    assert late == [event for event in EVENTS if event.flaw == "late"]
    assert len(late) > 10
    newest = max(event.timestamp_ms for event in FIRST)
    assert all(newest - event.timestamp_ms > LATE_AFTER_MS for event in late)


def test_only_malformed_values_cannot_be_decoded() -> None:
    found = flaws(EVENTS)
    assert found["malformed"] > 10
    for event in EVENTS:
        if event.flaw != "malformed":
            value = json.loads(event.value)
            assert value["order_id" if event.topic == ORDERS else "session"] == event.key.decode()


def test_sessions_and_orders_keep_their_keys() -> None:
    assert {event.key[:2] for event in EVENTS if event.topic == CLICKS} == {b"s-"}
    updates = Counter(event.key for event in EVENTS if event.topic == ORDERS)
    assert 2 < sum(updates.values()) / len(updates) <= 3, "what compaction would take out"

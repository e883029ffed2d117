"""Tests the complaints of a soak."""

from __future__ import annotations

from dataclasses import replace

from bench.side_by_side.soak import PACE, Soaked, report

SECONDS = 1800.0
QUIET = [1.0] * 98 + [2.0, 2.0]
GOOD = Soaked(
    seconds=SECONDS,
    peak_rate=200_000,
    rate=100_000,
    memory_mib=[40.0, 60.0, *[61.0] * 8],
    whole_mib=[150.0] * 10,
    ages_ms=QUIET * round(PACE * SECONDS / 100),
    missing=0,
    cpu_share=0.3,
)


def rows(soaked: Soaked) -> dict[str, str]:
    return {row[0]: row[1] for row in report(soaked).tables[0].rows}


def test_a_good_soak_has_no_complaints() -> None:
    assert GOOD.complaints == []
    assert GOOD.slower == 1.0
    assert rows(GOOD)["messages missing"] == "0"


def test_the_last_minute_is_compared_with_the_first_three() -> None:
    assert len(GOOD.first_ages_ms) == 3 * 60 * PACE
    assert len(GOOD.last_ages_ms) == 60 * PACE
    slow = replace(GOOD, ages_ms=[*GOOD.ages_ms[:-6000], *[5.0] * 6000])
    assert slow.complaints == ["the last minute's p99 is 2.50 times that of the first minutes"]


def test_memory_that_grows_and_messages_that_are_lost() -> None:
    assert replace(GOOD, memory_mib=[60.0 + 10 * n for n in range(10)]).complaints == [
        "memory grew to 2.14 times what it was"
    ]
    assert replace(GOOD, missing=3).complaints == ["3 messages are missing"]
    assert replace(GOOD, whole_mib=[900.0]).complaints == ["compaction takes 839 MiB"]
    assert rows(replace(GOOD, missing=3))["flat, as fast at the end as at the start, nothing lost"] == "no"

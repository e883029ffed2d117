"""Tests medians, percentiles, ratios, and their report."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.side_by_side.contestants import KAFKA, OURS
from bench.side_by_side.figures import Sample, Samples, percentile
from bench.side_by_side.report import judged, sections
from bench.side_by_side.targets import TARGETS, Target, targets_of
from bench.side_by_side.workloads import WORKLOADS

ROW = WORKLOADS[0]
OPTIONS = {"rounds": "3", "rounds to warm up": "1", "scale": "1"}


def sample(broker: str, number: int, error: str = "", **figures: float) -> Sample:
    return Sample(ROW.name, broker, number, figures, error)


def three_rounds() -> Samples:
    ours = [(0, 1.0, 99.0), (1, 100.0, 1.0), (2, 300.0, 2.0), (3, 200.0, 3.0)]
    theirs = [(0, 1.0, 1.0), (1, 50.0, 4.0), (2, 100.0, 4.0), (3, 400.0, 4.0)]
    return Samples(
        sample(broker, number, rate=rate, cpu_us=cpu, missing=0.0)
        for broker, rounds in ((OURS, ours), (KAFKA, theirs))
        for number, rate, cpu in rounds
    )


def test_medians_leave_out_warm_up_rounds() -> None:
    assert three_rounds().median(ROW.name, OURS, "cpu_us") == 2.0
    assert three_rounds().median(ROW.name, KAFKA, "rate") == 100.0


def test_the_spread_is_that_of_the_rounds_that_count() -> None:
    assert three_rounds().extremes(ROW.name, OURS, "cpu_us") == (1.0, 3.0)
    assert three_rounds().extremes(ROW.name, OURS, "peak_mib") is None


def test_a_ratio_is_the_median_of_the_ratios_of_rounds_and_not_the_ratio_of_medians() -> None:
    assert three_rounds().ratio(ROW.name, "rate", OURS, KAFKA) == 2.0  # of 2, 3 and 0.5


def test_failed_rounds_do_not_count_and_are_reported() -> None:
    samples = three_rounds()
    samples.all.append(sample(OURS, 4, "Traceback\nValueError: no"))
    assert samples.median(ROW.name, OURS, "rate") == 200.0
    assert samples.errors(ROW.name, OURS) == ["ValueError: no"]


def test_forbidden_values_are_searched_in_every_round() -> None:
    samples = three_rounds()
    samples.all.append(sample(OURS, 0, missing=3.0))
    assert samples.worst(ROW.name, OURS, "missing") == 3.0


def test_all_that_is_missing_and_how_much_others_disturbed() -> None:
    samples = Samples([sample(OURS, 0, missing=3.0, others=0.2), sample(OURS, 1, missing=1.0, others=0.4)])
    assert samples.missing(OURS) == 4.0
    assert samples.missing(KAFKA) == 0.0
    assert samples.disturbance == pytest.approx(0.3)
    assert Samples().disturbance == 0.0


def test_nothing_was_measured() -> None:
    assert Samples().median("x", OURS, "rate") is None
    assert Samples().ratio("x", "rate", OURS, KAFKA) is None
    assert math.isnan(percentile([], 0.5))


@pytest.mark.parametrize(("share", "value"), [(0.5, 50), (0.99, 99), (0.999, 100), (0.01, 1), (1.0, 100)])
def test_percentiles_of_a_hundred(share: float, value: float) -> None:
    assert percentile(range(100, 0, -1), share) == value


@given(st.lists(st.floats(allow_nan=False), min_size=1), st.floats(0.001, 1.0))
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(
    values: list[float], share: float
) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    below = [value for value in values if value < found]
    assert len(below) < share * len(values) + 1e-9


def test_more_is_better_for_rates_and_less_for_all_else() -> None:
    assert Target("x", "rate", 1.5).is_kept(1.5)
    assert not Target("x", "rate", 1.5).is_kept(1.49)
    assert Target("x", "cpu_us", 0.5).is_kept(0.5)
    assert not Target("x", "cpu_us", 0.5).is_kept(0.51)
    assert Target("x", "rate", 1.5).text == "at least 1.5 x"
    assert Target("x", "mb_s", 1.5).text == "at least 1.5 x"
    assert Target("x", "p99_ms", 0.6).text == "at most 0.6 x"


def test_targets_name_rows_that_are_there() -> None:
    assert {target.row for target in TARGETS} <= {row.name for row in WORKLOADS} | {"processes"}
    assert len({row.name for row in WORKLOADS}) == len(WORKLOADS)


def test_rows_without_a_target_have_to_be_ahead() -> None:
    assert [(one.figure, one.ratio) for one in targets_of("produce-gzip", "produce")] == [
        ("rate", 1.0),
        ("cpu_us", 1.0),
        ("peak_mib", 1.0),
    ]
    assert [(one.figure, one.ratio) for one in targets_of("small", "produce")] == [
        ("rate", 1.5),
        ("cpu_us", 0.4),
        ("peak_mib", 1.0),
    ]


def test_rows_measured_on_both_brokers_are_judged() -> None:
    found = {target.figure: (ratio, kept) for _, target, ratio, kept in judged(three_rounds(), WORKLOADS)}
    assert found == {"rate": (2.0, True), "cpu_us": (0.5, True)}


def test_the_report_has_the_medians_the_ratio_and_the_verdict() -> None:
    targets, produced = sections(three_rounds(), WORKLOADS, OPTIONS)
    assert targets.name == "targets"
    assert targets.tables[0].rows[0][1:] == ["at least 1.5 x", "2.00 x", "yes"]
    assert targets.figures == {"kept": 2.0, "targets": 2.0, "missing": 0.0}
    assert produced.tables[0].rows[0][:4] == [ROW.title, "200", "100", "2.00"]
    assert produced.tables[0].rows[0][-1] == "0, 0"
    assert produced.figures["produce-1k.rate.ratio"] == 2.0
    assert "3 rounds count, after 1" in produced.prose[0]


def test_without_apache_kafka_there_are_no_targets() -> None:
    (produced,) = sections(
        Samples(one for one in three_rounds().all if one.broker == OURS), WORKLOADS, OPTIONS
    )
    assert produced.tables[0].rows[0][:4] == [ROW.title, "200", "-", "-"]


def test_failures_stand_below_the_table() -> None:
    samples = three_rounds()
    samples.all.append(sample(KAFKA, 4, "TimeoutError: late"))
    assert list(sections(samples, WORKLOADS, OPTIONS)[1].remarks) == [
        f"{ROW.name} failed on {KAFKA}: TimeoutError: late."
    ]

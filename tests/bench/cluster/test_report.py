"""Tests the section of the document, from samples."""

from __future__ import annotations

from bench.cluster.catch_up import CatchUp
from bench.cluster.loads import LOADS
from bench.cluster.many import Memory
from bench.cluster.report import section
from bench.document import render_section
from bench.side_by_side.contestants import KAFKA, OURS
from bench.side_by_side.figures import Sample, Samples

OPTIONS = {"rounds": "3", "rounds to warm up": "2"}
ROWS = (LOADS[0], CatchUp(), Memory())
PRODUCE = LOADS[0].name


def measured() -> Samples:
    ours = [(100.0, 9.0), (300.0, 10.0), (200.0, 11.0)]
    theirs = [(100.0, 10.0), (100.0, 10.0), (100.0, 10.0)]
    found = Samples()
    for who, values in ((OURS, ours), (KAFKA, theirs)):
        for number, (rate, cpu) in enumerate(values, 1):
            found.all.append(
                Sample(
                    PRODUCE, who, number, {"rate": rate, "mb_s": rate / 1000, "cpu_us": cpu, "missing": 0.0}
                )
            )
        found.all.append(Sample("catch-up", who, 1, {"mb_s": 120.0 if who == OURS else 100.0}))
    return found


def test_a_line_has_medians_spread_ratio_aim_and_verdict() -> None:
    produce, catch_up = section(measured(), ROWS, OPTIONS, 3).tables
    title = "1 KiB, batches up to 1 MB, 2 replicas"
    assert produce.title == "Replicated produce"
    assert list(produce.rows) == [
        [
            f"{title}: records a second",
            "200",
            "100 to 300",
            "100",
            "100 to 100",
            "2.00 x",
            "at least 1 x",
            "yes",
        ],
        [f"{title}: MB/s", "0.20", "0.10 to 0.30", "0.10", "0.10 to 0.10", "2.00 x", "-", "-"],
        [
            f"{title}: processor time of all brokers, us a record",
            *("10.0", "9.00 to 11.0", "10.0", "10.0 to 10.0", "1.00 x", "at most 1 x", "yes"),
        ],
    ]
    assert catch_up.rows[0][-3:] == ["1.20 x", "at least 1.5 x", "**no**"]


def test_rows_that_were_not_measured_are_left_out() -> None:
    titles = [table.title for table in section(measured(), ROWS, OPTIONS, 3).tables]
    assert titles == ["Replicated produce", "Catch-up of a new replica"]


def test_figures_and_the_number_of_aims() -> None:
    found = section(measured(), ROWS, OPTIONS, 3)
    assert found.figures["catch-up.mb_s.ratio"] == 1.2
    assert found.figures[f"{PRODUCE}.rate.kafka"] == 100.0
    assert (found.figures["aims met"], found.figures["aims"]) == (2.0, 3.0)
    assert "2 of 3 aims are met" in found.prose[-1]
    assert "0 acknowledged records were missing" in found.prose[-1]
    assert "3 rounds count, after 2" in found.prose[0]


def test_without_apache_kafka_there_are_no_verdicts() -> None:
    ours = Samples(sample for sample in measured().all if sample.broker == OURS)
    found = section(ours, ROWS, OPTIONS, 3)
    assert found.tables[0].rows[0][3:] == ["-", "-", "-", "at least 1 x", "-"]
    assert "0 of 0 aims" in found.prose[-1]


def test_failures_stand_below_the_tables() -> None:
    samples = measured()
    samples.all.append(Sample("memory", KAFKA, 1, error="TimeoutError: late"))
    found = section(samples, ROWS, OPTIONS, 3)
    assert list(found.remarks) == [f"memory failed on {KAFKA}: TimeoutError: late."]
    assert "memory failed on" in render_section(found)

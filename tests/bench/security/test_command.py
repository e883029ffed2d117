"""Tests the options of the command, its lines of progress and its section."""

from __future__ import annotations

import pytest

from bench import results
from bench.security import command
from bench.security.command import options_of, said_of, section
from bench.security.rows import ROWS
from bench.side_by_side.contestants import KAFKA, OURS
from bench.side_by_side.figures import Sample, Samples


def test_a_whole_run_takes_the_place_of_the_document_and_a_part_does_not() -> None:
    whole, rows = options_of([])
    assert (whole.rounds, whole.warm_ups) == (command.ROUNDS, command.WARM_UPS)
    assert tuple(rows) == ROWS
    assert results.store_of(whole) == results.STORE
    part, rows = options_of(["--only", "log-in-rsa,tls-produce"])
    assert [row.name for row in rows] == ["tls-produce", "log-in-rsa"]
    assert results.store_of(part) == results.QUICK_STORE
    quick, _ = options_of(["--quick"])
    assert (quick.rounds, quick.warm_ups) == (1, 0)
    with pytest.raises(SystemExit):
        options_of(["--only", "log-in"])


def test_a_sample_is_a_line_whether_it_failed_or_not() -> None:
    assert said_of(Sample("tls-small", OURS, 1, {"rate": 12345.6, "peak_mib": 7.0})).split() == [
        "1",
        "tls-small",
        "Barnabas",
        "rate",
        "1.235e+04",
    ]
    assert said_of(Sample("tls-small", OURS, 1, error="Traceback\nOSError: no\n")).endswith("OSError: no")


def test_figures_are_judged_beside_apache_kafka() -> None:
    samples = Samples(
        [
            Sample("log-in-rsa", OURS, 1, {"rate": 200.0, "cpu_us": 30.0}),
            Sample("log-in-rsa", KAFKA, 1, {"rate": 100.0, "cpu_us": 20.0}),
            Sample("idle-tls", OURS, 1, error="OSError: no"),
        ]
    )
    _, rows = options_of(["--only", "log-in-rsa,idle-tls"])
    found = section(samples, rows, {"rounds": "1", "rounds to warm up": "0"})
    (table,) = found.tables
    assert [[row[0], row[-3], row[-1]] for row in table.rows] == [
        ["TLS 1.3, RSA-2048: a second", "2.00 x", "yes"],
        ["TLS 1.3, RSA-2048: processor time of the broker, us each", "1.50 x", "**no**"],
    ]
    assert "1 of 2 figures" in found.prose[1]
    assert len(found.remarks) == 1

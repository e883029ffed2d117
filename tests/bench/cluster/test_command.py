"""Tests the options of the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import results
from bench.cluster import command
from bench.cluster.command import options_of
from bench.cluster.rounds import ROWS
from bench.side_by_side.contestants import KAFKA, OURS
from bench.side_by_side.figures import Sample, Samples
from tests.conformance.kafka_jars import KafkaMissingError


def test_a_whole_run_takes_the_place_of_the_document_and_a_part_does_not() -> None:
    whole, rows = options_of([])
    assert (whole.rounds, whole.warm_ups, whole.scale) == (command.ROUNDS, command.WARM_UPS, 1.0)
    assert tuple(rows) == ROWS
    assert results.store_of(whole) == results.STORE
    part, rows = options_of(["--only", "memory,catch-up"])
    assert [row.name for row in rows] == ["catch-up", "memory"]
    assert results.store_of(part) == results.QUICK_STORE
    assert results.store_of(options_of(["--no-kafka"])[0]) == results.QUICK_STORE


def test_a_quick_run_has_one_round() -> None:
    options, _ = options_of(["--quick", "--scale", "0.5"])
    assert (options.rounds, options.warm_ups, options.scale) == (1, 0, 0.5)
    with pytest.raises(SystemExit):
        options_of(["--only", "memry"])


def test_failed_rows_and_missing_records_of_ours_are_complaints() -> None:
    _, rows = options_of(["--only", "memory,leaders"])
    samples = Samples([Sample("leaders", KAFKA, 1, {"missing": 7.0}, error="OSError: no")])
    assert command.complaints_of(samples, rows) == []
    samples.all += [Sample("leaders", OURS, 1, error="OSError: no"), Sample("x", OURS, 0, {"missing": 2.0})]
    assert command.complaints_of(samples, rows) == ["failed: leaders", "2 acknowledged records are missing"]


def test_without_java_there_is_no_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(*_: object, **__: object) -> None:
        raise KafkaMissingError("no java")

    monkeypatch.setattr(command, "clusters", missing)
    monkeypatch.setattr(command, "SAMPLES", tmp_path / "samples.json")
    with pytest.raises(SystemExit, match="a cluster needs a controller of Apache Kafka: no java"):
        command.main(["--quick", "--directory", str(tmp_path)])
    assert not (tmp_path / "samples.json").exists(), "nothing was measured"

"""Tests the numbers taken from Spark's reports."""

from __future__ import annotations

import urllib.request
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.pipeline.ingest.progress import Progress, batch_progress


def progress_of(**changes: Any) -> Any:
    """A StreamingQueryProgress as Spark reports it."""
    source = SimpleNamespace(
        endOffset='{"orders":{"0":70,"1":10}}', latestOffset='{"orders":{"0":100,"1":10},"new":{"0":5}}'
    )
    usual = {
        "batchId": 4,
        "numInputRows": 30,
        "durationMs": {"triggerExecution": 1500},
        "processedRowsPerSecond": 20.0,
        "timestamp": "2026-01-31T12:00:00.500Z",
        "sources": [source],
    }
    return SimpleNamespace(**{**usual, **changes})


def test_a_batch() -> None:
    batch = batch_progress(progress_of())
    assert batch == (
        4,
        30,
        1.5,
        20.0,
        1769860800.5,
        {("orders", 0): 30, ("orders", 1): 0, ("new", 0): 5},
    )


def test_a_batch_of_nothing() -> None:
    source = SimpleNamespace(endOffset=None, latestOffset="17")
    batch = batch_progress(progress_of(processedRowsPerSecond=float("nan"), sources=[source], durationMs={}))
    assert (batch.rows_per_s, batch.lag, batch.duration_s) == (0.0, {}, 0.0)


def test_a_batch_that_was_read_twice_counts_once() -> None:
    batch = batch_progress(progress_of(), 2)
    assert (batch.rows, batch.rows_per_s) == (15, 10.0)


def test_progress_is_exported_to_prometheus() -> None:
    progress = Progress("orders")
    progress.started()
    progress.progressed(batch_progress(progress_of()))
    progress.progressed(batch_progress(progress_of(batchId=5)))
    progress.quarantined(Counter(malformed=2))

    def sample(name: str, **labels: str) -> float | None:
        return progress.registry.get_sample_value(f"barnabas_pipeline_{name}", {"job": "orders", **labels})

    assert (progress.rows, progress.batches) == (60, 2)
    assert sample("rows_total") == 60
    assert sample("batches_total") == 2
    assert sample("batch_id") == 5
    assert sample("lag_records", topic="orders", partition="0") == 30
    assert sample("quarantined_records_total", reason="malformed") == 2
    assert sample("last_progress_timestamp_seconds") == 1769860800.5
    assert sample("running") == 1
    progress.terminated()
    assert sample("running") == 0
    assert progress.ended.is_set()


def test_over_http() -> None:
    progress = Progress("orders")
    close = progress.serve(0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{progress.port}/metrics") as response:
            assert b"barnabas_pipeline_running" in response.read()
        with pytest.raises(OSError, match=f"cannot be served on port {progress.port}: "):
            Progress("orders").serve(progress.port)
    finally:
        close()

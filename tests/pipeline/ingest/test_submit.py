"""Runs the ingest under spark-submit, with only its options on the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow.dataset as ds

from tests.pipeline import plain
from tests.pipeline.plain import TopicMaker
from tests.pipeline.spark_session import shared_session
from tests.support.broker_process import ROOT, BrokerProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_an_ingest_under_spark_submit(tmp_path: Path, table_format: str) -> None:
    """Its driver runs before the session asks for the connector and for Delta."""
    shared_session()  # skips, or fetches the jars
    with BrokerProcess(tmp_path / "data") as broker:
        topic = TopicMaker(broker.bootstrap).create()
        plain.produce(broker.bootstrap, topic, [b"a", b"b"])
        submit = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
        job = [str(ROOT / "pipeline" / "jobs" / "job.py"), "ingest", "--bootstrap-server", broker.bootstrap]
        told = [
            "--topic",
            topic,
            "--table",
            "table",
            "--checkpoint",
            "checkpoint",
            "--table-format",
            table_format,
        ]
        result = subprocess.run(
            [*submit, *job, *told],
            cwd=tmp_path,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    assert result.returncode == 0, result.stdout + result.stderr[-5000:]
    files = [str(path) for path in (tmp_path / "table").glob("day=*/*.parquet")]
    assert ds.dataset(files).count_rows() == 2

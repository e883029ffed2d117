"""Compares an audit on Spark with a local one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.pipeline.audit.audit import audit
from barnabas.pipeline.audit.engines import LocalEngine
from barnabas.pipeline.audit.plan import AuditOptions
from barnabas.storage.env import RealEnv
from tests.pipeline.spark_session import shared_session
from tests.storage.helpers import T0
from tests.storage.verify.verified import written

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]


@pytest.fixture
def directories(tmp_path: Path) -> list[str]:
    """Two of them, with one batch damaged in the second."""
    paths = [str(tmp_path / name) for name in ("a", "b")]
    for path in paths:
        written(RealEnv(), path)
    log = sorted(Path(paths[1]).glob("orders-0/*.log"))[1]
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    return paths


def test_the_spark_engine_has_the_rows_of_the_local_engine(directories: list[str]) -> None:
    from barnabas.pipeline.audit.spark_engine import SparkEngine

    options = AuditOptions(is_deep=True, counts_keys=True, now_ms=T0 + 60_000)
    here = audit(RealEnv(), directories, options, LocalEngine(RealEnv()))
    spark = shared_session()
    assert audit(RealEnv(), directories, options, SparkEngine(spark)) == here
    assert audit(RealEnv(), directories, options, SparkEngine(spark)) == here, "and again"
    assert "crc" in {row["check"] for row in here.findings}


def test_the_command_under_spark_submit(directories: list[str], tmp_path: Path) -> None:
    """Its exit code is the command's, and Spark can read the tables."""
    from pyarrow import parquet

    job = ROOT / "pipeline" / "jobs" / "job.py"
    submit = Path(sys.executable).with_name("spark-submit")
    result = subprocess.run(
        [
            submit,
            "--master",
            "local[2]",
            str(job),
            "audit",
            *directories,
            "--report",
            str(tmp_path / "report.html"),
            "--tables",
            str(tmp_path / "tables"),
        ],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert "claims CRC" in result.stdout
    assert "something is lost" in (tmp_path / "report.html").read_text()
    found = parquet.read_table(tmp_path / "tables" / "partitions")
    assert sorted(found["topic"].to_pylist()) == ["orders", "orders", "plain", "plain"]
    assert "crc" in parquet.read_table(tmp_path / "tables" / "findings")["check"].to_pylist()


def test_tables_of_an_audit_that_finds_nothing(tmp_path: Path) -> None:
    """The next audit adds its rows to the same tables."""
    from pyarrow import parquet

    from barnabas.pipeline.audit.spark_engine import SparkEngine
    from barnabas.pipeline.commands.auditing import write_tables

    written(RealEnv(), str(tmp_path / "a"))
    spark = shared_session()
    tables = tmp_path / "tables"
    for hours in range(2):
        options = AuditOptions(is_deep=True, counts_keys=True, now_ms=T0 + 60_000 + 3_600_000 * hours)
        result = audit(RealEnv(), [str(tmp_path / "a")], options, SparkEngine(spark))
        assert result.findings == []
        write_tables(result, str(tables), spark)
    findings = parquet.read_table(tables / "findings")
    assert (findings.num_rows, findings.column_names[-1]) == (0, "remedy")
    assert len(set(parquet.read_table(tables / "partitions")["audit_id"].to_pylist())) == 2
    assert spark.read.parquet(str(tables / "findings")).count() == 0

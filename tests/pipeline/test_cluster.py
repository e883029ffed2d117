"""Runs all pipeline jobs on a standalone cluster, with paths relative to the driver's working directory."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyarrow.dataset as ds

from barnabas.storage.env import RealEnv
from tests.pipeline import plain
from tests.pipeline.cluster import CONF, Cluster, Driver, spark_home
from tests.pipeline.plain import TopicMaker
from tests.pipeline.spark_session import require_spark
from tests.storage.verify.verified import written
from tests.support.broker_process import ROOT, BrokerProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

RECORDS = 50
"""That a reader of committed records finds in the log directory `data`: 47 of orders-0, 3 of plain-3."""
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests."""
    require_spark()
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


@pytest.fixture(scope="module")
def driver(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """A driver in a directory with a log directory `data`."""
    directory = tmp_path_factory.mktemp("driver")
    written(RealEnv(), str(directory / "data"))
    started = Driver(cluster, directory)
    yield started
    started.close()


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicMaker]:
    """Topics of one broker for all tests."""
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as broker:
        yield TopicMaker(broker.bootstrap)


def rows_of(table: Path, pattern: str = "*.parquet") -> int:
    return int(ds.dataset([str(path) for path in table.glob(pattern)]).count_rows())


def read_as_users_do() -> dict[str, int]:
    """Counts rows by each way to name the directory. Runs in the driver's process."""
    from pyspark.sql import SparkSession

    spark = SparkSession.active()
    reader = spark.read.format("barnabas").option("isolationLevel", "read_committed")
    here = Path.cwd()
    found = {
        "relative": reader.load("data").count(),
        "partitions": reader.load(["data/orders-0", "./data/plain-3"]).count(),
        "uri": reader.option("path", f"{(here / 'data').as_uri()}").load().count(),
    }
    stream = spark.readStream.format("barnabas").option("startingOffsets", "earliest")
    rows = stream.option("isolationLevel", "read_committed").load("data")
    writer = rows.writeStream.option("checkpointLocation", "streamed.checkpoint").option("path", "streamed")
    assert writer.trigger(availableNow=True).start().awaitTermination(300)
    found["stream"] = spark.read.parquet("streamed").count()
    spark.stop()
    return found


def test_the_source_in_users_code(driver: Driver) -> None:
    found = driver.run(read_as_users_do)
    assert found == dict.fromkeys(("relative", "partitions", "uri", "stream"), RECORDS)
    assert rows_of(driver.directory / "streamed") == RECORDS


def test_scan(driver: Driver) -> None:
    output = driver.command("scan", "data")
    assert output.splitlines()[-1].split() == ["records", str(RECORDS)]


def test_scan_into_a_table_and_export_at_least_once(driver: Driver, topics: TopicMaker) -> None:
    assert driver.command("scan", "data", "--table", "scanned").split()[-2:] == ["table", "scanned"]
    assert rows_of(driver.directory / "scanned") == RECORDS
    topic = topics.create()
    driver.command(
        *("export", "--table", "scanned", "--checkpoint", "export.checkpoint", "--topic", topic),
        *("--bootstrap-server", topics.bootstrap),
    )
    assert len(plain.read(topics.bootstrap, topic)) == RECORDS
    assert (driver.directory / "export.checkpoint" / "barnabas" / "identity.json").exists()


def test_audit(driver: Driver) -> None:
    from pyarrow import parquet

    output = driver.command("audit", "data", "--tables", "tables", "--report", "audit.html")
    told = dict(line.rsplit(maxsplit=1) for line in output.splitlines() if line)
    assert (told["partitions"], told["errors"], told["warnings"]) == ("2", "0", "0")
    assert "Nothing is wrong." in (driver.directory / "audit.html").read_text()
    found = parquet.read_table(driver.directory / "tables" / "partitions")
    assert sorted(found["path"].to_pylist()) == [
        str(driver.directory / "data" / name) for name in ("orders-0", "plain-3")
    ]


def test_compact_report(driver: Driver) -> None:
    output = driver.command("compact-report", "data", "--report", "compaction.html")
    assert {line.split()[0] for line in output.splitlines()} >= {"orders", "plain", "report"}
    assert (driver.directory / "compaction.html").exists()


def test_ingest_and_export_exactly_once(driver: Driver, topics: TopicMaker) -> None:
    """A Delta table, with values that executors decode and one that goes into the quarantine."""
    source, target = topics.create(2), topics.create(2)
    (driver.directory / "schema.json").write_text(json.dumps(SCHEMA))
    for partition in range(2):
        values = [json.dumps({"id": number}).encode() for number in range(20)]
        plain.produce(topics.bootstrap, source, [*values, b"no JSON"][partition:], partition=partition)
    output = driver.command(
        *("ingest", "--topic", source, "--bootstrap-server", topics.bootstrap, "--table", "table"),
        *("--checkpoint", "checkpoint", "--table-format", "delta"),
        *("--value-format", "json", "--schema-file", "schema.json"),
    )
    assert [line.split()[-1] for line in output.splitlines()[-3:]] == ["41", "1", "2"]
    assert rows_of(driver.directory / "table", "day=*/*.parquet") == 39
    assert rows_of(driver.directory / "table-quarantine", "day=*/*.parquet") == 2
    driver.command(
        *("export", "--table", "table", "--table-format", "delta", "--checkpoint", "again.checkpoint"),
        *("--topic", target, "--delivery", "exactly-once", "--bootstrap-server", topics.bootstrap),
    )
    sent = sorted(record.value or b"" for record in plain.read(topics.bootstrap, target))
    decoded = [record.value or b"" for record in plain.read(topics.bootstrap, source)]
    assert sent == sorted(value for value in decoded if value != b"no JSON")


def test_demo(driver: Driver) -> None:
    driver.command("demo", "demo", "--records", "1500")
    report = (driver.directory / "demo" / "report.html").read_text()
    assert "Every record that was produced is in a table or in quarantine, exactly once." in report


def test_spark_submit(cluster: Cluster, driver: Driver) -> None:
    """The same command line with spark-submit, whose driver has only the installed packages."""
    conf = [word for key, value in CONF.items() for word in ("--conf", f"{key}={value}")]
    job = ROOT / "pipeline" / "jobs" / "job.py"
    ran = subprocess.run(
        [
            str(spark_home() / "bin" / "spark-submit"),
            "--master",
            cluster.url,
            *conf,
            str(job),
            "scan",
            "data",
        ],
        cwd=driver.directory,
        env=cluster.environment() | {"PYSPARK_DRIVER_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=540,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr[-5000:] + cluster.executors_output()
    assert ran.stdout.splitlines()[-1].split() == ["records", str(RECORDS)]


def test_executors_directories_are_empty(cluster: Cluster, driver: Driver) -> None:
    """Runs last: a relative path that a task resolved itself would be there."""
    driver.close()
    names = {path.name for path in cluster.directory.glob("worker/app-*/*/*") if path.suffix != ".jar"}
    assert names <= {"stdout", "stderr"}

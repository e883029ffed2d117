"""Runs the demonstration: it leaves the files that it names and no process."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.pipeline.spark_session import shared_session

pytestmark = pytest.mark.spark
ROOT = Path(__file__).parents[3]


@pytest.mark.timeout(600)
def test_the_demonstration(tmp_path: Path) -> None:
    where = tmp_path / "demo"
    result = subprocess.run(
        [
            sys.executable,
            "-m",
            "barnabas.cli",
            "pipeline",
            "demo",
            str(where),
            "--records",
            "4000",
            "--master",
            "local[2]",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=590,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    report = (where / "report.html").read_text()
    assert "Every record that was produced is in a table or in quarantine, exactly once." in report
    assert {each.name for each in where.iterdir()} >= {
        "log",
        "tables",
        "checkpoints",
        "schemas",
        "report.html",
    }
    figures = re.findall(r"<svg.*?</svg>", report, re.DOTALL)
    assert len(figures) == 8
    written = [" ".join(ET.fromstring(figure).itertext()) for figure in figures]
    for name in ("shop.orders", "DE", "checkout", "teapot", "shipped", "malformed", "late", "shop.clicks-0"):
        assert any(name in text for text in written), name
    HTMLParser().feed(report)
    assert not _brokers_in(where)


def test_an_empty_quarantine(tmp_path: Path) -> None:
    """With few records a topic may have no flawed one, and then the table does not exist."""
    from barnabas.pipeline.demo.queries import QUERIES
    from barnabas.pipeline.demo.run import Demo
    from barnabas.pipeline.demo.stream import TOPICS

    spark = shared_session()
    for number, topic in enumerate(TOPICS):
        rows = [(topic, 0, number, "2026-01-31")]
        frame = spark.createDataFrame(rows, "topic string, partition int, offset bigint, day string")
        frame.write.parquet(str(tmp_path / "tables" / topic))
    Demo(spark, tmp_path, "parquet", print)._make_views()
    assert spark.sql(QUERIES["quarantine"]).collect() == []
    assert sorted(row["records"] for row in spark.sql(QUERIES["offsets"]).collect()) == [1, 1]


def _brokers_in(where: Path) -> list[str]:
    """Processes whose command line names the directory."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(where).encode() in line.read_bytes():
                found.append(line.parent.name)
        except OSError:
            continue
    return found

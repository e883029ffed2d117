"""Tests the tables and the ledger over Hadoop's file system for a local directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.ingest.files import HadoopFiles, LocalFiles, located
from barnabas.pipeline.ingest.ledger import Ledger, Rules
from tests.pipeline.ingest.test_commit_log import WHOLE, run_batch, visible
from tests.pipeline.spark_session import shared_session

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def files() -> HadoopFiles:
    """Files through the driver's JVM."""
    spark = shared_session()
    jvm: Any = spark._jvm
    return HadoopFiles(jvm, jvm.org.apache.hadoop.fs.FileSystem.getLocal(spark._jsc.hadoopConfiguration()))


def test_files(files: HadoopFiles, tmp_path: Path) -> None:
    one, two = str(tmp_path / "a" / "one"), str(tmp_path / "b" / "two")
    assert files.read(one) is None
    assert files.create(one, b"\x00\xff")
    assert not files.create(one, b"other")
    assert files.read(one) == b"\x00\xff"
    assert files.rename(one, two)
    assert not files.rename(one, two)
    assert files.names(str(tmp_path / "b")) == ["two"]
    assert files.names(str(tmp_path / "nowhere")) == []
    assert files.tree(str(tmp_path)) == ["b/two"]
    files.remove(str(tmp_path / "b"))
    files.remove(str(tmp_path / "b"))
    assert files.tree(str(tmp_path)) == []


def test_batches(files: HadoopFiles, tmp_path: Path) -> None:
    for batch_id in (0, 1, 1, 2):
        run_batch(files, tmp_path, batch_id)
    assert visible(tmp_path) == WHOLE


def test_a_ledger(files: HadoopFiles, tmp_path: Path) -> None:
    ledger = Ledger(files, f"file:{tmp_path}")
    assert ledger.identity({"table": "t"}) == ledger.identity({"table": "t"})
    ledger.write(0, Rules(unknown=(7,)))
    assert ledger.latest() == Rules(unknown=(7,))
    assert ledger.once("slots", 3) == ledger.once("slots", 4) == 3


def test_local_paths_need_no_hadoop(tmp_path: Path) -> None:
    for path in (str(tmp_path), f"file:{tmp_path}"):
        files, full_path = located(shared_session(), path)
        assert isinstance(files, LocalFiles)
        assert full_path == str(tmp_path)

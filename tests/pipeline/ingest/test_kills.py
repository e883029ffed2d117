"""Tests that each record is ingested once, whichever process is killed. BARNABAS_INGEST_KILLS: how often (2)."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from tests.pipeline.ingest.killing import PARTITIONS, SCHEMA, Scene, check, finish, kills
from tests.pipeline.plain import TopicMaker
from tests.support.broker_process import BrokerProcess
from tests.support.chance import seed_or

pyspark = pytest.importorskip("pyspark")
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(0)]

KILLS = int(os.environ.get("BARNABAS_INGEST_KILLS", "2"))

LONG = pytest.mark.skipif(KILLS <= 2, reason="one of the four is enough for so few kills")


@pytest.mark.parametrize(
    ("table_format", "executors"),
    [
        pytest.param("parquet", True, id="parquet-local-cluster"),
        pytest.param("delta", False, id="delta-local", marks=LONG),
        pytest.param("parquet", False, id="parquet-local", marks=LONG),
        pytest.param("delta", True, id="delta-local-cluster", marks=LONG),
    ],
)
def test_each_record_is_in_the_tables_once(tmp_path: Path, table_format: str, executors: bool) -> None:
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
    with BrokerProcess(tmp_path / "data") as broker:
        topic = TopicMaker(broker.bootstrap).create(PARTITIONS)
        scene = Scene(broker, topic, tmp_path, table_format, executors, random.Random(seed_or(1)))
        try:
            killed = kills(scene, KILLS)
            finish(scene)
        finally:  # workers of a local cluster leave their log files there, and no setting names another place
            shutil.rmtree(Path(str(pyspark.__file__)).with_name("work"), ignore_errors=True)
        print(f"{check(scene)} records, each once, after kills of {', '.join(killed)}")

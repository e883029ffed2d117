"""Tests `format("barnabas")` in Spark: rows, options, filters and streams, in one session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from barnabas.pipeline.log_reading.arrow_columns import SCHEMA
from barnabas.pipeline.spark.options import USUAL_TASKS
from barnabas.protocol.records.compression import CompressionType
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import AppendOrigin
from tests.pipeline.log_reading.busy_log import UnsyncedEnv
from tests.storage.helpers import T0, TOPIC_ID, end_txn, make_batch, small_config

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


class Logs:
    """Topics in a directory, to which tests write."""

    def __init__(self, directory: Path) -> None:
        self.path = str(directory)
        self.manager = LogManager(UnsyncedEnv(), [self.path], lambda _topic: small_config())
        self.manager.dirs.lock()
        self.manager.load_logs()

    def log(self, topic: str = "orders", partition: int = 0) -> UnifiedLog:
        return self.manager.get_or_create_log(topic, partition, TOPIC_ID)

    def append(self, *values: bytes | None, topic: str = "orders", partition: int = 0, **batch: Any) -> None:
        log = self.log(topic, partition)
        batch.setdefault("timestamp", T0 + log.log_end_offset)
        log.append_as_leader(make_batch(*values, **batch), 0)
        log.update_high_watermark(log.log_end_offset)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        log = self.log()
        log.append_as_leader(end_txn(producer_id, 0, commit=commit), 0, origin=AppendOrigin.COORDINATOR)
        log.update_high_watermark(log.log_end_offset)


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    return Logs(tmp_path / "data")


def frame(spark: Any, logs: Logs, **options: Any) -> Any:
    return spark.read.format("barnabas").options(path=logs.path, **options).load()


def offsets(spark: Any, logs: Logs, **options: Any) -> list[int]:
    return sorted(row.offset for row in frame(spark, logs, **options).collect())


def test_the_schema_is_that_of_the_kafka_source(spark: Any, logs: Logs) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    logs.append(b"a")
    found = frame(spark, logs, includeHeaders="true").schema
    assert found.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    assert to_arrow_schema(found, timezone="UTC") == SCHEMA


def test_rows_of_every_codec(spark: Any, logs: Logs) -> None:
    for codec in CompressionType:
        logs.append(b"v" * 20, None, compression=codec, key=codec.label.encode())
    found = sorted(frame(spark, logs, rangeBytes="200").collect(), key=lambda row: row.offset)
    assert [row.offset for row in found] == list(range(10))
    assert [bytes(row.key).decode() for row in found[::2]] == ["none", "gzip", "snappy", "lz4", "zstd"]
    assert {bytes(row.value) for row in found[::2]} == {b"v" * 20}
    assert {row.value for row in found[1::2]} == {None}
    assert {(row.topic, row.partition, row.timestampType) for row in found} == {("orders", 0, 0)}
    assert found[3].timestamp.timestamp() * 1000 == T0 + 2


def test_tasks_filters_and_columns(spark: Any, logs: Logs) -> None:
    for number in range(40):
        logs.append(b"%d" % number * 50)
        logs.append(b"x", topic="other", partition=1)
    everything = frame(spark, logs, rangeBytes="600")
    assert everything.rdd.getNumPartitions() > 4
    assert everything.count() == 80
    assert everything.where("topic = 'orders' and offset >= 30 and offset < 33").count() == 3
    assert everything.where(f"timestamp >= timestamp_millis({T0 + 38})").count() == 4
    only = frame(spark, logs, columns="offset,value", subscribe="orders")
    assert only.columns == ["offset", "value"]
    assert only.selectExpr("sum(length(value))").first()[0] == sum(len(b"%d" % n) * 50 for n in range(40))
    assert frame(spark, logs, subscribe="orders", endingOffsets='{"orders": {"0": 0}}').count() == 0


def test_isolation(spark: Any, logs: Logs) -> None:
    producer: dict[str, Any] = {"producer": (7, 0, 0), "transactional": True}
    logs.append(b"a")
    logs.append(b"b", **producer)
    logs.end_transaction(7, commit=False)
    logs.append(b"c", producer=(7, 0, 1), transactional=True)
    logs.end_transaction(7, commit=True)
    logs.append(b"d", producer=(7, 0, 2), transactional=True)
    logs.append(b"e")
    assert offsets(spark, logs) == [0, 1, 3, 5, 6]
    assert offsets(spark, logs, **{"kafka.isolation.level": "read_committed"}) == [0, 3]


def test_errors_name_the_option(spark: Any, logs: Logs) -> None:
    logs.append(b"a")
    with pytest.raises(Exception, match="option failOnDataLoss='maybe': true or false"):
        frame(spark, logs, failOnDataLoss="maybe").count()
    with pytest.raises(Exception, match="orders-0 has offsets 0 to 1, and 9 was asked for"):
        frame(spark, logs, startingOffsets='{"orders": {"0": 9}}').count()


def run(spark: Any, logs: Logs, tmp_path: Path, **options: Any) -> list[list[int]]:
    """The offsets of each micro-batch of an available-now query."""
    batches: list[list[int]] = []
    source = (
        spark.readStream.format("barnabas")
        .options(path=logs.path, startingOffsets="earliest", **options)
        .load()
    )
    query = (
        source.writeStream.foreachBatch(
            lambda found, _: batches.append(sorted(r.offset for r in found.collect()))
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return [batch for batch in batches if batch]


def test_a_stream_resumes_at_its_offset(spark: Any, logs: Logs, tmp_path: Path) -> None:
    for _ in range(7):
        logs.append(b"a")
    assert run(spark, logs, tmp_path, maxOffsetsPerTrigger="3") == [[0, 1, 2], [3, 4, 5], [6]]
    assert run(spark, logs, tmp_path) == []
    logs.append(b"b", b"c")
    logs.append(b"d", topic="later")
    assert sorted(run(spark, logs, tmp_path)) == [[0, 7, 8]]


def test_a_stream_reports_lost_offsets(spark: Any, logs: Logs, tmp_path: Path) -> None:
    logs.append(b"a")
    assert run(spark, logs, tmp_path) == [[0]]
    for _ in range(40):
        logs.append(b"b" * 300)
    logs.log().update_config(small_config(retention_bytes=2000, retention_ms=-1, file_delete_delay_ms=0))
    assert logs.log().delete_old_segments()
    start = logs.log().log_start_offset
    with pytest.raises(Exception, match=f"offsets 1 to {start - 1} of orders-0 are gone"):
        run(spark, logs, tmp_path)
    assert run(spark, logs, tmp_path, failOnDataLoss="false") == [list(range(start, 41))]


def test_a_session_has_tasks_made_for_its_cores() -> None:
    """A source without a session has a default."""
    from pyspark.sql.types import StructType

    from barnabas.pipeline.spark.source import BarnabasDataSource, BarnabasReader, for_cores

    for source, tasks in ((for_cores(4), 12), (BarnabasDataSource, USUAL_TASKS)):
        reader = source({"path": "/x"}).reader(StructType())
        assert isinstance(reader, BarnabasReader)
        assert reader.options.usual_tasks == tasks

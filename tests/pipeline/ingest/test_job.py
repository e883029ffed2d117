"""Runs whole ingests and exports of few records against a broker."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

pytest.importorskip("pyspark")

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import functions as F  # noqa: N812

from barnabas.pipeline.decoding.wire_format import join
from barnabas.pipeline.export.job import export
from barnabas.pipeline.export.options import Delivery, ExportOptions
from barnabas.pipeline.ingest.job import ingest
from barnabas.pipeline.ingest.ledger import IngestConflictError
from barnabas.pipeline.ingest.options import DecodeOptions, IngestOptions, TableFormat
from barnabas.pipeline.ingest.tables import CommitLog, DeltaTable, ParquetTable
from barnabas.pipeline.session import ARROW_BATCH_BYTES
from tests.pipeline import plain
from tests.pipeline.decoding import samples
from tests.pipeline.plain import TopicMaker
from tests.pipeline.spark_session import shared_session
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

T0 = 1_769_860_800_000
"""2026-01-31T12:00:00Z in epoch ms."""
HOUR_MS = 3_600_000
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
Options = Callable[..., IngestOptions]


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """One session for all tests."""
    return shared_session()


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicMaker]:
    """Topics of one broker for all tests."""
    with BrokerProcess(tmp_path_factory.mktemp("ingest") / "data") as broker:
        yield TopicMaker(broker.bootstrap)


@pytest.fixture
def options(topics: TopicMaker, tmp_path: Path) -> Options:
    """Options for an ingest of a topic in this test's directory."""

    def make(topic: str, table_format: TableFormat = "parquet", **changes: Any) -> IngestOptions:
        (tmp_path / "schema.json").write_text(json.dumps(SCHEMA))
        usual: dict[str, Any] = {
            "bootstrap": topics.bootstrap,
            "table": str(tmp_path / "table"),
            "checkpoint": str(tmp_path / "checkpoint"),
            "topics": (topic,),
            "table_format": table_format,
        }
        return IngestOptions(**{**usual, **changes})

    return make


def by_id(tmp_path: Path) -> DecodeOptions:
    """JSON with an id."""
    return DecodeOptions("json", tmp_path / "schema.json")


def rows(spark: SparkSession, options: IngestOptions, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """The rows of a table, sorted."""
    found = spark.read.format(options.table_format).load(table).select(*columns).collect()
    return sorted(tuple(bytes(one) if isinstance(one, bytearray) else one for one in row) for row in found)


def test_places_are_compared_by_their_absolute_paths(
    spark: SparkSession, topics: TopicMaker, options: Options, tmp_path: Path
) -> None:
    """Java's working directory is the one in which this process was started."""
    relative = os.path.relpath(tmp_path)
    for changes, words in (
        (
            {"table": f"{relative}/t", "checkpoint": str(tmp_path / "t" / "c")},
            "the checkpoint .*/t/c lies in",
        ),
        ({"table": f"{relative}/t", "quarantine": str(tmp_path / "t")}, "the quarantine cannot be the table"),
    ):
        with pytest.raises(ValueError, match=words):
            ingest(spark, options("t", **changes))
    assert [path.name for path in tmp_path.iterdir()] == ["schema.json"]


def test_a_topic_becomes_plain_parquet_files(
    spark: SparkSession, topics: TopicMaker, options: Options
) -> None:
    topic = topics.create(2)
    for partition in range(2):
        times = [T0 + number * HOUR_MS for number in range(20)]
        plain.produce(
            topics.bootstrap, topic, [b"v"] * 20, partition=partition, keys=[b"k"] * 20, timestamps=times
        )
    told = options(topic, partition_by="hour", max_offsets_per_trigger=15)
    summary = ingest(spark, told)
    assert (summary.rows, summary.batches, summary.quarantined) == (40, 3, 0)
    table = ds.dataset(told.table, partitioning="hive").to_table()
    assert table.num_rows == 40
    places = zip(
        table["day"].to_pylist(), table["hour"].to_pylist(), table["timestamp"].to_pylist(), strict=True
    )
    for day, hour, time in places:
        assert (day, int(hour)) == (f"{time:%Y-%m-%d}", time.hour)
    assert ingest(spark, told).rows == 0
    plain.produce(topics.bootstrap, topic, [b"later"])
    assert ingest(spark, replace(told, trigger="once", max_offsets_per_trigger=None)).rows == 1
    assert ds.dataset(told.table, partitioning="hive").count_rows() == 41


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_malformed_and_late_records_go_into_the_quarantine(
    spark: SparkSession, topics: TopicMaker, options: Options, tmp_path: Path, table_format: TableFormat
) -> None:
    topic = topics.create()
    told = options(topic, table_format, decode=by_id(tmp_path), late_after_s=60, future_after_s=10**12)
    plain.produce(topics.bootstrap, topic, [b'{"id": 0}', b'{"id": 1}'], timestamps=[T0, T0 - HOUR_MS])
    assert ingest(spark, told).reasons == {}  # times count from the next batch on
    values = [b'{"id": 2}', b"{", b'{"id": 3}', None, b'{"id": 4}']
    times = [T0 - 60_000, T0, T0 - 60_001, T0 + 1, T0 + HOUR_MS]
    plain.produce(topics.bootstrap, topic, values, timestamps=times)
    assert ingest(spark, told).reasons == {"malformed": 1, "late": 1}
    assert rows(spark, told, told.table, "offset", "data.id") == [(0, 0), (1, 1), (2, 2), (5, None), (6, 4)]
    found = rows(spark, told, told.quarantine_table, "offset", "value", "reason", "detail")
    assert found[0][:3] == (3, b"{", "malformed")
    assert found[1] == (4, b'{"id": 3}', "late", "1 ms later than allowed")


def test_records_in_the_future_make_no_record_late(
    spark: SparkSession, topics: TopicMaker, options: Options, tmp_path: Path
) -> None:
    topic = topics.create(settings={"message.timestamp.after.max.ms": str(2**62)})
    told = options(topic, decode=by_id(tmp_path), late_after_s=60)
    plain.produce(topics.bootstrap, topic, [b'{"id": 0}', b'{"id": 1}'], timestamps=[T0, 4 * T0])
    assert ingest(spark, told).reasons == {"future": 1}
    plain.produce(topics.bootstrap, topic, [b'{"id": 2}'], timestamps=[T0])
    assert ingest(spark, told).reasons == {}
    plain.produce(topics.bootstrap, topic, [b"{"], timestamps=[4 * T0])  # it has another reason already
    assert ingest(spark, told).reasons == {"malformed": 1}
    plain.produce(topics.bootstrap, topic, [b'{"id": 3}'], timestamps=[T0])
    assert ingest(spark, told).reasons == {}


def test_a_batch_is_sorted_by_the_options_it_was_begun_with(
    spark: SparkSession,
    topics: TopicMaker,
    options: Options,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The quarantine has the batch already, sorted by these."""
    topic = topics.create()
    told = options(topic, late_after_s=60)
    plain.produce(topics.bootstrap, topic, [b"a"], timestamps=[T0])
    ingest(spark, told)
    plain.produce(topics.bootstrap, topic, [b"b", b"c"], timestamps=[T0 - 90_000, T0 - 30_000])
    with monkeypatch.context() as patch:
        patch.setattr(ParquetTable, "append", _refuse_tables(ParquetTable.append))
        with pytest.raises(Exception, match="the end"):
            ingest(spark, told)
    ingest(spark, replace(told, late_after_s=10))
    assert rows(spark, told, told.table, "offset") == [(0,), (2,)]
    assert rows(spark, told, told.quarantine_table, "offset") == [(1,)]


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_a_restored_older_checkpoint_is_rejected(
    spark: SparkSession, topics: TopicMaker, options: Options, table_format: TableFormat
) -> None:
    """Spark reuses the number of a batch in the table for another one, with records that the table lacks."""
    topic = topics.create()
    told = options(topic, table_format)
    checkpoint, copy = Path(told.checkpoint), Path(told.checkpoint).with_name("copy")
    plain.produce(topics.bootstrap, topic, [b"a"])
    ingest(spark, told)
    shutil.copytree(checkpoint, copy)
    plain.produce(topics.bootstrap, topic, [b"b"])
    ingest(spark, told)
    shutil.rmtree(checkpoint)
    copy.rename(checkpoint)
    plain.produce(topics.bootstrap, topic, [b"c"])
    with pytest.raises(Exception, match="has batch 1 of this ingest up to the offsets"):
        ingest(spark, told)
    assert rows(spark, told, told.table, "offset") == [(0,), (1,)]


@pytest.mark.parametrize(("table_format", "table"), [("parquet", ParquetTable), ("delta", DeltaTable)])
@pytest.mark.parametrize("dies_at", [0, 1])
def test_a_batch_that_was_cut_short_is_completed(
    *,
    spark: SparkSession,
    topics: TopicMaker,
    options: Options,
    tmp_path: Path,
    table_format: TableFormat,
    table: Any,
    dies_at: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before and after the table has it: the quarantine has it in both cases."""
    topic = topics.create()
    plain.produce(topics.bootstrap, topic, [b'{"id": 0}', b"{", b'{"id": 1}'])
    told = options(topic, table_format, decode=by_id(tmp_path))
    append = table.append

    def die(self: Any, batch: Any, batch_id: int) -> None:
        is_quarantine = "reason" in batch.columns
        if is_quarantine or dies_at:
            append(self, batch, batch_id)
        if not is_quarantine:
            raise RuntimeError("the end")

    with monkeypatch.context() as patch:
        patch.setattr(table, "append", die)
        with pytest.raises(Exception, match="the end"):
            ingest(spark, told)
    ingest(spark, told)
    assert rows(spark, told, told.table, "offset") == [(0,), (2,)]
    assert rows(spark, told, told.quarantine_table, "offset") == [(1,)]


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
def test_a_batch_without_a_commit_file(
    spark: SparkSession,
    topics: TopicMaker,
    options: Options,
    monkeypatch: pytest.MonkeyPatch,
    table_format: TableFormat,
) -> None:
    """A Delta table has it by then, a Parquet table does not."""
    topic = topics.create()
    plain.produce(topics.bootstrap, topic, [b"a", b"b"])
    told = options(topic, table_format)

    def die(*_: Any) -> None:
        raise RuntimeError("the end")

    with monkeypatch.context() as patch:
        patch.setattr(CommitLog, "commit", die)
        with pytest.raises(Exception, match="the end"):
            ingest(spark, told)
    ingest(spark, told)
    assert rows(spark, told, told.table, "offset") == [(0,), (1,)]
    assert not list(Path(told.table).glob("_barnabas/staging/*"))


def test_a_table_and_its_checkpoint_belong_together(
    spark: SparkSession, topics: TopicMaker, options: Options, tmp_path: Path
) -> None:
    topic = topics.create()
    plain.produce(topics.bootstrap, topic, [b"1"])
    told = options(topic)
    ingest(spark, told)
    with pytest.raises(IngestConflictError, match="is that of an ingest with the table"):
        ingest(spark, replace(told, table=str(tmp_path / "other")))
    lost = replace(told, checkpoint=str(tmp_path / "new"))
    with pytest.raises(IngestConflictError, match="was filled with the checkpoint"):
        ingest(spark, lost)
    assert ingest(spark, replace(lost, second_ingest=True)).rows == 1
    assert ingest(spark, told).rows == 0


class FakeRegistry(http.server.BaseHTTPRequestHandler):
    """A registry with the schemas that a test gives it."""

    schemas: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        text = self.schemas.get(self.path.partition("?")[0])
        body = json.dumps({"error_code": 40403} if text is None else {"schema": text}).encode()
        self.send_response(404 if text is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the library
        """Logs nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    """The registry's address."""
    FakeRegistry.schemas.clear()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeRegistry) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_avro_by_a_registry(
    spark: SparkSession,
    topics: TopicMaker,
    options: Options,
    registry: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = topics.create()
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    new = {**old, "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "?"}]}
    FakeRegistry.schemas[f"/subjects/{topic}-value/versions/latest"] = json.dumps(new)
    FakeRegistry.schemas["/schemas/ids/1"] = json.dumps(old)
    values = [
        join(1, samples.avro_bytes(old, {"a": 1})),
        join(2, samples.avro_bytes(new, {"a": 2, "b": "x"})),
        b"no frame",
    ]
    plain.produce(topics.bootstrap, topic, values)
    told = options(topic, decode=DecodeOptions(registry=registry))
    with monkeypatch.context() as patch:
        patch.setattr(ParquetTable, "append", _refuse_tables(ParquetTable.append))
        with pytest.raises(Exception, match="the end"):
            ingest(spark, told)
    # The registry has the id by now. The batch was begun without it, and continues without it.
    FakeRegistry.schemas["/schemas/ids/2"] = json.dumps(new)
    assert ingest(spark, told).reasons == {"unknown schema": 1, "malformed": 1}
    plain.produce(topics.bootstrap, topic, values[:2])
    summary = ingest(spark, told)
    assert (summary.reasons, summary.rows) == ({}, 2)
    found = rows(spark, told, told.table, "offset", "data.a", "data.b")
    assert found == [(0, 1, "?"), (3, 1, "?"), (4, 2, "x")]
    assert rows(spark, told, told.quarantine_table, "offset") == [(1,), (2,)]


def _refuse_tables(append: Any) -> Any:
    def refuse(self: Any, batch: Any, batch_id: int) -> None:
        if "reason" not in batch.columns:
            raise RuntimeError("the end")
        append(self, batch, batch_id)

    return refuse


@pytest.mark.parametrize("table_format", ["parquet", "delta"])
@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_rows_survive_export_and_ingest(
    *,
    spark: SparkSession,
    topics: TopicMaker,
    options: Options,
    tmp_path: Path,
    table_format: TableFormat,
    delivery: Delivery,
) -> None:
    topic, target = topics.create(2), topics.create(2)
    for partition in range(2):
        plain.produce(
            topics.bootstrap,
            topic,
            [None if number == 5 else f"{partition}/{number}".encode() for number in range(20)],
            partition=partition,
            keys=[None if number % 4 == 0 else str(number).encode() for number in range(20)],
        )
    told = options(topic, table_format)
    ingest(spark, told)
    back = ExportOptions(
        topics.bootstrap,
        told.table,
        str(tmp_path / "back"),
        target,
        table_format,
        delivery,
        keep_partitions=True,
    )
    assert export(spark, back).rows == 40
    assert export(spark, back).rows == 0
    original = plain.read(topics.bootstrap, topic)
    assert sorted((one.partition, one.key or b"", one.value or b"") for one in original) == sorted(
        (one.partition, one.key or b"", one.value or b"") for one in plain.read(topics.bootstrap, target)
    )


def test_an_export_in_transactions_does_a_batch_once(
    spark: SparkSession,
    topics: TopicMaker,
    options: Options,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic, target = topics.create(), topics.create(3)
    values = [str(number).encode() for number in range(60)]
    plain.produce(topics.bootstrap, topic, values, keys=values)
    told = options(topic)
    ingest(spark, told)
    back = ExportOptions(
        topics.bootstrap, told.table, str(tmp_path / "back"), target, delivery="exactly-once"
    )
    from barnabas.pipeline.export import job

    send = job._send_by_slots

    def send_and_die(*args: Any) -> None:
        send(*args)
        raise RuntimeError("the end")

    with monkeypatch.context() as patch:
        patch.setattr(job, "_send_by_slots", send_and_die)
        with pytest.raises(Exception, match="the end"):
            export(spark, back)
    export(spark, back)
    assert sorted(one.value or b"" for one in plain.read(topics.bootstrap, target)) == sorted(values)


def test_large_values_are_decoded_a_few_at_a_time(spark: SparkSession) -> None:
    """Ten thousand values of a megabyte, decoded at once, are more than a worker has memory for."""

    def count(values: pa.Array) -> pa.Array:
        return pa.array([len(values)] * len(values), pa.int32())

    count.__annotations__ = {"values": pa.Array, "return": pa.Array}
    values = spark.range(0, 200, numPartitions=1).select(
        F.expr("cast(repeat('x', 1000000) as binary)").alias("v")
    )
    rows_at_once = F.arrow_udf(count, returnType="int")("v")
    assert values.select(F.max(rows_at_once)).first()[0] <= ARROW_BATCH_BYTES // 1_000_000 + 1

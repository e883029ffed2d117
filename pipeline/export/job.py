"""Runs an export by its options: reads the table as a stream and sends each batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.pipeline.export.options import ExportOptions
from barnabas.pipeline.export.transactions import SlotWriter, partitions_of
from barnabas.pipeline.ingest.files import located
from barnabas.pipeline.ingest.job import run_query
from barnabas.pipeline.ingest.ledger import Ledger
from barnabas.pipeline.ingest.progress import BatchProgress, Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SENT: Final = ("key", "value", "headers", "topic", "partition")
"""The columns that the connector's sink accepts; timestamps are not among them."""


class ExportSummary(NamedTuple):
    """The rows that an export has read in this run. A batch that is run again after a crash counts again."""

    rows: int
    batches: int


def export(
    spark: SparkSession,
    options: ExportOptions,
    *,
    on_progress: Callable[[BatchProgress], None] | None = None,
    progress: Progress | None = None,
) -> ExportSummary:
    """Runs until the trigger has finished, or with `continuous` until it is interrupted.

    Raises ValueError where the options, the table, the topic and the checkpoint do not go together, and Spark's
    StreamingQueryException where a batch fails: the next run continues with that batch.
    """
    progress = progress or Progress(options.table)
    run_query(
        spark, "export", source(spark, options), options, _sender(spark, options), progress, on_progress
    )
    return ExportSummary(progress.rows, progress.batches)


def source(spark: SparkSession, options: ExportOptions) -> DataFrame:
    """The stream of the table's rows, a bounded number of files at a time, oldest first. Raises ValueError."""
    reader = spark.readStream.option("maxFilesPerTrigger", options.files_per_batch)
    if options.table_format == "delta":
        rows = reader.format("delta").load(options.table)
    else:
        rows = reader.schema(spark.read.parquet(options.table).schema).parquet(options.table)
    if "value" not in rows.columns:
        raise ValueError(f"{options.table} has no column value, and the columns {', '.join(rows.columns)}")
    if not options.topic and "topic" not in rows.columns:
        raise ValueError(f"{options.table} has no column topic: say which topic its rows go to")
    if options.keep_partitions and "partition" not in rows.columns:
        raise ValueError(f"{options.table} has no column partition: its rows name none that could be kept")
    return rows


def _sender(spark: SparkSession, options: ExportOptions) -> Callable[[DataFrame, int], None]:
    files, checkpoint = located(spark, options.checkpoint)
    ledger = Ledger(files, checkpoint)
    _, table = located(spark, options.table)
    described = {"exported": table, "topic": options.topic, "delivery": options.delivery}
    export_id = ledger.identity(described)
    if options.delivery == "at-least-once":
        return partial(_send_by_connector, options)
    settings = options.client_settings()
    slots = ledger.once("slots", partitions_of(options.bootstrap, options.topic, settings))
    writer = SlotWriter(options.bootstrap, options.topic, export_id, options.keep_partitions, settings)
    return partial(_send_by_slots, options, writer, slots)


def shaped(batch: DataFrame, options: ExportOptions, parts: int | None = None) -> DataFrame:
    """The columns to send; the rows of a key stay together and in their topic's order."""
    from pyspark.sql import functions as F  # noqa: N812

    columns = [name for name in _SENT if name in batch.columns]
    if not options.keep_partitions:
        columns = [name for name in columns if name != "partition"]
    # Cast both to bytes: one may be text and the other not.
    dealt_by = F.coalesce(*(F.col(name).cast("binary") for name in ("key", "value") if name in batch.columns))
    order = [F.col(name) for name in ("topic", "partition", "offset") if name in batch.columns]
    if "timestamp" in batch.columns:
        batch = batch.withColumn("timestamp_ms", F.unix_millis("timestamp"))
        columns.append("timestamp_ms")
    batch = batch.repartition(dealt_by) if parts is None else batch.repartition(parts, dealt_by)
    return (batch.sortWithinPartitions(*order) if order else batch).select(*columns)


def _send_by_connector(options: ExportOptions, batch: DataFrame, _batch_id: int) -> None:
    rows = shaped(batch, options).drop("timestamp_ms")
    writer = rows.write.format("kafka").option("kafka.bootstrap.servers", options.bootstrap)
    writer = writer.option("includeHeaders", "true")
    for key, value in options.client_settings().items():
        writer = writer.option(f"kafka.{key}", value)
    if options.topic:
        writer = writer.option("topic", options.topic)
    writer.save()


def _send_by_slots(
    options: ExportOptions, writer: SlotWriter, slots: int, batch: DataFrame, batch_id: int
) -> None:
    rows = shaped(batch, options, slots)

    def send(slot: int, part: Iterable[Any]) -> Iterator[int]:
        yield writer(slot, batch_id, part)

    rows.rdd.mapPartitionsWithIndex(send).sum()

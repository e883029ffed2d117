"""Runs an ingest by its options: the stream from Spark's Kafka connector, the tables, and the query between them."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from barnabas.pipeline.decoding.registry import Registry
from barnabas.pipeline.decoding.sources import spec_of_file, spec_of_subject
from barnabas.pipeline.ingest.batches import Batches
from barnabas.pipeline.ingest.files import located
from barnabas.pipeline.ingest.ledger import Ledger, Rules
from barnabas.pipeline.ingest.options import IngestOptions, Trigger, check_places, starting_offsets
from barnabas.pipeline.ingest.progress import BatchProgress, Progress, listener
from barnabas.pipeline.ingest.rows import BATCH_TIME, partition_columns
from barnabas.pipeline.ingest.tables import DeltaTable, ParquetTable, claim

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

    from barnabas.pipeline.decoding.spec import DecodingSpec
    from barnabas.pipeline.export.options import ExportOptions

_POLL_S = 0.5
_EVENTS_LIMIT_S = 30.0


class IngestSummary(NamedTuple):
    """The results of an ingest in this run. A batch that is run again after a crash counts again."""

    rows: int
    batches: int
    quarantined: int
    reasons: dict[str, int]


def ingest(
    spark: SparkSession,
    options: IngestOptions,
    *,
    on_progress: Callable[[BatchProgress], None] | None = None,
    progress: Progress | None = None,
) -> IngestSummary:
    """Runs until the trigger has finished, or with `continuous` until it is interrupted.

    Raises ValueError where the options, a schema, the checkpoint and the tables do not go together (IngestConflictError
    and SchemaError are of that kind), RegistryError, and Spark's StreamingQueryException where a batch fails: what was
    committed stays, and the next run continues from there.
    """
    progress = progress or Progress(options.table)
    batches = batches_of(spark, options)
    batches.on_quarantined = progress.quarantined
    rows = source(spark, options)
    run_query(spark, "ingest", rows, options, batches, progress, on_progress, batches.readings)
    reasons = dict(batches.quarantined)
    return IngestSummary(progress.rows, progress.batches, sum(reasons.values()), reasons)


def run_query(  # noqa: PLR0917
    spark: SparkSession,
    kind: str,
    rows: DataFrame,
    options: IngestOptions | ExportOptions,
    send: Callable[[DataFrame, int], None],
    progress: Progress,
    on_progress: Callable[[BatchProgress], None] | None,
    readings: dict[int, int] | None = None,
) -> None:
    """Streams rows to `send`, batch by batch, until the trigger has finished; reports and serves the progress."""
    with ExitStack() as stack:
        if options.metrics_port is not None:
            stack.callback(progress.serve(options.metrics_port))
        name = f"{kind}-{uuid.uuid4().hex[:8]}"
        events = listener(progress, name, on_progress, readings)
        spark.streams.addListener(events)
        stack.callback(spark.streams.removeListener, events)
        writer = rows.writeStream.queryName(name).option("checkpointLocation", options.checkpoint)
        query = triggered(writer.foreachBatch(send), options.trigger, options.every_s).start()
        try:
            await_end(query)
        finally:
            progress.ended.wait(_EVENTS_LIMIT_S)


def source(spark: SparkSession, options: IngestOptions) -> DataFrame:
    """The connector's stream of rows."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", options.bootstrap)
    reader = reader.option("includeHeaders", "true").option("kafka.isolation.level", options.isolation)
    reader = reader.option("failOnDataLoss", str(options.fail_on_data_loss).lower())
    if options.topics:
        reader = reader.option("subscribe", ",".join(options.topics))
    else:
        reader = reader.option("subscribePattern", options.topic_pattern)
    if options.max_offsets_per_trigger is not None:
        reader = reader.option("maxOffsetsPerTrigger", options.max_offsets_per_trigger)
    if options.min_partitions is not None:
        reader = reader.option("minPartitions", options.min_partitions)
    for key, value in {**starting_offsets(options.starting), **options.kafka}.items():
        reader = reader.option(key, value)
    rows = reader.load()
    from pyspark.sql import functions as F  # noqa: N812

    return rows.withColumn(BATCH_TIME, F.current_timestamp())


def batches_of(spark: SparkSession, options: IngestOptions) -> Batches:
    """The function for each batch; claims the checkpoint and the tables for this ingest."""
    registry = Registry(options.decode.registry) if options.decode and options.decode.registry else None
    decoding = _decoding(options, registry)
    checkpoint_files, checkpoint = located(spark, options.checkpoint)
    ledger = Ledger(checkpoint_files, checkpoint)
    # Absolute paths: a relative one names another table in another working directory.
    table, quarantine = located(spark, options.table), located(spark, options.quarantine_table)
    check_places(table[1], quarantine[1], checkpoint)
    ingest_id = ledger.identity(
        {
            "table": table[1],
            "quarantine": quarantine[1],
            "table_format": options.table_format,
            "topics": sorted(options.topics) or options.topic_pattern,
            "partition_by": options.partition_by,
        }
    )
    for files, path in (table, quarantine):
        claim(files, path, ingest_id, second_ingest=options.second_ingest, checkpoint=checkpoint)
    kind = DeltaTable if options.table_format == "delta" else ParquetTable
    columns = partition_columns(options.partition_by)
    return Batches(
        options,
        ledger,
        kind(*table, ingest_id, columns, ledger.planned),
        kind(*quarantine, ingest_id, columns, ledger.planned),
        decoding=_with_known_writers(decoding, ledger.latest()),
        registry=registry,
    )


def _with_known_writers(decoding: DecodingSpec | None, latest: Rules | None) -> DecodingSpec | None:
    """Reuses schemas that the registry gave before, unless values had another format then."""
    if decoding is None or latest is None or latest.decoding is None:
        return decoding
    is_same = latest.decoding.value_format == decoding.value_format
    return decoding.with_writers(latest.decoding.writers) if is_same else decoding


def _decoding(options: IngestOptions, registry: Registry | None) -> DecodingSpec | None:
    decode = options.decode
    if decode is None:
        return None
    if decode.schema_file is not None and decode.value_format is not None:
        return spec_of_file(
            decode.value_format,
            decode.schema_file,
            message=decode.message,
            registry_framing=registry is not None,
        )
    assert registry is not None, "DecodeOptions has one of the two"
    return spec_of_subject(decode.value_format, registry, options.subject, message=decode.message)


def triggered(writer: DataStreamWriter, trigger: Trigger, every_s: float) -> DataStreamWriter:
    """Sets the trigger. Once: everything in one batch; available-now: in bounded batches; continuous: without end."""
    match trigger:
        case "once":
            return writer.trigger(once=True)
        case "available-now":
            return writer.trigger(availableNow=True)
        case "continuous":
            return writer.trigger(processingTime=f"{round(every_s * 1000)} milliseconds")


def await_end(query: StreamingQuery) -> None:
    """Waits until the query ends; Ctrl-C stops it cleanly. Raises StreamingQueryException if it failed."""
    try:
        while not query.awaitTermination(_POLL_S):
            pass  # returns to Python now and then, so that Ctrl-C has an effect
    finally:
        query.stop()

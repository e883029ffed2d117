"""Expressions over the connector's rows: decode, sort out late ones, count, select the tables' columns."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - as everybody writes it
from pyspark.sql.pandas.types import from_arrow_type

from barnabas.pipeline.decoding.column import decode_column, decoder_of, result_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from barnabas.pipeline.decoding.spec import DecodingSpec
    from barnabas.pipeline.ingest.ledger import Rules
    from barnabas.pipeline.ingest.options import IngestOptions, PartitionBy

LATE: Final = "late"
FUTURE: Final = "future"
RAW_COLUMNS: Final = (
    "key",
    "value",
    "headers",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
)
BATCH_TIME: Final = "quarantined_at"
"""The time at which Spark began the batch, by the driver's clock: in its offset log, so the same when run again."""
_SOURCE: Final = "concat(topic, '/', partition)"


def decoded(batch: DataFrame, spec: DecodingSpec | None) -> DataFrame:
    """Adds `data` where values are to be decoded, and `reason`, `detail` and `schema_id`."""
    if spec is None:
        nothing = F.lit(None).cast("string")
        return batch.withColumns({"reason": nothing, "detail": nothing, "schema_id": F.lit(None).cast("int")})
    line = spec.to_json()

    def decode(values: pa.Array) -> pa.Array:
        return decode_column(line, values)

    decode.__annotations__ = {"values": _arrow_array(), "return": _arrow_array()}  # for arrow_udf
    udf = F.arrow_udf(decode, returnType=from_arrow_type(result_type(decoder_of(spec))))
    found = batch.withColumn("decoded", udf(F.col("value")))
    names = ("data", "reason", "detail", "schema_id")
    return found.withColumns({name: F.col(f"decoded.{name}") for name in names}).drop("decoded")


def _arrow_array() -> type:
    import pyarrow

    array: type = pyarrow.Array
    return array


def timed(rows: DataFrame, rules: Rules) -> DataFrame:
    """Adds the reasons `late` and `future` to records without another; changes nothing where lateness does not matter.
    A record without a timestamp (-1) is neither.
    """
    if rules.late_after_s is None:
        return rows
    ms = F.unix_millis("timestamp")
    newest = F.try_element_at(
        F.from_json(F.lit(json.dumps(dict(rules.times_before))), "map<string,bigint>"), F.expr(_SOURCE)
    )
    late_by = newest - ms - round(rules.late_after_s * 1000)
    ahead_by = _ahead_by(rules.future_after_s)
    is_future, is_late = ahead_by > 0, (ms >= 0) & (late_by > 0)
    fine = F.col("reason").isNull()
    detail = F.when(fine & is_future, F.format_string("%d ms more than allowed ahead of the clock", ahead_by))
    detail = detail.when(fine & is_late, F.format_string("%d ms later than allowed", late_by))
    reason = F.when(fine & is_future, F.lit(FUTURE)).when(fine & is_late, F.lit(LATE))
    return rows.withColumns({"reason": F.coalesce("reason", reason), "detail": F.coalesce("detail", detail)})


def _ahead_by(future_after_s: float) -> Column:
    """Milliseconds more than so many seconds ahead of the driver's clock; below 0 where a record is not."""
    return F.unix_millis("timestamp") - F.unix_millis(BATCH_TIME) - round(future_after_s * 1000)


def counted(rows: DataFrame, future_after_s: float) -> DataFrame:
    """For each partition of a topic and reason: `rows`, and the newest time in epoch ms that is not in the future.

    What lies in the future makes nothing late, whatever else may be wrong with it.
    """
    newest = F.max(F.when(_ahead_by(future_after_s) <= 0, F.unix_millis("timestamp")))
    return rows.groupBy(F.expr(_SOURCE).alias("source"), "reason").agg(
        F.count("*").alias("rows"), newest.alias("newest")
    )


def unknown_ids(rows: DataFrame, limit: int) -> DataFrame:
    """The lowest unknown `schema_id`s: garbage may name as many as there are records."""
    return (
        rows.where("schema_id is not null").select("schema_id").distinct().orderBy("schema_id").limit(limit)
    )


def table_rows(rows: DataFrame, options: IngestOptions) -> DataFrame:
    """The rows of the table."""
    columns = [name for name in RAW_COLUMNS if name != "value" or options.keep_value]
    if "data" in rows.columns:
        columns.append("data")
    return _partitioned(rows.where("reason is null").select(*columns), options.partition_by)


def quarantine_rows(rows: DataFrame, options: IngestOptions) -> DataFrame:
    """The rows of the quarantine: the record as it came, the reason, and when it was found."""
    columns = (*RAW_COLUMNS, "reason", "detail", BATCH_TIME)
    return _partitioned(rows.where("reason is not null").select(*columns), options.partition_by)


def partition_columns(by: PartitionBy) -> tuple[str, ...]:
    """The partition columns of both tables."""
    return ("day",) if by == "day" else ("day", "hour")


def _partitioned(rows: DataFrame, by: PartitionBy) -> DataFrame:
    """Adds day and hour in UTC, whatever the session's time zone is."""
    days = "cast(floor(unix_seconds(timestamp) / 86400) as int)"
    rows = rows.withColumn("day", F.expr(f"date_from_unix_date({days})"))
    hour = F.expr("cast(pmod(floor(unix_seconds(timestamp) / 3600), 24) as int)")
    return rows if by == "day" else rows.withColumn("hour", hour)

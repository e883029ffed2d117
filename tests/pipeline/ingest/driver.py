"""A driver process for tests to kill: `python -m tests.pipeline.ingest.driver JSON`.

JSON has "options" for IngestOptions, "master", and "dump": a directory into which both tables are written when the
ingest has ended, one line of JSON a row. It prints a line when Spark has started and one for each batch.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.pipeline.ingest.job import ingest
from barnabas.pipeline.ingest.options import DecodeOptions, IngestOptions
from barnabas.pipeline.session import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Timeouts are short: a broker that was killed is back soon.
CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.task.maxFailures": "8",
    "spark.ui.enabled": "false",
    "spark.driver.memory": "900m",
    "spark.executor.memory": "900m",
}


def main() -> None:
    """Runs the ingest that the argument describes."""
    told: dict[str, Any] = json.loads(sys.argv[1])
    fields = told["options"]
    decode = fields.pop("decode", None)
    if decode is not None:
        fields["decode"] = DecodeOptions(decode["value_format"], Path(decode["schema_file"]))
    options = IngestOptions(**{**fields, "topics": tuple(fields["topics"])})
    conf = {**CONF, **told.get("conf", {})}
    spark = session("to be killed", master=told["master"], conf=conf, connector=True, table=True)
    say("spark is there")
    summary = ingest(
        spark, options, on_progress=lambda batch: say(f"batch {batch.batch_id}: {batch.rows} rows")
    )
    if told.get("dump"):
        dump(spark, options, Path(told["dump"]))
    say(f"done: {summary}")
    spark.stop()


def say(line: str) -> None:
    """Prints a line and flushes it: the process may be killed at any moment."""
    print(line, flush=True)


def dump(spark: SparkSession, options: IngestOptions, directory: Path) -> None:
    """Both tables, as Spark reads them."""
    directory.mkdir()
    for name, path in (("table", options.table), ("quarantine", options.quarantine_table)):
        rows = spark.read.format(options.table_format).load(path)
        reasons = ["reason"] if "reason" in rows.columns else []
        with (directory / name).open("w") as file:
            for row in rows.select("partition", "offset", "value", *reasons).toLocalIterator():
                value = None if row[2] is None else base64.b64encode(row[2]).decode()
                file.write(json.dumps([row[0], row[1], value, *row[3:]]) + "\n")


if __name__ == "__main__":
    main()

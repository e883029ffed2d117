"""The demonstration, one step after the other."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from barnabas.pipeline.audit.audit import AuditResult, audit
from barnabas.pipeline.audit.plan import AuditOptions
from barnabas.pipeline.audit.spark_engine import SparkEngine
from barnabas.pipeline.demo import broker
from barnabas.pipeline.demo.producing import create_topics, produce
from barnabas.pipeline.demo.queries import Answers, ask
from barnabas.pipeline.demo.stream import LATE_AFTER_MS, SCHEMAS, TOPICS, Event, flaws, waves
from barnabas.pipeline.ingest.job import IngestSummary, ingest
from barnabas.pipeline.ingest.options import DecodeOptions, IngestOptions, TableFormat
from barnabas.storage.env import RealEnv

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Say = Callable[[str], None]
T = TypeVar("T")
_QUARANTINE: Final = "topic string, partition int, offset bigint, reason string, detail string"
"""The columns of the quarantine that queries read."""


class Step(NamedTuple):
    """A finished step: its name, the number of records, and the seconds that it took."""

    what: str
    records: int
    seconds: float


class Demonstration(NamedTuple):
    """The results. `flawed`: how many records were flawed on purpose, by flaw."""

    directory: Path
    produced: int
    flawed: dict[str, int]
    ingested: int
    quarantined: int
    steps: list[Step]
    answers: Answers
    audit: AuditResult

    @property
    def is_complete(self) -> bool:
        """Whether each record is once in a table or in quarantine, and the quarantine has exactly the flawed ones."""
        places = self.answers["offsets"]
        return (
            self.produced
            == sum(row["records"] for row in places)
            == sum(row["distinct_offsets"] for row in places)
            and self.produced == self.ingested
            and self.quarantined == sum(self.flawed.values())
        )


class Demo:
    """One demonstration in a directory of its own."""

    def __init__(self, spark: SparkSession, directory: Path, table_format: TableFormat, say: Say) -> None:
        self._spark = spark
        self._directory = directory
        self._format = table_format
        self._say = say
        self._steps: list[Step] = []
        self._ingested = self._quarantined = 0
        self._aside: set[str] = set()  # topics with records in quarantine

    def run(self, seed: int, count: int, now_ms: int) -> Demonstration:
        """Runs all steps. Raises BrokerNotStartedError, NotDeliveredError, and what ingest raises."""
        self._write_schemas()
        self._say(f"making up a shop's week of about {count:,} records")
        first, second = waves(seed, count, now_ms)
        log_dir = self._directory / "log"
        with broker.running(log_dir, self._directory / "broker.log") as bootstrap:
            self._say(f"a broker is ready on {bootstrap}, its log in {log_dir}")
            create_topics(bootstrap)
            for name, wave in (("first five days", first), ("sixth day", second)):
                self._produce(bootstrap, name, wave)
                for topic in TOPICS:
                    self._ingest(bootstrap, topic)
        self._say("the broker has stopped")
        self._make_views()
        answers = self._timed(
            "queries", lambda: ask(self._spark), lambda found: sum(map(len, found.values()))
        )
        options = AuditOptions(is_deep=True, counts_keys=True, now_ms=now_ms)
        audited = self._timed(
            "audit of the log directory",
            lambda: audit(RealEnv(), [str(log_dir.absolute())], options, SparkEngine(self._spark)),
            lambda result: result.counts["records"],
        )
        produced = len(first) + len(second)
        return Demonstration(
            self._directory,
            produced,
            flaws([*first, *second]),
            self._ingested,
            self._quarantined,
            self._steps,
            answers,
            audited,
        )

    def _timed(self, what: str, work: Callable[[], T], count: Callable[[T], int]) -> T:
        started = time.monotonic()
        result = work()
        step = Step(what, count(result), time.monotonic() - started)
        self._steps.append(step)
        self._say(f"{what}: {step.records:,} in {step.seconds:.1f} s")
        return result

    def _write_schemas(self) -> None:
        (self._directory / "schemas").mkdir(parents=True)
        for topic, schema in SCHEMAS.items():
            self._schema(topic).write_text(json.dumps(schema, indent=2))

    def _schema(self, topic: str) -> Path:
        return self._directory / "schemas" / f"{topic}.schema.json"

    def _table(self, topic: str) -> str:
        return str((self._directory / "tables" / topic).absolute())

    def _produce(self, bootstrap: str, name: str, wave: list[Event]) -> None:
        self._timed(f"produced, {name}", lambda: produce(bootstrap, wave), int)

    def _ingest(self, bootstrap: str, topic: str) -> None:
        options = IngestOptions(
            bootstrap=bootstrap,
            topics=(topic,),
            table=self._table(topic),
            table_format=self._format,
            checkpoint=str((self._directory / "checkpoints" / topic).absolute()),
            decode=DecodeOptions("json", self._schema(topic)),
            late_after_s=LATE_AFTER_MS / 1000,
        )

        def work() -> IngestSummary:
            return ingest(self._spark, options)

        summary = self._timed(f"ingested, {topic}", work, lambda found: found.rows)
        self._ingested += summary.rows
        self._quarantined += summary.quarantined
        if summary.quarantined:
            self._aside.add(topic)

    def _make_views(self) -> None:
        """Views of orders, of clicks, and of the quarantine of both."""
        for topic in TOPICS:
            self._load(self._table(topic)).cache().createOrReplaceTempView(topic.rpartition(".")[2])
        aside = [
            self._spark.createDataFrame([], _QUARANTINE)
        ]  # the table does not exist before its first row
        columns = aside[0].columns
        aside += [
            self._load(f"{self._table(topic)}-quarantine").select(columns) for topic in sorted(self._aside)
        ]
        reduce(lambda one, other: one.unionByName(other), aside).createOrReplaceTempView("quarantine")

    def _load(self, path: str) -> DataFrame:
        return self._spark.read.format(self._format).load(path)

"""A query for an hour of a week, for `bench_scan`: the segments and bytes that it reads."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.pipeline.log_reading.range_reader import Reading, read_range
from barnabas.pipeline.spark.filters import Wanted
from barnabas.pipeline.spark.options import parse_options
from barnabas.pipeline.spark.planning import plan_batch
from barnabas.storage.env import RealEnv, RealFile
from barnabas.storage.segment.names import LOG_SUFFIX
from bench.brokers import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TOPIC: Final = "week"
PARTITIONS: Final = 2
SEGMENT_BYTES: Final = 16 << 20
HOUR_MS: Final = 3_600_000
WEEK_MS: Final = 7 * 24 * HOUR_MS
START_MS: Final = 1_769_385_600_000
"""Monday, 2026-01-26, in epoch ms."""
FIRST_MS: Final = START_MS + 3 * 24 * HOUR_MS + 12 * HOUR_MS
DISORDER_MS: Final = 60_000
VALUE_BYTES: Final = 1024


class Hour(NamedTuple):
    """A query: its rows, and seconds in Spark."""

    rows: int
    seconds: float
    touched: Touched | None = None


class Touched(NamedTuple):
    """The reads of a topic, counted in the same query without Spark."""

    segments: int
    all_segments: int
    read_bytes: int
    all_bytes: int


def fill_week(broker: Broker, count: int) -> None:
    """Fills a topic evenly over a week, with records up to half a minute out of order."""
    from tests.pipeline.plain import TopicMaker, produce

    TopicMaker(broker.bootstrap).create(
        PARTITIONS, name=TOPIC, settings={"segment.bytes": str(SEGMENT_BYTES)}
    )
    each = count // PARTITIONS
    for partition in range(PARTITIONS):
        produce(
            broker.bootstrap,
            TOPIC,
            (b"%016d" % one * (VALUE_BYTES // 16) for one in range(each)),
            timestamps=[START_MS + one * WEEK_MS // each - one * 7919 % 30_000 for one in range(each)],
            partition=partition,
            linger_ms=20,
        )


class CountedFile(RealFile):
    """A file that counts the bytes read from it."""

    __slots__ = ("_count",)

    def __init__(self, fd: int, count: Callable[[int], None]) -> None:
        super().__init__(fd)
        self._count = count

    def pread(self, length: int, position: int) -> bytes:
        data = super().pread(length, position)
        self._count(len(data))
        return data

    def pread_into(self, buffer: memoryview, position: int) -> int:
        read = super().pread_into(buffer, position)
        self._count(read)
        return read


class CountingEnv(RealEnv):
    """An environment that counts the bytes read from each file."""

    __slots__ = ("read",)

    def __init__(self) -> None:
        self.read: dict[str, int] = {}

    def open(self, path: str, *, create: bool = False, write: bool = True) -> RealFile:
        file = super().open(path, create=create, write=write)
        fd, file.fd = file.fd, -1

        def count(size: int) -> None:
            self.read[path] = self.read.get(path, 0) + size

        return CountedFile(fd, count)

    def read_file(self, path: str) -> bytes:
        data = super().read_file(path)
        self.read[path] = self.read.get(path, 0) + len(data)
        return data


Way = Callable[["SparkSession", Broker], Hour]
END_MS: Final = FIRST_MS + HOUR_MS
BOUNDS: Final = {"startingTimestamp": str(FIRST_MS), "endingTimestamp": str(END_MS)}
DISORDER: Final = {"timestampDisorder": str(DISORDER_MS)}
CONDITION: Final = f"timestamp >= timestamp_millis({FIRST_MS}) and timestamp < timestamp_millis({END_MS})"
ANYTHING: Final = Wanted()
WITHIN: Final = Wanted(first_ms=FIRST_MS, end_ms=END_MS)


def hour_ways() -> Mapping[str, Way]:
    """The ways to query the hour."""
    return {
        "source: startingTimestamp, endingTimestamp": _by_source(BOUNDS),
        "source: a filter, timestampDisorder of a minute": _by_source(DISORDER, WITHIN, CONDITION),
        "source: a filter": _by_source({}, WITHIN, CONDITION),
        "source: the whole week": _by_source({}),
        "connector: startingTimestamp, endingTimestamp": _by_connector(BOUNDS),
        "connector: a filter": _by_connector({}, CONDITION),
        "connector: the whole week": _by_connector({}),
    }


def _by_source(options: Mapping[str, str], wanted: Wanted = ANYTHING, condition: str = "true") -> Way:
    def ask(spark: SparkSession, broker: Broker) -> Hour:
        given = {"path": str(broker.data_dir), "subscribe": TOPIC, **options}
        rows, seconds = _counted(spark.read.format("barnabas").options(**given).load(), condition)
        return Hour(rows, seconds, touched(given, wanted))

    return ask


def _by_connector(options: Mapping[str, str], condition: str = "true") -> Way:
    def ask(spark: SparkSession, broker: Broker) -> Hour:
        given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": TOPIC, **options}
        return Hour(*_counted(spark.read.format("kafka").options(**given).load(), condition))

    return ask


def _counted(rows: DataFrame, condition: str) -> tuple[int, float]:
    start = time.perf_counter()
    found = rows.where(condition).count()
    return found, time.perf_counter() - start


def touched(given: dict[str, str], wanted: Wanted) -> Touched:
    """Runs the same query in this process, through a counting environment."""
    options, env = parse_options(given), CountingEnv()
    ranges = [piece for task in plan_batch(env, options, wanted) for piece in task]
    planned = dict(env.read)
    for piece in ranges:
        for _ in read_range(env, piece, Reading(options.columns)):
            pass
    logs = [
        path
        for partition in range(PARTITIONS)
        for path in Path(given["path"], f"{TOPIC}-{partition}").glob(f"*{LOG_SUFFIX}")
    ]
    read = [path for path in logs if env.read.get(str(path), 0) > planned.get(str(path), 0)]
    return Touched(len(read), len(logs), sum(env.read.values()), sum(path.stat().st_size for path in logs))

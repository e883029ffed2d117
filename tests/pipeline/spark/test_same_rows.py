"""The source, Spark's Kafka connector and a plain consumer give the same rows, of Barnabas and of Apache Kafka.

For an idle broker all three are compared with each other. For a busy one, which appends, rolls, retains and compacts
meanwhile, the source's rows must follow from the produced records. For copies of a broker that was stopped and of one
that was killed, the rows are those that its consumers read.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.kafka_jars import require_classpath
from tests.pipeline.plain import TopicMaker, producer
from tests.pipeline.spark.rows import Row, by_connector, by_consumer, by_source
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

Broker = BrokerProcess | ApacheKafka
OVERRIDES = {
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "200",  # where readers of files find the effect of DeleteRecords
    "log.segment.delete.delay.ms": "300",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SMALL = {"segment.bytes": "1048576", "index.interval.bytes": "500"}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "200",
    "max.compaction.lag.ms": "200",
    "delete.retention.ms": "0",
    **SMALL,
}
KEYS = 10
T0 = 1_769_860_800_000
"""2026-01-31T12:00:00Z in epoch ms."""
WORK_S = 15.0
ISOLATIONS = ("read_uncommitted", "read_committed")


@pytest.fixture(
    scope="module", params=["barnabas", pytest.param("apache-kafka", marks=pytest.mark.conformance)]
)
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    directory = tmp_path_factory.mktemp(request.param)
    made: Broker
    if request.param == "barnabas":
        made = BrokerProcess(directory / "data", OVERRIDES)
    else:
        made = ApacheKafka(directory, require_classpath(), OVERRIDES)
    with made:
        fill(made.bootstrap)
        yield made
        _open.clear()


RESTING = (
    *(f"codec-{codec}" for codec in CODECS),
    "broker-time",
    "transactions",
    "left-open",
    "deleted",
    "compacted",
)


def fill(bootstrap: str) -> None:
    """Produces all records of the idle broker, and waits for compaction."""
    topics = TopicMaker(bootstrap)
    for codec in CODECS:
        topics.create(2, name=f"codec-{codec}", settings=SMALL)
        produce(bootstrap, f"codec-{codec}", 300, compression_type=codec)
    topics.create(name="broker-time", settings={"message.timestamp.type": "LogAppendTime", **SMALL})
    produce(bootstrap, "broker-time", 50, partitions=1)
    topics.create(name="transactions", settings=SMALL)
    fill_with_transactions(bootstrap, "transactions", rounds=9)
    topics.create(name="left-open", settings=SMALL)
    fill_with_transactions(bootstrap, "left-open", rounds=4)
    topics.create(2, name="deleted", settings=SMALL)
    produce(bootstrap, "deleted", 200)
    topics.delete_records("deleted", 0, 60)
    topics.delete_records("deleted", 1, 100)
    topics.create(name="compacted", settings=COMPACTED)
    compact(bootstrap, "compacted")


def produce(bootstrap: str, topic: str, count: int, *, partitions: int = 2, **settings: Any) -> None:
    """Records of all shapes."""
    client = producer(bootstrap, batch_num_messages=20, **settings)
    for number in range(count):
        some: list[tuple[str, str | bytes | None]] = [("a", b"%d" % number), ("a", None), ("é", b"")]
        client.produce(
            topic,
            None if number % 11 == 5 else b"%d " % number * (number % 60),
            None if number % 7 == 3 else b"k%d" % number,
            number % partitions,
            timestamp=T0 + number * 1000 - number % 5 * 2500,
            headers=some if number % 3 == 0 else None,
        )
    assert client.flush(60) == 0


def fill_with_transactions(bootstrap: str, topic: str, rounds: int) -> None:
    """Produces transactions, every third of which is aborted; in "left-open" the last stays open."""
    client = producer(
        bootstrap, transactional_id=f"{topic}-id", transaction_timeout_ms=600_000, batch_num_messages=5
    )
    beside = producer(bootstrap)
    client.init_transactions(60)
    for turn in range(rounds):
        client.begin_transaction()
        for number in range(12):
            client.produce(topic, b"%d/%d" % (turn, number), partition=0, timestamp=T0 + turn)
            if number % 4 == 0:
                client.flush(60)
                beside.produce(topic, b"beside %d/%d" % (turn, number), partition=0, timestamp=T0 + turn)
                beside.flush(60)
        client.flush(60)
        if topic == "left-open" and turn + 1 == rounds:
            _open.append(client)
            return
        (client.abort_transaction if turn % 3 == 1 else client.commit_transaction)(60)


_open: list[Any] = []
"""Producers with a transaction that nobody ends: it would be aborted with its producer."""


def compact(bootstrap: str, topic: str) -> None:
    """Waits until a log was cleaned."""
    client = producer(bootstrap)
    deadline = time.monotonic() + 90
    for turn in itertools.count():
        for number in range(50):
            value = None if number % KEYS == 9 else b"%d/%d" % (turn, number) * 20
            client.produce(topic, value, b"k%d" % (number % KEYS), 0)
        assert client.flush(60) == 0
        if turn >= 5 and len(by_consumer(bootstrap, [topic])) < 50 * turn:
            return
        assert time.monotonic() < deadline, "nothing was compacted"
        time.sleep(0.3)  # after segment.ms the next record begins a segment, and this one can be cleaned


def assert_settled(
    bootstrap: str, topics: Sequence[str], isolation: str, others: Callable[[], dict[str, list[Row]]]
) -> None:
    """Compares the rows of `others()` with a consumer's, once those are the same before and after."""
    for _ in range(10):
        before = by_consumer(bootstrap, topics, isolation)
        found = others()
        if before == by_consumer(bootstrap, topics, isolation):
            for name, rows in found.items():
                assert_same(rows, before, name)
            return
    pytest.fail("the topics did not come to rest")


def assert_same(rows: list[Row], expected: list[Row], name: str) -> None:
    """Asserts equality with a message that shows only the differences."""
    assert sorted(set(expected) - set(rows))[:5] == [], f"{name}: missing"
    assert sorted(set(rows) - set(expected))[:5] == [], f"{name}: not there"
    assert len(rows) == len(expected), f"{name}: twice"


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_rows_of_an_idle_broker(spark: Any, broker: Broker, isolation: str, tmp_path: Path) -> None:
    level = {"kafka.isolation.level": isolation}

    def all_ways() -> dict[str, list[Row]]:
        copy = tmp_path / "copy"
        copy_of(broker.data_dir, copy)
        return {
            "connector": by_connector(spark, broker.bootstrap, RESTING, **level),
            "source": by_source(spark, broker.data_dir, RESTING, **level),
            "source, small ranges": by_source(spark, broker.data_dir, RESTING, rangeBytes="4k", **level),
            "copy": by_source(spark, copy, RESTING, **level),
        }

    assert_settled(broker.bootstrap, RESTING, isolation, all_ways)


def copy_of(directory: Path, to: Path) -> None:
    """A plain copy of the files, repeated until none disappears meanwhile."""
    for _ in range(10):
        shutil.rmtree(to, ignore_errors=True)
        with contextlib.suppress(shutil.Error):
            shutil.copytree(directory, to)
            return
    pytest.fail(f"{directory} did not come to rest")


def test_by_offsets_and_by_time(spark: Any, broker: Broker) -> None:
    """Uses the options that both sources have, and a filter."""
    topic = "codec-zstd"
    for options in (
        {
            "startingOffsets": {topic: {"0": 7, "1": -2}},
            "endingOffsets": {topic: {"0": -1, "1": 90}},
        },
        {"startingTimestamp": T0 + 40_000, "endingTimestamp": T0 + 90_000},
        {"startingOffsetsByTimestamp": {topic: {"0": T0 + 1, "1": T0 + 100_000}}},
    ):
        expected = by_connector(spark, broker.bootstrap, [topic], **options)
        assert expected
        assert_same(by_source(spark, broker.data_dir, [topic], **options), expected, str(options))


WORKED_ON: dict[str, dict[str, str]] = {
    "work-kept": {},
    "work-retained": {"retention.bytes": "4000", "segment.ms": "300"},
    "work-compacted": COMPACTED,
}


class Writer(threading.Thread):
    """Produces until it is stopped, and keeps track: values contain the offset that they will have."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._address = bootstrap
        self.is_over = threading.Event()
        self.has_begun = threading.Event()
        self.acknowledged = 0
        self.failure: BaseException | None = None
        maker = TopicMaker(bootstrap)
        for topic, settings in WORKED_ON.items():
            maker.create(name=topic, settings={**SMALL, **settings})

    def run(self) -> None:
        try:
            for turn in itertools.count():
                if self.is_over.is_set():
                    return
                client = producer(
                    self._address, compression_type=CODECS[turn % 5], batch_num_messages=1 + turn % 40
                )
                for offset in range(100 * turn, 100 * turn + 100):
                    for topic in WORKED_ON:
                        client.produce(topic, value(offset), b"k%d" % (offset % KEYS), 0)
                assert client.flush(60) == 0
                self.acknowledged = 100 * turn + 100
                self.has_begun.set()
        except BaseException as error:
            self.failure = error


def value(offset: int) -> bytes:
    return b"%d " % offset * (1 + offset % 50)


def test_rows_of_a_busy_broker(spark: Any, broker: Broker) -> None:
    writer, looks = Writer(broker.bootstrap), 0
    starts: set[int] = set()
    writer.start()
    try:
        writer.has_begun.wait(60)  # Apache Kafka reports a topic before its log exists
        until = time.monotonic() + WORK_S
        while time.monotonic() < until or looks < 3 or (len(starts) < 2 and looks < 50):
            known = writer.acknowledged
            rows = by_source(spark, broker.data_dir, list(WORKED_ON), failOnDataLoss="false", rangeBytes="1g")
            offsets = {topic: [row.offset for row in rows if row.topic == topic] for topic in WORKED_ON}
            assert all(row.value == value(row.offset) for row in rows)
            assert offsets["work-kept"] == list(range(len(offsets["work-kept"])))
            assert len(offsets["work-kept"]) >= known, "what was acknowledged is there"
            retained = offsets["work-retained"]
            # The whole planned range may be gone when it is read: the writer produces 4,000 bytes in a moment.
            assert not retained or retained == list(range(retained[0], retained[-1] + 1))
            compacted = offsets["work-compacted"]
            assert len(set(compacted)) == len(compacted)
            starts.update(retained[:1])
            looks += 1
    finally:
        writer.is_over.set()
        writer.join(60)
    assert writer.failure is None
    assert len(starts) > 1, "retention took something meanwhile"

    def both() -> dict[str, list[Row]]:
        lossy = {"failOnDataLoss": "false"}
        found = by_source(spark, broker.data_dir, list(WORKED_ON), **lossy)
        compacted = [row for row in found if row.topic == "work-compacted"]
        assert {row.offset % KEYS for row in compacted} == set(range(KEYS))
        assert len(compacted) < writer.acknowledged, "compaction took something meanwhile"
        connector = by_connector(spark, broker.bootstrap, list(WORKED_ON), **lossy)
        return {"source": found, "connector": connector}

    assert_settled(broker.bootstrap, list(WORKED_ON), "read_uncommitted", both)


def test_rows_of_a_stopped_broker(spark: Any, broker: Broker) -> None:
    """Killed, then stopped cleanly: the last test of this module that needs the broker."""
    topics = [topic for topic in RESTING if topic not in ("compacted", "left-open")]
    seen = {level: by_consumer(broker.bootstrap, topics, level) for level in ISOLATIONS}
    broker.kill()
    for level in ISOLATIONS:
        rows = by_source(spark, broker.data_dir, topics, isolationLevel=level)
        assert_same(rows, seen[level], f"killed, {level}")
    broker.start()
    assert broker.stop() == broker.clean_status
    for level in ISOLATIONS:
        rows = by_source(spark, broker.data_dir, topics, isolationLevel=level)
        assert_same(rows, seen[level], f"stopped, {level}")

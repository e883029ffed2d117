"""Repeats Spark's own tests of its Kafka connector (KafkaRelationSuite, KafkaMicroBatchSourceSuite) against a broker.

They also run against Apache Kafka, so that a failure with Barnabas alone is Barnabas's fault.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.conformance.kafka_jars import require_classpath
from tests.pipeline import plain
from tests.pipeline.plain import Record, TopicMaker
from tests.pipeline.spark_session import shared_session
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

OVERRIDES = {"log.cleaner.backoff.ms": "100", "group.initial.rebalance.delay.ms": "0"}
COMPACTED = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.01",
    "segment.bytes": "1048576",
    "segment.ms": "100",
    "max.compaction.lag.ms": "100",
    "delete.retention.ms": "0",
}
T0 = 1_769_860_800_000
"""2026-01-31T12:00:00Z in epoch ms."""


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """One session for all tests."""
    return shared_session()


@pytest.fixture(
    scope="module", params=["barnabas", pytest.param("apache-kafka", marks=pytest.mark.conformance)]
)
def topics(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicMaker]:
    """The topics of a broker."""
    directory = tmp_path_factory.mktemp(request.param)
    broker: BrokerProcess | ApacheKafka
    if request.param == "barnabas":
        broker = BrokerProcess(directory / "data", OVERRIDES)
    else:
        broker = ApacheKafka(directory, require_classpath(), OVERRIDES)
    with broker:
        yield TopicMaker(broker.bootstrap)


def frame(spark: SparkSession, topics: TopicMaker, topic: str, **options: Any) -> DataFrame:
    """A batch read through the connector."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", topics.bootstrap)
    reader = reader.option("subscribe", topic).option("kafka.isolation.level", "read_committed")
    return reader.options(**_settings(options)).load()


def _settings(options: dict[str, Any]) -> dict[str, str]:
    return {
        name: json.dumps(value) if isinstance(value, dict) else str(value) for name, value in options.items()
    }


def records(rows: DataFrame) -> list[Record]:
    """The records in the form of `plain.read`."""
    found = rows.select("partition", "offset", "key", "value").collect()
    return sorted(
        Record(row[0], row[1], *(None if one is None else bytes(one) for one in row[2:])) for row in found
    )


def values(rows: DataFrame) -> list[bytes]:
    """The values by partition and offset."""
    return [record.value or b"" for record in records(rows)]


def numbers(count: int, start: int = 0) -> list[bytes]:
    """Distinct values."""
    return [str(number).encode() for number in range(start, start + count)]


class Stream:
    """A streaming query into memory, one run at a time, with a checkpoint."""

    def __init__(self, spark: SparkSession, topics: TopicMaker, checkpoint: Path, **options: Any) -> None:
        self._spark = spark
        self._topics = topics
        self._checkpoint = checkpoint
        self._options = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed", **options}
        self.batches: list[list[Record]] = []

    def run(self, **changes: Any) -> list[Record]:
        """Reads the new rows since the last run; fails if the query does."""
        reader = self._spark.readStream.format("kafka")
        reader = reader.option("kafka.bootstrap.servers", self._topics.bootstrap)
        rows = reader.options(**_settings({**self._options, **changes})).load()
        self.batches = []
        writer = rows.writeStream.option("checkpointLocation", str(self._checkpoint))
        query = writer.trigger(availableNow=True).foreachBatch(self._keep).start()
        try:
            assert query.awaitTermination(300)
        finally:
            query.stop()
        return sorted(record for batch in self.batches for record in batch)

    def _keep(self, batch: DataFrame, _: int) -> None:
        self.batches.append(records(batch))


def test_from_earliest_to_latest(spark: SparkSession, topics: TopicMaker) -> None:
    topic = topics.create(3)
    for partition in range(3):
        plain.produce(topics.bootstrap, topic, numbers(20, partition * 100), partition=partition)
    assert records(frame(spark, topics, topic)) == plain.read(topics.bootstrap, topic)
    explicit = {"startingOffsets": "earliest", "endingOffsets": "latest"}
    assert len(records(frame(spark, topics, topic, **explicit))) == 60


def test_explicit_offsets(spark: SparkSession, topics: TopicMaker) -> None:
    topic = topics.create(3)
    for partition in range(3):
        plain.produce(topics.bootstrap, topic, numbers(20, partition * 100), partition=partition)
    starting = {topic: {"0": -2, "1": 5, "2": 20}}
    ending = {topic: {"0": 3, "1": -1, "2": -1}}
    found = frame(spark, topics, topic, startingOffsets=starting, endingOffsets=ending)
    assert values(found) == numbers(3) + numbers(15, 105)


def test_a_frame_is_lazy_about_its_ends(spark: SparkSession, topics: TopicMaker) -> None:
    topic = topics.create()
    rows = frame(spark, topics, topic)
    assert values(rows) == []
    plain.produce(topics.bootstrap, topic, numbers(5))
    assert values(rows) == numbers(5)


def test_all_columns(spark: SparkSession, topics: TopicMaker) -> None:
    topic = topics.create()
    client = plain.producer(topics.bootstrap)
    client.produce(topic, b"v", b"k", 0, timestamp=T0, headers=[("a", b"1"), ("a", None)])
    client.produce(topic, None, None, 0, timestamp=T0 + 1)
    client.flush()
    stamped = topics.create(settings={"message.timestamp.type": "LogAppendTime"})
    plain.produce(topics.bootstrap, stamped, [b"x"], timestamps=[T0])
    first, second = frame(spark, topics, topic, includeHeaders="true").orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value), first.topic, first.partition, first.offset) == (
        b"k",
        b"v",
        topic,
        0,
        0,
    )
    assert [(one.key, one["value"]) for one in first.headers] == [("a", b"1"), ("a", None)]
    assert first.timestampType == 0
    assert round(first.timestamp.timestamp() * 1000) == T0
    assert (second.key, second.value, second.headers, second.offset) == (None, None, None, 1)
    (appended,) = frame(spark, topics, stamped).collect()
    assert appended.timestampType == 1
    assert appended.timestamp.timestamp() * 1000 > T0


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec(spark: SparkSession, topics: TopicMaker, codec: str) -> None:
    topic = topics.create()
    plain.produce(topics.bootstrap, topic, [bytes([n % 7]) * 500 for n in range(500)], compression_type=codec)
    assert records(frame(spark, topics, topic)) == plain.read(topics.bootstrap, topic)


def test_by_timestamp(spark: SparkSession, topics: TopicMaker) -> None:
    topic = topics.create(2)
    for partition in range(2):
        times = [T0 + 1000 * number for number in range(10)]
        plain.produce(
            topics.bootstrap, topic, numbers(10, 100 * partition), partition=partition, timestamps=times
        )
    whole = frame(spark, topics, topic, startingTimestamp=T0 + 3500, endingTimestamp=T0 + 6000)
    assert values(whole) == [b"4", b"5", b"104", b"105"]
    by_partition = frame(
        spark,
        topics,
        topic,
        startingOffsetsByTimestamp={topic: {"0": T0 + 8000, "1": T0 + 9000}},
        endingOffsetsByTimestamp={topic: {"0": T0 + 9000, "1": T0 + 99_000}},
    )
    assert values(by_partition) == [b"8", b"109"]


def test_a_timestamp_that_no_record_has_reached(
    spark: SparkSession, topics: TopicMaker, tmp_path: Path
) -> None:
    topic = topics.create()
    plain.produce(topics.bootstrap, topic, numbers(3), timestamps=[T0] * 3)
    late = {"subscribe": topic, "startingTimestamp": str(T0 + 1)}
    with pytest.raises(Exception, match="No offset matched"):
        Stream(spark, topics, tmp_path / "a", **late).run()
    stream = Stream(spark, topics, tmp_path / "b", **late, startingOffsetsByTimestampStrategy="latest")
    assert stream.run() == []
    plain.produce(topics.bootstrap, topic, [b"new"], timestamps=[T0])
    assert [record.value for record in stream.run()] == [b"new"]


def test_offsets_removed_by_compaction(spark: SparkSession, topics: TopicMaker, tmp_path: Path) -> None:
    topic = topics.create(settings=COMPACTED)
    stream = Stream(spark, topics, tmp_path, subscribe=topic, failOnDataLoss="true", maxOffsetsPerTrigger=70)
    for turn in range(5):
        keys = [str(number % 10).encode() for number in range(100)]
        plain.produce(topics.bootstrap, topic, numbers(100, 100 * turn), keys=keys)
        time.sleep(0.2)  # after segment.ms the next batch begins a segment, and this one can be cleaned
    deadline = time.monotonic() + 60
    while len(plain.read(topics.bootstrap, topic)) > 150:
        assert time.monotonic() < deadline, "nothing was compacted"
        plain.produce(topics.bootstrap, topic, [b"again"], keys=[b"again"])
        time.sleep(0.3)
    survivors = plain.read(topics.bootstrap, topic)
    if (
        records(frame(spark, topics, topic, failOnDataLoss="true")) != survivors
    ):  # it was cleaned once more meanwhile
        survivors = plain.read(topics.bootstrap, topic)
        assert records(frame(spark, topics, topic, failOnDataLoss="true")) == survivors
    found = stream.run()
    assert set(found) >= set(plain.read(topics.bootstrap, topic))
    assert len(set(found)) == len(found)
    assert stream.run() == []


def test_offsets_of_transaction_markers(spark: SparkSession, topics: TopicMaker, tmp_path: Path) -> None:
    topic = topics.create(2)
    stream = Stream(spark, topics, tmp_path, subscribe=topic, failOnDataLoss="true", maxOffsetsPerTrigger=7)
    client = plain.producer(topics.bootstrap, transactional_id=topic)
    client.init_transactions(60)
    for turn in range(6):
        client.begin_transaction()
        for number in range(5):
            client.produce(topic, f"{turn}/{number}".encode(), partition=number % 2)
        client.flush()
        (client.abort_transaction if turn % 3 == 1 else client.commit_transaction)(60)
    committed = plain.read(topics.bootstrap, topic)
    assert {(record.value or b"")[:1] for record in committed} == {b"0", b"2", b"3", b"5"}
    assert records(frame(spark, topics, topic, failOnDataLoss="true")) == committed
    every = {"kafka.isolation.level": "read_uncommitted"}
    uncommitted = plain.read(topics.bootstrap, topic, isolation="read_uncommitted")
    assert records(frame(spark, topics, topic, **every)) == uncommitted
    assert len(uncommitted) == 30
    assert stream.run() == committed  # it ends, although the last offsets of both partitions are markers
    assert stream.run() == []


def test_an_open_transaction_holds_back_later_records(
    spark: SparkSession, topics: TopicMaker, tmp_path: Path
) -> None:
    topic = topics.create()
    stream = Stream(spark, topics, tmp_path, subscribe=topic)
    plain.produce(topics.bootstrap, topic, [b"before"])
    client = plain.producer(topics.bootstrap, transactional_id=topic)
    client.init_transactions(60)
    client.begin_transaction()
    client.produce(topic, b"open", partition=0)
    client.flush()
    plain.produce(topics.bootstrap, topic, [b"behind"])
    assert [record.value for record in stream.run()] == [b"before"]
    client.commit_transaction(60)
    assert [record.value for record in stream.run()] == [b"open", b"behind"]


def test_data_loss_fails_or_does_not(spark: SparkSession, topics: TopicMaker, tmp_path: Path) -> None:
    topic = topics.create()
    stream = Stream(spark, topics, tmp_path / "a", subscribe=topic, failOnDataLoss="true")
    plain.produce(topics.bootstrap, topic, numbers(10))
    assert len(stream.run()) == 10
    plain.produce(topics.bootstrap, topic, numbers(10, 10))
    topics.delete_records(topic, 0, 15)
    with pytest.raises(Exception, match=r"(?i)data.{0,20}lost|data.?loss"):
        stream.run()
    assert [record.value for record in stream.run(failOnDataLoss="false")] == numbers(5, 15)
    with pytest.raises(Exception, match=r"(?i)out of range|data.?loss|may have been lost|missing"):
        records(frame(spark, topics, topic, startingOffsets={topic: {"0": 3}}, failOnDataLoss="true"))
    lossy = frame(spark, topics, topic, startingOffsets={topic: {"0": 3}}, failOnDataLoss="false")
    assert values(lossy) == numbers(5, 15)


def test_a_recreated_topic(spark: SparkSession, topics: TopicMaker, tmp_path: Path) -> None:
    topic = topics.create()
    stream = Stream(spark, topics, tmp_path, subscribe=topic, failOnDataLoss="false")
    plain.produce(topics.bootstrap, topic, numbers(10))
    assert len(stream.run()) == 10
    topics.delete(topic)
    topics.create(name=topic)
    plain.produce(topics.bootstrap, topic, numbers(3, 50))
    with pytest.raises(Exception, match=r"(?i)data.{0,20}lost|data.?loss|was changed from"):
        stream.run(failOnDataLoss="true")


# Spark rounds each partition's share: 7 over three equal ones would be 2 each, but 6 comes out exactly.
@pytest.mark.parametrize("wanted", [1, 3, 6])
def test_at_least_so_many_partitions(spark: SparkSession, topics: TopicMaker, wanted: int) -> None:
    topic = topics.create(3)
    for partition in range(3):
        plain.produce(topics.bootstrap, topic, numbers(50), partition=partition)
    rows = frame(spark, topics, topic, minPartitions=wanted)
    assert rows.rdd.getNumPartitions() >= max(3, wanted)
    assert records(rows) == plain.read(topics.bootstrap, topic)


def test_batches_have_the_requested_size(spark: SparkSession, topics: TopicMaker, tmp_path: Path) -> None:
    topic = topics.create(2)
    for partition in range(2):
        plain.produce(topics.bootstrap, topic, numbers(50), partition=partition)
    stream = Stream(spark, topics, tmp_path, subscribe=topic, maxOffsetsPerTrigger=30)
    assert stream.run() == plain.read(topics.bootstrap, topic)
    assert [len(batch) for batch in stream.batches] == [30, 30, 30, 10]


def test_partitions_and_topics_that_come_later(
    spark: SparkSession, topics: TopicMaker, tmp_path: Path
) -> None:
    topic = topics.create()
    stream = Stream(spark, topics, tmp_path, subscribePattern=f"{topic}.*")
    plain.produce(topics.bootstrap, topic, numbers(5))
    assert len(stream.run()) == 5
    topics.grow(topic, 2)
    plain.produce(topics.bootstrap, topic, numbers(5), partition=1)
    other = topics.create(name=f"{topic}-more")
    plain.produce(topics.bootstrap, other, numbers(5))
    assert len(stream.run()) == 10


def test_a_topic_without_records(spark: SparkSession, topics: TopicMaker, tmp_path: Path) -> None:
    topic = topics.create(2)
    assert records(frame(spark, topics, topic)) == []
    assert Stream(spark, topics, tmp_path, subscribe=topic).run() == []


def test_the_sink(spark: SparkSession, topics: TopicMaker) -> None:
    one, two = topics.create(2), topics.create()
    rows = spark.createDataFrame(
        [(one, b"k", b"v", 1), (one, None, b"w", 0), (two, b"z", None, 0)],
        "topic string, key binary, value binary, partition int",
    )
    rows.write.format("kafka").option("kafka.bootstrap.servers", topics.bootstrap).save()
    assert plain.read(topics.bootstrap, one) == [Record(0, 0, None, b"w"), Record(1, 0, b"k", b"v")]
    assert plain.read(topics.bootstrap, two) == [Record(0, 0, b"z", None)]

"""The loss of one of several log directories: at the start, while the broker runs, and its return."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.broker_process import BrokerDidNotStartError, BrokerProcess

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

TOPIC = "spread"
PARTITIONS = 6
LIMIT_S = 30.0


class Directories:
    """A broker over two log directories, of which the first holds the metadata."""

    def __init__(self, place: Path, **overrides: str) -> None:
        self.first, self.second = place / "first", place / "second"
        self.aside = place / "aside"
        settings = {
            "log.dirs": f"{self.first},{self.second}",
            "replica.high.watermark.checkpoint.interval.ms": "300",
            "log.flush.offset.checkpoint.interval.ms": "300",
            "log.initial.task.delay.ms": "100",
        }
        self.broker = BrokerProcess(place, {**settings, **overrides})

    def lose(self, directory: Path) -> None:
        """Replaces a directory by a file, which fails even for root."""
        directory.rename(self.aside)
        directory.write_text("this was a disk")

    def bring_back(self, directory: Path) -> None:
        directory.unlink()
        self.aside.rename(directory)

    def partitions_in(self, directory: Path) -> set[int]:
        return {int(path.name.rpartition("-")[2]) for path in directory.glob(f"{TOPIC}-*")}


@pytest.fixture
def dirs(tmp_path: Path) -> Iterator[Directories]:
    directories = Directories(tmp_path)
    with directories.broker as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(LIMIT_S)
        assert produce(broker, range(PARTITIONS)) == set()
        yield directories
        assert "Traceback" not in broker.output


def produce(broker: BrokerProcess, partitions: range | set[int]) -> set[int]:
    """Produces one record to each partition; returns those that rejected it, or whose response did not come."""
    refused = set()
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap, "delivery.timeout.ms": 3000, "request.timeout.ms": 1500}
    )

    def delivered(error: KafkaError | None, message: object) -> None:
        if error is not None:
            refused.add(message.partition())  # type: ignore[attr-defined]

    for partition in partitions:
        producer.produce(TOPIC, b"value", partition=partition, on_delivery=delivered)
    producer.flush(LIMIT_S)
    return refused


def counts(broker: BrokerProcess) -> dict[int, int]:
    """The number of records in each partition."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    try:
        return {
            partition: consumer.get_watermark_offsets(TopicPartition(TOPIC, partition), LIMIT_S)[1]
            for partition in range(PARTITIONS)
        }
    finally:
        consumer.close()


def leaderless(broker: BrokerProcess) -> set[int]:
    """The partitions that Metadata reports as unavailable."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    try:
        found = consumer.list_topics(TOPIC, LIMIT_S).topics[TOPIC].partitions
        return {number for number, partition in found.items() if partition.error is not None}
    finally:
        consumer.close()


def read_values(broker: BrokerProcess, partition: int) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"})
    try:
        consumer.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING)])
        message = consumer.poll(LIMIT_S)
        return None if message is None else message.value()
    finally:
        consumer.close()


def test_partitions_are_spread_over_directories(dirs: Directories) -> None:
    assert len(dirs.partitions_in(dirs.first)) == len(dirs.partitions_in(dirs.second)) == PARTITIONS // 2
    assert dirs.partitions_in(dirs.first) | dirs.partitions_in(dirs.second) == set(range(PARTITIONS))


def test_a_directory_that_is_lost_at_the_start(dirs: Directories) -> None:
    broker = dirs.broker
    lost, kept = dirs.partitions_in(dirs.second), dirs.partitions_in(dirs.first)
    assert broker.stop() == 0
    dirs.lose(dirs.second)
    broker.start()
    assert f"log directory {dirs.second} has failed" in broker.output
    assert leaderless(broker) == lost
    assert produce(broker, kept) == set()
    assert produce(broker, lost) == lost
    assert dirs.partitions_in(dirs.first) == kept  # no log was created in place of those that cannot be seen
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("new", 2, 1)])["new"].result(LIMIT_S)
    assert len(list(dirs.first.glob("new-*"))) == 2
    assert broker.stop() == 0
    dirs.bring_back(dirs.second)
    broker.start()
    assert leaderless(broker) == set()
    assert counts(broker) == {number: 2 if number in kept else 1 for number in range(PARTITIONS)}
    assert read_values(broker, min(lost)) == b"value"
    assert broker.stop() == 0


def test_a_directory_that_is_lost_while_it_is_in_use(dirs: Directories) -> None:
    broker = dirs.broker
    lost, kept = dirs.partitions_in(dirs.second), dirs.partitions_in(dirs.first)
    dirs.lose(dirs.second)
    produce(broker, lost)  # to open files; the next checkpoint finds the failure
    deadline = time.monotonic() + LIMIT_S
    while leaderless(broker) != lost:
        assert time.monotonic() < deadline, broker.output[-2000:]
        time.sleep(0.05)
    assert f"log directory {dirs.second} has failed" in broker.output
    assert produce(broker, kept) == set()
    assert produce(broker, lost) == lost
    assert broker.stop() == 0
    assert (dirs.first / ".kafka_cleanshutdown").exists()
    assert not (dirs.aside / ".kafka_cleanshutdown").exists()
    dirs.bring_back(dirs.second)
    broker.start()
    deadline = time.monotonic() + LIMIT_S
    while "not shut down in order" not in broker.output:  # a fast start logs after its first line
        assert time.monotonic() < deadline, broker.output
        time.sleep(0.05)
    found = counts(broker)
    assert {found[number] for number in kept} == {2}
    assert all(found[number] >= 1 for number in lost)
    assert produce(broker, range(PARTITIONS)) == set()
    assert broker.stop() == 0


def test_the_broker_does_not_start_without_the_metadata_directory(dirs: Directories) -> None:
    broker = dirs.broker
    assert broker.stop() == 0
    dirs.lose(dirs.first)
    with pytest.raises(BrokerDidNotStartError, match="metadata are in none of the log directories"):
        broker.start()
    dirs.bring_back(dirs.first)
    broker.start()
    assert counts(broker) == dict.fromkeys(range(PARTITIONS), 1)


def test_losing_the_metadata_directory_ends_the_broker(dirs: Directories) -> None:
    broker = dirs.broker
    dirs.lose(dirs.first)
    produce(broker, dirs.partitions_in(dirs.aside))
    assert broker.wait() == 1
    assert "the log directory that holds the metadata, has failed" in broker.output


def test_a_kill_during_recovery_loses_nothing(dirs: Directories) -> None:
    """Each start after a kill recovers; killed again it starts over, and the last one finds every record."""
    broker = dirs.broker
    broker.kill()
    for delay_s in (0.05, 0.15, 0.25, 0.3):
        broker.spawn()
        time.sleep(delay_s)
        broker.kill()
    broker.start()
    assert counts(broker) == dict.fromkeys(range(PARTITIONS), 1)
    assert produce(broker, range(PARTITIONS)) == set()
    with pytest.raises(KafkaException):  # and no other topic was created
        Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "g"}).get_watermark_offsets(
            TopicPartition(TOPIC, PARTITIONS), 1.0
        )

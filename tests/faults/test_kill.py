"""kill -9 while four producers write: no acknowledged record is lost or duplicated, no torn one is served."""

from __future__ import annotations

import random
import threading
import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.conformance.kafka_jars import require_classpath
from tests.faults.ledger import Account, Reader, Writer, read
from tests.interop.clients.confluent import NewTopic
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.chance import seed_or

pytestmark = [pytest.mark.faults, pytest.mark.clients]

PARTITIONS = 4
CODECS = ("none", "lz4", "zstd", "gzip")
TOPIC = "ledger"
# Small segments, so that crashes fall on rolls, on fresh indexes and on producer snapshots too.
TOPIC_CONFIG = {"segment.bytes": "1048576", "index.interval.bytes": "512"}
PROGRESS_LIMIT_S = 60.0


@pytest.mark.timeout(240)
def test_three_kills(tmp_path: Path) -> None:
    kill_and_count(BrokerProcess(tmp_path / "data"), rounds=3, seed=3)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_fifty_kills_in_a_row(tmp_path: Path) -> None:
    kill_and_count(BrokerProcess(tmp_path / "data"), rounds=50, seed=seed_or(50))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_kills_with_flush_on_every_append(tmp_path: Path) -> None:
    durable = BrokerProcess(tmp_path / "data", {"log.flush.interval.messages": "1"})
    kill_and_count(durable, rounds=10, seed=seed_or(50))


@pytest.mark.conformance
@pytest.mark.timeout(300)
def test_apache_kafka_survives_a_kill_too(tmp_path: Path) -> None:
    """Validates the experiment itself: it finds no fault in Apache Kafka."""
    kill_and_count(ApacheKafka(tmp_path, require_classpath()), rounds=1, seed=1)


def kill_and_count(broker: BrokerProcess | ApacheKafka, rounds: int, seed: int) -> None:
    """Runs the experiment; the seed decides how much is acknowledged before each kill, and is printed."""
    print(f"seed {seed}")
    dice = random.Random(seed)
    with broker:
        create_topic(broker.bootstrap)
        writers = [
            Writer(broker.bootstrap, TOPIC, PARTITIONS, number, codec) for number, codec in enumerate(CODECS)
        ]
        reader = Reader(broker.bootstrap, TOPIC, Account(len(writers), PARTITIONS))
        for thread in (reader, *writers):
            thread.start()
        for number in range(rounds):
            wait_for_progress(writers, reader, dice.randrange(1, 6000))
            broker.kill()
            if number % 5 == 4:
                killed_while_starting(broker, dice.uniform(0.0, 0.5))
            broker.start()
        wait_for_progress(writers, reader, 500)
        for writer in writers:
            writer.finish()
        reader.finish()
        read_again(broker.bootstrap, writers).check(writers)
        print(f"{rounds} kills, {sum(writer.count for writer in writers)} records acknowledged")
        assert broker.stop() == broker.clean_status


def create_topic(bootstrap: str) -> None:
    """Creates the topic of the experiment."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=TOPIC_CONFIG)])[TOPIC].result(30)


def wait_for_progress(writers: list[Writer], reader: Reader, count: int) -> None:
    """Returns once `count` more records were acknowledged, at least one of each writer."""
    deadline = time.monotonic() + PROGRESS_LIMIT_S
    before = [writer.count for writer in writers]
    while True:
        gains = [writer.count - was for writer, was in zip(writers, before, strict=True)]
        if all(gains) and sum(gains) >= count:
            return
        assert time.monotonic() < deadline, f"only {gains} records in {PROGRESS_LIMIT_S:g} s"
        for writer in writers:
            assert not writer.failures, f"{writer.name}: {writer.failures[:3]}"
        if reader.failure is not None:
            raise reader.failure
        time.sleep(0.001)


def killed_while_starting(broker: BrokerProcess | ApacheKafka, after_s: float) -> None:
    """Kills the broker in the middle of its recovery."""
    broker.spawn()
    time.sleep(after_s)
    broker.kill()


def read_again(bootstrap: str, writers: list[Writer]) -> Account:
    """The whole topic from the beginning, by a new consumer."""
    account = Account(len(writers), PARTITIONS)
    wanted = sum(sum(writer.sent) for writer in writers)
    stop = threading.Event()
    deadline = threading.Timer(120, stop.set)
    deadline.start()
    try:
        for number, message in enumerate(read(bootstrap, TOPIC, range(PARTITIONS), stop), 1):
            account.take(message)
            if number == wanted:
                break
    finally:
        deadline.cancel()
    return account

"""Tests that a slot's batch is written once, whichever task repeats it, with the writer that Spark's workers run."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaException

from barnabas.pipeline.export import transactions
from barnabas.pipeline.export.transactions import SlotWriter, partitions_of
from tests.pipeline import plain
from tests.pipeline.plain import TopicMaker
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.clients


@pytest.fixture(scope="module")
def topics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TopicMaker]:
    """Topics of one broker for all tests."""
    with BrokerProcess(tmp_path_factory.mktemp("export") / "data") as broker:
        yield TopicMaker(broker.bootstrap)


@pytest.fixture
def topic(topics: TopicMaker) -> str:
    """A new one with two partitions."""
    return topics.create(2)


@pytest.fixture
def writer(topics: TopicMaker, topic: str) -> SlotWriter:
    """A writer for that topic. The client keeps the frame of a failed call, and so a producer that outlives its broker:
    it is not to say in all later tests that it cannot connect."""
    return SlotWriter(topics.bootstrap, topic, f"id-{topic}", settings={"log_level": "2"})


def rows(*values: str) -> list[Any]:
    """Rows as Spark passes them."""
    return [SimpleNamespace(asDict=lambda value=value: {"value": value.encode()}) for value in values]


def values(topics: TopicMaker, topic: str) -> list[str]:
    """The values that a reader of committed records finds, sorted."""
    return sorted((record.value or b"").decode() for record in plain.read(topics.bootstrap, topic))


def test_a_committed_batch_is_skipped(topics: TopicMaker, topic: str, writer: SlotWriter) -> None:
    assert writer(0, 0, rows("a", "b")) == 2
    assert writer(0, 0, rows("a", "b")) == 0
    assert writer(1, 0, rows("c")) == 1
    assert writer(0, 1, rows("d")) == 1
    assert writer(0, 0, rows("a", "b")) == 0
    assert values(topics, topic) == ["a", "b", "c", "d"]


def test_keys_go_to_the_partitions_that_java_s_producers_choose(topics: TopicMaker) -> None:
    """So a key's records stay together with those of other clients; the hashes are from Kafka's UtilsTest."""
    hashes = {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"a-little-bit-longer-string": -1486304829,
        b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
        b"abc": 479470107,
    }
    topic = topics.create(7)
    keyed = [SimpleNamespace(asDict=lambda key=key: {"key": key, "value": b"v"}) for key in hashes]
    assert SlotWriter(topics.bootstrap, topic, f"id-{topic}")(0, 0, keyed) == len(hashes)
    found = {record.key: record.partition for record in plain.read(topics.bootstrap, topic)}
    assert found == {key: (number & 0x7FFFFFFF) % 7 for key, number in hashes.items()}


def test_a_slot_without_rows_contacts_no_broker() -> None:
    assert SlotWriter("127.0.0.1:1", "t", "id")(0, 0, []) == 0


def test_a_task_that_dies_leaves_nothing(topics: TopicMaker, topic: str, writer: SlotWriter) -> None:
    def dying() -> Iterator[Any]:
        yield from rows("a", "b")
        raise RuntimeError("the end")

    with pytest.raises(RuntimeError, match="the end"):
        writer(0, 0, dying())
    assert writer(0, 0, rows("a", "b")) == 2
    assert values(topics, topic) == ["a", "b"]


def test_readers_do_not_wait_for_a_task_that_died(topics: TopicMaker, topic: str, writer: SlotWriter) -> None:
    """No later task ends its transaction, and its timeout is minutes away."""

    def dying() -> Iterator[Any]:
        yield from rows("a", "b")
        while not plain.read(topics.bootstrap, topic, isolation="read_uncommitted"):
            pass  # in flight
        raise RuntimeError("the end")

    with pytest.raises(RuntimeError, match="the end"):
        writer(0, 0, dying())
    for partition in range(2):
        plain.produce(topics.bootstrap, topic, [b"behind"], partition=partition)
    assert values(topics, topic) == ["behind", "behind"]


def test_a_task_of_an_earlier_driver_is_fenced(topics: TopicMaker, topic: str, writer: SlotWriter) -> None:
    """It is in the middle of its transaction when the next driver's task writes the same batch, and then continues."""

    def interrupted() -> Iterator[Any]:
        yield from rows("a")
        assert writer(0, 0, rows("a", "b")) == 2
        yield from rows("b")

    with pytest.raises(KafkaException):
        writer(0, 0, interrupted())
    assert values(topics, topic) == ["a", "b"]


def test_rows_that_the_broker_rejects_fail_the_batch(topics: TopicMaker) -> None:
    small = topics.create(settings={"max.message.bytes": "1000"})
    with pytest.raises(KafkaException):
        SlotWriter(topics.bootstrap, small, "small")(0, 0, rows(secrets.token_hex(5000)))
    assert values(topics, small) == []


def test_partitions(topics: TopicMaker, topic: str) -> None:
    assert partitions_of(topics.bootstrap, topic, {}) == 2
    with pytest.raises(ValueError, match="there is no topic nowhere: create it first"):
        partitions_of(topics.bootstrap, "nowhere", {})


def test_a_broker_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "_METADATA_LIMIT_S", 0.5)
    with pytest.raises(ConnectionError, match=r"127\.0\.0\.1:1 does not say how many partitions orders has"):
        partitions_of("127.0.0.1:1", "orders", {})

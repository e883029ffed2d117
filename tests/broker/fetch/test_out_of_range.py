"""A consumer that asks for what is not in the log is told of in the log."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.fetch import out_of_range
from barnabas.broker.logging.setup import RateLimit
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.offsets import DeleteRecordsRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.records.builder import build_batch
from tests.broker.broker_fixture import InProcessBroker
from tests.support.difference import Like


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[float]:
    """The time by which lines are left out."""
    at = [1000.0]
    monkeypatch.setattr(out_of_range, "_rate_limit", RateLimit(60, lambda: at[0]))
    caplog.set_level(logging.WARNING, logger="barnabas.groups")
    return at


def filled(broker: InProcessBroker) -> None:
    """The topic t with the offsets 2 to 5 (exclusive)."""
    broker.create_topic("t")
    records = build_batch([(None, b"x", 0, ())] * 5)
    data = ProduceRequest.PartitionProduceData(index=0, records=records)
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[data])
    broker.client(12).ask(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]))
    partition = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=2)
    asked = DeleteRecordsRequest.DeleteRecordsTopic(name="t", partitions=[partition])
    broker.client(2).ask(DeleteRecordsRequest(topics=[asked], timeout_ms=1000))


def fetch(broker: InProcessBroker, offset: int, replica_id: int = -1) -> None:
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)
    request = FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        min_bytes=0,
        topics=[FetchRequest.FetchTopic(topic="t", partitions=[partition])],
    )
    answer = Like(responses=[Like(partitions=[Like(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)])])
    assert broker.client(12, client_id="reader") >> request << answer


def test_before_the_start(
    broker: InProcessBroker, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    filled(broker)
    fetch(broker, 0)
    assert caplog.messages == [
        "client reader at 192.0.2.7 is out of range in t-0: it asked for offset 0, the log holds 2 to 5: "
        "2 records from there on are gone (retention, or DeleteRecords); its auto.offset.reset decides where it resumes"
    ]


def test_behind_the_end(broker: InProcessBroker, now: list[float], caplog: pytest.LogCaptureFixture) -> None:
    filled(broker)
    fetch(broker, 7)
    assert "asked for offset 7, the log holds 2 to 5: it is past the end" in caplog.text


def test_not_again_and_again(
    broker: InProcessBroker, now: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    filled(broker)
    for _ in range(3):
        fetch(broker, 0)
    assert len(caplog.messages) == 1
    now[0] += 60
    fetch(broker, 0)
    assert len(caplog.messages) == 2
    assert caplog.messages[-1].endswith("(and 2 times more since the last such line)")

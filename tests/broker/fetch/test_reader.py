"""Reads of many partitions are answered together, at once or later."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.fetch.partition import FetchPartition, size_of
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.pending import Pending
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.topic_records import RemoveTopicRecord
from barnabas.storage.offsets import FileRecords
from tests.broker.logs import batch, partition_image
from tests.broker.replica_node import (
    BOTH,
    ELSEWHERE,
    HERE,
    Node,
    T,
    U,
    V,
    errors,
    result,
    wanted,
)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def sizes(answer: Pending[list[FetchResponse.PartitionData]]) -> list[int]:
    return [size_of(each) for each in result(answer)]


def test_available_records_are_returned_at_once(node: Node) -> None:
    node.create()
    node.append(("t", 0, batch("a", "b")))
    (answer,) = result(node.fetch(wanted()))
    assert isinstance(answer.records, FileRecords)
    assert len(answer.records.read()) == len(batch("a", "b"))
    assert (answer.high_watermark, answer.last_stable_offset, answer.log_start_offset) == (2, 2, 0)
    assert node.probe.lines[-1] == "t gave something"


def test_limits_apply_except_to_the_first_batch(node: Node) -> None:
    node.create("t", T, *(partition_image(partition=index) for index in range(3)))
    for index in (1, 2):
        node.append(("t", index, batch("x" * 100)), ("t", index, batch("y" * 100)))
    size = len(batch("x" * 100))
    everything = [wanted("t", index) for index in range(3)]
    assert sizes(node.fetch(*everything)) == [0, 2 * size, 2 * size]
    assert sizes(node.fetch(*everything, max_bytes=1)) == [0, size, 0]
    assert sizes(node.fetch(*everything, max_bytes=3 * size)) == [0, 2 * size, size]
    small = [wanted("t", index, max_bytes=size - 1) for index in range(3)]
    assert sizes(node.fetch(*small)) == [0, size, 0]


def test_a_long_poll_is_completed_by_an_append(node: Node) -> None:
    node.create("t", T, partition_image(), partition_image(partition=1))
    poll = node.fetch(wanted("t", 0), wanted("t", 1))
    assert not poll.done
    assert node.probe.lines == []
    node.append(("t", 1, batch("a")))
    assert sizes(poll) == [0, len(batch("a"))]
    assert node.probe.lines == ["t +1", "t gave nothing", "t gave something"]


def test_a_long_poll_over_many_partitions_returns_all_appends_of_a_request(node: Node) -> None:
    node.create("t", T, partition_image(), partition_image(partition=1))
    poll = node.fetch(wanted("t", 0), wanted("t", 1))
    node.append(("t", 0, batch("a")), ("t", 0, b"no batch"), ("t", 1, batch("b", "c")))
    assert sizes(poll) == [len(batch("a")), len(batch("b", "c"))]


def test_a_long_poll_times_out(node: Node) -> None:
    node.create()
    poll = node.fetch(wanted())
    node.timer.advance(0.5)
    assert sizes(poll) == [0]


@pytest.mark.parametrize("options", [{"max_wait_ms": 0}, {"min_bytes": 0}])
def test_a_fetch_without_wait_is_answered_at_once(node: Node, options: dict[str, int]) -> None:
    node.create()
    assert sizes(node.fetch(wanted(), **options)) == [0]


def test_a_fetch_without_partitions_is_answered_at_once(node: Node) -> None:
    assert sizes(node.fetch()) == []


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (wanted(offset=5), ErrorCode.OFFSET_OUT_OF_RANGE),
        (wanted(epoch=7), ErrorCode.UNKNOWN_LEADER_EPOCH),
        (wanted(topic_id=V), ErrorCode.INCONSISTENT_TOPIC_ID),
    ],
)
def test_errors_are_returned_at_once(node: Node, request_: FetchPartition, code: ErrorCode) -> None:
    node.create()
    node.create("u", U)
    answers = result(node.fetch(wanted("u"), request_))
    assert [answer.error_code for answer in answers] == [ErrorCode.NONE, code]
    assert node.probe.lines == ["u gave nothing", "t gave an error"]


@pytest.mark.parametrize("unknown", [wanted("nowhere"), wanted(None, topic_id=V), wanted("t", 9)])
def test_unknown_partitions_do_not_end_the_wait_of_others(node: Node, unknown: FetchPartition) -> None:
    node.create()
    assert [answer.error_code for answer in result(node.fetch(unknown))] != [ErrorCode.NONE]
    poll = node.fetch(unknown, wanted())
    assert not poll.done
    node.append(("t", 0, batch("a")))
    first, second = result(poll)
    assert first.error_code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    assert size_of(second) == len(batch("a"))


def test_a_reader_with_a_diverging_log_gets_the_diverging_epoch(node: Node) -> None:
    node.create()
    node.append(("t", 0, batch("a", "b")))
    node.elect(T, HERE)
    (answer,) = result(node.fetch(wanted(offset=3, last_fetched_epoch=0)))
    assert answer.diverging_epoch == FetchResponse.EpochEndOffset(epoch=0, end_offset=2)
    assert size_of(answer) == 0
    (answer,) = result(node.fetch(wanted(offset=2, last_fetched_epoch=0), max_wait_ms=0))
    assert answer.diverging_epoch == FetchResponse.EpochEndOffset()


def test_a_follower_advances_the_high_watermark_and_completes_waiting_fetches(node: Node) -> None:
    node.create("t", T, BOTH)
    acknowledgement = node.append(("t", 0, batch("a")))
    consumer = node.fetch(wanted())
    assert sizes(node.fetch(wanted(), replica_id=ELSEWHERE)) == [len(batch("a"))]
    assert (acknowledgement.done, consumer.done) == (False, False)
    poll = node.fetch(wanted(offset=1), replica_id=ELSEWHERE)
    assert errors(acknowledgement) == [ErrorCode.NONE]
    assert sizes(consumer) == [len(batch("a"))]
    assert not poll.done
    assert node.probe.lines == [
        "t +1",
        "t gave something",
    ]  # what a follower gets is not counted with the topic's


def test_a_node_without_a_replica_is_no_follower(node: Node) -> None:
    node.create()
    (answer,) = result(node.fetch(wanted(), replica_id=ELSEWHERE))
    assert answer.error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_long_polls_complete_when_leadership_ends(node: Node) -> None:
    node.create("t", T, BOTH)
    node.create("u", U)
    moved, deleted = node.fetch(wanted("t")), node.fetch(wanted("u"))
    node.elect(T, ELSEWHERE)
    node.delete(U)
    assert [each.error_code for each in result(moved)] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert [each.error_code for each in result(deleted)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_long_poll_ends_when_the_image_without_its_topic_is_published(node: Node) -> None:
    """The next request on its connection must not find the topic any more; until then it is not offline either."""
    node.create()
    waiting = node.fetch(wanted())
    image, delta = replayed(node.image, [RemoveTopicRecord(topic_id=T)])
    node.manager.prepare(image, delta)
    assert not waiting.done
    assert not node.manager.is_offline("t", 0)
    node.manager.apply(image, delta)
    assert [each.error_code for each in result(waiting)] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert node.manager.is_offline("t", 0)

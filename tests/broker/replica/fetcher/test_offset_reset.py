"""The questions for new offsets."""

from __future__ import annotations

from barnabas.broker.replica.fetcher.fetch_state import NO_OFFSET, PartitionFetchState
from barnabas.broker.replica.fetcher.offset_reset import (
    EARLIEST,
    LATEST,
    answers,
    next_question,
    offsets_request,
)
from barnabas.protocol.messages.offsets import ListOffsetsResponse
from tests.broker.replica.fetcher.fetcher_harness import NODE_ID, Disk


def states(*keys: tuple[str, int]) -> list[PartitionFetchState]:
    disk = Disk()
    return [PartitionFetchState(disk.follower(*key), 4, NO_OFFSET) for key in keys]


def test_the_end_is_asked_for_before_the_start() -> None:
    a, b = states(("a", 0), ("b", 0))
    assert next_question([a, b]) == (LATEST, [a, b])
    a.leader_end_offset = 3
    assert next_question([a, b]) == (LATEST, [b])
    b.leader_end_offset = 3
    assert next_question([a, b]) == (EARLIEST, [a, b])


def test_one_request_for_all() -> None:
    request = offsets_request(states(("a", 0), ("b", 1), ("a", 2)), EARLIEST, NODE_ID)
    assert request.replica_id == NODE_ID
    assert [
        (
            topic.name,
            [(one.partition_index, one.timestamp, one.current_leader_epoch) for one in topic.partitions],
        )
        for topic in request.topics
    ] == [("a", [(0, -2, 4), (2, -2, 4)]), ("b", [(1, -2, 4)])]


def test_answers_by_partition() -> None:
    one = ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=1, offset=5)
    topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="b", partitions=[one])
    assert list(answers(ListOffsetsResponse(topics=[topic]))) == [(("b", 1), one)]

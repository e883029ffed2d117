"""Offsets of logs by time, and the deletion of records before an offset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from barnabas.cli.admin.calls.topics import TIMEOUT_MS
from barnabas.cli.admin.client import AdminClient, Node, every_code
from barnabas.cli.admin.errors import AdminError, NotReachableError, ServerError, check
from barnabas.cli.admin.partitions import TopicPartition, by_topic
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offsets import (
    SINCE_VERSION,
    DeleteRecordsRequest,
    ListOffsetsRequest,
)
from barnabas.protocol.schema import Message

R = TypeVar("R")

UNKNOWN_OFFSET: Final = -1
CONSUMER: Final = -1
"""The replica id of a consumer."""


class Offset(NamedTuple):
    """The offset for a timestamp; -1: no record is that recent."""

    offset: int
    timestamp: int
    leader_epoch: int


Found = Offset | AdminError


class Located(NamedTuple):
    """The leaders of partitions, and the error codes of topics and of partitions without a leader."""

    leaders: dict[TopicPartition, int]
    topics: dict[str, int]
    partitions: dict[TopicPartition, int]

    def error_of(self, partition: TopicPartition) -> ServerError:
        """The error of a partition whose leader is unknown."""
        code = self.topics.get(partition.topic) or self.partitions.get(partition)
        return ServerError(code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, about=str(partition))


def leaders_of(client: AdminClient, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """The leader of each partition of these topics that has one. Raises ServerError for an unknown topic."""
    located = _locate(client, topics)
    for name, code in located.topics.items():
        check(code, about=f"topic {name!r}")
    return located.leaders


def _locate(client: AdminClient, topics: Iterable[str]) -> Located:
    located = Located({}, {}, {})
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(set(topics))]
    if not wanted:
        return located
    answer = client.send(MetadataRequest(topics=wanted, allow_auto_topic_creation=False), versions="4-13")
    for topic in answer.topics:
        if topic.error_code != ErrorCode.NONE:
            located.topics[topic.name] = topic.error_code
        for partition in topic.partitions:
            key = TopicPartition(topic.name, partition.partition_index)
            if partition.leader_id >= 0:
                located.leaders[key] = partition.leader_id
            else:
                located.partitions[key] = partition.error_code or ErrorCode.LEADER_NOT_AVAILABLE
    return located


def list_offsets(client: AdminClient, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, Found]:
    """For each partition the offset of its timestamp (or of LATEST, EARLIEST ...), or the error.

    An unknown partition gets UNKNOWN_TOPIC_OR_PARTITION, one without a leader LEADER_NOT_AVAILABLE.
    """
    versions = f"{max((SINCE_VERSION.get(timestamp, 1) for timestamp in wanted.values()), default=1)}-11"
    return _send_to_leaders(client, wanted, _offsets_request, _offset, versions=versions)


def _send_to_leaders(
    client: AdminClient,
    wanted: Mapping[TopicPartition, int],
    request_of: Callable[[Mapping[TopicPartition, int]], Message],
    result_of: Callable[[Any], R],
    **how: Any,
) -> dict[TopicPartition, R | AdminError]:
    """Sends a request to the leader of each partition; returns the result or the error by partition.

    The partitions of a leader that does not answer within default.api.timeout.ms get NotReachableError.
    """
    located = _locate(client, (each.topic for each in wanted))
    found: dict[TopicPartition, R | AdminError] = {each: located.error_of(each) for each in wanted}
    for leader, partitions in _by_leader(wanted, located.leaders).items():
        request = request_of({each: wanted[each] for each in partitions})
        try:
            answer: Any = client.send(request, Node(leader), codes=every_code, **how)
        except NotReachableError as error:
            reason = f"its leader, broker {leader}, does not answer: {error}"
            found |= {each: NotReachableError(f"{each}: {reason}") for each in partitions}
            continue
        for topic in answer.topics:
            for each in topic.partitions:
                key = TopicPartition(topic.name, each.partition_index)
                failed = each.error_code != ErrorCode.NONE
                found[key] = ServerError(each.error_code, about=str(key)) if failed else result_of(each)
    return found


def _offsets_request(wanted: Mapping[TopicPartition, int]) -> ListOffsetsRequest:
    topics = [
        ListOffsetsRequest.ListOffsetsTopic(
            name=name,
            partitions=[
                ListOffsetsRequest.ListOffsetsPartition(
                    partition_index=index, timestamp=wanted[TopicPartition(name, index)]
                )
                for index in indexes
            ],
        )
        for name, indexes in by_topic(wanted).items()
    ]
    return ListOffsetsRequest(replica_id=CONSUMER, topics=topics, timeout_ms=TIMEOUT_MS)


def _offset(answer: Any) -> Offset:
    return Offset(answer.offset, answer.timestamp, answer.leader_epoch)


def delete_records(
    client: AdminClient, before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int | AdminError]:
    """Deletes the records before these offsets (-1: all); returns the new log start offset or the error of each."""
    return _send_to_leaders(client, before, _deletion, _low_watermark)


def _low_watermark(answer: Any) -> int:
    low_watermark: int = answer.low_watermark
    return low_watermark


def _deletion(before: Mapping[TopicPartition, int]) -> DeleteRecordsRequest:
    topics = [
        DeleteRecordsRequest.DeleteRecordsTopic(
            name=name,
            partitions=[
                DeleteRecordsRequest.DeleteRecordsPartition(
                    partition_index=index, offset=before[TopicPartition(name, index)]
                )
                for index in indexes
            ],
        )
        for name, indexes in by_topic(before).items()
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=TIMEOUT_MS)


def _by_leader(
    wanted: Iterable[TopicPartition], leaders: Mapping[TopicPartition, int]
) -> dict[int, list[TopicPartition]]:
    grouped: dict[int, list[TopicPartition]] = {}
    for each in wanted:
        if each in leaders:
            grouped.setdefault(leaders[each], []).append(each)
    return grouped

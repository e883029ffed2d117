"""Groups of consumers, both classic ones and those of the consumer protocol (KIP-848), and their offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from barnabas.cli.admin.calls.topics import failure
from barnabas.cli.admin.client import AdminClient, Coordinator, Node, every_code
from barnabas.cli.admin.errors import (
    AdminError,
    NotReachableError,
    OnUnreachable,
    ServerError,
    UnsupportedApiError,
    check,
    raise_it,
)
from barnabas.cli.admin.partitions import TopicPartition, by_topic
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import decoder
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.messages.commits import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from barnabas.protocol.messages.consumer_groups import ConsumerGroupDescribeRequest
from barnabas.protocol.messages.consumer_protocol import ConsumerProtocolAssignment
from barnabas.protocol.messages.groups import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of groups of consumers; an empty one has groups that only commit offsets."""
CLASSIC: Final = "Classic"
CONSUMER: Final = "Consumer"
DEAD: Final = "Dead"
NO_OFFSET: Final = -1
_CLASSIC_MEMBER: Final = 0


class GroupName(NamedTuple):
    """A group in a list; type and state are empty if the broker is too old to return them."""

    group: str
    type: str
    protocol: str
    state: str


class Member(NamedTuple):
    """One member. The epochs and the target are None for members of classic groups."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: list[TopicPartition]
    epoch: int | None
    target_epoch: int | None
    target: list[TopicPartition] | None
    is_upgraded: bool | None
    """Whether a member of a consumer group uses the consumer protocol itself; None: unknown."""


class Group(NamedTuple):
    """One group as its coordinator describes it."""

    group: str
    type: str
    state: str
    assignor: str
    coordinator: int
    members: list[Member]
    epoch: int | None
    target_epoch: int | None


class Committed(NamedTuple):
    """A committed offset; leader epoch -1: unknown."""

    offset: int
    leader_epoch: int
    metadata: str | None


def list_groups(
    client: AdminClient,
    *,
    states: Sequence[str] = (),
    types: Sequence[str] = (),
    on_unreachable: OnUnreachable = raise_it,
) -> list[GroupName]:
    """All groups of all kinds that the brokers coordinate, sorted; only those in these states and of these types.

    Raises ServerError, and NotReachableError unless `on_unreachable` handles the brokers that do not answer.
    """
    oldest = 5 if types else (4 if states else 0)
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    found: set[GroupName] = set()
    for node in client.cluster().nodes:
        try:
            answer = client.send(request, Node(node), versions=f"{oldest}-5")
        except NotReachableError as error:
            on_unreachable(node, error)
            continue
        check(answer.error_code, about=f"broker {node}")
        found.update(
            GroupName(each.group_id, _title(each.group_type), each.protocol_type, each.group_state)
            for each in answer.groups
        )
    return sorted(found)


def is_for_consumers(group: GroupName) -> bool:
    """Whether kafka-consumer-groups lists it: consumers use it."""
    if group.type in {CLASSIC, ""}:
        return group.protocol in {CONSUMER_PROTOCOL, ""}
    return group.type == CONSUMER


def describe_group(client: AdminClient, group: str) -> Group:
    """One group of consumers. Raises ServerError: GROUP_ID_NOT_FOUND for an unknown id."""
    coordinator = Coordinator(group)
    if client.serves(ApiKey.CONSUMER_GROUP_DESCRIBE, coordinator):
        request = ConsumerGroupDescribeRequest(group_ids=[group])
        answer = client.send(request, coordinator, codes=every_code)
        found = answer.groups[0]
        if found.error_code not in {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION}:
            check(found.error_code, found.error_message, about=f"group {group!r}")
            return _consumer_group(found, client.coordinator_of(group))
    return _describe_classic(client, group)


def _describe_classic(client: AdminClient, group: str) -> Group:
    request = DescribeGroupsRequest(groups=[group])
    found = client.send(request, Coordinator(group), codes=every_code).groups[0]
    check(found.error_code, found.error_message, about=f"group {group!r}")
    if found.group_state == DEAD:
        raise ServerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group} not found.")
    if found.protocol_type not in {CONSUMER_PROTOCOL, ""}:
        raise AdminError(
            f"group {group!r} is not one of consumers: its protocol type is {found.protocol_type!r}"
        )
    members = [_classic_member(each) for each in found.members]
    coordinator = client.coordinator_of(group)
    return Group(group, CLASSIC, found.group_state, found.protocol_data, coordinator, members, None, None)


def _classic_member(each: Any) -> Member:
    assignment = _classic_assignment(each.member_assignment)
    return Member(
        each.member_id,
        each.group_instance_id,
        each.client_id,
        each.client_host,
        assignment,
        None,
        None,
        None,
        None,
    )


def _classic_assignment(data: bytes) -> list[TopicPartition]:
    """The partitions in the opaque assignment of a consumer; empty if it cannot be decoded."""
    if len(data) < 2:
        return []
    version = min(int.from_bytes(data[:2], "big"), ConsumerProtocolAssignment.versions.high)
    try:
        assignment, _ = decoder(ConsumerProtocolAssignment, version)(bytes(data), 2, len(data))
    except (ProtocolError, ValueError):
        return []
    return sorted(
        TopicPartition(each.topic, index)
        for each in assignment.assigned_partitions
        for index in each.partitions
    )


def _consumer_group(found: Any, coordinator: int) -> Group:
    members = [_consumer_member(each, found.assignment_epoch) for each in found.members]
    return Group(
        found.group_id,
        CONSUMER,
        found.group_state,
        found.assignor_name,
        coordinator,
        members,
        found.group_epoch,
        found.assignment_epoch,
    )


def _consumer_member(each: Any, target_epoch: int) -> Member:
    return Member(
        each.member_id,
        each.instance_id,
        each.client_id,
        each.client_host,
        _assigned(each.assignment),
        each.member_epoch,
        target_epoch,
        _assigned(each.target_assignment),
        None if each.member_type < 0 else each.member_type != _CLASSIC_MEMBER,
    )


def _assigned(assignment: Any) -> list[TopicPartition]:
    return sorted(
        TopicPartition(each.topic_name, index)
        for each in assignment.topic_partitions
        for index in each.partitions
    )


def fetch_offsets(client: AdminClient, group: str) -> dict[TopicPartition, Committed]:
    """The committed offsets of the group, by partition, sorted."""
    asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=None)
    answer = client.send(
        OffsetFetchRequest(groups=[asked]),
        Coordinator(group),
        codes=lambda a: [a.groups[0].error_code],
        versions="8-9",
    )
    found = answer.groups[0]
    check(found.error_code, about=f"group {group!r}")
    committed = {}
    for topic in found.topics:
        for each in topic.partitions:
            check(each.error_code, about=f"{topic.name}-{each.partition_index}")
            if each.committed_offset != NO_OFFSET:
                offset = Committed(each.committed_offset, each.committed_leader_epoch, each.metadata)
                committed[TopicPartition(topic.name, each.partition_index)] = offset
    return dict(sorted(committed.items()))


def commit_offsets(client: AdminClient, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commits offsets for a group, which must be empty. Raises ServerError for the first that is rejected."""
    topics = [
        OffsetCommitRequest.OffsetCommitRequestTopic(
            name=name, partitions=[_commit(index, offsets[TopicPartition(name, index)]) for index in indexes]
        )
        for name, indexes in by_topic(offsets).items()
    ]
    request = OffsetCommitRequest(group_id=group, topics=topics)
    answer = client.send(request, Coordinator(group), codes=every_code, versions="2-9")
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, about=f"group {group!r}, {topic.name}-{each.partition_index}")


def _commit(index: int, offset: int) -> Any:
    return OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=index, committed_offset=offset, committed_metadata=""
    )


def delete_offsets(
    client: AdminClient, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, AdminError | None]:
    """Deletes committed offsets; returns the error of each, or None. Raises ServerError for an error of the group."""
    topics = [
        OffsetDeleteRequest.OffsetDeleteRequestTopic(
            name=name,
            partitions=[
                OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=index) for index in indexes
            ],
        )
        for name, indexes in by_topic(partitions).items()
    ]
    answer = client.send(OffsetDeleteRequest(group_id=group, topics=topics), Coordinator(group))
    check(answer.error_code, about=f"group {group!r}")
    return {
        TopicPartition(topic.name, each.partition_index): failure(each.error_code, None)
        for topic in answer.topics
        for each in topic.partitions
    }


def delete_group(client: AdminClient, group: str) -> AdminError | None:
    """Deletes an empty group with its offsets; returns the error, or None."""
    request = DeleteGroupsRequest(groups_names=[group])
    try:
        answer = client.send(request, Coordinator(group), codes=every_code)
    except UnsupportedApiError:
        raise
    except AdminError as error:
        return error
    return failure(answer.results[0].error_code, None)


def _title(kind: str) -> str:
    return kind[:1].upper() + kind[1:]

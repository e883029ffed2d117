"""Groups of the classic protocol, and the committed offsets of all groups."""

from __future__ import annotations

from typing import Any, Final

from barnabas.protocol.codec import encode
from barnabas.protocol.messages.commits import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from barnabas.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from barnabas.protocol.messages.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    SyncGroupRequest,
)
from barnabas.protocol.schema import Message
from tests.conformance.differential.steps import PREFIX, Step
from tests.conformance.differential.world import Member, World

SESSION_MS: Final = 300_000
"""Longer than any sequence takes, so that no session expires."""

REBALANCE_MS: Final = 300_000


# ---- members


def join_group(world: World) -> Message:
    """A new member, or one that rejoins."""
    member = world.member() if world.chance(0.55) else None
    instance_id = world.mostly(None, [f"{PREFIX}-i0", f"{PREFIX}-i1", ""], 0.2)
    member_id, group = "", world.group()
    if member is not None:
        member_id, group = member.member_id, world.mostly(member.group, [group], 0.05)
        instance_id = world.mostly(member.instance_id, [instance_id], 0.05)
    if group in world.consumer_groups:
        # Kafka reports a group as stable although its members lack their assignment: dialogues cover that.
        instance_id = None
    kind = world.mostly("consumer", ["connect", ""], 0.05)
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=world.mostly(SESSION_MS, [1, -1, 2**31 - 1], 0.03),
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=_joining_id(world, group, world.mostly(member_id, ["stranger", ""], 0.05)),
        group_instance_id=instance_id,
        protocol_type=kind,
        protocols=_protocols(world, group),
        reason=world.mostly(None, ["because"], 0.3),
    )


def _joining_id(world: World, group: str, member_id: str) -> str:
    """The id; "" for unknown members of consumer groups: Kafka loses an empty group when such a member joins."""
    known = {member.member_id for member in world.members if member.group == group}
    return "" if group in world.consumer_groups and member_id not in known else member_id


def _protocols(world: World, group: str) -> list[JoinGroupRequest.JoinGroupRequestProtocol]:
    names = world.mostly(
        ["range"], [["range", "roundrobin"], ["roundrobin"], ["roundrobin", "range"], []], 0.25
    )
    metadata = _subscription(world, group)
    return [JoinGroupRequest.JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names]


def subscribed_topic(group: str) -> str:
    """One topic for all members of a group: the order of several in assignors depends on their generated ids."""
    return f"{PREFIX}-t{sum(group.encode()) % 2}"


def _subscription(world: World, group: str) -> bytes:
    """A consumer's subscription, with user data of its own that distinguishes members in responses.

    Always valid: Kafka never answers an invalid one.
    """
    version = world.dice.randint(0, 3)
    topics = world.mostly([subscribed_topic(group)], [[], [f"{PREFIX}-none"]], 0.05)
    subscription = ConsumerProtocolSubscription(topics=topics, user_data=world.dice.randbytes(4))
    return version.to_bytes(2, "big") + encode(subscription, version)


def _assignment(world: World) -> bytes:
    topic = world.topic()
    assigned = ConsumerProtocolAssignment.TopicPartition(
        topic=topic.name, partitions=[world.partition(topic)]
    )
    version = world.dice.randint(0, 3)
    content = ConsumerProtocolAssignment(assigned_partitions=[assigned])
    return world.mostly(version.to_bytes(2, "big") + encode(content, version), [b"", b"\0\1", b"any"], 0.1)


def sync_group(world: World) -> Message:
    """A SyncGroup of the leader with assignments, or of another member."""
    member = world.member()
    assignments = []
    if member.leader == member.member_id or world.chance(0.1):
        assignments = [
            SyncGroupRequest.SyncGroupRequestAssignment(member_id=each, assignment=_assignment(world))
            for each in member.members
            if world.chance(0.95)
        ]
    return SyncGroupRequest(
        group_id=member.group,
        generation_id=_generation(world, member),
        member_id=_member_id(world, member),
        group_instance_id=_instance_id(world, member),
        protocol_type=world.mostly("consumer", [None, "connect"], 0.1),
        protocol_name=world.mostly(member.protocol or "range", [None, "roundrobin"], 0.1),
        assignments=assignments,
    )


def heartbeat(world: World) -> Message:
    """A heartbeat of a classic member."""
    member = world.member()
    return HeartbeatRequest(
        group_id=member.group,
        generation_id=_generation(world, member),
        member_id=_member_id(world, member),
        group_instance_id=_instance_id(world, member),
    )


def leave_group(world: World) -> Message:
    """One or several members leave."""
    leaving = [world.member() for _ in range(world.mostly(1, [0, 2], 0.15))]
    first = leaving[0] if leaving else world.member()
    return LeaveGroupRequest(
        group_id=first.group,
        member_id=first.member_id,
        members=[
            LeaveGroupRequest.MemberIdentity(
                member_id=_member_id(world, member),
                group_instance_id=_instance_id(world, member),
                reason=world.mostly(None, ["enough"]),
            )
            for member in leaving
        ],
    )


def _generation(world: World, member: Member) -> int:
    return member.generation + world.mostly(0, [-1, 1, -2], 0.06)


def _member_id(world: World, member: Member) -> str:
    return world.mostly(member.member_id, ["", "stranger"], 0.05)


def _instance_id(world: World, member: Member) -> str | None:
    return world.mostly(member.instance_id, [None, f"{PREFIX}-i0"], 0.05)


# ---- offsets


def offset_commit(world: World) -> Message:
    """Offsets of a member, or of a group without members."""
    odd: list[str | None] = [None, ""]
    group, member_id, generation, instance_id = world.group(), "", -1, None
    if world.members and world.chance(0.55):
        member = world.member()
        group, member_id, generation = member.group, _member_id(world, member), _generation(world, member)
        instance_id = _instance_id(world, member)
    if group in world.groups:  # Kafka keeps a group whose first commit it has rejected
        odd.append("x" * 4097)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        group_instance_id=instance_id,
        retention_time_ms=world.mostly(-1, [3_600_000], 0.1),
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=topic.name,
                topic_id=topic.token,
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=world.partition(topic),
                        committed_offset=world.dice.randrange(20),
                        committed_leader_epoch=world.mostly(-1, [0, 1, -2]),
                        committed_metadata=world.mostly("m", odd, 0.15),
                    )
                    for _ in range(world.mostly(1, [0, 2], 0.2))
                ],
            )
            for topic in world.some_topics(world.mostly(1, [0, 2], 0.15))
        ],
    )


def offset_fetch(world: World) -> Message:
    """Offsets of a group or two, for some partitions or all."""
    names = sorted({world.group() for _ in range(world.mostly(1, [2], 0.15))})
    groups = [_fetched_group(world, name) for name in names]
    first = groups[0]
    topics = None
    if first.topics is not None:
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopic(
                name=topic.name, partition_indexes=topic.partition_indexes
            )
            for topic in first.topics
        ]
    return OffsetFetchRequest(
        group_id=first.group_id, topics=topics, groups=groups, require_stable=world.chance(0.4)
    )


def _fetched_group(world: World, name: str) -> OffsetFetchRequest.OffsetFetchRequestGroup:
    member_id, epoch = None, -1
    if world.members and world.chance(0.2):
        member = world.member()
        name, member_id, epoch = member.group, member.member_id, _generation(world, member)
    topics = None
    if world.chance(0.75):
        topics = [
            OffsetFetchRequest.OffsetFetchRequestTopics(
                name=topic.name,
                topic_id=topic.token,
                partition_indexes=sorted(
                    {world.partition(topic) for _ in range(world.mostly(1, [0, 2], 0.2))}
                ),
            )
            for topic in world.some_topics(world.mostly(1, [0, 2], 0.2))
        ]
    return OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id=name, member_id=member_id, member_epoch=epoch, topics=topics
    )


def offset_delete(world: World) -> Message:
    """Deletes committed offsets of a group."""
    return OffsetDeleteRequest(
        group_id=world.group(),
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=topic.name,
                partitions=[
                    OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=world.partition(topic))
                ],
            )
            for topic in world.some_topics(world.mostly(1, [0, 2], 0.1))
        ],
    )


# ---- administration


def describe_groups(world: World) -> Message:
    """Descriptions of groups by the classic API."""
    names = sorted({world.group() for _ in range(world.mostly(1, [0, 2], 0.2))})
    return DescribeGroupsRequest(groups=names, include_authorized_operations=world.chance(0.1))


def list_groups(world: World) -> Message:
    """Lists groups; those of other sequences are left out of the response."""
    return ListGroupsRequest(
        states_filter=world.mostly([], [["Stable"], ["Empty", "empty"], ["nonsense"]], 0.3),
        types_filter=world.mostly([], [["classic"], ["Consumer"], ["nonsense"]], 0.3),
    )


def delete_groups(world: World) -> Message:
    """Groups, with members or without."""
    return DeleteGroupsRequest(
        groups_names=sorted({world.group() for _ in range(world.mostly(1, [0, 2], 0.2))})
    )


def find_coordinator(world: World) -> Message:
    """Finds coordinators: always the only broker."""
    return FindCoordinatorRequest(
        key=world.group(),
        key_type=world.mostly(world.one([0, 1]), [3, -1], 0.05),
        coordinator_keys=sorted({world.group() for _ in range(world.mostly(1, [0, 2], 0.2))}),
    )


DRAWS: Final = (
    (12, join_group),
    (9, sync_group),
    (5, heartbeat),
    (3, leave_group),
    (6, offset_commit),
    (6, offset_fetch),
    (2, offset_delete),
    (5, describe_groups),
    (1, list_groups),
    (1, delete_groups),
    (1, find_coordinator),
)


# ---- what responses show


def learn(world: World, step: Step, answer: Any) -> None:
    """Learns members and generations; members that have left a classic group are kept for a while."""
    request = step.request
    if isinstance(request, OffsetCommitRequest):
        codes = [part["error_code"] for topic in answer["topics"] for part in topic["partitions"]]
        if 0 in codes:
            world.groups.add(request.group_id)
    if isinstance(request, DeleteGroupsRequest):
        world.groups -= {result["group_id"] for result in answer["results"] if result["error_code"] == 0}
    if isinstance(request, LeaveGroupRequest) and answer["error_code"] == 0:
        left = {member["member_id"] for member in answer["members"]} | {request.member_id}
        if request.group_id in world.consumer_groups:
            world.remove_members(request.group_id, left)
    if not isinstance(request, JoinGroupRequest):
        return
    if answer["member_id"] in ("", request.member_id) and answer["error_code"]:
        return
    known = world.known_member(request.group_id, answer["member_id"])
    known.instance_id = request.group_instance_id
    if answer["error_code"] == 0:
        known.generation = answer["generation_id"]
        known.leader = answer["leader"]
        known.protocol = answer["protocol_name"] or ""
        known.members = [member["member_id"] for member in answer["members"]]

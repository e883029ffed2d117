"""Groups of the consumer protocol, which may have members of the classic protocol, too."""

from __future__ import annotations

from typing import Any, Final

from barnabas.protocol.messages.consumer_groups import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
)
from barnabas.protocol.schema import Message
from tests.conformance.differential.areas.groups import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    subscribed_topic,
    sync_group,
)
from tests.conformance.differential.steps import PREFIX, Step
from tests.conformance.differential.world import World

JOINING, LEAVING, AWAY = 0, -1, -2


def join(world: World) -> Message:
    """A new member, which chooses its id, so that both brokers sort members alike."""
    group = world.group()
    member_id = f"{PREFIX}-m{world.dice.randrange(4)}"
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=world.mostly(member_id, [""], 0.03),
        member_epoch=JOINING,
        instance_id=world.mostly(None, [f"{PREFIX}-i0", f"{PREFIX}-i1", ""], 0.15),
        rack_id=world.mostly(None, ["r", ""], 0.05),
        rebalance_timeout_ms=world.mostly(300_000, [-1, 0], 0.04),
        subscribed_topic_names=_subscribed(world, group),
        server_assignor=_assignor(world),
        topic_partitions=world.mostly([], [None], 0.03),
    )


def _subscribed(world: World, group: str) -> list[str] | None:
    topic = subscribed_topic(group)
    return world.mostly([topic], [[], None, [f"{PREFIX}-none", topic]], 0.06)


def _assignor(world: World) -> str | None:
    return world.mostly(None, ["uniform", "range", "best", ""], 0.2)


def beat(world: World) -> Message:
    """A heartbeat of a member that mostly owns its assignment."""
    member = world.member()
    owned: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None = None
    if world.chance(0.7):
        owned = [
            ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=list(partitions))
            for topic_id, partitions in member.assigned or []
        ]
        if owned and world.chance(0.08):
            owned[0].partitions = owned[0].partitions[:-1] if world.chance(0.5) else [*owned[0].partitions, 9]
    changes = world.chance(0.15)
    return ConsumerGroupHeartbeatRequest(
        group_id=member.group,
        member_id=member.member_id,
        member_epoch=member.generation + world.mostly(0, [-1, 1], 0.07),
        instance_id=member.instance_id if world.chance(0.3) else None,
        rebalance_timeout_ms=world.mostly(-1, [300_000], 0.1),
        subscribed_topic_names=_subscribed(world, member.group) if changes else None,
        server_assignor=_assignor(world) if changes else None,
        topic_partitions=owned,
    )


def leave(world: World) -> Message:
    """A member leaves, for good or (a static one) for a while."""
    member = world.member()
    return ConsumerGroupHeartbeatRequest(
        group_id=member.group,
        member_id=member.member_id,
        member_epoch=world.mostly(AWAY if member.instance_id else LEAVING, [LEAVING, AWAY, -3], 0.1),
        instance_id=member.instance_id,
        rebalance_timeout_ms=-1,
        topic_partitions=None,
    )


def describe(world: World) -> Message:
    """Descriptions of groups, with targets and assignments."""
    names = sorted({world.group() for _ in range(world.mostly(1, [0, 2], 0.2))})
    return ConsumerGroupDescribeRequest(group_ids=names, include_authorized_operations=world.chance(0.1))


DRAWS: Final = (
    (8, join),
    (16, beat),
    (3, leave),
    (6, describe),
    (4, offset_commit),
    (4, offset_fetch),
    (1, offset_delete),
    (2, join_group),
    (2, sync_group),
    (1, heartbeat),
    (1, leave_group),
    (3, describe_groups),
    (1, list_groups),
    (1, delete_groups),
)


def learn(world: World, step: Step, answer: Any) -> None:
    """Learns members, epochs and assignments."""
    request = step.request
    if not isinstance(request, ConsumerGroupHeartbeatRequest) or answer["error_code"]:
        return
    if request.member_epoch < 0:
        world.remove_members(request.group_id, {request.member_id})
        return
    world.consumer_groups.add(request.group_id)
    known = world.known_member(request.group_id, answer["member_id"] or request.member_id)
    known.generation = answer["member_epoch"]
    known.instance_id = request.instance_id or known.instance_id
    if answer["assignment"] is not None:
        known.assigned = [
            (each["topic_id"], each["partitions"]) for each in answer["assignment"]["topic_partitions"]
        ]

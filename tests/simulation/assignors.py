"""Assignors of classic groups, as the group leader runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from barnabas.protocol.codec import decode, encode
from barnabas.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)

TopicPartition = tuple[str, int]
Assignment = dict[str, list[TopicPartition]]
_VERSION = 3


class Member(NamedTuple):
    """The leader's knowledge of a member."""

    member_id: str
    topics: Sequence[str]
    owned: Sequence[TopicPartition]
    generation: int


def pack_subscription(topics: Sequence[str], owned: Sequence[TopicPartition], generation: int) -> bytes:
    by_topic = _by_topic(owned)
    subscription = ConsumerProtocolSubscription(
        topics=list(topics),
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in by_topic.items()
        ],
        generation_id=generation,
    )
    return _VERSION.to_bytes(2, "big") + encode(subscription, _VERSION)


def unpack_subscription(member_id: str, data: bytes) -> Member:
    found = decode(ConsumerProtocolSubscription, int.from_bytes(data[:2], "big"), data[2:])
    owned = [(one.topic, index) for one in found.owned_partitions for index in one.partitions]
    return Member(member_id, found.topics, owned, found.generation_id)


def pack_assignment(partitions: Sequence[TopicPartition]) -> bytes:
    by_topic = _by_topic(partitions)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in by_topic.items()
        ]
    )
    return _VERSION.to_bytes(2, "big") + encode(assignment, _VERSION)


def unpack_assignment(data: bytes) -> list[TopicPartition]:
    if not data:
        return []
    found = decode(ConsumerProtocolAssignment, int.from_bytes(data[:2], "big"), data[2:])
    return [(one.topic, index) for one in found.assigned_partitions for index in one.partitions]


def assign(name: str, members: Sequence[Member], counts: Mapping[str, int]) -> Assignment:
    """The assignment by `name` ("range", "roundrobin", "cooperative-sticky")."""
    if name == "range":
        return _range(members, counts)
    if name == "roundrobin":
        return _round_robin(members, counts)
    return _cooperative(members, counts)


def _range(members: Sequence[Member], counts: Mapping[str, int]) -> Assignment:
    given: Assignment = {member.member_id: [] for member in members}
    for topic, count in sorted(counts.items()):
        takers = sorted(member.member_id for member in members if topic in member.topics)
        for index in range(count):
            if takers:
                given[takers[index * len(takers) // count]].append((topic, index))
    return given


def _round_robin(members: Sequence[Member], counts: Mapping[str, int]) -> Assignment:
    given: Assignment = {member.member_id: [] for member in members}
    turn = 0
    for topic, count in sorted(counts.items()):
        takers = sorted(member.member_id for member in members if topic in member.topics)
        for index in range(count if takers else 0):
            given[takers[turn % len(takers)]].append((topic, index))
            turn += 1
    return given


def _cooperative(members: Sequence[Member], counts: Mapping[str, int]) -> Assignment:
    """Members keep their partitions up to their share; no partition is assigned while another member owns it."""
    owners = _owners(members, counts)
    share = -(-sum(counts.values()) // max(len(members), 1))
    given: Assignment = {member.member_id: [] for member in members}
    subscribed = {member.member_id: set(member.topics) for member in members}
    left: list[TopicPartition] = []
    for partition in sorted((topic, index) for topic, count in counts.items() for index in range(count)):
        owner = owners.get(partition)
        if owner is not None and partition[0] in subscribed[owner] and len(given[owner]) < share:
            given[owner].append(partition)
        else:
            left.append(partition)
    for partition in left:
        takers = [one for one in sorted(given) if partition[0] in subscribed[one]]
        if not takers:
            continue
        taker = min(takers, key=lambda one: len(given[one]))
        if owners.get(partition) in (None, taker):
            given[taker].append(partition)
    return given


def _owners(members: Sequence[Member], counts: Mapping[str, int]) -> dict[TopicPartition, str]:
    """The owner of each partition. Of two claimants the one with the newer generation."""
    owners: dict[TopicPartition, str] = {}
    for member in sorted(members, key=lambda member: member.generation):
        for partition in member.owned:
            if partition[1] < counts.get(partition[0], 0):
                owners[partition] = member.member_id
    return owners


def _by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in partitions:
        found.setdefault(topic, []).append(index)
    return found

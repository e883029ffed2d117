"""The range assignor: of each topic a member gets neighbouring partitions, and of topics of one size the same ones.

Members come in the order of their instance ids, then of their ids, so that static members keep what they have.
Source: org.apache.kafka.coordinator.group.assignor.RangeAssignor.
"""

from __future__ import annotations

from barnabas.broker.coordinator.group.consumer.assignors.spec import GroupSpec, MemberSpec
from barnabas.broker.coordinator.group.consumer.consumer_member import Partitions
from barnabas.protocol.wire import Uuid


class _Ranges:
    """One topic: where the range of the next subscriber begins, and how long it is."""

    def __init__(self, partitions: int, subscribers: int) -> None:
        self._quota, self._extra = divmod(partitions, subscribers)
        self._start = 0

    def next(self) -> frozenset[int]:
        length = self._quota + (self._extra > 0)
        self._extra -= 1
        start, self._start = self._start, self._start + length
        return frozenset(range(start, start + length))


def assign_ranges(group: GroupSpec) -> dict[str, Partitions]:
    """See the module. Earlier assignments do not count."""
    subscribers: dict[Uuid, int] = {}
    for member in group.members.values():
        for topic_id in member.topics:
            subscribers[topic_id] = subscribers.get(topic_id, 0) + 1
    ranges = {
        topic_id: _Ranges(group.partition_counts[topic_id], number)
        for topic_id, number in subscribers.items()
    }
    members = sorted(group.members.items(), key=_rank)
    return {member_id: _next_ranges(member, ranges) for member_id, member in members}


def _next_ranges(member: MemberSpec, ranges: dict[Uuid, _Ranges]) -> Partitions:
    taken = {topic_id: ranges[topic_id].next() for topic_id in member.topics}
    return {topic_id: partitions for topic_id, partitions in taken.items() if partitions}


def _rank(named: tuple[str, MemberSpec]) -> tuple[bool, bytes]:
    member_id, member = named
    name = member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be")

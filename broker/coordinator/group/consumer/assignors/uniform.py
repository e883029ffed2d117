"""The uniform assignor: members get equal numbers of partitions, and keep those that they have as far as possible.

Source: org.apache.kafka.coordinator.group.assignor.UniformAssignor and UniformHomogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from barnabas.broker.coordinator.group.consumer.assignors.heterogeneous import assign_heterogeneous
from barnabas.broker.coordinator.group.consumer.assignors.spec import GroupSpec, MemberSpec
from barnabas.broker.coordinator.group.consumer.consumer_member import Partitions
from barnabas.broker.coordinator.java_order import map_order, partition_order, set_order, uuid_hash
from barnabas.protocol.wire import Uuid


def assign_uniformly(group: GroupSpec) -> dict[str, Partitions]:
    """See the module."""
    if not group.members:
        return {}
    if not group.is_homogeneous:
        return assign_heterogeneous(group)
    topics = set_order(next(iter(group.members.values())).topics, uuid_hash)
    return _Homogeneous(group, topics).assign() if topics else {}


class _Homogeneous:
    """All members are subscribed to the same `topics`.

    Each gets `_quota` partitions, and the first `_extras` members that have or need more, one more.
    """

    def __init__(self, group: GroupSpec, topics: list[Uuid]) -> None:
        self._group = group
        self._topics = frozenset(topics)
        self._free = [
            (topic_id, partition)
            for topic_id in topics
            for partition in _others(group.partition_counts[topic_id], group.assigned.get(topic_id, ()))
        ]
        total = sum(group.partition_counts[topic_id] for topic_id in topics)
        self._quota, self._extras = divmod(total, len(group.members))
        self._needs: dict[str, int] = {}

    def assign(self) -> dict[str, Partitions]:
        left = len(self._group.members)
        assigned: dict[str, Partitions] = {}
        for member_id, member in self._group.members.items():
            assigned[member_id] = self._keep(member_id, member, left)
            left -= 1
        free = iter(self._free)
        for member_id, number in self._needs.items():
            assigned[member_id] = _with_more(assigned[member_id], free, number)
        return assigned

    def _keep(self, member_id: str, member: MemberSpec, left: int) -> Partitions:
        """The partitions that a member keeps; the others are free. `left` members remain, this one included."""
        may_have_extra = self._extras > 0
        quota = self._quota + may_have_extra
        kept: Partitions = member.assigned
        had = sum(map(len, kept.values()))
        if had > quota or not self._topics.issuperset(kept):
            kept = self._within(member.assigned, quota)
        missing = quota - sum(map(len, kept.values()))
        if missing > 0 and may_have_extra and left > self._extras:
            missing -= 1  # enough members follow for the extra partitions
            may_have_extra = False
        self._extras -= may_have_extra
        if missing > 0:
            self._needs[member_id] = missing
        return kept

    def _within(self, assigned: Partitions, quota: int) -> Partitions:
        kept: dict[Uuid, frozenset[int]] = {}
        for topic_id in map_order(assigned, uuid_hash):
            if topic_id not in self._topics:
                continue
            partitions = partition_order(assigned[topic_id])
            self._free += [(topic_id, partition) for partition in partitions[quota:]]
            if partitions[:quota]:
                kept[topic_id] = frozenset(partitions[:quota])
            quota = max(quota - len(partitions), 0)
        return kept


def _others(number: int, assigned: Collection[int]) -> Iterator[int]:
    return (partition for partition in range(number) if partition not in assigned)


def _with_more(kept: Partitions, free: Iterator[tuple[Uuid, int]], number: int) -> Partitions:
    more: dict[Uuid, set[int]] = {topic_id: set(partitions) for topic_id, partitions in kept.items()}
    for _, (topic_id, partition) in zip(range(number), free, strict=False):
        more.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in more.items()}

"""The uniform assignor where members are subscribed to different topics.

Each topic's partitions go to the least loaded of its subscribers, topics with the most partitions for each subscriber
first; then partitions move from most to least loaded subscribers, topic by topic, until nothing changes or 16 rounds
are over. A member keeps what it had unless it is moved for the balance.
Source: org.apache.kafka.coordinator.group.assignor.UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from typing import Final

from barnabas.broker.coordinator.group.consumer.assignors.loads import Loads
from barnabas.broker.coordinator.group.consumer.assignors.spec import GroupSpec
from barnabas.broker.coordinator.group.consumer.consumer_member import Partitions
from barnabas.protocol.wire import Uuid

_ROUNDS: Final = 16
_NOBODY: Final = -1


def assign_heterogeneous(group: GroupSpec) -> dict[str, Partitions]:
    """See the module."""
    assignment = _Heterogeneous(group)
    return assignment.assign() if assignment.owners else {}


class _Heterogeneous:
    """`owners` has for each topic the owner of each partition, by the member's index; `sizes` what each member has."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._members = list(group.members.items())
        self._subscribers: dict[Uuid, list[int]] = {}
        for index, (_, member) in enumerate(self._members):
            for topic_id in member.topics:
                self._subscribers.setdefault(topic_id, []).append(index)
        self.owners = {
            topic_id: [_NOBODY] * group.partition_counts[topic_id] for topic_id in self._subscribers
        }
        self.sizes = [0] * len(self._members)

    def assign(self) -> dict[str, Partitions]:
        self._keep()
        order = sorted(self.owners, key=self._rank)
        for topic_id in order:
            self._fill(topic_id)
        self._balance([topic_id for topic_id in order if len(self._subscribers[topic_id]) > 1])
        return self._result()

    def _rank(self, topic_id: Uuid) -> tuple[float, int, int, int]:
        """Most partitions for each subscriber first, then fewest subscribers, then by id as Java compares it."""
        partitions, subscribers = len(self.owners[topic_id]), len(self._subscribers[topic_id])
        most = int.from_bytes(topic_id[:8], "big", signed=True)
        least = int.from_bytes(topic_id[8:], "big", signed=True)
        return -partitions / subscribers, subscribers, most, least

    def _keep(self) -> None:
        """Everybody keeps what it had, of the topics that it is still subscribed to."""
        for index, (_, member) in enumerate(self._members):
            for topic_id, partitions in member.assigned.items():
                if topic_id not in member.topics:
                    continue
                owners = self.owners[topic_id]
                for partition in partitions:
                    owners[partition] = index
                self.sizes[index] += len(partitions)

    def _fill(self, topic_id: Uuid) -> None:
        owners = self.owners[topic_id]
        free = [partition for partition, owner in enumerate(owners) if owner == _NOBODY]
        if not free:
            return
        loads = Loads(self._subscribers[topic_id], self.sizes)
        for partition in free:
            index = owners[partition] = loads.next_least()
            self.sizes[index] += 1

    def _balance(self, topics: list[Uuid]) -> None:
        """Goes round until it is back at the topic in which it moved something last."""
        last_moved = _NOBODY
        for _ in range(_ROUNDS):
            for at, topic_id in enumerate(topics):
                if at == last_moved:
                    return
                if self._balance_topic(topic_id) or last_moved == _NOBODY:
                    last_moved = at

    def _balance_topic(self, topic_id: Uuid) -> bool:
        """Moves partitions of one topic between its subscribers; says whether it moved any."""
        loads = Loads(self._subscribers[topic_id], self.sizes)
        if loads.imbalance <= 1:
            return False
        owners = self.owners[topic_id]
        owned: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            owned.setdefault(owner, []).append(partition)
        has_moved = False
        while not loads.balanced():
            source = _most_loaded(loads, owned)
            if source is None:
                break
            partition = owned[source].pop()
            target = loads.next_least()
            if loads.balanced():
                break
            owners[partition] = target
            self.sizes[source] -= 1
            self.sizes[target] += 1
            has_moved = True
        return has_moved

    def _result(self) -> dict[str, Partitions]:
        assigned: list[dict[Uuid, list[int]]] = [{} for _ in self._members]
        for topic_id, owners in self.owners.items():
            for partition, owner in enumerate(owners):
                assigned[owner].setdefault(topic_id, []).append(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for (member_id, _), topics in zip(self._members, assigned, strict=True)
        }


def _most_loaded(loads: Loads, owned: dict[int, list[int]]) -> int | None:
    """The most loaded subscriber that still owns a partition of the topic; None where there is none."""
    while (index := loads.next_most()) is not None:
        if owned.get(index):
            return index
        loads.exclude_most()
    return None

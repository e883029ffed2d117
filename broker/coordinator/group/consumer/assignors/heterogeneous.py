"""The uniform assignor where members are subscribed to different topics.

Each topic's partitions go to the least loaded of its subscribers, topics with the most partitions for each subscriber
first; then partitions move from most to least loaded subscribers, topic by topic, until nothing changes or 16 rounds
are over. A member keeps what it had unless it is moved for the balance.
Source: org.apache.kafka.coordinator.group.assignor.UniformHeterogeneousAssignmentBuilder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from barnabas.broker.coordinator.group.consumer.assignors.spec import GroupSpec
from barnabas.broker.coordinator.group.consumer.consumer_member import Partitions
from barnabas.protocol.wire import Uuid

_ROUNDS: Final = 16
_NO_MEMBER: Final = -1


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
            topic_id: [_NO_MEMBER] * group.partition_counts[topic_id] for topic_id in self._subscribers
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
        """Members keep the partitions of topics that they are still subscribed to."""
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
        free = [partition for partition, owner in enumerate(owners) if owner == _NO_MEMBER]
        if not free:
            return
        loads = _Loads(self._subscribers[topic_id], self.sizes)
        for partition in free:
            index = owners[partition] = loads.next_least()
            self.sizes[index] += 1

    def _balance(self, topics: list[Uuid]) -> None:
        """Repeats until it is back at the topic in which it moved something last."""
        last_moved = _NO_MEMBER
        for _ in range(_ROUNDS):
            for at, topic_id in enumerate(topics):
                if at == last_moved:
                    return
                if self._balance_topic(topic_id) or last_moved == _NO_MEMBER:
                    last_moved = at

    def _balance_topic(self, topic_id: Uuid) -> bool:
        """Moves partitions of one topic between its subscribers; returns whether it moved any."""
        loads = _Loads(self._subscribers[topic_id], self.sizes)
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


def _most_loaded(loads: _Loads, owned: dict[int, list[int]]) -> int | None:
    """The most loaded subscriber that still owns a partition of the topic; None where there is none."""
    while (index := loads.next_most()) is not None:
        if owned.get(index):
            return index
        loads.exclude_most()
    return None


class _Loads:
    """The subscribers of a topic by load, while partitions move from the most to the least loaded.

    Think of the members as columns, sorted by height. Partitions that are given fill up the lowest columns, one at a
    time and in order, to one common level, then to the next level, which includes further columns; partitions that are
    taken lower the highest columns in the same way. So neither needs a heap: a level, its extent, and the next column.

    `subscribers` are indexes into `sizes`, which are read while levels are found and changed by the caller.

    `imbalance` is the difference between the most and the least loaded at the beginning.
    """

    def __init__(self, subscribers: Iterable[int], sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self._members = sorted(subscribers, key=lambda index: (sizes[index], index))
        lowest, highest = sizes[self._members[0]], sizes[self._members[-1]]
        self.imbalance = highest - lowest
        self._low_level = lowest - 1
        self._low_end = self._low_next = 0
        self._high_level = highest + 1
        self._high_start = self._high_end = len(self._members)
        self._high_next = len(self._members) - 1

    def balanced(self) -> bool:
        """Whether the levels of what is lowered and what is filled up have met."""
        return self._high_level - self._low_level <= 1

    def next_least(self) -> int:
        """The least loaded subscriber, which is given one more."""
        if self._low_next >= self._low_end:
            self._low_level += 1
            members, sizes = self._members, self._sizes
            while self._low_end < len(members) and sizes[members[self._low_end]] == self._low_level:
                self._low_end += 1
            self._low_next = 0
        found = self._members[self._low_next]
        self._low_next += 1
        return found

    def next_most(self) -> int | None:
        """The most loaded subscriber, from which one is taken; None when there is none left."""
        if self._high_next < self._high_start:
            self._lower()
        if self._high_next < 0:
            return None
        found = self._members[self._high_next]
        self._high_next -= 1
        return found

    def _lower(self) -> None:
        members, sizes = self._members, self._sizes
        if self._high_end <= self._high_start and self._high_start > 0:
            self._high_level = sizes[
                members[self._high_start - 1]
            ]  # none is left there: down to the next one
        else:
            self._high_level -= 1
        while self._high_start > 0 and sizes[members[self._high_start - 1]] == self._high_level:
            self._high_start -= 1
        self._high_next = self._high_end - 1

    def exclude_most(self) -> None:
        """Excludes the subscriber that next_most() returned last: it has no partition of the topic."""
        at, last = self._high_next + 1, self._high_end - 1
        self._members[at], self._members[last] = self._members[last], self._members[at]
        self._high_end -= 1

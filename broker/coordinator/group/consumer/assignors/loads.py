"""Loads: the subscribers of a topic by how much each has, while partitions move from the most to the least loaded.

Think of the members as columns, sorted by height. What is given out fills the lowest columns up, one at a time and in
order, to one common level, then to the next level, which takes in further columns; what is taken away lowers the
highest ones in the same way. So neither needs a heap: a level, how far it reaches, and whose turn it is.
Source: UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Loads:
    """`subscribers` are indexes into `sizes`, which are read while levels are found and changed by the caller.

    `imbalance` is the difference between the most and the least loaded at the beginning.
    """

    __slots__ = (
        "_high_end",
        "_high_level",
        "_high_next",
        "_high_start",
        "_low_end",
        "_low_level",
        "_low_next",
        "_members",
        "_sizes",
        "imbalance",
    )

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
        """The most loaded subscriber, from which one is taken; None when there is nobody left."""
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
            ]  # nobody is left there: down to the next who is
        else:
            self._high_level -= 1
        while self._high_start > 0 and sizes[members[self._high_start - 1]] == self._high_level:
            self._high_start -= 1
        self._high_next = self._high_end - 1

    def exclude_most(self) -> None:
        """The subscriber that next_most() gave last has nothing to give."""
        at, last = self._high_next + 1, self._high_end - 1
        self._members[at], self._members[last] = self._members[last], self._members[at]
        self._high_end -= 1

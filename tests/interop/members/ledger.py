"""Records the output of a group's members, and checks that no record is lost or delivered again after its commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Received(NamedTuple):
    """A run of offsets that a member received, both ends inclusive."""

    first: int
    last: int


class Committed(NamedTuple):
    """A commit that the broker accepted: all offsets below `end`."""

    end: int


class Rejected(NamedTuple):
    """A commit that the broker rejected."""


Event = Received | Committed | Rejected


class Ledger:
    """The lines of all members of one group; `add_line` is called for each, in the order of each member."""

    def __init__(self) -> None:
        self.events: dict[int, dict[str, list[Event]]] = {}
        """By partition and member, in order."""
        self.owned: dict[str, set[int]] = {}
        self.assignment_counts: Counter[str] = Counter()
        """How many assignments each member has reported."""
        self.left: set[str] = set()
        self.failures: list[str] = []
        self.rejections: list[str] = []
        self._ends: dict[int, int] = {}

    def add_line(self, line: str) -> None:
        """Adds one line of one member."""
        kind, name, *words = line.split(maxsplit=2)
        rest = words[0] if words else ""
        if kind == "assigned":
            self.assignment_counts[name] += 1
            self.owned[name] = {int(number) for number in rest.split(",") if number}
        elif kind == "got":
            partition, _, run = rest.partition(" ")
            first, _, last = run.partition("-")
            self._events_of(partition, name).append(Received(int(first), int(last)))
        elif kind == "committed":
            partition, _, end = rest.partition(" ")
            self._events_of(partition, name).append(Committed(int(end)))
            self._ends[int(partition)] = max(int(end), self._ends.get(int(partition), 0))
        elif kind == "uncommitted":
            self.rejections.append(f"{name}: {rest}")
            for members in self.events.values():
                members.get(name, []).append(Rejected())
        elif kind in {"left", "failed"}:
            self.remove_member(name)
            if kind == "failed":
                self.failures.append(f"{name}: {rest}")
        else:
            raise ValueError(line)

    def remove_member(self, member: str) -> None:
        """Removes a member that left or was killed."""
        self.owned.pop(member, None)
        self.left.add(member)

    def end(self, partition: int) -> int:
        """The highest committed offset; 0 without one."""
        return self._ends.get(partition, 0)

    def has_committed(self, ends: Mapping[int, int]) -> bool:
        """Whether all offsets are committed."""
        return all(self.end(partition) >= end for partition, end in ends.items())

    def is_balanced(self, members: int, partitions: int) -> bool:
        """Whether exactly `members` members own all partitions, each partition once."""
        owned = [number for numbers in self.owned.values() for number in numbers]
        return len(self.owned) == members and sorted(owned) == list(range(partitions))

    def problems(self, ends: Mapping[int, int]) -> Iterator[str]:
        """The contradictions; the partitions hold the offsets from 0 to `ends`, all of them records."""
        yield from (f"failed: {failure}" for failure in self.failures)
        for partition, end in ends.items():
            yield from self.duplicates(partition)
            missing = set(range(end)) - self._received(partition)
            if missing:
                yield f"{partition}: {len(missing)} of {end} were never received, the first is {min(missing)}"

    def duplicates(self, partition: int) -> Iterator[str]:
        """Offsets that two members, or one member twice, received and committed."""
        kept: dict[int, str] = {}
        for member, events in self.events.get(partition, {}).items():
            for number, run in enumerate(events):
                if not (isinstance(run, Received) and _is_kept(run, events[number + 1 :])):
                    continue
                for offset in range(run.first, run.last + 1):
                    if offset in kept:
                        yield f"{partition}@{offset}: committed by {kept[offset]} and by {member}"
                        break
                    kept[offset] = member

    def _events_of(self, partition: str, member: str) -> list[Event]:
        return self.events.setdefault(int(partition), {}).setdefault(member, [])

    def _received(self, partition: int) -> set[int]:
        runs = [
            run
            for events in self.events.get(partition, {}).values()
            for run in events
            if isinstance(run, Received)
        ]
        return {offset for run in runs for offset in range(run.first, run.last + 1)}


def _is_kept(run: Received, later: list[Event]) -> bool:
    """Whether the member committed the run before it received any of it again."""
    for one in later:
        if isinstance(one, Committed):
            return one.end > run.last
        if isinstance(one, Rejected) or one.first <= run.last:
            return False
    return False

"""Records the output of a group's members, and checks that no record is lost or handed out again after its commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Handed(NamedTuple):
    """A run of offsets that a member was handed, both ends inclusive."""

    first: int
    last: int


class Committed(NamedTuple):
    """A commit that the broker accepted: all offsets below `end`."""

    end: int


class Refused(NamedTuple):
    """A commit that the broker rejected."""


Told = Handed | Committed | Refused


class Ledger:
    """The lines of all members of one group; `take` is called for each, in the order of each member's."""

    def __init__(self) -> None:
        self.told: dict[int, dict[str, list[Told]]] = {}
        """By partition and member, in order."""
        self.owned: dict[str, set[int]] = {}
        self.tellings: Counter[str] = Counter()
        """How often each member has said what it owns."""
        self.left: set[str] = set()
        self.failures: list[str] = []
        self.refusals: list[str] = []
        self._ends: dict[int, int] = {}

    def take(self, line: str) -> None:
        """Adds one line of one member."""
        kind, name, *words = line.split(maxsplit=2)
        rest = words[0] if words else ""
        if kind == "assigned":
            self.tellings[name] += 1
            self.owned[name] = {int(number) for number in rest.split(",") if number}
        elif kind == "got":
            partition, _, run = rest.partition(" ")
            first, _, last = run.partition("-")
            self._told(partition, name).append(Handed(int(first), int(last)))
        elif kind == "committed":
            partition, _, end = rest.partition(" ")
            self._told(partition, name).append(Committed(int(end)))
            self._ends[int(partition)] = max(int(end), self._ends.get(int(partition), 0))
        elif kind == "uncommitted":
            self.refusals.append(f"{name}: {rest}")
            for members in self.told.values():
                members.get(name, []).append(Refused())
        elif kind in {"left", "failed"}:
            self.gone(name)
            if kind == "failed":
                self.failures.append(f"{name}: {rest}")
        else:
            raise ValueError(line)

    def gone(self, member: str) -> None:
        """Notes that a member left or was killed."""
        self.owned.pop(member, None)
        self.left.add(member)

    def end(self, partition: int) -> int:
        """The highest offset that was committed; 0 when none was."""
        return self._ends.get(partition, 0)

    def has_committed(self, ends: Mapping[int, int]) -> bool:
        """Whether all offsets are committed."""
        return all(self.end(partition) >= end for partition, end in ends.items())

    def is_balanced(self, members: int, partitions: int) -> bool:
        """Whether exactly so many members own all partitions, each partition once."""
        owned = [number for numbers in self.owned.values() for number in numbers]
        return len(self.owned) == members and sorted(owned) == list(range(partitions))

    def problems(self, ends: Mapping[int, int]) -> Iterator[str]:
        """The contradictions; the partitions hold the offsets from 0 to `ends`, all of them records."""
        yield from (f"failed: {failure}" for failure in self.failures)
        for partition, end in ends.items():
            yield from self.doubled(partition)
            missing = set(range(end)) - self._handed(partition)
            if missing:
                yield f"{partition}: {len(missing)} of {end} were never handed out, the first is {min(missing)}"

    def doubled(self, partition: int) -> Iterator[str]:
        """Offsets that two members, or one of them twice, were handed and have committed."""
        kept: dict[int, str] = {}
        for member, told in self.told.get(partition, {}).items():
            for number, run in enumerate(told):
                if not (isinstance(run, Handed) and _is_kept(run, told[number + 1 :])):
                    continue
                for offset in range(run.first, run.last + 1):
                    if offset in kept:
                        yield f"{partition}@{offset}: processed for good by {kept[offset]} and by {member}"
                        break
                    kept[offset] = member

    def _told(self, partition: str, member: str) -> list[Told]:
        return self.told.setdefault(int(partition), {}).setdefault(member, [])

    def _handed(self, partition: int) -> set[int]:
        runs = [
            run for told in self.told.get(partition, {}).values() for run in told if isinstance(run, Handed)
        ]
        return {offset for run in runs for offset in range(run.first, run.last + 1)}


def _is_kept(run: Handed, later: list[Told]) -> bool:
    """Whether the member's next step with this run was to commit it."""
    for one in later:
        if isinstance(one, Committed):
            return one.end > run.last
        if isinstance(one, Refused) or one.first <= run.last:
            return False
    return False

"""OpenSegments: a bound on how many segments keep their files and index maps open.

A segment opens at first use and says so here; beyond the limit, one that was not used lately gives back what it has
open (the clock algorithm: each gets a second chance if it was used since it was last looked at). Opening again is a
matter of some ten microseconds. Readers that hold a `FileRecords` keep its file open by themselves.

All segments that count together belong to one thread: whoever opens one closes others, whatever is done with them.
Where logs are loaded or closed on several threads, each counts by itself, or none is closed for another.
"""

from collections import OrderedDict
from typing import Final, Protocol

DESCRIPTORS_PER_SEGMENT: Final = 3  # .log, and before Python 3.13 one for each of the two maps
DEFAULT_LIMIT: Final = 1024
NO_LIMIT: Final = 1 << 60


class Openable(Protocol):
    """What is needed of a LogSegment here."""

    was_used: bool

    def release(self) -> None: ...


class OpenSegments:
    """The open segments of all logs that share it."""

    __slots__ = ("_ring", "limit")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._ring: OrderedDict[Openable, None] = OrderedDict()
        self.limit = max(limit, 1)

    def __len__(self) -> int:
        return len(self._ring)

    def add(self, segment: Openable) -> None:
        """Notes that a segment opens; another one closes if there are too many."""
        ring = self._ring
        for _ in range(2 * len(ring)):
            if len(ring) < self.limit:
                break
            candidate, _ = ring.popitem(last=False)
            if candidate.was_used:
                candidate.was_used = False
                ring[candidate] = None
            else:
                candidate.release()
        segment.was_used = True
        ring[segment] = None

    def discard(self, segment: Openable) -> None:
        """Notes that a segment has given everything back."""
        self._ring.pop(segment, None)

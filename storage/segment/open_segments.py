"""OpenSegments: limits how many segments keep their files and index maps open.

A segment opens at first use and registers here; beyond the limit, one that was not used lately is released (the clock
algorithm: one that was used since its last check gets a second chance). Opening again takes some ten microseconds.
Readers that hold a `FileRecords` keep its file open.

All segments of one ring belong to one thread, since opening one closes others. When several threads load or close
logs, each log has a ring of its own, or the ring has no limit.
"""

from collections import OrderedDict
from typing import Final, Protocol

DESCRIPTORS_PER_SEGMENT: Final = 3  # .log, and before Python 3.13 one for each of the two maps
DEFAULT_LIMIT: Final = 1024
NO_LIMIT: Final = 1 << 60


class Openable(Protocol):
    """The part of LogSegment that OpenSegments uses."""

    was_used: bool

    def release(self) -> None: ...


class OpenSegments:
    """The open segments of all logs that share it."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._ring: OrderedDict[Openable, None] = OrderedDict()
        self.limit = max(limit, 1)

    def __len__(self) -> int:
        return len(self._ring)

    def add(self, segment: Openable) -> None:
        """Registers a segment that opens, and releases another one beyond the limit."""
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
        """Removes a segment that has closed."""
        self._ring.pop(segment, None)

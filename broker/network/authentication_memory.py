"""AuthenticationMemory: one budget for what clients that have not logged in make the broker hold.

Only bytes that have arrived are charged, whatever length a client claims. A login takes a few hundred bytes, so the
budget is reached by an attack alone: then the connections that hold the most lose, and not whoever comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import nlargest
from typing import Final

LIMIT_BYTES: Final = 8 * 1024 * 1024
_KEPT_SHARE: Final = 7 / 8
"""How full the budget is after a rescue: so the next is not due at once."""
_VICTIMS_AT_ONCE: Final = 64


class Holder:
    """A connection's share of the budget. `give_up` ends the connection, which releases its share."""

    __slots__ = ("_memory", "give_up", "held_bytes")

    def __init__(self, memory: AuthenticationMemory, give_up: Callable[[], None]) -> None:
        self._memory = memory
        self.give_up = give_up
        self.held_bytes = 0

    def hold(self, size: int) -> None:
        """Changes the share to `size` bytes. May end this connection or others."""
        if size != self.held_bytes:
            self._memory._change(self, size)


class AuthenticationMemory:
    """The budget, and who holds how much of it."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.used_bytes = 0
        self._holders: set[Holder] = set()

    def holder(self, give_up: Callable[[], None]) -> Holder:
        return Holder(self, give_up)

    def _change(self, holder: Holder, size: int) -> None:
        self.used_bytes += size - holder.held_bytes
        holder.held_bytes = size
        if size:
            self._holders.add(holder)
        else:
            self._holders.discard(holder)
        if self.used_bytes > self.limit_bytes:
            self._rescue()

    def _rescue(self) -> None:
        """Ends the connections that hold the most, until there is room again."""
        while self._holders and self.used_bytes > self.limit_bytes * _KEPT_SHARE:
            for holder in nlargest(_VICTIMS_AT_ONCE, self._holders, key=lambda each: each.held_bytes):
                if self.used_bytes <= self.limit_bytes * _KEPT_SHARE:
                    break
                holder.give_up()
                if holder in self._holders:  # whatever became of the connection, its bytes count no more
                    self.used_bytes -= holder.held_bytes
                    holder.held_bytes = 0
                    self._holders.discard(holder)

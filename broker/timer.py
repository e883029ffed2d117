"""Calling something later: the little of an event loop that whoever waits needs, so that tests can turn it.

Under asyncio and uvloop the loop itself is the timer: both keep timers in a heap in C, so that neither
making nor cancelling one is felt, and nothing like Kafka's timing wheel is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class TimerHandle(Protocol):
    """What can be called off."""

    def cancel(self) -> None:
        """Prevents the call; does nothing once it has happened."""


class Timer(Protocol):
    """A monotonic clock in seconds, and calls at a time of that clock. An asyncio event loop is one."""

    def time(self) -> float: ...

    def call_at(self, when: float, callback: Callable[[], object], /) -> TimerHandle: ...

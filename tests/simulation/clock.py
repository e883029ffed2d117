"""Virtual time, and coroutines that run in it and wait only for the clock or for a response.

No event loop: `Clock.step` runs the call that is due next, and a coroutine that waits for it resumes at once.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from barnabas.broker.pending import Pending
from tests.broker.fakes import ManualHandle

R = TypeVar("R")

START_S = 1_700_000_000.0
"""The time of day at which each simulation begins, in seconds."""


class Clock:
    """A Timer (broker.waiting.timer) that advances by steps. Calls for the same time run in order of creation."""

    def __init__(self) -> None:
        self.now = START_S
        self._calls: list[tuple[float, int, ManualHandle]] = []
        self._order = 0

    def time(self) -> float:
        return self.now

    @property
    def now_ms(self) -> int:
        return round(self.now * 1000)

    def call_at(self, when: float, callback: Callable[[], object]) -> ManualHandle:
        call = ManualHandle(callback)
        self._order += 1
        heapq.heappush(self._calls, (max(when, self.now), self._order, call))
        return call

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> ManualHandle:
        return self.call_at(self.now + delay_s, callback)

    def next(self) -> ManualHandle | None:
        """Advances to the next call that is not cancelled, and returns it; None when there is none."""
        while self._calls:
            when, _, call = heapq.heappop(self._calls)
            if not call.cancelled:
                self.now = when
                return call
        return None


class Wait(Generic[R]):
    """`await Wait(pending)` in a task resumes with the result."""

    __slots__ = ("pending",)

    def __init__(self, pending: Pending[R]) -> None:
        self.pending = pending

    def __await__(self) -> Generator[Pending[R], R, R]:
        return (yield self.pending)


def sleep(clock: Clock, seconds: float) -> Awaitable[None]:
    """Resumes after some virtual time."""
    pending: Pending[None] = Pending()
    clock.call_later(seconds, lambda: pending.complete(None))
    return Wait(pending)


class Wakeup:
    """A sleep that `wake` ends early."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: Pending[None] | None = None

    def wake(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.complete(None)

    async def wait(self, seconds: float) -> None:
        """Waits until `wake`, or for `seconds`."""
        pending = self._pending = Pending()
        self._clock.call_later(seconds, lambda: self.wake() if self._pending is pending else None)
        await Wait(pending)


class Task:
    """A coroutine that runs to its end or until `end`. `frozen_until` suspends it, as a paused process."""

    def __init__(self, clock: Clock, coroutine: Coroutine[Pending[Any], Any, None]) -> None:
        self._clock = clock
        self._coroutine = coroutine
        self.ended = False
        self.frozen_until = 0.0
        self._is_running = False
        clock.call_later(0, lambda: self._resume(None))

    def end(self) -> None:
        """Ends it where it waits, as the end of a process does: no more of its code runs."""
        if not self.ended:
            self.ended = True
            if not self._is_running:  # else it ended itself, and _wait_for closes it
                self._coroutine.close()

    def _resume(self, result: Any) -> None:
        if self.ended:
            return
        if self._clock.now < self.frozen_until:
            self._clock.call_at(self.frozen_until, lambda: self._resume(result))
            return
        self._is_running = True
        try:
            pending = self._coroutine.send(result)
        except StopIteration:
            self.ended = True
            return
        finally:
            self._is_running = False
        self._wait_for(pending)

    def _wait_for(self, pending: Pending[Any]) -> None:
        if self.ended:  # it ended itself
            self._coroutine.close()
        else:
            pending.add_done_callback(self._resume)

"""LoopPulse: measures how long the event loop could run nothing, by timers that run later than they were due.

A tick that runs late by some time shows a pause of at least that time, and of at most one interval more. The sweep of
the socket server ticks once a second, which it does anyway. After a second in which the loop's thread has worked for
BUSY_S there are ticks every FAST_INTERVAL_S as well, until the next sweep:

    the loop | interval        | pauses shorter than the interval
    ---------+-----------------+---------------------------------------------------------------------------------------
    idle     | 1 s             | are seen with a chance of their part of it. They come from outside: a process that is
             |                 | stopped, or gets no CPU
    busy     | FAST_INTERVAL_S | the same

An idle broker does not wake up more often for it, and a busy one spends some 30 us a second. Kafka has no such metric,
since its threads do not wait for each other.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from barnabas.broker.probes import LongestPause
from barnabas.broker.waiting.timer import Timer, TimerHandle

FAST_INTERVAL_S: Final = 0.1
FAST_TICKS: Final = 10
"""So many follow a tick of the sweep, until the next."""
BUSY_S: Final = 0.02
"""CPU time between two ticks of the sweep after which the broker is busy."""


class LoopPulse:
    """Notes pauses in `pause`, in seconds. `thread_time` is the CPU time of the loop's thread, in seconds."""

    def __init__(
        self, timer: Timer, pause: LongestPause, thread_time: Callable[[], float] = time.thread_time
    ) -> None:
        self._timer = timer
        self._pause = pause
        self._thread_time = thread_time
        self._worked_s = 0.0
        self._left = 0
        self._due = 0.0
        self._handle: TimerHandle | None = None

    def ticked(self, due: float, now: float) -> None:
        """A call of the timer that runs about once a second, and was due at `due`, runs at `now`."""
        self._pause.note(now, now - due)
        worked_s = self._thread_time()
        self._left = FAST_TICKS if worked_s - self._worked_s >= BUSY_S else 0
        self._worked_s = worked_s
        if self._left and self._handle is None:
            self._tick_later(now)

    def stop(self) -> None:
        """Ticks no more."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _tick_later(self, now: float) -> None:
        self._left -= 1
        self._due = now + FAST_INTERVAL_S
        self._handle = self._timer.call_at(self._due, self._tick)

    def _tick(self) -> None:
        self._handle = None
        now = self._timer.time()
        self._pause.note(now, now - self._due)
        if self._left > 0:
            self._tick_later(now)

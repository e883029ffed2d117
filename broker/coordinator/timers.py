"""ShardTimers: the timers of one shard, over those of the event loop.

Most are postponed again and again (a session, by each heartbeat) and few expire. So an entry that is rescheduled for
later keeps its call: where that comes too early, it schedules the next one.
Source: org.apache.kafka.coordinator.common.runtime.CoordinatorTimerImpl.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from barnabas.broker.coordinator.shard import TimedOperation
from barnabas.broker.waiting.timer import Timer, TimerHandle

RETRY_BACKOFF_MS: Final = 500

Due = Callable[[Hashable, TimedOperation, bool], None]


class _Entry:
    __slots__ = ("call", "called_at", "due", "operation", "retry")

    def __init__(self, due: float, operation: TimedOperation, retry: bool) -> None:
        self.due = due
        self.operation = operation
        self.retry = retry
        self.called_at = due
        self.call: TimerHandle | None = None


class ShardTimers:
    """CoordinatorTimer over `timer`; `due(key, operation, retry)` is called when one expires."""

    def __init__(self, timer: Timer, due: Due) -> None:
        self._timer = timer
        self._due = due
        self._entries: dict[Hashable, _Entry] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._entries)

    def schedule(
        self, key: Hashable, delay_ms: int, operation: TimedOperation, *, retry: bool = True
    ) -> None:
        if self._is_closed:
            return
        due = self._timer.time() + delay_ms / 1000
        entry = self._entries.get(key)
        if entry is not None and entry.called_at <= due:
            entry.due, entry.operation, entry.retry = due, operation, retry
            return
        self.cancel(key)
        entry = self._entries[key] = _Entry(due, operation, retry)
        self._call(key, entry)

    def cancel(self, key: Hashable) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None and entry.call is not None:
            entry.call.cancel()
            entry.call = None

    def is_scheduled(self, key: Hashable) -> bool:
        return key in self._entries

    def close(self) -> None:
        """Cancels all timers and ignores later ones: the shard is unloaded."""
        self._is_closed = True
        for key in list(self._entries):
            self.cancel(key)

    def _call(self, key: Hashable, entry: _Entry) -> None:
        def called() -> None:
            entry.call = None  # which would keep this function in a reference cycle
            if entry.called_at < entry.due:
                self._call(key, entry)
                return
            del self._entries[key]
            self._due(key, entry.operation, entry.retry)

        entry.called_at = entry.due
        entry.call = self._timer.call_at(entry.due, called)

"""Where requests wait: for enough bytes, enough replicas, an fsync, or the end of their patience.

An operation waits under keys (partitions, groups); whoever changes what a key stands for has the operations
under it look again. Nothing polls, and a waiting request costs no task: only a place under each key, and one
timer.

Source: Kafka's DelayedOperation and DelayedOperationPurgatory. All happens on the event loop, so there are
no locks, and a completed operation can leave all its keys at once instead of being purged later (see
`Watchers`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from broker.timer import Timer, TimerHandle

DEFAULT_PURGE_INTERVAL = 1000

Watchers = dict["DelayedOperation", None]
"""The operations under one key, in the order in which they came: a set that keeps its order.

An operation that completes under one key leaves the thousand others without a search and without hashing
their names again. That costs about what a later purge of lists would, and keeps nothing alive; what is left
for the purge are keys under which nobody waits any more.
"""


class DelayedOperation:
    """Something that completes exactly once: when its condition is met, or after `delay_ms`.

    A subclass says when (`try_complete`) and what then (`on_complete`).
    """

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.is_completed = False
        self._timeout: TimerHandle | None = None
        self._watchers: list[Watchers] = []

    def try_complete(self) -> bool:
        """Looks whether the condition is met now, and if so returns force_complete()."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Does what was waited for, in whichever way the wait ended. Called exactly once."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Called just before on_complete when time is what ended the wait, so that the answer can say so.

        (Kafka calls it after on_complete; there it only counts.)
        """

    def force_complete(self) -> bool:
        """Completes now. False when somebody else had done so already."""
        if self.is_completed:
            return False
        self._leave()
        self.on_complete()
        return True

    def expire(self) -> None:
        """Completes because the time is over."""
        if not self.is_completed:
            self._leave()
            self.on_expiration()
            self.on_complete()

    def _leave(self) -> None:
        self.is_completed = True
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None
        watchers, self._watchers = self._watchers, []
        for watcher in watchers:
            watcher.pop(self, None)


class DelayedOperationPurgatory:
    """The waiting operations of one kind, `name` ("Produce", "Fetch", ...), by key."""

    def __init__(self, name: str, timer: Timer, purge_interval: int = DEFAULT_PURGE_INTERVAL) -> None:
        self.name = name
        self._timer = timer
        self._purge_interval = purge_interval
        self._watched_since_purge = 0
        self._watchers: dict[Hashable, Watchers] = {}
        self._delayed: Watchers = {}

    @property
    def num_delayed(self) -> int:
        """Operations that wait (`NumDelayedOperations`)."""
        return len(self._delayed)

    @property
    def watched(self) -> int:
        """Places taken under all keys together (`PurgatorySize`): an operation counts once for each of its
        keys.
        """
        return sum(map(len, self._watchers.values()))

    def try_complete_else_watch(self, operation: DelayedOperation, keys: Iterable[Hashable]) -> bool:
        """Completes `operation` if that can be done now, else has it wait under `keys`, `delay_ms` long at
        most.
        """
        if operation.try_complete():
            return True
        mine = operation._watchers
        all_watchers = self._watchers
        for key in keys:
            watchers = all_watchers.get(key)
            if watchers is None:
                watchers = all_watchers[key] = {}
            watchers[operation] = None
            mine.append(watchers)
        self._delayed[operation] = None
        mine.append(self._delayed)
        operation._timeout = self._timer.call_at(
            self._timer.time() + operation.delay_ms / 1000, operation.expire
        )
        self._maybe_purge()
        return False

    def check_and_complete(self, key: Hashable) -> int:
        """Has the operations under `key` look again; returns how many completed."""
        watchers = self._watchers.get(key)
        if not watchers:
            return 0
        completed = 0
        for operation in list(watchers):
            if not operation.is_completed and operation.try_complete():
                completed += 1
        return completed

    def expire_all(self) -> None:
        """Ends every wait now as if its time were over: the broker is about to stop."""
        for operation in list(self._delayed):
            operation.expire()

    def _maybe_purge(self) -> None:
        """Every so many operations, forgets the keys under which nobody waits (deleted topics, clients
        gone).
        """
        self._watched_since_purge += 1
        if self._watched_since_purge < self._purge_interval:
            return
        self._watched_since_purge = 0
        self._watchers = {key: watchers for key, watchers in self._watchers.items() if watchers}

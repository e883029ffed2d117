"""Purgatory: requests that wait for enough bytes, enough replicas, an fsync, or their timeout.

An operation waits under keys (partitions, groups); code that changes the subject of a key has the operations under it
checked again. Nothing polls, and a waiting request costs no task: only a place under each key, and an entry among the
deadlines.

Besides operations a `Watcher` may stand under a key: it is notified of changes whether a request waits or not.

Source: Kafka's DelayedOperation and DelayedOperationPurgatory. Everything runs on the event loop, so there are
no locks, and a completed operation can leave all its keys at once instead of being purged later (see
`Watchers`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Protocol

from mypy_extensions import mypyc_attr

from barnabas.broker.waiting.timer import DeadlineQueue, Timer

DEFAULT_PURGE_INTERVAL = 1000


class Watcher(Protocol):
    """Is notified of changes under a key."""

    @property
    def is_waiting(self) -> bool:
        """Whether a request waits for the change, so that the place counts."""

    def wake(self) -> None:
        """Notes a change; `look` follows when all changes are made."""

    def look(self) -> int:
        """Checks after a change whether the condition holds; returns how many operations completed."""


Watchers = dict[Watcher, None]
"""The watchers under one key, in the order in which they came: a set that keeps its order.

An operation that completes under one key leaves the thousand others without a search and without hashing
their names again. That costs about what a later purge of lists would, and keeps nothing alive; what is left
for the purge are keys without watchers.
"""


@mypyc_attr(allow_interpreted_subclasses=True)  # those of the tests
class DelayedOperation:
    """An operation that completes exactly once: when its condition is met, or after `delay_ms`.

    A subclass defines the condition (`try_complete`) and the completion (`on_complete`).
    """

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.is_completed = False
        self._watchers: list[Watchers] = []

    @property
    def is_waiting(self) -> bool:
        return not self.is_completed

    def wake(self) -> None:
        pass

    def look(self) -> int:
        return not self.is_completed and self.try_complete()

    def try_complete(self) -> bool:
        """Checks the condition; if it is met, returns force_complete()."""
        raise NotImplementedError

    def on_complete(self) -> None:
        """Completes the operation, however the wait ended. Called exactly once."""
        raise NotImplementedError

    def on_expiration(self) -> None:
        """Called just before on_complete when the timeout ended the wait, so that the response can report it.

        (Kafka calls it after on_complete; there it only counts.)
        """

    def force_complete(self) -> bool:
        """Completes now. False when it was complete already."""
        if self.is_completed:
            return False
        self._leave()
        self.on_complete()
        return True

    def expire(self) -> None:
        """Completes because the timeout expired."""
        if not self.is_completed:
            self._leave()
            self.on_expiration()
            self.on_complete()

    def _leave(self) -> None:
        self.is_completed = True
        for watchers in self._watchers:
            watchers.pop(self, None)
        self._watchers = []


class DelayedOperationPurgatory:
    """The waiting operations of one kind, `name` ("Produce", "Fetch", ...), by key."""

    def __init__(self, name: str, timer: Timer, purge_interval: int = DEFAULT_PURGE_INTERVAL) -> None:
        self.name = name
        self._deadlines = DeadlineQueue(timer)
        self._purge_interval = purge_interval
        self._keys_since_purge = 0
        self._watchers: dict[Hashable, Watchers] = {}
        self._delayed: dict[DelayedOperation, None] = {}

    @property
    def num_delayed(self) -> int:
        """Operations that wait (`NumDelayedOperations`)."""
        return len(self._delayed)

    @property
    def watched(self) -> int:
        """Places taken under all keys together (`PurgatorySize`): an operation counts once for each of its
        keys.
        """
        return sum(watcher.is_waiting for watchers in self._watchers.values() for watcher in watchers)

    def try_complete_else_watch(
        self, operation: DelayedOperation, keys: Iterable[Hashable], *also: Watchers
    ) -> bool:
        """Completes `operation` if its condition is met, else has it wait under `keys`, `delay_ms` at most; while it
        waits it is in `also` as well.
        """
        if operation.try_complete():
            return True
        places = operation._watchers
        for key in keys:
            places.append(self.watch(key, operation))
        for watchers in also:
            watchers[operation] = None
            places.append(watchers)
        self._delayed[operation] = None
        places.append(self._delayed)  # type: ignore[arg-type]  # it only ever leaves them
        self._deadlines.add(operation.delay_ms, operation)
        return False

    def watch(self, key: Hashable, watcher: Watcher) -> Watchers:
        """Adds `watcher` under `key`; it leaves by removing itself from the returned Watchers."""
        watchers = self._watchers.get(key)
        if watchers is None:
            self._maybe_purge()
            watchers = self._watchers[key] = {}
        watchers[watcher] = None
        return watchers

    def check_and_complete_all(self, keys: Sequence[Hashable]) -> int:
        """Checks the watchers under all of these keys; an operation that completes sees all changes."""
        for key in keys:
            for watcher in self._watchers.get(key, ()):
                watcher.wake()
        return sum([self.check_and_complete(key) for key in keys])

    def check_and_complete(self, key: Hashable) -> int:
        """Checks the watchers under `key`; returns how many operations completed."""
        watchers = self._watchers.get(key)
        if not watchers:
            return 0
        if len(watchers) == 1:  # the usual case, without a copy
            (watcher,) = watchers
            return watcher.look()
        return sum([watcher.look() for watcher in list(watchers)])

    def expire_all(self) -> None:
        """Expires every operation now: the broker is about to stop."""
        self._deadlines.clear()
        for operation in list(self._delayed):
            operation.expire()

    def _maybe_purge(self) -> None:
        """Every `purge_interval` new keys, removes those without watchers (deleted topics, clients gone)."""
        self._keys_since_purge += 1
        if self._keys_since_purge < self._purge_interval:
            return
        self._keys_since_purge = 0
        self._watchers = {key: watchers for key, watchers in self._watchers.items() if watchers}

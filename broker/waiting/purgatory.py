"""Where requests wait: for enough bytes, enough replicas, an fsync, or the end of their patience.

An operation waits under keys (partitions, groups); whoever changes what a key stands for has the operations
under it look again. Nothing polls, and a waiting request costs no task: only a place under each key, and an
entry among the deadlines.

Besides operations a `Watcher` may stand under a key: what is to hear of a change whether somebody waits for it or not.

Source: Kafka's DelayedOperation and DelayedOperationPurgatory. All happens on the event loop, so there are
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
    """What stands under a key and hears of changes."""

    @property
    def is_waiting(self) -> bool:
        """Whether a request waits for the change, so that the place counts."""

    def wake(self) -> None:
        """Something has changed, and is to be looked at soon, with what else has changed."""

    def look(self) -> int:
        """Something has changed: looks whether what was waited for is there; returns how many operations completed."""


Watchers = dict[Watcher, None]
"""The watchers under one key, in the order in which they came: a set that keeps its order.

An operation that completes under one key leaves the thousand others without a search and without hashing
their names again. That costs about what a later purge of lists would, and keeps nothing alive; what is left
for the purge are keys under which nobody waits any more.
"""


@mypyc_attr(allow_interpreted_subclasses=True)  # those of the tests
class DelayedOperation:
    """Something that completes exactly once: when its condition is met, or after `delay_ms`.

    A subclass says when (`try_complete`) and what then (`on_complete`).
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
        """Completes `operation` if that can be done now, else has it wait under `keys`, `delay_ms` long at
        most. It is entered in `also` as well, for as long as it waits.
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
        """Puts `watcher` under `key`; it leaves by taking itself out of what this returns."""
        watchers = self._watchers.get(key)
        if watchers is None:
            self._maybe_purge()
            watchers = self._watchers[key] = {}
        watchers[watcher] = None
        return watchers

    def check_and_complete_all(self, keys: Sequence[Hashable]) -> int:
        """Has the watchers under all of these look again; an operation that completes sees all that has changed."""
        for key in keys:
            for watcher in self._watchers.get(key, ()):
                watcher.wake()
        return sum([self.check_and_complete(key) for key in keys])

    def check_and_complete(self, key: Hashable) -> int:
        """Has the watchers under `key` look again; returns how many operations completed."""
        watchers = self._watchers.get(key)
        if not watchers:
            return 0
        if len(watchers) == 1:  # the usual case, without a copy
            (watcher,) = watchers
            return watcher.look()
        return sum([watcher.look() for watcher in list(watchers)])

    def expire_all(self) -> None:
        """Ends every wait now as if its time were over: the broker is about to stop."""
        self._deadlines.clear()
        for operation in list(self._delayed):
            operation.expire()

    def _maybe_purge(self) -> None:
        """Every so many new keys, forgets those under which nobody stands (deleted topics, clients gone)."""
        self._keys_since_purge += 1
        if self._keys_since_purge < self._purge_interval:
            return
        self._keys_since_purge = 0
        self._watchers = {key: watchers for key, watchers in self._watchers.items() if watchers}

"""Pending: a result that comes later. A function that answers now or later returns `X | Pending[X]`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar, cast

R = TypeVar("R")
S = TypeVar("S")


class Pending(Generic[R]):
    """A result that comes later, exactly once; the smallest future that works without an event loop."""

    __slots__ = ("_callback", "_more", "_result", "done")

    def __init__(self) -> None:
        self.done = False
        self._result: R | None = None
        self._callback: Callable[[R], None] | None = None
        self._more: list[Callable[[R], None]] | None = None  # there is hardly ever a second one

    def complete(self, result: R) -> None:
        """Passes `result` to the callbacks. A second call is a bug and raises AssertionError."""
        assert not self.done, "a pending response was completed twice"
        self.done = True
        self._result = result
        callback, self._callback = self._callback, None
        more, self._more = self._more, None
        if callback is not None:
            callback(result)
        for one in more or ():
            one(result)

    def add_done_callback(self, callback: Callable[[R], None]) -> None:
        """Calls `callback(result)` on completion; at once if it is complete."""
        if self.done:
            callback(self._result)  # type: ignore[arg-type]  # done, so the result is an R
        elif self._callback is None:
            self._callback = callback
        elif self._more is None:
            self._more = [callback]
        else:
            self._more.append(callback)

    def then(self, transform: Callable[[R], S]) -> Pending[S]:
        """A pending result that completes with `transform(result)`."""
        after: Pending[S] = Pending()
        self.add_done_callback(lambda result: after.complete(transform(result)))
        return after


def completed(result: R) -> Pending[R]:
    """A pending result that is complete already."""
    pending: Pending[R] = Pending()
    pending.complete(result)
    return pending


def all_of(answers: Sequence[Pending[R]]) -> Pending[list[R]]:
    """Completes with the results of all `answers`, in their order."""
    everything: Pending[list[R]] = Pending()
    results: list[R | None] = [None] * len(answers)
    missing = len(answers)

    def take(at: int, result: R) -> None:
        nonlocal missing
        results[at] = result
        missing -= 1
        if not missing:
            everything.complete(cast("list[R]", results))

    if not answers:
        everything.complete([])
    for at, answer in enumerate(answers):
        answer.add_done_callback(partial(take, at))
    return everything

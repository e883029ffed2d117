"""Calls on the event loop from other threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Generic, TypeVar

R = TypeVar("R")


class LoopSilentError(Exception):
    """The event loop has not run the call in time: it is stuck, or far too busy."""


class OnLoop:
    """Runs functions on the event loop for other threads, which wait for the result up to a timeout."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call(self, function: Callable[[], R], timeout_s: float) -> R:
        """Returns what `function` returns. Raises what it raises, or LoopSilentError."""

        def only_step() -> Generator[None, None, R]:
            yield from ()
            return function()

        return self.run(only_step, timeout_s)

    def run(self, steps: Callable[[], Generator[None, None, R]], timeout_s: float) -> R:
        """The same for a long function: the event loop does other work between its steps."""
        run = _Run(self._loop, steps)
        future = run.future
        try:
            self._loop.call_soon_threadsafe(run.step)
            return future.result(timeout_s)
        except FutureTimeoutError:
            future.cancel()
            raise LoopSilentError(f"the event loop has not answered for {timeout_s:g} s") from None
        except RuntimeError as error:
            if self._loop.is_closed():
                raise LoopSilentError("the event loop has ended") from error
            raise


class _Run(Generic[R]):
    """A run in progress. No closure: one that refers to itself keeps its result until a garbage collection."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, steps: Callable[[], Generator[None, None, R]]
    ) -> None:
        self.future: Future[R] = Future()
        self._loop = loop
        self._steps = steps
        self._generator: Generator[None, None, R] | None = None

    def step(self) -> None:
        """Runs one step; the next one runs in another turn of the loop."""
        if self.future.cancelled():
            return
        try:
            if self._generator is None:
                self._generator = self._steps()
            next(self._generator)
        except StopIteration as end:
            self.future.set_result(end.value)
        except Exception as error:  # the waiting thread raises it
            self.future.set_exception(error)
        else:
            self._loop.call_soon(self.step)

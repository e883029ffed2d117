"""Asking the event loop for something from another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Generic, TypeVar

R = TypeVar("R")


class LoopSilentError(Exception):
    """The event loop has not answered in time: it is stuck, or far too busy."""


class OnLoop:
    """Lets another thread have something done on the event loop, and wait for it, but not for ever."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call(self, function: Callable[[], R], timeout_s: float) -> R:
        """Returns what `function` returns. Raises what it raises, or LoopSilentError."""

        def only_step() -> Generator[None, None, R]:
            yield from ()
            return function()

        return self.run(only_step, timeout_s)

    def run(self, steps: Callable[[], Generator[None, None, R]], timeout_s: float) -> R:
        """The same for something long: the event loop does other things between its steps."""
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
    """Steps on their way. No closure: one that names itself keeps its result until the garbage collector comes by."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, steps: Callable[[], Generator[None, None, R]]
    ) -> None:
        self.future: Future[R] = Future()
        self._loop = loop
        self._steps = steps
        self._generator: Generator[None, None, R] | None = None

    def step(self) -> None:
        """One of them; the next is taken in another turn of the loop."""
        if self.future.cancelled():
            return
        try:
            if self._generator is None:
                self._generator = self._steps()
            next(self._generator)
        except StopIteration as end:
            self.future.set_result(end.value)
        except Exception as error:  # whoever waits gets it
            self.future.set_exception(error)
        else:
            self._loop.call_soon(self.step)

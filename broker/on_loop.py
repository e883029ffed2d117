"""Asking the event loop for something from another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

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
        future: Future[R] = Future()
        generator: Generator[None, None, R] | None = None

        def step() -> None:
            nonlocal generator
            if future.cancelled():
                return
            try:
                if generator is None:
                    generator = steps()
                next(generator)
            except StopIteration as end:
                future.set_result(end.value)
            except Exception as error:  # whoever waits gets it
                future.set_exception(error)
            else:
                self._loop.call_soon(step)

        try:
            self._loop.call_soon_threadsafe(step)
            return future.result(timeout_s)
        except FutureTimeoutError:
            future.cancel()
            raise LoopSilentError(f"the event loop has not answered for {timeout_s:g} s") from None
        except RuntimeError as error:
            if self._loop.is_closed():
                raise LoopSilentError("the event loop has ended") from error
            raise

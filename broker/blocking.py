"""Where work that blocks (fsync, above all) goes, so that the event loop never waits for a disk.

In life that is a small thread pool; the tests run it inline, or hold it back until they say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Protocol

Work = Callable[[], None]
Done = Callable[[BaseException | None], None]


class BlockingRunner(Protocol):
    """Runs `work` away from the event loop, then `done(error or None)` on it."""

    def submit(self, work: Work, done: Done) -> None: ...


class ThreadRunner:
    """BlockingRunner over a thread pool that is made at the first use; `done` is called on `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        self._loop = loop
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="barnabas-blocking")

    def submit(self, work: Work, done: Done) -> None:
        try:
            future = self._executor.submit(work)
        except RuntimeError:  # closed: the broker stops, and nobody is served any more who could be held up
            InlineRunner().submit(work, done)
            return
        future.add_done_callback(lambda future: self._loop.call_soon_threadsafe(done, _error_of(future)))

    def close(self) -> None:
        """Waits for what was submitted. What is submitted later is done at once, by whoever submits it."""
        self._executor.shutdown(wait=True)


class InlineRunner:
    """BlockingRunner that does everything at once, for start-up, shutdown and tests."""

    def submit(self, work: Work, done: Done) -> None:
        try:
            work()
        except OSError as error:
            done(error)
        else:
            done(None)


def _error_of(future: Future[None]) -> BaseException | None:
    return future.exception()

"""Runs work that blocks (fsync, above all), so that the event loop never waits for a disk.

A server uses a small thread pool; tests run the work inline, or hold it back.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Protocol

Work = Callable[[], None]
Done = Callable[[BaseException | None], None]


class BlockingRunner(Protocol):
    """Runs `work` away from the event loop, then `done(error or None)` on it."""

    def submit(self, work: Work, done: Done) -> None: ...


class ThreadRunner:
    """BlockingRunner over threads: one for each piece of work in progress, `threads` at most. Lives on `loop`.

    A loaded log is synced thousands of times a second, so this is a queue and a callback on the loop and nothing
    more; the standard library's executor costs twice as much, for futures that no caller needs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        self._loop = loop
        self._most_threads = threads
        self._threads: list[threading.Thread] = []
        self._queue: SimpleQueue[tuple[Work, Done] | None] = SimpleQueue()
        self._under_way = 0
        self._is_closed = False

    def submit(self, work: Work, done: Done) -> None:
        if self._is_closed:  # the broker stops, and serves no client that could be delayed
            InlineRunner().submit(work, done)
            return
        self._under_way += 1
        if len(self._threads) < min(self._under_way, self._most_threads):
            self._start_thread()
        self._queue.put((work, done))

    def _start_thread(self) -> None:
        name = f"barnabas-blocking-{len(self._threads)}"
        thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            work, done = item
            error: BaseException | None = None
            try:
                work()
            except BaseException as raised:
                error = raised
            self._loop.call_soon_threadsafe(self._ended, done, error)
            del item, work, done, error  # or they would be kept until there is more to do

    def _ended(self, done: Done, error: BaseException | None) -> None:
        self._under_way -= 1
        done(error)

    def close(self) -> None:
        """Waits for the work submitted so far; later work runs at once, in the caller."""
        self._is_closed = True
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()


class InlineRunner:
    """BlockingRunner that runs work at once, for start-up, shutdown and tests."""

    def submit(self, work: Work, done: Done) -> None:
        try:
            work()
        except OSError as error:
            done(error)
        else:
            done(None)

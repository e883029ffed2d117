"""Loads the logs before clients are served, and closes them at the end, on threads of their own.

Recovery is bound by the processor and the disk and releases the interpreter lock while it reads and checks, so
several logs are read at once: num.recovery.threads.per.data.dir threads for each log directory, but in all no more
than processors, and at least one for each directory. Each holds half a MiB of the log it reads and its index
entries.
Source: kafka.log.LogManager.loadLogs, which counts its threads in the same way.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from barnabas.storage.manager.loading import LoadTask

logger = logging.getLogger("barnabas.startup")

PROGRESS_INTERVAL_S = 2.0
CLOSING_THREADS_PER_DIR = 8
_MIB = 1 << 20


class LogLoading:
    """Runs the tasks of a LogManager (it is a `RunTasks`) and logs the progress every few seconds."""

    def __init__(self, threads_per_dir: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._threads_per_dir = threads_per_dir
        self._clock = clock
        self._waiting: list[deque[LoadTask]] = []
        self._done: queue.SimpleQueue[LoadTask | BaseException] = queue.SimpleQueue()

    def __call__(self, tasks: Sequence[LoadTask]) -> Iterator[LoadTask]:
        """Each task when it is done."""
        progress = LoadProgress(tasks, self._clock)
        threads = self._start(tasks)
        try:
            for count in range(len(tasks)):
                yield self._next(progress, count)
        finally:
            for waiting in self._waiting:
                waiting.clear()
            for thread in threads:
                thread.join()
        progress.finish()

    def _start(self, tasks: Sequence[LoadTask]) -> list[threading.Thread]:
        by_dir: dict[str, list[LoadTask]] = defaultdict(list)
        for task in tasks:
            by_dir[task.directory.path].append(task)
        # The longest first, so that no thread works on it alone at the end.
        self._waiting = [
            deque(sorted(some, key=lambda task: -task.bytes_to_read)) for some in by_dir.values()
        ]
        threads = []
        for waiting in self._waiting:
            for _ in range(self._thread_count(waiting)):
                threads.append(threading.Thread(target=self._work, args=(waiting,), daemon=True))
                threads[-1].start()
        return threads

    def _thread_count(self, waiting: deque[LoadTask]) -> int:
        """Opening logs that were closed in order is bound by the interpreter, so that one thread is best."""
        if not any(task.bytes_to_read for task in waiting):
            return 1
        share = max(_processors() // len(self._waiting), 1)
        return min(self._threads_per_dir, share, len(waiting))

    def _work(self, waiting: deque[LoadTask]) -> None:
        while True:
            try:
                task = waiting.popleft()
            except IndexError:
                return
            try:
                task.run()
            except BaseException as error:
                self._done.put(error)
                return
            self._done.put(task)

    def _next(self, progress: LoadProgress, count: int) -> LoadTask:
        while True:
            try:
                done = self._done.get(timeout=progress.seconds_to_next_line())
            except queue.Empty:
                progress.log(count)
                continue
            if progress.seconds_to_next_line() <= 0:
                progress.log(count)
            if isinstance(done, BaseException):
                raise done
            return done


class LoadProgress:
    """Logs the progress of the loading."""

    def __init__(self, tasks: Sequence[LoadTask], clock: Callable[[], float]) -> None:
        self._tasks = tasks
        self._clock = clock
        self._started = self._last_logged = clock()
        self._to_read = sum(task.bytes_to_read for task in tasks)

    def seconds_to_next_line(self) -> float:
        return max(self._last_logged + PROGRESS_INTERVAL_S - self._clock(), 0.0)

    def log(self, count: int) -> None:
        """Logs a line: `count` logs are loaded."""
        self._last_logged = self._clock()
        seconds = self._last_logged - self._started
        if not self._to_read:
            logger.info("opening logs: %d of %d after %.0f s", count, len(self._tasks), seconds)
            return
        read = sum(task.bytes_read for task in self._tasks)
        rate = read / seconds if seconds > 0 else 0.0
        left = f"about {(self._to_read - read) / rate:.0f} s left" if rate else "nothing read yet"
        logger.info(
            "recovering logs after an unclean stop: %d of %d logs, %.0f of %.0f MiB (%.0f %%), %.0f MiB/s, %s",
            count,
            len(self._tasks),
            read / _MIB,
            self._to_read / _MIB,
            100 * read / self._to_read,
            rate / _MIB,
            left,
        )

    def finish(self) -> None:
        """Logs the last line."""
        seconds = self._clock() - self._started
        recovered = sum(not task.directory.had_clean_shutdown for task in self._tasks)
        if recovered:
            logger.info(
                "recovered %d logs, reading %.1f MiB, in %.3f s: the broker was not shut down in order",
                recovered,
                self._to_read / _MIB,
                seconds,
            )
        elif self._tasks:
            logger.info("opened %d logs in %.3f s", len(self._tasks), seconds)


def run_all_in_threads(work: Sequence[Callable[[], None]], threads: int) -> None:
    """Runs pieces of work, none of which raises, at once: they mostly wait for the disk."""
    if len(work) < 2 or threads < 2:
        for one in work:
            one()
        return
    with ThreadPoolExecutor(min(threads, len(work)), thread_name_prefix="barnabas-closing") as executor:
        for future in [executor.submit(one) for one in work]:
            future.result()


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

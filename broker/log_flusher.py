"""Group commit: fsyncs of logs run off the event loop, one at a time for each log, shared by all who wait.

Whoever needs an offset on the disk asks for it. While one fsync of a log is under way further requests only note how far
they need the next one to reach; that one then serves all of them. So a loaded log is synced back to back, and each
acknowledgement costs a fraction of an fsync.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.blocking import BlockingRunner
from storage.unified_log import UnifiedLog

FlushFailed = Callable[[UnifiedLog, BaseException], None]


class LogFlusher:
    """Runs the flushes of many logs. `flushed(log)` is called after each that worked, `failed(log, error)` else."""

    def __init__(self, runner: BlockingRunner, flushed: Callable[[UnifiedLog], None], failed: FlushFailed) -> None:
        self._runner = runner
        self._flushed = flushed
        self._failed = failed
        self._wanted: dict[UnifiedLog, int] = {}

    def flush(self, log: UnifiedLog, up_to_offset: int) -> None:
        """Has everything before `up_to_offset` (exclusive) made durable, soon."""
        running = log in self._wanted
        self._wanted[log] = max(up_to_offset, self._wanted.get(log, 0))
        if not running:
            self._start(log)

    def is_flushing(self, log: UnifiedLog) -> bool:
        return log in self._wanted

    def _start(self, log: UnifiedLog) -> None:
        job = log.prepare_flush(self._wanted[log])

        def done(error: BaseException | None) -> None:
            if error is not None:
                del self._wanted[log]
                self._failed(log, error)
                return
            log.complete_flush(job)
            if self._wanted[log] > log.recovery_point:
                self._start(log)
            else:
                del self._wanted[log]
            self._flushed(log)

        self._runner.submit(job.run, done)

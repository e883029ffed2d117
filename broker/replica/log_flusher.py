"""Group commit: fsyncs of logs run off the event loop, one at a time for each log, shared by all waiting requests.

While one fsync of a log is running, further requests only note the offset that the next one has to reach; that one
then serves all of them. So a loaded log is synced back to back, and
each acknowledgement costs a fraction of an fsync.
"""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.log.unified_log import UnifiedLog

FlushFailed = Callable[[UnifiedLog, KafkaStorageError], None]


class LogFlusher:
    """Runs the flushes of many logs. `flushed(log)` is called after each that worked, `failed(log, error)` else."""

    def __init__(
        self, runner: BlockingRunner, flushed: Callable[[UnifiedLog], None], failed: FlushFailed
    ) -> None:
        self._runner = runner
        self._flushed = flushed
        self._failed = failed
        self._wanted: dict[UnifiedLog, int] = {}
        self._running: set[UnifiedLog] = set()
        self._held: set[UnifiedLog] = set()
        self._when_idle: dict[UnifiedLog, Callable[[], None]] = {}

    def flush(self, log: UnifiedLog) -> None:
        """Makes the present contents of `log` durable, soon."""
        self._wanted[log] = log.log_end_offset
        self._maybe_start(log)

    def is_flushing(self, log: UnifiedLog) -> bool:
        return log in self._wanted

    # ---- a log that is replaced by another

    def hold(self, log: UnifiedLog) -> None:
        """Begins no fsync of the log until release() or replace(); requests for one wait."""
        self._held.add(log)

    def release(self, log: UnifiedLog) -> None:
        """Resumes the flushes of a log that was held. It may end earlier by now: what was cut off is not waited for."""
        self._held.discard(log)
        if log in self._wanted:
            self._wanted[log] = min(self._wanted[log], log.log_end_offset)
            self._maybe_start(log)

    def when_idle(self, log: UnifiedLog, then: Callable[[], None]) -> None:
        """Calls `then` when no fsync of a log that is held is under way: now, or at its end."""
        if log in self._running:
            self._when_idle[log] = then
        else:
            then()

    def replace(self, log: UnifiedLog, by: UnifiedLog) -> None:
        """`by` has replaced the log: requests that wait for an fsync wait for one of `by`."""
        self._held.discard(log)
        if self._wanted.pop(log, None) is not None:
            self.flush(by)

    def _maybe_start(self, log: UnifiedLog) -> None:
        if log not in self._running and log not in self._held:
            self._start(log)

    def _start(self, log: UnifiedLog) -> None:
        try:
            job = log.prepare_flush()
        except KafkaStorageError as failure:
            del self._wanted[log]
            self._failed(log, failure)
            return

        def done(error: BaseException | None) -> None:
            self._running.discard(log)
            then = self._when_idle.pop(log, None) if self._when_idle else None
            if error is not None:
                raise error  # run() reports what the disk says in the job; this is a bug of ours
            try:
                log.complete_flush(job)
            except KafkaStorageError as failure:
                self._wanted.pop(log, None)
                self._failed(log, failure)
                if then is not None:
                    then()
                return
            wanted = self._wanted.get(log, 0)
            if wanted > job.up_to_offset:
                self._maybe_start(log)
            else:
                self._wanted.pop(log, None)
            self._flushed(log)
            if then is not None:
                then()

        self._running.add(log)
        self._runner.submit(job.run, done)

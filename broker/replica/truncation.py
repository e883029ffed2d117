"""LogTruncator: truncates the logs of followers off the event loop, with nothing else at work on them meanwhile.

After a failover hundreds of partitions truncate at once, and each waits for the disk and rebuilds producer state. The
partition is closed from the call on (`Partition.is_truncating`), and a change of its role waits for the end. A flush
under way ends before; compaction and retention stay away until it is over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from barnabas.broker.pending import Pending
from barnabas.broker.replica.log_flusher import LogFlusher
from barnabas.broker.replica.partition import Partition
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager


class LogTruncator:
    """Truncates logs. `begins(partition)` is called before each, and `ended(partition)` when the result is complete."""

    def __init__(
        self,
        log_manager: LogManager,
        runner: BlockingRunner,
        flusher: LogFlusher,
        begins: Callable[[Partition], None],
        ended: Callable[[Partition], None],
    ) -> None:
        self._log_manager = log_manager
        self._runner = runner
        self._flusher = flusher
        self._begins = begins
        self._ended = ended

    def truncate_to(self, partition: Partition, offset: int) -> Pending[Exception | None]:
        """Makes `offset` the log end, durably; nothing where it ends before. Completes with None, or the error."""
        return self._truncate(partition, lambda log: self._log_manager.truncate_to(log, offset))

    def truncate_fully_and_start_at(self, partition: Partition, offset: int) -> Pending[Exception | None]:
        """Empties the log; the next record gets `offset`. Completes as truncate_to does."""
        return self._truncate(
            partition, lambda log: self._log_manager.truncate_fully_and_start_at(log, offset)
        )

    def _truncate(
        self, partition: Partition, work: Callable[[UnifiedLog], object]
    ) -> Pending[Exception | None]:
        assert not partition.is_truncating, f"{partition} is being truncated already"
        pending: Pending[Exception | None] = Pending()
        self._begins(partition)
        partition.is_truncating = True
        log = partition.log
        self._log_manager.close_for_truncation(log)
        self._flusher.hold(log)
        self._flusher.when_idle(log, partial(self._start, partition, log, work, pending))
        return pending

    def _start(
        self,
        partition: Partition,
        log: UnifiedLog,
        work: Callable[[UnifiedLog], object],
        pending: Pending[Exception | None],
    ) -> None:
        failure: Exception | None = None

        def guarded() -> None:
            nonlocal failure
            try:
                work(log)
            except Exception as error:  # whatever it is: the fetcher decides what it means for the partition
                failure = error

        def done(error: BaseException | None) -> None:
            self._log_manager.reopen_after_truncation(log)
            self._flusher.release(log)
            partition.is_truncating = False
            if error is not None:
                raise error  # the work reports what the disk says; this is a bug of ours
            pending.complete(failure)
            self._ended(partition)

        self._runner.submit(guarded, done)

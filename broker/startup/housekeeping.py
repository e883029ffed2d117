"""The periodic tasks of a broker: retention, checkpoints, flushes by time, deletions that are due.

Each task has its interval from the configuration and runs on the event loop, where the state is; its blocking part
goes to the BlockingRunner. Source: the scheduled tasks of kafka.log.LogManager and kafka.server.ReplicaManager.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.replica.replica_manager import ReplicaManager
from barnabas.broker.waiting.blocking import BlockingRunner, Work
from barnabas.broker.waiting.timer import Timer, TimerHandle
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import log as log_keys
from barnabas.config.catalogue import replication as replication_keys
from barnabas.config.catalogue.barnabas import BARNABAS_LOG_DIR_SPACE_CHECK_INTERVAL_MS
from barnabas.config.catalogue.transactions import PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS
from barnabas.storage.errors import is_fault_of_disk
from barnabas.storage.log.disk_space import DiskSpace
from barnabas.storage.manager.log_dir import LogDir
from barnabas.storage.manager.log_manager import LogManager

logger = logging.getLogger("barnabas.housekeeping")

DELETION_INTERVAL_MS = 1000
NEVER_MS = 2**63 - 1


class Housekeeping:
    """Schedules the tasks on `timer`. start() after the logs are loaded, stop() before they are closed."""

    def __init__(
        self,
        config: BrokerConfig,
        log_manager: LogManager,
        replica_manager: ReplicaManager,
        runner: BlockingRunner,
        timer: Timer,
    ) -> None:
        self._log_manager = log_manager
        self._replica_manager = replica_manager
        self._runner = runner
        self._timer = timer
        self._rate_limit = RateLimit()
        self._handles: dict[Callable[[], object], TimerHandle] = {}
        self._missing_logs: deque[tuple[str, int]] = deque()
        self._initial_delay_ms = config[log_keys.LOG_INITIAL_TASK_DELAY_MS]
        self._tasks: list[tuple[Callable[[], object], int]] = [
            (self.retain, config[log_keys.LOG_RETENTION_CHECK_INTERVAL_MS]),
            (self.flush, config[log_keys.LOG_FLUSH_SCHEDULER_INTERVAL_MS]),
            (self.checkpoint_recovery_points, config[log_keys.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS]),
            (
                self.checkpoint_log_start_offsets,
                config[log_keys.LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS],
            ),
            (
                self.checkpoint_high_watermarks,
                config[replication_keys.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS],
            ),
            (self.check_disk_space, config[BARNABAS_LOG_DIR_SPACE_CHECK_INTERVAL_MS]),
            (self.open_missing_logs, config[BARNABAS_LOG_DIR_SPACE_CHECK_INTERVAL_MS]),
            (log_manager.remove_expired_producers, config[PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS]),
        ]

    def start(self) -> None:
        """Each task first runs after log.initial.task.delay.ms, or its interval if that is shorter."""
        self._schedule(self.delete_due, DELETION_INTERVAL_MS, DELETION_INTERVAL_MS)
        for task, interval_ms in self._tasks:
            if interval_ms < NEVER_MS:
                self._schedule(task, min(self._initial_delay_ms, interval_ms), interval_ms)

    def stop(self) -> None:
        for handle in self._handles.values():
            handle.cancel()
        self._handles.clear()

    def _schedule(self, task: Callable[[], object], delay_ms: int, interval_ms: int) -> None:
        def run() -> None:
            self._schedule(task, interval_ms, interval_ms)
            task()

        self._handles[task] = self._timer.call_at(self._timer.time() + delay_ms / 1000, run)

    # ---- the tasks

    def retain(self) -> None:
        """Deletes segments by retention time and size."""
        deleted = self._log_manager.cleanup_logs()
        if deleted:
            logger.info("retention deleted %d segments", deleted)

    def flush(self) -> None:
        """Syncs the logs whose flush.ms is over."""
        for log in self._log_manager.logs_to_flush():
            self._replica_manager.flusher.flush(log)

    def delete_due(self) -> None:
        """Removes files whose file.delete.delay.ms is over."""
        for deletion in self._log_manager.take_due_deletions():
            paths = [deletion.directory] if deletion.directory is not None else deletion.paths
            log_dir = self._log_manager.dirs.of_path(paths[0]) if paths else None
            self._in_background("removing deleted files", deletion.run, log_dir)

    def checkpoint_recovery_points(self) -> None:
        self._checkpoint("writing recovery points", self._log_manager.dirs.recovery_point_jobs())

    def checkpoint_log_start_offsets(self) -> None:
        self._checkpoint("writing log start offsets", self._log_manager.dirs.log_start_offset_jobs())

    def checkpoint_high_watermarks(self) -> None:
        self._checkpoint("writing high watermarks", self._log_manager.dirs.high_watermark_jobs())

    def _checkpoint(self, what: str, jobs: Sequence[Work]) -> None:
        for directory, job in zip(self._log_manager.dirs, jobs, strict=True):
            self._in_background(what, job, directory)

    def check_disk_space(self) -> None:
        """Measures the free space of the log directories, by which producers are let in or rejected."""
        for directory in self._log_manager.dirs:
            if directory.space.is_guarded:
                self._measure(directory.space)

    def _measure(self, space: DiskSpace) -> None:
        measured: tuple[int, int] | None = None

        def measure() -> None:
            nonlocal measured
            measured = space.measure()

        def done(error: BaseException | None) -> None:
            was_full = space.is_full
            space.apply(measured)
            if space.needs_reserve:
                self._in_background("releasing the reserve", space.release_reserve)
            elif space.wants_reserve:
                self._in_background("writing the reserve", space.make_reserve)
            if was_full and not space.is_full:
                self.flush()  # logs whose flush had to wait for room
                self.open_missing_logs()

        self._runner.submit(measure, done)

    def open_missing_logs(self) -> None:
        """Creates the logs for which there was no room, or no descriptor, when their partitions came.

        One in each pass of the loop, since each waits for the disk.
        """
        self._missing_logs = deque(self._replica_manager.missing_logs_to_try())
        self._open_next_log()

    def _open_next_log(self) -> None:
        if self._missing_logs:
            self._replica_manager.open_missing_log(self._missing_logs.popleft())
        if self._missing_logs:
            self._handles[self._open_next_log] = self._timer.call_at(self._timer.time(), self._open_next_log)

    def _in_background(self, what: str, work: Work, log_dir: LogDir | None = None) -> None:
        """Runs `work` off the loop. A fault of the disk takes the log directory offline."""

        def done(error: BaseException | None) -> None:
            if error is None:
                return
            if isinstance(error, OSError) and is_fault_of_disk(error) and log_dir is not None:
                self._replica_manager.log_dir_failed(log_dir.path, f"{what}: {error}")
            else:
                self._rate_limit.warning(logger, what, "%s failed: %s", what, error)

        self._runner.submit(work, done)

"""LogCleaner: schedules the compactions of a broker, runs them in worker processes and reports them.

The LogCleanerManager chooses the next log. A worker process reads its closed segments and writes cleaned ones beside
them; the LogCleaner swaps them in on the event loop. Source: kafka.log.LogCleaner.

    survey    a thread reads the files' sizes
    clean     a worker process leaves a .cleaned for each group of segments
    swap      for each group in order: a thread renames it to .swap and syncs; the loop, in one step, replaces the
              old segments by it

A cleaning whose log is truncated, deleted or loses its disk is aborted at once: the worker is killed, a .swap removed.
A worker that crashes does no harm, since it only reads the log; the cleaning is retried later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.broker.compaction.reports import LastCleanings, cleaning_line
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.broker.waiting.timer import Timer, TimerHandle
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import log as keys
from barnabas.storage.cleaner.log_to_clean import (
    CleanerLimits,
    LogToClean,
    SegmentSurvey,
    cleaning_plan,
    paths_to_sync,
)
from barnabas.storage.cleaner.manager import LogCleanerManager
from barnabas.storage.env import Env
from barnabas.storage.errors import DiskFullError, KafkaStorageError, OutOfResourcesError, storage_error
from barnabas.storage.log.segment_swap import DirectoryBusyError, SwapClaim, SwapPreparation, remove_cleaned
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_dir import LogDir
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import TopicPartition
from barnabas.storage.worker_messages import Done, Failed, FailureKind, Job

if TYPE_CHECKING:
    from barnabas.storage.log.cleaning_plan import CleanedSegment, CleaningResult, CleaningStats

logger = logging.getLogger("barnabas.cleaner")

PROGRESS_INTERVAL_S: Final = 30.0
SHORTEST_BACKOFF_MS: Final = 10
MAX_OFFSET_MAP_BYTES: Final = 2**31 - 1
BUSY_RETRY_MS: Final = 1000


class WorkerHandle(Protocol):
    """A worker that has a job."""

    def kill(self) -> None: ...


class Workers(Protocol):
    """Runs the jobs; the server passes a WorkerPool. `on_done` is called once, on the event loop, also after a kill."""

    def start(
        self, job: Job, on_progress: Callable[[float], None], on_done: Callable[[Done | Failed], None]
    ) -> WorkerHandle: ...

    async def close(self) -> None: ...


class CleaningPhase(Enum):
    """The phase of a cleaning; users read the value."""

    SURVEY = "starting"
    CLEAN = "cleaning"
    SWAP = "swapping in"


@dataclass(slots=True, eq=False, repr=False)
class Cleaning:
    """One running cleaning."""

    found: LogToClean
    slot: int
    limits: CleanerLimits
    started_s: float
    phase: CleaningPhase = CleaningPhase.SURVEY
    fraction: float = 0.0
    worker: WorkerHandle | None = None
    claim: SwapClaim | None = None
    swap: SwapPreparation | None = None
    directory: str = field(init=False)
    logged_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.directory = self.found.log.directory
        self.logged_s = self.started_s

    @property
    def log(self) -> UnifiedLog:
        return self.found.log

    def stop(self) -> None:
        """Aborts it: nothing more of it enters the log, and no .swap is left. Raises KafkaStorageError."""
        if self.worker is not None:
            self.worker.kill()
        swap, self.swap = self.swap, None
        if swap is not None:
            try:
                swap.cancel()
            except OSError as error:
                what = f"{self.log.name}: a swap cannot be undone"
                raise storage_error(what, error, undone=True) from error


class LogCleaner:
    """The cleanings of one broker. start() after the logs are loaded; stop() before they are closed."""

    def __init__(
        self,
        config: BrokerConfig,
        env: Env,
        log_manager: LogManager,
        *,
        runner: BlockingRunner,
        timer: Timer,
        workers: Workers,
        log_dir_failed: Callable[[str], None],
    ) -> None:
        self._config = config
        self._env = env
        self._log_manager = log_manager
        self._runner = runner
        self._timer = timer
        self._workers = workers
        self._log_dir_failed = log_dir_failed
        self._running: dict[TopicPartition, Cleaning] = {}
        self._handle: TimerHandle | None = None
        self._is_started = self._is_stopping = False
        self.last = LastCleanings()
        self.manager = LogCleanerManager(env, log_manager, self._save_offsets)

    @property
    def is_enabled(self) -> bool:
        """Whether the configuration turns compaction on."""
        return self._config[keys.LOG_CLEANER_ENABLE] and self._config[keys.LOG_CLEANER_THREADS] > 0

    @property
    def running(self) -> list[Cleaning]:
        return list(self._running.values())

    # ---- when

    def start(self) -> None:
        """Begins log.cleaner.backoff.ms from now, since a broker that starts has other work."""
        self._is_started = True
        self._apply_enabled()

    def _apply_enabled(self) -> None:
        """Schedules the next check, or cancels it, by log.cleaner.enable and log.cleaner.threads."""
        self.manager.is_enabled = self.is_enabled
        if self.is_enabled:
            self._schedule(self.backoff_s)
        else:
            self._cancel_check()
            logger.warning("compaction is off: log.cleaner.enable=false, or log.cleaner.threads=0")

    def reconfigure(self) -> None:
        """Applies log.cleaner.*: restarts cleanings that have other limits, and turns compaction on or off."""
        if not self._is_started or self._is_stopping:
            return
        limits = self.limits()
        for cleaning in self.running:
            is_outdated = cleaning.limits != limits or not self.is_enabled
            if is_outdated and cleaning.phase is not CleaningPhase.SWAP:
                self.manager.abort_cleaning(cleaning.found.key)
        if self.is_enabled or self.manager.is_enabled:
            self._apply_enabled()
        self.check_soon()

    async def stop(self) -> None:
        """Aborts the running cleanings; on return nothing is left of them."""
        self._is_stopping = True
        self._cancel_check()
        for cleaning in self.running:
            self.manager.call_off_cleaning(cleaning.found.key)
        await self._workers.close()

    @property
    def backoff_s(self) -> float:
        return max(self._config[keys.LOG_CLEANER_BACKOFF_MS], SHORTEST_BACKOFF_MS) / 1000

    def _schedule(self, delay_s: float) -> None:
        self._cancel_check()
        self._handle = self._timer.call_at(self._timer.time() + delay_s, self.check_logs)

    def _cancel_check(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def check_logs(self) -> None:
        """Starts the cleanings that are due, as many as threads allow, and applies retention to compacted logs."""
        if self._is_stopping:
            return
        self._schedule(self.backoff_s)
        while len(self._running) < self._config[keys.LOG_CLEANER_THREADS]:
            found = self.manager.grab_filthiest_log()
            if found is None:
                break
            self._begin(found)
        deleted = self.manager.delete_old_segments()
        if deleted:
            logger.info("retention deleted %d segments of compacted logs", deleted)
        self._log_progress()

    def request(self, log: UnifiedLog) -> None:
        """Has a log compacted soon, whatever its dirty ratio; forgets an earlier failure. Raises KafkaStorageError."""
        self.manager.request(log)
        self.last.failures.pop((log.topic, log.partition), None)
        self.check_soon()

    def check_soon(self) -> None:
        """Brings the next check forward."""
        if self.is_enabled and not self._is_stopping:
            self._schedule(0.0)

    # ---- one cleaning

    def _begin(self, found: LogToClean) -> None:
        slots = {cleaning.slot for cleaning in self._running.values()}
        slot = next(number for number in range(len(slots) + 1) if number not in slots)
        cleaning = Cleaning(found, slot, self.limits(), self._timer.time())
        self._running[found.key] = cleaning
        self.manager.on_abort(found.key, lambda: self._abort(cleaning))
        survey = SegmentSurvey(self._env, found)
        self._runner.submit(survey.run, lambda error: self._surveyed(cleaning, survey, error))

    def _abort(self, cleaning: Cleaning) -> None:
        """Aborts it. Raises KafkaStorageError, and reports the log directory as failed where its disk is to blame."""
        try:
            cleaning.stop()
        except KafkaStorageError as error:
            if not isinstance(error, OutOfResourcesError | DiskFullError):
                self._log_dir_failed(cleaning.found.directory.path)
            raise

    def _surveyed(self, cleaning: Cleaning, survey: SegmentSurvey, error: BaseException | None) -> None:
        if self.manager.is_aborted(cleaning.found.key):
            self._end(cleaning)
        elif error is not None:
            self._failed(cleaning, Failed(FailureKind.DISK, str(error), ""))
        else:
            plan = cleaning_plan(cleaning.found, survey.segments, cleaning.limits, self._env.now_ms())
            cleaning.phase = CleaningPhase.CLEAN
            logger.debug("compacting %s: %s", cleaning.log.name, plan)

            def progressed(fraction: float) -> None:
                cleaning.fraction = fraction

            cleaning.worker = self._workers.start(
                Job("clean", plan), progressed, lambda answer: self._cleaned(cleaning, answer)
            )

    def limits(self) -> CleanerLimits:
        """One worker's share of the limits in log.cleaner.*; each worker has a read buffer and a write buffer."""
        config, threads = self._config, max(self._config[keys.LOG_CLEANER_THREADS], 1)
        return CleanerLimits(
            min(config[keys.LOG_CLEANER_DEDUPE_BUFFER_SIZE] // threads, MAX_OFFSET_MAP_BYTES),
            config[keys.LOG_CLEANER_IO_BUFFER_LOAD_FACTOR],
            config[keys.LOG_CLEANER_IO_BUFFER_SIZE] // threads // 2,
            max(config[keys.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND] / threads, 1.0),
        )

    def _cleaned(self, cleaning: Cleaning, answer: Done | Failed) -> None:
        cleaning.worker = None
        if self.manager.is_aborted(cleaning.found.key):
            self._end(cleaning)
        elif isinstance(answer, Failed):
            self._failed(cleaning, answer)
        else:
            self._claim(cleaning, answer.result)

    def _claim(self, cleaning: Cleaning, result: CleaningResult) -> None:
        """Locks the directory for the swap, and syncs the records that make old ones superfluous."""
        cleaning.phase = CleaningPhase.SWAP
        claim = cleaning.claim = SwapClaim(
            self._env, cleaning.directory, result.segments, paths_to_sync(cleaning.found)
        )

        def claimed(error: BaseException | None) -> None:
            if self.manager.is_aborted(cleaning.found.key):
                self._end(cleaning)
            elif error is not None:
                kind = FailureKind.BUSY if isinstance(error, DirectoryBusyError) else FailureKind.DISK
                self._failed(cleaning, Failed(kind, str(error), ""))
                if claim.has_sync_failed:
                    self._log_dir_failed(cleaning.found.directory.path)
            else:
                self._swap_next(cleaning, result, iter(result.segments))

        self._runner.submit(claim.run, claimed)

    def _swap_next(
        self, cleaning: Cleaning, result: CleaningResult, segments: Iterator[CleanedSegment]
    ) -> None:
        cleaned = next(segments, None)
        if cleaned is None:
            self._succeeded(cleaning, result)
            return
        swap = cleaning.swap = SwapPreparation(self._env, cleaning.directory, cleaned)

        def prepared(error: BaseException | None) -> None:
            cleaning.swap = None
            if self.manager.is_aborted(cleaning.found.key):
                self._end(cleaning)
            elif error is not None:
                self._failed(cleaning, Failed(FailureKind.DISK, str(error), ""))
            elif self._put_in_place(cleaning, swap):
                self._swap_next(cleaning, result, segments)

        self._runner.submit(swap.run, prepared)

    def _put_in_place(self, cleaning: Cleaning, swap: SwapPreparation) -> bool:
        """The uninterrupted part of a swap; False when the cleaning has ended with it."""
        try:
            if not cleaning.log.is_failed and cleaning.log.replace_segments(swap.cleaned):
                return True
            swap.cancel()
        except (KafkaStorageError, OSError) as error:
            logger.error("%s: a compacted segment cannot be swapped in: %s", cleaning.log.directory, error)
            self._end(cleaning)
            self._log_dir_failed(cleaning.found.directory.path)
            return False
        why = f"the log is offline, or no longer has the segments of {swap.cleaned}"
        self._failed(cleaning, Failed(FailureKind.ENDED, why, ""))
        return False

    # ---- how it ends

    def _succeeded(self, cleaning: Cleaning, result: CleaningResult) -> None:
        found, stats = cleaning.found, result.stats
        self.last.succeeded(cleaning.slot, found.key, stats)
        logger.info(
            "%s", cleaning_line(found, result, self._timer.time() - cleaning.started_s, cleaning.slot)
        )
        self._log_anomalies(found, stats)
        self._finish(cleaning, result.next_first_dirty_offset)

    def _log_anomalies(self, found: LogToClean, stats: CleaningStats) -> None:
        before = self.manager.pre_clean_stats
        if before.delayed_partitions:
            logger.info(
                "%d logs can be compacted, %d of them are past max.compaction.lag.ms, by up to %d ms",
                *before,
            )
        if stats.invalid_messages_read:
            logger.warning(
                "%s: removed %d records without a key, which a compacted log cannot keep",
                found.log.name,
                stats.invalid_messages_read,
            )

    def _failed(self, cleaning: Cleaning, failure: Failed) -> None:
        """Logs the failure, and either schedules a retry or marks the log as uncleanable."""
        found = cleaning.found
        self.last.failed(cleaning.slot, found.key, failure)
        if failure.kind is FailureKind.JOB:
            logger.error("compacting %s failed:\n%s", found.log.directory, failure.traceback or failure.text)
            self.manager.mark_uncleanable(found.log, failure.text)
        elif failure.kind is FailureKind.BUSY:
            self.manager.failed(found, BUSY_RETRY_MS)
        else:
            delay_ms = self.manager.failed(found)
            logger.warning(
                "compacting %s failed without loss; it is retried in %.0f s: %s",
                found.log.name,
                delay_ms / 1000,
                failure.text,
            )
        self._end(cleaning)

    def _end(self, cleaning: Cleaning) -> None:
        """Ends a cleaning that failed: removes its files before another one may begin."""
        self._runner.submit(
            lambda: remove_cleaned(self._env, cleaning.directory), lambda _: self._finish(cleaning, None)
        )

    def _finish(self, cleaning: Cleaning, next_dirty_offset: int | None) -> None:
        if cleaning.claim is not None:
            cleaning.claim.release()
        self.manager.done_cleaning(cleaning.found, next_dirty_offset)
        del self._running[cleaning.found.key]
        self.check_soon()

    def _log_progress(self) -> None:
        now_s = self._timer.time()
        for cleaning in self._running.values():
            if now_s - cleaning.logged_s >= PROGRESS_INTERVAL_S:
                cleaning.logged_s = now_s
                logger.info(
                    "compacting %s: %s, %.0f %% after %.0f s",
                    cleaning.log.name,
                    cleaning.phase.value,
                    100 * cleaning.fraction,
                    now_s - cleaning.started_s,
                )

    # ---- the disk

    def _save_offsets(self, directory: LogDir) -> None:
        def done(error: BaseException | None) -> None:
            if error is not None:
                logger.error("writing the cleaner offset checkpoint failed: %s", error)

        self._runner.submit(directory.cleaner_offset_job(), done)

"""LogCleaner: compaction in the life of a broker: when, how many at a time, by whom, and what is said of it.

The LogCleanerManager says which log is next. A worker process reads its closed segments and writes cleaned ones beside
them; here, on the event loop, they take their places. Source: kafka.log.LogCleaner.

    survey    a thread looks at the files' sizes
    clean     a worker process leaves a .cleaned for each group of segments
    swap      for each group in order: a thread renames it to .swap and syncs; the loop, in one step, puts it in the
              place of the old segments

A log that is truncated, deleted or loses its disk meanwhile is let go at once: the worker is killed, a .swap taken
back. A worker that crashes has spoilt nothing: it only reads what is in the log. The cleaning is tried again later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.broker.compaction.reports import LastCleanings, cleaning_line
from barnabas.broker.waiting.blocking import BlockingRunner, Work
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
    """Who does the jobs: a WorkerPool in life. `on_done` is called once, on the event loop, also after a kill."""

    def start(
        self, job: Job, on_progress: Callable[[float], None], on_done: Callable[[Done | Failed], None]
    ) -> WorkerHandle: ...

    async def close(self) -> None: ...


class Phase(Enum):
    """How far a cleaning is; the value is what users read."""

    SURVEY = "starting"
    CLEAN = "cleaning"
    SWAP = "swapping in"


@dataclass(slots=True, eq=False)
class Cleaning:
    """One cleaning that is going on."""

    found: LogToClean
    slot: int
    limits: CleanerLimits
    started_s: float
    phase: Phase = Phase.SURVEY
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
        """Nothing more of it comes into the log, and no .swap is left. Raises KafkaStorageError."""
        if self.worker is not None:
            self.worker.kill()
        swap, self.swap = self.swap, None
        if swap is not None:
            try:
                swap.cancel()
            except OSError as error:
                what = f"{self.log.name}: a swap cannot be taken back"
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
        """Whether anything is compacted at all."""
        return self._config[keys.LOG_CLEANER_ENABLE] and self._config[keys.LOG_CLEANER_THREADS] > 0

    @property
    def running(self) -> list[Cleaning]:
        """The cleanings that are going on."""
        return list(self._running.values())

    # ---- when

    def start(self) -> None:
        """The first look comes after log.cleaner.backoff.ms, for a broker that starts has other things to do."""
        self._is_started = True
        self._turn_on_or_off()

    def _turn_on_or_off(self) -> None:
        """Schedules the next look, or none, by what log.cleaner.enable and log.cleaner.threads say."""
        self.manager.is_enabled = self.is_enabled
        if self.is_enabled:
            self._schedule(self.backoff_s)
        else:
            self._cancel_look()
            logger.warning("nothing is compacted: log.cleaner.enable=false, or no log.cleaner.threads")

    def reconfigure(self) -> None:
        """Applies what log.cleaner.* say now. What was begun with other limits is called off and begun anew.

        Threads that come where there were none start compaction, and without any left it stops.
        """
        if not self._is_started or self._is_stopping:
            return
        limits = self.limits()
        for cleaning in self.running:
            is_outdated = cleaning.limits != limits or not self.is_enabled
            if is_outdated and cleaning.phase is not Phase.SWAP:
                self.manager.abort_cleaning(cleaning.found.key)
        if self.is_enabled or self.manager.is_enabled:
            self._turn_on_or_off()
        self.look_soon()

    async def stop(self) -> None:
        """Calls off what goes on; on return nothing is left of it."""
        self._is_stopping = True
        self._cancel_look()
        for cleaning in self.running:
            self.manager.call_off_cleaning(cleaning.found.key)
        await self._workers.close()

    @property
    def backoff_s(self) -> float:
        return max(self._config[keys.LOG_CLEANER_BACKOFF_MS], SHORTEST_BACKOFF_MS) / 1000

    def _schedule(self, delay_s: float) -> None:
        self._cancel_look()
        self._handle = self._timer.call_at(self._timer.time() + delay_s, self.look)

    def _cancel_look(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def look(self) -> None:
        """Has the logs cleaned that are due, as many as there may be workers; then retention of compacted logs."""
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
            logger.info("retention let go of %d segments of compacted logs", deleted)
        self._say_how_long_ones_go()

    def request(self, log: UnifiedLog) -> None:
        """Has a log compacted soon, whatever its ratio; an earlier failure is forgotten. Raises KafkaStorageError."""
        self.manager.request(log)
        self.last.failures.pop((log.topic, log.partition), None)
        self.look_soon()

    def look_soon(self) -> None:
        """Brings the next look forward."""
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
        """Ends it. Raises KafkaStorageError, and gives the disk up where that is to blame."""
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
            cleaning.phase = Phase.CLEAN
            logger.debug("compacting %s: %s", cleaning.log.name, plan)

            def progressed(fraction: float) -> None:
                cleaning.fraction = fraction

            cleaning.worker = self._workers.start(
                Job("clean", plan), progressed, lambda answer: self._cleaned(cleaning, answer)
            )

    def limits(self) -> CleanerLimits:
        """One worker's share of what log.cleaner.* gives all of them; each has a buffer to read and one to write."""
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
        """Has the directory to itself for the time of the swap, and on the disk what makes old records superfluous."""
        cleaning.phase = Phase.SWAP
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
        why = f"the log is offline, or has the segments of {swap.cleaned} no more"
        self._failed(cleaning, Failed(FailureKind.ENDED, why, ""))
        return False

    # ---- how it ends

    def _succeeded(self, cleaning: Cleaning, result: CleaningResult) -> None:
        found, stats = cleaning.found, result.stats
        self.last.succeeded(cleaning.slot, found.key, stats)
        logger.info(
            "%s", cleaning_line(found, result, self._timer.time() - cleaning.started_s, cleaning.slot)
        )
        self._say_what_is_odd(found, stats)
        self._finish(cleaning, result.next_first_dirty_offset)

    def _say_what_is_odd(self, found: LogToClean, stats: CleaningStats) -> None:
        before = self.manager.pre_clean_stats
        if before.delayed_partitions:
            logger.info(
                "%d logs can be compacted, %d of them are late by max.compaction.lag.ms, by up to %d ms",
                *before,
            )
        if stats.invalid_messages_read:
            logger.warning(
                "%s: %d records without a key went; a compacted log cannot keep them",
                found.log.name,
                stats.invalid_messages_read,
            )

    def _failed(self, cleaning: Cleaning, failure: Failed) -> None:
        """Says what went wrong, and either has it tried again or gives the log up."""
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
                "compacting %s failed, nothing is lost, and it is tried again in %.0f s: %s",
                found.log.name,
                delay_ms / 1000,
                failure.text,
            )
        self._end(cleaning)

    def _end(self, cleaning: Cleaning) -> None:
        """A cleaning has come to nothing: what it wrote goes before anybody may begin another one."""
        self._runner.submit(
            lambda: remove_cleaned(self._env, cleaning.directory), lambda _: self._finish(cleaning, None)
        )

    def _finish(self, cleaning: Cleaning, next_dirty_offset: int | None) -> None:
        if cleaning.claim is not None:
            cleaning.claim.release()
        self.manager.done_cleaning(cleaning.found, next_dirty_offset)
        del self._running[cleaning.found.key]
        self.look_soon()

    def _say_how_long_ones_go(self) -> None:
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

    def log_dir_failed(self, path: str) -> None:
        """Nothing in this directory is compacted any more."""
        self.manager.handle_log_dir_failure(path)

    def _save_offsets(self, directory: LogDir) -> None:
        self._in_background("writing how far compaction got", directory.cleaner_offset_job())

    def _in_background(self, what: str, work: Work) -> None:
        def done(error: BaseException | None) -> None:
            if error is not None:
                logger.error("%s failed: %s", what, error)

        self._runner.submit(work, done)

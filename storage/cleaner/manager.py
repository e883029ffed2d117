"""LogCleanerManager: which log is compacted next, and which must not be. Kafka's LogCleanerManager.

A compacted log has a clean part, up to its offset in cleaner-offset-checkpoint, and a dirty part after it. The manager
picks the log with the largest cleanable share, blocks compaction of a partition while it is truncated, moved or
deleted, and stores how far compaction got. It has neither threads nor a schedule: the broker's LogCleaner calls it on
the event loop.

    a partition is   | until                              | meanwhile
    -----------------+------------------------------------+---------------------------------------------------------
    in progress      | done_cleaning                      | no other worker may take it, retention skips it
    aborted          | done_cleaning                      | the same; the result is dropped
    paused           | resume_cleaning, once for each     | it is not compacted; retention continues
    uncleanable      | the broker starts again, or        | it is not compacted, and retention skips it
                     | its compaction is requested        |
"""

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.storage.cleaner.log_to_clean import (
    LogToClean,
    OffsetsToClean,
    cleanable_bytes,
    cleanable_offsets,
    log_to_clean,
)
from barnabas.storage.env import Env
from barnabas.storage.errors import DiskFullError, KafkaStorageError, OutOfResourcesError, is_fault_of_disk

if TYPE_CHECKING:
    from barnabas.storage.log.unified_log import UnifiedLog
    from barnabas.storage.manager.log_dir import LogDir
    from barnabas.storage.manager.log_manager import LogManager
    from barnabas.storage.offsets import TopicPartition

FIRST_RETRY_MS: Final = 15_000
LAST_RETRY_MS: Final = 900_000

logger = logging.getLogger("barnabas.cleaner")


def _is_transient(error: Exception) -> bool:
    """Whether the error is not the log's: no descriptor or memory is left, or no room on the disk."""
    if isinstance(error, OSError):
        return not is_fault_of_disk(error)
    return isinstance(error, DiskFullError | OutOfResourcesError)


class PreCleanStats(NamedTuple):
    """Counts of the last search over all logs (Kafka's class of that name); delays beyond max.compaction.lag.ms."""

    cleanable_partitions: int = 0
    delayed_partitions: int = 0
    max_compaction_delay_ms: int = 0


class CleaningState:
    """One partition whose cleaning is in progress or paused."""

    __slots__ = ("is_aborted", "is_running", "pauses", "stop")

    def __init__(self) -> None:
        self.is_running = False
        self.is_aborted = False
        self.pauses = 0
        self.stop: Callable[[], None] | None = None


class Retry(NamedTuple):
    """The time from which a failed cleaning may be retried."""

    failures: int
    not_before_ms: int


class LogCleanerManager:
    """The state of compaction of all logs of a LogManager; to be set as its `cleaner`."""

    def __init__(
        self,
        env: Env,
        log_manager: "LogManager",
        save_offsets: "Callable[[LogDir], None] | None" = None,
    ) -> None:
        """`save_offsets(directory)` is called when its `cleaner_offset_job` is due, which by default runs at once."""
        self._env = env
        self._log_manager = log_manager
        self._save_offsets = save_offsets or (lambda directory: directory.cleaner_offset_job()())
        self._states: dict[TopicPartition, CleaningState] = {}
        self._retries: dict[TopicPartition, Retry] = {}
        self._requested: dict[TopicPartition, int] = {}
        self._uncleanable: dict[TopicPartition, LogDir] = {}
        self._failed_dirs: set[str] = set()
        self.is_enabled = True
        """Whether logs are compacted at all; if not, LogManager applies retention to all of them."""
        self.dirtiest_ratio = 0.0
        self.last_run_ms = env.now_ms()
        self.pre_clean_stats = PreCleanStats()

    # -- what next --

    def grab_filthiest_log(self) -> LogToClean | None:
        """Picks the log to be compacted next and marks it as in progress; None if no log is due.

        Requested logs come first, then the one with the largest cleanable share. A log that was not requested must
        exceed its min.cleanable.dirty.ratio, or hold records that are older than max.compaction.lag.ms.
        """
        now_ms = self.last_run_ms = self._env.now_ms()
        dirty = [
            found for log in self._free_logs(now_ms) if (found := self._measure(log, now_ms)) is not None
        ]
        dirty = [found for found in dirty if found.total_bytes > 0]
        self.dirtiest_ratio = max((found.cleanable_ratio for found in dirty), default=0.0)
        cleanable = [found for found in dirty if found.is_requested or found.is_due]
        delays = [found.compaction_delay_ms for found in dirty if found.compaction_delay_ms > 0]
        self.pre_clean_stats = PreCleanStats(len(cleanable), len(delays), max(delays, default=0))
        if not cleanable:
            return None
        filthiest = max(cleanable, key=lambda found: (found.is_requested, found.cleanable_ratio))
        self._state(filthiest.key).is_running = True
        return filthiest

    def _free_logs(self, now_ms: int) -> "Iterator[UnifiedLog]":
        for log in self._log_manager.all_logs():
            key = (log.topic, log.partition)
            if not log.config.compact or log.is_failed or key in self._states or key in self._uncleanable:
                continue
            retry = self._retries.get(key)
            if retry is None or now_ms >= retry.not_before_ms:
                yield log

    def _measure(self, log: "UnifiedLog", now_ms: int) -> LogToClean | None:
        """The cleanable part of one log; a log that fails here becomes uncleanable, unless the error is transient."""
        key = (log.topic, log.partition)
        directory = self._log_manager.directory_of(log)
        if directory.path in self._failed_dirs:
            return None
        try:
            offsets = cleanable_offsets(log, directory.cleaner_offsets.get(key), now_ms)
            if offsets.is_reset:
                self._set_offset(directory, key, offsets.first_dirty_offset)
            found = log_to_clean(log, directory, offsets, now_ms)
            return self._requested_part(found) if key in self._requested else found
        except Exception as error:  # any error of one log must not stop the others
            if _is_transient(error):
                delay_ms = self._retry_later(key)
                logger.warning(
                    "%s is checked for compaction again in %.0f s: %s", log.name, delay_ms / 1000, error
                )
                return None
            logger.exception("%s cannot be checked for compaction", log.name)
            self.mark_uncleanable(log, str(error))
            return None

    # -- on request --

    def request(self, log: "UnifiedLog") -> int:
        """Requests compaction of a log, whatever its ratio; returns the offset up to which it will be compacted.

        Rolls the active segment first, and unmarks an uncleanable log. Raises KafkaStorageError.
        """
        key = (log.topic, log.partition)
        log.roll()
        self._uncleanable.pop(key, None)
        self._retries.pop(key, None)
        self._requested[key] = log.segments[-1].base_offset
        return self._requested[key]

    def is_requested(self, key: "TopicPartition") -> bool:
        """Whether a request for this partition is open."""
        return key in self._requested

    def _requested_part(self, found: LogToClean) -> LogToClean:
        """The part to clean on request: if nothing is dirty, all of the log again.

        That removes expired tombstones and markers, for which compaction otherwise waits for new records.
        """
        log = found.log
        if not found.cleanable_bytes and log.segment_count > 1:
            offsets = OffsetsToClean(log.log_start_offset, found.offsets.first_uncleanable_offset)
            found = log_to_clean(log, found.directory, offsets, self._env.now_ms())
        if not found.cleanable_bytes:
            del self._requested[found.key]
            return found
        return found._replace(is_requested=True)

    def _complete_request(self, key: "TopicPartition", next_dirty_offset: int) -> None:
        wanted = self._requested.get(key)
        if wanted is not None:
            log = self._log_manager.get_log(*key)
            reachable = wanted if log is None else min(wanted, log.last_stable_offset)
            segments = [] if log is None else log.segments
            bounds = [segment.base_offset for segment in segments if segment.base_offset <= reachable]
            if next_dirty_offset >= max(bounds, default=0):
                del self._requested[key]

    # -- cleanings in progress --

    def _state(self, key: "TopicPartition") -> CleaningState:
        return self._states.setdefault(key, CleaningState())

    def _release(self, key: "TopicPartition") -> None:
        state = self._states[key]
        if not state.is_running and not state.pauses:
            del self._states[key]

    def on_abort(self, key: "TopicPartition", stop: Callable[[], None]) -> None:
        """Sets the callback that stops the cleaning in progress at once and leaves no .swap behind."""
        self._states[key].stop = stop

    def is_aborted(self, key: "TopicPartition") -> bool:
        """Whether the result of the cleaning in progress must be dropped."""
        return self._states[key].is_aborted

    def abort_cleaning(self, key: "TopicPartition") -> None:
        """Aborts a cleaning of the partition, if one is in progress; its result does not enter the log.

        Raises KafkaStorageError if a prepared swap cannot be reverted: the next start would complete it.
        """
        state = self._states.get(key)
        if state is not None and state.is_running and not state.is_aborted:
            state.is_aborted = True
            if state.stop is not None:
                state.stop()
            logger.info("the compaction of %s-%d is aborted", *key)

    def call_off_cleaning(self, key: "TopicPartition") -> None:
        """`abort_cleaning` for callers that do not truncate, and to which a swap at the next start does no harm."""
        try:
            self.abort_cleaning(key)
        except KafkaStorageError as error:
            logger.warning("%s", error)

    def abort_and_pause_cleaning(self, key: "TopicPartition") -> None:
        """`call_off_cleaning`, and blocks further cleanings until `resume_cleaning` is called as often as this."""
        self._state(key).pauses += 1
        self.call_off_cleaning(key)

    def resume_cleaning(self, key: "TopicPartition") -> None:
        """Ends one pause."""
        state = self._states.get(key)
        assert state is not None, f"{key} is not paused"
        assert state.pauses, f"{key} is not paused"
        state.pauses -= 1
        self._release(key)

    def done_cleaning(self, found: LogToClean, next_dirty_offset: int | None) -> None:
        """Ends a cleaning; the dirty part now begins at `next_dirty_offset`, None if the cleaning failed."""
        key = found.key
        state = self._states[key]
        assert state.is_running, f"{found.log.name} was not in progress"
        if next_dirty_offset is not None and not state.is_aborted:
            self._retries.pop(key, None)
            self._set_offset(found.directory, key, next_dirty_offset)
            self._complete_request(key, next_dirty_offset)
        state.is_running = state.is_aborted = False
        state.stop = None
        self._release(key)

    def failed(self, found: LogToClean, first_retry_ms: int = FIRST_RETRY_MS) -> int:
        """Schedules a retry, with exponential backoff, after a transient failure; returns the delay in ms.

        `done_cleaning` must be called too.
        """
        self._requested.pop(found.key, None)
        return self._retry_later(found.key, first_retry_ms)

    def _retry_later(self, key: "TopicPartition", first_retry_ms: int = FIRST_RETRY_MS) -> int:
        failures = self._retries.get(key, Retry(0, 0)).failures + 1
        delay_ms = min(first_retry_ms << min(failures - 1, 10), LAST_RETRY_MS)
        self._retries[key] = Retry(failures, self._env.now_ms() + delay_ms)
        return delay_ms

    # -- uncleanable logs --

    def mark_uncleanable(self, log: "UnifiedLog", why: str) -> None:
        """Excludes a log from compaction after an error that a retry would repeat."""
        logger.warning("%s is not compacted any more, it is marked as uncleanable: %s", log.directory, why)
        key = (log.topic, log.partition)
        self._uncleanable[key] = self._log_manager.directory_of(log)
        self._requested.pop(key, None)

    def is_uncleanable(self, key: "TopicPartition") -> bool:
        return key in self._uncleanable

    def uncleanable_partitions(self, directory: "LogDir") -> list["TopicPartition"]:
        """The uncleanable partitions of one log directory."""
        return [key for key, of in self._uncleanable.items() if of is directory]

    def uncleanable_bytes(self, directory: "LogDir") -> int:
        """The cleanable bytes of the uncleanable partitions of a log directory."""
        now_ms = self._env.now_ms()
        total = 0
        for key in self.uncleanable_partitions(directory):
            log = directory.logs.get(key)
            if log is not None:
                # No batch may be read here: a damaged one may be why the log is uncleanable.
                offsets = cleanable_offsets(log, directory.cleaner_offsets.get(key), now_ms)
                total += cleanable_bytes(log, offsets)
        return total

    # -- retention --

    def may_retain(self, log: "UnifiedLog") -> bool:
        """Whether LogManager applies retention to the log: not to one in progress, nor to a compacted one, to which
        `delete_old_segments` applies it while compaction is enabled."""
        is_ours = self.is_enabled and log.config.compact
        return not is_ours and not self._is_running((log.topic, log.partition))

    def _is_running(self, key: "TopicPartition") -> bool:
        state = self._states.get(key)
        return state is not None and state.is_running

    def delete_old_segments(self) -> int:
        """Retention of the compacted logs, by time and size (compact,delete) and by log start offset.

        Returns how many segments were deleted. Logs in progress are skipped: their segments are being read.
        """
        deleted = 0
        for log in self._log_manager.all_logs():
            key = (log.topic, log.partition)
            if log.config.compact and not self._is_running(key) and key not in self._uncleanable:
                deleted += self._log_manager.retain(log)
        return deleted

    # -- the checkpoint --

    def _set_offset(self, directory: "LogDir", key: "TopicPartition", offset: int) -> None:
        directory.cleaner_offsets[key] = offset
        self._save_offsets(directory)

    def maybe_truncate_checkpoint(self, directory: "LogDir", key: "TopicPartition", offset: int) -> None:
        """Lowers the checkpoint of a log that was truncated to `offset`. Durable on return; raises OSError."""
        if directory.cleaner_offsets.get(key, 0) > offset:
            directory.cleaner_offsets[key] = offset
            directory.cleaner_offset_job()()

    def partition_removed(self, directory: "LogDir", key: "TopicPartition") -> None:
        """Drops all state of a log that was removed."""
        self._retries.pop(key, None)
        self._requested.pop(key, None)
        self._uncleanable.pop(key, None)
        if directory.cleaner_offsets.pop(key, None) is not None:
            self._save_offsets(directory)

    def alter_checkpoint_dir(self, key: "TopicPartition", source: "LogDir", target: "LogDir") -> None:
        """Moves the checkpoint of a partition from one log directory to another."""
        offset = source.cleaner_offsets.pop(key, None)
        if offset is not None:
            self._save_offsets(source)
            self._set_offset(target, key, offset)
        if self._uncleanable.get(key) is source:
            self._uncleanable[key] = target

    def handle_log_dir_failure(self, path: str) -> None:
        """Aborts the cleanings in a log directory that failed, and starts none there any more."""
        self._failed_dirs.add(path)
        for directory in self._log_manager.dirs:
            if directory.path == path:
                for key in directory.logs:
                    self.call_off_cleaning(key)  # loading completes a swap when the disk is back

"""FutureLogs: logs that are to replace one in another log directory of the broker (KIP-113), part of LogManager.

A future log lies in topic-partition.uniqueid-future until it has all that the log in use has (`future_log`) and takes
its place. Source: kafka.log.LogManager (getOrCreateLog with isFuture, replaceCurrentWithFutureLog, asyncDelete).

What a crash leaves of a replacement, which begins when the metadata have the partition in the directory of the future
log, and durably so:

    in the old directory | in the new one   | the next start
    ---------------------+------------------+----------------------------------------------------------------
    topic-0              | topic-0...future | has the future log catch up and take the place
    topic-0...delete     | topic-0...future | has the future log take the place: it was the same
    topic-0...delete     | topic-0          | finds nothing to do
    topic-0              | topic-0          | puts the old one aside (power cuts only, which may undo either name)
"""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Final

from barnabas.protocol.records.errors import CorruptRecordError
from barnabas.storage.env import Env, remove_tree
from barnabas.storage.errors import (
    DiskFullError,
    KafkaStorageError,
    LogDirError,
    OutOfResourcesError,
    StorageError,
    storage_error,
)
from barnabas.storage.log.deletion import DeletionQueue
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.future_log import (
    STEP_BYTES,
    CopyStep,
    begins_too_early,
    common_end,
    first_offset_to_copy,
    follow_offsets,
    has_all,
    has_diverged,
    plan_step,
)
from barnabas.storage.manager.hooks import LogRegistry
from barnabas.storage.manager.loading import (
    DELETE_DIR_SUFFIX,
    FUTURE_DIR_SUFFIX,
    STRAY_DIR_SUFFIX,
    odd_dir_name,
)
from barnabas.storage.manager.log_dir import LogDir
from barnabas.storage.manager.new_directories import NewDirectories
from barnabas.storage.offsets import TopicPartition
from barnabas.storage.segment.open_segments import OpenSegments

OPEN_SEGMENTS: Final = 4
"""For a log that a thread writes, which shares nothing with other logs and needs only its active segment open."""

logger = logging.getLogger("barnabas.storage")


class NewFutureLog:
    """A future log to create. `run` creates its directory, in any thread; then `FutureLogs.open` opens it."""

    def __init__(self, env: Env, source: UnifiedLog, directory: LogDir) -> None:
        self._env = env
        self.source = source
        self.directory = directory
        self.name = odd_dir_name(source.topic, source.partition, FUTURE_DIR_SUFFIX, env.random_bytes(16))
        self.start_offset = first_offset_to_copy(source)
        self._new_directory = NewDirectories(env)
        self._new_directory.add(directory.path, self.name, source.topic_id)
        directory.cleaner_offsets.pop((source.topic, source.partition), None)
        self._checkpoints = directory.checkpoint_jobs()

    def run(self) -> None:
        """Raises OSError."""
        # First the checkpoints, without the entries of an earlier log of the partition.
        for checkpoint in self._checkpoints:
            checkpoint()
        self._new_directory.run()

    def remove(self) -> None:
        """Removes the directory. Raises OSError."""
        remove_tree(self._env, f"{self.directory.path}/{self.name}")


class FutureLogs:
    """The future logs of a LogManager; it changes both of the manager's maps of logs."""

    def __init__(
        self,
        manager: LogRegistry,
        env: Env,
        current_logs: dict[TopicPartition, UnifiedLog],
        future_logs: dict[TopicPartition, UnifiedLog],
        deletions: DeletionQueue,
    ) -> None:
        self._manager = manager
        self._env = env
        self._current_logs = current_logs
        self._logs = future_logs
        self._deletions = deletions
        self._found: list[tuple[UnifiedLog, LogDir]] = []

    # -- loading --

    def add_loaded(self, log: UnifiedLog, directory: LogDir) -> None:
        """Adds a future log that was found at the start, for `settle`."""
        self._found.append((log, directory))

    def settle(self, assigned_dir: Callable[[str, int], bytes | None]) -> None:
        """Keeps one future log of each partition, in another directory than the current log, and deletes the others.

        It keeps the one in the directory that `assigned_dir` names, or else the longest.
        """
        found, self._found = self._found, []
        for log, directory in found:
            if not directory.had_clean_shutdown and directory.directory_id != assigned_dir(
                log.topic, log.partition
            ):
                self._truncate_to_durable(log, directory)
        for log, directory in sorted(found, key=lambda one: one[0].log_end_offset):
            if directory not in self._manager.dirs:
                continue  # the directory has failed since
            key = (log.topic, log.partition)
            current, other = self._manager.get_log(*key), self._logs.get(key)
            if current is not None and self._manager.directory_of(current) is directory:
                self._drop(log, directory, "the partition lies in this directory already")
                continue
            if other is not None:
                other_dir = self._manager.directory_of(other)
                if other_dir.directory_id == assigned_dir(*key):
                    self._drop(log, directory, f"{other.directory} is to replace the partition too")
                    continue
                self.detach(*key)
                self._drop(other, other_dir, f"{log.directory} is to replace the partition too")
            self._manager.register(log, directory, self._logs)

    def _truncate_to_durable(self, log: UnifiedLog, directory: LogDir) -> None:
        """Truncates to the recovery point: after a power cut the rest may have gaps, and is copied again."""
        try:
            log.truncate_to(log.recovery_point)
        except KafkaStorageError as error:
            self._manager.log_dir_failed(directory.path, str(error))

    def _drop(self, log: UnifiedLog, directory: LogDir, why: str) -> None:
        logger.warning("%s is deleted: %s", log.directory, why)
        try:
            self._manager.rename_away(log, directory, DELETE_DIR_SUFFIX)
        except KafkaStorageError as error:
            self._manager.log_dir_failed(directory.path, str(error))

    def finish_decided(self, assigned_dir: Callable[[str, int], bytes | None]) -> None:
        """Completes the moves that were decided before the broker stopped: those to the assigned directory.

        Copies what was appended to the current log since. Blocks; for the start of a broker. A directory that fails
        goes offline.
        """
        for future in list(self._logs.values()):
            directory, key = self._manager.directory_of(future), (future.topic, future.partition)
            if directory.directory_id != assigned_dir(*key):
                continue
            logger.info(
                "%s replaces the current log: its move was decided before the broker stopped",
                future.directory,
            )
            try:
                self._finish(future, self._manager.get_log(*key))
            except (OSError, StorageError, CorruptRecordError) as error:
                logger.error("%s cannot replace the current log: %s", future.directory, error)
                if isinstance(error, KafkaStorageError) and not error.undone:
                    self._manager.log_dir_failed(directory.path, str(error))

    def _finish(self, future: UnifiedLog, current: UnifiedLog | None) -> None:
        source = None if current is None else self._manager.directory_of(current)
        if current is not None and not has_all(current, future):
            self.catch_up(current, future)
        self.replace_current(future.topic, future.partition)
        target = self._manager.directory_of(future)
        for job in self.sync_jobs([one for one in (target, source) if one is not None]):
            job()

    # -- making --

    def prepare(self, source: UnifiedLog, log_dir: str) -> NewFutureLog:
        """Plans the first future log of the partition of `source`, in another log directory.

        Raises KafkaStorageError, CorruptRecordError; ValueError if the current log is in that directory.
        """
        manager = self._manager
        directory = next((one for one in manager.dirs if one.path == log_dir), None)
        if directory is None:
            raise KafkaStorageError(f"{log_dir} is no log directory that works")
        if manager.directory_of(source) is directory:
            raise ValueError(f"{source.name} lies in {log_dir} already")
        return NewFutureLog(self._env, source, directory)

    def open(self, new: NewFutureLog) -> UnifiedLog:
        """Opens the log after `new.run`. Raises KafkaStorageError."""
        if new.directory not in self._manager.dirs:
            raise KafkaStorageError(f"{new.directory.path} has failed")
        try:
            log = self._manager.open_new(
                new.directory,
                new.source.topic,
                new.source.partition,
                new.name,
                log_start_offset=new.start_offset,
                open_segments=OpenSegments(OPEN_SEGMENTS),
            )
        except OSError as error:
            what = f"the future log of {new.source.name}"
            raise storage_error(what, error, undone=True) from error
        self._manager.register(log, new.directory, self._logs)
        return log

    # -- filling --

    def plan_step(
        self, source: UnifiedLog, future: UnifiedLog, max_bytes: int = STEP_BYTES
    ) -> CopyStep | None:
        """`future_log.plan_step`, after a truncation of the future log if it needs one.

        Raises CorruptRecordError; LogDirError if the source fails, KafkaStorageError and OSError if the future log
        fails.
        """
        try:
            return self._plan_step(source, future, max_bytes)
        except (DiskFullError, OutOfResourcesError):
            raise
        except KafkaStorageError as error:
            if not error.undone:
                raise
            raise LogDirError(str(error), self._manager.directory_of(source).path) from error

    def _plan_step(self, source: UnifiedLog, future: UnifiedLog, max_bytes: int) -> CopyStep | None:
        if begins_too_early(source, future):
            self._manager.truncate_fully_and_start_at(future, first_offset_to_copy(source))
        elif has_diverged(source, future):
            self._manager.truncate_to(future, common_end(source, future))
        follow_offsets(source, future)
        return plan_step(source, future, max_bytes)

    def catch_up(self, source: UnifiedLog, future: UnifiedLog) -> int:
        """Copies the rest of the source, on the calling thread; returns the number of bytes.

        Raises what `plan_step` and `CopyStep.run` raise.
        """
        copied = 0
        while (step := self.plan_step(source, future)) is not None:
            step.run()
            copied += step.size
        follow_offsets(source, future)
        return copied

    # -- completion --

    def replace_current(self, topic: str, partition: int) -> UnifiedLog:
        """Replaces the current log by the future log, whose directory is already assigned in the metadata.

        Both have the same batches, or there is no current log. Both directories must be synced soon (`sync_jobs`),
        before the deleted files are removed. Raises LogDirError, KafkaStorageError; then the current log stays.
        """
        key = (topic, partition)
        future, current = self._logs.get(key), self._manager.get_log(topic, partition)
        if future is None:
            raise KafkaStorageError(f"the future log of {topic}-{partition} is offline, or there is none")
        target = self._manager.directory_of(future)
        if current is None:
            self._rename_to_current(future, target)
        else:
            self._swap(current, future, target)
        del self._logs[key]
        self._manager.register(future, target, self._current_logs)
        future.share_open_segments(self._manager.open_segments)
        return future

    def _swap(self, current: UnifiedLog, future: UnifiedLog, target: LogDir) -> None:
        manager, source = self._manager, self._manager.directory_of(current)
        manager.abort_cleaning(current)
        name = current.directory
        try:
            manager.rename_dir(current, source, DELETE_DIR_SUFFIX)
        except OSError as error:
            raise LogDirError(f"{current.name} cannot be renamed: {error}", source.path) from error
        try:
            self._rename_to_current(future, target)
        except LogDirError:
            with suppress(OSError):  # the next start resolves either state
                current.rename_dir(name)
            raise
        manager.retire(current, DELETE_DIR_SUFFIX)
        del source.logs[current.topic, current.partition]
        if manager.cleaner is not None:
            manager.cleaner.alter_checkpoint_dir((current.topic, current.partition), source, target)

    def _rename_to_current(self, future: UnifiedLog, target: LogDir) -> None:
        directory, name = future.directory, f"{target.path}/{future.name}"
        try:
            future.release()
            future.rename_dir(name)
            self._deletions.directory_renamed(directory, name)
        except OSError as error:
            raise LogDirError(f"{future.name} cannot be renamed: {error}", target.path) from error

    def sync_jobs(self, directories: Iterable[LogDir]) -> list[Callable[[], None]]:
        """Jobs for any thread that make a replacement in these directories durable. Each raises OSError."""
        jobs: list[Callable[[], None]] = []
        for directory in directories:
            jobs += [partial(self._env.sync_dir, directory.path), *directory.checkpoint_jobs()]
        return jobs

    def detach(self, topic: str, partition: int) -> UnifiedLog | None:
        """Removes a future log from the maps; its directory is unchanged until `discard`."""
        log = self._logs.pop((topic, partition), None)
        if log is not None:
            del self._manager.directory_of(log).logs[topic, partition]
        return log

    def discard(self, log: UnifiedLog, *, is_stray: bool = False) -> None:
        """Deletes a detached log after file.delete.delay.ms, or marks it as stray. Raises KafkaStorageError."""
        directory = self._manager.dirs.of_path(log.directory)
        if directory is not None:
            self._manager.rename_away(log, directory, STRAY_DIR_SUFFIX if is_stray else DELETE_DIR_SUFFIX)

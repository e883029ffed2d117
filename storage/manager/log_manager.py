"""LogManager: every log in the log directories of one broker.

It loads, creates, moves and deletes logs; `dirs` (LogDirs) locks the directories and keeps the checkpoints. It has
neither threads nor a schedule: the broker calls `cleanup_logs`, the checkpoint jobs, `take_due_deletions` and the flush
of `logs_to_flush` when they are due.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from barnabas.protocol.records.errors import CorruptRecordError
from barnabas.storage.env import Env
from barnabas.storage.errors import (
    CorruptCheckpointError,
    DiskFullError,
    InconsistentMetadataError,
    KafkaStorageError,
    OutOfResourcesError,
    is_fault_of_disk,
    storage_error,
)
from barnabas.storage.log.checkpoints import PARTITION_METADATA, PartitionMetadataFile
from barnabas.storage.log.deletion import Deletion, DeletionQueue
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.future_logs import OPEN_SEGMENTS, FutureLogs
from barnabas.storage.manager.hooks import CleanerHooks
from barnabas.storage.manager.loader import DEFAULT_PRODUCER_ID_EXPIRATION_MS, open_log
from barnabas.storage.manager.loading import (
    DELETE_DIR_SUFFIX,
    STRAY_DIR_SUFFIX,
    LoadTask,
    RunAll,
    RunTasks,
    odd_dir_name,
    parse_partition_dir,
    run_all_in_turn,
    run_in_turn,
)
from barnabas.storage.manager.log_dir import LogDir
from barnabas.storage.manager.log_dirs import LogDirs
from barnabas.storage.manager.new_directories import NewDirectories
from barnabas.storage.offsets import TopicPartition
from barnabas.storage.segment.open_segments import DESCRIPTORS_PER_SEGMENT, NO_LIMIT, OpenSegments

if TYPE_CHECKING:
    from barnabas.config.log_config import LogConfig

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
UNASSIGNED_DIR: Final = bytes(16)
"""Kafka's DirectoryId.UNASSIGNED: the metadata do not name a directory."""

logger = logging.getLogger("barnabas.storage")


class LogManager:
    """The logs of one broker, over one or more log directories."""

    def __init__(
        self,
        env: Env,
        log_dirs: Sequence[str],
        config_of: Callable[[str], "LogConfig"],
        *,
        producer_id_expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS,
        max_open_segments: int | None = None,
        min_free_bytes: int = 0,
        assigned_dir: Callable[[str, int], bytes | None] = lambda _topic, _partition: None,
    ) -> None:
        """`config_of(topic)` returns the configuration of each log that is opened. Accesses no file yet.

        `assigned_dir(topic, partition)` is the id of the directory that the metadata assign, if any.
        `max_open_segments` limits `OpenSegments`; by default it uses half of the descriptors that the process may
        have. `min_free_bytes` is that of DiskSpace.
        """
        self._env = env
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._truncating: set[UnifiedLog] = set()
        self._future_logs: dict[TopicPartition, UnifiedLog] = {}
        self.dirs = LogDirs(env, log_dirs, min_free_bytes, self.log_dir_failed)
        self.on_log_dir_failed: Callable[[str], None] = lambda path: None
        """Called with the path of each directory that has failed, after it and its logs went offline."""
        self._config_of = config_of
        self._expiration_ms = producer_id_expiration_ms
        self._assigned_dir = assigned_dir
        self._deletions = DeletionQueue(env)
        self._planned: dict[TopicPartition, tuple[LogDir, NewDirectories]] = {}
        limit = max_open_segments or env.max_open_files() // 2 // DESCRIPTORS_PER_SEGMENT
        self.open_segments = OpenSegments(limit)
        self.future = FutureLogs(self, env, self._logs, self._future_logs, self._deletions)
        self.cleaner: CleanerHooks | None = None
        """The LogCleanerManager, if logs are compacted."""

    def log_dir_failed(self, path: str, why: str) -> None:
        """Takes a log directory offline, and every log in it, after any compaction there has ended.

        Kafka's LogManager.handleLogDirFailure.
        """
        if self.cleaner is not None and path not in self.dirs.offline:
            self.cleaner.handle_log_dir_failure(path)
        directory = self.dirs.take_offline(path, why)
        if directory is None:
            return
        for key, log in directory.logs.items():
            for logs in (self._logs, self._future_logs):
                if logs.get(key) is log:
                    del logs[key]
        self.on_log_dir_failed(path)

    # -- loading --

    def load_logs(
        self,
        on_loaded: "Callable[[UnifiedLog], None] | None" = None,
        run_tasks: RunTasks = run_in_turn,
    ) -> None:
        """Opens every log in the directories, recovering those that were not stopped cleanly.

        Skips what is no partition directory; a log directory in which something fails goes offline. `run_tasks` runs
        the tasks, in threads if it likes; `on_loaded` is called with each log, for progress. Raises
        InconsistentMetadataError, NoLogDirError.
        """
        tasks = [task for directory in self.dirs for task in self._plan(directory)]
        for task in run_tasks(tasks):
            log = self._loaded(task)
            if log is not None and on_loaded is not None:
                on_loaded(log)
        self.future.settle(self._assigned_dir)
        for directory in list(self.dirs):
            with self.dirs.failing(directory):
                directory.finish_loading()
        self.dirs.require_one()

    def _plan(self, directory: LogDir) -> list[LoadTask]:
        tasks: list[LoadTask] = []
        with self.dirs.failing(directory):
            names = sorted(name for name, is_dir in self._env.scan_dir(directory.path) if is_dir)
            directory.start_loading()
            tasks += [task for name in names if (task := self._task(directory, name))]
            for task in tasks:
                task.survey(self._env)
        return tasks

    def _task(self, directory: LogDir, name: str) -> LoadTask | None:
        path = f"{directory.path}/{name}"
        parsed = parse_partition_dir(name)
        if parsed is None:
            logger.warning("%s is skipped: it is not a partition's directory", path)
        elif parsed.suffix == DELETE_DIR_SUFFIX:
            self._deletions.add(self._config_of(parsed.topic).file_delete_delay_ms, [], path)
        elif parsed.suffix == STRAY_DIR_SUFFIX:
            logger.warning(
                "%s is kept and not opened: it was marked as stray; delete it if it is not needed", path
            )
        elif parsed.topic != CLUSTER_METADATA_TOPIC:  # the controller owns that log
            return LoadTask(directory, path, parsed, self._load)
        return None

    def _load(self, task: LoadTask) -> UnifiedLog:
        """Opens the log of a task; runs on any thread."""
        directory, key = task.directory, task.name.key
        log = open_log(
            self._env,
            task.path,
            *key,
            self._config_of(task.name.topic),
            is_there=True,
            is_clean=directory.had_clean_shutdown,
            log_start_offset=directory.log_start_offsets.get(key, 0),
            recovery_point=directory.recovery_points.get(key, 0),
            deletions=self._deletions,
            open_segments=OpenSegments(
                OPEN_SEGMENTS
            ),  # its own, since other threads would close its segments
            producer_id_expiration_ms=self._expiration_ms,
            on_progress=task.read,
        )
        log.update_high_watermark(directory.high_watermarks.get(key, log.log_start_offset))
        return log

    def _loaded(self, task: LoadTask) -> UnifiedLog | None:
        """Registers the log of a finished task; None if its directory failed, or the log is not the current one."""
        directory, log = task.directory, task.log
        if directory not in self.dirs:
            return None
        if log is None:
            self.log_dir_failed(directory.path, f"{task.path}: {task.error}")
            return None
        if task.is_future:
            self.future.add_loaded(log, directory)
            return None
        logs = self._logs
        other = logs.get(task.name.key)
        if other is not None:
            loser = self._resolve_duplicate(other, log, directory)
            if loser is log:
                return None
        log.share_open_segments(self.open_segments)
        self.register(log, directory, logs)
        return log

    def register(self, log: UnifiedLog, directory: LogDir, logs: dict[TopicPartition, UnifiedLog]) -> None:
        """Adds an open log to `logs` and to those of its directory."""
        log.disk_space = directory.space
        logs[log.topic, log.partition] = directory.logs[log.topic, log.partition] = log

    def _resolve_duplicate(self, first: UnifiedLog, second: UnifiedLog, second_dir: LogDir) -> UnifiedLog:
        """Of two logs of one partition, keeps the one in the assigned directory and marks the other as stray.

        An interrupted move between directories leaves two. Returns the stray log. Raises InconsistentMetadataError if
        the metadata name neither directory.
        """
        assigned = self.dirs.with_id(self._assigned_dir(second.topic, second.partition))
        first_dir = self.directory_of(first)
        if assigned not in (first_dir, second_dir):
            raise InconsistentMetadataError(
                f"{first.directory} and {second.directory} are logs of the same partition; move one of them away: "
                "the one in the directory that failed last, if one did"
            )
        loser, place = (first, first_dir) if assigned is second_dir else (second, second_dir)
        logger.warning(
            "%s is marked as stray: the metadata have %s in %s", loser.directory, loser.name, assigned.path
        )
        self.rename_away(loser, place, STRAY_DIR_SUFFIX)
        place.logs.pop((loser.topic, loser.partition), None)
        return loser

    def open_new(
        self,
        directory: LogDir,
        topic: str,
        partition: int,
        name: str,
        *,
        log_start_offset: int = 0,
        open_segments: OpenSegments | None = None,
    ) -> UnifiedLog:
        """Opens a log whose directory `name` is new, or was just created. For this room only. Raises OSError."""
        return open_log(
            self._env,
            f"{directory.path}/{name}",
            topic,
            partition,
            self._config_of(topic),
            log_start_offset=log_start_offset,
            deletions=self._deletions,
            open_segments=self.open_segments if open_segments is None else open_segments,
            producer_id_expiration_ms=self._expiration_ms,
        )

    # -- the logs --

    def __len__(self) -> int:
        return len(self._logs)

    def all_logs(self) -> Iterator[UnifiedLog]:
        """Every open log, apart from those that are to replace one."""
        return iter(list(self._logs.values()))

    def future_logs(self) -> Iterator[UnifiedLog]:
        """The logs that are to replace one in another directory."""
        return iter(list(self._future_logs.values()))

    def get_log(self, topic: str, partition: int) -> UnifiedLog | None:
        return self._logs.get((topic, partition))

    def get_future_log(self, topic: str, partition: int) -> UnifiedLog | None:
        """The log that is to replace a partition's."""
        return self._future_logs.get((topic, partition))

    def directory_of(self, log: UnifiedLog) -> LogDir:
        """The log directory that a log lies in."""
        key = (log.topic, log.partition)
        return next(directory for directory in self.dirs if directory.logs.get(key) is log)

    def places(self) -> dict[TopicPartition, bytes]:
        """The id of the log directory that each log in use lies in."""
        return {
            key: directory.directory_id
            for directory in self.dirs
            for key, log in directory.logs.items()
            if directory.directory_id and self._logs.get(key) is log
        }

    def prepare_logs(
        self,
        wanted: Sequence[tuple[str, int, bytes]],
        assigned: Mapping[TopicPartition, bytes] | None = None,
    ) -> NewDirectories:
        """Plans the directories of new logs, given as (topic, partition, topic id).

        `assigned` are the ids of the log directories in the metadata. The caller runs the returned job in a thread, so
        that `get_or_create_log` does not wait for the disk. Raises OSError, KafkaStorageError.
        """
        job = NewDirectories(self._env)
        missing = [entry for entry in wanted if entry[:2] not in self._logs]
        decided: Counter[LogDir] = Counter()
        for topic, partition, topic_id in missing:
            key = (topic, partition)
            wanted_id = (assigned or {}).get(key)
            directory = self.dirs.preferred(topic, partition) or self.dirs.with_id(wanted_id)
            if directory is None:
                (directory,) = self.dirs.choose(1, decided)
            decided[directory] += 1
            directory.forget(topic, partition)
            name = f"{topic}-{partition}"
            opening = partial(self.open_new, directory, *key, name, open_segments=OpenSegments(1))
            job.add(directory.path, name, topic_id, opening)
            self._planned[key] = (directory, job)
        return job

    def get_or_create_log(
        self,
        topic: str,
        partition: int,
        topic_id: bytes | None = None,
        *,
        directory_id: bytes = UNASSIGNED_DIR,
        is_new: bool = True,
    ) -> UnifiedLog:
        """The log of a partition, created if missing: as planned, or in `directory_id`, or where there are fewest.

        A missing log may lie in a directory that is offline: it is created only if the metadata assign a directory that
        works, or none yet and it `is_new`. Raises InconsistentTopicIdError if the directory has another topic id,
        KafkaStorageError.
        """
        log = self._logs.get((topic, partition))
        try:
            if log is None:
                log = self._create(topic, partition, directory_id, is_new)
            if topic_id is not None:
                log.assign_topic_id(topic_id)
        except OSError as error:
            raise storage_error(f"{topic}-{partition} cannot be opened", error, undone=True) from error
        return log

    def _create(self, topic: str, partition: int, directory_id: bytes, is_new: bool) -> UnifiedLog:
        planned = self._planned.pop((topic, partition), None)
        if planned is not None and planned[0] not in self.dirs:
            planned = None  # the directory has failed since
        directory = planned[0] if planned else self._place(topic, partition, directory_id, is_new)
        try:
            if planned is None:
                directory.forget(topic, partition)
            name = f"{topic}-{partition}"
            made = planned[1].take(f"{directory.path}/{name}", self.open_segments) if planned else None
            log = made or self.open_new(directory, topic, partition, name)
            if planned is None or not planned[1].is_done:
                self._env.sync_dir(directory.path)
        except OSError as error:
            if is_fault_of_disk(error):
                self.log_dir_failed(directory.path, f"{topic}-{partition} cannot be created: {error}")
            raise
        self.register(log, directory, self._logs)
        self.dirs.forget_preferred(topic, partition)
        return log

    def _place(self, topic: str, partition: int, directory_id: bytes, is_new: bool) -> LogDir:
        assigned = self.dirs.preferred(topic, partition) or self.dirs.with_id(directory_id)
        if assigned is not None:
            return assigned
        if self.dirs.offline and not (is_new and directory_id == UNASSIGNED_DIR):
            raise KafkaStorageError(
                f"{topic}-{partition} is not created again, since its log may lie in a log directory that has failed: "
                f"{', '.join(self.dirs.offline)}"
            )
        return self.dirs.choose(1)[0]

    def delete_log(self, topic: str, partition: int) -> bool:
        """Deletes a log: renames its directory, which is removed after file.delete.delay.ms; False if there is none.

        Raises KafkaStorageError.
        """
        return self._remove_log(topic, partition, DELETE_DIR_SUFFIX)

    def discard_unfinished(self, topic: str, partition: int, topic_id: bytes) -> None:
        """Removes what exists of a log that could not be created: the log, or only its directory.

        Keeps one of another topic id. Raises KafkaStorageError, OSError.
        """
        self._planned.pop((topic, partition), None)
        log = self._logs.get((topic, partition))
        if log is not None:
            if log.topic_id in (None, topic_id):
                self.delete_log(topic, partition)
            return
        for directory in self.dirs:
            path = f"{directory.path}/{topic}-{partition}"
            if self._env.is_dir(path) and self._topic_id_in(path) in (None, topic_id):
                name = odd_dir_name(topic, partition, DELETE_DIR_SUFFIX, self._env.random_bytes(16))
                self._env.rename(path, f"{directory.path}/{name}")
                self._deletions.add(0, [], f"{directory.path}/{name}")

    def _topic_id_in(self, path: str) -> bytes | None:
        with suppress(CorruptCheckpointError):
            return PartitionMetadataFile(self._env, f"{path}/{PARTITION_METADATA}").read()
        return None

    def mark_stray(self, topic: str, partition: int) -> bool:
        """Removes a log that belongs to no topic, but keeps its renamed directory; False if there is none."""
        return self._remove_log(topic, partition, STRAY_DIR_SUFFIX)

    def put_aside(self, log: UnifiedLog) -> None:
        """`mark_stray` for a log that may be a future log."""
        key = (log.topic, log.partition)
        if self._future_logs.get(key) is log:
            self.future.detach(*key)
            self.future.discard(log, is_stray=True)
        else:
            self.mark_stray(*key)

    def _remove_log(self, topic: str, partition: int, suffix: str) -> bool:
        log = self._logs.get((topic, partition))
        if log is None:
            return False
        directory = self.directory_of(log)
        self.abort_cleaning(log)
        self.rename_away(log, directory, suffix)
        del self._logs[topic, partition], directory.logs[topic, partition]
        if self.cleaner is not None:
            self.cleaner.partition_removed(directory, (topic, partition))
        return True

    def rename_away(self, log: UnifiedLog, directory: LogDir, suffix: str) -> None:
        """Renames a log's directory to one with a suffix, and fails the log. Raises KafkaStorageError."""
        try:
            self.rename_dir(log, directory, suffix)
            if suffix == STRAY_DIR_SUFFIX:  # a deletion is durable in the metadata
                self._env.sync_dir(directory.path)
        except OSError as error:
            raise KafkaStorageError(f"{log.name} cannot be renamed: {error}") from error
        self.retire(log, suffix)

    def rename_dir(self, log: UnifiedLog, directory: LogDir, suffix: str) -> None:
        """The first step of `rename_away`. Raises OSError."""
        name = odd_dir_name(log.topic, log.partition, suffix, self._env.random_bytes(16))
        log.release()
        log.rename_dir(f"{directory.path}/{name}")

    def retire(self, log: UnifiedLog, suffix: str) -> None:
        """The second step of `rename_away`: fails the log, and queues the removal of a deleted one."""
        if suffix == DELETE_DIR_SUFFIX:
            self._deletions.add(log.config.file_delete_delay_ms, [], log.directory)
        log.fail("it was deleted" if suffix == DELETE_DIR_SUFFIX else "it was marked as stray", quietly=True)

    def truncate_to(self, log: UnifiedLog, offset: int) -> bool:
        """`UnifiedLog.truncate_to`, with its checkpoints written before the next append.

        Otherwise, after a crash, later records at these offsets would count as synced (recovery point) or as deleted
        (log start offset). Raises KafkaStorageError, OSError.
        """
        if offset < log.segments[-1].base_offset:
            self.abort_cleaning(log)
        starts_earlier = offset < log.log_start_offset
        was_cut = log.truncate_to(offset)
        if was_cut:
            directory = self.directory_of(log)
            self._truncate_cleaner_offset(directory, log)
            directory.recovery_point_job()()
            if starts_earlier:
                directory.log_start_offset_job()()
        return was_cut

    def truncate_fully_and_start_at(self, log: UnifiedLog, offset: int) -> None:
        """`UnifiedLog.truncate_fully_and_start_at`, with its checkpoints written."""
        self.abort_cleaning(log)
        log.truncate_fully_and_start_at(offset)
        directory = self.directory_of(log)
        self._truncate_cleaner_offset(directory, log)
        directory.checkpoint_all()

    def close_for_truncation(self, log: UnifiedLog) -> None:
        """The log is about to be truncated in a thread: compaction, retention and flushes pass it over."""
        self._truncating.add(log)
        if self.cleaner is not None:
            self.cleaner.abort_and_pause_cleaning((log.topic, log.partition))

    def reopen_after_truncation(self, log: UnifiedLog) -> None:
        """The truncation has ended."""
        self._truncating.discard(log)
        if self.cleaner is not None:
            self.cleaner.resume_cleaning((log.topic, log.partition))

    def abort_cleaning(self, log: UnifiedLog) -> None:
        """Aborts a compaction of the log, which does not change it after the return."""
        if self.cleaner is not None:
            self.cleaner.abort_cleaning((log.topic, log.partition))

    def _truncate_cleaner_offset(self, directory: LogDir, log: UnifiedLog) -> None:
        """Lowers the cleaner checkpoint: records that are appended from here on were never compacted."""
        if self.cleaner is not None:
            key, base_offset = (log.topic, log.partition), log.segments[-1].base_offset
            self.cleaner.maybe_truncate_checkpoint(directory, key, base_offset)

    def update_configs(
        self, config_of: Callable[[UnifiedLog], "LogConfig"], logs: Iterable[UnifiedLog] | None = None
    ) -> None:
        """Applies the current configuration to `logs`, or to every log; aborts compactions that it disables."""
        for log in (*self.all_logs(), *self.future_logs()) if logs is None else logs:
            config = config_of(log)
            if config is log.config or config == log.config:
                continue
            if log.config.compact and not config.compact and self.cleaner is not None:
                self.cleaner.call_off_cleaning((log.topic, log.partition))
            log.update_config(config)

    def expire_producers_after(self, expiration_ms: int) -> None:
        """Applies another producer.id.expiration.ms to every log, also to those that are opened later."""
        self._expiration_ms = expiration_ms
        for log in (*self.all_logs(), *self.future_logs()):
            log.producer_state_manager.expiration_ms = expiration_ms

    # -- periodic work of the broker --

    def cleanup_logs(self) -> int:
        """Applies retention to all logs but compacted ones, the cleaner's; returns how many segments it deleted.

        Future logs follow the log that they will replace.
        """
        return sum(
            self.retain(log)
            for log in self.all_logs()
            if self.cleaner is None or self.cleaner.may_retain(log)
        )

    def retain(self, log: UnifiedLog) -> int:
        """Applies retention to one log; returns how many segments it deleted. A failing disk goes offline."""
        if log.is_failed or log in self._truncating:
            return 0
        try:
            return log.delete_old_segments()
        except (DiskFullError, OutOfResourcesError, CorruptRecordError) as error:
            logger.warning("%s", error)
        except KafkaStorageError as error:
            self.log_dir_failed(self.directory_of(log).path, str(error))
        return 0

    def logs_to_flush(self) -> list[UnifiedLog]:
        """The logs that are due for `prepare_flush`: flush.ms or flush.messages reached, or rolled since the last.

        The move that fills a future log flushes it.
        """
        now_ms = self._env.now_ms()
        return [log for log in self._logs.values() if log.needs_flush(now_ms) and log not in self._truncating]

    def take_due_deletions(self, now_ms: int | None = None) -> list[Deletion]:
        """The deletions whose delay is over, for the caller to `run`, in a thread if it likes."""
        return self._deletions.take_due(self._env.now_ms() if now_ms is None else now_ms)

    def remove_expired_producers(self) -> int:
        """Removes producers that were idle for producer.id.expiration.ms; returns how many."""
        now_ms = self._env.now_ms()
        return sum(
            log.producer_state_manager.remove_expired_producers(now_ms)
            for log in self._logs.values()
            if log not in self._truncating
        )

    # -- shutdown --

    def shutdown(self, broker_epoch: int = -1, run_all: RunAll = run_all_in_turn) -> None:
        """Flushes, closes and checkpoints everything, and writes the marker of a clean stop if nothing failed.

        `run_all` closes the logs, in threads if it likes, since that waits for the disk.
        """
        self.open_segments.limit = NO_LIMIT  # or one thread would close another's segments
        run_all([closing for directory in self.dirs for closing in directory.closings()])
        for directory in self.dirs:
            directory.finish_shutdown(broker_epoch)
        self._logs.clear()
        self._future_logs.clear()

    def abandon(self) -> None:
        """Releases files and locks without a clean stop, as a killed process does."""
        for directory in self.dirs:
            for log in directory.logs.values():
                log.release()
            directory.unlock()
        self._logs.clear()
        self._future_logs.clear()

"""LogManager: the log directories of one broker, and every log in them.

It locks the directories, reads and writes what says whose they are, loads the logs, makes and deletes them, and keeps
the checkpoints. It has no threads and no schedule of its own: the broker calls `cleanup_logs`, `checkpoint_*`,
`take_due_deletions` and the flush of `logs_to_flush` when their time has come.
"""

import logging
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from storage.checkpoints import MetaProperties, TopicPartition
from storage.deletion import Deletion, DeletionQueue
from storage.env import Env
from storage.errors import InconsistentMetadataError, KafkaStorageError
from storage.log_dir import LogDir
from storage.log_loader import DEFAULT_PRODUCER_ID_EXPIRATION_MS, open_log
from storage.new_directories import NewDirectories
from storage.open_segments import DESCRIPTORS_PER_SEGMENT, OpenSegments
from storage.unified_log import UnifiedLog

if TYPE_CHECKING:
    from config.log_config import LogConfig
    from storage.log_cleaner_manager import LogCleanerManager

DELETE_DIR_SUFFIX: Final = "-delete"
FUTURE_DIR_SUFFIX: Final = "-future"
STRAY_DIR_SUFFIX: Final = "-stray"
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
MAX_DIR_NAME: Final = 255
_PARTITION_DIR: Final = re.compile(r"(.+)-(\d+)")
_ODD_DIR: Final = re.compile(r".+-\d+\.[0-9a-f]{32}(-delete|-future|-stray)")

logger = logging.getLogger("barnabas.storage")


class LogManager:
    """The logs of one broker, over one or more log directories."""

    __slots__ = (
        "_config_of",
        "_deletions",
        "_env",
        "_expiration_ms",
        "_logs",
        "_open_segments",
        "_planned",
        "cleaner",
        "dirs",
    )

    def __init__(
        self,
        env: Env,
        log_dirs: Sequence[str],
        config_of: Callable[[str], "LogConfig"],
        *,
        producer_id_expiration_ms: int = DEFAULT_PRODUCER_ID_EXPIRATION_MS,
        max_open_segments: int | None = None,
        min_free_bytes: int = 0,
    ) -> None:
        """`config_of(topic)` is asked for the configuration of each log that is opened. Touches nothing yet.

        `max_open_segments` bounds what is kept open (`OpenSegments`); by default half of the descriptors that the
        process may have go there. `min_free_bytes` is what a DiskSpace takes.
        """
        self._env = env
        self._config_of = config_of
        self._expiration_ms = producer_id_expiration_ms
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._deletions = DeletionQueue(env)
        self._planned: dict[TopicPartition, tuple[LogDir, NewDirectories]] = {}
        limit = max_open_segments or env.max_open_files() // 2 // DESCRIPTORS_PER_SEGMENT
        self._open_segments = OpenSegments(limit)
        self.cleaner: LogCleanerManager | None = None  # which makes itself known
        self.dirs = [LogDir(env, path.rstrip("/") or "/", min_free_bytes) for path in log_dirs]

    # -- the directories --

    def lock_dirs(self) -> None:
        """Makes the directories where they are missing and claims them. Raises LogDirLockedError, OSError."""
        for directory in self.dirs:
            directory.lock()

    def load_meta_properties(self) -> MetaProperties | None:
        """What the directories agree on; None when none of them is formatted. Raises InconsistentMetadataError."""
        found = [properties for directory in self.dirs if (properties := directory.load_meta_properties())]
        for other in found[1:]:
            if (other.cluster_id, other.node_id) != (found[0].cluster_id, found[0].node_id):
                raise InconsistentMetadataError(
                    f"log.dirs belong to different brokers: cluster {found[0].cluster_id} node {found[0].node_id}, "
                    f"and cluster {other.cluster_id} node {other.node_id}"
                )
        return found[0] if found else None

    def format_dirs(self, cluster_id: str, node_id: int, new_directory_id: Callable[[], str]) -> None:
        """Writes meta.properties into each directory that has none. Raises OSError."""
        for directory in self.dirs:
            if directory.meta_properties is None:
                directory.format(MetaProperties(cluster_id, node_id, new_directory_id()))

    # -- loading --

    def load_logs(self, on_loaded: "Callable[[UnifiedLog], None] | None" = None) -> None:
        """Opens every log in the directories, recovering those that were not stopped cleanly.

        What is no partition directory is left alone. `on_loaded` hears of each, for progress. Raises OSError.
        """
        for directory in self.dirs:
            names = sorted(self._env.listdir(directory.path))
            directory.start_loading()
            for name in names:
                if self._env.is_dir(f"{directory.path}/{name}"):
                    log = self._load_dir(directory, name)
                    if log is not None and on_loaded is not None:
                        on_loaded(log)

    def _load_dir(self, directory: LogDir, name: str) -> UnifiedLog | None:
        path = f"{directory.path}/{name}"
        odd = _ODD_DIR.fullmatch(name)
        if odd is not None:
            if odd[1] == DELETE_DIR_SUFFIX:
                self._deletions.add(0, [], path)
            else:
                logger.warning("%s is left alone: %s directories are not opened", path, odd[1])
            return None
        parsed = _PARTITION_DIR.fullmatch(name)
        if parsed is None:
            logger.warning("%s is left alone: it is no partition's directory", path)
            return None
        topic, partition = parsed[1], int(parsed[2])
        if topic == CLUSTER_METADATA_TOPIC:
            return None  # the metadata log has an owner of its own
        if (topic, partition) in self._logs:
            raise InconsistentMetadataError(
                f"{path} and {self._logs[topic, partition].directory} are logs of the same partition"
            )
        log = self._open(directory, topic, partition, is_new=False)
        log.update_high_watermark(directory.high_watermarks.get((topic, partition), log.log_start_offset))
        return log

    def _open(self, directory: LogDir, topic: str, partition: int, *, is_new: bool) -> UnifiedLog:
        key = (topic, partition)
        log = open_log(
            self._env,
            f"{directory.path}/{topic}-{partition}",
            topic,
            partition,
            self._config_of(topic),
            is_clean=directory.had_clean_shutdown and not is_new,
            log_start_offset=0 if is_new else directory.log_start_offsets.get(key, 0),
            recovery_point=0 if is_new else directory.recovery_points.get(key, 0),
            deletions=self._deletions,
            open_segments=self._open_segments,
            producer_id_expiration_ms=self._expiration_ms,
        )
        log.disk_space = directory.space
        self._logs[key] = log
        directory.logs[key] = log
        return log

    # -- the logs --

    def __len__(self) -> int:
        return len(self._logs)

    def all_logs(self) -> Iterator[UnifiedLog]:
        """Every open log."""
        return iter(list(self._logs.values()))

    def get_log(self, topic: str, partition: int) -> UnifiedLog | None:
        return self._logs.get((topic, partition))

    def directory_of(self, log: UnifiedLog) -> LogDir:
        """The log directory that a log lies in."""
        key = (log.topic, log.partition)
        return next(directory for directory in self.dirs if directory.logs.get(key) is log)

    def prepare_logs(self, wanted: Sequence[tuple[str, int, bytes]]) -> NewDirectories:
        """Plans the directories of new logs, given as (topic, partition, topic id), where they will be created.

        Running what it returns, in a thread, spares `get_or_create_log` the waiting for the disk. Raises OSError.
        """
        job = NewDirectories(self._env)
        counts = {directory: len(directory.logs) for directory in self.dirs}
        for topic, partition, topic_id in wanted:
            if (topic, partition) in self._logs:
                continue
            directory = min(counts, key=lambda candidate: (candidate.space.is_full, counts[candidate]))
            counts[directory] += 1
            directory.forget(topic, partition)
            job.add(directory.path, f"{topic}-{partition}", topic_id)
            self._planned[topic, partition] = (directory, job)
        return job

    def get_or_create_log(self, topic: str, partition: int, topic_id: bytes | None = None) -> UnifiedLog:
        """The log of a partition; a new one goes where it was planned, or into the directory that has the fewest.

        Raises InconsistentTopicIdError when the directory is that of another incarnation, KafkaStorageError.
        """
        log = self._logs.get((topic, partition))
        try:
            if log is None:
                directory, job = self._planned.pop((topic, partition), (None, None))
                if directory is None:
                    directory = min(
                        self.dirs, key=lambda candidate: (candidate.space.is_full, len(candidate.logs))
                    )
                    directory.forget(topic, partition)
                log = self._open(directory, topic, partition, is_new=True)
                if job is None or not job.is_done:
                    self._env.sync_dir(directory.path)
            if topic_id is not None:
                log.assign_topic_id(topic_id)
        except OSError as error:
            raise KafkaStorageError(f"{topic}-{partition} cannot be opened: {error}") from error
        return log

    def delete_log(self, topic: str, partition: int) -> bool:
        """Takes a log away: its directory is renamed now and removed after file.delete.delay.ms. False: there was none.

        Raises KafkaStorageError.
        """
        return self._take_away(topic, partition, DELETE_DIR_SUFFIX)

    def mark_stray(self, topic: str, partition: int) -> bool:
        """Puts a log that belongs to no topic aside: its directory is renamed and kept. False: there was none."""
        return self._take_away(topic, partition, STRAY_DIR_SUFFIX)

    def _take_away(self, topic: str, partition: int, suffix: str) -> bool:
        log = self._logs.get((topic, partition))
        if log is None:
            return False
        directory = self.directory_of(log)
        self._abort_cleaning(log)
        try:
            log.release()
            log.rename_dir(f"{directory.path}/{self._odd_name(log, suffix)}")
            if suffix == STRAY_DIR_SUFFIX:  # a deletion is durable where it was decided
                self._env.sync_dir(directory.path)
        except OSError as error:
            raise KafkaStorageError(f"{log.name} cannot be renamed: {error}") from error
        log.fail("it was deleted" if suffix == DELETE_DIR_SUFFIX else "it was put aside")
        del self._logs[topic, partition], directory.logs[topic, partition]
        if self.cleaner is not None:
            self.cleaner.partition_removed(directory, (topic, partition))
        if suffix == DELETE_DIR_SUFFIX:
            self._deletions.add(log.config.file_delete_delay_ms, [], log.directory)
        return True

    def _odd_name(self, log: UnifiedLog, suffix: str) -> str:
        """topic-partition.uniqueid-suffix, as Kafka names it; a long topic is cut so that the name is a file name."""
        tail = f"-{log.partition}.{self._env.random_bytes(16).hex()}{suffix}"
        return log.topic[: MAX_DIR_NAME - len(tail)] + tail

    def truncate_to(self, log: UnifiedLog, offset: int) -> bool:
        """`UnifiedLog.truncate_to`, and the recovery point on disk before anything is appended again.

        Otherwise a crash could take what comes after `offset` now for what was synced there before. Raises
        KafkaStorageError, OSError.
        """
        if offset < log.segments[-1].base_offset:
            self._abort_cleaning(log)
        was_cut = log.truncate_to(offset)
        if was_cut:
            directory = self.directory_of(log)
            self._truncate_cleaner_offset(directory, log)
            directory.recovery_point_job()()
        return was_cut

    def truncate_fully_and_start_at(self, log: UnifiedLog, offset: int) -> None:
        """`UnifiedLog.truncate_fully_and_start_at`, with the checkpoints that follow from it."""
        self._abort_cleaning(log)
        log.truncate_fully_and_start_at(offset)
        directory = self.directory_of(log)
        self._truncate_cleaner_offset(directory, log)
        directory.checkpoint_all()

    def _abort_cleaning(self, log: UnifiedLog) -> None:
        if self.cleaner is not None:
            self.cleaner.abort_cleaning((log.topic, log.partition))

    def _truncate_cleaner_offset(self, directory: LogDir, log: UnifiedLog) -> None:
        """What the log gets from here on was never compacted, whatever stood at those offsets before."""
        if self.cleaner is not None:
            key, base_offset = (log.topic, log.partition), log.segments[-1].base_offset
            self.cleaner.maybe_truncate_checkpoint(directory, key, base_offset)

    def update_config(self, topic: str, config: "LogConfig") -> None:
        """Has every log of a topic go by another configuration."""
        for log in self._logs.values():
            if log.topic == topic:
                log.update_config(config)

    # -- what the broker calls on its schedule --

    def cleanup_logs(self) -> int:
        """Retention: deletes the segments that may go in all logs; how many. The cleaner does it for compacted ones."""
        deleted = 0
        for log in self.all_logs():
            if not log.is_failed and (self.cleaner is None or self.cleaner.may_retain(log)):
                try:
                    deleted += log.delete_old_segments()
                except KafkaStorageError as error:
                    logger.warning("%s", error)
        return deleted

    def logs_to_flush(self) -> list[UnifiedLog]:
        """The logs that are due for `prepare_flush`: flush.ms and flush.messages reached, or rolled since the last."""
        now_ms = self._env.now_ms()
        return [log for log in self._logs.values() if log.needs_flush(now_ms)]

    def take_due_deletions(self, now_ms: int | None = None) -> list[Deletion]:
        """Files and directories whose delay is over; the caller has them `run`, in a thread if it likes."""
        return self._deletions.take_due(self._env.now_ms() if now_ms is None else now_ms)

    def recovery_point_jobs(self) -> list[Callable[[], None]]:
        """Saves how far each log is on stable storage: one job a directory, for a thread or to be called at once.

        What is written is settled now, and an older job never overwrites a newer one. Each raises OSError; so below.
        """
        return [directory.recovery_point_job() for directory in self.dirs]

    def log_start_offset_jobs(self) -> list[Callable[[], None]]:
        """Saves the log start offsets that do not follow from the segments."""
        return [directory.log_start_offset_job() for directory in self.dirs]

    def high_watermark_jobs(self) -> list[Callable[[], None]]:
        """Saves the high watermarks."""
        return [directory.high_watermark_job() for directory in self.dirs]

    def checkpoint_all(self) -> None:
        """Writes all checkpoints at once. Raises OSError."""
        for directory in self.dirs:
            directory.checkpoint_all()

    def remove_expired_producers(self) -> int:
        """Forgets producers that have been silent for producer.id.expiration.ms; how many."""
        now_ms = self._env.now_ms()
        return sum(log.producer_state_manager.remove_expired_producers(now_ms) for log in self._logs.values())

    # -- the end --

    def shutdown(self, broker_epoch: int = -1) -> None:
        """Flushes, closes and checkpoints everything, and leaves the marker of a clean stop where all went well."""
        for directory in self.dirs:
            directory.shutdown(broker_epoch)
        self._logs.clear()

    def abandon(self) -> None:
        """Gives files and locks back without a word: what a killed process does."""
        for directory in self.dirs:
            for log in directory.logs.values():
                log.release()
            directory.unlock()
        self._logs.clear()

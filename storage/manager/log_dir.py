"""LogDir: one entry of log.dirs: its lock, its identity, its clean-stop marker, its checkpoints."""

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.protocol.records.errors import CorruptRecordError
from barnabas.protocol.wire import uuid_from_string
from barnabas.storage.env import Env, Lock, make_directory
from barnabas.storage.errors import (
    CorruptCheckpointError,
    KafkaStorageError,
    LogDirLockedError,
    suppress_no_space,
)
from barnabas.storage.log.checkpoints import (
    CLEANER_OFFSET_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    CleanShutdownFile,
    MetaProperties,
    OffsetCheckpointFile,
)
from barnabas.storage.log.disk_space import DiskSpace
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.storage.log.unified_log import UnifiedLog

logger = logging.getLogger("barnabas.storage")


class LogDir:
    """One log directory and the logs in it."""

    __slots__ = (
        "_clean_shutdown",
        "_cleaner_checkpoint",
        "_env",
        "_high_watermark_checkpoint",
        "_lock",
        "_log_start_checkpoint",
        "_recovery_checkpoint",
        "_saved_cleaner_offsets",
        "_was_closed",
        "cleaner_offsets",
        "had_clean_shutdown",
        "high_watermarks",
        "log_start_offsets",
        "logs",
        "meta_properties",
        "path",
        "recovery_points",
        "space",
    )

    def __init__(self, env: Env, path: str, min_free_bytes: int = 0) -> None:
        self._env = env
        self.space = DiskSpace(env, path, min_free_bytes)
        self._lock: Lock | None = None
        self._clean_shutdown = CleanShutdownFile(env, path)
        self._recovery_checkpoint = OffsetCheckpointFile(env, f"{path}/{RECOVERY_POINT_CHECKPOINT}")
        self._log_start_checkpoint = OffsetCheckpointFile(env, f"{path}/{LOG_START_OFFSET_CHECKPOINT}")
        self._high_watermark_checkpoint = OffsetCheckpointFile(env, f"{path}/{HIGH_WATERMARK_CHECKPOINT}")
        self._cleaner_checkpoint = OffsetCheckpointFile(env, f"{path}/{CLEANER_OFFSET_CHECKPOINT}")
        self._saved_cleaner_offsets: dict[TopicPartition, int] = {}
        self.path = path
        self.meta_properties: MetaProperties | None = None
        self.had_clean_shutdown = False
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaner_offsets: dict[TopicPartition, int] = {}  # where the part begins that was never compacted
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self._was_closed = True

    # -- whose it is --

    def lock(self) -> None:
        """Makes the directory when missing and claims it. Raises LogDirLockedError, OSError."""
        make_directory(self._env, self.path)
        self._lock = self._env.lock(f"{self.path}/{LOCK}")
        if self._lock is None:
            raise LogDirLockedError(f"another process works in {self.path}: it holds {LOCK} there")
        self.space.find_reserve()
        self.space.check()
        if self.space.needs_reserve:
            self.space.release_reserve()

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def load_meta_properties(self) -> MetaProperties | None:
        """Reads meta.properties. Raises InconsistentMetadataError when it makes no sense."""
        self.meta_properties = MetaProperties.read(self._env, self.path)
        return self.meta_properties

    def format(self, meta_properties: MetaProperties) -> None:
        """Writes meta.properties. Raises OSError."""
        meta_properties.write(self._env, self.path)
        self.meta_properties = meta_properties

    @property
    def directory_id(self) -> bytes | None:
        """directory.id of meta.properties, by which the metadata say where a replica lies; None before it has one."""
        if self.meta_properties is None:
            return None
        try:
            return uuid_from_string(self.meta_properties.directory_id)
        except ValueError:
            return None

    # -- loading --

    def start_loading(self) -> None:
        """Reads marker and checkpoints; the marker goes now, so that a crash from here on is seen as one."""
        self.had_clean_shutdown = self._clean_shutdown.exists()
        self._clean_shutdown.remove()
        self.recovery_points = self._read(self._recovery_checkpoint)
        self.log_start_offsets = self._read(self._log_start_checkpoint)
        self.high_watermarks = self._read(self._high_watermark_checkpoint)
        self.cleaner_offsets = self._read(self._cleaner_checkpoint)
        self._saved_cleaner_offsets = dict(self.cleaner_offsets)
        for name in (
            CLEANER_OFFSET_CHECKPOINT,
            HIGH_WATERMARK_CHECKPOINT,
            LOG_START_OFFSET_CHECKPOINT,
            RECOVERY_POINT_CHECKPOINT,
        ):
            if not self._env.exists(f"{self.path}/{name}"):
                with suppress_no_space():
                    self._env.open(f"{self.path}/{name}", create=True).close()

    def _read(self, checkpoint: OffsetCheckpointFile) -> "dict[TopicPartition, int]":
        try:
            return checkpoint.read()
        except CorruptCheckpointError as error:
            logger.warning("%s; going on without it", error)
            return {}

    def forget(self, topic: str, partition: int) -> None:
        """Makes sure that no checkpoint speaks of a partition that is about to be made anew. Raises OSError."""
        key = (topic, partition)
        self.cleaner_offsets.pop(key, None)
        known = (
            self.recovery_points,
            self.log_start_offsets,
            self.high_watermarks,
            self._saved_cleaner_offsets,
        )
        if any(key in offsets for offsets in known):
            self.checkpoint_all()

    # -- checkpoints: what is written is settled by the call; the writing may go to a thread, and raises OSError --

    def recovery_point_job(self) -> Callable[[], None]:
        """How far each log is on stable storage."""
        self.recovery_points = {key: log.recovery_point for key, log in self.logs.items()}
        return self._recovery_checkpoint.prepare(self.recovery_points)

    def log_start_offset_job(self) -> Callable[[], None]:
        """Where logs start, as far as that is not at the beginning.

        Kafka leaves out those that follow from the first segment's name; but the deletion of the segments before it
        may be undone by a crash of the machine, and then they would show what clients have deleted.
        """
        self.log_start_offsets = {
            key: log.log_start_offset for key, log in self.logs.items() if log.log_start_offset > 0
        }
        return self._log_start_checkpoint.prepare(self.log_start_offsets)

    def high_watermark_job(self) -> Callable[[], None]:
        """How far each log is replicated."""
        self.high_watermarks = {key: log.high_watermark for key, log in self.logs.items()}
        return self._high_watermark_checkpoint.prepare(self.high_watermarks)

    def cleaner_offset_job(self) -> Callable[[], None]:
        """How far compaction got in each log."""
        self._saved_cleaner_offsets = dict(self.cleaner_offsets)
        return self._cleaner_checkpoint.prepare(self.cleaner_offsets)

    def checkpoint_jobs(self) -> list[Callable[[], None]]:
        """All four, the last only where it has something new to say."""
        jobs = [self.recovery_point_job(), self.log_start_offset_job(), self.high_watermark_job()]
        if self.cleaner_offsets != self._saved_cleaner_offsets:
            jobs.append(self.cleaner_offset_job())
        return jobs

    def checkpoint_all(self) -> None:
        """Writes them at once. Raises OSError."""
        for job in self.checkpoint_jobs():
            job()

    # -- the end --

    def closings(self) -> list[Callable[[], None]]:
        """The flushing and closing of each log, each for any thread; none of them raises."""
        return [partial(self._close, log) for log in self.logs.values()]

    def _close(self, log: "UnifiedLog") -> None:
        try:
            if not log.is_failed:
                log.flush()
            log.close()
        except (KafkaStorageError, CorruptRecordError, OSError) as error:
            logger.warning("%s was not closed cleanly: %s", log.name, error)
            self._was_closed = False
        if log.is_failed:
            self._was_closed = False

    def finish_shutdown(self, broker_epoch: int) -> None:
        """Writes the checkpoints once the logs are closed; the marker of a clean stop where nothing failed."""
        try:
            self.checkpoint_all()
            if self._was_closed:
                self._clean_shutdown.write(broker_epoch)
        except OSError as error:
            logger.warning("%s was not stopped cleanly: %s", self.path, error)
        finally:
            self.logs.clear()
            self.unlock()

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
        self.previous_broker_epoch = -1
        """The broker epoch of the clean stop before this start, for brokers that ask; see read_clean_shutdown."""
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_start_offsets: dict[TopicPartition, int] = {}
        self.high_watermarks: dict[TopicPartition, int] = {}
        self.cleaner_offsets: dict[TopicPartition, int] = {}  # the first dirty offsets
        self.logs: dict[TopicPartition, UnifiedLog] = {}
        self._was_closed = True
        self._awaits_loading = False

    # -- identity --

    def lock(self) -> None:
        """Creates the directory if missing and locks it. Raises LogDirLockedError, OSError."""
        make_directory(self._env, self.path)
        self._lock = self._env.lock(f"{self.path}/{LOCK}")
        if self._lock is None:
            raise LogDirLockedError(f"another process uses {self.path}: it holds {LOCK} there")
        self.space.find_reserve()
        self.space.check()
        if self.space.needs_reserve:
            self.space.release_reserve()

    def unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def load_meta_properties(self) -> MetaProperties | None:
        """Reads meta.properties. Raises InconsistentMetadataError if it is invalid."""
        self.meta_properties = MetaProperties.read(self._env, self.path)
        return self.meta_properties

    def format(self, meta_properties: MetaProperties) -> None:
        """Writes meta.properties. Raises OSError."""
        meta_properties.write(self._env, self.path)
        self.meta_properties = meta_properties

    @property
    def directory_id(self) -> bytes | None:
        """directory.id of meta.properties, which the metadata use for the directory of a replica; None without one."""
        if self.meta_properties is None:
            return None
        try:
            return uuid_from_string(self.meta_properties.directory_id)
        except ValueError:
            return None

    # -- loading --

    def read_clean_shutdown(self) -> None:
        """Reads the broker epoch of the marker, some time before loading, which removes it. Raises OSError."""
        self.previous_broker_epoch = self._clean_shutdown.read_epoch()
        self._awaits_loading = True

    def start_loading(self) -> None:
        """Reads marker and checkpoints, and removes the marker, so that a later crash is detected."""
        self._awaits_loading = False
        self.had_clean_shutdown = self._clean_shutdown.exists()
        self._clean_shutdown.remove()
        self._was_closed = False
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
            logger.warning("%s; continuing without it", error)
            return {}

    def forget(self, topic: str, partition: int) -> None:
        """Removes a partition that is about to be created from all checkpoints. Raises OSError."""
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

    # -- checkpoints: a call fixes the content; the job that writes it may run in a thread, and raises OSError --

    def recovery_point_job(self) -> Callable[[], None]:
        """Writes the recovery points."""
        self.recovery_points = {key: log.recovery_point for key, log in self.logs.items()}
        return self._recovery_checkpoint.prepare(self.recovery_points)

    def log_start_offset_job(self) -> Callable[[], None]:
        """Writes the log start offsets above 0.

        Kafka omits those that equal the first segment's base offset; but a power cut may restore the deleted segments
        before it, and with them records that clients have deleted.
        """
        self.log_start_offsets = {
            key: log.log_start_offset for key, log in self.logs.items() if log.log_start_offset > 0
        }
        return self._log_start_checkpoint.prepare(self.log_start_offsets)

    def high_watermark_job(self) -> Callable[[], None]:
        """Writes the high watermarks."""
        self.high_watermarks = {key: log.high_watermark for key, log in self.logs.items()}
        return self._high_watermark_checkpoint.prepare(self.high_watermarks)

    def cleaner_offset_job(self) -> Callable[[], None]:
        """Writes the first dirty offsets."""
        self._saved_cleaner_offsets = dict(self.cleaner_offsets)
        return self._cleaner_checkpoint.prepare(self.cleaner_offsets)

    def checkpoint_jobs(self) -> list[Callable[[], None]]:
        """All four, the last only if it has changed."""
        jobs = [self.recovery_point_job(), self.log_start_offset_job(), self.high_watermark_job()]
        if self.cleaner_offsets != self._saved_cleaner_offsets:
            jobs.append(self.cleaner_offset_job())
        return jobs

    def checkpoint_all(self) -> None:
        """Writes all checkpoints at once. Raises OSError."""
        for job in self.checkpoint_jobs():
            job()

    def finish_loading(self) -> None:
        """All logs are open and recovered: from here on a stop may be a clean one.

        A kill within a truncation leaves a recovery point beyond the end of the log. It is lowered before the next
        append: otherwise, after a crash, later records at these offsets would count as synced. Raises OSError.
        """
        if any(log.recovery_point < self.recovery_points.get(key, 0) for key, log in self.logs.items()):
            with suppress_no_space():
                self.recovery_point_job()()
        self._was_closed = True

    # -- shutdown --

    def closings(self) -> list[Callable[[], None]]:
        """Jobs that flush and close each log, for any thread; none of them raises."""
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
        """Writes the checkpoints after the logs are closed, and the marker of a clean stop if nothing failed.

        A directory whose logs were to be loaded later, and were not, stays as it was.
        """
        try:
            if self._awaits_loading:
                return
            self.checkpoint_all()
            if self._was_closed:
                self._clean_shutdown.write(broker_epoch)
        except OSError as error:
            logger.warning("%s was not stopped cleanly: %s", self.path, error)
        finally:
            self.logs.clear()
            self.unlock()

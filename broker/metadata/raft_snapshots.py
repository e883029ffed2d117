"""RaftSnapshots: the snapshots beside a metadata log: when the next one is due, and which are deleted, with the log."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from threading import RLock
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.snapshot_files import (
    MAX_BATCH_BYTES,
    Control,
    Snapshot,
    SnapshotId,
    is_leftover,
    read_snapshot,
    read_timestamp_ms,
    write_snapshot,
)
from barnabas.config.catalogue.controller import (
    INTERNAL_METADATA_DELETE_DELAY_MILLIS,
    INTERNAL_METADATA_LOG_SEGMENT_BYTES,
    INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES,
    METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS,
    METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS,
    METADATA_LOG_SEGMENT_BYTES,
    METADATA_LOG_SEGMENT_MS,
    METADATA_MAX_RETENTION_BYTES,
    METADATA_MAX_RETENTION_MS,
)
from barnabas.config.log_config import LogConfig
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.storage.env import Env, remove_if_exists
from barnabas.storage.log.deletion import DeletionQueue
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import FetchIsolation, LogStartOffsetIncrementReason

if TYPE_CHECKING:
    from barnabas.config.broker_config import BrokerConfig
    from barnabas.protocol.schema import Message

NO_SNAPSHOT: Final = SnapshotId(0, 0)

logger = logging.getLogger("barnabas.metadata")


class RaftLogSettings(NamedTuple):
    """The settings of a metadata log, with Kafka's defaults. Negative: no bound. Interval 0: by bytes alone."""

    segment_bytes: int = METADATA_LOG_SEGMENT_BYTES.default
    segment_ms: int = METADATA_LOG_SEGMENT_MS.default
    max_batch_bytes: int = MAX_BATCH_BYTES
    retention_bytes: int = METADATA_MAX_RETENTION_BYTES.default
    retention_ms: int = METADATA_MAX_RETENTION_MS.default
    snapshot_bytes: int = METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS.default
    snapshot_interval_ms: int = METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS.default
    delete_delay_ms: int = INTERNAL_METADATA_DELETE_DELAY_MILLIS.default

    @classmethod
    def of(cls, config: BrokerConfig) -> RaftLogSettings:
        """The settings of a broker's configuration."""
        segment_bytes = config[INTERNAL_METADATA_LOG_SEGMENT_BYTES] or config[METADATA_LOG_SEGMENT_BYTES]
        return cls(
            segment_bytes=segment_bytes,
            segment_ms=config[METADATA_LOG_SEGMENT_MS],
            max_batch_bytes=config[INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES],
            retention_bytes=config[METADATA_MAX_RETENTION_BYTES],
            retention_ms=config[METADATA_MAX_RETENTION_MS],
            snapshot_bytes=config[METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS],
            snapshot_interval_ms=config[METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS],
            delete_delay_ms=config[INTERNAL_METADATA_DELETE_DELAY_MILLIS],
        )

    @property
    def log_config(self) -> LogConfig:
        """The configuration of the log itself: retention is that of the snapshots, so the log has none of its own."""
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            max_message_bytes=self.max_batch_bytes,
            retention_ms=-1,
            retention_bytes=-1,
            file_delete_delay_ms=self.delete_delay_ms,
        )


DEFAULT_SETTINGS: Final = RaftLogSettings()


class RaftSnapshots:
    """The snapshots of one log.

    `write` may run while the log is appended to; `lock` protects the log.
    """

    def __init__(
        self,
        env: Env,
        log: UnifiedLog,
        settings: RaftLogSettings,
        deletions: DeletionQueue,
        lock: RLock,
    ) -> None:
        """Finds the snapshots; removes incomplete ones, and the log where it ends before the latest.

        Raises MetadataLogError where the first records of the log are deleted and no snapshot has them; StorageError,
        OSError.
        """
        self._env = env
        self._log = log
        self._settings = settings
        self._deletions = deletions
        self._lock = lock
        self._bytes_since = 0
        self._demanded = 0
        self._last_ms = env.now_ms()
        self.written_bytes = 0
        self.written_ms = self._last_ms
        self.ids: list[SnapshotId] = []
        self._whole: set[SnapshotId] = set()  # those that were read or written completely
        self._recover()

    @property
    def latest(self) -> SnapshotId | None:
        return self.ids[-1] if self.ids else None

    @property
    def latest_epoch(self) -> int:
        return self.ids[-1].epoch if self.ids else 0

    def path(self, snapshot_id: SnapshotId) -> str:
        return f"{self._log.directory}/{snapshot_id.file_name}"

    # -- opening --

    def _recover(self) -> None:
        names = self._env.listdir(self._log.directory)
        start_offset = self._log.log_start_offset
        found = sorted(snapshot for name in names if (snapshot := SnapshotId.of(name)) is not None)
        self.ids = [snapshot for snapshot in found if snapshot.end_offset >= start_offset]
        if start_offset > 0 and not self.ids:
            raise MetadataLogError(
                f"{self._log.directory} begins at offset {start_offset}, and the snapshot of what is before is missing"
            )
        for name in [name for name in names if is_leftover(name)]:
            remove_if_exists(self._env, f"{self._log.directory}/{name}")
        for snapshot in found[: len(found) - len(self.ids)]:
            remove_if_exists(self._env, self.path(snapshot))
        self.maybe_start_log_at_latest()

    def maybe_start_log_at_latest(self) -> None:
        """Starts the log at the latest snapshot if that ends beyond it: the log has lost its end, or was never here."""
        latest = self.latest
        if latest is None:
            return
        log_id = SnapshotId(self._log.log_end_offset, max(self._log.latest_epoch, 0))
        is_beyond = (latest.epoch, latest.end_offset) > (log_id.epoch, log_id.end_offset)
        if is_beyond and latest.end_offset > 0:
            logger.warning(
                "the metadata log ends at %d; it restarts at its latest snapshot, %d",
                log_id.end_offset,
                latest.end_offset,
            )
            self._log.truncate_fully_and_start_at(latest.end_offset)
            self.ids = [latest]

    def latest_whole(self) -> tuple[SnapshotId, Snapshot | None]:
        """The latest snapshot that can be read, if the log has everything after it; (NO_SNAPSHOT, None) without any.

        Raises MetadataLogError where none can be read and the log does not begin at 0; OSError.
        """
        failure: MetadataLogError | None = None
        for snapshot_id in reversed(self.ids):
            try:
                snapshot = read_snapshot(self._env, self.path(snapshot_id))
            except MetadataLogError as error:
                failure = failure or error
                logger.error("%s; reading an older one, with more of the log", error)
            else:
                self._whole.add(snapshot_id)
                return snapshot_id, snapshot
        if failure is not None and self._log.log_start_offset > 0:
            raise failure
        return NO_SNAPSHOT, None

    # -- cadence --

    def count(self, size: int) -> None:
        """Notes that `size` bytes were appended, or replayed."""
        self._bytes_since += size

    def demand(self, end_offset: int) -> None:
        """Makes a snapshot up to `end_offset` (exclusive) due, of any size."""
        self._demanded = max(self._demanded, end_offset)

    def is_due(self, end_offset: int) -> bool:
        """Whether a snapshot of the image that ends at `end_offset` (exclusive) should be written now."""
        latest_end = 0 if self.latest is None else self.latest.end_offset
        if end_offset <= latest_end or end_offset > self._log.high_watermark:
            return False
        if latest_end < self._demanded <= end_offset:
            return True
        interval_ms = self._settings.snapshot_interval_ms
        is_old = interval_ms > 0 and self._env.now_ms() - self._last_ms >= interval_ms
        return is_old or self._bytes_since >= self._settings.snapshot_bytes

    # -- writing and deleting --

    def write(
        self, snapshot_id: SnapshotId, records: Iterable[Message], metadata_version: int, control: Control
    ) -> bool:
        """Writes a snapshot of committed records, off the log's thread; False where it exists already, or has records
        that are not durable.

        Raises OSError.
        """
        with self._lock:
            self._bytes_since, self._last_ms = 0, self._env.now_ms()
            start, end = self._log.log_start_offset, self._log.high_watermark
            if snapshot_id in self.ids or not start <= snapshot_id.end_offset <= end:
                return False
            timestamp_ms = self._timestamp_ms(snapshot_id.end_offset - 1)
        size = write_snapshot(
            self._env,
            self._log.directory,
            snapshot_id,
            records,
            metadata_version=metadata_version,
            timestamp_ms=timestamp_ms,
            control=control,
        )
        with self._lock:
            self.ids = sorted([*self.ids, snapshot_id])
            self._whole.add(snapshot_id)
            self.written_bytes, self.written_ms = size, self._env.now_ms()
        logger.info("wrote snapshot %s, %d bytes", snapshot_id.file_name, size)
        return True

    def install(self, snapshot_id: SnapshotId) -> None:
        """Starts the log at a whole snapshot of another node, and deletes those before it.

        Raises StorageError, OSError.
        """
        logger.info("the metadata log restarts at snapshot %s of the leader", snapshot_id.file_name)
        self._log.truncate_fully_and_start_at(snapshot_id.end_offset)
        self.ids = sorted({*self.ids, snapshot_id})
        self._whole.add(snapshot_id)
        self._delete_before(snapshot_id)

    def _timestamp_ms(self, offset: int) -> int:
        """When the record at `offset` was appended."""
        info = self._log.read(offset, 1, FetchIsolation.LOG_END, min_one_message=True)
        for batch in batches(info.records.read()):
            if isinstance(batch, RecordBatch):
                return batch.max_timestamp
        return self._env.now_ms()

    def clean(self) -> int:
        """Deletes snapshots beyond retention, oldest first, and the log before the next; returns how many.

        The latest always stays. Raises MetadataLogError, StorageError, OSError.
        """
        with self._lock:
            return self._clean_by_size() + self._clean_by_age()

    def _clean_by_size(self) -> int:
        limit = self._settings.retention_bytes
        if limit < 0 or len(self.ids) < 2:
            return 0
        sizes = {snapshot: self._env.size(self.path(snapshot)) for snapshot in self.ids}
        count = 0
        while self._log.size + sum(sizes[one] for one in self.ids) > limit and (
            successor := self._successor()
        ):
            count += self._delete_before(successor)
        return count

    def _clean_by_age(self) -> int:
        limit_ms = self._settings.retention_ms
        if limit_ms < 0:
            return 0
        now_ms, count = self._env.now_ms(), 0
        while (successor := self._successor()) and now_ms - self._timestamp_of(self.ids[0]) > limit_ms:
            count += self._delete_before(successor)
        return count

    def _timestamp_of(self, snapshot_id: SnapshotId) -> int:
        try:
            return read_timestamp_ms(self._env, self.path(snapshot_id))
        except MetadataLogError as error:
            logger.error("%s; it is deleted with the next one", error)
            return 0

    def _successor(self) -> SnapshotId | None:
        """The first whole snapshot after the oldest, where the log may begin; None where there is none."""
        return next((one for one in self.ids[1:] if self._is_whole(one)), None)

    def _is_whole(self, snapshot_id: SnapshotId) -> bool:
        if snapshot_id not in self._whole:
            try:
                read_snapshot(self._env, self.path(snapshot_id))
            except MetadataLogError as error:
                logger.error("%s; the log before it is kept", error)
                return False
            self._whole.add(snapshot_id)
        return True

    def _delete_before(self, snapshot_id: SnapshotId) -> int:
        """Starts the log at a snapshot's end, and deletes the snapshots before it."""
        self._log.maybe_increment_log_start_offset(
            snapshot_id.end_offset, LogStartOffsetIncrementReason.SNAPSHOT_GENERATED
        )
        self._log.delete_old_segments()
        removed = [one for one in self.ids if one < snapshot_id]
        self.ids = self.ids[len(removed) :]
        paths = []
        for one in removed:
            logger.info("snapshot %s is superseded", one.file_name)
            paths.append(f"{self.path(one)}.deleted")
            self._env.rename(self.path(one), paths[-1])
        self._deletions.add(self._settings.delete_delay_ms, paths)
        return len(removed)

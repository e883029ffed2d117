"""Protocols by which LogManager and its parts call each other without imports."""

from typing import Protocol

from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_dir import LogDir
from barnabas.storage.manager.log_dirs import LogDirs
from barnabas.storage.offsets import TopicPartition
from barnabas.storage.segment.open_segments import OpenSegments


class CleanerHooks(Protocol):
    """The calls of LogManager, and of moves between log directories, to LogCleanerManager."""

    def handle_log_dir_failure(self, path: str) -> None: ...

    def partition_removed(self, directory: LogDir, key: TopicPartition) -> None: ...

    def abort_cleaning(self, key: TopicPartition) -> None: ...

    def call_off_cleaning(self, key: TopicPartition) -> None: ...

    def abort_and_pause_cleaning(self, key: TopicPartition) -> None: ...

    def resume_cleaning(self, key: TopicPartition) -> None: ...

    def maybe_truncate_checkpoint(self, directory: LogDir, key: TopicPartition, offset: int) -> None: ...

    def alter_checkpoint_dir(self, key: TopicPartition, source: LogDir, target: LogDir) -> None: ...

    def may_retain(self, log: UnifiedLog) -> bool: ...


class LogRegistry(Protocol):
    """The part of LogManager that FutureLogs uses."""

    @property
    def dirs(self) -> LogDirs: ...

    @property
    def open_segments(self) -> OpenSegments: ...

    @property
    def cleaner(self) -> CleanerHooks | None: ...

    def get_log(self, topic: str, partition: int) -> UnifiedLog | None: ...

    def directory_of(self, log: UnifiedLog) -> LogDir: ...

    def register(
        self, log: UnifiedLog, directory: LogDir, logs: dict[TopicPartition, UnifiedLog]
    ) -> None: ...

    def open_new(
        self,
        directory: LogDir,
        topic: str,
        partition: int,
        name: str,
        *,
        log_start_offset: int = 0,
        open_segments: OpenSegments | None = None,
    ) -> UnifiedLog: ...

    def log_dir_failed(self, path: str, why: str) -> None: ...

    def rename_away(self, log: UnifiedLog, directory: LogDir, suffix: str) -> None: ...

    def rename_dir(self, log: UnifiedLog, directory: LogDir, suffix: str) -> None: ...

    def retire(self, log: UnifiedLog, suffix: str) -> None: ...

    def truncate_to(self, log: UnifiedLog, offset: int) -> bool: ...

    def truncate_fully_and_start_at(self, log: UnifiedLog, offset: int) -> None: ...

    def abort_cleaning(self, log: UnifiedLog) -> None: ...

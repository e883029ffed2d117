"""DescribeLogDirs and AlterReplicaLogDirs: the contents of log directories, and moves between them.

Source: kafka.server.ReplicaManager (describeLogDirs, alterReplicaLogDirs).
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.broker.pending import Pending, all_of, completed
from barnabas.broker.replica.moves.alter_log_dirs import ReplicaAlterLogDirsManager
from barnabas.broker.replica.partition import Partition
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.log import NUM_REPLICA_ALTER_LOG_DIRS_THREADS
from barnabas.protocol.errors import ErrorCode
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.loading import FUTURE_DIR_SUFFIX, MAX_DIR_NAME
from barnabas.storage.manager.log_dir import LogDir
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.replica.replica_manager import ReplicaManager
    from barnabas.storage.manager.log_manager import LogManager

logger = logging.getLogger("barnabas.alter_log_dirs")

NO_LAG: Final = -1
"""The offset lag of an offline replica, which is not known."""

UNKNOWN_BYTES: Final = -1
_FUTURE_NAME_BYTES: Final = len(f".{'0' * 32}{FUTURE_DIR_SUFFIX}")


class ReplicaInfo(NamedTuple):
    """One log: `offset_lag` is the distance of a future log to the end of the current log, 0 for the latter."""

    partition: int
    size: int
    offset_lag: int
    is_future: bool


class LogDirDescription(NamedTuple):
    """One log directory and the logs in it, by topic; sizes in bytes."""

    path: str
    error: ErrorCode
    topics: Mapping[str, list[ReplicaInfo]] = {}
    total_bytes: int = UNKNOWN_BYTES
    usable_bytes: int = UNKNOWN_BYTES
    is_cordoned: bool = False


def absolute_path(path: str) -> str:
    """A log directory as clients name it: absolute, and otherwise as it was configured (File.getAbsolutePath)."""
    return os.path.join(os.getcwd(), path)


class LogDirAdmin:
    """What clients may ask of the log directories of one broker."""

    def __init__(
        self,
        replica_manager: ReplicaManager,
        moves: ReplicaAlterLogDirsManager,
        log_dirs: Iterable[str],
        runner: BlockingRunner,
    ) -> None:
        """`log_dirs` as they are configured."""
        self._replicas = replica_manager
        self._moves = moves
        self._paths = {absolute_path(path.rstrip("/") or "/"): path.rstrip("/") or "/" for path in log_dirs}
        self._runner = runner

    @property
    def _log_manager(self) -> LogManager:
        return self._replicas.log_manager

    # ---- describing

    def describe(
        self, wanted: set[TopicPartition] | None, *, shows_cordoned: bool
    ) -> Pending[list[LogDirDescription]]:
        """Every log directory with those of its logs that are `wanted`; None: all of them.

        Completed when the free space of the file systems is known.
        """
        described: Pending[list[LogDirDescription]] = Pending()
        working = {one.path: one for one in self._log_manager.dirs}
        spaces: dict[str, tuple[int, int] | None] = {}

        def measure() -> None:
            for directory in working.values():
                spaces[directory.path] = directory.space.measure()

        def done(error: BaseException | None) -> None:
            described.complete(
                [
                    self._describe(shown, path, spaces.get(path), wanted, shows_cordoned=shows_cordoned)
                    for shown, path in self._paths.items()
                ]
            )

        self._runner.submit(measure, done)
        return described

    def _describe(
        self,
        shown: str,
        path: str,
        space: tuple[int, int] | None,
        wanted: set[TopicPartition] | None,
        *,
        shows_cordoned: bool,
    ) -> LogDirDescription:
        directory = next((one for one in self._log_manager.dirs if one.path == path), None)
        if directory is None:
            return LogDirDescription(shown, ErrorCode.KAFKA_STORAGE_ERROR)
        if space is None:
            return LogDirDescription(shown, ErrorCode.UNKNOWN_SERVER_ERROR)
        topics: defaultdict[str, list[ReplicaInfo]] = defaultdict(list)
        for topic, replica in self._replicas_in(directory, wanted):
            topics[topic].append(replica)
        is_cordoned = shows_cordoned and path in self._log_manager.dirs.cordoned
        return LogDirDescription(shown, ErrorCode.NONE, dict(sorted(topics.items())), *space, is_cordoned)

    def _replicas_in(
        self, directory: LogDir, wanted: set[TopicPartition] | None
    ) -> Iterator[tuple[str, ReplicaInfo]]:
        for (topic, index), log in sorted(directory.logs.items()):
            if wanted is None or (topic, index) in wanted:
                is_future = self._log_manager.get_log(topic, index) is not log
                yield topic, ReplicaInfo(index, log.size, self._lag(log, is_future=is_future), is_future)

    def _lag(self, log: UnifiedLog, *, is_future: bool) -> int:
        partition = self._replicas.find(log.topic, log.partition)
        if partition is None or partition.offline:
            return NO_LAG
        current = partition.log
        if is_future:
            return current.log_end_offset - log.log_end_offset
        return max(current.high_watermark - log.log_end_offset, 0)

    # ---- altering

    def alter(self, wanted: Mapping[TopicPartition, str]) -> Pending[dict[TopicPartition, ErrorCode]]:
        """Moves each partition to the named log directory; completed when the moves have begun."""
        answers = all_of([self._alter(key, path) for key, path in wanted.items()])
        return answers.then(lambda codes: dict(zip(wanted, codes, strict=True)))

    def _alter(self, key: TopicPartition, path: str) -> Pending[ErrorCode]:
        target = self._target(key, path)
        if not isinstance(target, LogDir):
            return completed(target)
        partition = self._replicas.find(*key)
        if partition is None and self._replicas.lacks_log(*key):
            return completed(ErrorCode.KAFKA_STORAGE_ERROR)
        if partition is None:
            self._log_manager.dirs.prefer(*key, target)  # for a log that is created later
            return completed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if partition.offline:
            return completed(ErrorCode.KAFKA_STORAGE_ERROR)
        return self._move(partition, target)

    def _target(self, key: TopicPartition, path: str) -> LogDir | ErrorCode:
        """The directory of that name, or the error of a move to it."""
        topic, index = key
        if len(f"{topic}-{index}") + _FUTURE_NAME_BYTES > MAX_DIR_NAME:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if path not in self._paths:
            return ErrorCode.LOG_DIR_NOT_FOUND
        own = self._paths[path]
        directory = next((one for one in self._log_manager.dirs if one.path == own), None)
        if directory is None:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if own in self._log_manager.dirs.cordoned:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        return directory

    def _move(self, partition: Partition, target: LogDir) -> Pending[ErrorCode]:
        key = (partition.topic, partition.index)
        if self._log_manager.directory_of(partition.log) is target:
            return self._moves.cancel(key).then(lambda _: ErrorCode.NONE)
        going_to = self._moves.target_of(key)
        if going_to in (None, target.path):
            return self._moves.begin(partition, target)
        begun: Pending[ErrorCode] = Pending()

        def cancelled(_: None) -> None:
            # The partition may have been moved or deleted meanwhile.
            self._alter(key, absolute_path(target.path)).add_done_callback(begun.complete)

        self._moves.cancel(key).add_done_callback(cancelled)
        return begun


def copying_threads(config: BrokerConfig) -> int:
    """How many threads copy logs at a time."""
    return config[NUM_REPLICA_ALTER_LOG_DIRS_THREADS] or len(config.log_dirs)

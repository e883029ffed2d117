"""LogDirs: which log directories there are, whose they are, which of them work, and which logs lie in them.

The half of `LogManager` that every other part of it stands on; it is of no use alone.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from barnabas.storage.env import Env
from barnabas.storage.errors import (
    AllCordonedError,
    InconsistentMetadataError,
    KafkaStorageError,
    NoLogDirError,
)
from barnabas.storage.log.checkpoints import MetaProperties
from barnabas.storage.manager.log_dir import LogDir
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.storage.log.unified_log import UnifiedLog

logger = logging.getLogger("barnabas.storage")

MAX_PREFERRED: Final = 20_000
"""How many wishes for logs to come are remembered: twice as many as one request may create partitions."""


class LogDirs:
    """The log directories of one broker.

    `dirs` are those that work. One that fails leaves them for `offline_dirs`, with the reason, and its logs with it; it
    comes back at the next start. Nothing is placed and nothing is written there any more.
    """

    __slots__ = (
        "_env",
        "_future_logs",
        "_logs",
        "_preferred",
        "cordoned",
        "dirs",
        "offline_dirs",
        "on_log_dir_failed",
    )

    def __init__(self, env: Env, log_dirs: Sequence[str], min_free_bytes: int) -> None:
        self._env = env
        self._logs: dict[TopicPartition, UnifiedLog] = {}
        self._future_logs: dict[TopicPartition, UnifiedLog] = {}
        self.dirs = [LogDir(env, path.rstrip("/") or "/", min_free_bytes) for path in log_dirs]
        self.offline_dirs: dict[str, str] = {}
        self.cordoned: frozenset[str] = frozenset()
        """The paths of those that get no new logs (KIP-1066)."""
        self._preferred: dict[TopicPartition, LogDir] = {}
        self.on_log_dir_failed: Callable[[str], None] = lambda path: None
        """Hears of each directory that has failed, when it and its logs are out already."""

    def sync_dirs(self) -> None:
        """Makes durable which partitions' directories there are, and by which names; in a thread if you like.

        Raises OSError.
        """
        for directory in list(self.dirs):
            self._env.sync_dir(directory.path)

    # -- whose they are --

    def lock_dirs(self) -> None:
        """Makes the directories where they are missing and claims them; those that cannot be had are offline.

        Raises LogDirLockedError, and NoLogDirError when all of them are.
        """
        for directory in list(self.dirs):
            with self._failing(directory):
                directory.lock()
        self._need_one()

    @contextmanager
    def _failing(self, directory: LogDir) -> Iterator[None]:
        """An error of the disk within takes the directory offline, and is over."""
        try:
            yield
        except (OSError, KafkaStorageError) as error:
            self.log_dir_failed(directory.path, str(error))

    def _need_one(self) -> None:
        if not self.dirs:
            why = "; ".join(f"{path}: {reason}" for path, reason in self.offline_dirs.items())
            raise NoLogDirError(f"no log directory can be used: {why}")

    def log_dir_failed(self, path: str, why: str) -> None:
        """Takes a log directory offline, and every log in it. Kafka's LogManager.handleLogDirFailure."""
        directory = next((candidate for candidate in self.dirs if candidate.path == path), None)
        if directory is None:
            return
        logger.error("log directory %s has failed and is taken offline: %s", path, why)
        self.dirs.remove(directory)
        self.offline_dirs[path] = why
        for key, log in directory.logs.items():
            log.fail(f"its log directory has failed: {why}", quietly=True)
            log.release()
            for logs in (self._logs, self._future_logs):
                if logs.get(key) is log:
                    del logs[key]
        directory.unlock()
        self.on_log_dir_failed(path)

    def load_meta_properties(self) -> MetaProperties | None:
        """What the directories agree on; None when none of them is formatted.

        One whose meta.properties cannot be read is offline. Raises InconsistentMetadataError, NoLogDirError.
        """
        found: dict[str, MetaProperties] = {}
        for directory in list(self.dirs):
            try:
                properties = directory.load_meta_properties()
            except (OSError, InconsistentMetadataError) as error:
                self.log_dir_failed(directory.path, str(error))
                continue
            if properties is not None:
                found[directory.path] = properties
        self._need_one()
        _check_agreement(found)
        return next(iter(found.values()), None)

    def format_dirs(
        self,
        cluster_id: str,
        node_id: int,
        new_directory_id: Callable[[], str],
        before: Callable[[str], None] = lambda path: None,
    ) -> None:
        """Writes meta.properties into each directory that has none, or one from before directories had ids.

        `before` is called with the path of each that has none, for what has to be there first. A directory in which
        that fails is offline. Raises NoLogDirError.
        """
        for directory in list(self.dirs):
            properties = directory.meta_properties
            if properties is not None and properties.directory_id:
                continue
            others = None if properties is None else properties.others
            with self._failing(directory):
                if properties is None:
                    before(directory.path)
                directory.format(MetaProperties(cluster_id, node_id, new_directory_id(), others))
        self._need_one()

    def directory_with_id(self, directory_id: bytes | None) -> LogDir | None:
        """The working directory that has the id."""
        return next((one for one in self.dirs if directory_id and one.directory_id == directory_id), None)

    # -- what lies in them --

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

    def dir_of_path(self, path: str) -> LogDir | None:
        """The working log directory that a path lies in."""
        return next((one for one in self.dirs if path.startswith(f"{one.path}/")), None)

    # -- where new ones go --

    @property
    def has_room(self) -> bool:
        """Whether new logs may go anywhere: not when every directory that works is cordoned."""
        return any(directory.path not in self.cordoned for directory in self.dirs)

    def choose_directories(
        self, count: int, decided: Mapping[LogDir, int] = MappingProxyType({})
    ) -> list[LogDir]:
        """Where so many new logs go: each to the directory that has the fewest then, full ones last.

        `decided` are how many go to each beside those that it has. Cordoned ones get none. Raises AllCordonedError, and
        KafkaStorageError when all have failed.
        """
        counts = {
            directory: len(directory.logs) + decided.get(directory, 0)
            for directory in self.dirs
            if directory.path not in self.cordoned
        }
        if not self.dirs:
            raise KafkaStorageError("every log directory has failed")
        if not counts:
            raise AllCordonedError("every log directory that works is cordoned")
        chosen = []
        for _ in range(count):
            directory = min(counts, key=lambda candidate: (candidate.space.is_full, counts[candidate]))
            counts[directory] += 1
            chosen.append(directory)
        return chosen

    def prefer(self, topic: str, partition: int, directory: LogDir) -> None:
        """Has a log that is not there yet made in a directory, whatever else speaks for another.

        Anybody may say so of any topic, be there ever one of that name or not; the oldest wish makes room.
        """
        self._preferred.pop((topic, partition), None)
        self._preferred[topic, partition] = directory
        if len(self._preferred) > MAX_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def preferred(self, topic: str, partition: int) -> LogDir | None:
        """The directory that was preferred for a log to come, if it works."""
        directory = self._preferred.get((topic, partition))
        return directory if directory in self.dirs else None

    # -- checkpoints --

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


def _check_agreement(found: Mapping[str, MetaProperties]) -> None:
    """Raises InconsistentMetadataError unless all directories are of one broker, and each is itself."""
    first = next(iter(found.values()), None)
    ids: dict[str, str] = {}
    for path, other in found.items():
        if first is not None and (other.cluster_id, other.node_id) != (first.cluster_id, first.node_id):
            raise InconsistentMetadataError(
                f"log.dirs belong to different brokers: cluster {first.cluster_id} node {first.node_id}, "
                f"and cluster {other.cluster_id} node {other.node_id}"
            )
        if other.directory_id and ids.setdefault(other.directory_id, path) != path:
            raise InconsistentMetadataError(
                f"{ids[other.directory_id]} and {path} have the same directory.id in meta.properties: one is a copy of "
                "the other"
            )

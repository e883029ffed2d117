"""LogDirs: the log directories of one broker, whose they are, which of them work, and where new logs go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Final, overload

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

logger = logging.getLogger("barnabas.storage")

MAX_PREFERRED: Final = 20_000
"""How many preferences for new logs are kept: twice as many as one request may create partitions."""


class LogDirs(Sequence[LogDir]):
    """The log directories that work, in the order of log.dirs.

    One that fails moves to `offline`, with the reason, until the next start; nothing is placed or written there.
    """

    def __init__(
        self, env: Env, paths: Sequence[str], min_free_bytes: int, fail: Callable[[str, str], None]
    ) -> None:
        """`fail(path, why)` takes a directory offline with its logs: LogManager.log_dir_failed."""
        self._env = env
        self._fail = fail
        self._working = [LogDir(env, path.rstrip("/") or "/", min_free_bytes) for path in paths]
        self._preferred: dict[TopicPartition, LogDir] = {}
        self.offline: dict[str, str] = {}
        self.cordoned: frozenset[str] = frozenset()
        """The paths of those that get no new logs (KIP-1066)."""

    def __len__(self) -> int:
        return len(self._working)

    @overload
    def __getitem__(self, position: int) -> LogDir: ...

    @overload
    def __getitem__(self, position: slice) -> list[LogDir]: ...

    def __getitem__(self, position: int | slice) -> LogDir | list[LogDir]:
        return self._working[position]

    def __iter__(self) -> Iterator[LogDir]:
        """Safe while directories fail."""
        return iter(tuple(self._working))

    def sync(self) -> None:
        """Makes the creation, rename and removal of partition directories durable; safe in a thread. Raises OSError."""
        for directory in self:
            self._env.sync_dir(directory.path)

    # -- health --

    @contextmanager
    def failing(self, directory: LogDir) -> Iterator[None]:
        """Takes the directory offline on an error of the disk within, and suppresses the error."""
        try:
            yield
        except (OSError, KafkaStorageError) as error:
            self._fail(directory.path, str(error))

    def require_one(self) -> None:
        """Raises NoLogDirError when every directory is offline."""
        if not self._working:
            why = "; ".join(f"{path}: {reason}" for path, reason in self.offline.items())
            raise NoLogDirError(f"no log directory can be used: {why}")

    def take_offline(self, path: str, why: str) -> LogDir | None:
        """Removes a directory from those that work, and fails its logs; None if it is not one of them."""
        directory = next((candidate for candidate in self if candidate.path == path), None)
        if directory is not None:
            logger.error("log directory %s has failed and is taken offline: %s", path, why)
            self._working.remove(directory)
            self.offline[path] = why
            for log in directory.logs.values():
                log.fail(f"its log directory has failed: {why}", quietly=True)
                log.release()
            directory.unlock()
        return directory

    # -- identity --

    def lock(self) -> None:
        """Creates missing directories and locks all; those that cannot be locked go offline.

        Raises LogDirLockedError, and NoLogDirError if none is left.
        """
        for directory in self:
            with self.failing(directory):
                directory.lock()
        self.require_one()

    def load_meta_properties(self) -> MetaProperties | None:
        """The meta.properties that the directories share; None if none is formatted.

        A directory whose meta.properties cannot be read goes offline. Raises InconsistentMetadataError, NoLogDirError.
        """
        found: dict[str, MetaProperties] = {}
        for directory in self:
            try:
                properties = directory.load_meta_properties()
            except (OSError, InconsistentMetadataError) as error:
                self._fail(directory.path, str(error))
                continue
            if properties is not None:
                found[directory.path] = properties
        self.require_one()
        _check_agreement(found)
        return next(iter(found.values()), None)

    def clean_shutdown_epoch(self) -> int:
        """The broker epoch that the markers of a clean stop name, to be read some time before loading.

        The markers stay until then: a start that ends before it has opened a log leaves the stop as clean as it was.
        -1 unless all configured directories work and name the same: the controller gives up what it knows of this
        broker's replicas unless the epoch is that of the registration before, so a false one can lose records. Raises
        NoLogDirError. Source: kafka.log.LogManager.readBrokerEpochFromCleanShutdownFiles.
        """
        for directory in self:
            with self.failing(directory):
                directory.read_clean_shutdown()
        self.require_one()
        epochs = {directory.previous_broker_epoch for directory in self}
        return epochs.pop() if len(epochs) == 1 and not self.offline else -1

    def format(
        self,
        cluster_id: str,
        node_id: int,
        new_directory_id: Callable[[], str],
        before: Callable[[str], None] = lambda path: None,
    ) -> None:
        """Writes meta.properties into each directory that has none, or one without a directory id.

        `before(path)` is called for each without meta.properties, to write what must exist before it. A directory in
        which this fails goes offline. Raises NoLogDirError.
        """
        for directory in self:
            properties = directory.meta_properties
            if properties is not None and properties.directory_id:
                continue
            others = None if properties is None else properties.others
            with self.failing(directory):
                if properties is None:
                    before(directory.path)
                directory.format(MetaProperties(cluster_id, node_id, new_directory_id(), others))
        self.require_one()

    def with_id(self, directory_id: bytes | None) -> LogDir | None:
        """The working directory that has the id."""
        return next((one for one in self if directory_id and one.directory_id == directory_id), None)

    def of_path(self, path: str) -> LogDir | None:
        """The working directory that contains a path."""
        return next((one for one in self if path.startswith(f"{one.path}/")), None)

    # -- placement --

    def choose(self, count: int, decided: Mapping[LogDir, int] = MappingProxyType({})) -> list[LogDir]:
        """The directories for `count` new logs: each goes to the one with the fewest logs then, full ones last.

        `decided` counts new logs that were already assigned to directories. Cordoned directories get none. Raises
        AllCordonedError, and KafkaStorageError if all have failed.
        """
        counts = {
            directory: len(directory.logs) + decided.get(directory, 0)
            for directory in self
            if directory.path not in self.cordoned
        }
        if not self._working:
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
        """Has a log that does not exist yet created in a directory.

        Clients may ask this for topics that are never created; beyond MAX_PREFERRED the oldest preference is dropped.
        """
        self._preferred.pop((topic, partition), None)
        self._preferred[topic, partition] = directory
        if len(self._preferred) > MAX_PREFERRED:
            del self._preferred[next(iter(self._preferred))]

    def preferred(self, topic: str, partition: int) -> LogDir | None:
        """The directory that was preferred for a new log, if it works."""
        directory = self._preferred.get((topic, partition))
        return directory if directory in self._working else None

    def forget_preferred(self, topic: str, partition: int) -> None:
        """To be called when the log has been created."""
        self._preferred.pop((topic, partition), None)

    # -- checkpoints --

    def recovery_point_jobs(self) -> list[Callable[[], None]]:
        """Saves how far each log is on stable storage: one job a directory, for a thread or to be called at once.

        What is written is settled now, and an older job never overwrites a newer one. Each raises OSError; so below.
        """
        return [directory.recovery_point_job() for directory in self]

    def log_start_offset_jobs(self) -> list[Callable[[], None]]:
        """Saves the log start offsets that do not follow from the segments."""
        return [directory.log_start_offset_job() for directory in self]

    def high_watermark_jobs(self) -> list[Callable[[], None]]:
        """Saves the high watermarks."""
        return [directory.high_watermark_job() for directory in self]

    def checkpoint_all(self) -> None:
        """Writes all checkpoints at once. Raises OSError."""
        for directory in self:
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

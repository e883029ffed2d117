"""New logs: which partitions of an image need one, and whether there is space. ReplicaManager creates them.

A partition whose log cannot be created is one of the MissingLogs. If the disk was full, the process had no descriptor
or every log directory was cordoned, housekeeping retries while the broker runs; if the log may be in a log directory
that has failed, the partition waits for the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.topics import PartitionImage, TopicImage
from barnabas.broker.waiting.blocking import Work
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.wire import Uuid
from barnabas.storage.errors import AllCordonedError, DiskFullError, OutOfResourcesError, StorageError
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import TopicPartition


def new_logs(
    image: MetadataImage, delta: MetadataDelta, node_id: int, is_known: Callable[[TopicPartition], bool]
) -> dict[TopicPartition, Uuid]:
    """The partitions that are new on this node, and the ids of their directories."""
    return {
        (name, index): partition.directory_of(node_id)
        for name in sorted(delta.created_topics | delta.changed_topics.keys())
        for partition in delta.partitions_of(image.topics[name])
        if node_id in partition.replicas and not is_known((name, index := partition.partition))
    }


def no_space_error(log_manager: LogManager) -> ApiError | None:
    """The error of new partitions while every log directory is full, None while one has space.

    The space is measured now: a partition whose log cannot be created is useless until there is space.
    """
    spaces = [directory.space for directory in log_manager.dirs]
    for space in spaces:
        space.check()
    if not spaces or not all(space.is_full for space in spaces):
        return None
    most = max(spaces, key=lambda space: space.free_bytes)
    return ApiError(
        ErrorCode.KAFKA_STORAGE_ERROR,
        f"Every log directory is full: {most.path} has {max(most.free_bytes, 0)} bytes free, and "
        f"{most.limit_bytes} have to be. Topics can be created again when there is room.",
    )


def run_all(jobs: Iterable[Work]) -> None:
    """Runs one job after the other; an exception ends the run."""
    for job in jobs:
        job()


class MissingLog(NamedTuple):
    """A partition without a log, the arguments of the last attempt to create it, and its error."""

    topic: TopicImage
    partition: PartitionImage
    is_new: bool
    error: StorageError

    @property
    def is_retriable(self) -> bool:
        """Whether the error may pass while the broker runs."""
        return isinstance(self.error, DiskFullError | OutOfResourcesError | AllCordonedError)


class MissingLogs:
    """The partitions that are on this node and have no log."""

    def __init__(self, log_manager: LogManager, node_id: int) -> None:
        self._log_manager = log_manager
        self._node_id = node_id
        self._all: dict[TopicPartition, MissingLog] = {}

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, key: TopicPartition) -> bool:
        return key in self._all

    def get(self, key: TopicPartition) -> MissingLog | None:
        return self._all.get(key)

    def add(self, key: TopicPartition, missing: MissingLog) -> bool:
        """Notes that the log could not be created; returns whether the error is new."""
        before = self._all.get(key)
        self._all[key] = missing
        return before is None or str(before.error) != str(missing.error)

    def discard(self, key: TopicPartition) -> bool:
        """The partition has a log, or is gone; returns whether it had none."""
        return self._all.pop(key, None) is not None

    def to_try(self) -> list[TopicPartition]:
        """The partitions whose logs may have room now, by the last measurement."""
        return [key for key, missing in self._all.items() if missing.is_retriable and self._has_room(missing)]

    def _has_room(self, missing: MissingLog) -> bool:
        directory_id = missing.partition.directory_of(self._node_id)
        own = self._log_manager.dirs.with_id(directory_id)
        return any(not one.space.is_full for one in ([own] if own is not None else self._log_manager.dirs))

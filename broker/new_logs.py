"""New logs: which partitions of an image need one, and whether there is room. ReplicaManager has them made."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from broker.blocking import Work
from broker.metadata.image import MetadataDelta, MetadataImage
from protocol.errors import ApiError, ErrorCode
from protocol.wire import Uuid
from storage.checkpoints import TopicPartition
from storage.log_manager import LogManager


def new_logs(
    image: MetadataImage, delta: MetadataDelta, node_id: int, is_known: Callable[[TopicPartition], bool]
) -> dict[TopicPartition, Uuid]:
    """The partitions that came to this node, but those that it knows, and the ids of their directories."""
    return {
        (name, index): partition.directory_of(node_id)
        for name in sorted(delta.created_topics | delta.changed_topics.keys())
        for partition in delta.partitions_of(image.topics[name])
        if node_id in partition.replicas and not is_known((name, index := partition.partition))
    }


def refusal_of_new_logs(log_manager: LogManager) -> ApiError | None:
    """Why no partition can be made now; None where there is room in one of the log directories.

    It is measured now: a partition whose log cannot be made waits for the next start.
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
    """Has one done after the other; what one raises ends it."""
    for job in jobs:
        job()

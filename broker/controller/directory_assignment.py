"""Assigns new replicas to log directories, and reports the directories of moved ones, in the metadata.

At the next start that distinguishes a lost log from one in a directory that has failed. Kafka's controller leaves the
choice to the broker, which reports it (AssignReplicasToDirs); the node being both, one record is enough, and it is
committed before the log is created.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence

from barnabas.broker.controller.embedded import Controller, Decision
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.pending import Pending
from barnabas.broker.replica.partition import Partition
from barnabas.protocol.messages.topic_records import PartitionChangeRecord, PartitionRecord, TopicRecord
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ZERO_UUID, Uuid
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.manager.log_dir import LogDir
from barnabas.storage.manager.log_manager import LogManager

logger = logging.getLogger("barnabas.replica_manager")


class DirectoryAssignment:
    """Chooses the directories of this node's new replicas.

    Several operations are decided before the logs of the first exist, so it counts its assignments until the next
    image (`apply`): the controller decides nothing between a commit and the image of it.
    """

    def __init__(self, node_id: int, log_manager: LogManager, image: Callable[[], MetadataImage]) -> None:
        """`image` returns the newest one, for the names of topics that get more partitions."""
        self._node_id = node_id
        self._log_manager = log_manager
        self._image = image
        self._assigned: Counter[LogDir] = Counter()

    def assign(self, records: Sequence[Message]) -> None:
        """Fills in `directories` of the records of new partitions that have a replica here."""
        new = [
            record
            for record in records
            if isinstance(record, PartitionRecord) and self._node_id in record.replicas
        ]
        if not new:
            return
        try:
            chosen = self._log_manager.dirs.choose(len(new), self._assigned)
        except KafkaStorageError as error:
            logger.error("new partitions get no log directory: %s", error)
            return
        names = {record.topic_id: record.name for record in records if isinstance(record, TopicRecord)}
        for record, default in zip(new, chosen, strict=True):
            name = names.get(record.topic_id) or self._image().topic_names.get(record.topic_id, "")
            directory = self._log_manager.dirs.preferred(name, record.partition_id) or default
            self._assigned[directory] += 1
            image = PartitionImage.of(record)
            record.directories = image.with_directory(self._node_id, directory.directory_id or ZERO_UUID)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Resets the counts: the logs of earlier assignments exist now, or their records could not be written."""
        self._assigned.clear()


def report_directory(
    controller: Controller, node_id: int, partition: Partition, directory_id: Uuid
) -> Pending[bool]:
    """Records the log directory of this node's replica of a partition; False where that fails.

    Also where the partition is deleted. Kafka's AssignReplicasToDirs.
    """

    def decide(image: MetadataImage) -> Decision[bool]:
        topic = image.topics.get(partition.topic)
        found = None if topic is None else topic.partitions.get(partition.index)
        if topic is None or found is None or topic.topic_id != partition.topic_id:
            return Decision(False)
        if node_id not in found.replicas or found.directory_of(node_id) == directory_id:
            return Decision(node_id in found.replicas)
        record = PartitionChangeRecord(partition_id=partition.index, topic_id=topic.topic_id)
        record.directories = found.with_directory(node_id, directory_id)
        return Decision(True, [record])

    def failed(error: BaseException) -> bool:
        logger.error("%s: its log directory could not be recorded: %s", partition, error)
        return False

    return controller.submit(decide, failed)

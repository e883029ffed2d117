"""In which log directory each new partition is to lie, written into the metadata before anything is made.

After the next start that tells a log which is lost from one that lies in a directory which has failed. Kafka's
controller leaves the choice to the broker, which reports it (AssignReplicasToDirs); the node being both, one record is
enough.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from broker.metadata.topics import PartitionImage
from protocol.messages.topic_records import PartitionRecord
from protocol.schema import Message
from protocol.wire import ZERO_UUID
from storage.errors import KafkaStorageError
from storage.log_manager import LogManager

logger = logging.getLogger("barnabas.replica_manager")


def assign_directories(records: Sequence[Message], node_id: int, log_manager: LogManager) -> None:
    """Fills in `directories` of the records of new partitions that have a replica on this node."""
    new = [record for record in records if isinstance(record, PartitionRecord) and node_id in record.replicas]
    if not new:
        return
    try:
        chosen = log_manager.choose_directories(len(new))
    except KafkaStorageError as error:
        logger.error("new partitions have no place: %s", error)
        return
    for record, directory in zip(new, chosen, strict=True):
        image = PartitionImage.of(record)
        record.directories = image.with_directory(node_id, directory.directory_id or ZERO_UUID)

"""What a member of a cluster does about gaps that a power cut may have left in its logs.

Logs are synced segment by segment, so that a power cut may take the end of one segment and leave the next. Recovery
cannot tell such a gap from one that compaction left, and keeps it, as Apache Kafka does. A follower that went on behind
the gap would lack committed records for good, and lose them for all once it leads. What another replica in the ISR has
can be fetched again, so the log is truncated where the gap begins; a replica without others keeps what it has.
"""

from __future__ import annotations

import logging

from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager

logger = logging.getLogger("barnabas.startup")


def truncate_at_gaps(log_manager: LogManager, image: MetadataImage, node_id: int) -> None:
    """Truncates the logs that were recovered with a gap and that others have whole.

    For the start, once the metadata hold this broker's registration: a broker that lost anything is in an ISR with
    others no more. A directory that fails goes offline.
    """
    for log in (*log_manager.all_logs(), *log_manager.future_logs()):
        if log.unproven_gap is None:
            continue
        topic = image.topics.get(log.topic)
        partition = None if topic is None else topic.partitions.get(log.partition)
        if partition is not None and _is_whole_elsewhere(partition, node_id):
            _truncate(log_manager, log, log.unproven_gap)
        log.unproven_gap = None


def _is_whole_elsewhere(partition: PartitionImage, node_id: int) -> bool:
    return partition.leader != node_id and any(node != node_id for node in partition.isr)


def _truncate(log_manager: LogManager, log: UnifiedLog, offset: int) -> None:
    logger.warning(
        "%s: truncated from %d to %d, where offsets are missing that may have been lost with the power; the rest is "
        "fetched from the leader",
        log.name,
        log.log_end_offset,
        offset,
    )
    try:
        log_manager.truncate_to(log, offset)
    except (KafkaStorageError, OSError) as error:
        log_manager.log_dir_failed(log_manager.directory_of(log).path, str(error))

"""Adopts topics found in log directories without a metadata log.

Such a directory has lost its `__cluster_metadata-0`, or comes from elsewhere. Topic ids come from partition.metadata,
leader epochs from the logs; the topics' own settings are lost.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping

from barnabas.broker.controller.producer_ids import BLOCK_SIZE
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.protocol.messages.topic_records import ProducerIdsRecord, TopicRecord
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ZERO_UUID, Uuid, random_uuid
from barnabas.storage.env import Env
from barnabas.storage.errors import InconsistentMetadataError
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager

logger = logging.getLogger("barnabas.startup")


def adopted_topics(log_manager: LogManager, node_id: int, env: Env) -> list[Message]:
    """Records for the topics of every log. Raises InconsistentMetadataError."""
    found: dict[str, dict[int, UnifiedLog]] = defaultdict(dict)
    for log in log_manager.all_logs():
        found[log.topic][log.partition] = log
    records: list[Message] = []
    for name, logs in sorted(found.items()):
        records += _adopted_topic(name, logs, node_id, env, log_manager)
    if records:
        records.append(_unused_producer_ids(log_manager, node_id))
        logger.warning(
            "adopted %d topics found in log.dirs, which have no metadata log: the broker's defaults hold for them",
            len(found),
        )
    return records


def _unused_producer_ids(log_manager: LogManager, node_id: int) -> ProducerIdsRecord:
    """Puts the next producer id behind every block that a producer known to the logs may have its id from."""
    known = (
        producer_id for log in log_manager.all_logs() for producer_id in log.producer_state_manager.producers
    )
    blocks_used = max(known, default=-1) // BLOCK_SIZE + 1
    return ProducerIdsRecord(
        broker_id=node_id, broker_epoch=-1, next_producer_id=(blocks_used + 1) * BLOCK_SIZE
    )


def _directory_id(log_manager: LogManager, log: UnifiedLog | None) -> Uuid:
    return ZERO_UUID if log is None else log_manager.directory_of(log).directory_id or ZERO_UUID


def _adopted_topic(
    name: str, logs: Mapping[int, UnifiedLog], node_id: int, env: Env, log_manager: LogManager
) -> list[Message]:
    ids = {log.topic_id for log in logs.values() if log.topic_id is not None}
    if len(ids) > 1:
        raise InconsistentMetadataError(
            f"the directories of topic {name} hold different topic ids; keep those of one of them"
        )
    topic_id = ids.pop() if ids else random_uuid(env.random_bytes)
    records: list[Message] = [TopicRecord(name=name, topic_id=topic_id)]
    for index in range(max(logs) + 1):
        log = logs.get(index)
        partition = PartitionImage(
            index,
            replicas=(node_id,),
            isr=(node_id,),
            leader=node_id,
            leader_epoch=max(0, log.latest_epoch) if log is not None else 0,
            partition_epoch=0,
            directories=(_directory_id(log_manager, log),),
        )
        records.append(partition.record(topic_id))
    return records

"""What has to be true of the disk before anybody is served: directories ours and formatted, metadata read, logs open.

Everything here blocks and runs before the listeners open. Source: kafka.server.KafkaRaftServer.initializeLogDirs,
kafka.log.LogManager.startup.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Mapping

from broker.metadata_image import NO_LEADER_CHANGE, MetadataDelta, MetadataImage, PartitionImage
from broker.metadata_store import MetadataStore
from broker.producer_ids import BLOCK_SIZE
from config.broker_config import BrokerConfig
from config.catalogue.barnabas import BARNABAS_LOG_DIR_MIN_FREE_BYTES
from config.catalogue.transactions import PRODUCER_ID_EXPIRATION_MS
from config.log_config import LogConfig
from protocol.messages.topic_records import PartitionChangeRecord, ProducerIdsRecord, TopicRecord
from protocol.schema import Message
from protocol.wire import ZERO_UUID, random_uuid, uuid_to_string
from storage.env import Env
from storage.errors import InconsistentMetadataError, is_no_space
from storage.log_manager import CLUSTER_METADATA_TOPIC, LogManager
from storage.unified_log import UnifiedLog

logger = logging.getLogger("barnabas.startup")

PROGRESS_INTERVAL_S = 2.0


class NodeStorage:
    """The node's identity, metadata and logs, open and consistent with each other."""

    __slots__ = ("cluster_id", "image", "log_manager", "node_id", "store", "was_recovered")

    def __init__(self, config: BrokerConfig, env: Env) -> None:
        """Opens everything.

        Raises InvalidConfigError, StorageError, MetadataStoreError or OSError; the text is for whoever starts it.
        """
        log_dirs = config.log_dirs
        self.image = MetadataImage.empty()
        self.log_manager = LogManager(
            env,
            log_dirs,
            lambda topic: LogConfig.of(config, self.image.topic_config(topic)),
            producer_id_expiration_ms=config[PRODUCER_ID_EXPIRATION_MS],
            min_free_bytes=config[BARNABAS_LOG_DIR_MIN_FREE_BYTES],
        )
        self.log_manager.lock_dirs()
        self.cluster_id, self.node_id = _identity(self.log_manager, config, env)
        stores = [MetadataStore(env, path) for path in log_dirs]
        self.store = next((store for store in stores if store.exists()), stores[0])
        is_first_start = not self.store.exists()
        self.image = self.store.open()
        self.was_recovered = self._load_logs()
        if is_first_start:
            self._commit(_adopted_topics(self.log_manager, self.node_id, env))
        else:
            self._put_strays_aside()
            if self.was_recovered:
                self._elect_anew()

    def _elect_anew(self) -> None:
        """After a crash, new leader epochs; on a full disk the old ones have to do, and nothing else is missing."""
        try:
            self._commit(_new_leader_epochs(self.image, self.node_id))
        except OSError as error:
            if not is_no_space(error):
                raise
            logger.warning("leader epochs stay what they were before the crash: %s", error)

    def everything(self) -> MetadataDelta:
        """The delta from nothing to the image: what the ReplicaManager has to take over at start."""
        delta = MetadataDelta()
        delta.created_topics.update(self.image.topics)
        return delta

    def close(self) -> None:
        """Flushes and closes everything and leaves the marker of a clean stop."""
        self.log_manager.shutdown()
        self.store.close()

    def _commit(self, records: list[Message]) -> None:
        if records:
            self.store.append(records)
            self.image, _ = self.image.apply(records)

    def _load_logs(self) -> bool:
        """Opens all logs, with a line now and then when that takes long; says whether any had to be recovered."""
        started = last_said = time.monotonic()
        count = recovered = 0

        def loaded(log: UnifiedLog) -> None:
            nonlocal last_said, count, recovered
            count += 1
            recovered += not self.log_manager.directory_of(log).had_clean_shutdown
            if log.truncated_bytes:
                logger.warning(
                    "%s: cut off %d bytes that were never acknowledged", log.name, log.truncated_bytes
                )
            now = time.monotonic()
            if now - last_said >= PROGRESS_INTERVAL_S:
                logger.info("opening logs: %d after %.0f s, at %s", count, now - started, log.name)
                last_said = now

        self.log_manager.load_logs(loaded)
        if recovered:
            logger.info(
                "recovered %d logs in %.2f s: the broker was not shut down in order",
                recovered,
                time.monotonic() - started,
            )
        return recovered > 0

    def _put_strays_aside(self) -> None:
        """Logs of no topic: its deletion was decided, or the directory came from elsewhere. They are kept."""
        for log in self.log_manager.all_logs():
            topic = self.image.topics.get(log.topic)
            known = topic is not None and log.partition in topic.partitions
            if known and topic is not None and log.topic_id in (None, topic.topic_id):
                continue
            logger.warning(
                "%s belongs to no topic; its directory is renamed to ...-stray and kept", log.directory
            )
            self.log_manager.mark_stray(log.topic, log.partition)


def _identity(log_manager: LogManager, config: BrokerConfig, env: Env) -> tuple[str, int]:
    """Cluster id and node id: those that the directories hold, else those configured or new ones, written there."""
    stored = log_manager.load_meta_properties()
    node_id = config.settle_node_id(None if stored is None else stored.node_id, log_manager.dirs[0].path)
    if stored is None:
        cluster_id = config.cluster_id or uuid_to_string(random_uuid(env.random_bytes))
    else:
        cluster_id = stored.cluster_id
    log_manager.format_dirs(cluster_id, node_id, lambda: uuid_to_string(random_uuid(env.random_bytes)))
    return cluster_id, node_id


def _adopted_topics(log_manager: LogManager, node_id: int, env: Env) -> list[Message]:
    """Records for the topics whose logs are found on a first start: a directory that another broker wrote."""
    found: dict[str, dict[int, UnifiedLog]] = defaultdict(dict)
    for log in log_manager.all_logs():
        found[log.topic][log.partition] = log
    records: list[Message] = []
    for name, logs in sorted(found.items()):
        records += _adopted_topic(name, logs, node_id, env)
    if records:
        records.append(_unused_producer_ids(log_manager, node_id))
        logger.warning(
            "adopted %d topics found in log.dirs; settings of their own that lie in %s-0 are not read yet, "
            "the broker's defaults hold for them",
            len(found),
            CLUSTER_METADATA_TOPIC,
        )
    return records


def _unused_producer_ids(log_manager: LogManager, node_id: int) -> ProducerIdsRecord:
    """Puts the next producer id behind every block from which a producer that the logs remember can have its id."""
    known = (
        producer_id for log in log_manager.all_logs() for producer_id in log.producer_state_manager.producers
    )
    blocks_used = max(known, default=-1) // BLOCK_SIZE + 1
    return ProducerIdsRecord(
        broker_id=node_id, broker_epoch=-1, next_producer_id=(blocks_used + 1) * BLOCK_SIZE
    )


def _adopted_topic(name: str, logs: Mapping[int, UnifiedLog], node_id: int, env: Env) -> list[Message]:
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
            directories=(ZERO_UUID,),
        )
        records.append(partition.record(topic_id))
    return records


def _new_leader_epochs(image: MetadataImage, node_id: int) -> list[Message]:
    """Elects this node anew everywhere: what a crash may have lost was of an older epoch, and readers can tell."""
    assert node_id != NO_LEADER_CHANGE
    return [
        PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id, leader=node_id)
        for topic in image.topics.values()
        for index, partition in topic.partitions.items()
        if node_id in partition.replicas
    ]

"""What has to be true of the disk before anybody is served: directories ours and formatted, metadata read, logs open.

Everything here blocks and runs before the listeners open. Source: kafka.server.KafkaRaftServer.initializeLogDirs,
kafka.log.LogManager.startup.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping

from broker.log_recovery import CLOSING_THREADS_PER_DIR, LogLoading, run_all_in_threads
from broker.metadata.image import MetadataImage
from broker.metadata.topics import NO_LEADER_CHANGE, PartitionImage
from broker.metadata_store import MetadataStore
from broker.producer_ids import BLOCK_SIZE
from config.broker_config import BrokerConfig
from config.catalogue.barnabas import BARNABAS_LOG_DIR_MIN_FREE_BYTES
from config.catalogue.log import NUM_RECOVERY_THREADS_PER_DATA_DIR
from config.catalogue.transactions import PRODUCER_ID_EXPIRATION_MS
from config.log_config import LogConfig
from protocol.messages.topic_records import PartitionChangeRecord, ProducerIdsRecord, TopicRecord
from protocol.schema import Message
from protocol.wire import ZERO_UUID, Uuid, random_uuid, uuid_to_string
from storage.env import Env
from storage.errors import InconsistentMetadataError, NoLogDirError, is_no_space
from storage.log_manager import CLUSTER_METADATA_TOPIC, LogManager
from storage.unified_log import UnifiedLog

logger = logging.getLogger("barnabas.startup")


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
            assigned_dir=self._assigned_dir,
        )
        try:
            self._open(config, env)
        except BaseException:
            self.log_manager.abandon()  # whoever tries again, in this process too, must find nothing locked
            raise

    def _open(self, config: BrokerConfig, env: Env) -> None:
        self.log_manager.lock_dirs()
        self.cluster_id, self.node_id, is_formatted = _identity(self.log_manager, config, env)
        self.store = self._find_store(config.log_dirs[0], env, is_formatted=is_formatted)
        is_first_start = not self.store.exists()
        self.image = self.store.open()
        self.was_recovered = self._load_logs(config[NUM_RECOVERY_THREADS_PER_DATA_DIR])
        if is_first_start:
            self._commit(_adopted_topics(self.log_manager, self.node_id, env))
        else:
            self._put_strays_aside()
            self._finish_moves()
            self._bring_up_to_date()

    def _find_store(self, first_dir: str, env: Env, *, is_formatted: bool) -> MetadataStore:
        """The metadata, wherever they lie; on the first start a new store in the first directory.

        While a directory is offline nothing is begun anew beside what may lie in it. Raises NoLogDirError.
        """
        stores = [MetadataStore(env, directory.path) for directory in self.log_manager.dirs]
        found = next((store for store in stores if store.exists()), None)
        if found is not None:
            return found
        offline = self.log_manager.offline_dirs
        if offline and (is_formatted or first_dir.rstrip("/") in offline):
            raise NoLogDirError(
                "the metadata are in none of the log directories that can be used, and the broker cannot start without "
                "them: " + "; ".join(f"{path} has failed: {why}" for path, why in offline.items())
            )
        return stores[0]

    @property
    def metadata_dir(self) -> str:
        """The log directory that the broker cannot do without."""
        return self.store.directory

    def _assigned_dir(self, topic: str, partition: int) -> Uuid | None:
        image = self.image.topics.get(topic)
        found = image.partitions.get(partition) if image is not None else None
        return None if found is None else found.directory_of(self.node_id)

    def _finish_moves(self) -> None:
        """A log that was to replace another does so, where the metadata have the partition in its directory already."""
        manager = self.log_manager
        for future in list(manager.future_logs()):
            if (
                self._assigned_dir(future.topic, future.partition)
                == manager.directory_of(future).directory_id
            ):
                logger.info(
                    "%s takes its place: its move was decided before the broker stopped", future.directory
                )
                manager.replace_current_with_future_log(future.topic, future.partition)

    def _bring_up_to_date(self) -> None:
        """Where each log lies, if the metadata have it elsewhere or nowhere; after a crash also new leader epochs."""
        records = _changes(self.image, self.node_id, self.log_manager, elect=self.was_recovered)
        try:
            self._commit(records)
        except OSError as error:
            if not is_no_space(error):
                raise
            logger.warning("leader epochs and directories stay as the metadata have them: %s", error)

    def close(self) -> None:
        """Flushes and closes everything and leaves the marker of a clean stop."""
        threads = CLOSING_THREADS_PER_DIR * max(len(self.log_manager.dirs), 1)
        self.log_manager.shutdown(run_all=lambda work: run_all_in_threads(work, threads))
        self.store.close()

    def _commit(self, records: list[Message]) -> None:
        if records:
            self.store.append([records])
            self.image, _ = self.image.apply(records)

    def _load_logs(self, threads_per_dir: int) -> bool:
        """Opens all logs, with a line now and then when that takes long; says whether any had to be recovered."""
        recovered = False

        def loaded(log: UnifiedLog) -> None:
            nonlocal recovered
            recovered = recovered or not self.log_manager.directory_of(log).had_clean_shutdown
            if log.truncated_bytes:
                logger.warning(
                    "%s: cut off %d bytes that were never acknowledged", log.name, log.truncated_bytes
                )

        self.log_manager.load_logs(loaded, LogLoading(threads_per_dir))
        return recovered

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


def _identity(log_manager: LogManager, config: BrokerConfig, env: Env) -> tuple[str, int, bool]:
    """Cluster id and node id: those that the directories hold, else those configured or new ones, written there.

    Third, whether any directory held them.
    """
    stored = log_manager.load_meta_properties()
    node_id = config.settle_node_id(None if stored is None else stored.node_id, log_manager.dirs[0].path)
    if stored is None:
        cluster_id = config.cluster_id or uuid_to_string(random_uuid(env.random_bytes))
    else:
        cluster_id = stored.cluster_id
    log_manager.format_dirs(cluster_id, node_id, lambda: uuid_to_string(random_uuid(env.random_bytes)))
    return cluster_id, node_id, stored is not None


def _adopted_topics(log_manager: LogManager, node_id: int, env: Env) -> list[Message]:
    """Records for the topics whose logs are found on a first start: a directory that another broker wrote."""
    found: dict[str, dict[int, UnifiedLog]] = defaultdict(dict)
    for log in log_manager.all_logs():
        found[log.topic][log.partition] = log
    records: list[Message] = []
    for name, logs in sorted(found.items()):
        records += _adopted_topic(name, logs, node_id, env, log_manager)
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


def _changes(image: MetadataImage, node_id: int, log_manager: LogManager, *, elect: bool) -> list[Message]:
    """What has changed about this node's partitions while it was away.

    With `elect` it is elected anew everywhere: what a crash may have lost was of an older epoch, and readers can tell.
    And the directories in which logs are found, where the metadata have others.
    """
    assert node_id != NO_LEADER_CHANGE
    records: list[Message] = []
    found = {key: one.directory_id for one in log_manager.dirs for key in one.logs if one.directory_id}
    for topic in image.topics.values():
        for index, partition in topic.partitions.items():
            if node_id not in partition.replicas:
                continue
            directory_id = found.get((topic.name, index))
            has_moved = directory_id is not None and directory_id != partition.directory_of(node_id)
            if elect or has_moved:
                record = PartitionChangeRecord(partition_id=index, topic_id=topic.topic_id)
                if elect:
                    record.leader = node_id
                if has_moved and directory_id is not None:
                    record.directories = partition.with_directory(node_id, directory_id)
                records.append(record)
    return records

"""NodeDirectories: the log directories of a node from the locks to the open logs, whoever decides the metadata.

The steps, each by itself, since a member of a cluster has to talk to its controller between them:

    lock        the directories are locked, and the identity in them is read
    settle      the identity is settled, new directories are formatted
    load_logs   all logs are opened, recovered where they were not closed in order
    finish      logs that the image does not know are put aside, moves that were decided are finished
    close       everything is flushed and closed, with the marker of a clean stop
    abandon     or everything is released without any write

Source: kafka.server.KafkaRaftServer.initializeLogDirs, kafka.log.LogManager.startup.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.replica.recovered_gaps import truncate_at_gaps
from barnabas.broker.startup.dynamic_config import DynamicConfig
from barnabas.broker.startup.log_recovery import CLOSING_THREADS_PER_DIR, LogLoading, run_all_in_threads
from barnabas.broker.startup.node_identity import (
    Identity,
    MetadataDir,
    format_new_dirs,
    settle_identity,
    stored_identity,
)
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.barnabas import BARNABAS_LOG_DIR_MIN_FREE_BYTES
from barnabas.config.catalogue.log import NUM_RECOVERY_THREADS_PER_DATA_DIR
from barnabas.config.catalogue.transactions import PRODUCER_ID_EXPIRATION_MS
from barnabas.protocol.wire import Uuid
from barnabas.storage.env import Env
from barnabas.storage.log.checkpoints import MetaProperties
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_dir import LogDir
from barnabas.storage.manager.log_manager import LogManager

logger = logging.getLogger("barnabas.startup")


class NodeDirectories:
    """The log directories and the logs in them. Blocking; nothing is locked or written by the constructor."""

    def __init__(self, config: BrokerConfig, env: Env, image: Callable[[], MetadataImage]) -> None:
        """`image`: the newest one, by which logs find their settings."""
        self._config = config
        self._env = env
        self._image = image
        self._node_id = -1
        self._stored: MetaProperties | None = None
        self.dynamic_config = DynamicConfig(config)
        self.log_manager = LogManager(
            env,
            config.log_dirs,
            lambda topic: self.dynamic_config.log_config(image(), topic),
            producer_id_expiration_ms=config[PRODUCER_ID_EXPIRATION_MS],
            min_free_bytes=config[BARNABAS_LOG_DIR_MIN_FREE_BYTES],
            assigned_dir=self._assigned_dir,
        )
        self._metadata_dir = MetadataDir(config, self.log_manager, env)

    def lock(self) -> MetaProperties | None:
        """Locks the directories; returns the identity in them, None where all are new. Raises StorageError, OSError."""
        self.log_manager.dirs.lock()
        self._metadata_dir.lock()
        self._stored = stored_identity(self.log_manager, self._metadata_dir)
        return self._stored

    def settle(self, cluster_id: str | None = None) -> tuple[Identity, LogDir]:
        """Settles the identity and formats new directories; also returns that of the metadata log.

        `cluster_id` is that of new directories where the configuration has none, by default a new one.
        Raises InvalidConfigError, StorageError, MetadataLogError or OSError.
        """
        path = self.log_manager.dirs[0].path
        identity = settle_identity(self._stored, path, self._config, self._env, cluster_id=cluster_id)
        self._node_id = identity.node_id
        format_new_dirs(self.log_manager, identity, self._env)
        return identity, self._metadata_dir.find(identity)

    def load_logs(self) -> bool:
        """Opens all logs with the settings of the image, logging the progress of a long load.

        Returns whether any had to be recovered. Raises InconsistentMetadataError, NoLogDirError.
        """
        self.dynamic_config.apply_broker(self._image(), self._node_id)
        self.log_manager.expire_producers_after(self._config[PRODUCER_ID_EXPIRATION_MS])
        recovered = False

        def loaded(log: UnifiedLog) -> None:
            nonlocal recovered
            recovered = recovered or not self.log_manager.directory_of(log).had_clean_shutdown
            if log.truncated_bytes:
                logger.warning(
                    "%s: cut off %d bytes that were never acknowledged", log.name, log.truncated_bytes
                )

        self.log_manager.load_logs(loaded, LogLoading(self._config[NUM_RECOVERY_THREADS_PER_DATA_DIR]))
        return recovered

    def finish(self, *, is_member: bool = False) -> None:
        """Puts strays aside, and finishes the moves between directories that the image has decided.

        For a member of a cluster a log is also astray where the image has its replicas on other brokers, and logs that
        were recovered with a gap are truncated where others have them whole.
        """
        self._put_strays_aside(is_member=is_member)
        if is_member:
            truncate_at_gaps(self.log_manager, self._image(), self._node_id)
        self.log_manager.future.finish_decided(self._assigned_dir)

    def close(self, broker_epoch: int) -> None:
        """Flushes and closes everything, and leaves the marker of a clean stop."""
        threads = CLOSING_THREADS_PER_DIR * max(len(self.log_manager.dirs), 1)
        self.log_manager.shutdown(broker_epoch, run_all=lambda work: run_all_in_threads(work, threads))
        self._metadata_dir.unlock()

    def abandon(self) -> None:
        """Releases files and locks without any write, like a killed process."""
        self.log_manager.abandon()
        self._metadata_dir.unlock()

    def _assigned_dir(self, topic: str, partition: int) -> Uuid | None:
        image = self._image().topics.get(topic)
        found = image.partitions.get(partition) if image is not None else None
        return None if found is None else found.directory_of(self._node_id)

    def _put_strays_aside(self, *, is_member: bool) -> None:
        """Renames logs of no topic and keeps them: the topic was deleted, or the directory came from elsewhere."""
        for log in (*self.log_manager.all_logs(), *self.log_manager.future_logs()):
            topic = self._image().topics.get(log.topic)
            partition = None if topic is None else topic.partitions.get(log.partition)
            is_known = partition is not None and (not is_member or self._node_id in partition.replicas)
            if is_known and topic is not None and log.topic_id in (None, topic.topic_id):
                continue
            logger.warning(
                "%s belongs to no topic; its directory is renamed to ...-stray and kept", log.directory
            )
            self.log_manager.put_aside(log)

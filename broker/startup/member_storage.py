"""MemberStorage: the disk of a member of a cluster: identity, its copy of the metadata log, and its logs.

The steps of a start, each of which blocks, and is done in a thread while the event loop talks to the controller:

    lock        the directories are locked; a new broker asks the cluster for its id then
    open        the identity is settled, new directories are formatted, the marker of a clean stop is read,
                the copy of the metadata log is opened
    load_logs   the marker is removed, and logs are opened with the settings of an image that holds this broker's
                registration
    close       everything is flushed and closed, with the marker that names the broker epoch
    abandon     or everything is released without any write

The registration repeats the broker epoch of the marker, and a false one would cost records: the marker is gone before
any log is opened.
Source: kafka.server.KafkaRaftServer.initializeLogDirs, kafka.server.BrokerServer, kafka.log.LogManager.
"""

from __future__ import annotations

import logging
from typing import Final

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.observer_raft_log import ObserverRaftLog
from barnabas.broker.metadata.raft_log import RaftLog
from barnabas.broker.metadata.raft_snapshots import RaftLogSettings
from barnabas.broker.replica.new_logs import new_logs
from barnabas.broker.startup.node_directories import NodeDirectories
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.wire import ZERO_UUID, Uuid
from barnabas.storage.env import Env
from barnabas.storage.errors import NoLogDirError, StorageError

logger = logging.getLogger("barnabas.startup")

NO_BROKER_EPOCH: Final = -1


class MemberStorage:
    """The disk of one member. `image` is the newest one, in which logs find their settings."""

    log: ObserverRaftLog
    """This node's copy of the metadata log."""
    cluster_id: str
    node_id: int

    def __init__(self, config: BrokerConfig, env: Env) -> None:
        self._config = config
        self._env = env
        self.image = MetadataImage.empty()
        self.previous_broker_epoch = NO_BROKER_EPOCH
        """Of the clean stop before this start; NO_BROKER_EPOCH where there was none."""
        self._directories = NodeDirectories(config, env, lambda: self.image)
        self.dynamic_config = self._directories.dynamic_config
        self.log_manager = self._directories.log_manager
        self.directory_ids: dict[str, Uuid] = {}
        """The ids of the directories that were online at the start, by path."""
        self.broker_epoch = NO_BROKER_EPOCH
        """Of this broker's registration; the marker of a clean stop names it."""

    def lock(self) -> bool:
        """Locks the directories; returns whether they have an identity already. Raises StorageError, OSError."""
        return self._directories.lock() is not None

    def open(self, cluster_id: str | None) -> None:
        """Settles the identity, and opens the metadata log. `cluster_id` is that of new directories.

        Raises InvalidConfigError, StorageError, MetadataLogError, OSError.
        """
        identity, directory = self._directories.settle(cluster_id)
        self.cluster_id, self.node_id = identity.cluster_id, identity.node_id
        dirs = self.log_manager.dirs
        self.directory_ids = {one.path: one.directory_id for one in dirs if one.directory_id}
        self.previous_broker_epoch = dirs.clean_shutdown_epoch()
        raft = RaftLog(self._env, directory.path, RaftLogSettings.of(self._config))
        self.log = ObserverRaftLog(raft, self._env, self.node_id, directory.directory_id or ZERO_UUID)

    @property
    def raft(self) -> RaftLog:
        """The metadata log's directory, and what reads it."""
        return self.log.raft

    @property
    def metadata_dir(self) -> str:
        """The log directory of the metadata, without which the broker stops."""
        return self.raft.directory.rpartition("/")[0]

    def load_logs(self) -> None:
        """Opens all logs with the settings of the image; puts aside those that are not this broker's any more.

        Raises InconsistentMetadataError, NoLogDirError, MetadataLogError.
        """
        self.log.check_voters()
        self._directories.load_logs()
        self._directories.finish(is_member=True)
        why = self.log_manager.dirs.offline.get(self.metadata_dir)
        if why is not None:
            raise NoLogDirError(
                f"{self.metadata_dir}, the log directory that holds the metadata, has failed: {why}"
            )
        # else a log that seems new may lie in a directory that has failed
        if not self.log_manager.dirs.offline:
            self._make_new_logs()

    def _make_new_logs(self) -> None:
        """Makes the logs of partitions that came while this broker was away: here, and not on the event loop.

        What cannot be made is tried once more, and reported, when the image is applied.
        """
        everything = MetadataDelta.everything(self.image)
        new = new_logs(
            self.image, everything, self.node_id, lambda key: self.log_manager.get_log(*key) is not None
        )
        wanted = [(name, index, self.image.topics[name].topic_id) for name, index in new]
        try:
            self.log_manager.prepare_logs(wanted, new).run()
        except (OSError, StorageError) as error:
            logger.error("new directories cannot be made: %s", error)

    def failed_dirs(self) -> list[str]:
        """The directories that were online at the start and have failed since."""
        return [path for path in self.directory_ids if path in self.log_manager.dirs.offline]

    def close(self) -> None:
        """Flushes and closes everything, and leaves the marker of a clean stop."""
        try:
            self.raft.close()
        except (
            StorageError,
            OSError,
        ) as error:  # its directory has failed, which may be why the broker stops
            logger.warning("the metadata log was not closed in order: %s", error)
        finally:
            self._directories.close(self.broker_epoch)

    def abandon(self) -> None:
        """Releases files and locks without any write, like a killed process."""
        self._directories.abandon()

"""The identity in the log directories (node id, cluster id, directory ids in meta.properties); formats new directories.

A directory is formatted when it has meta.properties, which is written last, after bootstrap.checkpoint: an interrupted
format starts again.
Source: org.apache.kafka.metadata.storage.Formatter, kafka.server.KafkaRaftServer.initializeLogDirs.
"""

from __future__ import annotations

import logging
from typing import Final, NamedTuple

from barnabas.broker.metadata.bootstrap import bootstrap_records, default_levels, write_bootstrap
from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.versions import LATEST_PRODUCTION
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.controller import METADATA_LOG_DIR
from barnabas.protocol.wire import random_uuid, uuid_to_string
from barnabas.storage.env import Env
from barnabas.storage.errors import InconsistentMetadataError, NoLogDirError
from barnabas.storage.log.checkpoints import MetaProperties
from barnabas.storage.manager.log_dir import LogDir
from barnabas.storage.manager.log_manager import CLUSTER_METADATA_TOPIC, LogManager

PRERELEASE_FILE: Final = "barnabas.metadata"

logger = logging.getLogger("barnabas.startup")


class Identity(NamedTuple):
    """The identity of a node. `was_formatted`: its directories had it already."""

    cluster_id: str
    node_id: int
    was_formatted: bool


def stored_identity(log_manager: LogManager, metadata_dir: MetadataDir) -> MetaProperties | None:
    """The identity in the directories; None where none of them is formatted. Raises StorageError."""
    return log_manager.dirs.load_meta_properties() or metadata_dir.load_own()


def settle_identity(
    stored: MetaProperties | None, path: str, config: BrokerConfig, env: Env, *, cluster_id: str | None = None
) -> Identity:
    """Cluster id and node id: those in the directories, else the configured ones, or new ones.

    `path` is the directory that errors name; `cluster_id` takes the place of a new one. Raises InvalidConfigError where
    the configuration contradicts the directories, StorageError.
    """
    node_id = config.settle_node_id(None if stored is None else stored.node_id, path)
    if stored is None:
        cluster_id = config.cluster_id or cluster_id or uuid_to_string(random_uuid(env.random_bytes))
        return Identity(cluster_id, node_id, was_formatted=False)
    if config.cluster_id not in (None, stored.cluster_id):
        raise InconsistentMetadataError(
            f"Invalid cluster.id in: {path}/meta.properties. "
            f"Expected {config.cluster_id}, but read {stored.cluster_id}"
        )
    return Identity(stored.cluster_id, node_id, was_formatted=True)


def format_new_dirs(log_manager: LogManager, identity: Identity, env: Env) -> None:
    """Formats the directories that are not formatted for this node. Raises NoLogDirError."""
    records = bootstrap_records(default_levels(LATEST_PRODUCTION))
    log_manager.dirs.format(
        identity.cluster_id,
        identity.node_id,
        lambda: uuid_to_string(random_uuid(env.random_bytes)),
        before=lambda path: write_bootstrap(env, path, records),
    )


class MetadataDir:
    """The log directory that holds the metadata log: metadata.log.dir, the first of log.dirs, or where it is found.

    One that is not among log.dirs has a lock and meta.properties of its own.
    """

    def __init__(self, config: BrokerConfig, log_manager: LogManager, env: Env) -> None:
        self._env = env
        self._manager = log_manager
        self._own: LogDir | None = None
        self._wanted = (config[METADATA_LOG_DIR] or config.log_dirs[0]).rstrip("/") or "/"
        if self._wanted not in [directory.rstrip("/") or "/" for directory in config.log_dirs]:
            self._own = LogDir(env, self._wanted)

    def lock(self) -> None:
        """Locks it, if the log manager does not. Raises LogDirLockedError, OSError."""
        if self._own is not None:
            self._own.lock()

    def unlock(self) -> None:
        if self._own is not None:
            self._own.unlock()

    def load_own(self) -> MetaProperties | None:
        """The identity in a directory of the metadata alone. Raises InconsistentMetadataError, OSError."""
        return None if self._own is None else self._own.load_meta_properties()

    def find(self, identity: Identity) -> LogDir:
        """The directory, formatted. Raises NoLogDirError, InconsistentMetadataError, MetadataLogError, OSError."""
        candidates = [directory for directory in self._manager.dirs if directory.path == self._wanted]
        if self._own is not None:
            self._adopt(self._own, identity)
            candidates.append(self._own)
        candidates += [directory for directory in self._manager.dirs if directory not in candidates]
        for directory in candidates:
            if self._has_log(directory):
                return directory
        self._reject_prerelease(candidates)
        self._reject_in_place_of_offline(identity)
        return candidates[0]

    def _has_log(self, directory: LogDir) -> bool:
        return self._env.exists(f"{directory.path}/{CLUSTER_METADATA_TOPIC}-0")

    def _adopt(self, directory: LogDir, identity: Identity) -> None:
        """Compares a directory of the metadata alone with the others, and formats it where it is new."""
        found = self.load_own()
        if found is None:
            write_bootstrap(self._env, directory.path, bootstrap_records(default_levels(LATEST_PRODUCTION)))
            directory_id = uuid_to_string(random_uuid(self._env.random_bytes))
            directory.format(MetaProperties(identity.cluster_id, identity.node_id, directory_id))
        elif (found.cluster_id, found.node_id) != (identity.cluster_id, identity.node_id):
            raise InconsistentMetadataError(
                f"{directory.path} belongs to cluster {found.cluster_id} node {found.node_id}, and log.dirs to "
                f"cluster {identity.cluster_id} node {identity.node_id}"
            )

    def _reject_prerelease(self, candidates: list[LogDir]) -> None:
        for directory in candidates:
            if self._env.exists(f"{directory.path}/{PRERELEASE_FILE}"):
                raise MetadataLogError(
                    f"{directory.path} has its metadata in {PRERELEASE_FILE}, which only versions before the first "
                    f"release wrote; this one reads {CLUSTER_METADATA_TOPIC}-0 and does not convert one to the other"
                )

    def _reject_in_place_of_offline(self, identity: Identity) -> None:
        """Rejects a start that would begin a new metadata log while the old one may be in an offline directory."""
        offline = self._manager.dirs.offline
        if offline and (identity.was_formatted or self._wanted in offline):
            raise NoLogDirError(
                "the metadata are in none of the log directories that can be used, and the broker cannot start without "
                "them: " + "; ".join(f"{path} has failed: {why}" for path, why in offline.items())
            )

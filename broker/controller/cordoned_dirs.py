"""cordoned.log.dirs (KIP-1066): log directories that get no new partitions, which the broker registers.

Source: kafka.server.DynamicLogConfig, kafka.server.BrokerLifecycleManager (which reports them with its heartbeats).
"""

from __future__ import annotations

import logging

from barnabas.broker.controller.embedded import Controller, Decision
from barnabas.broker.controller.log_dir_admin import absolute_path
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.metadata.versions import CORDONED_LOG_DIRS as SUPPORTED_SINCE
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.log import CORDONED_LOG_DIRS
from barnabas.protocol.messages.cluster_records import BrokerRegistrationChangeRecord
from barnabas.protocol.wire import Uuid
from barnabas.storage.manager.log_manager import LogManager

logger = logging.getLogger("barnabas.replica_manager")

ALL_LOG_DIRS: tuple[str, ...] = ("*",)
"""The value of cordoned.log.dirs that cordons every log directory."""


class Cordons:
    """Keeps placement up to date with the configuration, which may change at any time."""

    def __init__(self, config: BrokerConfig, log_manager: LogManager) -> None:
        self._config = config
        self._log_manager = log_manager

    def reconfigure(self) -> None:
        """Applies a changed configuration."""
        known = [*(one.path for one in self._log_manager.dirs), *self._log_manager.dirs.offline]
        wanted = self._config[CORDONED_LOG_DIRS]
        named = {absolute_path(path.rstrip("/")) for path in wanted}
        cordoned = frozenset(path for path in known if wanted == ALL_LOG_DIRS or absolute_path(path) in named)
        if cordoned != self._log_manager.dirs.cordoned:
            logger.info(
                "cordoned log directories, which get no new partitions: %s", sorted(cordoned) or "none"
            )
        self._log_manager.dirs.cordoned = cordoned

    @property
    def ids(self) -> list[Uuid]:
        """The ids of the cordoned directories that work."""
        cordoned = self._log_manager.dirs.cordoned
        return [
            one.directory_id for one in self._log_manager.dirs if one.path in cordoned and one.directory_id
        ]


class CordonedLogDirs:
    """Keeps placement, and the registration in the metadata that this node decides, up to date."""

    def __init__(
        self, config: BrokerConfig, log_manager: LogManager, controller: Controller, node_id: int
    ) -> None:
        self._cordons = Cordons(config, log_manager)
        self._controller = controller
        self._node_id = node_id
        self._is_reporting = False

    def reconfigure(self) -> None:
        """Applies a changed configuration."""
        self._cordons.reconfigure()
        self._report(self._controller.image)

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Reports again where the registration or a feature level has changed."""
        if self._node_id in delta.broker_changes or delta.feature_changes:
            self._report(image)

    def _changes(self, image: MetadataImage) -> list[BrokerRegistrationChangeRecord]:
        broker = image.brokers.get(self._node_id)
        ids = self._cordons.ids
        if image.metadata_version < SUPPORTED_SINCE or broker is None:
            return []
        if set(broker.cordoned_log_dirs or ()) == set(ids):
            return []
        record = BrokerRegistrationChangeRecord(broker_id=self._node_id, broker_epoch=broker.epoch)
        record.cordoned_log_dirs = ids
        return [record]

    def _report(self, image: MetadataImage) -> None:
        if self._is_reporting or not self._changes(image):
            return

        def failed(error: BaseException) -> None:
            logger.error("the cordoned log directories could not be registered: %s", error)

        def done(_: None) -> None:
            self._is_reporting = False
            if self._controller.image.offset > image.offset:  # else the attempt failed, and another would too
                self._report(self._controller.image)

        self._is_reporting = True
        pending = self._controller.submit(lambda newest: Decision(None, self._changes(newest)), failed)
        pending.add_done_callback(done)

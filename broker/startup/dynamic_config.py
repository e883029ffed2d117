"""Applies the configurations in the metadata: at start, and after each change.

The broker's own settings become part of its BrokerConfig, which its parts read each time; those of topics reach their
logs. A part that keeps a value derived from the broker's configuration has a `reconfigure` called after each change.
Source: kafka.server.metadata.DynamicConfigPublisher, ConfigHandler and DynamicBrokerConfig.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from barnabas.broker.controller.config_admin import CLUSTER_DEFAULT
from barnabas.broker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataDelta, MetadataImage
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS, DYNAMIC_BROKER_KEYS
from barnabas.config.catalogue.transactions import PRODUCER_ID_EXPIRATION_MS
from barnabas.config.dynamic import apply_dynamic_settings
from barnabas.config.log_config import LogConfig, LogConfigs
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager

logger = logging.getLogger("barnabas.config")

Reconfigure = Callable[[], None]
"""Applies the broker's configuration to a part, which logs its own errors."""

_MAX_REMEMBERED: Final = 10_000
_ALL_KEYS: Final = {**BROKER_KEYS, **DYNAMIC_BROKER_KEYS}


class DynamicConfig:
    """The configuration of a broker and of its topics, as in the metadata."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self._log_configs = LogConfigs(
            config, lambda topic, error: self._report_invalid(topic, f"topic {topic}: {error}")
        )
        self._reported: set[tuple[str, str]] = set()

    def log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        """The configuration of a topic's logs. An invalid setting is logged once and ignored."""
        return self._log_configs.of(topic, image.topic_config(topic))

    def apply_broker(self, image: MetadataImage, node_id: int) -> None:
        """Applies the settings of this broker, and those of the cluster default."""
        of_cluster = image.configs.get((BROKER_RESOURCE, CLUSTER_DEFAULT), {})
        of_broker = image.configs.get((BROKER_RESOURCE, str(node_id)), {})
        before = self._in_force()
        for error in apply_dynamic_settings(self.config, of_cluster, of_broker):
            self._report_invalid("", str(error))
        after = self._in_force()
        for (key, place), shown in after.items():
            if before.get((key, place)) != shown:
                logger.info("%s=%s, by %s", key, shown, place)
        for key, place in before.keys() - after.keys():
            logger.info("%s is no longer set by %s", key, place)

    def _in_force(self) -> dict[tuple[str, str], str]:
        """The dynamic settings in force, by key and place, as they may be shown."""
        return {
            (setting.key, setting.place): "[hidden]" if _ALL_KEYS[setting.key].sensitive else setting.text
            for setting in self.config.settings()
            if setting.source.is_dynamic
        }

    def _report_invalid(self, topic: str, what: str) -> None:
        """Logs an invalid setting, once; `topic` is empty for the broker's own."""
        if (topic, what) not in self._reported and len(self._reported) < _MAX_REMEMBERED:
            self._reported.add((topic, what))
            logger.error("%s; it is ignored, and the setting below it holds", what)


class DynamicConfigPublisher:
    """Applies configurations of each new metadata image, after the ReplicaManager has applied it."""

    def __init__(
        self, dynamic: DynamicConfig, node_id: int, log_manager: LogManager, *reconfigurables: Reconfigure
    ) -> None:
        """`reconfigurables` are called in this order when the broker's own configuration has changed."""
        self._dynamic = dynamic
        self._node_id = node_id
        self._log_manager = log_manager
        self._reconfigurables = reconfigurables

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Applies the configurations that `delta` names; at start it names everything."""
        resources = {(BROKER_RESOURCE, CLUSTER_DEFAULT), (BROKER_RESOURCE, str(self._node_id))}
        of_broker = not resources.isdisjoint(delta.config_changes)
        if of_broker:
            self._dynamic.apply_broker(image, self._node_id)
            self._reconfigure()
        topics = {name for kind, name in delta.config_changes if kind == TOPIC_RESOURCE}
        if of_broker or topics:
            self._log_manager.update_configs(
                lambda log: self._dynamic.log_config(image, log.topic),
                None if of_broker else self._logs_of(image, topics),
            )

    def _logs_of(self, image: MetadataImage, topics: Iterable[str]) -> Iterator[UnifiedLog]:
        """The logs of these topics; a deleted topic has none."""
        for topic in [image.topics[name] for name in topics if name in image.topics]:
            for index in topic.partitions:
                for log in (
                    self._log_manager.get_log(topic.name, index),
                    self._log_manager.get_future_log(topic.name, index),
                ):
                    if log is not None:
                        yield log

    def _reconfigure(self) -> None:
        self._log_manager.expire_producers_after(self._dynamic.config[PRODUCER_ID_EXPIRATION_MS])
        for reconfigure in self._reconfigurables:
            reconfigure()

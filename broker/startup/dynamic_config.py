"""What the metadata say of configurations, brought into force: at start, and whenever it changes.

The broker's own settings become part of its BrokerConfig, which everybody asks each time; those of topics reach their
logs. Whoever keeps something that follows from the broker's configuration has a `reconfigure` called after each change.
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
from barnabas.config.keys import ConfigError
from barnabas.config.log_config import LogConfig, LogConfigs
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager

logger = logging.getLogger("barnabas.config")

Reconfigure = Callable[[], None]
"""Looks at the broker's configuration and brings in line what follows from it; what goes wrong there it says itself."""

_MAX_REMEMBERED: Final = 10_000
_ALL_KEYS: Final = {**BROKER_KEYS, **DYNAMIC_BROKER_KEYS}


class DynamicConfig:
    """A broker's configuration and that of its topics, as the metadata have them."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self._log_configs = LogConfigs(config, self._report_unsound_topic)
        self._reported: set[tuple[str, str]] = set()

    def log_config(self, image: MetadataImage, topic: str) -> LogConfig:
        """What the logs of a topic obey now. Settings that cannot stand are told in the log, once, and left out."""
        return self._log_configs.of(topic, image.topic_config(topic))

    def apply_broker(self, image: MetadataImage, node_id: int) -> None:
        """Takes over the settings of this broker, and of the default of all."""
        of_cluster = image.configs.get((BROKER_RESOURCE, CLUSTER_DEFAULT), {})
        of_broker = image.configs.get((BROKER_RESOURCE, str(node_id)), {})
        before = self._in_force()
        for error in apply_dynamic_settings(self.config, of_cluster, of_broker):
            self._report_unsound("", str(error))
        after = self._in_force()
        for (key, place), shown in after.items():
            if before.get((key, place)) != shown:
                logger.info("%s=%s, by %s", key, shown, place)
        for key, place in before.keys() - after.keys():
            logger.info("%s is no more set by %s", key, place)

    def _in_force(self) -> dict[tuple[str, str], str]:
        """The dynamic settings that hold, by key and place, as they may be shown."""
        return {
            (setting.key, setting.place): "[hidden]" if _ALL_KEYS[setting.key].sensitive else setting.text
            for setting in self.config.settings()
            if setting.source.is_dynamic
        }

    def _report_unsound_topic(self, topic: str, error: ConfigError) -> None:
        self._report_unsound(topic, f"topic {topic}: {error}")

    def _report_unsound(self, topic: str, what: str) -> None:
        """Logs a setting that cannot stand, once; `topic` is empty for the broker's own."""
        if (topic, what) not in self._reported and len(self._reported) < _MAX_REMEMBERED:
            self._reported.add((topic, what))
            logger.error("%s; it is left out, and what is below it holds", what)


class DynamicConfigPublisher:
    """Follows the metadata image. The ReplicaManager has to be told of it first."""

    def __init__(
        self, dynamic: DynamicConfig, node_id: int, log_manager: LogManager, *reconfigurables: Reconfigure
    ) -> None:
        """`reconfigurables` are called in this order when the broker's own configuration has changed."""
        self._dynamic = dynamic
        self._node_id = node_id
        self._log_manager = log_manager
        self._reconfigurables = reconfigurables

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Brings into force what `delta` says has changed; at start, when it names everything, all there is."""
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
        """The logs of these topics. A topic that is gone has none."""
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

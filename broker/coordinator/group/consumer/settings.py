"""The settings of a consumer group: its own, over the broker's. Source: GroupConfigManager, GroupConfig."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Final

from barnabas.broker.metadata.image import GROUP_RESOURCE, MetadataImage
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import groups as broker_keys
from barnabas.config.catalogue import resources
from barnabas.config.group_config import group_value
from barnabas.config.keys import ConfigKey

REFRESH_INTERVAL_MS: Final = (1 << 31) - 1
"""How long a group relies on its last check of the topics without a change of the metadata."""

MIN_REGEX_REFRESH_MS: Final = 10_000
"""The least time between two resolutions of a group's patterns."""


class MigrationPolicy(Enum):
    """Which way a group with members may go (group.consumer.migration.policy): the pair (upgrade, downgrade)."""

    DISABLED = (False, False)
    UPGRADE = (True, False)
    DOWNGRADE = (False, True)
    BIDIRECTIONAL = (True, True)

    @property
    def allows_upgrade(self) -> bool:
        return self.value[0]

    @property
    def allows_downgrade(self) -> bool:
        return self.value[1]


class GroupSettings:
    """Read at each use, since all settings may change while the broker runs."""

    def __init__(self, config: BrokerConfig, image: Callable[[], MetadataImage]) -> None:
        self._config = config
        self._image = image

    def session_timeout_ms(self, group_id: str) -> int:
        return self._of(group_id, resources.CONSUMER_SESSION_TIMEOUT_MS)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._of(group_id, resources.CONSUMER_HEARTBEAT_INTERVAL_MS)

    def assignment_interval_ms(self, group_id: str) -> int:
        return self._of(group_id, resources.CONSUMER_ASSIGNMENT_INTERVAL_MS)

    def _of(self, group_id: str, key: ConfigKey[int]) -> int:
        overrides = self._image().configs.get((GROUP_RESOURCE, group_id), {})
        value: int = group_value(self._config, overrides, key)
        return value

    @property
    def max_size(self) -> int:
        return self._config[broker_keys.GROUP_CONSUMER_MAX_SIZE]

    @property
    def classic_max_size(self) -> int:
        return self._config[broker_keys.GROUP_MAX_SIZE]

    @property
    def migration_policy(self) -> MigrationPolicy:
        return MigrationPolicy[self._config[broker_keys.GROUP_CONSUMER_MIGRATION_POLICY].upper()]

    @property
    def regex_refresh_interval_ms(self) -> int:
        return self._config[broker_keys.GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS]

    @property
    def default_assignor(self) -> str:
        """The assignor of groups whose members ask for none."""
        return assignor_names(self._config)[0]


def assignor_names(config: BrokerConfig) -> list[str]:
    """Those that members may ask for (group.consumer.assignors), by their short names; the first is the default."""
    named = config[broker_keys.GROUP_CONSUMER_ASSIGNORS]
    return list(dict.fromkeys(broker_keys.CONSUMER_ASSIGNORS[name] for name in named))

"""From an error about a setting to the one that names it as the configuration has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS
from barnabas.config.keys import ConfigError

if TYPE_CHECKING:
    from barnabas.security.errors import SettingError


def setting_error(
    config: BrokerConfig, listener: str, error: SettingError, phrase: str | None = None
) -> ConfigError:
    """The error about a setting of `listener`: with the listener's prefix where it is set so, and with its place.

    `phrase` is Kafka's own message for a client, where it has one.
    """
    key = BROKER_KEYS.get(error.key)
    setting = config.unknown.get(error.key) if key is None else config.listener_setting(listener, key)
    name, place = (error.key, "") if setting is None else (setting.key, setting.place)
    return ConfigError(name, error.value, error.requirement, place, phrase=phrase)

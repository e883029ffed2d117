"""DescribeConfigs for groups and for subscriptions to client metrics.

Source: kafka.server.ConfigHelper.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import CLIENT_METRICS_KEYS, GROUP_KEYS
from barnabas.config.client_metrics import effective_client_metrics_values
from barnabas.config.config_source import ConfigSource
from barnabas.config.describe import ConfigEntry, ConfigSynonym, broker_synonyms
from barnabas.config.group_config import effective_group_values
from barnabas.config.keys import ConfigError


def describe_group_configs(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """The entries of a group with these settings of its own; the group need not exist."""
    sound = _sound(overrides, lambda setting: effective_group_values(broker, setting))
    values = effective_group_values(broker, sound)
    for name, key in GROUP_KEYS.items():
        if names is not None and name not in names:
            continue
        value = key.format(values[name])
        if key.synonyms:
            synonyms = broker_synonyms(broker, key.synonyms[0].name)
        else:
            synonyms = [ConfigSynonym(name, key.format(key.default), ConfigSource.DEFAULT_CONFIG)]
        if name in sound:
            synonyms.insert(0, ConfigSynonym(name, value, ConfigSource.DYNAMIC_GROUP_CONFIG))
        yield ConfigEntry(name, value, synonyms, key=key, read_only=False)


def describe_client_metrics_configs(
    settings: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """The entries of a subscription with these settings, which need not exist."""
    sound = _sound(settings, effective_client_metrics_values)
    values = effective_client_metrics_values(sound)
    for name, key in CLIENT_METRICS_KEYS.items():
        if names is not None and name not in names:
            continue
        value = key.format(values[name])
        own = [ConfigSynonym(name, value, ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG)]
        yield ConfigEntry(name, value, own if name in sound else [], key=key, read_only=False)


def _sound(settings: Mapping[str, str], parse: Callable[[dict[str, str]], object]) -> dict[str, str]:
    """The stored settings that are valid by themselves; the others are ignored."""
    return {name: text for name, text in settings.items() if _is_sound({name: text}, parse)}


def _is_sound(setting: dict[str, str], parse: Callable[[dict[str, str]], object]) -> bool:
    try:
        parse(setting)
    except ConfigError:
        return False
    return True

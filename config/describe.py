"""What DescribeConfigs answers for a topic and for the broker: values as Kafka writes them, and where they come from.

Source: kafka.server.ConfigHelper. Some of its habits look odd and are kept, since tools rely on them:
- an entry's source is that of its first synonym, and DEFAULT_CONFIG when it has none;
- a topic key's synonyms start at the first broker key of its family: with log.retention.hours set and log.retention.ms
  not, retention.ms has no synonyms, though its value comes from there;
- a topic's entry is never read-only, a broker's is unless the key can change while the broker runs;
- a key that Kafka does not know is told, without its value, as sensitive.
"""

from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum
from typing import Any

from config.broker_config import BrokerConfig
from config.catalogue import BROKER_KEYS, TOPIC_KEYS, log
from config.keys import ConfigKey, DynamicMode
from config.layers import Setting
from config.log_config import effective_topic_values
from config.messages import key_of_listener
from config.values import ConfigType


class ConfigSource(IntEnum):
    """Where a described value comes from; the numbers are those of the wire (DescribeConfigsResponse.ConfigSource)."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8


class ConfigSynonym:
    """A key that has a say in a described value, strongest first; `value` is None when it must not be shown."""

    __slots__ = ("name", "source", "value")

    def __init__(self, name: str, value: str | None, source: ConfigSource) -> None:
        self.name = name
        self.value = value
        self.source = source

    def __repr__(self) -> str:
        return f"{self.source.name}:{self.name}={self.value}"


class ConfigEntry:
    """One described key; `value` is None when it is unset or must not be shown, `documentation` for unknown keys."""

    __slots__ = ("documentation", "name", "read_only", "sensitive", "synonyms", "type", "value")

    def __init__(
        self,
        name: str,
        value: str | None,
        synonyms: list[ConfigSynonym],
        *,
        key: ConfigKey[Any] | None,
        read_only: bool,
    ) -> None:
        self.name = name
        self.value = value
        self.synonyms = synonyms
        self.read_only = read_only
        self.sensitive = key is None or key.sensitive
        self.type = ConfigType.UNKNOWN if key is None else key.type
        self.documentation = None if key is None else key.documentation

    @property
    def source(self) -> ConfigSource:
        """Where the value comes from."""
        return self.synonyms[0].source if self.synonyms else ConfigSource.DEFAULT_CONFIG

    @property
    def is_default(self) -> bool:
        """What versions before synonyms (DescribeConfigs v0) are told instead of the source."""
        return self.source is ConfigSource.DEFAULT_CONFIG

    def __repr__(self) -> str:
        return f"<ConfigEntry {self.name}={self.value} {self.synonyms}>"


# Broker keys that stand for the same thing in other units, strongest first (DynamicBrokerConfig.brokerConfigSynonyms).
_FAMILIES: tuple[tuple[ConfigKey[Any], ...], ...] = (
    (log.LOG_ROLL_MS, log.LOG_ROLL_HOURS),
    (log.LOG_ROLL_JITTER_MS, log.LOG_ROLL_JITTER_HOURS),
    (log.LOG_RETENTION_MS, log.LOG_RETENTION_MINUTES, log.LOG_RETENTION_HOURS),
)
_FAMILY_OF: Mapping[str, tuple[ConfigKey[Any], ...]] = {
    **{key.name: family for family in _FAMILIES for key in family},
    # One way only: the scheduler's own synonyms are itself alone.
    log.LOG_FLUSH_INTERVAL_MS.name: (log.LOG_FLUSH_INTERVAL_MS, log.LOG_FLUSH_SCHEDULER_INTERVAL_MS),
}


def describe_topic_configs(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """The entries of a topic with these settings of its own; `names` asks for some only, None for all.

    Raises ConfigError when one of the settings cannot stand, which CreateTopics and AlterConfigs prevent.
    """
    values = effective_topic_values(broker, overrides)
    for name, key in TOPIC_KEYS.items():
        if (key.internal and name not in overrides) or (names is not None and name not in names):
            continue
        value = key.format(values[name])
        synonyms = _broker_synonyms(broker, key.synonyms[0].name) if key.synonyms else []
        if name in overrides:
            synonyms.insert(0, ConfigSynonym(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        yield ConfigEntry(name, value, synonyms, key=key, read_only=False)


def describe_broker_configs(
    broker: BrokerConfig, names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """The entries of the broker itself; `names` asks for some only, None for all."""
    for name, key in BROKER_KEYS.items():
        if (key.internal and not broker.is_set(key)) or (names is not None and name not in names):
            continue
        value = None if key.sensitive else key.format(broker[key])
        read_only = key.dynamic is DynamicMode.READ_ONLY
        yield ConfigEntry(name, value, _broker_synonyms(broker, name), key=key, read_only=read_only)
    for name, setting in broker.unknown.items():
        if names is None or name in names:
            yield _other_entry(broker, setting)


def _broker_synonyms(broker: BrokerConfig, name: str) -> list[ConfigSynonym]:
    """The settings and then the defaults of a key and its family, from the key itself on."""
    synonyms = _synonyms_of(broker, _FAMILY_OF.get(name, (BROKER_KEYS[name],)))
    while synonyms and synonyms[0].name != name:
        del synonyms[0]
    return synonyms


def _synonyms_of(broker: BrokerConfig, family: tuple[ConfigKey[Any], ...]) -> list[ConfigSynonym]:
    synonyms = []
    for key in family:
        setting = broker.setting(key)
        if setting is not None:
            value = None if key.sensitive else setting.text
            synonyms.append(ConfigSynonym(key.name, value, ConfigSource.STATIC_BROKER_CONFIG))
    for key in family:
        if key.default is not None:
            value = None if key.sensitive else key.format(key.default)
            synonyms.append(ConfigSynonym(key.name, value, ConfigSource.DEFAULT_CONFIG))
    return synonyms


def _other_entry(broker: BrokerConfig, setting: Setting) -> ConfigEntry:
    """A setting of one listener, with what holds for the others behind it; or of a key that nobody knows."""
    key = key_of_listener(setting.key)
    value = None if key is None or key.sensitive else setting.text
    synonyms = [ConfigSynonym(setting.key, value, ConfigSource.STATIC_BROKER_CONFIG)]
    if key is not None:
        synonyms += _synonyms_of(broker, (key,))
    return ConfigEntry(setting.key, value, synonyms, key=key, read_only=True)

"""DescribeConfigs for topics and brokers: values as Kafka writes them, and their sources.

Other resources: describe_resources.py. Source: kafka.server.ConfigHelper. Some of its habits look odd and are kept,
since tools rely on them:
- an entry's source is that of its first synonym, and DEFAULT_CONFIG when it has none;
- a topic key's synonyms start at the first broker key of its family: with log.retention.hours set and log.retention.ms
  not, retention.ms has no synonyms, though its value comes from there;
- a topic's entry is never read-only, a broker's is unless the key can change while the broker runs;
- a key that Kafka does not know is described as sensitive, without its value;
- the default of the whole cluster is described as it is stored, a broker's own settings as they were parsed.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue import BROKER_KEYS, DYNAMIC_BROKER_KEYS, TOPIC_KEYS, log, server
from barnabas.config.config_source import ConfigSource
from barnabas.config.keys import ConfigKey, DynamicMode
from barnabas.config.layers import Setting, Source
from barnabas.config.log_config import effective_topic_values, sound_topic_overrides
from barnabas.config.messages import key_of_listener, name_of_all_listeners
from barnabas.config.values import ConfigType


class ConfigSynonym(NamedTuple):
    """One setting or default behind a described value; `value` is None when it must not be shown."""

    name: str
    value: str | None
    source: ConfigSource

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
        is_documented: bool = True,
    ) -> None:
        self.name = name
        self.value = value
        self.synonyms = synonyms
        self.read_only = read_only
        self.sensitive = key is None or key.sensitive
        self.type = ConfigType.UNKNOWN if key is None else key.type
        self.documentation = key.documentation if key is not None and is_documented else None

    @property
    def source(self) -> ConfigSource:
        """Where the value comes from."""
        return self.synonyms[0].source if self.synonyms else ConfigSource.DEFAULT_CONFIG

    @property
    def is_default(self) -> bool:
        """Replaces the source in versions before synonyms (DescribeConfigs v0)."""
        return self.source is ConfigSource.DEFAULT_CONFIG

    def __repr__(self) -> str:
        return f"<ConfigEntry {self.name}={self.value} {self.synonyms}>"


# Broker keys for the same setting in other units, strongest first (DynamicBrokerConfig.brokerConfigSynonyms).
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

_OF_THE_AUTHORIZER = frozenset({server.SUPER_USERS.name, server.ALLOW_EVERYONE_IF_NO_ACL_FOUND.name})
"""Kafka's authorizer reads these keys; its broker does not define them."""

_REQUIRED = frozenset({server.PROCESS_ROLES.name})
"""Kafka does not start without these, so they have no default to describe."""

_SOURCE_OF_DYNAMIC: Mapping[Source, ConfigSource] = {
    Source.DYNAMIC_BROKER: ConfigSource.DYNAMIC_BROKER_CONFIG,
    Source.DYNAMIC_DEFAULT: ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
}
_SET_SOURCES = (
    ConfigSource.DYNAMIC_BROKER_CONFIG,
    ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ConfigSource.STATIC_BROKER_CONFIG,
)


def describe_topic_configs(
    broker: BrokerConfig, overrides: Mapping[str, str], names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """The entries of a topic with these settings of its own; `names` asks for some only, None for all.

    In place of an invalid setting the effective value is described; unknown ones are described as in Kafka.
    """
    sound, _ = sound_topic_overrides(overrides)
    values = effective_topic_values(broker, sound)
    for name, key in TOPIC_KEYS.items():
        if (key.internal and name not in sound) or (names is not None and name not in names):
            continue
        value = key.format(values[name])
        synonyms = broker_synonyms(broker, key.synonyms[0].name) if key.synonyms else []
        if name in sound:
            synonyms.insert(0, ConfigSynonym(name, value, ConfigSource.DYNAMIC_TOPIC_CONFIG))
        yield ConfigEntry(name, value, synonyms, key=key, read_only=False)
    for name in overrides:
        if name not in TOPIC_KEYS and (names is None or name in names):
            hidden = ConfigSynonym(name, None, ConfigSource.DYNAMIC_TOPIC_CONFIG)
            yield ConfigEntry(name, None, [hidden], key=None, read_only=False)


def describe_new_topic(broker: BrokerConfig, own: Mapping[str, str]) -> Iterator[ConfigEntry]:
    """The entries of a topic that is being created with these settings, as the controller puts them in its answer.

    Unlike the broker, which describes the topic from then on (`describe_topic_configs`), it answers with texts as they
    were given, the broker's too, and converts hours and minutes without interpreting them: under
    log.retention.hours=-1 retention.ms is -3600000. Any broker key behind the topic's is the source of a value.
    By name. Source: KafkaConfigSchema.resolveEffectiveTopicConfigs.
    """
    defaults = effective_topic_values(broker, {})
    for name, key in sorted(TOPIC_KEYS.items()):
        if name in own:
            entry = ConfigSynonym(name, own[name], ConfigSource.DYNAMIC_TOPIC_CONFIG)
        elif key.internal:
            continue
        else:
            behind = _strongest_behind(broker, key)
            entry = behind or ConfigSynonym(name, key.format(defaults[name]), ConfigSource.DEFAULT_CONFIG)
        yield ConfigEntry(name, entry.value, [entry], key=key, read_only=False)


def _strongest_behind(broker: BrokerConfig, key: ConfigKey[Any]) -> ConfigSynonym | None:
    """The broker's setting for a topic key, in its unit: the first of the key's synonyms in the strongest layer."""
    found = {
        (_source_of(setting), at): setting
        for at, synonym in enumerate(key.synonyms)
        for setting in broker.layers(synonym.name)
    }
    if not found:
        return None
    source, at = min(found)
    setting, factor = found[source, at], key.synonyms[at].factor
    value = setting.text if factor == 1 else str(BROKER_KEYS[setting.key].parse(setting.text) * factor)
    return ConfigSynonym(setting.key, value, source)


def describe_broker_configs(
    broker: BrokerConfig, names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """The entries of the broker itself; `names` asks for some only, None for all."""
    for name, key in BROKER_KEYS.items():
        if (key.internal and not broker.is_set(key)) or (names is not None and name not in names):
            continue
        if name in _OF_THE_AUTHORIZER:
            if broker.is_set(key):
                yield _unknown_entry(broker, name)
            continue
        value = None if key.sensitive else key.format(broker[key])
        read_only = key.dynamic is DynamicMode.READ_ONLY
        yield ConfigEntry(name, value, broker_synonyms(broker, name), key=key, read_only=read_only)
    for name, key in DYNAMIC_BROKER_KEYS.items():
        if broker.source(key).is_dynamic and (names is None or name in names):
            yield _other_entry(broker, name, key, broker.layers(name)[0].text)
    for name, setting in broker.unknown.items():
        if names is None or name in names:
            key_ = key_of_listener(setting.key)
            value = None if key_ is None or key_.sensitive else setting.text
            yield _other_entry(broker, name, key_, value)


def describe_cluster_default(
    broker: BrokerConfig, names: Collection[str] | None = None
) -> Iterator[ConfigEntry]:
    """The entries of the default of all brokers, which are those that are set; `names` asks for some only."""
    for setting in broker.dynamic_settings(Source.DYNAMIC_DEFAULT):
        if names is not None and setting.key not in names:
            continue
        key = _any_broker_key(setting.key)
        value = None if key is None or key.sensitive else setting.text
        synonym = ConfigSynonym(setting.key, value, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)
        yield ConfigEntry(
            setting.key,
            value,
            [synonym],
            key=key,
            read_only=_is_read_only(setting.key),
            is_documented=setting.key in BROKER_KEYS,
        )


def broker_synonyms(broker: BrokerConfig, name: str) -> list[ConfigSynonym]:
    """The settings and then the defaults of a key and its family, from the key itself on."""
    synonyms = _synonyms_of(broker, [key.name for key in _FAMILY_OF.get(name, (BROKER_KEYS[name],))])
    while synonyms and synonyms[0].name != name:
        del synonyms[0]
    return synonyms


def _synonyms_of(broker: BrokerConfig, names: Sequence[str]) -> list[ConfigSynonym]:
    """The settings of these names, this broker's dynamic settings first, and then their defaults."""
    synonyms = []
    for source in _SET_SOURCES:
        for name in names:
            synonyms += [
                ConfigSynonym(name, _shown(setting), source)
                for setting in broker.layers(name)
                if _source_of(setting) is source
            ]
    for name in names:
        key = BROKER_KEYS.get(name)
        if key is not None and key.default is not None and name not in _REQUIRED:
            value = None if key.sensitive else key.format(key.default)
            synonyms.append(ConfigSynonym(name, value, ConfigSource.DEFAULT_CONFIG))
    return synonyms


def _source_of(setting: Setting) -> ConfigSource:
    return _SOURCE_OF_DYNAMIC.get(setting.source, ConfigSource.STATIC_BROKER_CONFIG)


def _shown(setting: Setting) -> str | None:
    key = _any_broker_key(setting.key)
    return None if key is None or key.sensitive else setting.text


def _any_broker_key(name: str) -> ConfigKey[Any] | None:
    return BROKER_KEYS.get(name) or DYNAMIC_BROKER_KEYS.get(name) or key_of_listener(name)


def _is_read_only(name: str) -> bool:
    """True for keys that are not dynamic in Kafka, such as those of single listeners."""
    key = BROKER_KEYS.get(name) or DYNAMIC_BROKER_KEYS.get(name)
    return key is None or key.dynamic is DynamicMode.READ_ONLY


def _unknown_entry(broker: BrokerConfig, name: str) -> ConfigEntry:
    hidden = [ConfigSynonym(name, None, _source_of(setting)) for setting in broker.layers(name)]
    return ConfigEntry(name, None, hidden, key=None, read_only=True)


def _other_entry(
    broker: BrokerConfig, name: str, key: ConfigKey[Any] | None, value: str | None
) -> ConfigEntry:
    """A setting of one listener, with the value for all listeners behind it; of a quota; of an unknown key."""
    base = name_of_all_listeners(name)
    synonyms = _synonyms_of(broker, [name] if base is None else [name, base])
    return ConfigEntry(name, value, synonyms, key=key, read_only=_is_read_only(name), is_documented=False)

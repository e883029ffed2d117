"""The configuration of one topic's logs: its own settings over the broker's, as one immutable value.

Settings are checked before they are stored. `LogConfigs` ignores and reports one that is invalid all the same, in a
directory that another version wrote for example; the next weaker value applies.

Source: org.apache.kafka.storage.internals.log.LogConfig and KafkaConfig.extractLogConfigMap.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from barnabas.config.catalogue import topic as t
from barnabas.config.keys import ConfigError, ConfigKey

TOPIC_KEYS: Mapping[str, ConfigKey[Any]] = t.keys.by_name
MAX_REMEMBERED_TOPICS = 20_000


class BrokerValues(Protocol):
    """The part of a broker's configuration that logs need: the effective value of a broker key by its name."""

    def value_of(self, name: str) -> Any:
        """The effective value of the broker key `name`; None when it is unset."""


class LiveValues(BrokerValues, Protocol):
    """The values of a broker that may change while it runs: `generation` differs after each change."""

    generation: int


class LogConfig(NamedTuple):
    """The effective configuration of one topic's logs; without arguments, Apache Kafka's defaults.

    Times are in milliseconds, sizes in bytes. `segment_bytes` is the effective size: internal.segment.bytes overrides
    segment.bytes. A change makes a new value: `config._replace(retention_ms=1)`.
    """

    segment_bytes: int = t.SEGMENT_BYTES.default
    segment_ms: int = t.SEGMENT_MS.default
    segment_jitter_ms: int = t.SEGMENT_JITTER_MS.default
    segment_index_bytes: int = t.SEGMENT_INDEX_BYTES.default
    index_interval_bytes: int = t.INDEX_INTERVAL_BYTES.default
    preallocate: bool = t.PREALLOCATE.default
    file_delete_delay_ms: int = t.FILE_DELETE_DELAY_MS.default
    flush_messages: int = t.FLUSH_MESSAGES.default
    flush_ms: int = t.FLUSH_MS.default
    retention_ms: int = t.RETENTION_MS.default
    retention_bytes: int = t.RETENTION_BYTES.default
    cleanup_policy: frozenset[str] = frozenset(t.CLEANUP_POLICY.default)
    delete_retention_ms: int = t.DELETE_RETENTION_MS.default
    min_compaction_lag_ms: int = t.MIN_COMPACTION_LAG_MS.default
    max_compaction_lag_ms: int = t.MAX_COMPACTION_LAG_MS.default
    min_cleanable_dirty_ratio: float = t.MIN_CLEANABLE_DIRTY_RATIO.default
    max_message_bytes: int = t.MAX_MESSAGE_BYTES.default
    message_timestamp_type: str = t.MESSAGE_TIMESTAMP_TYPE.default
    message_timestamp_before_max_ms: int = t.MESSAGE_TIMESTAMP_BEFORE_MAX_MS.default
    message_timestamp_after_max_ms: int = t.MESSAGE_TIMESTAMP_AFTER_MAX_MS.default
    compression_type: str = t.COMPRESSION_TYPE.default
    compression_gzip_level: int = t.COMPRESSION_GZIP_LEVEL.default
    compression_lz4_level: int = t.COMPRESSION_LZ4_LEVEL.default
    compression_zstd_level: int = t.COMPRESSION_ZSTD_LEVEL.default
    min_insync_replicas: int = t.MIN_INSYNC_REPLICAS.default
    unclean_leader_election_enable: bool = t.UNCLEAN_LEADER_ELECTION_ENABLE.default
    leader_replication_throttled_replicas: tuple[str, ...] = t.LEADER_REPLICATION_THROTTLED_REPLICAS.default
    follower_replication_throttled_replicas: tuple[str, ...] = (
        t.FOLLOWER_REPLICATION_THROTTLED_REPLICAS.default
    )
    remote_storage_enable: bool = t.REMOTE_STORAGE_ENABLE.default
    local_retention_ms: int = t.LOCAL_RETENTION_MS.default
    local_retention_bytes: int = t.LOCAL_RETENTION_BYTES.default
    remote_log_copy_disable: bool = t.REMOTE_LOG_COPY_DISABLE.default
    remote_log_delete_on_disable: bool = t.REMOTE_LOG_DELETE_ON_DISABLE.default

    @property
    def compact(self) -> bool:
        """True when superseded records may be compacted away."""
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        """True when segments may be deleted by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment is rolled, ms: in time for max.compaction.lag.ms where the log is compacted."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    @classmethod
    def of(cls, broker: BrokerValues, overrides: Mapping[str, str]) -> "LogConfig":
        """The configuration of a topic with these overrides (texts by key) on this broker.

        Raises ConfigError when an override is not a topic key or has an invalid value.
        """
        values = effective_topic_values(broker, overrides)
        small_segment = values.pop(t.INTERNAL_SEGMENT_BYTES.name)
        if small_segment is not None:
            values[t.SEGMENT_BYTES.name] = small_segment
        values[t.CLEANUP_POLICY.name] = frozenset(values[t.CLEANUP_POLICY.name])
        return cls(**{name.replace(".", "_"): value for name, value in values.items()})


class LogConfigs:
    """The configurations of all topics on a broker whose own may change. Topics without settings share one value, and
    so do the partitions of one topic. `report(topic, error)` is called for each setting that is ignored.
    """

    def __init__(self, broker: LiveValues, report: Callable[[str, ConfigError], None]) -> None:
        self._broker = broker
        self._report = report
        self._begin()

    def _begin(self) -> None:
        self._generation = self._broker.generation
        self._default = LogConfig.of(self._broker, {})
        self._known: dict[str, tuple[Mapping[str, str], LogConfig]] = {}

    def of(self, topic: str, overrides: Mapping[str, str]) -> LogConfig:
        """The current configuration of a topic with these settings; changed settings must be a new mapping."""
        if self._generation != self._broker.generation or len(self._known) > MAX_REMEMBERED_TOPICS:
            self._begin()
        if not overrides:
            return self._default
        known = self._known.get(topic)
        if known is not None and known[0] is overrides:
            return known[1]
        sound, errors = sound_topic_overrides(overrides)
        for error in errors:
            self._report(topic, error)
        config = LogConfig.of(self._broker, sound)
        self._known[topic] = (overrides, config)
        return config


def sound_topic_overrides(overrides: Mapping[str, str]) -> tuple[dict[str, str], list[ConfigError]]:
    """The valid settings of a topic, and the errors of the others."""
    sound: dict[str, str] = {}
    errors: list[ConfigError] = []
    for name, text in overrides.items():
        try:
            topic_key(name).parse(text)
        except ConfigError as error:
            errors.append(error)
        else:
            sound[name] = text
    return sound, errors


def effective_topic_values(broker: BrokerValues, overrides: Mapping[str, str]) -> dict[str, Any]:
    """Every topic key's effective value: the override, else the broker's value, else the default."""
    parsed = parse_topic_overrides(overrides)
    return {
        name: parsed[name] if name in parsed else broker_value(broker, key)
        for name, key in TOPIC_KEYS.items()
    }


def broker_value(broker: BrokerValues, key: ConfigKey[Any]) -> Any:
    """The broker's value for a topic key that the topic does not set."""
    for synonym in key.synonyms:
        value: Any = broker.value_of(synonym.name)
        if value is not None:
            value = value if synonym.factor == 1 else value * synonym.factor
            # Any negative retention time means for ever (KafkaConfig.logRetentionTimeMillis).
            return -1 if key is t.RETENTION_MS and value < 0 else value
    return key.default


def parse_topic_overrides(overrides: Mapping[str, str]) -> dict[str, Any]:
    """The values of a topic's own settings; raises ConfigError for the first invalid one."""
    return {name: topic_key(name).parse(text) for name, text in overrides.items()}


def topic_key(name: str) -> ConfigKey[Any]:
    """The topic key of that name; raises ConfigError for an unknown name."""
    key = TOPIC_KEYS.get(name)
    if key is None:
        raise ConfigError(
            name, None, "is not a topic configuration key", phrase=f"Unknown topic config name: {name}"
        )
    return key


def validate_topic_overrides(overrides: Mapping[str, str], broker: BrokerValues | None = None) -> None:
    """Checks what a client wants to set on a topic; raises ConfigError (LogConfig.validate).

    It checks each value, that the compaction lags agree (with the values of `broker` where given), and that tiered
    storage stays disabled.
    """
    values = parse_topic_overrides(overrides)

    def effective(key: ConfigKey[Any]) -> Any:
        default = key.default if broker is None else broker_value(broker, key)
        return values.get(key.name, default)

    min_lag, max_lag = effective(t.MIN_COMPACTION_LAG_MS), effective(t.MAX_COMPACTION_LAG_MS)
    if min_lag > max_lag:
        limit = f"at most {t.MAX_COMPACTION_LAG_MS.name}, which is {max_lag}"
        phrase = f"conflict topic config setting {t.MIN_COMPACTION_LAG_MS.name} ({min_lag}) > "
        phrase += f"{t.MAX_COMPACTION_LAG_MS.name} ({max_lag})"
        raise t.MIN_COMPACTION_LAG_MS.error(str(min_lag), limit, phrase)
    if values.get(t.REMOTE_STORAGE_ENABLE.name):
        raise t.REMOTE_STORAGE_ENABLE.error(
            "true",
            "false: tiered storage is not enabled on this broker",
            "Tiered Storage functionality is disabled in the broker",
        )

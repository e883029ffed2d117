"""What the logs of one topic obey."""

from __future__ import annotations

import pytest

from barnabas.config.broker_config import BrokerConfig
from barnabas.config.dynamic import apply_dynamic_settings
from barnabas.config.keys import ConfigError
from barnabas.config.log_config import LogConfig, LogConfigs, topic_key, validate_topic_overrides


def broker(*lines: str) -> BrokerConfig:
    return BrokerConfig.of("\n".join(lines).encode())


def test_a_log_config_without_arguments_has_kafkas_defaults() -> None:
    assert LogConfig() == LogConfig.of(BrokerConfig(), {})
    assert (LogConfig().segment_bytes, LogConfig().retention_ms, LogConfig().max_message_bytes) == (
        1 << 30,
        604_800_000,
        1_048_588,
    )
    assert LogConfig().delete
    assert not LogConfig().compact


def test_a_topics_settings_override_the_brokers() -> None:
    base = broker("log.segment.bytes=2000000", "log.cleanup.policy=compact", "message.max.bytes=7")
    assert LogConfig.of(base, {}).segment_bytes == 2_000_000
    assert LogConfig.of(base, {}).compact
    assert LogConfig.of(base, {}).max_message_bytes == 7
    own = LogConfig.of(base, {"segment.bytes": "3000000", "cleanup.policy": "delete,compact"})
    assert own.segment_bytes == 3_000_000
    assert own.cleanup_policy == {"delete", "compact"}


@pytest.mark.parametrize(
    ("lines", "retention_ms"),
    [
        (["log.retention.hours=2"], 7_200_000),
        (["log.retention.hours=2", "log.retention.minutes=3"], 180_000),
        (["log.retention.hours=2", "log.retention.minutes=3", "log.retention.ms=4"], 4),
        (["log.retention.ms=-1"], -1),
        (["log.retention.minutes=-5"], -1),
        (["log.retention.hours=-1"], -1),
    ],
)
def test_the_finest_unit_that_is_set_holds(lines: list[str], retention_ms: int) -> None:
    assert LogConfig.of(broker(*lines), {}).retention_ms == retention_ms


def test_rolling_and_flushing_fall_back_likewise() -> None:
    config = LogConfig.of(
        broker("log.roll.hours=1", "log.roll.jitter.hours=2", "log.flush.scheduler.interval.ms=9"), {}
    )
    assert (config.segment_ms, config.segment_jitter_ms, config.flush_ms) == (3_600_000, 7_200_000, 9)
    config = LogConfig.of(broker("log.roll.ms=5", "log.roll.jitter.ms=6", "log.flush.interval.ms=7"), {})
    assert (config.segment_ms, config.segment_jitter_ms, config.flush_ms) == (5, 6, 7)


def test_the_internal_segment_size_goes_before_the_official_one() -> None:
    config = LogConfig.of(BrokerConfig(), {"internal.segment.bytes": "100", "segment.bytes": "2000000"})
    assert config.segment_bytes == 100


def test_a_change_makes_a_new_value() -> None:
    before = LogConfig()
    after = before._replace(retention_ms=1)
    assert (before.retention_ms, after.retention_ms) == (604_800_000, 1)


def test_unknown_and_invalid_settings_are_rejected() -> None:
    with pytest.raises(ConfigError, match=r"^retention is not a topic configuration key"):
        LogConfig.of(BrokerConfig(), {"retention": "1"})
    with pytest.raises(ConfigError, match=r"^segment\.bytes=1 must be a whole number from 1048576"):
        validate_topic_overrides({"segment.bytes": "1"})
    with pytest.raises(ConfigError):
        topic_key("log.retention.ms")


def test_the_compaction_lags_must_agree() -> None:
    validate_topic_overrides({"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"})
    with pytest.raises(
        ConfigError, match=r"min.compaction.lag.ms=6 must be at most max.compaction.lag.ms, which is 5"
    ):
        validate_topic_overrides({"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"})
    short = broker("log.cleaner.max.compaction.lag.ms=5")
    with pytest.raises(ConfigError):
        validate_topic_overrides({"min.compaction.lag.ms": "6"}, short)


def test_tiered_storage_cannot_be_enabled() -> None:
    validate_topic_overrides({"remote.storage.enable": "false"})
    with pytest.raises(ConfigError, match="tiered storage is not enabled"):
        validate_topic_overrides({"remote.storage.enable": "true"})


def live() -> tuple[BrokerConfig, LogConfigs, list[tuple[str, str]]]:
    broker = BrokerConfig.of(None)
    reported: list[tuple[str, str]] = []
    return broker, LogConfigs(broker, lambda topic, error: reported.append((topic, error.key))), reported


def test_topics_without_settings_share_the_current_configuration() -> None:
    broker, configs, reported = live()
    first = configs.of("t", {})
    assert first is configs.of("u", {})
    assert first.max_message_bytes == 1_048_588
    apply_dynamic_settings(broker, {"message.max.bytes": "77"}, {})
    assert configs.of("t", {}) is configs.of("u", {})
    assert configs.of("t", {}).max_message_bytes == 77
    own = configs.of("t", {"retention.ms": "5"})
    assert (own.max_message_bytes, own.retention_ms, reported) == (77, 5, [])


def test_a_topics_partitions_share_its_configuration_until_it_changes() -> None:
    broker, configs, reported = live()
    overrides = {"retention.ms": "5", "nope": "1"}
    first = configs.of("t", overrides)
    assert configs.of("t", overrides) is first
    assert reported == [("t", "nope")]
    assert configs.of("t", {"retention.ms": "6"}).retention_ms == 6
    apply_dynamic_settings(broker, {"message.max.bytes": "77"}, {})
    assert configs.of("t", overrides) == first._replace(max_message_bytes=77)


def test_invalid_topic_settings_are_left_out_and_reported() -> None:
    _, configs, reported = live()
    config = configs.of("t", {"retention.ms": "x", "no.such.key": "1", "segment.ms": "9"})
    assert (config.retention_ms, config.segment_ms) == (604_800_000, 9)
    assert reported == [("t", "retention.ms"), ("t", "no.such.key")]

"""Configurations in the metadata, brought into force."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from barnabas.broker.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataDelta, MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.startup.dynamic_config import DynamicConfig, DynamicConfigPublisher
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.log import LOG_CLEANER_THREADS, MESSAGE_MAX_BYTES
from barnabas.protocol.messages.topic_records import ConfigRecord
from tests.broker.broker_fixture import NODE_ID, InProcessBroker


def record(kind: int, name: str, key: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


def after(*records: ConfigRecord) -> tuple[MetadataImage, MetadataDelta]:
    return replayed(MetadataImage.empty(), records)


def test_a_start_takes_over_what_can_stand_and_says_what_cannot(caplog: pytest.LogCaptureFixture) -> None:
    config = BrokerConfig.of(None)
    image, _ = after(
        record(BROKER_RESOURCE, "", "message.max.bytes", "5"),
        record(BROKER_RESOURCE, "", "log.cleaner.threads", "many"),
        record(BROKER_RESOURCE, "2", "message.max.bytes", "6"),
    )
    DynamicConfig(config).apply_broker(image, NODE_ID)
    assert (config[MESSAGE_MAX_BYTES], config[LOG_CLEANER_THREADS]) == (5, 1)
    (line,) = caplog.messages
    assert "log.cleaner.threads=many must be a whole number" in line
    assert "the cluster's dynamic default" in line


def test_what_comes_and_goes_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    dynamic = DynamicConfig(BrokerConfig.of(None))
    password = "listener.name.plaintext.ssl.key.password"
    for text in ("5", "6", "6", None):
        dynamic.apply_broker(
            after(
                record(BROKER_RESOURCE, "", "message.max.bytes", text),
                record(BROKER_RESOURCE, "1", password, "secret"),
                record(BROKER_RESOURCE, "1", "unknown", "secret"),
            )[0],
            NODE_ID,
        )
    assert caplog.messages == [
        "message.max.bytes=5, by the cluster's dynamic default",
        "message.max.bytes=6, by the cluster's dynamic default",
        "message.max.bytes is no longer set by the cluster's dynamic default",
    ]


def test_a_topics_setting_that_cannot_stand_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    dynamic = DynamicConfig(BrokerConfig.of(None))
    image, _ = after(
        record(TOPIC_RESOURCE, "t", "retention.ms", "x"), record(TOPIC_RESOURCE, "t", "segment.ms", "5")
    )
    for _ in range(3):
        assert dynamic.log_config(image, "t").segment_ms == 5
    (line,) = caplog.messages
    assert "topic t: retention.ms=x must be" in line


def test_parts_are_told_of_the_brokers_own_changes_only(broker: InProcessBroker) -> None:
    called: list[int] = []
    storage = broker.storage
    publisher = DynamicConfigPublisher(
        storage.dynamic_config,
        NODE_ID,
        storage.log_manager,
        lambda: called.append(broker.config[MESSAGE_MAX_BYTES]),
    )
    publisher.apply(*after(record(TOPIC_RESOURCE, "t", "retention.ms", "5")))
    publisher.apply(*after(record(BROKER_RESOURCE, "2", "message.max.bytes", "5")))
    assert called == []
    publisher.apply(*after(record(BROKER_RESOURCE, "", "message.max.bytes", "7")))
    publisher.apply(*after(record(BROKER_RESOURCE, str(NODE_ID), "message.max.bytes", "8")))
    assert called == [7, 8]


def test_logs_whose_configuration_stays_are_left_alone(broker: InProcessBroker) -> None:
    broker.create_topic("t", retention_ms="5")
    (log,) = broker.log_manager.all_logs()
    before = log.config
    broker.dynamic_config.apply(broker.broker.image, MetadataDelta.everything(broker.broker.image))
    assert log.config is before


def test_a_broker_starts_on_settings_that_nobody_could_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As another version may have left them."""
    broker = InProcessBroker(tmp_path)
    broker.create_topic("t")
    broker.storage.store.append(
        [
            [
                record(TOPIC_RESOURCE, "t", "retention.ms", "x"),
                record(TOPIC_RESOURCE, "t", "no.such.key", "1"),
                record(BROKER_RESOURCE, "", "listeners", "A://:1"),
                record(BROKER_RESOURCE, str(NODE_ID), "log.cleaner.dedupe.buffer.size", "1"),
                record(BROKER_RESOURCE, str(NODE_ID), "message.max.bytes", "77"),
            ]
        ]
    )
    broker.stop()
    with caplog.at_level(logging.ERROR):
        again = InProcessBroker(tmp_path)
    (log,) = again.log_manager.all_logs()
    assert (log.config.retention_ms, log.config.max_message_bytes) == (604_800_000, 77)
    text = "\n".join(caplog.messages)
    for key in ("retention.ms=x", "no.such.key", "listeners=A://:1", "log.cleaner.dedupe.buffer.size=1"):
        assert text.count(key) == 1, text
    again.kill()

"""Configurations as stock clients alter and describe them, and their effect on records."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its stubs do not export what it documents
    AlterConfigOpType,
    ConfigEntry,
)

from tests.interop.clients.confluent import AdminClient, ConfigResource, ConfigSource, ResourceType
from tests.interop.clients.kafka_python import KafkaAdminClient
from tests.interop.conftest import TopicFactory

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

LIMIT_S = 20.0
SET, DELETE, APPEND, SUBTRACT = (
    AlterConfigOpType.SET,
    AlterConfigOpType.DELETE,
    AlterConfigOpType.APPEND,
    AlterConfigOpType.SUBTRACT,
)


def alter(
    admin: AdminClient,
    of: tuple[ResourceType, str],
    operation: AlterConfigOpType,
    key: str,
    value: str | None,
) -> None:
    """Raises KafkaException if it is rejected."""
    kind, name = of
    entry = ConfigEntry(key, value, incremental_operation=operation)
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    (future,) = admin.incremental_alter_configs([resource]).values()
    future.result(LIMIT_S)


def described(admin: AdminClient, kind: ResourceType, name: str) -> dict[str, Any]:
    (future,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    found: dict[str, Any] = future.result(LIMIT_S)
    return found


def wait_for_value(admin: AdminClient, kind: ResourceType, name: str, key: str, value: str) -> Any:
    """Waits until the entry has this value, and returns it: Apache Kafka answers before its broker has the change."""
    deadline = time.monotonic() + LIMIT_S
    while (entry := described(admin, kind, name)[key]).value != value:
        assert time.monotonic() < deadline, entry
        time.sleep(0.02)
    return entry


def produce_error(bootstrap: str, topic: str, value: bytes) -> int:
    """The error code of one record, produced by itself; 0 for none."""
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 20_000, "linger.ms": 0})
    producer.produce(topic, value, on_delivery=lambda error, _: codes.append(error.code() if error else 0))
    producer.flush(LIMIT_S)
    (code,) = codes
    return code


@pytest.fixture
def broker_id(admin: AdminClient) -> str:
    (broker,) = admin.list_topics(timeout=LIMIT_S).brokers
    return str(broker)


@pytest.fixture
def clean_broker(admin: AdminClient, broker_id: str) -> Iterator[str]:
    """The broker's id; its message.max.bytes is reset after the test."""
    yield broker_id
    alter(admin, (ResourceType.BROKER, broker_id), DELETE, "message.max.bytes", None)


def test_list_values_are_appended_to_and_subtracted_from(admin: AdminClient, topic: TopicFactory) -> None:
    name = topic()
    for operation, value, after in (
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SET, "delete", "delete"),
    ):
        alter(admin, (ResourceType.TOPIC, name), operation, "cleanup.policy", value)
        entry = wait_for_value(admin, ResourceType.TOPIC, name, "cleanup.policy", after)
        assert entry.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value


def test_altered_limits_apply_to_records(
    admin: AdminClient, topic: TopicFactory, bootstrap: str, clean_broker: str
) -> None:
    name = topic()
    assert produce_error(bootstrap, name, b"x" * 5000) == 0
    alter(admin, (ResourceType.BROKER, clean_broker), SET, "message.max.bytes", "1000")
    entry = wait_for_value(admin, ResourceType.TOPIC, name, "max.message.bytes", "1000")
    assert entry.source == ConfigSource.DYNAMIC_BROKER_CONFIG.value
    assert produce_error(bootstrap, name, b"x" * 5000) == KafkaError.MSG_SIZE_TOO_LARGE
    alter(admin, (ResourceType.TOPIC, name), SET, "max.message.bytes", "10000")
    wait_for_value(admin, ResourceType.TOPIC, name, "max.message.bytes", "10000")
    assert produce_error(bootstrap, name, b"x" * 5000) == 0


@pytest.mark.parametrize(
    ("kind", "key", "value", "code"),
    [
        (ResourceType.TOPIC, "no.such.key", "1", KafkaError.INVALID_CONFIG),
        (ResourceType.TOPIC, "retention.ms", "soon", KafkaError.INVALID_CONFIG),
        (ResourceType.BROKER, "num.partitions", "1", KafkaError.INVALID_REQUEST),
        (ResourceType.BROKER, "message.max.bytes", "many", KafkaError.INVALID_REQUEST),
    ],
)
def test_invalid_alterations_are_rejected(
    admin: AdminClient,
    topic: TopicFactory,
    broker_id: str,
    *,
    kind: ResourceType,
    key: str,
    value: str,
    code: int,
) -> None:
    name = topic() if kind == ResourceType.TOPIC else broker_id
    with pytest.raises(KafkaException) as caught:
        alter(admin, (kind, name), SET, key, value)
    assert caught.value.args[0].code() == code


def test_alter_configs_of_kafka_python_replaces(bootstrap: str, admin: AdminClient) -> None:
    """The older API; kafka-python checks the result of each resource."""
    from kafka.admin import ConfigResource as Resource
    from kafka.admin import ConfigResourceType, NewTopic

    name = f"interop-{uuid.uuid4().hex[:12]}"
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        client.create_topics([NewTopic(name, 1, 1, topic_configs={"segment.ms": "5000"})])
        client.alter_configs([Resource(ConfigResourceType.TOPIC, name, configs={"retention.ms": "9000"})])
        wait_for_value(admin, ResourceType.TOPIC, name, "retention.ms", "9000")
        client.delete_topics([name])
    finally:
        client.close()

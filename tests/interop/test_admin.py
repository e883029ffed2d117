"""Administration as stock clients do it: topics, the cluster, configurations."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaError, KafkaException, TopicCollection

from tests.interop.clients.confluent import (
    AdminClient,
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
)
from tests.interop.clients.kafka_python import KafkaAdminClient
from tests.interop.conftest import TopicFactory

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

LIMIT_S = 20.0


def unused() -> str:
    return f"interop-{uuid.uuid4().hex[:12]}"


def error_code_of(call: Callable[[], Any]) -> int:
    """The code of the KafkaException that the call raises."""
    with pytest.raises(KafkaException) as caught:
        call()
    error: KafkaError = caught.value.args[0]
    return error.code()


def create(admin: AdminClient, new: NewTopic, **options: Any) -> None:
    admin.create_topics([new], **options)[new.topic].result(LIMIT_S)


def test_a_new_topic_is_listed_and_described(admin: AdminClient, topic: TopicFactory) -> None:
    name = topic(3)
    assert name in admin.list_topics(timeout=LIMIT_S).topics
    described = admin.describe_topics(TopicCollection([name]))[name].result(LIMIT_S)
    assert described.name == name
    assert [one.id for one in described.partitions] == [0, 1, 2]
    assert str(described.topic_id) not in ("", "AAAAAAAAAAAAAAAAAAAAAA")
    for one in described.partitions:
        assert [node.id for node in one.replicas] == [node.id for node in one.isr] == [one.leader.id]


def test_a_topic_without_counts_gets_the_defaults_of_the_broker(admin: AdminClient) -> None:
    name = unused()
    create(admin, NewTopic(name, num_partitions=-1, replication_factor=-1))
    try:
        described = admin.describe_topics(TopicCollection([name]))[name].result(LIMIT_S)
        assert len(described.partitions) == 1
    finally:
        admin.delete_topics([name])[name].result(LIMIT_S)


def test_a_topic_can_be_validated_without_being_created(admin: AdminClient) -> None:
    name = unused()
    create(admin, NewTopic(name, 1, 1), validate_only=True)
    assert name not in admin.list_topics(timeout=LIMIT_S).topics


@pytest.mark.parametrize(
    ("new", "code"),
    [
        (NewTopic("a name with spaces", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("..", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("x" * 250, 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("no-partitions", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("seven-replicas", 1, 7), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("no-replicas", 1, 0), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("unknown-key", 1, 1, config={"no.such.key": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("retention-in-words", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("unknown-policy", 1, 1, config={"cleanup.policy": "keep"}), KafkaError.INVALID_CONFIG),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_invalid_topic_is_rejected(admin: AdminClient, new: NewTopic, code: int) -> None:
    assert error_code_of(lambda: create(admin, new)) == code


def test_an_existing_topic_cannot_be_created_again(admin: AdminClient, topic: TopicFactory) -> None:
    name = topic()
    assert error_code_of(lambda: create(admin, NewTopic(name, 1, 1))) == KafkaError.TOPIC_ALREADY_EXISTS


def test_a_deleted_topic_is_gone_and_can_be_created_again(admin: AdminClient) -> None:
    name = unused()
    ids = []
    for _ in range(2):
        create(admin, NewTopic(name, 2, 1))
        ids.append(str(eventually(lambda: describe(admin, name)).topic_id))
        admin.delete_topics([name])[name].result(LIMIT_S)
        eventually(lambda: name not in admin.list_topics(timeout=LIMIT_S).topics)
    assert ids[0] != ids[1]


def test_an_unknown_topic_cannot_be_deleted(admin: AdminClient) -> None:
    name = unused()
    code = error_code_of(lambda: admin.delete_topics([name])[name].result(LIMIT_S))
    assert code == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_the_cluster_is_described(admin: AdminClient, bootstrap: str) -> None:
    cluster = admin.describe_cluster().result(LIMIT_S)
    assert len(cluster.cluster_id) == 22
    assert [f"{node.host}:{node.port}" for node in cluster.nodes] == [bootstrap]
    assert cluster.controller.id == cluster.nodes[0].id


def test_the_configuration_of_a_topic_has_values_and_sources(admin: AdminClient, topic: TopicFactory) -> None:
    name = topic(1, retention_ms="86400000", cleanup_policy="compact")
    entries = admin.describe_configs([ConfigResource(ResourceType.TOPIC, name)])
    (future,) = entries.values()
    found = future.result(LIMIT_S)
    assert found["retention.ms"].value == "86400000"
    assert found["cleanup.policy"].value == "compact"
    assert found["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert found["max.message.bytes"].value == "1048588"
    assert found["max.message.bytes"].source == ConfigSource.DEFAULT_CONFIG.value
    assert found["max.message.bytes"].is_default


def test_the_configuration_of_the_broker_is_described(admin: AdminClient) -> None:
    node = admin.describe_cluster().result(LIMIT_S).controller.id
    (future,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, str(node))]).values()
    found = future.result(LIMIT_S)
    assert found["log.dirs"].value
    assert found["listeners"].source == ConfigSource.STATIC_BROKER_CONFIG.value
    assert found["log.segment.bytes"].value == "1073741824"


def test_the_configuration_of_an_unknown_topic_is_an_error(admin: AdminClient) -> None:
    (future,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, unused())]).values()
    assert error_code_of(lambda: future.result(LIMIT_S)) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_kafka_python_administers(bootstrap: str) -> None:
    name = unused()
    client = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        client.create_topics(
            {name: {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "1000"}}},
            wait_for_metadata=True,
        )
        assert name in client.list_topics()
        (described,) = client.describe_topics([name])
        assert len(described["partitions"]) == 2
        assert len(client.describe_cluster()["brokers"]) == 1
        client.delete_topics([name])
        eventually(lambda: name not in client.list_topics())
    finally:
        client.close()


async def test_aiokafka_administers(bootstrap: str) -> None:
    name = unused()
    client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await client.start()
    try:
        await client.create_topics([AioNewTopic(name, 2, 1)])
        deadline = time.monotonic() + LIMIT_S
        while name not in await client.list_topics():
            assert time.monotonic() < deadline
            await asyncio.sleep(0.02)
        (described,) = await client.describe_topics([name])
        assert len(described["partitions"]) == 2
        assert len((await client.describe_cluster())["brokers"]) == 1
        await client.delete_topics([name])
    finally:
        await client.close()


def describe(admin: AdminClient, name: str) -> Any:
    try:
        return admin.describe_topics(TopicCollection([name]))[name].result(LIMIT_S)
    except KafkaException:
        return None


def eventually(condition: Callable[[], Any]) -> Any:
    """Waits for a true result and returns it (Apache Kafka's metadata is slightly behind its responses)."""
    deadline = time.monotonic() + LIMIT_S
    while not (answer := condition()):
        assert time.monotonic() < deadline, "the condition did not become true"
        time.sleep(0.02)
    return answer

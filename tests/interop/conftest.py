"""The broker for stock clients: a Barnabas that the tests start, or a broker that the environment names.

BARNABAS_TEST_BOOTSTRAP=host:port points every test here at an external broker, which needs the settings of OVERRIDES,
and BARNABAS_TEST_BOOTSTRAP=kafka starts an Apache Kafka for them, of the version in BARNABAS_TEST_KAFKA (4.3.1). This
validates the tests: a failure there is a mistake in the test.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.conformance.kafka_jars import KAFKA_VERSION, require_classpath
from tests.interop.clients.confluent import AdminClient, NewTopic, OffsetSpec
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

TopicFactory = Callable[..., str]

OVERRIDES = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
"""Short sessions and small internal topics keep the tests fast."""

_ADMIN_LIMIT_S = 30.0


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """host:port of a broker that serves all tests of the session; one started here must stop cleanly at the end."""
    outside = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if outside and outside != "kafka":
        yield outside
        return
    broker = own_broker(tmp_path_factory.mktemp("interop"), OVERRIDES)
    broker.start()
    try:
        yield broker.bootstrap
        assert broker.stop() == broker.clean_status
    finally:
        broker.kill()


def own_broker(directory: Path, overrides: Mapping[str, str]) -> ApacheKafka | BrokerProcess:
    """A broker that the test itself starts, kills and stops; skips the test where an external broker is named."""
    outside = os.environ.get("BARNABAS_TEST_BOOTSTRAP")
    if not outside:
        return BrokerProcess(directory / "data", overrides)
    if outside != "kafka":
        pytest.skip("the test starts and kills its broker")
    classpath = require_classpath(os.environ.get("BARNABAS_TEST_KAFKA", KAFKA_VERSION))
    return ApacheKafka(directory, classpath, overrides)


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    """librdkafka's admin client."""
    return AdminClient({"bootstrap.servers": bootstrap})


@pytest.fixture
def topic(admin: AdminClient) -> Iterator[TopicFactory]:
    """`topic(partitions=1, **config)` creates a topic and returns its name; all are deleted after the test."""
    created: list[str] = []

    def create(partitions: int = 1, **config: str) -> str:
        name = f"interop-{uuid.uuid4().hex[:12]}"
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dotted)
        admin.create_topics([new])[name].result(_ADMIN_LIMIT_S)
        created.append(name)
        wait_for_leaders(admin, name, partitions)
        return name

    yield create
    if created:
        for future in admin.delete_topics(created).values():
            future.result(_ADMIN_LIMIT_S)


def wait_for_leaders(admin: AdminClient, name: str, partitions: int) -> None:
    """Waits until each partition has a leader that answers; Apache Kafka names leaders before they have logs."""
    deadline = time.monotonic() + _ADMIN_LIMIT_S
    while not (have_leaders(admin, name, partitions) and have_logs(admin, name, partitions)):
        if time.monotonic() > deadline:
            pytest.fail(f"{name} has no leaders after {_ADMIN_LIMIT_S:g} s")
        time.sleep(0.02)


def have_leaders(admin: AdminClient, name: str, partitions: int) -> bool:
    """Whether Metadata names a leader for each partition."""
    found = admin.list_topics(name, timeout=10).topics[name].partitions
    return len(found) == partitions and all(one.leader >= 0 for one in found.values())


def have_logs(admin: AdminClient, name: str, partitions: int) -> bool:
    """Whether each leader reports its log end offset."""
    wanted = {TopicPartition(name, number): OffsetSpec.latest() for number in range(partitions)}
    return not any(future.exception(_ADMIN_LIMIT_S) for future in admin.list_offsets(wanted).values())

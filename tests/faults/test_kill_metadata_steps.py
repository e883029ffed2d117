"""kill -9 at each file operation of creating, growing, altering and deleting topics, and of snapshots of the metadata.

A broker kills itself at one operation (`killed_broker`), the next one takes the directory over, and so on. After each
kill an acknowledged change is there, and any other is there wholly or not at all: all partitions of a topic
and all its settings, or neither. Apache Kafka reads the same state.

BARNABAS_KILLS is the number of kills; some 400 reach each operation once.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from barnabas.broker.metadata.image import TOPIC_RESOURCE
from barnabas.protocol.messages.configs import (
    DescribeConfigsRequest,
    IncrementalAlterConfigsRequest,
)
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid
from tests.conformance.broker_connection import BrokerConnection, ClosedError
from tests.conformance.kafka_jars import require_classpath
from tests.faults.conftest import assert_no_traceback
from tests.faults.killed_broker import KILL_AT
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.chance import seed_or

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(7200)]

KILLS = int(os.environ.get("BARNABAS_KILLS") or 10)
STRIDE = 29
OPERATIONS = 400
LIMIT_MS = 20_000
SETTINGS = {
    "barnabas.http.port": "-1",
    "metadata.log.max.record.bytes.between.snapshots": "900",
    "metadata.max.retention.bytes": "9000",
    "internal.metadata.log.segment.bytes": "3000",
    "internal.metadata.max.batch.size.in.bytes": "3000",
    "internal.metadata.delete.delay.millis": "0",
    "log.initial.task.delay.ms": "100",
}
NAMES = ("a", "b", "c")
KEYS = ("retention.ms", "segment.bytes", "max.message.bytes")

Topic = tuple[int, dict[str, str]]
"""The partitions of a topic and its own settings."""
State = dict[str, Topic]


class KilledBroker(BrokerProcess):
    """Runs the broker that kills itself."""

    kill_at = 0

    def command(self) -> list[str]:
        words = super().command()
        assert words[1:3] == ["-m", "barnabas.cli"]
        self.environment[KILL_AT] = str(self.kill_at)
        return [sys.executable, "-m", "tests.faults.killed_broker", *words[3:]]


# -- changes: a request, and the state after it --


def create(state: State, dice: Random) -> tuple[Message, int, State]:
    name = dice.choice([name for name in NAMES if name not in state])
    count, configs = dice.randint(1, 4), {key: str(dice.randint(2_000_000, 3_000_000)) for key in KEYS}
    topic = CreateTopicsRequest.CreatableTopic(
        name=name,
        num_partitions=count,
        replication_factor=1,
        configs=[
            CreateTopicsRequest.CreatableTopicConfig(name=key, value=value) for key, value in configs.items()
        ],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=LIMIT_MS)
    return request, 7, {**state, name: (count, configs)}


def delete(state: State, dice: Random) -> tuple[Message, int, State]:
    name = dice.choice(sorted(state))
    request = DeleteTopicsRequest(
        topics=[DeleteTopicsRequest.DeleteTopicState(name=name)], timeout_ms=LIMIT_MS
    )
    return request, 6, {other: topic for other, topic in state.items() if other != name}


def grow(state: State, dice: Random) -> tuple[Message, int, State]:
    name = dice.choice(sorted(state))
    count, configs = state[name]
    more = count + dice.randint(1, 3)
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=more, assignments=None)
    return (
        CreatePartitionsRequest(topics=[topic], timeout_ms=LIMIT_MS),
        3,
        {**state, name: (more, configs)},
    )


def alter(state: State, dice: Random) -> tuple[Message, int, State]:
    """Sets two settings and deletes the third, or sets all."""
    name = dice.choice(sorted(state))
    count = state[name][0]
    gone = dice.choice((*KEYS, ""))
    after = {key: str(dice.randint(2_000_000, 3_000_000)) for key in KEYS if key != gone}
    changes = [
        IncrementalAlterConfigsRequest.AlterableConfig(
            name=key, config_operation=0 if key in after else 1, value=after.get(key)
        )
        for key in KEYS
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=TOPIC_RESOURCE, resource_name=name, configs=changes
    )
    return IncrementalAlterConfigsRequest(resources=[resource]), 1, {**state, name: (count, after)}


def changes(dice: Random) -> Iterator[Callable[[State, Random], tuple[Message, int, State]]]:
    """Yields each kind of change in turn, from a random one on."""
    kinds = [create, grow, alter, create, delete, create, alter, delete]
    at = dice.randrange(len(kinds))
    while True:
        yield kinds[at % len(kinds)]
        at += 1


def fits(change: object, state: State) -> bool:
    return len(state) < len(NAMES) if change is create else bool(state)


# -- the state that a broker reports --


def seen(connection: BrokerConnection) -> tuple[State, dict[str, Uuid]]:
    """Reads all topics, their settings and their ids; each partition has a leader."""
    metadata: Any = connection.request(MetadataRequest(topics=None), 12)
    topics = {topic.name: topic for topic in metadata.topics}
    assert all(topic.error_code == 0 for topic in topics.values()), metadata
    assert all(part.leader_id == 1 for topic in topics.values() for part in topic.partitions), metadata
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
        )
        for name in topics
    ]
    described: Any = connection.request(DescribeConfigsRequest(resources=resources), 4)
    configs = {
        result.resource_name: {one.name: one.value for one in result.configs if one.config_source == 1}
        for result in described.results
    }
    ids = {name: topic.topic_id for name, topic in topics.items()}
    return {name: (len(topic.partitions), configs[name]) for name, topic in topics.items()}, ids


def live(connection: BrokerConnection, state: State, dice: Random) -> tuple[State, State | None]:
    """Changes topics until the broker dies; returns the acknowledged state, and that with the unanswered change."""
    for change in changes(dice):
        if not fits(change, state):
            continue
        request, version, after = change(state, dice)
        try:
            answer: Any = connection.request(request, version)
        except (ClosedError, ConnectionError):
            return state, after
        check_answer(answer)
        state = after
    raise AssertionError("changes end with the broker only")


def few_changes(connection: BrokerConnection, state: State, dice: Random) -> State:
    """Makes some changes on a broker that survives; all are answered."""
    after = state
    for _, change in zip(range(6), changes(dice), strict=False):
        if fits(change, after):
            request, version, after = change(after, dice)
            check_answer(connection.request(request, version))
    return after


def check_answer(answer: Any) -> None:
    results = getattr(answer, "topics", None) or getattr(answer, "results", None) or answer.responses
    assert all(result.error_code == 0 for result in results), answer


def seen_soon(connection: BrokerConnection) -> State:
    """The state that a broker reports once all partitions have leaders again."""
    deadline = time.monotonic() + LIMIT_MS / 1000
    while True:
        try:
            return seen(connection)[0]
        except AssertionError:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.mark.conformance
def test_kafka_takes_over_after_a_kill(tmp_path: Path) -> None:
    dice = Random(seed_or(21))
    kafka = ApacheKafka(tmp_path, require_classpath(), {"delete.topic.enable": "true"})
    kafka.prepare()
    state: State = {}
    for number in range(max(KILLS // 5, 2)):
        broker = KilledBroker(kafka.data_dir, SETTINGS)
        broker.kill_at = dice.randrange(60, 300)
        with broker:
            connection = BrokerConnection("127.0.0.1", broker.port)
            assert seen(connection)[0] == state
            state, unanswered = live(connection, state, dice)
            connection.close()
            assert_no_traceback(broker)
        with kafka:
            connection = BrokerConnection("127.0.0.1", int(kafka.bootstrap.rpartition(":")[2]))
            found = seen_soon(connection)
            assert found in (state, unanswered), f"end {number}, at operation {broker.kill_at}"
            state = few_changes(connection, found, dice)
            connection.close()
            if number % 2:
                assert kafka.stop() == kafka.clean_status
            else:
                kafka.kill()


def test_a_kill_at_every_operation(tmp_path: Path) -> None:
    dice = Random(seed_or(20))
    state: State = {}
    unanswered: State | None = None
    broker = KilledBroker(tmp_path / "data", SETTINGS)
    for number in range(KILLS):
        broker.kill_at = number * STRIDE % OPERATIONS
        if number % 5 == 4:  # a kill during the start comes first
            broker.kill_at = -1 - dice.randrange(90)
            broker.spawn()
            broker.wait()
            broker.kill_at = number * STRIDE % OPERATIONS
        with broker:
            connection = BrokerConnection("127.0.0.1", broker.port)
            try:
                found, _ = seen(connection)
            except (ClosedError, ConnectionError):
                continue  # a housekeeping operation hit the kill
            assert found in (state, unanswered), f"end {number}, at operation {broker.kill_at}"
            state, unanswered = live(connection, found, dice)
            connection.close()
            assert_no_traceback(broker)
    broker.kill_at = 1 << 60
    with broker:
        connection = BrokerConnection("127.0.0.1", broker.port)
        found, ids = seen(connection)
        assert found in (state, unanswered)
        connection.close()
        assert broker.stop() == 0
    names = {path.name for path in (tmp_path / "data").iterdir() if path.is_dir()}
    expected = {f"{name}-{index}" for name, (count, _) in found.items() for index in range(count)}
    assert names - {"__cluster_metadata-0"} >= expected
    assert len(ids) == len(set(ids.values()))

"""Apache Kafka and Barnabas resume each other's moves between log directories, after a clean shutdown or a kill."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from barnabas.protocol.messages.log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import DialogueClient, batch
from tests.conformance.dialogues.words import list_offsets
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(280)]

THROTTLE = "replica.alter.log.dirs.io.max.bytes.per.second"
TOPIC = "moving"
BATCHES = 6
BATCH_BYTES = 700_000
LIMIT_S = 60.0
"""With the throttle, one or two of the batches are copied at once, and then none for a long time."""


class Side:
    """One of the two brokers on the same log directories."""

    def __init__(self, broker: ApacheKafka | BrokerProcess, directories: list[str]) -> None:
        self.broker = broker
        self.directories = directories

    def __enter__(self) -> Side:
        self.broker.start()
        self.connection = BrokerConnection("127.0.0.1", self.broker.port)
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self.broker.kill()

    def end(self, *, is_clean: bool) -> None:
        if is_clean:
            assert self.broker.stop() == self.broker.clean_status
        else:
            self.broker.kill()

    def create(self) -> None:
        topic = CreateTopicsRequest.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        answer = self.connection.request(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
        assert isinstance(answer, CreateTopicsResponse)
        assert answer.topics[0].error_code == 0, answer

    def throttle(self, bytes_per_second: int | None) -> None:
        request = IncrementalAlterConfigsRequest
        operation, value = (1, None) if bytes_per_second is None else (0, str(bytes_per_second))
        entry = request.AlterableConfig(name=THROTTLE, config_operation=operation, value=value)
        resource = request.AlterConfigsResource(resource_type=4, resource_name="1", configs=[entry])
        answer = self.connection.request(request(resources=[resource]), 1)
        assert isinstance(answer, IncrementalAlterConfigsResponse)
        assert answer.responses[0].error_code == 0, answer

    def move(self, path: str) -> None:
        request = AlterReplicaLogDirsRequest
        topic = request.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])
        answer = self.connection.request(
            request(dirs=[request.AlterReplicaLogDir(path=path, topics=[topic])]), 2
        )
        assert isinstance(answer, AlterReplicaLogDirsResponse)
        assert answer.results[0].partitions[0].error_code == 0, answer

    def places(self) -> dict[str, tuple[bool, int]]:
        """The directories that have a log of the partition: whether it is a future log, and its lag."""
        answer = self.connection.request(DescribeLogDirsRequest(topics=None), 4)
        assert isinstance(answer, DescribeLogDirsResponse)
        return {
            one.log_dir: (it.is_future_key, it.offset_lag)
            for one in answer.results
            for topic in one.topics
            if topic.name == TOPIC
            for it in topic.partitions
        }

    def until(self, holds: Callable[[dict[str, tuple[bool, int]]], bool]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not holds(self.places()):
            assert time.monotonic() < deadline, self.places()
            time.sleep(0.05)

    def write(self, count: int, first: int) -> None:
        client = DialogueClient(self.connection, 7, "")
        client.request_until(
            list_offsets(TOPIC, 0), lambda answer: answer.topics[0].partitions[0].error_code == 0
        )
        payloads = [batch(b"%08d" % (first + number) + bytes(BATCH_BYTES)) for number in range(count)]
        assert client.write(TOPIC, *payloads) == list(range(first, first + count))

    def check(self, count: int) -> None:
        """Reads the whole log from the beginning and checks its records."""
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "g"})
        try:
            consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
            messages = consumer.consume(count, LIMIT_S)
            found = [(message.offset(), (message.value() or b"")[:8]) for message in messages]
        finally:
            consumer.close()
        assert found == [(number, b"%08d" % number) for number in range(count)]


@pytest.mark.parametrize("is_clean", [False, True] if "BARNABAS_KILLS" in os.environ else [False])
def test_next_broker_resumes_the_move(tmp_path: Path, is_clean: bool) -> None:
    directories = [str(tmp_path / name) for name in ("data", "d2", "d3")]
    settings = {"log.dirs": ",".join(directories), "node.id": "1"}
    kafka = Side(ApacheKafka(tmp_path, require_classpath(), settings), directories)
    ours = Side(BrokerProcess(tmp_path / "data", {**settings, "barnabas.profile": "kafka"}), directories)
    with kafka:
        kafka.create()
        target = begin_move(kafka, first=0)
        kafka.end(is_clean=is_clean)
    with ours:
        finish_move(ours, target, first=BATCHES)
        target = begin_move(ours, first=BATCHES + 1)
        ours.end(is_clean=is_clean)
    with kafka:
        finish_move(kafka, target, first=2 * BATCHES + 1)
        kafka.end(is_clean=True)


def begin_move(side: Side, first: int) -> str:
    """Writes and begins a move that the throttle keeps from finishing; returns its target."""
    side.write(BATCHES, first)
    (source,) = side.places()
    target = next(one for one in side.directories if one != source)
    side.throttle(1)
    side.move(target)
    side.until(lambda places: places[target][0] and 0 < places[target][1] < first + BATCHES)
    return target


def finish_move(side: Side, target: str, first: int) -> None:
    """The move resumes, finishes without the throttle, and no record is missing."""
    side.until(lambda places: places.get(target, (False, 0))[0])
    side.write(1, first)
    side.throttle(None)
    side.until(lambda places: places == {target: (False, 0)})
    side.check(first + 1)

"""Throttled clients beside Apache Kafka: each script is run on both brokers, and what it notes is compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.topics import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from barnabas.protocol.records.builder import build_batch
from tests.conformance.broker_connection import BrokerConnection, ClosedError
from tests.conformance.dialogues.quotas import alter
from tests.conformance.dialogues.words import fetch, fetch_topic, list_offsets, named, partition, produce
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

PRODUCE, FETCH, CREATE, DELETE, PARTITIONS, METADATA, ALTER = 9, 12, 7, 6, 3, 9, 1
BATCH_BYTES = 110_000
BYTE_RATE = 10_000.0
"""Of which a batch takes a second more than there are in ten."""

APPLIED_S = 2.0
"""How long quotas take to reach Kafka's managers at most."""

OVERRIDES = {"auto.create.topics.enable": "true", "num.partitions": "1"}


class Both(NamedTuple):
    kafka: ApacheKafka
    barnabas: BrokerProcess


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    directory = tmp_path_factory.mktemp("throttling")
    (directory / "kafka").mkdir()
    kafka = ApacheKafka(directory / "kafka", require_classpath(), OVERRIDES, QUICK_JVM)
    barnabas = BrokerProcess(directory / "barnabas", OVERRIDES)
    with kafka, barnabas:
        yield Both(kafka, barnabas)


class Script:
    """One script on one broker. `notes` are compared between the brokers."""

    def __init__(self, port: int, name: str) -> None:
        self._port = port
        self.name = name
        self.notes: list[object] = []
        self.opened: list[BrokerConnection] = []
        self.admin = self.connection("admin")
        self.client = self.connection()

    def connection(self, client_id: str | None = None) -> BrokerConnection:
        """A new connection, by default of the client whose quotas are set here."""
        self.opened.append(BrokerConnection("127.0.0.1", self._port, client_id or self.name))
        return self.opened[-1]

    def set_quotas(self, entity: Any = None, /, **quotas: float | None) -> None:
        altered: Any = self.admin.request(alter((entity or [("client-id", self.name)], quotas)), ALTER)
        assert altered.entries[0].error_code == 0, altered
        time.sleep(APPLIED_S)

    def create_topic(self, partitions: int = 1) -> str:
        created: Any = self.admin.request(creating({self.name: partitions}), CREATE)
        assert created.topics[0].error_code == 0, created
        self.await_logs(self.name)
        return self.name

    def await_logs(self, topic: str, last_partition: int = 0) -> None:
        """Returns when a broker has made the topic's logs: until then it applies no quotas that are set behind it."""
        while True:
            offsets: Any = self.admin.request(list_offsets(topic, last_partition), 7)
            if offsets.topics[0].partitions[0].error_code == 0:
                return
            time.sleep(0.05)

    def mutes(self, at_least_s: float) -> bool:
        """Whether the broker takes so long to read the next request, and not much longer."""
        started = time.monotonic()
        self.client.request(MetadataRequest(topics=[]), METADATA)
        return at_least_s - 0.1 <= time.monotonic() - started <= at_least_s + 3


def creating(topics: Mapping[str, int], *, validate_only: bool = False) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in topics.items()
        ],
        timeout_ms=10_000,
        validate_only=validate_only,
    )


def run(both: Both, name: str, script: Callable[[Script], None]) -> None:
    """Runs a script on both brokers and compares what it has noted."""
    noted = []
    for port in (both.kafka.port, both.barnabas.port):
        one = Script(port, name)
        try:
            script(one)
        finally:
            for connection in one.opened:
                connection.close()
        noted.append(one.notes)
    assert noted[0] == noted[1], "Kafka's notes come first"
    assert noted[0]


def records() -> bytes:
    return build_batch([(None, b"x" * BATCH_BYTES, 0, ())])


def test_produce(both: Both) -> None:
    def script(it: Script) -> None:
        topic = it.create_topic()
        it.set_quotas(producer_byte_rate=BYTE_RATE)
        answer: Any = it.client.request(produce(topic, records(), acks=1), PRODUCE)
        it.notes += [answer.throttle_time_ms, it.mutes(answer.throttle_time_ms / 1000)]

    run(both, "produce", script)


def test_produce_without_acknowledgement(both: Both) -> None:
    def script(it: Script) -> None:
        topic = it.create_topic()
        it.set_quotas(producer_byte_rate=BYTE_RATE, request_percentage=0.001)
        it.client.request(MetadataRequest(topics=[]), METADATA)
        time.sleep(1.1)
        it.client.send(produce(topic, records(), acks=0), PRODUCE)
        it.notes.append(it.mutes(1.0))

    run(both, "acks0", script)


def test_fetch(both: Both) -> None:
    def script(it: Script) -> None:
        topic = it.create_topic()
        it.admin.request(produce(topic, records(), acks=1), PRODUCE)
        whole = fetch(fetch_topic(topic, [partition(0, 0)]), session_epoch=0)
        for rate in (BYTE_RATE, 2 * BYTE_RATE):
            it.set_quotas(consumer_byte_rate=rate)
            answer: Any = it.client.request(whole, FETCH)
            assert isinstance(answer, FetchResponse)
            it.notes += [answer.throttle_time_ms, answer.error_code, len(answer.responses)]
            it.notes += [it.mutes(answer.throttle_time_ms / 1000), answer.session_id > 0]

    run(both, "fetch", script)


def test_a_session(both: Both) -> None:
    def script(it: Script) -> None:
        topic = it.create_topic()
        first: Any = it.client.request(fetch(fetch_topic(topic, [partition(0, 0)]), session_epoch=0), FETCH)
        it.admin.request(produce(topic, records(), acks=1), PRODUCE)
        it.set_quotas(consumer_byte_rate=BYTE_RATE)
        for epoch in (1, 2, 3):
            answer: Any = it.client.request(fetch(session_id=first.session_id, session_epoch=epoch), FETCH)
            it.notes += [answer.throttle_time_ms > 0, answer.error_code, len(answer.responses)]
            it.notes.append(answer.session_id == first.session_id)
            if epoch == 2:
                it.set_quotas(consumer_byte_rate=2 * BYTE_RATE)
        it.set_quotas(consumer_byte_rate=None)
        wrong: Any = it.client.request(fetch(session_id=first.session_id, session_epoch=9), FETCH)
        it.notes += [wrong.error_code, wrong.throttle_time_ms]

    run(both, "session", script)


def test_the_time_of_requests(both: Both) -> None:
    def script(it: Script) -> None:
        it.set_quotas(request_percentage=0.0001)
        answer: Any = it.client.request(MetadataRequest(topics=[]), METADATA)
        it.notes += [answer.throttle_time_ms, it.mutes(1.0)]

    run(both, "time", script)


def roughly(throttle_ms: int) -> int:
    """In units of eight seconds, for times from which those are taken off that have passed since: 14 s are two."""
    return -(-throttle_ms // 8000)


def outcome(answer: Any, results: Any) -> list[object]:
    named_results = sorted((each.name, each.error_code, each.error_message) for each in results)
    return [roughly(answer.throttle_time_ms), *named_results]


@pytest.mark.parametrize("version", [CREATE, 5])
def test_creations(both: Both, version: int) -> None:
    def script(it: Script) -> None:
        it.set_quotas(controller_mutation_rate=1.0)
        prefix = f"creations{version}"
        requests = [
            creating({f"{prefix}a": 9, f"{prefix}b": 1}),
            creating({f"{prefix}c": 15}, validate_only=True),
            creating({f"{prefix}d": 1}),
        ]
        for request in requests:
            answer: Any = it.connection().request(request, version)
            it.notes += outcome(answer, answer.topics)

    run(both, f"creations{version}", script)


@pytest.mark.parametrize("version", [DELETE, 4])
def test_deletions(both: Both, version: int) -> None:
    def script(it: Script) -> None:
        names = [f"deletions{version}{letter}" for letter in "abc"]
        it.admin.request(creating(dict.fromkeys(names, 25)), CREATE)
        for name in names:
            it.await_logs(name, 24)
        it.set_quotas(controller_mutation_rate=1.0)
        time.sleep(3 * APPLIED_S)  # Kafka may still be busy with logs of topics that were deleted before
        for name in names[:2]:
            states = [DeleteTopicsRequest.DeleteTopicState(name=name)]
            request = DeleteTopicsRequest(topics=states, timeout_ms=10_000)
            if version < 6:
                request = DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
            answer: Any = it.connection().request(request, version)
            it.notes += [roughly(answer.throttle_time_ms), [each.error_code for each in answer.responses]]

    run(both, f"deletions{version}", script)


@pytest.mark.parametrize("version", [PARTITIONS, 2])
def test_new_partitions(both: Both, version: int) -> None:
    def script(it: Script) -> None:
        names = [f"partitions{version}{letter}" for letter in "ab"]
        it.admin.request(creating(dict.fromkeys(names, 1)), CREATE)
        it.set_quotas(controller_mutation_rate=1.0)
        for name in names:
            topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=26, assignments=None)
            request = CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)
            answer: Any = it.connection().request(request, version)
            it.notes += outcome(answer, answer.results)

    run(both, f"partitions{version}", script)


def test_creation_on_demand(both: Both) -> None:
    def script(it: Script) -> None:
        it.set_quotas(controller_mutation_rate=0.1)
        for letter in "abc":
            asked = MetadataRequest(topics=named(f"demand-{letter}"), allow_auto_topic_creation=True)
            deadline = time.monotonic() + 2.5
            while True:
                answer: Any = it.client.request(asked, METADATA)
                code = answer.topics[0].error_code
                if not code or time.monotonic() > deadline:
                    break
                time.sleep(0.1)
            it.notes += [code, answer.throttle_time_ms]

    run(both, "demand", script)


def test_connections_of_an_address(both: Both) -> None:
    def script(it: Script) -> None:
        it.set_quotas([("ip", "127.0.0.1")], connection_creation_rate=1.0)
        connections = [it.connection() for _ in range(11)]
        answered = 0
        started = 0.0
        try:
            for connection in connections:
                started = time.monotonic()
                connection.request(MetadataRequest(topics=[]), METADATA)
                answered += 1
        except ClosedError:
            it.notes.append(0.4 < time.monotonic() - started < 3)
        it.notes.append(answered)
        it.set_quotas([("ip", "127.0.0.1")], connection_creation_rate=None)
        it.connection().request(MetadataRequest(topics=[]), METADATA)

    run(both, "address", script)

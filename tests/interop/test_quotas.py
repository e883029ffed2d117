"""Quotas as stock clients feel them: librdkafka, which does not hold itself back, and a client that pipelines.

The windows of quotas are short, so that few bytes may come at once: two of a second, of which one is full.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.protocol.api_keys import request_header_version
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.quotas import AlterClientQuotasResponse
from barnabas.protocol.records.builder import build_batch
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogues.quotas import alter
from tests.conformance.dialogues.words import produce
from tests.interop.clients.confluent import AdminClient, NewTopic
from tests.interop.conftest import own_broker, wait_for_leaders
from tests.support.apache_kafka import ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.slow, pytest.mark.timeout(180)]

USER, CLIENT_ID = "ANONYMOUS", "quota"
BYTE_RATE = 400_000
TOLERANCE = 0.1
SETTINGS = {"quota.window.num": "2", "quota.window.size.seconds": "1"}
TOPIC = "t"
APPLIED_S = 0.5
"""How long an Apache Kafka may take to apply a quota."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka | BrokerProcess]:
    directory: Path = tmp_path_factory.mktemp("quotas")
    with own_broker(directory, SETTINGS) as running:
        admin: Any = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
        wait_for_leaders(admin, TOPIC, 1)
        yield running


@pytest.fixture
def quotas(broker: ApacheKafka | BrokerProcess) -> Iterator[Quotas]:
    setter = Quotas(broker.port)
    yield setter
    setter.remove_all()


class Quotas:
    """Sets quotas, and removes them at the end."""

    def __init__(self, port: int) -> None:
        self._connection = BrokerConnection("127.0.0.1", port, "setter")
        self._set: list[tuple[Any, str]] = []

    def set(self, entity: Any, key: str, value: float | None) -> None:
        altered = self._connection.request(alter((entity, {key: value})), 1)
        assert isinstance(altered, AlterClientQuotasResponse)
        assert altered.entries[0].error_code == 0, altered
        self._set.append((entity, key))
        time.sleep(APPLIED_S)

    def remove_all(self) -> None:
        for entity, key in list(self._set):
            self.set(entity, key, None)
        self._connection.close()


class ThrottledProducer:
    """librdkafka's producer, with the throttle times that it was told."""

    def __init__(self, bootstrap: str) -> None:
        self.throttled_s: list[float] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": CLIENT_ID,
                "throttle_cb": lambda event: self.throttled_s.append(event.throttle_time),
                "linger.ms": 0,
                "batch.size": 50_000,
                "compression.type": "none",
            }
        )

    def send(self, count: int, size: int) -> None:
        """Returns when all records are acknowledged."""
        for _ in range(count):
            self._producer.produce(TOPIC, b"x" * size, partition=0)
            self._producer.poll(0)
        assert self._producer.flush(120) == 0
        self._producer.poll(0.1)


def test_a_producer_gets_its_rate(broker: ApacheKafka | BrokerProcess, quotas: Quotas) -> None:
    quotas.set([("client-id", CLIENT_ID)], "producer_byte_rate", BYTE_RATE)
    producer = ThrottledProducer(broker.bootstrap)
    producer.send(1, 100)
    started = time.monotonic()
    producer.send(60, 40_000)
    elapsed_s = time.monotonic() - started
    # What may come at once is a window; the rest at the rate, and the last request is throttled behind its response.
    least_s = (60 * 40_000 - BYTE_RATE) / BYTE_RATE * (1 - TOLERANCE) - 0.5
    assert least_s <= elapsed_s <= 3 * least_s
    assert producer.throttled_s


def test_a_consumer_gets_its_rate(broker: ApacheKafka | BrokerProcess, quotas: Quotas) -> None:
    ThrottledProducer(broker.bootstrap).send(60, 40_000)
    quotas.set([("user", USER)], "consumer_byte_rate", BYTE_RATE)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "client.id": CLIENT_ID,
            "group.id": "g",
            "fetch.message.max.bytes": 100_000,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    received, started = 0, time.monotonic()
    while received < 2_000_000:
        message = consumer.poll(10)
        assert message is not None
        assert message.error() is None
        received += len(message.value() or b"")
    elapsed_s = time.monotonic() - started
    consumer.close()
    least_s = (2_000_000 - BYTE_RATE) / BYTE_RATE * (1 - TOLERANCE) - 0.5
    assert least_s <= elapsed_s <= 3 * least_s


LEVELS = [
    [("user", USER), ("client-id", CLIENT_ID)],
    [("user", USER), ("client-id", None)],
    [("user", USER)],
    [("user", None), ("client-id", CLIENT_ID)],
    [("user", None), ("client-id", None)],
    [("user", None)],
    [("client-id", CLIENT_ID)],
    [("client-id", None)],
]
TIGHT, LOOSE = 60_000.0, 1e12


def test_levels_are_set_and_removed_under_a_producer(
    broker: ApacheKafka | BrokerProcess, quotas: Quotas
) -> None:
    """Levels are tight and loose by turns, so that the one in force is known by whether it throttles."""
    producer = ThrottledProducer(broker.bootstrap)

    def is_throttled() -> bool:
        time.sleep(2.1)  # what was sent before is out of the windows
        producer.throttled_s.clear()
        producer.send(1, 80_000)
        return any(producer.throttled_s)

    seen = [is_throttled()]
    for level in reversed(range(len(LEVELS))):
        quotas.set(LEVELS[level], "producer_byte_rate", TIGHT if level % 2 else LOOSE)
        seen.append(is_throttled())
    for entity in LEVELS:
        quotas.set(entity, "producer_byte_rate", None)
        seen.append(is_throttled())
    up, down = [True, False] * 4, [True, False] * 3 + [True, False]
    assert seen == [False, *up, *down]


def test_a_pipeline_does_not_escape(broker: ApacheKafka | BrokerProcess, quotas: Quotas) -> None:
    """A hundred requests at once: a broker that handled them all before the first throttle time would be 10 s ahead."""
    quotas.set([("client-id", CLIENT_ID)], "producer_byte_rate", BYTE_RATE)
    body = encode(produce(TOPIC, build_batch([(None, b"x" * 39_000, 0, ())]), acks=1), 9)
    frames = []
    for number in range(100):
        header = RequestHeader(
            request_api_key=0, request_api_version=9, correlation_id=number, client_id=CLIENT_ID
        )
        head = encode(header, request_header_version(0, 9))
        frames.append(struct.pack(">i", len(head) + len(body)) + head + body)
    with socket.create_connection(("127.0.0.1", broker.port)) as client:
        client.settimeout(60)
        started, answered = time.monotonic(), 0
        client.setblocking(False)
        unsent = memoryview(b"".join(frames))
        while time.monotonic() - started < 4:
            with suppress(BlockingIOError):
                unsent = unsent[client.send(unsent) :]
            try:
                answered += len(client.recv(65_536))
            except BlockingIOError:
                time.sleep(0.005)
        responses = answered // 62
    # A window at once, 4 s at the rate, and the request that goes beyond.
    assert 20 <= responses <= (BYTE_RATE * 5 / len(frames[0]) + 1) * (1 + TOLERANCE)

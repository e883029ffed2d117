"""What every mechanism is tried with: aiokafka and kafka-python that log in, send records and read them in a group.

`settings` are all that a client needs beside its topic; each step may take `limit_s`.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError

from tests.interop.clients.kafka_python import KafkaConsumer, KafkaProducer
from tests.support.broker_process import BrokerProcess

LIMIT_S = 30.0
HTTP = re.compile(r"metrics on (http://\S+/metrics)")
VALUES = [b"%d" % number for number in range(5)]


def authentications(broker: BrokerProcess, name: str) -> float:
    """A metric of authentications, over all listeners of a broker with an HTTP port."""
    found = HTTP.search(broker.output)
    assert found is not None
    with urllib.request.urlopen(found[1], timeout=LIMIT_S) as response:
        lines = response.read().decode().splitlines()
    prefix = f"kafka_server_socket_server_metrics_{name}{{"
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(prefix))


async def aiokafka_round_trip(
    settings: Mapping[str, Any], topic: str, values: Sequence[bytes] = VALUES, limit_s: float = LIMIT_S
) -> None:
    """Sends the values in a transaction, and reads them in a group of the topic's name."""
    producer = AIOKafkaProducer(**settings, transactional_id=topic)
    await producer.start()
    try:
        async with producer.transaction():
            for value in values:
                await producer.send_and_wait(topic, value)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(
        topic, **settings, group_id=topic, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    await consumer.start()
    try:
        found = [(await asyncio.wait_for(consumer.getone(), limit_s)).value for _ in values]
    finally:
        await consumer.stop()
    assert found == list(values)


async def aiokafka_stays_outside(settings: Mapping[str, Any]) -> None:
    """The client is not let in."""
    producer = AIOKafkaProducer(**settings)
    try:
        with pytest.raises(KafkaConnectionError):
            await producer.start()
    finally:
        await producer.stop()


async def aiokafka_keeps_sending(settings: Mapping[str, Any], topic: str, seconds: float) -> None:
    """It does not log in again on its connection: it connects again when its session has ended, and loses nothing."""
    producer = AIOKafkaProducer(**settings)
    await producer.start()
    try:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            await producer.send_and_wait(topic, b"x")
            await asyncio.sleep(0.1)
    finally:
        await producer.stop()


def kafka_python_round_trip(
    settings: Mapping[str, Any], topic: str, values: Sequence[bytes] = VALUES, limit_s: float = LIMIT_S
) -> None:
    """Sends the values in a transaction, and reads them in a group of the topic's name."""
    producer = KafkaProducer(**settings, transactional_id=topic)
    try:
        producer.init_transactions()
        producer.begin_transaction()
        for value in values:
            producer.send(topic, value).get(limit_s)
        producer.commit_transaction()
    finally:
        producer.close(5)
    consumer = KafkaConsumer(
        topic, **settings, group_id=topic, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    try:
        found: list[bytes] = []
        deadline = time.monotonic() + limit_s
        while len(found) < len(values) and time.monotonic() < deadline:
            for records in consumer.poll(500).values():
                found += [record.value for record in records]
    finally:
        consumer.close()
    assert found == list(values)


def kafka_python_keeps_sending(
    settings: Mapping[str, Any], topic: str, is_enough: Callable[[], bool], limit_s: float
) -> None:
    """Sends until it is enough, or time is up. It logs in again on its connections, and loses nothing."""
    producer = KafkaProducer(**settings)
    try:
        deadline = time.monotonic() + limit_s
        while not is_enough() and time.monotonic() < deadline:
            producer.send(topic, b"x").get(limit_s)
    finally:
        producer.close(5)


_KAFKA_PYTHON = """
import json, sys
import kafka
try:
    kafka.KafkaProducer(**json.loads(sys.argv[1]), bootstrap_timeout_ms=1000)
except kafka.errors.KafkaError as error:
    print("rejected", type(error).__name__)
"""


def kafka_python_stays_outside(settings: Mapping[str, Any]) -> None:
    """The client is not let in: one in a process of its own, for it leaves its sockets open where it cannot connect."""
    command = [sys.executable, "-W", "ignore", "-c", _KAFKA_PYTHON, json.dumps(settings)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.startswith("rejected"), ran.stdout + ran.stderr

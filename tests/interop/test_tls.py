"""Stock clients over TLS with a certificate of their own: produce, and consume in a group."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.interop.conftest import OVERRIDES
from tests.support.broker_process import BrokerProcess
from tests.support.certificates import Authority

pytestmark = [
    pytest.mark.clients,
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

CA = Authority()
COUNT = 300
VALUE = b"v" * 2000
LIMIT_S = 30.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("stores")
    broker, alice = CA.issue("broker", ["localhost", "127.0.0.1"]), CA.issue("alice")
    (directory / "ca.pem").write_text(CA.pem)
    (directory / "broker.pem").write_text(broker.key_pem() + broker.chain_pem())
    (directory / "alice.pem").write_text(alice.key_pem() + alice.chain_pem())
    return directory


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[BrokerProcess]:
    running = BrokerProcess(tmp_path_factory.mktemp("tls"), OVERRIDES)
    running.overrides |= {
        "listeners": f"SSL://127.0.0.1:{running.port}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": f"{folder}/broker.pem",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": f"{folder}/ca.pem",
        "ssl.client.auth": "required",
        "barnabas.log.level": "debug",
    }
    with running:
        yield running
        assert running.stop() == 0


def confluent(bootstrap: str, folder: Path) -> int:
    own = {
        "bootstrap.servers": bootstrap,
        "security.protocol": "SSL",
        "ssl.ca.location": f"{folder}/ca.pem",
        "ssl.certificate.location": f"{folder}/alice.pem",
        "ssl.key.location": f"{folder}/alice.pem",
    }
    producer = confluent_kafka.Producer(own)
    for _ in range(COUNT):
        producer.produce("confluent", VALUE)
    assert producer.flush(LIMIT_S) == 0
    consumer = confluent_kafka.Consumer({**own, "group.id": "confluent", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    found = 0
    while found < COUNT:
        record = consumer.poll(LIMIT_S)
        assert record is not None
        assert record.value() == VALUE
        found += 1
    consumer.close()
    return found


def context(folder: Path) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=f"{folder}/ca.pem")
    made.load_cert_chain(folder / "alice.pem")
    return made


def kafka_python(bootstrap: str, folder: Path) -> int:
    import kafka  # which warns of itself

    own: dict[str, Any] = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SSL",
        "ssl_context": context(folder),
    }
    producer = kafka.KafkaProducer(**own)
    for _ in range(COUNT):
        producer.send("python", VALUE)
    producer.flush(LIMIT_S)
    producer.close()
    consumer = kafka.KafkaConsumer("python", group_id="python", auto_offset_reset="earliest", **own)
    found = 0
    for record in consumer:
        assert record.value == VALUE
        found += 1
        if found == COUNT:
            break
    consumer.close()
    return found


def aio(bootstrap: str, folder: Path) -> int:
    import aiokafka

    async def both() -> int:
        own: dict[str, Any] = {
            "bootstrap_servers": bootstrap,
            "security_protocol": "SSL",
            "ssl_context": context(folder),
        }
        async with aiokafka.AIOKafkaProducer(**own) as producer:
            for _ in range(COUNT):
                await producer.send("aio", VALUE)
            await producer.flush()
        found = 0
        async with aiokafka.AIOKafkaConsumer(
            "aio", group_id="aio", auto_offset_reset="earliest", **own
        ) as consumer:
            async for record in consumer:
                assert record.value == VALUE
                found += 1
                if found == COUNT:
                    return found
        return found

    return asyncio.run(asyncio.wait_for(both(), 60))


@pytest.mark.parametrize("client", [confluent, kafka_python, aio])
def test_records_go_and_come_over_mutual_tls(
    broker: BrokerProcess, folder: Path, client: Callable[[str, Path], int]
) -> None:
    assert client(broker.bootstrap, folder) == COUNT
    assert "is User:CN=alice" in broker.output


def test_a_client_without_a_certificate_is_not_let_in(broker: BrokerProcess, folder: Path) -> None:
    stranger = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": f"{folder}/ca.pem",
        }
    )
    with pytest.raises(confluent_kafka.KafkaException):
        stranger.list_topics(timeout=3)
    deadline = time.monotonic() + LIMIT_S
    while (line := "the peer shows no certificate, and ssl.client.auth=required") not in broker.output:
        assert time.monotonic() < deadline, line
        stranger.poll(0.05)

"""A member of a cluster of Apache Kafka that reaches brokers by mutual TLS, and controllers by SASL_SSL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.conformance.admin_cli import Tools
from tests.conformance.kafka_jars import require_classpath
from tests.conformance.test_secure_clients import PLAIN, folder, stores, write
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.ports import held_ports

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

__all__ = ["folder"]  # the fixture

LIMIT_S = 60.0
MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:SASL_SSL"


def common(directory: Path, password: str = "pencil") -> dict[str, str]:
    return {
        "listener.security.protocol.map": MAP,
        "inter.broker.listener.name": "SSL",
        "controller.listener.names": "CONTROLLER",
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{PLAIN} required username="node" password="{password}" user_node="pencil";'
        ),
        **stores(directory, "broker"),
    }


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[tuple[ApacheKafka, int]]:
    (port,) = held_ports(1)
    broker = ApacheKafka(tmp_path_factory.mktemp("kafka"), require_classpath(), jvm=QUICK_JVM)
    listeners = f"PLAINTEXT://{broker.bootstrap},SSL://127.0.0.1:{port}"
    broker.overrides |= {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": listeners,
        **common(folder),
    }
    with broker:
        yield broker, port


def member(directory: Path, folder: Path, kafka: ApacheKafka, **changes: str) -> BrokerProcess:
    broker = BrokerProcess(directory)
    listeners = f"SSL://127.0.0.1:{broker.port}"
    broker.overrides |= {
        "process.roles": "broker",
        "node.id": "2",
        "offsets.topic.replication.factor": "1",
        "listeners": listeners,
        "controller.quorum.voters": f"1@127.0.0.1:{kafka.controller_port}",
        **common(folder),
        **changes,
    }
    return broker


def test_a_member_follows_and_leads(kafka: tuple[ApacheKafka, int], folder: Path, tmp_path: Path) -> None:
    theirs, _ = kafka
    with member(tmp_path / "member", folder, theirs) as ours:
        config = write(folder, "client", {"security.protocol": "SSL", **stores(folder, "alice")})
        words = ["topics", "--create", "--topic", "t", "--partitions", "4", "--replication-factor", "2"]
        made = Tools(None, ours.bootstrap).ours(*words, "--command-config", config)  # type: ignore[arg-type]
        assert made.status == 0, made
        client: dict[str, Any] = {
            "bootstrap.servers": ours.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": str(folder / "ca.pem"),
            "ssl.certificate.location": str(folder / "alice.pem"),
            "ssl.key.location": str(folder / "alice.pem"),
        }
        producer = Producer({**client, "acks": "all"})
        for index in range(200):
            producer.produce("t", str(index).encode(), partition=index % 4)
        assert producer.flush(LIMIT_S) == 0  # both replicas have them, each leader's
        consumer = Consumer({**client, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        found: set[bytes | None] = set()
        deadline = time.monotonic() + LIMIT_S
        while len(found) < 200 and time.monotonic() < deadline:
            found |= {record.value() for record in consumer.consume(200, 1.0)}
        consumer.close()
        assert len(found) == 200
        assert ours.stop() == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"password": "wrong"}, "Invalid username or password"),
        ({"ca": "other-ca.pem"}, "signed by none that ssl.truststore.location trusts"),
    ],
)
def test_a_member_says_why_it_is_not_let_in(
    kafka: tuple[ApacheKafka, int], folder: Path, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    theirs, _ = kafka
    settings = common(folder, changes.get("password", "pencil"))
    if "ca" in changes:
        settings["listener.name.controller.ssl.truststore.location"] = str(folder / changes["ca"])
    broker = member(tmp_path / "member", folder, theirs, **settings)
    broker.spawn()
    try:
        output = broker._output
        assert output is not None
        import re

        assert output.wait_for(re.compile(re.escape(said)), LIMIT_S), broker.output
    finally:
        broker.kill()

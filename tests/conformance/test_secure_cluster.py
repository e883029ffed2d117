"""A member of a cluster of Apache Kafka that reaches controllers by SASL_SSL, and brokers by mutual TLS or SASL_SSL.

Between brokers the login is by SCRAM, with a credential in the metadata that both have; with controllers by PLAIN.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from tests.conformance.kafka_jars import require_classpath
from tests.conformance.test_secure_clients import PLAIN, SCRAM, folder, ours, stores, write
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.ports import held_ports

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

__all__ = ["folder"]  # the fixture

LIMIT_S = 60.0
MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,INSIDE:SASL_SSL,CONTROLLER:SASL_SSL"
SCRAM_USER = "SCRAM-SHA-512=[iterations=4096,password=between]"


def common(directory: Path, password: str = "pencil", between: str = "SSL") -> dict[str, str]:
    return {
        "listener.security.protocol.map": MAP,
        "inter.broker.listener.name": between,
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.inside.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.inside.scram-sha-512.sasl.jaas.config": (
            f'{SCRAM} required username="node" password="between";'
        ),
        "controller.listener.names": "CONTROLLER",
        "listener.name.ssl.ssl.client.auth": "required",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{PLAIN} required username="node" password="{password}" user_node="pencil";'
        ),
        **stores(directory, "broker"),
    }


class Cluster(NamedTuple):
    """An Apache Kafka, and the name of the listener between brokers."""

    kafka: ApacheKafka
    between: str


@pytest.fixture(scope="module", params=["SSL", "INSIDE"])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, folder: Path
) -> Iterator[Cluster]:
    port, inside = held_ports(2)
    broker = ApacheKafka(tmp_path_factory.mktemp("kafka"), require_classpath(), jvm=QUICK_JVM)
    listeners = f"PLAINTEXT://{broker.bootstrap},SSL://127.0.0.1:{port},INSIDE://127.0.0.1:{inside}"
    broker.overrides |= {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{broker.controller_port}",
        "advertised.listeners": listeners,
        **common(folder, between=request.param),
    }
    with broker:
        words = ["configs", "--alter", "--entity-type", "users", "--entity-name", "node"]
        made = ours(broker.bootstrap, *words, "--add-config", SCRAM_USER)
        assert made.status == 0, made
        yield Cluster(broker, request.param)


def member(directory: Path, folder: Path, cluster: Cluster, **changes: str) -> BrokerProcess:
    broker = BrokerProcess(directory)
    (inside,) = held_ports(1)
    listeners = f"SSL://127.0.0.1:{broker.port},INSIDE://127.0.0.1:{inside}"
    broker.overrides |= {
        "process.roles": "broker",
        "node.id": "2",
        "offsets.topic.replication.factor": "1",
        "listeners": listeners,
        "controller.quorum.voters": f"1@127.0.0.1:{cluster.kafka.controller_port}",
        "barnabas.log.level": "debug",
        **common(folder, between=cluster.between),
        **changes,
    }
    return broker


def test_a_member_follows_and_leads(cluster: Cluster, folder: Path, tmp_path: Path) -> None:
    with member(tmp_path / "member", folder, cluster) as broker:
        config = write(folder, "client", {"security.protocol": "SSL", **stores(folder, "alice")})
        words = ["topics", "--create", "--topic", "t", "--partitions", "4", "--replication-factor", "2"]
        made = ours(broker.bootstrap, *words, "--command-config", config)
        assert made.status == 0, made
        client: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap,
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
        who = "User:node" if cluster.between == "INSIDE" else "User:CN=broker"
        assert f"listener {cluster.between}: 127.0.0.1:" in broker.output
        assert f" is {who}" in broker.output  # the other broker, whose replicas fetch here
        assert broker.stop() == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"password": "wrong"}, "Invalid username or password"),
        ({"ca": "other-ca.pem"}, "signed by none that ssl.truststore.location trusts"),
    ],
)
def test_a_member_says_why_it_is_not_let_in(
    cluster: Cluster, folder: Path, tmp_path: Path, changes: dict[str, str], said: str
) -> None:
    settings = common(folder, changes.get("password", "pencil"), cluster.between)
    if "ca" in changes:
        settings["listener.name.controller.ssl.truststore.location"] = str(folder / changes["ca"])
    broker = member(tmp_path / "member", folder, cluster, **settings)
    broker.spawn()
    try:
        output = broker._output
        assert output is not None
        assert output.wait_for(re.compile(re.escape(said)), LIMIT_S), broker.output
    finally:
        broker.kill()

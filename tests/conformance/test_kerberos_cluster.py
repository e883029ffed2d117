"""A member of a cluster of Apache Kafka: both log in to each other, and the member to the controller, by Kerberos."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.conformance.kafka_jars import require_classpath
from tests.conformance.test_secure_clients import ours
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.kdc import Kdc, require_gssapi, require_kdc, server_entry
from tests.support.ports import held_ports

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(400)]

LIMIT_S = 120.0
NODE = "kafka/localhost"


def common(keytab: str) -> dict[str, str]:
    """The settings of both, with keys of the one principal of all nodes."""
    entry = server_entry(keytab)
    return {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "controller.listener.names": "CONTROLLER",
        "sasl.kerberos.service.name": "kafka",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.mechanism.controller.protocol": "GSSAPI",
        "listener.name.inside.gssapi.sasl.jaas.config": entry,
        "listener.name.controller.gssapi.sasl.jaas.config": entry,
    }


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    require_kdc()
    require_gssapi()
    with Kdc(tmp_path_factory.mktemp("kdc")) as running:
        yield running


@pytest.fixture(scope="module")
def kafka(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    jvm = (*QUICK_JVM, f"-Djava.security.krb5.conf={kdc.krb5_conf}")
    broker = ApacheKafka(tmp_path_factory.mktemp("kafka"), require_classpath(), jvm=jvm)
    listeners = f"PLAINTEXT://{broker.bootstrap},INSIDE://localhost:{held_ports(1)[0]}"
    broker.overrides |= {
        "listeners": f"{listeners},CONTROLLER://localhost:{broker.controller_port}",
        "advertised.listeners": listeners,
        "controller.quorum.voters": f"1@localhost:{broker.controller_port}",
        **common(kdc.keytab(NODE)),
    }
    with broker:
        yield broker


def member(directory: Path, kafka: ApacheKafka, kdc: Kdc, **changes: str) -> BrokerProcess:
    broker = BrokerProcess(directory)
    broker.environment |= kdc.environment
    broker.overrides |= {
        "process.roles": "broker",
        "node.id": "2",
        "offsets.topic.replication.factor": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},INSIDE://localhost:{held_ports(1)[0]}",
        "controller.quorum.voters": f"1@localhost:{kafka.controller_port}",
        "barnabas.log.level": "debug",
        **common(kdc.keytab(NODE)),
        **changes,
    }
    return broker


def test_a_member_follows_and_leads(kafka: ApacheKafka, kdc: Kdc, tmp_path: Path) -> None:
    with member(tmp_path / "member", kafka, kdc) as broker:
        words = ["topics", "--create", "--topic", "t", "--partitions", "4", "--replication-factor", "2"]
        made = ours(broker.bootstrap, *words)
        assert made.status == 0, made
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        for index in range(200):
            producer.produce("t", str(index).encode(), partition=index % 4)
        assert producer.flush(LIMIT_S) == 0  # both replicas have them, each leader's
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["t"])
        found: set[bytes | None] = set()
        deadline = time.monotonic() + LIMIT_S
        while len(found) < 200 and time.monotonic() < deadline:
            found |= {record.value() for record in consumer.consume(200, 1.0)}
        consumer.close()
        assert len(found) == 200
        replicas = re.findall(r"Leader: (\d)\s+Replicas: (\S+)\s+Isr: (\S+)", described(broker))
        assert {leader for leader, _, _ in replicas} == {"1", "2"}
        assert {frozenset(isr.split(",")) for _, _, isr in replicas} == {frozenset("12")}
        assert re.search(r"listener INSIDE: \S+ is User:kafka", broker.output)  # Kafka, which fetches here
        assert broker.stop() == 0


def described(broker: BrokerProcess) -> str:
    return ours(broker.bootstrap, "topics", "--describe", "--topic", "t").out


@pytest.mark.parametrize("listener", ["controller", "inside"])
def test_a_member_with_old_keys_says_so(kafka: ApacheKafka, kdc: Kdc, tmp_path: Path, listener: str) -> None:
    """The KDC gives it no ticket: neither for the controller nor for a broker."""
    old = server_entry(kdc.wrong_keytab(NODE))
    broker = member(
        tmp_path / "member", kafka, kdc, **{f"listener.name.{listener}.gssapi.sasl.jaas.config": old}
    )
    broker.spawn()
    try:
        output = broker._output
        assert output is not None
        assert output.wait_for(
            re.compile("Decrypt integrity check failed|Preauthentication failed"), LIMIT_S
        ), broker.output
    finally:
        broker.kill()

"""A cluster whose members log in to each other by OAUTHBEARER: an Apache Kafka with the controller, and one of ours.

All have tokens of one identity provider, for the user `node`: the controller and brokers of Kafka by a secret, the
member of ours by a secret to brokers and by an assertion to controllers.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from tests.conformance.kafka_jars import require_classpath
from tests.conformance.test_secure_clients import ours
from tests.security.test_assertions import write_key
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka
from tests.support.broker_process import BrokerProcess
from tests.support.identity_provider import IdentityProvider
from tests.support.ports import held_ports
from tests.support.tokens import ISSUER, SigningKey

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

LIMIT_S = 120.0
LIFETIME_S = 20
PACKAGE = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{PACKAGE}.OAuthBearerLoginModule"
SIGNER = SigningKey("RS256", "node", number=3)


def common(provider: IdentityProvider, secret: str = "node-secret") -> dict[str, str]:
    """The settings of every node."""
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INSIDE:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "INSIDE",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "controller.listener.names": "CONTROLLER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.login.refresh.min.period.seconds": "0",
        "sasl.login.refresh.buffer.seconds": "0",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "1",
    }
    for name in ("inside", "controller"):
        prefix = f"listener.name.{name}.oauthbearer.sasl"
        settings |= {
            f"listener.name.{name}.sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{prefix}.jaas.config": f'{MODULE} required clientId="node" clientSecret="{secret}";',
            f"{prefix}.server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
            f"{prefix}.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        }
    return settings


class Cluster(NamedTuple):
    kafka: ApacheKafka
    provider: IdentityProvider


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with IdentityProvider({"node": "node-secret"}) as provider:
        provider.lifetime_s = LIFETIME_S
        provider.signers["node"] = SIGNER.private.public_key()
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.token_url},{provider.keys_url}"
        kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), require_classpath(), jvm=(*QUICK_JVM, allowed))
        (inside,) = held_ports(1)
        listeners = f"PLAINTEXT://{kafka.bootstrap},INSIDE://127.0.0.1:{inside}"
        kafka.overrides |= {
            "listeners": f"{listeners},CONTROLLER://127.0.0.1:{kafka.controller_port}",
            "advertised.listeners": listeners,
            **common(provider),
        }
        with kafka:
            yield Cluster(kafka, provider)


def member(directory: Path, cluster: Cluster, **changes: str) -> BrokerProcess:
    broker = BrokerProcess(directory / "data")
    (inside,) = held_ports(1)
    key = "listener.name.controller.oauthbearer.sasl.oauthbearer.assertion"
    broker.overrides |= {
        "process.roles": "broker",
        "node.id": "2",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker.port},INSIDE://127.0.0.1:{inside}",
        "controller.quorum.voters": f"1@127.0.0.1:{cluster.kafka.controller_port}",
        "barnabas.log.level": "debug",
        **common(cluster.provider),
        f"{key}.private.key.file": write_key(directory / "key.pem", SIGNER),
        f"{key}.claim.iss": "node",
        f"{key}.claim.sub": "node",
        f"{key}.claim.aud": cluster.provider.token_url,
        **changes,
    }
    return broker


def create(bootstrap: str) -> None:
    words = ["topics", "--create", "--topic", "t", "--partitions", "4", "--replication-factor", "2"]
    made = ours(bootstrap, *words)
    assert made.status == 0, made


def test_a_member_follows_and_leads_while_tokens_end(cluster: Cluster, tmp_path: Path) -> None:
    provider = cluster.provider
    with member(tmp_path, cluster) as broker:
        create(broker.bootstrap)
        producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
        sent, renewed = (
            0,
            provider.asked("/token") + 6,
        )  # three nodes' worth, twice: past the life of the first tokens
        ends = time.time() + LIFETIME_S
        deadline = time.monotonic() + LIMIT_S
        while (provider.asked("/token") < renewed or time.time() < ends) and time.monotonic() < deadline:
            for index in range(4):
                producer.produce("t", str(sent + index).encode(), partition=index)
            sent += 4
            assert producer.flush(LIMIT_S) == 0  # both replicas have them, each leader's
        assert provider.asked("/token") >= renewed
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["t"])
        found: set[bytes | None] = set()
        while len(found) < sent and time.monotonic() < deadline:
            found |= {record.value() for record in consumer.consume(500, 1.0)}
        consumer.close()
        assert len(found) == sent
        assert re.search(r"listener INSIDE: 127\.0\.0\.1:\d+ is User:node", broker.output)
        forms = [form for path, form in provider.requests if path == "/token"]
        assert any("client_assertion" in form for form in forms)
        assert any("client_assertion" not in form for form in forms)
        assert broker.stop() == 0
        for secret in ("node-secret", "eyJ"):  # as every token and assertion begins
            assert secret not in broker.output


def test_a_member_says_why_it_is_not_let_in(cluster: Cluster, tmp_path: Path) -> None:
    key = "listener.name.controller.oauthbearer.sasl.oauthbearer.assertion.claim.iss"
    broker = member(tmp_path, cluster, **{key: "mallory"})
    broker.spawn()
    try:
        output = broker._output
        assert output is not None
        assert output.wait_for(re.compile("HTTP 401: invalid_grant"), LIMIT_S), broker.output
    finally:
        broker.kill()

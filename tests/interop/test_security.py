"""Users, ACLs and quotas as stock clients administer them, and the metrics that librdkafka pushes by itself."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from barnabas.protocol.messages.configs import IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse
from tests.conformance.broker_connection import BrokerConnection
from tests.interop.clients.confluent import AdminClient
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.clients, pytest.mark.timeout(120)]

ADMIN: Any = confluent_kafka.admin  # its stubs lack exports and optional types

LIMIT_S = 30.0
CLIENT_METRICS = 16
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "barnabas.http.port": "0",
}
HTTP = re.compile(r"metrics on (http://\S+/metrics)")


@pytest.fixture(scope="module")
def authorized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with an authorizer, and metrics over HTTP."""
    with BrokerProcess(tmp_path_factory.mktemp("security") / "data", SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="module")
def authorized_admin(authorized: BrokerProcess) -> Any:
    return AdminClient({"bootstrap.servers": authorized.bootstrap})


def test_scram_users(authorized_admin: Any) -> None:
    mechanism = ADMIN.ScramMechanism.SCRAM_SHA_512
    info = ADMIN.ScramCredentialInfo(mechanism, 8192)
    authorized_admin.alter_user_scram_credentials(
        [ADMIN.UserScramCredentialUpsertion("alice", info, b"secret")]
    )["alice"].result(LIMIT_S)
    described = authorized_admin.describe_user_scram_credentials(["alice"])["alice"].result(LIMIT_S)
    (found,) = described.scram_credential_infos
    assert (found.mechanism, found.iterations) == (mechanism, 8192)
    all_users = authorized_admin.describe_user_scram_credentials().result(LIMIT_S)
    assert list(all_users) == ["alice"]
    authorized_admin.alter_user_scram_credentials([ADMIN.UserScramCredentialDeletion("alice", mechanism)])[
        "alice"
    ].result(LIMIT_S)
    with pytest.raises(KafkaException) as caught:
        authorized_admin.describe_user_scram_credentials(["alice"])["alice"].result(LIMIT_S)
    assert caught.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


def binding(name: str, operation: Any) -> Any:
    return ADMIN.AclBinding(
        ADMIN.ResourceType.TOPIC,
        name,
        ADMIN.ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        operation,
        ADMIN.AclPermissionType.ALLOW,
    )


def test_acls(authorized_admin: AdminClient) -> None:
    read, write = binding("t", ADMIN.AclOperation.READ), binding("t", ADMIN.AclOperation.WRITE)
    for future in authorized_admin.create_acls([read, write]).values():
        future.result(LIMIT_S)
    of_alice = ADMIN.AclBindingFilter(
        ADMIN.ResourceType.ANY,
        None,
        ADMIN.ResourcePatternType.ANY,
        "User:alice",
        None,
        ADMIN.AclOperation.ANY,
        ADMIN.AclPermissionType.ANY,
    )
    assert set(authorized_admin.describe_acls(of_alice).result(LIMIT_S)) == {read, write}
    reading = ADMIN.AclBindingFilter(
        ADMIN.ResourceType.TOPIC,
        "t",
        ADMIN.ResourcePatternType.MATCH,
        None,
        None,
        ADMIN.AclOperation.READ,
        ADMIN.AclPermissionType.ANY,
    )
    assert authorized_admin.delete_acls([reading])[reading].result(LIMIT_S) == [read]
    assert authorized_admin.describe_acls(of_alice).result(LIMIT_S) == [write]


def test_without_an_authorizer_there_are_no_acls(admin: AdminClient) -> None:
    entry = binding("t", ADMIN.AclOperation.READ)
    with pytest.raises(KafkaException) as caught:
        admin.create_acls([entry])[entry].result(LIMIT_S)
    assert caught.value.args[0].code() == KafkaError.SECURITY_DISABLED


def subscribe(broker: BrokerProcess, **settings: str) -> None:
    configs = [
        IncrementalAlterConfigsRequest.AlterableConfig(
            name=name.replace("_", "."), config_operation=0, value=value
        )
        for name, value in settings.items()
    ]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=CLIENT_METRICS, resource_name="interop", configs=configs
    )
    with BrokerConnection(broker.host, broker.port) as connection:
        answer = connection.request(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert isinstance(answer, IncrementalAlterConfigsResponse)
    assert answer.responses[0].error_code == 0, answer


def test_a_producer_pushes_its_metrics(authorized: BrokerProcess) -> None:
    subscribe(
        authorized,
        metrics="org.apache.kafka.producer.",
        interval_ms="100",
        match="client_id=interop-metrics",
    )
    found = HTTP.search(authorized.output)
    assert found is not None, authorized.output
    producer = Producer({"bootstrap.servers": authorized.bootstrap, "client.id": "interop-metrics"})
    try:
        producer.produce("metrics", b"value")
        assert producer.flush(LIMIT_S) == 0
        shown = until_pushed(found[1], producer)
    finally:
        producer.close()
    names = {line.split("{")[0] for line in shown}
    assert "org_apache_kafka_producer_connection_creation_total" in names
    assert all('client_instance_id="' in line for line in shown)


def until_pushed(url: str, producer: Producer) -> list[str]:
    """Waits for lines at /metrics with metrics of this client, and returns them."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        producer.poll(0.05)
        with urllib.request.urlopen(url, timeout=LIMIT_S) as response:
            lines = response.read().decode().splitlines()
        pushed = [line for line in lines if 'client_id="interop-metrics"' in line]
        if pushed:
            return pushed
        assert time.monotonic() < deadline, [line for line in lines if "barnabas_client_metrics" in line]

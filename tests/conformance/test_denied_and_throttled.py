"""What clients of a broker with an authorizer are charged, beside Apache Kafka: each script is run on both brokers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.topics import DeleteTopicsRequest
from barnabas.protocol.messages.transactions import WriteTxnMarkersRequest
from tests.conformance.authorization.grants import ANONYMOUS
from tests.conformance.authorization.matrix import SETTINGS, first_acls
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogues.acls import ALLOW, LITERAL, create
from tests.conformance.dialogues.in_transactions import marker
from tests.conformance.kafka_jars import require_classpath
from tests.conformance.test_throttling import (
    APPLIED_S,
    CREATE,
    DELETE,
    METADATA,
    Both,
    Script,
    creating,
    outcome,
    run,
)
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(300)]

RESTRICTED = "127.0.0.9"
"""The address of clients that may do what a script allows."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    directory = tmp_path_factory.mktemp("denied")
    (directory / "kafka").mkdir()
    kafka = ApacheKafka(directory / "kafka", require_classpath(), SETTINGS, QUICK_JVM)
    barnabas = BrokerProcess(directory / "barnabas", SETTINGS)
    with kafka, barnabas:
        for port in (kafka.port, barnabas.port):
            admin = BrokerConnection("127.0.0.1", port)
            created: Any = admin.request(create(*first_acls()), 3)
            assert all(result.error_code == 0 for result in created.results), created
            admin.close()
        time.sleep(APPLIED_S)
        yield Both(kafka, barnabas)


def restricted(it: Script) -> BrokerConnection:
    """A new connection of the client whose quotas are set."""
    connection = it.connection()
    connection.source = RESTRICTED
    return connection


def test_changes_to_topics_that_are_denied_are_not_charged(both: Both) -> None:
    def script(it: Script) -> None:
        names = ("mine", "hidden")
        it.admin.request(creating(dict.fromkeys(names, 25)), CREATE)
        for name in names:
            it.await_logs(name, 24)
        kind, operations = AclResourceType.TOPIC, (AclOperation.CREATE, AclOperation.DELETE)
        allowed = [
            (kind, name, LITERAL, ANONYMOUS, RESTRICTED, operation, ALLOW)
            for name in ("mine", "new")
            for operation in operations
        ]
        it.admin.request(create(*allowed), 3)
        it.set_quotas(controller_mutation_rate=1.0)
        client = restricted(it)
        for topics in ({"denied": 50}, {"denied": 50, "new": 10}):
            answer: Any = client.request(creating(topics), CREATE)
            it.notes += [
                sorted((each.name, each.error_code) for each in answer.topics),
                answer.throttle_time_ms,
            ]
        doomed = [DeleteTopicsRequest.DeleteTopicState(name=name) for name in ("hidden", "mine")]
        answer = client.request(DeleteTopicsRequest(topics=doomed, timeout_ms=10_000), DELETE)
        it.notes += [
            sorted((each.name, each.error_code) for each in answer.responses),
            answer.throttle_time_ms,
        ]
        answer = restricted(it).request(creating({"new": 1, "denied": 1}), CREATE)
        it.notes += [*outcome(answer, [each for each in answer.topics if each.name == "denied"])]
        denied, deleted = ErrorCode.TOPIC_AUTHORIZATION_FAILED, [("hidden", 29), ("mine", 0)]
        charged = [[("denied", denied)], 0, [("denied", denied), ("new", 0)], 0, deleted]
        assert it.notes[: len(charged)] == charged

    run(both, "denied", script)


def test_markers_are_exempt_where_they_are_allowed(both: Both) -> None:
    def script(it: Script) -> None:
        it.set_quotas(request_percentage=0.001)
        written = WriteTxnMarkersRequest(markers=[marker(7, 0, {"absent": [0]})])
        for connection in (restricted(it), it.connection()):
            answer: Any = connection.request(written, 1)
            code = answer.markers[0].topics[0].partitions[0].error_code
            started = time.monotonic()
            connection.request(MetadataRequest(topics=[]), METADATA)
            it.notes += [code, time.monotonic() - started > 0.5]
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert it.notes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, True, unknown, False]

    run(both, "markers", script)

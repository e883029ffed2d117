"""A member of Apache Kafka's cluster, with ACLs: it decides what it answers, and the controller what is forwarded."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.topics import CreateTopicsRequest
from tests.conformance.authorization.grants import ANONYMOUS
from tests.conformance.authorization.matrix import SETTINGS, Side, first_acls
from tests.conformance.dialogues import words
from tests.conformance.dialogues.acls import ALLOW, LITERAL, Entry, create, describe
from tests.conformance.kafka_jars import require_classpath
from tests.support.apache_kafka import QUICK_JVM, ApacheKafka
from tests.support.broker_process import BrokerDidNotStartError, BrokerProcess

pytestmark = pytest.mark.conformance

MINE, YOURS = "127.1.0.1", "127.1.0.2"
"""Addresses of clients: the first may describe and create the topic `t`."""

AUTHORIZER = "authorizer.class.name"
EVERYTHING = describe(1, None, 1, None, None, 1, 1)


def member(directory: Path, kafka: ApacheKafka, **settings: str) -> BrokerProcess:
    overrides = {
        **SETTINGS,
        "process.roles": "broker",
        "node.id": "2",
        "controller.quorum.voters": f"1@127.0.0.1:{kafka.controller_port}",
        "controller.listener.names": "CONTROLLER",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    return BrokerProcess(directory, overrides)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafka]:
    """Kafka's broker and controller, with ACLs."""
    with ApacheKafka(tmp_path_factory.mktemp("kafka"), require_classpath(), SETTINGS, QUICK_JVM) as running:
        topic = AclResourceType.TOPIC
        mine: list[Entry] = [
            (topic, "t", LITERAL, ANONYMOUS, MINE, operation, ALLOW)
            for operation in (AclOperation.CREATE, AclOperation.DESCRIBE)
        ]
        connection = Side(running.bootstrap).admin.connection
        answer: Any = connection.request(create(*first_acls(), *mine), 3)
        assert {result.error_code for result in answer.results} == {0}
        connection.close()
        yield running


@pytest.fixture(scope="module")
def side(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    """The member."""
    with member(tmp_path_factory.mktemp("member"), kafka) as running:
        yield Side(running.bootstrap)


def creating(name: str) -> CreateTopicsRequest:
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=30_000)


def ask(side: Side, host: str, request: Any, version: int) -> Any:
    with side.connection(host) as connection:
        return connection.request(request, version)


def test_what_is_forwarded_is_decided_for_the_client(side: Side) -> None:
    (denied,) = ask(side, YOURS, creating("t"), 7).topics
    assert denied.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    (made,) = ask(side, MINE, creating("t"), 7).topics
    assert made.error_code == 0
    entry: Entry = (AclResourceType.TOPIC, "u", LITERAL, ANONYMOUS, MINE, AclOperation.ALL, ALLOW)
    (result,) = ask(side, MINE, create(entry), 3).results
    assert result.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_what_the_member_answers_it_decides_by_the_same_acls(side: Side) -> None:
    asked = MetadataRequest(topics=words.named("t"), allow_auto_topic_creation=False)
    side.admin.request_until(asked, lambda answer: answer.topics[0].error_code == 0, 12)
    assert ask(side, MINE, asked, 12).topics[0].error_code == 0
    assert ask(side, YOURS, asked, 12).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert ask(side, YOURS, EVERYTHING, 3).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    shown: Any = side.admin.connection.request(EVERYTHING, 3)
    assert sum(len(one.acls) for one in shown.resources) == len(first_acls()) + 2
    side.admin.connection.close()


def test_acls_that_change_on_the_controller_change_here(side: Side) -> None:
    asked = MetadataRequest(topics=words.named("t"), allow_auto_topic_creation=False)
    entry: Entry = (AclResourceType.TOPIC, "t", LITERAL, ANONYMOUS, "127.1.0.3", AclOperation.READ, ALLOW)
    answer: Any = side.admin.connection.request(create(entry), 3)
    (result,) = answer.results
    assert result.error_code == 0
    side.admin.request_until(
        describe(2, "t", LITERAL, None, "127.1.0.3", 1, 1), lambda answer: answer.resources, 3
    )
    assert ask(side, "127.1.0.3", asked, 12).topics[0].error_code == 0
    side.admin.connection.close()


def test_a_member_without_an_authorizer_does_not_start_beside_acls(
    kafka: ApacheKafka, tmp_path: Path
) -> None:
    without = member(tmp_path, kafka, node_id="3")
    del without.overrides[AUTHORIZER]
    with pytest.raises(BrokerDidNotStartError, match=r"ACLs, and this broker has no authorizer\.class\.name"):
        without.start()

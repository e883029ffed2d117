"""What handlers ask the authorizer of their broker."""

from __future__ import annotations

from pathlib import Path

from barnabas.broker.kafka_apis.authorization import allowed_names, denied, is_allowed, split
from barnabas.broker.request import RequestContext
from barnabas.broker.security.decisions import Check
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.guarded_broker import GuardedBroker

READ = Check(AclOperation.READ, AclResourceType.TOPIC)
ALTER = Check(AclOperation.ALTER, AclResourceType.CLUSTER)


def context(broker: InProcessBroker) -> RequestContext:
    return RequestContext(broker.client(version=4).info, ApiKey.FETCH, 4)


def test_without_an_authorizer_the_answer_is_yes(tmp_path: Path) -> None:
    running = InProcessBroker(tmp_path)
    assert is_allowed(running.broker, context(running), ALTER)
    assert "t" in allowed_names(running.broker, context(running), READ, ["t"])
    running.kill()


def test_with_one_it_is_what_that_says(tmp_path: Path) -> None:
    running = GuardedBroker(tmp_path)
    assert not is_allowed(running.broker, context(running), ALTER)
    running.allow(AclOperation.ALTER, AclResourceType.CLUSTER)
    assert is_allowed(running.broker, context(running), ALTER)
    running.allow(AclOperation.READ, AclResourceType.TOPIC, "t")
    allowed = allowed_names(running.broker, context(running), READ, ["t", "u"])
    assert split(["u", "t"], allowed, str) == (["t"], ["u"])
    running.kill()


def test_each_resource_has_its_error() -> None:
    error = denied(READ)
    assert (error.code, error.message) == (
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED.text,
    )

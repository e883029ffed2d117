"""DescribeAcls, CreateAcls and DeleteAcls. The rules of ACLs themselves are tested in test_acl_admin."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.config.catalogue.server import STANDARD_AUTHORIZER
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation
from barnabas.protocol.schema import Message
from tests.broker.broker_fixture import CLOSED, WAITS, InProcessBroker
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.held_runner import HeldRunner
from tests.conformance.dialogues.acls import (
    ALLOW,
    ANY,
    LITERAL,
    PREFIXED,
    READ,
    TOPIC,
    UNKNOWN,
    WRITE,
    Entry,
    create,
    delete,
    describe,
)
from tests.support.difference import Like

VERSIONS = range(1, 4)
LAST = 3
EVERYTHING = (ANY, None, ANY, None, None, ANY, ANY)
ENTRY: Entry = (TOPIC, "t", LITERAL, "User:alice", "*", READ, ALLOW)
OTHER: Entry = (TOPIC, "t", LITERAL, "User:alice", "*", WRITE, ALLOW)
AUTHORIZED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}


@pytest.fixture
def authorized(tmp_path: Path) -> Iterator[InProcessBroker]:
    """A broker that keeps ACLs."""
    running = InProcessBroker(tmp_path, AUTHORIZED)
    yield running
    running.kill()


@pytest.mark.parametrize(
    "settings", [{}, {"authorizer.class.name": "python:tests.broker.security.hooks:AllowEveryone"}]
)
@pytest.mark.parametrize("version", VERSIONS)
def test_without_an_authorizer_acl_requests_fail(
    tmp_path: Path, version: int, settings: dict[str, str]
) -> None:
    broker = InProcessBroker(tmp_path, settings)
    client = broker.client(version=version)
    disabled = {"error_code": ErrorCode.SECURITY_DISABLED}
    assert client >> describe(*EVERYTHING) << Like(resources=[], **disabled)
    assert client >> create(ENTRY, ENTRY) << Like(results=[Like(**disabled), Like(**disabled)])
    assert client >> delete(EVERYTHING) << Like(filter_results=[Like(matching_acls=[], **disabled)])
    assert not broker.broker.image.acls
    broker.kill()


@pytest.mark.parametrize("version", VERSIONS)
def test_every_version_creates_describes_and_deletes(authorized: InProcessBroker, version: int) -> None:
    client = authorized.client(version=version)
    prefixed: Entry = (TOPIC, "pre", PREFIXED, "User:bob", "10.0.0.1", READ, ALLOW)
    created = Like(error_code=0, error_message="")
    assert client >> create(ENTRY, OTHER, prefixed, ENTRY) << Like(results=[created] * 4)
    read = Like(principal="User:alice", host="*", operation=READ, permission_type=ALLOW)
    write = Like(principal="User:alice", host="*", operation=WRITE, permission_type=ALLOW)
    on_t = Like(resource_type=TOPIC, resource_name="t", pattern_type=LITERAL, acls=[read, write])
    on_pre = Like(pattern_type=PREFIXED, acls=[Like(principal="User:bob", host="10.0.0.1")])
    shown = Like(throttle_time_ms=0, error_code=0, error_message="", resources=[on_t, on_pre])
    assert client >> describe(*EVERYTHING) << shown
    gone = Like(error_code=0, error_message=None, resource_name="t", principal="User:alice", operation=WRITE)
    wanted = (TOPIC, None, ANY, None, None, WRITE, ANY)
    deleted = Like(error_code=0, error_message=None, matching_acls=[gone])
    assert client >> delete(wanted, wanted) << Like(filter_results=[deleted, deleted])
    assert client >> describe(*wanted) << Like(error_code=0, resources=[])


def test_an_invalid_acl_does_not_fail_the_others(authorized: InProcessBroker) -> None:
    client = authorized.client(version=LAST)
    wrong = (TOPIC, "", LITERAL, "User:alice", "*", READ, ALLOW)
    refused, taken = Like(error_code=ErrorCode.INVALID_REQUEST), Like(error_code=0)
    assert client >> create(wrong, ENTRY) << Like(results=[refused, taken])
    filters = ((99, *EVERYTHING[1:]), EVERYTHING)
    assert client >> delete(*filters) << Like(filter_results=[refused, Like(matching_acls=[Like()])])


@pytest.mark.parametrize(
    "request_",
    [
        describe(UNKNOWN, *EVERYTHING[1:]),
        delete(EVERYTHING, (UNKNOWN, *EVERYTHING[1:])),
        create(ENTRY, (UNKNOWN, "t", LITERAL, "User:alice", "*", READ, ALLOW)),
    ],
)
def test_a_zero_code_closes_the_connection(authorized: InProcessBroker, request_: Message) -> None:
    assert authorized.client(version=LAST) >> request_ << CLOSED


def test_too_many_acls_in_one_request_all_fail(authorized: InProcessBroker) -> None:
    many: list[Entry] = [(TOPIC, str(n), LITERAL, "User:a", "*", READ, ALLOW) for n in range(10_001)]
    client = authorized.client(version=LAST)
    refused = Like(error_code=ErrorCode.POLICY_VIOLATION)
    assert client >> create(*many) << Like(results=[refused] * len(many))
    assert client >> create(*many[1:]) << Like(results=[Like(error_code=0)] * (len(many) - 1))
    assert client >> create(many[0]) << Like(results=[Like(error_code=0)])
    assert client >> delete(EVERYTHING, EVERYTHING) << Like(filter_results=[refused, refused])


def test_a_failed_write_fails_the_request(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, AUTHORIZED, runner=runner)
    client = broker.client(version=LAST)
    assert client >> create(ENTRY) << WAITS
    runner.fail(OSError("no"))
    assert client << Like(results=[Like(error_code=ErrorCode.KAFKA_STORAGE_ERROR)])
    assert client >> create(ENTRY) << WAITS
    runner.release_all()
    assert client << Like(results=[Like(error_code=0)])
    assert client >> delete(EVERYTHING) << WAITS
    runner.fail(OSError("no"))
    assert client << Like(filter_results=[Like(error_code=ErrorCode.KAFKA_STORAGE_ERROR, matching_acls=[])])
    assert len(broker.broker.image.acls) == 1
    broker.kill()


def test_acls_survive_a_restart_with_or_without_an_authorizer(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, AUTHORIZED)
    assert broker.client(version=LAST) >> create(ENTRY) << Like(results=[Like(error_code=0)])
    ids = list(broker.broker.image.acls)
    broker.stop()
    broker = InProcessBroker(tmp_path)
    assert list(broker.broker.image.acls) == ids
    broker.stop()
    broker = InProcessBroker(tmp_path, AUTHORIZED)
    assert broker.client(version=LAST) >> describe(*EVERYTHING) << Like(resources=[Like(resource_name="t")])
    broker.kill()


def test_acls_are_for_who_may_use_the_cluster(guarded: GuardedBroker) -> None:
    client, denied = guarded.client(version=LAST), {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
    assert client >> describe(*EVERYTHING) << Like(resources=[], **denied)
    assert client >> create(ENTRY, OTHER) << Like(results=[Like(**denied), Like(**denied)])
    assert client >> delete(EVERYTHING) << Like(filter_results=[Like(matching_acls=[], **denied)])
    assert client >> describe(UNKNOWN, *EVERYTHING[1:]) << CLOSED  # it is not parsed
    guarded.allow(AclOperation.DESCRIBE)
    assert client >> describe(*EVERYTHING) << Like(error_code=0, resources=[Like()])
    assert client >> create(ENTRY) << Like(results=[Like(**denied)])
    guarded.allow(AclOperation.ALTER)
    assert client >> create(ENTRY) << Like(results=[Like(error_code=0)])


def test_a_change_takes_effect_with_the_next_request(guarded: GuardedBroker) -> None:
    guarded.allow(AclOperation.ALTER)
    client = guarded.client(version=LAST)
    assert client >> delete(EVERYTHING) << Like(filter_results=[Like(error_code=0)])
    assert client >> create(ENTRY) << Like(results=[Like(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)])

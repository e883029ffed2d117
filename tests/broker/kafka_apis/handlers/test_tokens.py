"""The APIs of delegation tokens. The rules themselves are tested in test_token_admin."""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.request import ANONYMOUS, KafkaPrincipal
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.cluster_records import DelegationTokenRecord
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)
from barnabas.protocol.messages.topic_records import FeatureLevelRecord
from tests.broker.broker_fixture import WAITS, Client, InProcessBroker, Wait
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.held_runner import HeldRunner
from tests.support.difference import Like, differences

KEY = "the key of all brokers"
SETTINGS = {"delegation.token.secret.key": KEY}
USER, TOKEN = AclResourceType.USER, AclResourceType.DELEGATION_TOKEN
DAY_MS = 86_400_000
ALICE, BOB, CAROL = (KafkaPrincipal(name) for name in ("alice", "bob", "carol"))
BY_TOKEN = KafkaPrincipal("alice", token_authenticated=True)


def token_broker(path: Path, runner: HeldRunner | None = None) -> InProcessBroker:
    return InProcessBroker(path, SETTINGS, runner=runner)


@pytest.fixture
def tokens(tmp_path: Path) -> Iterator[InProcessBroker]:
    broker = token_broker(tmp_path)
    yield broker
    broker.kill()


def login(
    broker: InProcessBroker,
    principal: KafkaPrincipal = ALICE,
    version: int = 3,
    protocol: str = "SASL_PLAINTEXT",
) -> Client:
    client = broker.client(version, principal=principal)
    client.info.security_protocol = protocol
    return client


def create(*renewers: str, owner: str = "", lifetime: int = -1) -> CreateDelegationTokenRequest:
    renewer = CreateDelegationTokenRequest.CreatableRenewers
    pairs = [each.split(":") for each in renewers]
    return CreateDelegationTokenRequest(
        owner_principal_type=owner.partition(":")[0],
        owner_principal_name=owner.partition(":")[2],
        renewers=[renewer(principal_type=kind, principal_name=name) for kind, name in pairs],
        max_lifetime_ms=lifetime,
    )


def renew(secret: bytes, period: int = -1) -> RenewDelegationTokenRequest:
    return RenewDelegationTokenRequest(hmac=secret, renew_period_ms=period)


def expire(secret: bytes, period: int = -1) -> ExpireDelegationTokenRequest:
    return ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=period)


def describe(*owners: str) -> DescribeDelegationTokenRequest:
    """Of all owners if none is named."""
    owner = DescribeDelegationTokenRequest.DescribeDelegationTokenOwner
    pairs = [each.split(":") for each in owners]
    named = [owner(principal_type=kind, principal_name=name) for kind, name in pairs]
    return DescribeDelegationTokenRequest(owners=named or None)


def ids(client: Client, *owners: str) -> list[str]:
    answer: Any = client.ask(describe(*owners))
    assert answer.error_code == ErrorCode.NONE
    return [each.token_id for each in answer.tokens]


def test_a_token_is_created_described_renewed_and_removed(tokens: InProcessBroker) -> None:
    client, now = login(tokens), tokens.env.ms
    created: Any = client.ask(create("User:bob", "User:carol"))
    assert created.hmac == hmac.digest(KEY.encode(), created.token_id.encode(), hashlib.sha512)
    times = {"expiry_timestamp_ms": now + DAY_MS, "max_timestamp_ms": now + 7 * DAY_MS}
    names = {"principal_type": "User", "principal_name": "alice"}
    requester = {"token_requester_principal_type": "User", "token_requester_principal_name": "alice"}
    expected = Like(error_code=0, issue_timestamp_ms=now, throttle_time_ms=0, **times, **names, **requester)
    assert not list(differences(expected, created, "created"))
    shown = Like(
        **names,
        **requester,
        issue_timestamp=now,
        expiry_timestamp=now + DAY_MS,
        max_timestamp=now + 7 * DAY_MS,
        token_id=created.token_id,
        hmac=created.hmac,
        renewers=[Like(principal_type="User", principal_name=name) for name in ("bob", "carol")],
    )
    assert client >> describe() << Like(error_code=0, tokens=[shown])
    assert client >> Wait(60)
    renewer = login(tokens, BOB, version=2)
    assert renewer >> renew(created.hmac) << Like(error_code=0, expiry_timestamp_ms=now + 60_000 + DAY_MS)
    assert renewer >> expire(created.hmac, 5000) << Like(error_code=0, expiry_timestamp_ms=now + 65_000)
    assert renewer >> expire(created.hmac) << Like(error_code=0, expiry_timestamp_ms=now + 60_000)
    assert ids(client) == []
    gone = Like(error_code=ErrorCode.DELEGATION_TOKEN_NOT_FOUND, expiry_timestamp_ms=0)
    assert renewer >> renew(created.hmac) << gone
    assert renewer >> expire(created.hmac) << gone


@pytest.mark.parametrize("version", [1, 2])
def test_older_versions_do_not_name_the_requester(tokens: InProcessBroker, version: int) -> None:
    client = login(tokens, version=version)
    created: Any = client.ask(create("User:bob", lifetime=1000))
    assert (created.error_code, created.max_timestamp_ms - created.issue_timestamp_ms) == (0, 1000)
    assert client >> describe() << Like(tokens=[Like(token_id=created.token_id, principal_name="alice")])
    assert (
        login(tokens, ANONYMOUS, version, "PLAINTEXT")
        >> create()
        << Like(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, principal_name="ANONYMOUS")
    )


@pytest.mark.parametrize(
    ("principal", "protocol", "is_allowed"),
    [
        (ALICE, "SASL_PLAINTEXT", True),
        (ALICE, "SASL_SSL", True),
        (ALICE, "SSL", True),
        (ANONYMOUS, "SSL", False),
        (ANONYMOUS, "PLAINTEXT", False),
        (ALICE, "PLAINTEXT", False),
        (BY_TOKEN, "SASL_PLAINTEXT", False),
        (BY_TOKEN, "SASL_SSL", False),
    ],
)
def test_which_logins_may_have_tokens(
    tokens: InProcessBroker, principal: KafkaPrincipal, protocol: str, is_allowed: bool
) -> None:
    client = login(tokens, principal, protocol=protocol)
    code = 0 if is_allowed else ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    unknown = ErrorCode.DELEGATION_TOKEN_NOT_FOUND if is_allowed else code
    assert client >> create() << Like(error_code=code, principal_name=principal.name)
    assert client >> describe() << Like(error_code=code)
    client = login(tokens, principal, version=2, protocol=protocol)
    time = 0 if is_allowed else -1
    assert client >> renew(b"unknown") << Like(error_code=unknown, expiry_timestamp_ms=time)
    assert client >> expire(b"unknown") << Like(error_code=unknown, expiry_timestamp_ms=time)


def test_the_order_of_errors_of_a_creation(tmp_path: Path) -> None:
    """Login, owner, renewers; then whether tokens are on. Times tell who rejects: -1 the broker, 0 the controller."""
    broker = GuardedBroker(tmp_path)
    worst = create("Group:ops", owner="User:bob")
    rejected: Any = login(broker, ANONYMOUS, protocol="PLAINTEXT").ask(worst)
    assert rejected.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert (rejected.principal_name, rejected.token_requester_principal_name) == ("bob", "ANONYMOUS")
    assert (rejected.issue_timestamp_ms, rejected.expiry_timestamp_ms, rejected.max_timestamp_ms) == (-1,) * 3
    assert (rejected.token_id, rejected.hmac) == ("", b"")
    for request, code, time in (
        (worst, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED, -1),
        (create("Group:ops"), ErrorCode.INVALID_PRINCIPAL_TYPE, -1),
        (create(owner="User:alice"), ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0),
        (create(owner="User:"), ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, 0),
    ):
        assert (
            login(broker)
            >> request
            << Like(error_code=code, issue_timestamp_ms=time, expiry_timestamp_ms=time, max_timestamp_ms=time)
        )
    half = CreateDelegationTokenRequest(owner_principal_name="bob", owner_principal_type=None, renewers=[])
    assert (
        login(broker)
        >> half
        << Like(error_code=ErrorCode.UNKNOWN_SERVER_ERROR, principal_name="ANONYMOUS", issue_timestamp_ms=-1)
    )
    broker.kill()


def test_without_a_key_tokens_are_off(broker: InProcessBroker) -> None:
    off = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert login(broker) >> create() << Like(error_code=off)
    assert login(broker, version=2) >> renew(b"") << Like(error_code=off, expiry_timestamp_ms=0)
    assert login(broker, version=2) >> expire(b"") << Like(error_code=off, expiry_timestamp_ms=0)
    assert login(broker) >> describe() << Like(error_code=off, tokens=[])
    assert broker.components.token_sweeper is None


def test_in_old_metadata_there_are_none(tokens: InProcessBroker) -> None:
    old = [FeatureLevelRecord(name="metadata.version", feature_level=13)]
    tokens.controller.submit(lambda _: Decision(None, old), lambda error: None)
    assert login(tokens) >> create() << Like(error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert login(tokens, version=2) >> renew(b"") << Like(error_code=ErrorCode.UNSUPPORTED_VERSION)


def test_a_token_for_someone_else_needs_a_permission(tmp_path: Path) -> None:
    broker = GuardedBroker(tmp_path, SETTINGS)
    client, request = login(broker), create(owner="User:bob")
    denied = Like(
        error_code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        principal_name="bob",
        token_requester_principal_name="alice",
    )
    assert client >> request << denied
    broker.allow(AclOperation.CREATE_TOKENS, USER, "User:bob", principal="User:alice")
    assert client >> request << Like(error_code=0, principal_name="bob")
    assert (
        client
        >> create(owner="User:carol")
        << Like(error_code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    )
    assert ids(client) == []  # it is bob's
    assert len(ids(login(broker, BOB))) == 1
    broker.kill()


def test_who_sees_which_tokens(tmp_path: Path) -> None:
    broker = GuardedBroker(tmp_path, SETTINGS)
    alice, bob, carol = (login(broker, each) for each in (ALICE, BOB, CAROL))
    one: Any = alice.ask(create("User:bob"))
    two: Any = bob.ask(create())
    assert ids(alice) == [one.token_id]
    assert ids(bob) == [one.token_id, two.token_id]
    assert ids(bob, "User:bob") == [one.token_id, two.token_id]
    assert ids(bob, "User:alice") == [one.token_id]
    assert ids(bob, "User:carol", "Group:bob") == []
    assert ids(carol) == []
    assert carol >> DescribeDelegationTokenRequest(owners=[]) << Like(error_code=0, tokens=[])
    broker.allow(AclOperation.DESCRIBE, TOKEN, two.token_id, principal="User:carol")
    assert ids(carol) == [two.token_id]
    broker.allow(AclOperation.DESCRIBE_TOKENS, USER, "User:alice", principal="User:carol")
    assert ids(carol) == [one.token_id, two.token_id]
    assert ids(carol, "User:alice") == [one.token_id]
    assert ids(login(broker, KafkaPrincipal("admin"))) == [one.token_id, two.token_id]
    stranger = login(broker, CAROL, version=2)
    for request in (renew(one.hmac), expire(one.hmac)):
        assert stranger >> request << Like(error_code=ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    broker.kill()


def test_expired_tokens(tokens: InProcessBroker) -> None:
    created: Any = login(tokens).ask(create(lifetime=1000))
    client = login(tokens, version=2)
    assert client >> Wait(1.0)
    assert client >> renew(created.hmac) << Like(error_code=0, expiry_timestamp_ms=created.max_timestamp_ms)
    assert client >> Wait(0.001)
    late = Like(error_code=ErrorCode.DELEGATION_TOKEN_EXPIRED, expiry_timestamp_ms=0)
    assert client >> renew(created.hmac) << late
    assert client >> expire(created.hmac, 1) << late
    assert client >> expire(created.hmac) << Like(error_code=0)


def test_an_id_that_is_taken_is_not_used_again(tokens: InProcessBroker) -> None:
    first: Any = login(tokens).ask(create())
    numbers = iter([1, 1, 2])
    tokens.broker.new_topic_id = lambda: next(numbers).to_bytes(16, "big")
    record = DelegationTokenRecord(
        owner="User:x", requester="User:x", renewers=[], token_id="AAAAAAAAAAAAAAAAAAAAAQ"
    )
    tokens.controller.submit(lambda _: Decision(None, [record]), lambda error: None)
    second: Any = login(tokens).ask(create())
    assert second.token_id == "AAAAAAAAAAAAAAAAAAAAAg" != first.token_id


def test_a_failed_write_fails_the_request(tmp_path: Path) -> None:
    broker = token_broker(tmp_path, runner=(runner := HeldRunner()))
    client = login(broker)
    assert client >> create() << WAITS
    runner.fail(OSError("no"))
    assert client << Like(error_code=ErrorCode.KAFKA_STORAGE_ERROR, principal_name="alice", hmac=b"")
    assert ids(client) == []
    broker.kill()


def test_tokens_survive_a_restart_and_no_secret_is_stored_or_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    broker = token_broker(tmp_path)
    created: Any = login(broker).ask(create())
    login(broker, version=2).ask(renew(created.hmac))
    broker.stop()
    assert not any(created.hmac in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert created.hmac.hex() not in caplog.text
    assert repr(created.hmac) not in caplog.text
    broker = token_broker(tmp_path)
    assert login(broker) >> describe() << Like(tokens=[Like(token_id=created.token_id, hmac=created.hmac)])
    assert login(broker, version=2) >> renew(created.hmac) << Like(error_code=0)
    broker.kill()

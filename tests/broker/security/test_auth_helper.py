"""AuthHelper: what is asked again and what is kept, for whom and how long."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.request import ConnectionInfo, KafkaPrincipal, RequestContext
from barnabas.broker.security.auth_helper import EVERYTHING, AuthHelper
from barnabas.broker.security.authorizer import TRACE, Action, audit
from barnabas.broker.security.decisions import Check
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from tests.broker.security.acls import DENY, TOPIC, AuthorizerWithAcls, acl
from tests.broker.security.hooks import OnlyHost

OP = AclOperation
READ = Check(OP.READ, TOPIC)
READ_QUIET = Check(OP.READ, TOPIC, quiet=True)


class Counting(AuthorizerWithAcls):
    """Remembers what it is asked."""

    def __init__(self, *acls: object) -> None:
        self.asked: list[Action] = []
        super().__init__(*acls)  # type: ignore[arg-type]  # the ACLs of the base class

    def authorize(self, context, actions):  # type: ignore[no-untyped-def]  # as the base class
        self.asked += actions
        self.context = context
        return super().authorize(context, actions)


def connection(who: str | None = "alice", host: str = "::1") -> ConnectionInfo:
    return ConnectionInfo(
        connection_id=1,
        listener_name="PLAINTEXT",
        client_host=host,
        client_port=1,
        local_host="h",
        local_port=2,
        principal=None if who is None else KafkaPrincipal(who),
    )


def fetch(of: ConnectionInfo) -> RequestContext:
    return RequestContext(of, ApiKey.FETCH, 12, "me")


def test_a_decision_is_kept_until_acls_change() -> None:
    authorizer = Counting(acl("t"))
    helper, context = AuthHelper(authorizer), fetch(connection())
    assert helper.authorize(context, READ, "t")
    assert helper.authorize(context, READ, "t")
    assert [action.name for action in authorizer.asked] == ["t"]
    assert authorizer.context == (
        KafkaPrincipal("alice"),
        "0:0:0:0:0:0:0:1",
        "Fetch",
        "PLAINTEXT",
        "PLAINTEXT",
        "me",
    )
    authorizer.add(acl("t", permission=DENY))
    assert not helper.authorize(context, READ, "t")
    assert (helper.allowed, helper.denied) == (2, 1)


def test_a_decision_is_about_one_connection_and_its_principal() -> None:
    authorizer = Counting(acl("t"))
    helper, of = AuthHelper(authorizer), connection()
    assert helper.authorize(fetch(of), READ, "t")
    assert not helper.authorize(fetch(connection("bob")), READ, "t")
    scope = helper.scope(of)
    assert helper.scope(of) is scope
    of.principal = KafkaPrincipal("bob")
    assert helper.scope(of) is not scope
    assert not helper.authorize(fetch(of), READ, "t")


def test_a_client_that_has_not_logged_in_is_not_answered() -> None:
    with pytest.raises(AssertionError):
        AuthHelper(Counting()).authorize(fetch(connection(None)), READ, "t")


def test_what_is_logged_is_asked_for_each_time(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=audit.name)
    authorizer = Counting(acl("t"))
    helper, context = AuthHelper(authorizer), fetch(connection())
    for _ in range(2):
        assert not helper.authorize(context, READ, "hidden")
        assert not helper.authorize(context, READ_QUIET, "hidden")
        assert helper.authorize(context, READ, "t")
    assert len(caplog.records) == 2
    assert [(action.name, action.log_if_denied) for action in authorizer.asked] == [
        ("hidden", True),
        ("hidden", False),
        ("t", True),
        ("hidden", True),
    ]
    caplog.set_level(logging.DEBUG, logger=audit.name)
    helper.filter(context, READ, ["t"])
    assert caplog.records[-1].levelno == logging.DEBUG


def test_names_are_filtered_with_the_number_of_their_references() -> None:
    authorizer = Counting(acl("t"), acl("u"))
    helper, context = AuthHelper(authorizer), fetch(connection())
    allowed = helper.filter(context, READ, ["t", "hidden", "u", "t"])
    assert ["t" in allowed, "u" in allowed, "hidden" in allowed] == [True, True, False]
    assert [(action.name, action.references) for action in authorizer.asked] == [
        ("t", 2),
        ("hidden", 1),
        ("u", 1),
    ]
    assert "hidden" not in helper.filter(context, READ, ["t", "u"])
    assert len(authorizer.asked) == 3
    assert (helper.allowed, helper.denied) == (4, 1)


def test_what_only_filters_is_kept_where_it_is_denied_too() -> None:
    authorizer = Counting(acl("t"))
    helper, context = AuthHelper(authorizer), fetch(connection())
    for _ in range(2):
        assert helper.filter(context, READ_QUIET, ["t", "hidden"]) == {"t"}
    assert [action.name for action in authorizer.asked] == ["t", "hidden"]
    assert (helper.allowed, helper.denied) == (2, 2)


def test_an_authorizer_that_answers_too_little_is_not_believed() -> None:
    class Silent(AuthorizerWithAcls):
        def authorize(self, context, actions):  # type: ignore[no-untyped-def]  # as the base class
            return super().authorize(context, actions[:1])

    with pytest.raises(ValueError, match="shorter"):
        AuthHelper(Silent(acl("t"), acl("u"))).filter(fetch(connection()), READ, ["t", "u"])


def test_any_resource_of_a_type() -> None:
    authorizer = Counting(acl("t", OP.WRITE))
    helper, context = AuthHelper(authorizer), fetch(connection())
    write = Check(OP.WRITE, TOPIC)
    assert helper.authorize_by_resource_type(context, write)
    assert helper.authorize_by_resource_type(context, write)
    assert len(authorizer.asked) == 1  # the one name that Kafka asks for first
    assert not helper.authorize_by_resource_type(context, READ)


def test_authorized_operations(caplog: pytest.LogCaptureFixture) -> None:
    authorizer = Counting(acl("t"), acl("t", OP.ALTER_CONFIGS))
    helper, context = AuthHelper(authorizer), fetch(connection())
    granted = (OP.READ, OP.DESCRIBE, OP.ALTER_CONFIGS, OP.DESCRIBE_CONFIGS)
    expected = sum(1 << operation for operation in granted)
    assert helper.authorized_operations(context, AclResourceType.TOPIC, "t") == expected
    asked = len(authorizer.asked)
    assert helper.authorized_operations(context, AclResourceType.TOPIC, "t") == expected
    assert len(authorizer.asked) == asked
    assert not any(action.log_if_allowed or action.log_if_denied for action in authorizer.asked)
    caplog.set_level(TRACE, logger=audit.name)
    helper.authorized_operations(context, AclResourceType.TOPIC, "t")
    assert len(caplog.records) == asked


def test_decisions_of_an_authorizer_that_has_no_generation_are_not_kept() -> None:
    authorizer = OnlyHost()
    authorizer.configure(BrokerConfig.of(b"super.users=User:10.0.0.1"))
    helper, context = AuthHelper(authorizer), fetch(connection(host="10.0.0.1"))
    assert helper.authorize(context, READ, "t")
    assert helper.authorize(context, READ, "t")
    assert len(authorizer.asked) == 2
    assert helper.scope(context.connection) is not helper.scope(context.connection)


def test_without_an_authorizer_everything_is_in_what_is_allowed() -> None:
    assert "t" in EVERYTHING

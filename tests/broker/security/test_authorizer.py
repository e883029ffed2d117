"""StandardAuthorizer: the decision table, against a model that reads it line by line; the audit log."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.request import KafkaPrincipal
from barnabas.broker.security.acl_index import AclEntry
from barnabas.broker.security.authorizer import (
    TRACE,
    Action,
    AuthorizableRequestContext,
    MetadataAuthorizer,
    audit,
)
from barnabas.config.keys import ConfigError
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.cluster_records import AccessControlEntryRecord
from tests.broker.security.acls import ALLOW, DENY, LITERAL, PREFIXED, TOPIC, AuthorizerWithAcls, acl
from tests.broker.security.hooks import AllowEveryone

OP = AclOperation
HOST = "10.0.0.1"


def asks(who: str = "alice", host: str = HOST) -> AuthorizableRequestContext:
    return AuthorizableRequestContext(KafkaPrincipal(who), host, "Fetch")


def may(
    authorizer: AuthorizerWithAcls, operation: int, name: str, who: str = "alice", host: str = HOST
) -> bool:
    (allowed,) = authorizer.authorize(asks(who, host), [Action(operation, TOPIC, name)])
    return allowed


# ---- the table


def test_without_acls_only_super_users_may_do_anything() -> None:
    authorizer = AuthorizerWithAcls(settings=["super.users=User:root; User:CN=a,O=b;"])
    assert authorizer.super_users == {"User:root", "User:CN=a,O=b"}
    assert may(authorizer, OP.READ, "t", "root")
    assert not may(authorizer, OP.READ, "t", "alice")
    assert str(authorizer.rule("User:root", HOST, OP.READ, TOPIC, "t")) == "SuperUser"


def test_a_super_user_without_a_type_refuses_the_start() -> None:
    with pytest.raises(ConfigError, match=r"super\.users=User:a;root must be .*User:root"):
        AuthorizerWithAcls(settings=["super.users=User:a;root"])


def test_what_denies_is_stronger_than_what_allows() -> None:
    authorizer = AuthorizerWithAcls(acl("t"), acl("t", OP.ALL, DENY, principal="User:*", host="10.0.0.2"))
    assert may(authorizer, OP.READ, "t")
    assert not may(authorizer, OP.READ, "t", host="10.0.0.2")


def test_where_no_acl_covers_a_resource_everyone_may_if_so_configured() -> None:
    authorizer = AuthorizerWithAcls(
        acl("other", principal="User:bob"),
        acl("pre", principal="User:bob", pattern=PREFIXED),
        settings=["allow.everyone.if.no.acl.found=true"],
    )
    assert may(authorizer, OP.READ, "t")
    assert not may(authorizer, OP.READ, "other")
    assert not may(authorizer, OP.READ, "prefixed")
    authorizer.add(acl("*", OP.WRITE, principal="User:bob"))
    assert not may(authorizer, OP.READ, "t")


@pytest.mark.parametrize("granted", [OP.READ, OP.WRITE, OP.DELETE, OP.ALTER, OP.ALL, OP.DESCRIBE])
def test_describe_is_implied(granted: AclOperation) -> None:
    assert may(AuthorizerWithAcls(acl("t", granted)), OP.DESCRIBE, "t")
    denying = AuthorizerWithAcls(acl("t", OP.DESCRIBE), acl("t", granted, DENY))
    assert may(denying, OP.DESCRIBE, "t") is (granted not in (OP.ALL, OP.DESCRIBE))


def test_create_implies_nothing_and_alter_configs_describe_configs() -> None:
    assert not may(AuthorizerWithAcls(acl("t", OP.CREATE)), OP.DESCRIBE, "t")
    assert may(AuthorizerWithAcls(acl("t", OP.ALTER_CONFIGS)), OP.DESCRIBE_CONFIGS, "t")
    assert not may(AuthorizerWithAcls(acl("t", OP.ALTER_CONFIGS)), OP.DESCRIBE, "t")


# ---- against a model

NAMES = ("a", "ab", "abc", "b", "hardcode")
Entries = list[AccessControlEntryRecord]
entries = st.lists(
    st.builds(
        acl,
        st.sampled_from((*NAMES, "*")),
        st.sampled_from(list(OP)[2:]),
        st.sampled_from((ALLOW, DENY)),
        principal=st.sampled_from(("User:alice", "User:bob", "User:*")),
        host=st.sampled_from(("*", HOST, "10.0.0.2")),
        kind=st.sampled_from((TOPIC, AclResourceType.GROUP)),
        pattern=st.sampled_from((LITERAL, PREFIXED)),
    ),
    max_size=8,
)


def covers(entry: AccessControlEntryRecord, kind: int, name: str) -> bool:
    is_prefix = entry.pattern_type == PREFIXED and name.startswith(entry.resource_name)
    is_name = entry.pattern_type == LITERAL and entry.resource_name in (name, "*")
    return entry.resource_type == kind and (is_prefix or is_name)


def concerns(entry: AccessControlEntryRecord, who: str, host: str) -> bool:
    return entry.principal in (f"User:{who}", "User:*") and entry.host in (host, "*")


def implies(entry: AccessControlEntryRecord, operation: int) -> bool:
    return (operation == OP.DESCRIBE and entry.operation in (OP.READ, OP.WRITE, OP.DELETE, OP.ALTER)) or (
        operation == OP.DESCRIBE_CONFIGS and entry.operation == OP.ALTER_CONFIGS
    )


Question = tuple[str, str, AclOperation, str]
"""Who, from which host, wants to do what with which topic."""


def model(known: Entries, question: Question, *, by_default: bool) -> bool:
    """The table, read line by line."""
    who, host, operation, name = question
    covering = [entry for entry in known if covers(entry, TOPIC, name)]
    mine = [entry for entry in covering if concerns(entry, who, host)]
    asked = [entry for entry in mine if entry.operation in (operation, OP.ALL)]
    if any(entry.permission_type == DENY for entry in asked):
        return False
    if any(
        entry.permission_type == ALLOW and (entry in asked or implies(entry, operation)) for entry in mine
    ):
        return True
    return not covering and by_default


@given(
    entries,
    st.tuples(
        st.sampled_from(("alice", "bob", "carol")),
        st.sampled_from((HOST, "10.0.0.3")),
        st.sampled_from(list(OP)[3:]),
        st.sampled_from(NAMES),
    ),
    st.booleans(),
)
def test_decisions_are_those_of_the_model(known: Entries, question: Question, by_default: bool) -> None:
    settings = ["allow.everyone.if.no.acl.found=true"] if by_default else []
    authorizer = AuthorizerWithAcls(*known, settings=settings)
    who, host, operation, name = question
    assert may(authorizer, operation, name, who, host) is model(known, question, by_default=by_default)


@given(entries, st.sampled_from(("alice", "bob")), st.sampled_from(list(OP)[3:]))
def test_any_resource_may_be_used_where_an_entry_allows_some_name(
    known: Entries, who: str, operation: AclOperation
) -> None:
    authorizer = AuthorizerWithAcls(*known)
    mine = [
        entry
        for entry in known
        if entry.resource_type == TOPIC
        and concerns(entry, who, HOST)
        and entry.operation in (operation, OP.ALL)
    ]
    denied = [entry for entry in mine if entry.permission_type == DENY]

    def is_denied(entry: AccessControlEntryRecord) -> bool:
        return any(
            (other.pattern_type == PREFIXED and entry.resource_name.startswith(other.resource_name))
            or (
                other.pattern_type == LITERAL == entry.pattern_type
                and other.resource_name == entry.resource_name
            )
            for other in denied
        )

    def is_wild(entry: AccessControlEntryRecord) -> bool:
        return entry.resource_name == "*" and entry.pattern_type == LITERAL

    allowed = [entry for entry in mine if entry.permission_type == ALLOW]
    expected = not any(map(is_wild, denied)) and (
        any(map(is_wild, allowed)) or not all(map(is_denied, allowed))
    )
    fixed = may(authorizer, operation, "hardcode", who)
    assert authorizer.authorize_by_resource_type(asks(who), operation, TOPIC) is (fixed or expected)


# ---- the metadata


def test_changes_take_effect_and_have_a_new_generation() -> None:
    authorizer = AuthorizerWithAcls()
    (acl_id,) = authorizer.add(acl("t"))
    assert authorizer.acl_count == 1
    assert may(authorizer, OP.READ, "t")
    generation = authorizer.generation
    authorizer.remove(acl_id)
    assert not may(authorizer, OP.READ, "t")
    assert authorizer.acl_count == 0
    assert authorizer.generation > generation
    generation = authorizer.generation
    authorizer.apply(MetadataImage.empty(), MetadataDelta())
    assert authorizer.generation == generation


def test_an_entry_may_be_there_twice() -> None:
    authorizer = AuthorizerWithAcls()
    first, second = authorizer.add(acl("t"), acl("t"))
    authorizer.remove(first)
    assert may(authorizer, OP.READ, "t")
    authorizer.remove(second)
    assert not may(authorizer, OP.READ, "t")


def test_which_authorizers_follow_acls() -> None:
    assert isinstance(AuthorizerWithAcls(), MetadataAuthorizer)
    assert not isinstance(AllowEveryone(), MetadataAuthorizer)


# ---- the audit log


def logged(caplog: pytest.LogCaptureFixture, actions: Sequence[Action]) -> list[tuple[str, str]]:
    caplog.set_level(TRACE, logger=audit.name)
    caplog.clear()
    AuthorizerWithAcls(acl("t")).authorize(asks(), actions)
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def test_lines_are_those_of_kafka(caplog: pytest.LogCaptureFixture) -> None:
    entry = AclEntry.of(acl("t"))
    lines = logged(
        caplog, [Action(OP.READ, TOPIC, "t", 2), Action(OP.WRITE, AclResourceType.TRANSACTIONAL_ID, "x")]
    )
    assert lines == [
        (
            "DEBUG",
            "Principal = User:alice is Allowed operation = READ from host = 10.0.0.1 on resource = Topic:LITERAL:t "
            f"for request = Fetch with resourceRefCount = 2 based on rule MatchingAcl(acl={entry})",
        ),
        (
            "INFO",
            "Principal = User:alice is Denied operation = WRITE from host = 10.0.0.1 on resource = "
            "TransactionalId:LITERAL:x for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny",
        ),
    ]


def test_what_only_is_asked_is_logged_at_trace(caplog: pytest.LogCaptureFixture) -> None:
    quiet = [
        Action(OP.READ, TOPIC, name, log_if_allowed=False, log_if_denied=False) for name in ("t", "hidden")
    ]
    assert [level for level, _ in logged(caplog, quiet)] == ["Level 5", "Level 5"]
    caplog.set_level(logging.INFO, logger=audit.name)
    caplog.clear()
    AuthorizerWithAcls(acl("t")).authorize(asks(), quiet)
    assert not caplog.records


def test_a_denial_that_is_repeated_leaves_a_line_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=audit.name)
    now = [100.0]
    settings = ["barnabas.authorizer.audit.interval.ms=60000"]
    authorizer = AuthorizerWithAcls(settings=settings, now=lambda: now[0])
    for name in ("t", "t", "u", "t"):
        may(authorizer, OP.READ, name)
    assert len(caplog.messages) == 2
    now[0] += 60
    may(authorizer, OP.READ, "t")
    assert caplog.messages[-1].endswith(
        "based on rule DefaultDeny (and 2 times more since the last such line)"
    )


def test_names_cannot_end_a_line(caplog: pytest.LogCaptureFixture) -> None:
    ((_, line),) = logged(caplog, [Action(OP.READ, TOPIC, "t\nPrincipal = \x1b[2K\u2028é")])
    assert "Topic:LITERAL:t\\nPrincipal = \\x1b[2K\\u2028é for" in line
    assert line.isprintable()

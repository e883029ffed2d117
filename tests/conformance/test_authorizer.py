"""Random ACLs and questions to Apache Kafka's StandardAuthorizer and to Barnabas's: decisions and audit lines."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from itertools import product

import pytest

from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.request import KafkaPrincipal
from barnabas.broker.security.addresses import java_host_address
from barnabas.broker.security.authorizer import Action, AuthorizableRequestContext, StandardAuthorizer, audit
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.cluster_records import AccessControlEntryRecord
from tests.conformance.dialogues.acls import Entry
from tests.conformance.java_authorizer import JavaAuthorizer
from tests.support.chance import seed_or

pytestmark = pytest.mark.conformance

ROUNDS = int(os.environ.get("BARNABAS_AUTHORIZER_ROUNDS", "100"))
ENTRIES, QUESTIONS = 25, 100
"""Of a round, each of which has other ACLs. A thousand rounds take minutes."""
TYPES = range(2, 8)
NAMES = ("a", "ab", "abc", "abcd", "b", "ba", "Ab", "é", "kafka-cluster", "hardcode", "h")
PATTERNS = (*NAMES, "*")
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice", "User:a:b")
HOSTS = ("*", "10.0.0.1", "0:0:0:0:0:0:0:1")
ASKING = (
    KafkaPrincipal("alice"),
    KafkaPrincipal("bob"),
    KafkaPrincipal("a:b"),
    KafkaPrincipal("alice", "Group"),
    KafkaPrincipal("root"),
)
FROM = ("10.0.0.1", "10.0.0.2", "::1", "::ffff:10.0.0.1")
LEVELS = {"INFO": logging.INFO, "DEBUG": logging.DEBUG, "TRACE": 5}


@pytest.fixture(scope="module")
def java() -> Iterator[JavaAuthorizer]:
    running = JavaAuthorizer()
    yield running
    running.close()


class Ours:
    """Barnabas's authorizer with the same ACLs."""

    def __init__(self, *, allow_everyone: bool) -> None:
        self.authorizer = StandardAuthorizer()
        settings = (
            f"super.users=User:root;Group:root\nallow.everyone.if.no.acl.found={str(allow_everyone).lower()}"
        )
        self.authorizer.configure(BrokerConfig.of(settings.encode()))
        self._acls: dict[bytes, AccessControlEntryRecord] = {}
        self._next = 0

    def add(self, entry: Entry) -> None:
        kind, name, pattern, principal, host, operation, permission = entry
        acl_id = self._next.to_bytes(16, "big")
        self._next += 1
        self._acls[acl_id] = AccessControlEntryRecord(
            id=acl_id,
            resource_type=kind,
            resource_name=name,
            pattern_type=pattern,
            principal=principal,
            host=host,
            operation=operation,
            permission_type=permission,
        )
        self._apply(acl_id)

    def remove(self, number: int) -> None:
        """As JavaAuthorizer.remove."""
        acl_id = number.to_bytes(16, "big")
        del self._acls[acl_id]
        self._apply(acl_id)

    def _apply(self, acl_id: bytes) -> None:
        image = MetadataImage.empty()
        image.acls = self._acls
        self.authorizer.apply(image, MetadataDelta(acl_changes={acl_id}))


def drawn_entry(chance: random.Random) -> Entry:
    return (
        chance.choice((2, 2, 2, *TYPES)),
        chance.choice(PATTERNS),
        chance.choice((3, 4)),
        chance.choice(PRINCIPALS),
        chance.choice(HOSTS),
        chance.choice(range(2, 16)),
        chance.choice((2, 3, 3)),
    )


def test_decisions_and_audit_lines(java: JavaAuthorizer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(5, logger=audit.name)
    chance = random.Random(seed_or(1))
    for number in range(ROUNDS):
        allow_everyone = number % 2 == 0
        java.reset("User:root;Group:root", allow_everyone=allow_everyone)
        ours = Ours(allow_everyone=allow_everyone)
        entries = list(dict.fromkeys(drawn_entry(chance) for _ in range(number % ENTRIES)))
        for entry in entries:
            java.add(entry)
            ours.add(entry)
        left = list(range(len(entries)))
        for _ in range(QUESTIONS):
            if left and chance.random() < 0.05:
                gone = left.pop(chance.randrange(len(left)))
                java.remove(gone)
                ours.remove(gone)
            action = Action(
                chance.choice(range(3, 16)),
                chance.choice((2, 2, 2, *TYPES)),
                chance.choice(NAMES),
                chance.randrange(1, 4),
                log_if_allowed=chance.random() < 0.5,
                log_if_denied=chance.random() < 0.5,
            )
            who, host, key = chance.choice(ASKING), chance.choice(FROM), chance.choice(list(ApiKey))
            context = AuthorizableRequestContext(who, java_host_address(host), key.title)
            decision = java.ask(who, host, key, action)
            caplog.clear()
            allowed = ours.authorizer.authorize(context, [action])
            logged = [(record.levelno, record.getMessage()) for record in caplog.records]
            theirs = [(LEVELS[line.partition(" ")[0]], line.partition(" ")[2]) for line in decision.lines]
            assert (allowed, logged) == ([decision.allowed], theirs), (
                [entries[at] for at in left],
                context,
                action,
            )
            assert ours.authorizer.authorize_by_resource_type(
                context, action.operation, action.resource_type
            ) == java.ask_any(who, host, key, action.operation, action.resource_type), (
                entries,
                context,
                action,
            )


def test_addresses(java: JavaAuthorizer) -> None:
    chance = random.Random(seed_or(1))
    drawn = [":".join(f"{chance.choice((0, 0, 1, 0xFF, 0xABCD)):x}" for _ in range(8)) for _ in range(200)]
    for host in (
        "127.0.0.1",
        "::",
        "::1",
        "fe80::1",
        "::ffff:1.2.3.4",
        "::1.2.3.4",
        "2001:db8::a:0:1",
        *drawn,
    ):
        assert java_host_address(host) == java.host_address(host)


def test_names_of_wildcards(java: JavaAuthorizer) -> None:
    """A literal * is everything in an entry, but not what begins with it, and just a name in a question."""
    for name, pattern in product(("*", "*a", "**", "a"), (3, 4)):
        java.reset("", allow_everyone=False)
        ours = Ours(allow_everyone=False)
        entry: Entry = (3, "*", pattern, "User:alice", "*", 3, 3)
        java.add(entry)
        ours.add(entry)
        action = Action(3, 3, name)
        context = AuthorizableRequestContext(ASKING[0], "10.0.0.1", "Fetch")
        allowed = java.ask(ASKING[0], "10.0.0.1", 1, action).allowed
        assert ours.authorizer.authorize(context, [action]) == [allowed], (name, pattern)

"""AclIndex: which patterns match a name, and what is left after entries come and go."""

from __future__ import annotations

import random

from barnabas.broker.security.acl_index import AclEntry, AclIndex
from barnabas.protocol.messages.acls import AclOperation
from tests.broker.security.acls import DENY, GROUP, LITERAL, PREFIXED, TOPIC, acl


def entry(name: str, pattern: int = LITERAL, principal: str = "User:alice", host: str = "*") -> AclEntry:
    return AclEntry.of(acl(name, pattern=pattern, principal=principal, host=host))


def names(index: AclIndex, name: str) -> list[tuple[str, bool]]:
    return [(pattern.name, pattern.is_prefix) for pattern in index.matching(TOPIC, name)]


def test_longer_names_match_first_and_the_wildcard_last() -> None:
    index = AclIndex()
    for name in ("abc", "ab", "b", "*"):
        index.add(entry(name))
        index.add(entry(name, PREFIXED))
    assert names(index, "abc") == [("abc", False), ("abc", True), ("ab", True), ("*", False)]
    assert names(index, "bc") == [("b", True), ("*", False)]
    assert names(index, "*") == [("*", False), ("*", True)]
    assert names(index, "*a") == [("*", True)]
    assert list(index.matching(GROUP, "abc")) == []


def test_entries_concern_a_principal_and_everyone_on_a_host_and_on_all() -> None:
    index = AclIndex()
    of = [
        entry("t", principal="User:alice", host="h"),
        entry("t", principal="User:alice"),
        entry("t", principal="User:*", host="h"),
        entry("t", principal="User:*"),
    ]
    others = [entry("t", principal="User:bob"), entry("t", host="elsewhere")]
    for one in of + others:
        index.add(one)
    (pattern,) = index.matching(TOPIC, "t")
    assert pattern.of("User:alice", "h") == sorted(of)
    assert pattern.of("User:carol", "i") == [of[3]]
    assert pattern.of("User:*", "*") == [of[3]]
    assert sorted(found for _, found in index.held(TOPIC, "User:alice", "h")) == sorted(of)
    assert list(index.held(GROUP, "User:alice", "h")) == []


def test_an_entry_is_written_as_in_audit_lines() -> None:
    one = AclEntry.of(acl("a", AclOperation.DESCRIBE_CONFIGS, DENY, host="10.0.0.1", pattern=PREFIXED))
    assert str(one) == (
        "StandardAcl[resourceType=TOPIC, resourceName=a, patternType=PREFIXED, principal=User:alice, host=10.0.0.1, "
        "operation=DESCRIBE_CONFIGS, permissionType=DENY]"
    )


def test_random_additions_and_removals_leave_what_is_there() -> None:
    chance = random.Random(1)
    index, there = AclIndex(), list[AclEntry]()
    for _ in range(2000):
        if there and chance.random() < 0.5:
            index.remove(there.pop(chance.randrange(len(there))))
        else:
            there.append(
                entry(
                    chance.choice(("a", "ab", "abc", "*")),
                    chance.choice((LITERAL, PREFIXED)),
                    chance.choice(("User:alice", "User:*")),
                    chance.choice(("*", "h")),
                )
            )
            index.add(there[-1])
        assert index.count == len(there)
        expected = {
            (one.resource_name, one.pattern_type == PREFIXED)
            for one in there
            if one.resource_name in ("abc", "*")
            or (one.pattern_type == PREFIXED and "abc".startswith(one.resource_name))
        } - {("*", True)}
        assert set(names(index, "abc")) == expected
    while there:
        index.remove(there.pop())
    assert names(index, "abc") == []
    assert list(index.held(TOPIC, "User:alice", "h")) == []

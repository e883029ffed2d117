"""The sets of ACLs of the matrix: for each API those in which its checks are allowed, missing and denied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.broker.kafka_apis.api_checks import API_CHECKS
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.acls import CLUSTER_NAME, AclOperation, AclResourceType
from tests.conformance.authorization.requests import ABSENT, DOOMED, GROUP, SEEN, TXN
from tests.conformance.dialogues.acls import ALL, ALLOW, DENY, LITERAL, PREFIXED, Entry

Permit = tuple[AclOperation, AclResourceType]

ANONYMOUS = "User:ANONYMOUS"
USER, SUPER_USER = "alice", "root"
"""Who can log in."""
ELSEWHERE = "203.0.113.7"
"""A host that no client has."""
_NAMES: dict[AclResourceType, Sequence[tuple[str, int]]] = {
    AclResourceType.TOPIC: (
        (SEEN, LITERAL),
        (ABSENT, LITERAL),
        ("t-seen-", PREFIXED),
        ("t-twice", LITERAL),
        (DOOMED, PREFIXED),
    ),
    AclResourceType.GROUP: ((GROUP, LITERAL), ("g-3", LITERAL), ("g-4", LITERAL)),
    AclResourceType.CLUSTER: ((CLUSTER_NAME, LITERAL),),
    AclResourceType.TRANSACTIONAL_ID: ((TXN, LITERAL),),
}


class Grant(NamedTuple):
    """A set of ACLs for one host, which is filled in later; `user` logs in, None is a client without a login."""

    name: str
    entries: tuple[Entry, ...]
    user: str | None = None


def permits(key: ApiKey) -> list[Permit]:
    """What the API may ask for, each once."""
    row = API_CHECKS[key]
    checks = [gate.check for gate in row.gates] + list(row.checks)
    return list(dict.fromkeys((check.operation, check.resource_type) for check in checks))


def _entries(
    permits: Sequence[Permit],
    permission: int = ALLOW,
    names: dict[AclResourceType, Sequence[tuple[str, int]]] | None = None,
    principal: str = ANONYMOUS,
    host: str = "",
) -> tuple[Entry, ...]:
    return tuple(
        (kind, name, pattern, principal, host, operation, permission)
        for operation, kind in permits
        for name, pattern in (names or _NAMES)[kind]
    )


_PREFIXES: dict[AclResourceType, Sequence[tuple[str, int]]] = {
    AclResourceType.TOPIC: (("t-s", PREFIXED), ("t-a", PREFIXED), ("del", PREFIXED)),
    AclResourceType.GROUP: (("g-1", PREFIXED), ("g-3", PREFIXED), ("g-4", PREFIXED)),
    AclResourceType.CLUSTER: (("kafka", PREFIXED),),
    AclResourceType.TRANSACTIONAL_ID: (("x-1", PREFIXED),),
}
_EVERYWHERE: dict[AclResourceType, Sequence[tuple[str, int]]] = {
    kind: (("*", LITERAL),) for kind in _NAMES if kind is not AclResourceType.CLUSTER
} | {AclResourceType.CLUSTER: ((CLUSTER_NAME, LITERAL),)}


def grants(key: ApiKey, *, all_of_them: bool) -> Iterator[Grant]:
    """The sets of ACLs for an API: the more telling ones, or all."""
    asked = permits(key)
    yield Grant("none", ())
    yield Grant("all", _entries(asked))
    if len(asked) > 1:
        for number, one in enumerate(asked):
            yield Grant(f"only-{number}", _entries([one]))
    if not all_of_them:
        return
    for number, one in enumerate(asked):
        if len(asked) > 2:
            yield Grant(f"without-{number}", _entries([other for other in asked if other != one]))
        yield Grant(f"denied-{number}", _entries(asked) + _entries([one], DENY))
    kinds = dict.fromkeys(kind for _, kind in asked)
    yield Grant("any-operation", _entries([(AclOperation(ALL), kind) for kind in kinds]))
    yield Grant("everyone", _entries(asked, principal="User:*"))
    yield Grant("somebody", _entries(asked, principal="User:somebody"))
    yield Grant("elsewhere", _entries(asked, host=ELSEWHERE))
    yield Grant("after-a-login", _entries(asked, principal=f"User:{USER}"), USER)
    yield Grant("without-its-login", _entries(asked), USER)
    yield Grant("super-user", (), SUPER_USER)
    yield Grant("everywhere", _entries(asked, names=_EVERYWHERE))
    yield Grant("denied-everywhere", _entries(asked) + _entries(asked, DENY, _EVERYWHERE))
    if AclResourceType.CLUSTER not in kinds:
        yield Grant("prefixed", _entries(asked, names=_PREFIXES))
    if any(operation in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS) for operation, _ in asked):
        implying = [
            (AclOperation.ALTER_CONFIGS, kind)
            if operation is AclOperation.DESCRIBE_CONFIGS
            else (AclOperation.DELETE if kind is not AclResourceType.CLUSTER else AclOperation.ALTER, kind)
            for operation, kind in asked
            if operation in (AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS)
        ]
        yield Grant("implied", _entries(implying))

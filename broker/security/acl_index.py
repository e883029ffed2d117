"""AclIndex: the entries of all ACLs, so arranged that a check costs the same with 100,000 of them as with a few.

A check looks up the patterns that match the resource's name: the literal one, one for each length that prefixes have,
and the literal `*`. In a pattern it looks up at most four lists of entries: those of the principal and of everyone
(`User:*`), from the host and from all hosts (`*`). A list has at most one entry for each operation and permission.
Source: org.apache.kafka.metadata.authorizer.StandardAcl, whose order decides which of several entries an audit line
names.
"""

from __future__ import annotations

import functools
from bisect import insort
from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from barnabas.protocol.messages.acls import AclOperation, AclResourceType, PatternType, PermissionType
from barnabas.protocol.messages.cluster_records import AccessControlEntryRecord

WILDCARD: Final = "*"
WILDCARD_PRINCIPAL: Final = "User:*"

_LITERAL: Final = int(PatternType.LITERAL)
_PREFIXED: Final = int(PatternType.PREFIXED)


class AclEntry(NamedTuple):
    """One entry of an ACL. Entries of one pattern are in Kafka's order where they are sorted as tuples."""

    operation: int
    principal: str
    host: str
    permission: int
    resource_type: int
    resource_name: str
    pattern_type: int

    @classmethod
    def of(cls, record: AccessControlEntryRecord) -> AclEntry:
        return cls(
            record.operation,
            record.principal,
            record.host,
            record.permission_type,
            record.resource_type,
            record.resource_name,
            record.pattern_type,
        )

    def __str__(self) -> str:
        """As Kafka's audit lines show it."""
        return (
            f"StandardAcl[resourceType={AclResourceType(self.resource_type).name}, "
            f"resourceName={self.resource_name}, patternType={PatternType(self.pattern_type).name}, "
            f"principal={self.principal}, host={self.host}, operation={AclOperation(self.operation).name}, "
            f"permissionType={PermissionType(self.permission).name}]"
        )


class AclPattern:
    """The entries for one name or prefix, by principal and host, each list sorted."""

    __slots__ = ("entries", "is_prefix", "name")

    def __init__(self, name: str, *, is_prefix: bool) -> None:
        self.name = name
        self.is_prefix = is_prefix
        self.entries: dict[tuple[str, str], list[AclEntry]] = {}

    def of(self, principal: str, host: str) -> list[AclEntry]:
        """The entries that concern a principal on a host, in Kafka's order."""
        found: list[AclEntry] = []
        lists = 0
        for key in _holders(principal, host):
            entries = self.entries.get(key)
            if entries:
                found = found + entries if found else entries
                lists += 1
        return sorted(found) if lists > 1 else found


@functools.lru_cache(maxsize=1024)
def _holders(principal: str, host: str) -> tuple[tuple[str, str], ...]:
    """Under which keys the entries stand that concern a principal on a host."""
    principals = dict.fromkeys((principal, WILDCARD_PRINCIPAL))
    hosts = dict.fromkeys((host, WILDCARD))
    return tuple((of, at) for of in principals for at in hosts)


class _ResourceAcls:
    """The patterns of one type of resources. `lengths` counts the prefixes of each length."""

    __slots__ = ("held", "lengths", "literal", "longest_first", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, AclPattern] = {}
        self.prefixed: dict[str, AclPattern] = {}
        self.lengths: Counter[int] = Counter()
        self.longest_first: tuple[int, ...] = ()
        self.held: dict[tuple[str, str], dict[AclPattern, None]] = {}
        """The patterns in which a principal on a host has entries."""

    def add(self, entry: AclEntry) -> None:
        is_prefix = entry.pattern_type == _PREFIXED
        patterns = self.prefixed if is_prefix else self.literal
        pattern = patterns.get(entry.resource_name)
        if pattern is None:
            pattern = patterns[entry.resource_name] = AclPattern(entry.resource_name, is_prefix=is_prefix)
            if is_prefix:
                self._count_length(len(entry.resource_name), 1)
        holder = entry.principal, entry.host
        insort(pattern.entries.setdefault(holder, []), entry)
        self.held.setdefault(holder, {})[pattern] = None

    def remove(self, entry: AclEntry) -> None:
        patterns = self.prefixed if entry.pattern_type == _PREFIXED else self.literal
        pattern, holder = patterns[entry.resource_name], (entry.principal, entry.host)
        entries = pattern.entries[holder]
        entries.remove(entry)
        if entries:
            return
        del pattern.entries[holder]
        held = self.held[holder]
        del held[pattern]
        if not held:
            del self.held[holder]
        if not pattern.entries:
            del patterns[entry.resource_name]
            if pattern.is_prefix:
                self._count_length(len(entry.resource_name), -1)

    def _count_length(self, length: int, by: int) -> None:
        self.lengths[length] += by
        if not self.lengths[length]:
            del self.lengths[length]
        self.longest_first = tuple(sorted(self.lengths, reverse=True))

    def matching(self, name: str) -> Iterator[AclPattern]:
        """The patterns that a name matches, in Kafka's order: longer names first, `*` last.

        As in Kafka, the literal `*` does not match longer names that begin with it, which topics cannot have.
        """
        literal = self.literal.get(name)
        if literal is not None:
            yield literal
        for length in self.longest_first:
            if length <= len(name):
                prefixed = self.prefixed.get(name[:length])
                if prefixed is not None:
                    yield prefixed
        if not name.startswith(WILDCARD):
            everything = self.literal.get(WILDCARD)
            if everything is not None:
                yield everything


class AclIndex:
    """All entries. `count` is how many there are."""

    def __init__(self) -> None:
        self.count = 0
        self._types: dict[int, _ResourceAcls] = {}

    def add(self, entry: AclEntry) -> None:
        """Adds an entry; the same one may be there several times, under several ids."""
        self._types.setdefault(entry.resource_type, _ResourceAcls()).add(entry)
        self.count += 1

    def remove(self, entry: AclEntry) -> None:
        """Removes an entry once. Raises KeyError or ValueError where it is not there."""
        self._types[entry.resource_type].remove(entry)
        self.count -= 1

    def matching(self, resource_type: int, name: str) -> Iterator[AclPattern]:
        """The patterns that a resource matches, in the order in which Kafka visits them."""
        known = self._types.get(resource_type)
        return iter(()) if known is None else known.matching(name)

    def held(self, resource_type: int, principal: str, host: str) -> Iterator[tuple[AclPattern, AclEntry]]:
        """All entries of one type of resources that concern a principal on a host."""
        known = self._types.get(resource_type)
        if known is not None:
            for holder in _holders(principal, host):
                for pattern in known.held.get(holder, ()):
                    for entry in pattern.entries[holder]:
                        yield pattern, entry

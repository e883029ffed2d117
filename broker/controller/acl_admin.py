"""The rules of access control lists: which are valid, which a filter matches, the records that create and delete them.

Source: org.apache.kafka.controller.AclControlManager, ResourcePatternFilter, AccessControlEntryFilter,
kafka.server.AclApis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from barnabas.broker.metadata.log import MAX_RECORDS_PER_USER_OP
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.acls import (
    CLUSTER_NAME,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
)
from barnabas.protocol.messages.cluster_records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from barnabas.protocol.wire import Uuid

WILDCARD: Final = "*"


class Acl(NamedTuple):
    """One entry: allows or denies a principal an operation on resources from a host."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission: int

    @classmethod
    def of(cls, record: AccessControlEntryRecord) -> Acl:
        return cls(
            record.resource_type,
            record.resource_name,
            record.pattern_type,
            record.principal,
            record.host,
            record.operation,
            record.permission_type,
        )

    @property
    def is_for_filters(self) -> bool:
        """Whether it has a value that only a filter may have."""
        return (
            self.resource_type == AclResourceType.ANY
            or self.operation == AclOperation.ANY
            or self.permission == PermissionType.ANY
            or self.pattern_type in {PatternType.ANY, PatternType.MATCH}
        )

    def record(self, acl_id: Uuid) -> AccessControlEntryRecord:
        return AccessControlEntryRecord(
            id=acl_id,
            resource_type=self.resource_type,
            resource_name=self.resource_name,
            pattern_type=self.pattern_type,
            principal=self.principal,
            host=self.host,
            operation=self.operation,
            permission_type=self.permission,
        )


class AclFilter(NamedTuple):
    """A filter of entries: names, principals and hosts may be None, numbers ANY, to match all."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    @property
    def names_zero(self) -> bool:
        """Whether a field has the number 0, which is invalid: such a request is not parsed."""
        return 0 in {self.resource_type, self.pattern_type, self.operation, self.permission}

    @property
    def is_unknown(self) -> bool:
        """Whether a field has an unknown number; such a filter matches nothing."""
        return not (
            _is_known(AclResourceType, self.resource_type)
            and _is_known(PatternType, self.pattern_type)
            and _is_known(AclOperation, self.operation)
            and _is_known(PermissionType, self.permission)
        )

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in {AclResourceType.ANY, acl.resource_type}
            and self._matches_name(acl)
            and self.principal in {None, acl.principal}
            and self.host in {None, acl.host}
            and self.operation in {AclOperation.ANY, acl.operation}
            and self.permission in {PermissionType.ANY, acl.permission}
        )

    def _matches_name(self, acl: Acl) -> bool:
        """
        | filter    | literal entry               | prefixed entry            |
        | --------- | --------------------------- | ------------------------- |
        | ANY       | same name                   | same name                 |
        | MATCH     | same name, or entry for `*` | name begins with entry's  |
        | LITERAL   | same name                   | no                        |
        | PREFIXED  | no                          | same name                 |

        Without a name every entry of the pattern type matches, under MATCH as under ANY.
        """
        if self.pattern_type not in {PatternType.ANY, PatternType.MATCH, acl.pattern_type}:
            return False
        if self.resource_name is None or self.resource_name == acl.resource_name:
            return True
        if self.pattern_type != PatternType.MATCH:
            return False
        if acl.pattern_type == PatternType.LITERAL:
            return acl.resource_name == WILDCARD
        return self.resource_name.startswith(acl.resource_name)


Acls = Mapping[Uuid, AccessControlEntryRecord]


def matching(acls: Acls, wanted: AclFilter) -> list[tuple[Uuid, Acl]]:
    """The entries that a filter matches, with their ids, in the order in which they were created."""
    if wanted.is_unknown:
        return []
    found = ((acl_id, Acl.of(record)) for acl_id, record in acls.items())
    return [(acl_id, acl) for acl_id, acl in found if wanted.matches(acl)]


def by_resource(acls: Iterable[Acl]) -> dict[tuple[int, str, int], list[Acl]]:
    """Entries by resource type, name and pattern type: how DescribeAcls answers."""
    groups: dict[tuple[int, str, int], list[Acl]] = {}
    for acl in acls:
        groups.setdefault((acl.resource_type, acl.resource_name, acl.pattern_type), []).append(acl)
    return groups


def create(
    acls: Acls, wanted: Sequence[Acl], new_id: Callable[[], Uuid]
) -> tuple[list[AccessControlEntryRecord], list[ApiError | None]]:
    """The records of the valid entries that do not exist yet, and for each wanted one its error, or None.

    Raises ApiError where all are rejected: too many records (POLICY_VIOLATION), or an entry that has ANY where only a
    filter may, for which Kafka has no better code than UNKNOWN_SERVER_ERROR.
    """
    if any(acl.is_for_filters for acl in wanted):
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "ANY and MATCH are for filters, not for entries.")
    existing = {Acl.of(record) for record in acls.values()}
    records: list[AccessControlEntryRecord] = []
    outcomes: list[ApiError | None] = []
    for acl in wanted:
        error = _error_of(acl)
        outcomes.append(error)
        if error is None and acl not in existing:
            existing.add(acl)
            records.append(acl.record(_unused(acls, new_id)))
    _check_count(len(records))
    return records, outcomes


def _unused(acls: Acls, new_id: Callable[[], Uuid]) -> Uuid:
    acl_id = new_id()
    while acl_id in acls:
        acl_id = new_id()
    return acl_id


def _error_of(acl: Acl) -> ApiError | None:
    """The error of an entry that cannot be created, or None."""
    objection = next(_objections(acl), None)
    return None if objection is None else _invalid(objection)


def _objections(acl: Acl) -> Iterator[str]:
    if not _is_concrete(AclResourceType, acl.resource_type):
        yield f"An entry cannot be for resource type {acl.resource_type}."
    if acl.pattern_type not in {PatternType.LITERAL, PatternType.PREFIXED}:
        yield f"An entry cannot have pattern type {acl.pattern_type}."
    if not _is_concrete(AclOperation, acl.operation):
        yield f"An entry cannot be for operation {acl.operation}."
    if acl.permission not in {PermissionType.DENY, PermissionType.ALLOW}:
        yield f"An entry cannot have permission type {acl.permission}."
    if not acl.resource_name:
        yield "The name of the resource is empty."
    if acl.resource_type == AclResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        yield f"The only cluster is '{CLUSTER_NAME}', not '{acl.resource_name}'."
    if ":" not in acl.principal:
        yield f"Principal '{acl.principal}' has no type; write it as User:{acl.principal}."


def delete(
    acls: Acls, filters: Sequence[AclFilter]
) -> tuple[list[RemoveAccessControlEntryRecord], list[list[Acl] | ApiError]]:
    """The records that remove what any of the filters matches, and for each filter its entries or its error.

    Raises ApiError(POLICY_VIOLATION) for too many records.
    """
    removed: dict[Uuid, None] = {}
    outcomes: list[list[Acl] | ApiError] = []
    for wanted in filters:
        if wanted.is_unknown:
            outcomes.append(_invalid("The filter has an unknown number."))
            continue
        found = matching(acls, wanted)
        removed.update((acl_id, None) for acl_id, _ in found)
        outcomes.append([acl for _, acl in found])
    _check_count(len(removed))
    return [RemoveAccessControlEntryRecord(id=acl_id) for acl_id in removed], outcomes


def _check_count(count: int) -> None:
    if count > MAX_RECORDS_PER_USER_OP:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"One request may create or delete {MAX_RECORDS_PER_USER_OP} entries, not {count}.",
        )


def _is_known(numbers: type[IntEnum], number: int) -> bool:
    return 0 < number < len(numbers)


def _is_concrete(numbers: type[IntEnum], number: int) -> bool:
    """Whether the number has one meaning: neither UNKNOWN, nor ANY, nor an unused one."""
    return 1 < number < len(numbers)


def _invalid(message: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_REQUEST, message)

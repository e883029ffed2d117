"""Access control lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.cli.admin.client import CONTROLLER, AdminClient, every_code
from barnabas.cli.admin.errors import check
from barnabas.protocol.messages.acls import (
    AclOperation,
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    PatternType,
    PermissionType,
)


class Pattern(NamedTuple):
    """The resources of an ACL. The types are numbers, since a newer broker may have others."""

    resource_type: int
    name: str
    pattern_type: int


class Entry(NamedTuple):
    """The principal, host, operation and permission of an ACL."""

    principal: str
    host: str
    operation: int
    permission: int


class Acl(NamedTuple):
    """One ACL."""

    pattern: Pattern
    entry: Entry


class AclFilter(NamedTuple):
    """Selects ACLs; None and ANY match everything."""

    resource_type: int
    name: str | None
    pattern_type: int
    principal: str | None = None
    host: str | None = None
    operation: int = AclOperation.ANY
    permission: int = PermissionType.ANY

    def of(self, entry: Entry) -> AclFilter:
        """The filter for this entry of the same resources."""
        return AclFilter(self.resource_type, self.name, self.pattern_type, *entry)


EVERYTHING = AclFilter(resource_type=1, name=None, pattern_type=PatternType.ANY)


def describe_acls(client: AdminClient, wanted: AclFilter) -> list[Acl]:
    """The ACLs that match, sorted. Raises ServerError: SECURITY_DISABLED if the broker has no authorizer."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    answer = client.send(request)
    check(answer.error_code, answer.error_message)
    return sorted(
        Acl(
            Pattern(resource.resource_type, resource.resource_name, resource.pattern_type),
            Entry(each.principal, each.host, each.operation, each.permission_type),
        )
        for resource in answer.resources
        for each in resource.acls
    )


def create_acls(client: AdminClient, acls: Sequence[Acl]) -> None:
    """Creates ACLs; existing ones stay. Raises ServerError for the first that is rejected."""
    creations = [
        CreateAclsRequest.AclCreation(
            resource_type=each.pattern.resource_type,
            resource_name=each.pattern.name,
            resource_pattern_type=each.pattern.pattern_type,
            principal=each.entry.principal,
            host=each.entry.host,
            operation=each.entry.operation,
            permission_type=each.entry.permission,
        )
        for each in acls
    ]
    answer = client.send(CreateAclsRequest(creations=creations), CONTROLLER, codes=every_code)
    for result in answer.results:
        check(result.error_code, result.error_message)


def delete_acls(client: AdminClient, filters: Sequence[AclFilter]) -> list[Acl]:
    """Deletes the ACLs that match any of the filters; returns them sorted. Raises ServerError."""
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            for each in filters
        ]
    )
    answer = client.send(request, CONTROLLER, codes=every_code)
    gone: set[Acl] = set()
    for result in answer.filter_results:
        check(result.error_code, result.error_message)
        gone.update(_deleted(each) for each in result.matching_acls)
    return sorted(gone)


def _deleted(each: Any) -> Acl:
    check(each.error_code, each.error_message)
    return Acl(
        Pattern(each.resource_type, each.resource_name, each.pattern_type),
        Entry(each.principal, each.host, each.operation, each.permission_type),
    )

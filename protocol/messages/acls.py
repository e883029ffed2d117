"""Access control lists."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from barnabas.protocol.schema import Message, Struct, array, int8, int16, int32, string

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


class AclResourceType(IntEnum):
    """The resource type of an ACL (`ResourceType`)."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name in an ACL is to be read. MATCH, for filters, is all that concerns the resource of that name."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operation of an ACL."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class PermissionType(IntEnum):
    """Whether an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class DescribeAclsRequest(Message, api_key=29, versions="1-3", flexible="2+"):
    """Asks for the access control entries that match a filter."""

    resource_type_filter: int = int8()
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(versions="1+", default=3)
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()


class DescribeAclsResponse(Message, api_key=29, versions="1-3", flexible="2+"):
    class AclDescription(Struct):
        principal: str = string()
        host: str = string()
        operation: int = int8()
        permission_type: int = int8()

    class DescribeAclsResource(Struct):
        resource_type: int = int8()
        resource_name: str = string()
        pattern_type: int = int8(versions="1+", default=3)
        acls: list[DescribeAclsResponse.AclDescription] = array("AclDescription")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    resources: list[DescribeAclsResponse.DescribeAclsResource] = array("DescribeAclsResource")


class CreateAclsRequest(Message, api_key=30, versions="1-3", flexible="2+"):
    """Creates access control entries."""

    class AclCreation(Struct):
        resource_type: int = int8()
        resource_name: str = string()
        resource_pattern_type: int = int8(versions="1+", default=3)
        principal: str = string()
        host: str = string()
        operation: int = int8()
        permission_type: int = int8()

    creations: list[CreateAclsRequest.AclCreation] = array("AclCreation")


class CreateAclsResponse(Message, api_key=30, versions="1-3", flexible="2+"):
    class AclCreationResult(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")

    throttle_time_ms: int = int32()
    results: list[CreateAclsResponse.AclCreationResult] = array("AclCreationResult")


class DeleteAclsRequest(Message, api_key=31, versions="1-3", flexible="2+"):
    """Deletes the access control entries that match filters."""

    class DeleteAclsFilter(Struct):
        resource_type_filter: int = int8()
        resource_name_filter: str | None = string(nullable="0+")
        pattern_type_filter: int = int8(versions="1+", default=3)
        principal_filter: str | None = string(nullable="0+")
        host_filter: str | None = string(nullable="0+")
        operation: int = int8()
        permission_type: int = int8()

    filters: list[DeleteAclsRequest.DeleteAclsFilter] = array("DeleteAclsFilter")


class DeleteAclsResponse(Message, api_key=31, versions="1-3", flexible="2+"):
    class DeleteAclsMatchingAcl(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        resource_type: int = int8()
        resource_name: str = string()
        pattern_type: int = int8(versions="1+", default=3)
        principal: str = string()
        host: str = string()
        operation: int = int8()
        permission_type: int = int8()

    class DeleteAclsFilterResult(Struct):
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = array("DeleteAclsMatchingAcl")

    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = array("DeleteAclsFilterResult")

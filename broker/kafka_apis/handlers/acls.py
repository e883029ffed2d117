"""DescribeAcls, CreateAcls and DeleteAcls: the entries that the authorizer follows.

Without an authorizer that follows those in the metadata there are none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.controller.acl_admin import (
    Acl,
    AclFilter,
    by_resource,
    create,
    delete,
    matching,
)
from barnabas.broker.controller.embedded import Decision
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import denied, is_allowed
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext, api
from barnabas.broker.security.decisions import Check
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode, ProtocolError
from barnabas.protocol.messages.acls import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


(_DESCRIBE,) = checks_of(ApiKey.DESCRIBE_ACLS)
(_CREATE,) = checks_of(ApiKey.CREATE_ACLS)
(_DELETE,) = checks_of(ApiKey.DELETE_ACLS)


def _refusal(broker: Broker, context: RequestContext, check: Check) -> ApiError | None:
    """The error of a broker without ACLs, or of a client that may not use them; None where it may."""
    if not is_allowed(broker, context, check):
        return denied(check)
    if broker.auth is None:
        return ApiError(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker.")
    if broker.auth.acls is None:
        return ApiError(ErrorCode.SECURITY_DISABLED, "The broker's authorizer does not follow ACLs.")
    return None


def _filter(item: DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter) -> AclFilter:
    return AclFilter(
        item.resource_type_filter,
        item.resource_name_filter,
        item.pattern_type_filter,
        item.principal_filter,
        item.host_filter,
        item.operation,
        item.permission_type,
    )


@api(ApiKey.DESCRIBE_ACLS, versions=(1, 3))
def describe_acls(
    broker: Broker, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    wanted = _filter(request)
    if wanted.names_zero:
        raise ProtocolError("a filter of ACLs holds a number that stands for what is unknown")
    if (error := _refusal(broker, context, _DESCRIBE)) is not None:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    found = by_resource(acl for _, acl in matching(broker.image.acls, wanted))
    return DescribeAclsResponse(
        resources=[
            DescribeAclsResponse.DescribeAclsResource(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern_type,
                acls=[
                    DescribeAclsResponse.AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ],
            )
            for (resource_type, name, pattern_type), acls in found.items()
        ],
    )


@api(ApiKey.CREATE_ACLS, versions=(1, 3), forwardable=True)
def create_acls(
    broker: Broker, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse | Pending[CreateAclsResponse]:
    wanted = [
        Acl(
            item.resource_type,
            item.resource_name,
            item.resource_pattern_type,
            item.principal,
            item.host,
            item.operation,
            item.permission_type,
        )
        for item in request.creations
    ]
    if any(0 in {acl.resource_type, acl.pattern_type, acl.operation, acl.permission} for acl in wanted):
        raise ProtocolError("an ACL to create holds a number that stands for what is unknown")

    def all_rejected(error: ApiError) -> CreateAclsResponse:
        return CreateAclsResponse(results=[_created(error) for _ in wanted])

    def decide(image: MetadataImage) -> Decision[CreateAclsResponse]:
        records, outcomes = create(image.acls, wanted, broker.new_topic_id)
        return Decision(CreateAclsResponse(results=[_created(error) for error in outcomes]), records)

    if (error := _refusal(broker, context, _CREATE)) is not None:
        return all_rejected(error)
    return broker.controller.change("The change of ACLs", decide, all_rejected)


def _created(error: ApiError | None) -> CreateAclsResponse.AclCreationResult:
    if error is None:
        return CreateAclsResponse.AclCreationResult()
    return CreateAclsResponse.AclCreationResult(error_code=error.code, error_message=error.message)


@api(ApiKey.DELETE_ACLS, versions=(1, 3), forwardable=True)
def delete_acls(
    broker: Broker, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse | Pending[DeleteAclsResponse]:
    filters = [_filter(item) for item in request.filters]
    if any(wanted.names_zero for wanted in filters):
        raise ProtocolError("a filter of ACLs holds a number that stands for what is unknown")

    def all_rejected(error: ApiError) -> DeleteAclsResponse:
        return DeleteAclsResponse(filter_results=[_deleted(error) for _ in filters])

    def decide(image: MetadataImage) -> Decision[DeleteAclsResponse]:
        records, outcomes = delete(image.acls, filters)
        return Decision(DeleteAclsResponse(filter_results=[_deleted(found) for found in outcomes]), records)

    if (error := _refusal(broker, context, _DELETE)) is not None:
        return all_rejected(error)
    return broker.controller.change("The change of ACLs", decide, all_rejected)


def _deleted(found: list[Acl] | ApiError) -> DeleteAclsResponse.DeleteAclsFilterResult:
    if isinstance(found, ApiError):
        return DeleteAclsResponse.DeleteAclsFilterResult(error_code=found.code, error_message=found.message)
    return DeleteAclsResponse.DeleteAclsFilterResult(
        error_message=None,
        matching_acls=[
            DeleteAclsResponse.DeleteAclsMatchingAcl(
                error_message=None,
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in found
        ],
    )

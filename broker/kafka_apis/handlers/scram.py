"""DescribeUserScramCredentials and AlterUserScramCredentials. Logins look credentials up in the metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.controller.scram_admin import Change, Deletion, Description, Upsertion, alter, describe
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.pending import Pending
from barnabas.broker.request import RequestContext, api
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


@api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, versions=(0, 0))
def describe_user_scram_credentials(
    broker: Broker, context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    users = [user.name for user in request.users or ()]
    return DescribeUserScramCredentialsResponse(
        results=[_described(found) for found in describe(broker.image.scram, users)]
    )


def _described(
    found: Description,
) -> DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult(
        user=found.user,
        error_code=ErrorCode.NONE if found.error is None else found.error.code,
        error_message="" if found.error is None else found.error.message,
        credential_infos=[
            DescribeUserScramCredentialsResponse.CredentialInfo(mechanism=mechanism, iterations=iterations)
            for mechanism, iterations in found.credentials
        ],
    )


@api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, versions=(0, 0), forwardable=True)
def alter_user_scram_credentials(
    broker: Broker, context: RequestContext, request: AlterUserScramCredentialsRequest
) -> Pending[AlterUserScramCredentialsResponse]:
    changes: list[Change] = [Deletion(item.name, item.mechanism) for item in request.deletions]
    changes += [
        Upsertion(item.name, item.mechanism, item.iterations, item.salt, item.salted_password)
        for item in request.upsertions
    ]

    def decide(image: MetadataImage) -> Decision[AlterUserScramCredentialsResponse]:
        records, outcomes = alter(image.scram, image.metadata_version, changes)
        return Decision(_altered(outcomes), records)

    return broker.controller.change(
        "The credentials", decide, lambda error: _altered({change.user: error for change in changes})
    )


def _altered(outcomes: Mapping[str, ApiError | None]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult(
                user=user,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for user, error in outcomes.items()
        ]
    )

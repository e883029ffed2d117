"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken and DescribeDelegationToken (KIP-48, KIP-373).

Only a client that has logged in by SASL, or shows a certificate to a listener of SSL, may use them, and none that has
logged in by a token. That, and what the authorizer is asked for, is checked by the broker that the client is connected
to, in a cluster too (`refusal`); the rest by the controller, where `controller.token_admin` has the rules.
Source: kafka.server.KafkaApis, ControllerApis; org.apache.kafka.security.DelegationTokenManager.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.broker.controller import token_admin
from barnabas.broker.controller.embedded import Decision
from barnabas.broker.controller.token_admin import NewToken, TokenLimits, check_enabled, is_owner_or_renewer
from barnabas.broker.kafka_apis.api_checks import checks_of
from barnabas.broker.kafka_apis.authorization import denied, is_allowed
from barnabas.broker.kafka_apis.error_responses import error_response
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.pending import Pending
from barnabas.broker.request import ANONYMOUS, ConnectionInfo, KafkaPrincipal, RequestContext, api
from barnabas.config.catalogue.tls import DELEGATION_TOKEN_EXPIRY_TIME_MS, DELEGATION_TOKEN_MAX_LIFETIME_MS
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.cluster_records import DelegationTokenRecord
from barnabas.protocol.messages.tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import uuid_to_string

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

(_CREATE,) = checks_of(ApiKey.CREATE_DELEGATION_TOKEN)
_DESCRIBE, _DESCRIBE_OF_OWNER = checks_of(ApiKey.DESCRIBE_DELEGATION_TOKEN)

NO_TIME: Final = -1
"""The times in a response of the broker that rejects a request; in one of the controller they are 0."""


REQUESTER_SINCE: Final = 3
"""The version from which on responses name who asked for a token."""


def is_request_allowed(connection: ConnectionInfo) -> bool:
    """Whether the client's login is one that may have tokens."""
    principal, protocol = connection.principal, connection.security_protocol
    if principal is None or principal.token_authenticated or protocol == "PLAINTEXT":
        return False
    return protocol != "SSL" or principal != ANONYMOUS


def refusal(broker: Broker, context: RequestContext, request: Any) -> Message | None:
    """The response to a request for a change that this broker rejects; None where the controller decides."""
    if context.api_key != ApiKey.CREATE_DELEGATION_TOKEN:
        return None if is_request_allowed(context.connection) else _refused(request)
    if request.owner_principal_name and request.owner_principal_type is None:  # as Kafka, which fails there
        unknown = ErrorCode.UNKNOWN_SERVER_ERROR
        return error_response(request, context.api_version, unknown, unknown.text)
    wanted = _wanted(context, request)
    error = _creation_error(broker, context, wanted)
    return None if error is None else _creation_response(context, wanted, error, NO_TIME)


def _creation_error(broker: Broker, context: RequestContext, wanted: NewToken) -> ErrorCode | None:
    if not is_request_allowed(context.connection):
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    if wanted.owner != wanted.requester and not is_allowed(broker, context, _CREATE, str(wanted.owner)):
        return denied(_CREATE).code
    try:
        token_admin.check_renewers(wanted.renewers)
    except ApiError as error:
        return error.code
    return None


def _refused(request: RenewDelegationTokenRequest | ExpireDelegationTokenRequest) -> Message:
    kind = (
        RenewDelegationTokenResponse
        if isinstance(request, RenewDelegationTokenRequest)
        else ExpireDelegationTokenResponse
    )
    return kind(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        expiry_timestamp_ms=NO_TIME,
    )


def _requester(context: RequestContext) -> KafkaPrincipal:
    principal = context.connection.principal
    assert principal is not None, "a request before its client has logged in"
    return principal


def _limits(broker: Broker) -> TokenLimits | None:
    if not broker.tokens.is_enabled:
        return None
    config = broker.config
    return TokenLimits(config[DELEGATION_TOKEN_MAX_LIFETIME_MS], config[DELEGATION_TOKEN_EXPIRY_TIME_MS])


# ---- create


def _wanted(context: RequestContext, request: CreateDelegationTokenRequest) -> NewToken:
    requester = _requester(context)
    owner = requester
    if request.owner_principal_name:
        owner = KafkaPrincipal(request.owner_principal_name, request.owner_principal_type or "")
    renewers = [KafkaPrincipal(each.principal_name, each.principal_type) for each in request.renewers]
    return NewToken(owner, requester, renewers, request.max_lifetime_ms)


@api(ApiKey.CREATE_DELEGATION_TOKEN, versions=(1, 3), forwardable=True)
def create_delegation_token(
    broker: Broker, context: RequestContext, request: CreateDelegationTokenRequest
) -> Message | Pending[CreateDelegationTokenResponse]:
    refused = refusal(broker, context, request)
    if refused is not None:
        return refused
    wanted = _wanted(context, request)

    def decide(image: MetadataImage) -> Decision[CreateDelegationTokenResponse]:
        limits = check_enabled(_limits(broker), image.metadata_version)
        record = token_admin.create(_new_id(broker, image), wanted, limits, broker.tokens.now_ms())
        return Decision(_created(broker, context, wanted, record), [record])

    return broker.controller.change(
        "The token", decide, lambda error: _creation_response(context, wanted, error.code, 0)
    )


def _new_id(broker: Broker, image: MetadataImage) -> str:
    token_id = uuid_to_string(broker.new_topic_id())
    while token_id in image.tokens:
        token_id = uuid_to_string(broker.new_topic_id())
    return token_id


def _created(
    broker: Broker, context: RequestContext, wanted: NewToken, record: DelegationTokenRecord
) -> CreateDelegationTokenResponse:
    response = _creation_response(context, wanted, ErrorCode.NONE, 0)
    response.issue_timestamp_ms = record.issue_timestamp
    response.expiry_timestamp_ms = record.expiration_timestamp
    response.max_timestamp_ms = record.max_timestamp
    response.token_id = record.token_id
    response.hmac = broker.tokens.hmac(record.token_id)
    return response


def _creation_response(
    context: RequestContext, wanted: NewToken, error: ErrorCode, time_ms: int
) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(
        error_code=error,
        principal_type=wanted.owner.principal_type,
        principal_name=wanted.owner.name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
    )
    if context.api_version >= REQUESTER_SINCE:
        response.token_requester_principal_type = wanted.requester.principal_type
        response.token_requester_principal_name = wanted.requester.name
    return response


# ---- renew, expire


def _token(broker: Broker, image: MetadataImage, hmac: bytes) -> DelegationTokenRecord | None:
    token_id = broker.tokens.id_of(hmac)
    return None if token_id is None else image.tokens.get(token_id)


@api(ApiKey.RENEW_DELEGATION_TOKEN, versions=(1, 2), forwardable=True)
def renew_delegation_token(
    broker: Broker, context: RequestContext, request: RenewDelegationTokenRequest
) -> Message | Pending[RenewDelegationTokenResponse]:
    refused = refusal(broker, context, request)
    if refused is not None:
        return refused
    requester, period_ms = _requester(context), request.renew_period_ms

    def decide(image: MetadataImage) -> Decision[RenewDelegationTokenResponse]:
        limits = check_enabled(_limits(broker), image.metadata_version)
        token = _token(broker, image, request.hmac)
        record = token_admin.renew(token, requester, period_ms, limits, broker.tokens.now_ms())
        return Decision(
            RenewDelegationTokenResponse(expiry_timestamp_ms=record.expiration_timestamp), [record]
        )

    return broker.controller.change(
        "The token", decide, lambda error: RenewDelegationTokenResponse(error_code=error.code)
    )


@api(ApiKey.EXPIRE_DELEGATION_TOKEN, versions=(1, 2), forwardable=True)
def expire_delegation_token(
    broker: Broker, context: RequestContext, request: ExpireDelegationTokenRequest
) -> Message | Pending[ExpireDelegationTokenResponse]:
    refused = refusal(broker, context, request)
    if refused is not None:
        return refused
    requester, period_ms = _requester(context), request.expiry_time_period_ms

    def decide(image: MetadataImage) -> Decision[ExpireDelegationTokenResponse]:
        check_enabled(_limits(broker), image.metadata_version)
        token = _token(broker, image, request.hmac)
        record, expiry_ms = token_admin.expire(token, requester, period_ms, broker.tokens.now_ms())
        return Decision(ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms), [record])

    return broker.controller.change(
        "The token", decide, lambda error: ExpireDelegationTokenResponse(error_code=error.code)
    )


# ---- describe


@api(ApiKey.DESCRIBE_DELEGATION_TOKEN, versions=(1, 3))
def describe_delegation_token(
    broker: Broker, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    if not is_request_allowed(context.connection):
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if not broker.tokens.is_enabled:
        return DescribeDelegationTokenResponse(error_code=ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = [KafkaPrincipal(each.principal_name, each.principal_type) for each in request.owners]
    return DescribeDelegationTokenResponse(
        tokens=[
            _described(broker, context, token)
            for token in broker.image.tokens.values()
            if _is_shown(broker, context, token, owners)
        ]
    )


def _is_shown(
    broker: Broker,
    context: RequestContext,
    token: DelegationTokenRecord,
    owners: Sequence[KafkaPrincipal] | None,
) -> bool:
    """Whether a token is asked for, and the client may see it: `owners` are owners or renewers, None for all."""
    if owners is not None and not any(is_owner_or_renewer(token, owner) for owner in owners):
        return False
    return (
        is_owner_or_renewer(token, _requester(context))
        or is_allowed(broker, context, _DESCRIBE, token.token_id)
        or is_allowed(broker, context, _DESCRIBE_OF_OWNER, token.owner)
    )


def _described(
    broker: Broker, context: RequestContext, token: DelegationTokenRecord
) -> DescribeDelegationTokenResponse.DescribedDelegationToken:
    owner_type, owner = _parts(token.owner)
    renewer = DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer
    renewers = [_parts(each) for each in token.renewers]
    described = DescribeDelegationTokenResponse.DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=broker.tokens.hmac(token.token_id),
        renewers=[renewer(principal_type=kind, principal_name=name) for kind, name in renewers],
    )
    if context.api_version >= REQUESTER_SINCE:
        requester_type, requester = _parts(token.requester)
        described.token_requester_principal_type = requester_type
        described.token_requester_principal_name = requester
    return described


def _parts(principal: str) -> tuple[str, str]:
    """The type and the name of a principal as it is in the metadata."""
    kind, _, name = principal.partition(":")
    return kind, name

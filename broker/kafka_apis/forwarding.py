"""RequestForwarder: what a member of a cluster does with the requests of clients that the controller answers.

All but those for settings are passed on as they came; those for delegation tokens only where this broker has not
rejected them (`handlers.tokens.refusal`). Of AlterConfigs and IncrementalAlterConfigs this broker answers
for its loggers, and rejects settings of brokers that may not be, which only brokers can tell; the
rest is forwarded, and the results are put together again.
Source: kafka.server.KafkaApis (forwardToController), ConfigAdminManager.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from barnabas.broker.broker import Broker, Forwarded
from barnabas.broker.controller.config_admin import (
    ChecksWaitError,
    ConfigAdmin,
    ConfigAlteration,
    repeated_resources,
)
from barnabas.broker.kafka_apis.authorization import is_allowed
from barnabas.broker.kafka_apis.error_responses import error_response
from barnabas.broker.kafka_apis.handlers.alter_configs import (
    after_checks,
    alter_own_loggers,
    alteration_result,
    alterations_of,
)
from barnabas.broker.kafka_apis.handlers.tokens import refusal
from barnabas.broker.membership.forwarding import ForwardingManager, ForwardResult
from barnabas.broker.metadata.image import BROKER_RESOURCE
from barnabas.broker.pending import Pending, completed
from barnabas.broker.request import ApiHandler, NoResponse, RequestContext
from barnabas.broker.security.decisions import Check
from barnabas.protocol.api_keys import (
    ApiKey,
    known_versions,
    request_header_version,
    response_header_version,
    response_type,
)
from barnabas.protocol.codec import decode, decoder, encode
from barnabas.protocol.errors import ApiError, ErrorCode, ProtocolError
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.schema import Message, VersionRange

logger = logging.getLogger("barnabas.membership")

_TEXTS: Final = {
    ErrorCode.REQUEST_TIMED_OUT: "The controller of the cluster could not be reached in time.",
    ErrorCode.UNKNOWN_SERVER_ERROR: "The controller of the cluster rejects the forwarded request.",
}
_CONFIGS: Final = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)
_TOKENS: Final = (
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
)

_ALTERS_QUIETLY: Final = Check(AclOperation.ALTER_CONFIGS, AclResourceType.CLUSTER, quiet=True)
"""Whether a client may have this broker look at what its settings name: the controller answers, and has it logged."""

_Result = Forwarded | Message | NoResponse


def _only_forwarded(broker: Broker, context: RequestContext, request: Message) -> Message:
    raise AssertionError(f"{context.api_key.title} is forwarded")


def _handler(key: ApiKey) -> ApiHandler:
    low, high = known_versions(key)
    return ApiHandler(key, (low, high), (low, high), _only_forwarded, lambda broker: True, forwardable=True)


class RequestForwarder:
    """A Forwarder over the channel to the controller."""

    def __init__(self, manager: ForwardingManager) -> None:
        self._manager = manager
        self.handlers: Mapping[int, ApiHandler] = {
            key: _handler(key) for key in (ApiKey.ADD_RAFT_VOTER, ApiKey.REMOVE_RAFT_VOTER)
        }

    def controller_versions(self, key: int) -> VersionRange | None:
        """The versions of an API that the controller serves; all that exist while that is not known, None if none."""
        return self._manager.controller_versions(key)

    def forward(
        self, broker: Broker, context: RequestContext, request: Message, frame: bytes
    ) -> Pending[_Result]:
        """Forwards a request, given as a message and as its frame without the size."""
        if context.api_key in _CONFIGS:
            return self._forward_configs(broker, context, request, frame)
        if context.api_key in _TOKENS:
            refused = refusal(broker, context, request)
            if refused is not None:
                return completed(refused)
        return self._forward(context, request, frame)

    def _forward(self, context: RequestContext, request: Message, frame: bytes) -> Pending[_Result]:
        answered = self._manager.forward(frame, context.connection)
        return answered.then(lambda result: _response(context, request, frame, result))

    # -- settings --

    def _forward_configs(
        self, broker: Broker, context: RequestContext, request: Any, frame: bytes
    ) -> Pending[_Result]:
        alterations = alterations_of(request)
        if context.api_key == ApiKey.INCREMENTAL_ALTER_CONFIGS:
            done = alter_own_loggers(broker, context, alterations, validate_only=request.validate_only)
        else:
            done = {}
        asks_parts = is_allowed(broker, context, _ALTERS_QUIETLY)
        done |= _rejected(broker, alterations, asks_parts=asks_parts)
        left = [at for at in range(len(alterations)) if at not in done]
        checked = after_checks(broker, alterations, left) if asks_parts else None
        if checked is None:
            return self._forward_rest(context, request, frame, done)
        answered: Pending[_Result] = Pending()
        checked.add_done_callback(
            lambda errors: self._forward_rest(context, request, frame, done | errors).add_done_callback(
                answered.complete
            )
        )
        return answered

    def _forward_rest(
        self, context: RequestContext, request: Any, frame: bytes, done: Mapping[int, ApiError | None]
    ) -> Pending[_Result]:
        """Forwards what is not `done`, by position."""
        alterations = alterations_of(request)
        rest = [each for at, each in enumerate(request.resources) if at not in done]
        if not done:
            return self._forward(context, request, frame)
        if not rest:
            return completed(_merged(context, alterations, done, ()))
        reduced = type(request)(resources=rest, validate_only=request.validate_only)
        answered = self._forward(context, reduced, _with_body(context, frame, reduced))
        return answered.then(
            lambda result: (
                result
                if isinstance(result, NoResponse)
                else _merged(
                    context,
                    alterations,
                    done,
                    (result.response if isinstance(result, Forwarded) else result).responses,  # type: ignore[attr-defined]
                )
            )
        )


def _response(context: RequestContext, request: Message, frame: bytes, result: ForwardResult) -> _Result:
    """The response in the controller's bytes, or one that says why there is none."""
    if isinstance(result, NoResponse):
        return result
    error = ErrorCode.UNKNOWN_SERVER_ERROR
    if isinstance(result, ErrorCode):
        error = result
    else:
        try:
            return Forwarded(result, _decoded(context, frame[4:8], result))
        except ProtocolError as problem:
            logger.warning(
                "The controller's response to %s is no response: %s", context.api_key.title, problem
            )
    return error_response(request, context.api_version, error, _TEXTS[error])


def _decoded(context: RequestContext, number: bytes, data: bytes) -> Message:
    """Raises ProtocolError where these are not the bytes of a response to the request of this number."""
    key, version = context.api_key, context.api_version
    header, end = decoder(ResponseHeader, response_header_version(key, version))(data, 0, len(data))
    if header.correlation_id.to_bytes(4, "big", signed=True) != number:
        raise ProtocolError(f"it has correlation id {header.correlation_id}")
    return decode(response_type(key), version, data[end:])


def _rejected(
    broker: Broker, alterations: Sequence[ConfigAlteration], *, asks_parts: bool
) -> dict[int, ApiError | None]:
    """The errors of resources that are named twice and of settings of brokers that may not be, by position.

    Those that cannot be decided on yet are not among them.
    """
    admin = ConfigAdmin(broker.config, broker.node_id, asks_parts=asks_parts)
    repeated = repeated_resources(each.resource for each in alterations)
    errors: dict[int, ApiError | None] = {}
    for position, alteration in enumerate(alterations):
        if alteration.resource in repeated:
            errors[position] = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
        elif alteration.resource[0] == BROKER_RESOURCE:
            (outcome,) = admin.decide(broker.image, [alteration])
            if isinstance(outcome, ApiError) and not isinstance(outcome, ChecksWaitError):
                errors[position] = outcome
    return errors


def _with_body(context: RequestContext, frame: bytes, request: Message) -> bytes:
    """The frame with another request in place of its own."""
    version = context.api_version
    _, end = decoder(RequestHeader, request_header_version(context.api_key, version))(frame, 0, len(frame))
    return frame[:end] + encode(request, version)


def _merged(
    context: RequestContext,
    alterations: Sequence[ConfigAlteration],
    done: Mapping[int, ApiError | None],
    forwarded: Sequence[Any],
) -> Message:
    """The results of what was done here and of what the controller did, in the order of the request.

    A resource that the controller's response does not mention has failed.
    """
    kind: Any = response_type(context.api_key)
    by_resource = {(each.resource_type, each.resource_name): each for each in forwarded}
    missing = ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, "The controller's response does not mention it.")
    responses = []
    for position, alteration in enumerate(alterations):
        if position in done:
            responses.append(alteration_result(kind, alteration, done[position]))
        else:
            result = by_resource.get(alteration.resource)
            responses.append(alteration_result(kind, alteration, missing) if result is None else result)
    response: Message = kind(responses=responses)
    return response

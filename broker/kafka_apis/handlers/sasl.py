"""SaslHandshake and SaslAuthenticate where they come too late, or to a listener without SASL.

Those of a login never get here: broker/security/sasl has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.request import RequestContext, api
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


@api(ApiKey.SASL_HANDSHAKE, versions=(0, 1))
def sasl_handshake(
    broker: Broker, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


@api(ApiKey.SASL_AUTHENTICATE, versions=(0, 2))
def sasl_authenticate(
    broker: Broker, context: RequestContext, request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )

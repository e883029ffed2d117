"""SaslHandshake and SaslAuthenticate after a login, or where there is none."""

from __future__ import annotations

import pytest

from barnabas.broker.kafka_apis.handlers.sasl import sasl_authenticate, sasl_handshake
from barnabas.broker.request import RequestContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from tests.broker.security.sasl.logins import connection_info


@pytest.mark.parametrize("version", [0, 1])
def test_a_handshake_comes_too_late(version: int) -> None:
    context = RequestContext(connection_info(), ApiKey.SASL_HANDSHAKE, version)
    response = sasl_handshake(None, context, SaslHandshakeRequest(mechanism="PLAIN"))  # type: ignore[arg-type]  # unused
    assert (response.error_code, response.mechanisms) == (ErrorCode.ILLEGAL_SASL_STATE, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_token_comes_too_late(version: int) -> None:
    context = RequestContext(connection_info(), ApiKey.SASL_AUTHENTICATE, version)
    response = sasl_authenticate(None, context, SaslAuthenticateRequest(auth_bytes=b"x"))  # type: ignore[arg-type]  # unused
    assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert response.error_message == "SaslAuthenticate request received after successful authentication"

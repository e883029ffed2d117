from __future__ import annotations

import pytest

from barnabas.broker.node_client.login import Login
from barnabas.protocol.api_keys import ApiKey, request_header_version
from barnabas.protocol.codec import decode, decoder, encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.protocol.schema import Message
from barnabas.security.errors import SaslClientError
from barnabas.security.sasl_client import PlainClient


class TalkativeClient:
    mechanism = "ENDLESS"
    blocks = False

    def initial(self) -> bytes:
        return b"0"

    def respond(self, challenge: bytes, /) -> bytes | None:
        return challenge + b"+"


def sent(data: bytes) -> tuple[RequestHeader, Message]:
    """A request as a broker reads it."""
    frame = data[4:]
    assert len(frame) == int.from_bytes(data[:4])
    key = ApiKey(int.from_bytes(frame[:2]))
    header, position = decoder(RequestHeader, request_header_version(key, 1))(frame, 0, len(frame))
    kind = SaslHandshakeRequest if key is ApiKey.SASL_HANDSHAKE else SaslAuthenticateRequest
    return header, decode(kind, header.request_api_version, frame[position:])


def answer(message: Message, correlation_id: int) -> bytes:
    return encode(ResponseHeader(correlation_id=correlation_id), 0) + encode(message, 1)


def chosen(code: int = ErrorCode.NONE, *mechanisms: str) -> bytes:
    return answer(SaslHandshakeResponse(error_code=code, mechanisms=list(mechanisms)), 1)


def authenticated(
    code: int = ErrorCode.NONE, message: str | None = None, data: bytes = b"", number: int = 2
) -> bytes:
    return answer(SaslAuthenticateResponse(error_code=code, error_message=message, auth_bytes=data), number)


def plain() -> Login:
    return Login(PlainClient("u", "p"), "me")


def test_a_login_in_two_requests() -> None:
    login = plain()
    header, request = sent(login.begin())
    assert (header.request_api_key, header.request_api_version, header.client_id) == (17, 1, "me")
    assert request == SaslHandshakeRequest(mechanism="PLAIN")
    data = login.receive(chosen())
    assert data is not None
    header, request = sent(data)
    assert (header.request_api_key, header.correlation_id) == (36, 2)
    assert request == SaslAuthenticateRequest(auth_bytes=b"\0u\0p")
    assert login.receive(authenticated()) is None
    assert login.is_complete


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (chosen(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "A", "B"), "the node has no PLAIN, but A, B"),
        (chosen(ErrorCode.UNSUPPORTED_SASL_MECHANISM), "but none"),
        (chosen(ErrorCode.ILLEGAL_SASL_STATE), "SASL"),
        (chosen(9999), "error 9999"),
        (answer(SaslHandshakeResponse(), 7), "answers request 7, not 1"),
    ],
)
def test_a_mechanism_is_rejected(frame: bytes, said: str) -> None:
    login = plain()
    login.begin()
    with pytest.raises(SaslClientError, match=said):
        login.receive(frame)


def test_a_password_is_rejected() -> None:
    login = plain()
    login.begin()
    login.receive(chosen())
    with pytest.raises(SaslClientError, match="Invalid username or password"):
        login.receive(authenticated(ErrorCode.SASL_AUTHENTICATION_FAILED, "Invalid username or password"))
    assert not login.is_complete


def test_a_login_without_an_end_is_given_up() -> None:
    login = Login(TalkativeClient(), "me")
    login.begin()
    login.receive(chosen())
    for number in range(2, 9):
        assert login.receive(authenticated(data=b"x", number=number))
    with pytest.raises(SaslClientError, match="comes to no end"):
        login.receive(authenticated(data=b"x", number=9))

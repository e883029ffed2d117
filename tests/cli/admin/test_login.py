from __future__ import annotations

import pytest

from barnabas.cli.admin.login import log_in
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.codec import encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.security import SaslAuthenticateResponse, SaslHandshakeResponse
from barnabas.protocol.schema import Message
from barnabas.security.errors import SaslClientError
from barnabas.security.sasl_client import PlainClient


class Broker:
    """Answers with these, in turn; the last one stays."""

    def __init__(self, *answers: Message) -> None:
        self.answers = list(answers)
        self.asked: list[ApiKey] = []

    def __call__(self, key: ApiKey, version: int, body: bytes) -> bytes:
        self.asked.append(key)
        return encode(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0], version)


class TalkativeClient:
    mechanism = "ENDLESS"
    blocks = False

    def initial(self) -> bytes:
        return b"0"

    def respond(self, challenge: bytes, /) -> bytes | None:
        return challenge


def test_a_login() -> None:
    broker = Broker(SaslHandshakeResponse(), SaslAuthenticateResponse())
    log_in(PlainClient("u", "p"), broker)
    assert broker.asked == [ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        (
            [SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=["A"])],
            "the broker has no PLAIN, but A",
        ),
        ([SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM)], "but none"),
        ([SaslHandshakeResponse(error_code=999)], "error 999"),
        (
            [
                SaslHandshakeResponse(),
                SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="no"),
            ],
            "^no$",
        ),
        ([SaslHandshakeResponse(), SaslAuthenticateResponse(auth_bytes=b"x")], "goes on"),
    ],
)
def test_why_a_login_fails(answers: list[Message], said: str) -> None:
    with pytest.raises(SaslClientError, match=said):
        log_in(PlainClient("u", "p"), Broker(*answers))


def test_a_login_without_an_end_is_given_up() -> None:
    with pytest.raises(SaslClientError, match="comes to no end"):
        log_in(TalkativeClient(), Broker(SaslHandshakeResponse(), SaslAuthenticateResponse(auth_bytes=b"x")))

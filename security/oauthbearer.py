r"""OAUTHBEARER (RFC 7628, KIP-255) as bytes: the message that carries a token, for both sides, and the client.

    n,[a=<authorization id>],\x01auth=Bearer <token>\x01[<name>=<value>\x01]...\x01

The server answers with nothing, or with why it rejects the token, in JSON: {"status":"invalid_token"}. To that the
client sends \x01, and the login fails.

Source: OAuthBearerClientInitialResponse, OAuthBearerSaslClient.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from barnabas.security.errors import SaslClientError
from barnabas.security.strict_json import JsonError, parse_object

OAUTHBEARER: Final = "OAUTHBEARER"
ABORT: Final = b"\x01"
"""What a client sends to the reason for which its token is rejected."""

_AUTH: Final = "auth"
_NAME: Final = r"[A-Za-z]+"
_VALUE: Final = r"[\x21-\x7e \t\r\n]+"
_SASL_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_INITIAL: Final = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01(?P<pairs>(?:{_NAME}={_VALUE}\x01)*)\x01"
)
_CREDENTIAL: Final = re.compile(r"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_EXTENSION: Final = re.compile(rf"{_NAME}={_VALUE}")
_SHOWN_CHARACTERS: Final = 200


class MessageError(ValueError):
    """The bytes are no such message. The text of the error has nothing of them."""


class InitialMessage(NamedTuple):
    """`authorization_id` is empty without one; `extensions` are the other pairs, by name (KIP-342)."""

    token: str
    authorization_id: str
    extensions: Mapping[str, str]


def parse_initial(message: bytes) -> InitialMessage:
    """Raises MessageError."""
    try:
        found = _INITIAL.fullmatch(message.decode("ascii"))
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise MessageError("the first message of OAUTHBEARER is not of its form")
    pairs = dict(pair.split("=", 1) for pair in found["pairs"].split("\x01")[:-1])
    credential = _CREDENTIAL.fullmatch(pairs.pop(_AUTH, ""))
    if credential is None or credential["scheme"].lower() != "bearer":
        raise MessageError("the first message of OAUTHBEARER has no bearer token")
    return InitialMessage(credential["token"], found["authzid"] or "", pairs)


def format_initial(token: str, extensions: Mapping[str, str]) -> bytes:
    """The message of a client."""
    pairs = {_AUTH: f"Bearer {token}", **extensions}
    return ("n,,\x01" + "".join(f"{name}={value}\x01" for name, value in pairs.items()) + "\x01").encode(
        "ascii"
    )


def is_extension(name: str, value: str) -> bool:
    """Whether a client may send this."""
    return name != _AUTH and _EXTENSION.fullmatch(f"{name}={value}") is not None


def is_token(text: str) -> bool:
    """Whether a message can carry this token."""
    return _CREDENTIAL.fullmatch(f"Bearer {text}") is not None


class OAuthBearerClient:
    """One login. `token` is called when it begins, and raises SaslClientError where there is none."""

    mechanism = OAUTHBEARER

    def __init__(
        self, token: Callable[[], str], extensions: Mapping[str, str], *, blocks: bool = False
    ) -> None:
        """`blocks`: whether `token` may wait for an identity provider."""
        self.blocks = blocks
        self._token = token
        self._extensions = extensions
        self._rejection: str | None = None

    def initial(self) -> bytes:
        """The first message. Raises SaslClientError."""
        return format_initial(self._token(), self._extensions)

    def respond(self, challenge: bytes) -> bytes | None:
        """The server answers with nothing where it accepts the token."""
        if self._rejection is not None:
            raise SaslClientError(self._rejection)
        if not challenge:
            return None
        self._rejection = f"the server rejects the token: {_status(challenge)}"
        return ABORT


def _status(challenge: bytes) -> str:
    try:
        status = parse_object(challenge).get("status")
    except JsonError:
        status = None
    return status[:_SHOWN_CHARACTERS] if isinstance(status, str) else "it does not say why"

"""SASL, SCRAM credentials, and the principal inside a forwarded request."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from barnabas.protocol.schema import Message, Struct, array, bool_, bytes_, int8, int16, int32, int64, string


class ScramMechanism(IntEnum):
    """The mechanisms of SCRAM (RFC 5802) by their numbers on the wire."""

    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def label(self) -> str:
        """As it is written everywhere but in enums: SCRAM-SHA-256."""
        return self.name.replace("_", "-")


HASH_NAMES: Final[Mapping[int, str]] = {
    ScramMechanism.SCRAM_SHA_256: "sha256",
    ScramMechanism.SCRAM_SHA_512: "sha512",
}
"""The hash of each mechanism, as hashlib names it."""

MIN_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""Both included. The fewest are also Kafka's default."""


class SaslHandshakeRequest(Message, api_key=17, versions="0-1", flexible="none"):
    """Chooses a SASL mechanism."""

    mechanism: str = string()


class SaslHandshakeResponse(Message, api_key=17, versions="0-1", flexible="none"):
    error_code: int = int16()
    mechanisms: list[str] = array(string)


class SaslAuthenticateRequest(Message, api_key=36, versions="0-2", flexible="2+"):
    """A message of the chosen SASL mechanism."""

    auth_bytes: bytes = bytes_()


class SaslAuthenticateResponse(Message, api_key=36, versions="0-2", flexible="2+"):
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = bytes_()
    session_lifetime_ms: int = int64(versions="1+", ignorable=True)


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions="0", flexible="0+"):
    """Asks which SCRAM credentials users have, without the secrets."""

    class UserName(Struct):
        name: str = string()

    users: list[DescribeUserScramCredentialsRequest.UserName] | None = array("UserName", nullable="0+")


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions="0", flexible="0+"):
    class CredentialInfo(Struct):
        mechanism: int = int8()
        iterations: int = int32()

    class DescribeUserScramCredentialsResult(Struct):
        user: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = array("CredentialInfo")

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = array(
        "DescribeUserScramCredentialsResult"
    )


class AlterUserScramCredentialsRequest(Message, api_key=51, versions="0", flexible="0+"):
    """Sets and removes SCRAM credentials."""

    class ScramCredentialDeletion(Struct):
        name: str = string()
        mechanism: int = int8()

    class ScramCredentialUpsertion(Struct):
        name: str = string()
        mechanism: int = int8()
        iterations: int = int32()
        salt: bytes = bytes_()
        salted_password: bytes = bytes_()

    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = array(
        "ScramCredentialDeletion"
    )
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = array(
        "ScramCredentialUpsertion"
    )


class AlterUserScramCredentialsResponse(Message, api_key=51, versions="0", flexible="0+"):
    class AlterUserScramCredentialsResult(Struct):
        user: str = string()
        error_code: int = int16()
        error_message: str | None = string(nullable="0+")

    throttle_time_ms: int = int32()
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = array(
        "AlterUserScramCredentialsResult"
    )


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    """The principal inside a forwarded request (the body of an Envelope)."""

    type: str = string()
    name: str = string()
    token_authenticated: bool = bool_()

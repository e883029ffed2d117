"""Logins for tests: a listener with mechanisms of which some are scripted, and what it needs around it."""

from __future__ import annotations

from barnabas.broker.request import ConnectionInfo
from barnabas.broker.security.sasl.authenticator import Clock
from barnabas.broker.security.sasl.listener import SaslListener
from barnabas.broker.security.sasl.plain import JaasLogins, PlainMechanism
from barnabas.broker.security.sasl.scram import ScramCredentials, ScramMechanismOfListener
from barnabas.broker.security.sasl.server import (
    Login,
    SaslAuthenticationError,
    SaslError,
    SaslRetriableError,
    SaslServer,
    WouldBlockError,
)
from barnabas.protocol.api_keys import ApiKey, request_header_version
from barnabas.protocol.codec import decoder, encode
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.framing import Frame
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.wire import Chunk

USERS = {"user_alice": "pencil", "user_bob": "hush"}
MAX_RECEIVE_BYTES = 10_000


class ScriptedServer:
    """Does what a token says: "more", "user NAME", "done NAME", "late NAME", "fail TEXT", "tell TEXT", "later TEXT",
    "bug".
    """

    def __init__(self, *, blocks: bool, expires_ms: int | None) -> None:
        self.blocks = blocks
        self.user: str | None = None
        self.login: Login | None = None
        self._expires_ms = expires_ms

    def evaluate(self, token: bytes) -> bytes:
        verb, _, rest = token.decode().partition(" ")
        match verb:
            case "more":
                return b"go on"
            case "user":
                self.user = rest
                return b""
            case "done":
                self.user = rest
                self.login = Login(rest, expires_ms=self._expires_ms)
                return b"welcome"
            case "late":
                if not self.blocks:
                    self.blocks = True
                    raise WouldBlockError
                self.blocks = False
                self.login = Login(rest, expires_ms=self._expires_ms)
                return b"at last"
            case "fail":
                raise SaslError(rest)
            case "later":
                raise SaslRetriableError(rest)
            case "tell":
                raise SaslAuthenticationError(rest)
            case _:
                raise ZeroDivisionError("a bug of ours")


class ScriptedMechanism:
    """A mechanism of ScriptedServers."""

    def __init__(
        self, name: str, max_reauth_ms: int = 0, *, blocks: bool = False, expires_ms: int | None = None
    ) -> None:
        self.name = name
        self.max_reauth_ms = max_reauth_ms
        self._blocks = blocks
        self._expires_ms = expires_ms

    def new_server(self) -> SaslServer:
        return ScriptedServer(blocks=self._blocks, expires_ms=self._expires_ms)


def listener(max_reauth_ms: int = 0) -> SaslListener:
    """PLAIN with USERS, SCRAM without any, and scripted mechanisms, one of which waits for others."""
    mechanisms = (
        PlainMechanism(JaasLogins(USERS), max_reauth_ms),
        ScramMechanismOfListener("SCRAM-SHA-256", ScramCredentials(), max_reauth_ms),
        ScriptedMechanism("SCRIPTED", max_reauth_ms),
        ScriptedMechanism("SLOW", max_reauth_ms, blocks=True),
        ScriptedMechanism("BEARER", max_reauth_ms, expires_ms=100_000),
    )
    return SaslListener({each.name: each for each in mechanisms}, MAX_RECEIVE_BYTES)


class FakeDoors:
    """Answers ApiVersions with two APIs, but for clients named "wrong", and version 99."""

    def api_versions_before_login(self, connection: ConnectionInfo, frame: Frame) -> list[Chunk]:
        version = int.from_bytes(frame[2:4], "big")
        number = bytes(frame[4:8])
        if version == 99:
            return [number, encode(ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION), 0)]
        header_version = request_header_version(ApiKey.API_VERSIONS, version)
        _, end = decoder(RequestHeader, header_version)(frame, 0, len(frame))
        request, _ = decoder(ApiVersionsRequest, version)(frame, end, len(frame))
        wrong = request.client_software_name == "wrong"
        entry = ApiVersionsResponse.ApiVersion(api_key=17, min_version=0, max_version=1)
        response = ApiVersionsResponse(
            error_code=ErrorCode.INVALID_REQUEST if wrong else ErrorCode.NONE, api_keys=[entry]
        )
        return [number, encode(response, version)]

    def reject_before_login(self, frame: Frame, error: ErrorCode, message: str) -> list[Chunk] | None:
        if len(frame) > 60:
            raise ProtocolError("the request cannot be decoded")
        return [bytes(frame[4:8]), f"{error.name}: {message}".encode()]


class ManualClock:
    """Both clocks of a login, in one."""

    def __init__(self) -> None:
        self.now_s = 50.0
        self.clock = Clock(lambda: self.now_s, lambda: int(self.now_s * 1000))


def connection_info(security_protocol: str = "SASL_PLAINTEXT") -> ConnectionInfo:
    return ConnectionInfo(
        connection_id=1,
        listener_name="SASL",
        client_host="192.0.2.7",
        client_port=50_000,
        local_host="192.0.2.1",
        local_port=9092,
        security_protocol=security_protocol,
        principal=None,
    )

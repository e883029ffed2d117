"""SaslAuthenticator: one login of one connection, from its first frame to the session, as a state machine without I/O.

Frames go in, one at a time; a `Step` comes out: what to send, and whether to go on, to close, or to run something that
waits. The initial login begins in INITIAL_REQUEST, a re-authentication (KIP-368) in REAUTH_PROCESS_HANDSHAKE.

What a frame does, by state:

| state | frame | answer | then |
| --- | --- | --- | --- |
| INITIAL_REQUEST, HANDSHAKE_OR_VERSIONS_REQUEST | ApiVersions | the APIs | HANDSHAKE_REQUEST |
| " | ApiVersions, unknown version or invalid name of software | its error | HANDSHAKE_OR_VERSIONS_REQUEST |
| HANDSHAKE_REQUEST | ApiVersions | none | closed at once |
| these three, REAUTH_PROCESS_HANDSHAKE | SaslHandshake, mechanism enabled | mechanisms | AUTHENTICATE |
| " | SaslHandshake, mechanism not enabled | UNSUPPORTED_SASL_MECHANISM, mechanisms | fails |
| " | anything else | none | closed at once |
| REAUTH_PROCESS_HANDSHAKE | SaslHandshake, another mechanism than before | mechanisms | REAUTH_BAD_MECHANISM |
| REAUTH_BAD_MECHANISM | anything | none | fails |
| AUTHENTICATE, after SaslHandshake v0 | a token as it is | the server's token as it is | AUTHENTICATE or COMPLETE |
| AUTHENTICATE, after SaslHandshake v1 | SaslAuthenticate | the server's token | AUTHENTICATE or COMPLETE |
| " | SaslAuthenticate, token rejected | SASL_AUTHENTICATION_FAILED, text | fails |
| " | a token that cannot be taken now (SaslRetriableError) | none | closed at once |
| " | another API | its error with ILLEGAL_SASL_STATE | fails |
| " | no request | none | closed at once |

*Fails*: the answer, if there is one, and the close are held back by connection.failed.authentication.delay.ms. Where a
re-authentication fails in its handshake, Kafka closes at once and sends nothing, and so does this.

Source: org.apache.kafka.common.security.authenticator.SaslServerAuthenticator.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from barnabas.broker.request import ConnectionInfo, KafkaPrincipal
from barnabas.broker.security.principals import Naming, PrincipalError
from barnabas.broker.security.sasl.server import (
    Login,
    Mechanism,
    SaslAuthenticationError,
    SaslError,
    SaslRetriableError,
    SaslServer,
    WouldBlockError,
)
from barnabas.broker.security.sasl.session import SaslSession, session_lifetime_ms
from barnabas.protocol.api_keys import (
    ApiKey,
    known_versions,
    request_header_version,
    request_type,
    response_header_version,
    response_type,
)
from barnabas.protocol.codec import MAX_ELEMENTS, decoder, encoder
from barnabas.protocol.errors import ErrorCode, ProtocolError
from barnabas.protocol.framing import Frame, is_of_tls_client
from barnabas.protocol.messages.headers import RequestHeader
from barnabas.protocol.messages.security import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Chunk

MAX_ROUNDS: Final = 16
"""Tokens of one login; GSSAPI, which takes the most, needs about five."""

WRONG_FIRST_REQUEST: Final = (
    "its first request is neither ApiVersions nor SaslHandshake: a client with another security.protocol, "
    "or of something else than Kafka"
)

_HEADER_BYTES: Final = 8
"""Of a request: API key, version, and the number that its response begins with."""

_NO_ERROR: Final = b"\0\0"


class SaslState(Enum):
    """Where a login is; the table above has the transitions."""

    INITIAL_REQUEST = "nothing was received"
    HANDSHAKE_OR_VERSIONS_REQUEST = "an ApiVersions request was rejected; another or a SaslHandshake may come"
    HANDSHAKE_REQUEST = "ApiVersions was answered; a SaslHandshake must come"
    AUTHENTICATE = "the mechanism is known; tokens come"
    REAUTH_PROCESS_HANDSHAKE = "a client that is logged in begins again; its SaslHandshake comes"
    REAUTH_BAD_MECHANISM = "it began again with another mechanism; whatever comes fails"
    COMPLETE = "the client is logged in"
    FAILED = "the login has failed; nothing more is taken"


_HANDSHAKE_STATES: Final = (
    SaslState.INITIAL_REQUEST,
    SaslState.HANDSHAKE_OR_VERSIONS_REQUEST,
    SaslState.HANDSHAKE_REQUEST,
    SaslState.REAUTH_PROCESS_HANDSHAKE,
)


class Fate(Enum):
    """What becomes of the connection after a step."""

    CONTINUE = "the next frame may come, after the answer"
    WORK = "nothing is read until `work` has run, in a thread, and `SaslAuthenticator.worked` was called"
    COMPLETE = "the answer is sent, and what comes behind it are requests of the principal"
    FAIL = "the delay of failures passes; then the answer is sent and the connection closed"
    CLOSE = "the connection is closed at once, without an answer"


class Failure(NamedTuple):
    """Why a login has failed, for a log line. `reason` has nothing secret in it."""

    reason: str
    mechanism: str | None = None
    user: str | None = None


class Step(NamedTuple):
    """The outcome of one frame. `answer` is without its size; None for no answer, which an empty one is not."""

    fate: Fate
    answer: list[Chunk] | None = None
    failure: Failure | None = None
    work: Callable[[], None] | None = None


class Listener(Protocol):
    """The logins of a listener, as its configuration has them: SaslListener."""

    @property
    def mechanisms(self) -> dict[str, Mechanism]:
        """Those that are enabled, by name."""

    @property
    def max_receive_bytes(self) -> int:
        """sasl.server.max.receive.size."""


class Clock(NamedTuple):
    """A clock that never goes back, in seconds, and the time of day in ms since 1970."""

    monotonic_s: Callable[[], float]
    now_ms: Callable[[], int]


class Doors(Protocol):
    """What of the broker's APIs is open to a client that has not logged in: KafkaApis."""

    def api_versions_before_login(self, connection: ConnectionInfo, frame: Frame) -> list[Chunk]:
        """The response to an ApiVersions request. Raises ProtocolError where that cannot be read."""

    def reject_before_login(self, frame: Frame, error: ErrorCode, message: str) -> list[Chunk] | None:
        """The error response to a request of any API; None where it has none. Raises ProtocolError."""


class SaslAuthenticator:
    """The login of one connection. After COMPLETE, `session` is what it yields."""

    def __init__(
        self,
        listener: Listener,
        connection: ConnectionInfo,
        doors: Doors,
        clock: Clock,
        previous: SaslSession | None = None,
    ) -> None:
        """`previous` is the session that a re-authentication renews."""
        self.state = SaslState.INITIAL_REQUEST if previous is None else SaslState.REAUTH_PROCESS_HANDSHAKE
        self.session: SaslSession | None = None
        self._listener = listener
        self._connection = connection
        self._doors = doors
        self._clock = clock
        self._previous = previous
        self._mechanism: Mechanism | None = None
        self._server: SaslServer | None = None
        self._has_headers = False
        self._supports_reauthentication = False
        self._rounds = 0
        self._round: _Round | None = None
        self._complaint = ""

    @property
    def is_reauthentication(self) -> bool:
        return self._previous is not None

    @property
    def is_open(self) -> bool:
        """Whether the client's next frame is taken."""
        return self.state not in (SaslState.COMPLETE, SaslState.FAILED) and self._round is None

    def allows_size(self, size: int) -> bool:
        """Whether a frame may have this length."""
        return 0 <= size <= self._listener.max_receive_bytes

    def receive(self, frame: bytes) -> Step:
        """Takes the client's next frame. What it raises is a bug: the connection has to close."""
        if self._round is not None or self.state is SaslState.FAILED:  # every client waits for an answer
            when = "after its login has failed" if self._round is None else "while its token is being checked"
            return self._close(f"it goes on {when}")
        if not self.allows_size(len(frame)):
            return self.reject_size(len(frame))
        try:
            if self.state in _HANDSHAKE_STATES:
                return self._request(frame)
            if self.state is SaslState.AUTHENTICATE:
                return self._token(frame)
        except ProtocolError as error:
            return self._close(WRONG_FIRST_REQUEST if self.state is SaslState.INITIAL_REQUEST else str(error))
        assert self.state is SaslState.REAUTH_BAD_MECHANISM, self.state
        return self._fail(self._complaint)

    def reject_size(self, size: int) -> Step:
        """A frame that claims a length below 0 or above the limit."""
        if is_of_tls_client(size):
            return self._fail("a TLS client is at a listener in plain text")
        return self._fail(
            f"a frame of {size} bytes, where at most {self._listener.max_receive_bytes} are allowed"
        )

    def worked(self) -> Step:
        """The work of the last step has run."""
        current, self._round = self._round, None
        assert current is not None
        if self.state is SaslState.FAILED:
            return self._close("it has gone on while its token was being checked")
        return self._finish(current)

    # ---- before the mechanism is known

    def _request(self, frame: bytes) -> Step:
        form = _form(frame)
        _, end = form.decode_header(frame, 0, len(frame))
        if form.api_key is ApiKey.SASL_HANDSHAKE:
            return self._handshake(form, frame, end)
        if form.api_key is not ApiKey.API_VERSIONS or self.is_reauthentication:
            raise ProtocolError(f"{form.api_key.name} is not allowed before a login")
        if self.state is SaslState.HANDSHAKE_REQUEST:
            raise ProtocolError("a second ApiVersions request before the login")
        answer = self._doors.api_versions_before_login(self._connection, frame)
        data = b"".join(answer)  # type: ignore[arg-type]  # no records
        rejected = data[4:6] != _NO_ERROR  # behind a header that never has more than the request's number
        self.state = SaslState.HANDSHAKE_OR_VERSIONS_REQUEST if rejected else SaslState.HANDSHAKE_REQUEST
        return Step(Fate.CONTINUE, [data])

    def _handshake(self, form: _Form, frame: bytes, end: int) -> Step:
        request, _ = form.decode(frame, end, len(frame))
        assert isinstance(request, SaslHandshakeRequest)
        self._has_headers = form.version >= 1
        mechanisms = self._listener.mechanisms
        mechanism = mechanisms.get(request.mechanism)
        number = frame[4:_HEADER_BYTES]
        if mechanism is None:
            response = SaslHandshakeResponse(
                error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=list(mechanisms)
            )
            return self._reject_mechanism(request.mechanism, form.encoded(number, response))
        if self._previous is not None and self._previous.mechanism != mechanism.name:
            self.state = SaslState.REAUTH_BAD_MECHANISM
            self._complaint = (
                f"SASL mechanism '{mechanism.name}' requested by client is not supported for re-authentication of "
                f"mechanism '{self._previous.mechanism}'"
            )
        else:
            self.state = SaslState.AUTHENTICATE
            self._mechanism = mechanism
            self._server = mechanism.new_server()
        return Step(Fate.CONTINUE, [number + _shaken(form, tuple(mechanisms))])

    def _reject_mechanism(self, name: str, answer: list[Chunk]) -> Step:
        step = self._fail(f"mechanism {name} is not enabled", answer)
        return step._replace(fate=Fate.CLOSE, answer=None) if self.is_reauthentication else step

    # ---- tokens

    def _token(self, frame: bytes) -> Step:
        if not self._has_headers:
            return self._evaluate(_Round(frame))
        form = _form(frame)
        _, end = form.decode_header(frame, 0, len(frame))
        if form.api_key is not ApiKey.SASL_AUTHENTICATE:
            message = f"Unexpected Kafka request of type {form.api_key.name} during SASL authentication."
            answer = self._doors.reject_before_login(frame, ErrorCode.ILLEGAL_SASL_STATE, message)
            return self._fail(message, answer)
        request, _ = form.decode(frame, end, len(frame))
        assert isinstance(request, SaslAuthenticateRequest)
        self._supports_reauthentication |= form.version > 0
        return self._evaluate(_Round(request.auth_bytes, form, frame[4:_HEADER_BYTES]))

    def _evaluate(self, current: _Round) -> Step:
        self._rounds += 1
        if self._rounds > MAX_ROUNDS:
            return self._reject_token(current, SaslError(f"more than {MAX_ROUNDS} tokens"))
        server = self._server
        assert server is not None
        if not server.blocks:
            current.evaluate(server)
            if not isinstance(current.error, WouldBlockError):
                return self._finish(current)
            current.error = None
        self._round = current
        return Step(Fate.WORK, work=lambda: current.evaluate(server))

    def _finish(self, current: _Round) -> Step:
        if isinstance(current.error, SaslError):
            return self._reject_token(current, current.error)
        if current.error is not None:
            raise current.error
        server, mechanism = self._server, self._mechanism
        assert server is not None
        assert mechanism is not None
        if server.login is None:
            return Step(Fate.CONTINUE, current.answer(SaslAuthenticateResponse()))
        try:
            principal = _principal_of(server.login, mechanism.name, self._connection.naming)
        except PrincipalError as error:
            return self._reject_token(current, SaslError(str(error)))
        if self._previous is not None and principal != self._previous.principal:
            return self._reject_token(current, SaslAuthenticationError(_changed(self._previous, principal)))
        lifetime_ms = session_lifetime_ms(
            server.login.expires_ms, mechanism.max_reauth_ms, self._clock.now_ms()
        )
        self.state = SaslState.COMPLETE
        self.session = SaslSession(
            mechanism.name,
            principal,
            None if lifetime_ms is None else self._clock.monotonic_s() + lifetime_ms / 1000,
            supports_reauthentication=self._supports_reauthentication,
            previous=self._previous,
        )
        return Step(
            Fate.COMPLETE, current.answer(SaslAuthenticateResponse(session_lifetime_ms=lifetime_ms or 0))
        )

    def _reject_token(self, current: _Round, error: SaslError) -> Step:
        if isinstance(error, SaslRetriableError):
            return self._close(str(error))
        mechanism = self._mechanism
        assert mechanism is not None
        message = str(error)
        if not isinstance(error, SaslAuthenticationError):
            during = "re-authentication" if self.is_reauthentication else "authentication"
            because = f"due to invalid credentials with SASL mechanism {mechanism.name}"
            message = f"Authentication failed during {during} {because}"
        response = SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=message
        )
        reason = error.reason if isinstance(error, SaslAuthenticationError) else str(error)
        return self._fail(reason, None if current.form is None else current.answer(response))

    # ---- ends

    def _fail(self, reason: str, answer: list[Chunk] | None = None) -> Step:
        self.state = SaslState.FAILED
        return Step(Fate.FAIL, answer, self._failure(reason))

    def _close(self, reason: str) -> Step:
        self.state = SaslState.FAILED
        return Step(Fate.CLOSE, None, self._failure(reason))

    def _failure(self, reason: str) -> Failure:
        mechanism = self._mechanism
        return Failure(
            reason,
            None if mechanism is None else mechanism.name,
            None if self._server is None else self._server.user,
        )


class _Round:
    """One token on its way through the mechanism. `form` is None where it came without a header."""

    __slots__ = ("_answer", "_number", "_token", "error", "form")

    def __init__(self, token: bytes, form: _Form | None = None, number: bytes = b"") -> None:
        self.form = form
        self.error: Exception | None = None
        self._number = number
        self._token = token
        self._answer = b""

    def evaluate(self, server: SaslServer) -> None:
        """Runs in a thread where the mechanism may wait."""
        try:
            self._answer = server.evaluate(self._token)
        except Exception as error:
            self.error = error

    def answer(self, response: SaslAuthenticateResponse) -> list[Chunk]:
        """The mechanism's token: in this response, or as it is."""
        if self.form is None:
            return [self._answer]
        response.auth_bytes = self._answer
        return self.form.encoded(self._number, response)


class _Form:
    """How the requests of one API in one version are read and answered."""

    __slots__ = ("_decode", "_encode", "_tags", "api_key", "decode_header", "version")

    def __init__(self, api_key: ApiKey, version: int) -> None:
        self.api_key = api_key
        self.version = version
        self.decode_header = decoder(RequestHeader, request_header_version(api_key, version), MAX_ELEMENTS)
        self._tags = b"\0" if response_header_version(api_key, version) else b""
        self._decode: Callable[[bytes, int, int], tuple[Message, int]] | None = None
        self._encode: Callable[[Message, list[Chunk]], None] | None = None
        if self.is_known:
            self._decode = decoder(request_type(api_key), version, MAX_ELEMENTS)
            self._encode = encoder(response_type(api_key), version)

    @property
    def is_known(self) -> bool:
        """Whether the version exists."""
        low, high = known_versions(self.api_key)
        return low <= self.version <= high

    def decode(self, frame: bytes, start: int, end: int) -> tuple[Message, int]:
        """The request behind its header. Raises ProtocolError, for a version that does not exist, too."""
        if self._decode is None:
            raise ProtocolError(f"{self.api_key.name} has no version {self.version}")
        return self._decode(frame, start, end)

    def encoded(self, number: bytes, response: Message) -> list[Chunk]:
        """The bytes of a response with its header, without the size. `number` is the request's."""
        out: list[Chunk] = [number + self._tags]
        assert self._encode is not None
        self._encode(response, out)
        return out


_KEPT_FORMS: Final = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_forms: dict[bytes, _Form] = {}
"""Of the APIs of a login in the versions that exist, by the bytes of key and version with which requests begin."""


def _form(frame: bytes) -> _Form:
    """That of a request. Raises ProtocolError for one of no API."""
    if len(frame) < _HEADER_BYTES:
        raise ProtocolError(f"a request of {len(frame)} bytes has no room for its header")
    start = frame[:4]
    found = _forms.get(start)
    return _new_form(start) if found is None else found


def _new_form(start: bytes) -> _Form:
    key = int.from_bytes(start[:2], "big", signed=True)
    form: _Form | None = None
    with contextlib.suppress(ValueError):
        form = _Form(ApiKey(key), int.from_bytes(start[2:], "big", signed=True))
    if form is None:
        raise ProtocolError(f"there is no API with the key {key}")
    if form.is_known and form.api_key in _KEPT_FORMS:
        _forms[start] = form
    return form


@functools.lru_cache(maxsize=64)
def _shaken(form: _Form, mechanisms: tuple[str, ...]) -> bytes:
    """The response to a SaslHandshake that asks for one of the mechanisms, without the request's number."""
    return b"".join(form.encoded(b"", SaslHandshakeResponse(mechanisms=list(mechanisms))))  # type: ignore[arg-type]  # no records


def _principal_of(login: Login, mechanism: str, naming: Naming | None) -> KafkaPrincipal:
    """Raises PrincipalError, where a class of the operator's own names clients."""
    if naming is None:
        return KafkaPrincipal(login.authorization_id, token_authenticated=login.token_authenticated)
    return naming.principal(
        mechanism,
        login.authorization_id,
        token_authenticated=login.token_authenticated,
        expires_ms=login.expires_ms,
    )


def _changed(previous: SaslSession, principal: KafkaPrincipal) -> str:
    was = previous.principal
    return (
        f"Cannot change principals during re-authentication from {was.principal_type}.{was.name}: "
        f"{principal.principal_type}.{principal.name}"
    )

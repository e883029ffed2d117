"""Dialogues with a login, in every state: bytes of a client, and what they lead to."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.request import KafkaPrincipal
from barnabas.broker.security.principals import AuthenticationContext, Naming
from barnabas.broker.security.sasl.authenticator import (
    MAX_ROUNDS,
    WRONG_FIRST_REQUEST,
    Failure,
    Fate,
    SaslAuthenticator,
    SaslState,
    Step,
)
from barnabas.broker.security.sasl.session import SaslSession
from barnabas.protocol.api_keys import ApiKey, known_versions, response_header_version, response_type
from barnabas.protocol.codec import decode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.protocol.schema import Message
from tests.broker.security.sasl.logins import (
    MAX_RECEIVE_BYTES,
    FakeDoors,
    ManualClock,
    connection_info,
    listener,
)
from tests.support.sasl import ScramClient, plain_token, request

GENERIC = "Authentication failed during authentication due to invalid credentials with SASL mechanism {}"
AGAIN = "Authentication failed during re-authentication due to invalid credentials with SASL mechanism {}"


class Dialogue:
    """A client of one login."""

    def __init__(self, max_reauth_ms: int = 0, previous: SaslSession | None = None) -> None:
        self.time = ManualClock()
        self.login = SaslAuthenticator(
            listener(max_reauth_ms), connection_info(), FakeDoors(), self.time.clock, previous
        )

    def send(self, frame: bytes) -> Step:
        return self.login.receive(frame)

    def ask(self, message: Message, version: int) -> Any:
        """Sends a request; returns what it leads to, and its response."""
        step = self.send(request(message, version))
        return step.fate, response_of(message, version, step)

    def versions(self, version: int = 3, name: str = "test") -> Any:
        message = ApiVersionsRequest()
        if version >= 3:
            message.client_software_name, message.client_software_version = name, "1"
        return self.ask(message, version)

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, token: bytes, version: int = 2) -> Any:
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), version)

    @property
    def state(self) -> SaslState:
        return self.login.state


def response_of(message: Message, version: int, step: Step) -> Any:
    if step.answer is None:
        return None
    data = b"".join(bytes(chunk) for chunk in step.answer)  # type: ignore[arg-type]  # no records among them
    assert message.api_key is not None
    assert data[:4] == b"\0\0\0\7"
    head = 4 + response_header_version(message.api_key, version)
    return decode(response_type(message.api_key), version, data[head:])


# ---- the handshake


@pytest.mark.parametrize("version", range(5))
def test_api_versions_comes_first(version: int) -> None:
    client = Dialogue()
    fate, response = client.versions(version)
    assert (fate, len(response.api_keys)) == (Fate.CONTINUE, 1)
    assert client.state is SaslState.HANDSHAKE_REQUEST


def test_api_versions_that_is_rejected_may_come_again() -> None:
    client = Dialogue()
    step = client.send(struct.pack(">hhihbb", 18, 99, 7, -1, 0, 0))
    assert step.fate is Fate.CONTINUE
    assert client.state is SaslState.HANDSHAKE_OR_VERSIONS_REQUEST
    assert client.versions(name="wrong")[1].error_code == ErrorCode.INVALID_REQUEST
    assert client.state is SaslState.HANDSHAKE_OR_VERSIONS_REQUEST
    assert client.versions()[0] is Fate.CONTINUE
    assert client.handshake()[0] is Fate.CONTINUE


def test_a_second_api_versions_request_ends_the_connection() -> None:
    client = Dialogue()
    client.versions()
    assert client.versions() == (Fate.CLOSE, None)
    assert client.state is SaslState.FAILED


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("after_versions", [False, True])
def test_the_handshake_names_the_mechanisms(version: int, after_versions: bool) -> None:
    client = Dialogue()
    if after_versions:
        client.versions()
    fate, response = client.handshake(version=version)
    assert fate is Fate.CONTINUE
    assert response.error_code == 0
    assert response.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRIPTED", "SLOW", "BEARER"]
    assert client.state is SaslState.AUTHENTICATE
    assert client.login.is_open


@pytest.mark.parametrize("mechanism", ["GSSAPI", "plain", ""])
def test_a_mechanism_that_is_not_enabled(mechanism: str) -> None:
    client = Dialogue()
    fate, response = client.handshake(mechanism)
    assert (fate, response.error_code) == (Fate.FAIL, ErrorCode.UNSUPPORTED_SASL_MECHANISM)
    assert "PLAIN" in response.mechanisms
    assert not client.login.is_open


@pytest.mark.parametrize("key", [key for key in ApiKey if key not in (17, 18)])
def test_another_api_first_ends_the_connection(key: ApiKey) -> None:
    client = Dialogue()
    step = client.send(struct.pack(">hhih", key, 0, 7, -1) + bytes(20))
    assert step == Step(Fate.CLOSE, None, Failure(WRONG_FIRST_REQUEST))


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"abc",
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">hhih", 999, 0, 7, -1),
        struct.pack(">hhih", 17, 2, 7, -1) + b"\0\5PLAIN",
        struct.pack(">hhih", 17, -1, 7, -1) + b"\0\5PLAIN",
        struct.pack(">hhih", 17, 1, 7, -1) + b"\0\6PLAIN",
    ],
)
def test_what_is_no_request_ends_the_connection(frame: bytes) -> None:
    first = Dialogue()
    assert first.send(frame).failure == Failure(WRONG_FIRST_REQUEST)
    later = Dialogue()
    later.versions()
    step = later.send(frame)
    assert step.fate is Fate.CLOSE
    assert step.failure is not None
    assert step.failure.reason != WRONG_FIRST_REQUEST


def test_frames_beyond_the_limit_fail() -> None:
    client = Dialogue()
    assert [client.login.allows_size(size) for size in (-1, 0, MAX_RECEIVE_BYTES, MAX_RECEIVE_BYTES + 1)] == [
        False,
        True,
        True,
        False,
    ]
    step = client.send(bytes(MAX_RECEIVE_BYTES + 1))
    assert (step.fate, step.answer) == (Fate.FAIL, None)
    assert step.failure == Failure("a frame of 10001 bytes, where at most 10000 are allowed")
    assert Dialogue().login.reject_size(-5).fate is Fate.FAIL
    of_tls = Dialogue().login.reject_size(0x16030102)
    assert of_tls.failure == Failure("a TLS client is at a listener in plain text")


# ---- tokens


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_login_by_plain(version: int) -> None:
    client = Dialogue()
    client.handshake()
    fate, response = client.authenticate(plain_token("alice", "pencil"), version)
    assert (fate, response.error_code, response.auth_bytes) == (Fate.COMPLETE, 0, b"")
    session = client.login.session
    assert session is not None
    assert (session.principal, session.mechanism) == (KafkaPrincipal("alice"), "PLAIN")
    assert session.ends_at is None
    assert session.supports_reauthentication is (version > 0)
    assert client.state is SaslState.COMPLETE
    assert not client.login.is_open


def test_raw_tokens_after_the_first_version_of_the_handshake() -> None:
    client = Dialogue(max_reauth_ms=3000)
    client.handshake(version=0)
    step = client.send(plain_token("alice", "pencil"))
    assert (step.fate, step.answer) == (Fate.COMPLETE, [b""])
    session = client.login.session
    assert session is not None
    assert session.ends_at == 53.0  # although the client cannot know
    assert not session.supports_reauthentication


def test_a_raw_token_that_is_wrong_has_no_answer() -> None:
    client = Dialogue()
    client.handshake(version=0)
    step = client.send(plain_token("alice", "wrong"))
    assert (step.fate, step.answer) == (Fate.FAIL, None)
    assert step.failure == Failure(
        "Authentication failed: Invalid username or password", mechanism="PLAIN", user="alice"
    )


def test_a_login_of_several_rounds() -> None:
    client = Dialogue()
    client.handshake("SCRIPTED")
    fate, response = client.authenticate(b"more")
    assert (fate, response.auth_bytes, response.session_lifetime_ms) == (Fate.CONTINUE, b"go on", 0)
    fate, response = client.authenticate(b"done carol")
    assert (fate, response.auth_bytes) == (Fate.COMPLETE, b"welcome")
    assert client.login.session is not None
    assert client.login.session.principal == KafkaPrincipal("carol")


@pytest.mark.parametrize("version", [0, 1, 2])
def test_what_the_client_may_know_is_sent(version: int) -> None:
    client = Dialogue()
    client.handshake("SCRIPTED")
    fate, response = client.authenticate(b"tell that it is late", version)
    assert (fate, response.error_code) == (Fate.FAIL, ErrorCode.SASL_AUTHENTICATION_FAILED)
    assert response.error_message == "that it is late"


def test_what_the_client_may_not_know_is_kept() -> None:
    client = Dialogue()
    client.handshake("SCRIPTED")
    client.authenticate(b"user dave")
    step = client.send(request(SaslAuthenticateRequest(auth_bytes=b"fail there is no dave"), 2))
    assert step.failure == Failure("there is no dave", "SCRIPTED", "dave")
    response = response_of(SaslAuthenticateRequest(), 2, step)
    assert response.error_message == GENERIC.format("SCRIPTED")


def test_scram_of_an_unknown_user() -> None:
    client = Dialogue()
    client.handshake("SCRAM-SHA-256")
    scram = ScramClient("SCRAM-SHA-256", "nobody", "x")
    _, first = client.authenticate(scram.first())
    fate, last = client.authenticate(scram.final(first.auth_bytes))
    assert (fate, last.error_message) == (Fate.FAIL, GENERIC.format("SCRAM-SHA-256"))


def test_rounds_are_bounded() -> None:
    client = Dialogue()
    client.handshake("SCRIPTED")
    for _ in range(MAX_ROUNDS):
        assert client.authenticate(b"more")[0] is Fate.CONTINUE
    fate, response = client.authenticate(b"more")
    assert (fate, response.error_message) == (Fate.FAIL, GENERIC.format("SCRIPTED"))


def test_another_api_among_tokens_is_rejected() -> None:
    client = Dialogue()
    client.handshake()
    step = client.send(request(MetadataRequest(topics=[]), 9))
    assert (step.fate, client.state) == (Fate.FAIL, SaslState.FAILED)
    assert step.answer == [
        b"\0\0\0\7",
        b"ILLEGAL_SASL_STATE: Unexpected Kafka request of type METADATA during SASL authentication.",
    ]


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"a token as it is",
        struct.pack(">hhih", 36, 3, 7, -1) + bytes(9),
        struct.pack(">hhih", 36, 1, 7, -1) + b"\0\0\1\0abc",
        struct.pack(">hhih", 3, 1, 7, -1) + bytes(100),
    ],
)
def test_what_is_no_request_among_tokens_ends_the_connection(frame: bytes) -> None:
    client = Dialogue()
    client.handshake()
    assert client.send(frame).fate is Fate.CLOSE


def test_nothing_is_taken_after_a_failure() -> None:
    client = Dialogue()
    client.handshake()
    client.authenticate(plain_token("alice", "wrong"))
    for token in (plain_token("alice", "pencil"), b"x"):
        assert client.authenticate(token) == (Fate.CLOSE, None)
    assert client.login.session is None


def test_a_bug_of_a_mechanism_is_no_failure_of_the_client() -> None:
    client = Dialogue()
    client.handshake("SCRIPTED")
    with pytest.raises(ZeroDivisionError):
        client.authenticate(b"bug")


# ---- mechanisms that wait for others


def test_a_mechanism_that_waits_is_run_by_the_caller() -> None:
    client = Dialogue()
    client.handshake("SLOW")
    step = client.send(request(SaslAuthenticateRequest(auth_bytes=b"done carol"), 2))
    assert (step.fate, step.answer) == (Fate.WORK, None)
    assert not client.login.is_open
    assert step.work is not None
    step.work()
    done = client.login.worked()
    assert done.fate is Fate.COMPLETE
    assert response_of(SaslAuthenticateRequest(), 2, done).auth_bytes == b"welcome"


def test_a_frame_that_comes_while_a_token_is_checked_ends_the_login() -> None:
    dialogue = Dialogue()
    dialogue.handshake("SLOW")
    first, _ = dialogue.authenticate(b"done carol")
    assert first is Fate.WORK
    step = dialogue.send(b"done carol")
    assert (step.fate, dialogue.state) == (Fate.CLOSE, SaslState.FAILED)
    ended = dialogue.login.worked()
    assert ended.fate is Fate.CLOSE
    assert dialogue.login.session is None


def test_a_mechanism_that_waits_may_fail() -> None:
    client = Dialogue()
    client.handshake("SLOW")
    step = client.send(request(SaslAuthenticateRequest(auth_bytes=b"tell no"), 2))
    assert step.work is not None
    step.work()
    assert client.login.worked().fate is Fate.FAIL
    other = Dialogue()
    other.handshake("SLOW")
    step = other.send(request(SaslAuthenticateRequest(auth_bytes=b"bug"), 2))
    assert step.work is not None
    step.work()
    with pytest.raises(ZeroDivisionError):
        other.login.worked()


def test_a_token_that_turns_out_to_take_long_is_evaluated_again_in_a_thread() -> None:
    client = Dialogue()
    client.handshake("SCRIPTED")
    assert client.send(request(SaslAuthenticateRequest(auth_bytes=b"more"), 2)).fate is Fate.CONTINUE
    step = client.send(request(SaslAuthenticateRequest(auth_bytes=b"late alice"), 2))
    assert (step.fate, step.answer, client.login.is_open) == (Fate.WORK, None, False)
    assert step.work is not None
    step.work()
    done = client.login.worked()
    assert done.fate is Fate.COMPLETE
    assert response_of(SaslAuthenticateRequest(), 2, done).auth_bytes == b"at last"


# ---- sessions and their renewal


@pytest.mark.parametrize(
    ("mechanism", "token", "max_reauth_ms", "lifetime_ms"),
    [
        ("PLAIN", b"\0alice\0pencil", 3000, 3000),
        ("BEARER", b"done alice", 0, 50_000),
        ("BEARER", b"done alice", 3000, 3000),
        ("BEARER", b"done alice", 60_000, 50_000),
    ],
)
def test_the_last_answer_says_how_long_the_session_lasts(
    mechanism: str, token: bytes, max_reauth_ms: int, lifetime_ms: int
) -> None:
    client = Dialogue(max_reauth_ms)
    client.handshake(mechanism)
    _, response = client.authenticate(token)
    assert response.session_lifetime_ms == lifetime_ms
    assert client.login.session is not None
    assert client.login.session.ends_at == 50.0 + lifetime_ms / 1000


def session_of(user: str = "alice", mechanism: str = "PLAIN") -> SaslSession:
    return SaslSession(mechanism, KafkaPrincipal(user), ends_at=60.0)


def test_a_session_is_renewed() -> None:
    client = Dialogue(3000, session_of())
    assert client.login.is_reauthentication
    assert client.state is SaslState.REAUTH_PROCESS_HANDSHAKE
    assert client.handshake()[0] is Fate.CONTINUE
    fate, response = client.authenticate(plain_token("alice", "pencil"))
    assert (fate, response.session_lifetime_ms) == (Fate.COMPLETE, 3000)
    assert client.login.session is not None
    assert client.login.session.ends_at == 53.0


def test_a_renewal_by_another_mechanism_fails_with_the_next_token() -> None:
    client = Dialogue(3000, session_of())
    fate, response = client.handshake("SCRIPTED")
    assert (fate, response.error_code) == (Fate.CONTINUE, 0)
    assert client.state is SaslState.REAUTH_BAD_MECHANISM
    step = client.send(b"anything")
    assert (step.fate, step.answer) == (Fate.FAIL, None)
    assert step.failure is not None
    assert step.failure.reason == (
        "SASL mechanism 'SCRIPTED' requested by client is not supported for re-authentication of mechanism 'PLAIN'"
    )


@pytest.mark.parametrize("handshake", [0, 1])
def test_a_renewal_by_another_user_fails(handshake: int) -> None:
    client = Dialogue(3000, session_of())
    client.handshake(version=handshake)
    token = plain_token("bob", "hush")
    step = client.send(request(SaslAuthenticateRequest(auth_bytes=token), 2) if handshake else token)
    assert step.fate is Fate.FAIL
    text = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert step.failure is not None
    assert step.failure.reason == text
    if handshake:
        assert response_of(SaslAuthenticateRequest(), 2, step).error_message == text
    else:
        assert step.answer is None


def test_a_renewal_that_fails_has_words_of_its_own() -> None:
    client = Dialogue(3000, session_of(mechanism="SCRIPTED"))
    client.handshake("SCRIPTED")
    _, response = client.authenticate(b"fail")
    assert response.error_message == AGAIN.format("SCRIPTED")


@pytest.mark.parametrize(
    "frame",
    [
        request(SaslHandshakeRequest(mechanism="GSSAPI"), 1),
        request(ApiVersionsRequest(), 0),
        struct.pack(">hhih", 17, 1, 7, -1),
    ],
)
def test_a_renewal_that_fails_in_its_handshake_ends_the_connection_at_once(frame: bytes) -> None:
    step = Dialogue(3000, session_of()).send(frame)
    assert (step.fate, step.answer) == (Fate.CLOSE, None)


# ---- any bytes


@given(st.lists(st.binary(max_size=60), max_size=6), st.sampled_from(["", "PLAIN", "SCRAM-SHA-256"]))
def test_any_frames_end_somewhere_and_log_nobody_in(frames: list[bytes], mechanism: str) -> None:
    client = Dialogue()
    if mechanism:
        client.handshake(mechanism)
    for frame in frames:
        step = client.send(frame)
        assert step.fate in (Fate.CONTINUE, Fate.FAIL, Fate.CLOSE)
        assert (step.failure is None) is (step.fate is Fate.CONTINUE)
    assert client.login.session is None


# ---- what is no failed login


def test_a_login_that_cannot_be_completed_now_closes_the_connection() -> None:
    client = Dialogue()
    client.handshake("SCRIPTED")
    step = client.send(request(SaslAuthenticateRequest(auth_bytes=b"later Request is a replay"), 2))
    assert (step.fate, step.answer) == (Fate.CLOSE, None)
    assert step.failure == Failure("Request is a replay", "SCRIPTED", None)
    assert client.state is SaslState.FAILED


# ---- a class of the operator's own names clients


class Teams:
    """Everybody of a team, but for one whom it does not know."""

    def build(self, context: AuthenticationContext) -> tuple[str, str]:
        if context.authorization_id == "mallory":
            raise LookupError("no such member")
        return "Team", f"{context.sasl_mechanism} {context.authorization_id} {context.session_expires_ms}"


def named(mechanism: str, user: str) -> tuple[SaslAuthenticator, Step]:
    info, time = connection_info(), ManualClock()
    info.naming = Naming(Teams(), info)
    login = SaslAuthenticator(listener(), info, FakeDoors(), time.clock)
    login.receive(request(SaslHandshakeRequest(mechanism=mechanism), 1))
    return login, login.receive(request(SaslAuthenticateRequest(auth_bytes=f"done {user}".encode()), 2))


def test_a_class_of_the_operators_own_names_who_has_logged_in() -> None:
    login, step = named("BEARER", "alice")
    assert step.fate is Fate.COMPLETE
    assert login.session is not None
    assert login.session.principal == KafkaPrincipal("BEARER alice 100000", "Team")


def test_whom_it_does_not_name_fails_to_log_in() -> None:
    login, step = named("SCRIPTED", "mallory")
    assert step.fate is Fate.FAIL
    assert login.session is None
    assert step.failure is not None
    assert step.failure.reason == "principal.builder.class has failed with LookupError: no such member"
    message = SaslAuthenticateRequest(auth_bytes=b"")
    assert response_of(message, 2, step).error_message == GENERIC.format("SCRIPTED")


# ---- every state, every API, every version


def states() -> dict[str, Callable[[], Dialogue]]:
    """Logins up to each state in which a frame can come."""

    def session() -> SaslSession:
        return SaslSession("PLAIN", KafkaPrincipal("alice"), 100.0)

    def after(*steps: Callable[[Dialogue], object], of: SaslSession | None = None) -> Dialogue:
        dialogue = Dialogue(previous=of)
        for step in steps:
            step(dialogue)
        return dialogue

    def shake(dialogue: Dialogue) -> object:
        return dialogue.handshake()

    def shake_raw(dialogue: Dialogue) -> object:
        return dialogue.handshake(version=0)

    def other(dialogue: Dialogue) -> object:
        return dialogue.handshake("SCRAM-SHA-256")

    def fail(dialogue: Dialogue) -> object:
        return dialogue.authenticate(plain_token("alice", "wrong"))

    return {
        "first": Dialogue,
        "after versions": lambda: after(Dialogue.versions),
        "among tokens": lambda: after(shake),
        "among raw tokens": lambda: after(shake_raw),
        "after a failure": lambda: after(shake, fail),
        "renewal": lambda: after(of=session()),
        "among tokens of a renewal": lambda: after(shake, of=session()),
        "among raw tokens of a renewal": lambda: after(shake_raw, of=session()),
        "renewal by another mechanism": lambda: after(other, of=session()),
        "after a renewal that failed": lambda: after(shake, fail, of=session()),
    }


@pytest.mark.parametrize("name", states())
def test_no_request_but_those_of_a_login_goes_on(name: str) -> None:
    """In all known versions, and those around them: a request of another API ends the connection, at once or late."""
    begin = states()[name]
    login = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.API_VERSIONS}
    for key in ApiKey:
        if key in login:
            continue
        low, high = known_versions(key)
        for version in (*range(low - 1, high + 2), -1, 32767):
            dialogue = begin()
            step = dialogue.send(struct.pack(">hhih", key, version, 7, -1) + bytes(20))
            assert step.fate in (Fate.FAIL, Fate.CLOSE), (key, version)
            assert dialogue.login.session is None
            assert dialogue.state is SaslState.FAILED
            again = dialogue.send(request(SaslHandshakeRequest(mechanism="PLAIN"), 1))
            assert again.fate is Fate.CLOSE

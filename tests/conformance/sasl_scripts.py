"""Scripts of bytes for a listener with SASL: what a client sends, and what it notes of the answers.

A transcript has a line for each answer, with what differs between brokers left out, and one for the end of the
connection: "closed at once", or "closed late" after connection.failed.authentication.delay.ms, which is `DELAY_S` on
both sides.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from itertools import product
from typing import Any, Final

from barnabas.protocol.api_keys import ApiKey, response_header_version, response_type
from barnabas.protocol.codec import decode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.protocol.schema import Message
from tests.support.sasl import ScramClient, framed, plain_token, request

DELAY_S: Final = 1.0
QUIET_S: Final = 3.0
"""Nothing more comes if nothing has come for so long."""
LATE_S: Final = 0.6 * DELAY_S
LIMIT_S: Final = 20.0

SASL, RENEWING, PLAINTEXT = "SASL", "RENEWING", "PLAINTEXT"
"""The listeners: of the first sessions have no end, of the second they end after SESSION_MS."""
SESSION_MS: Final = 2500

PASSWORD: Final = "pencil"
USERS: Final = ("alice", "bob")
WRONG: Final = "wrong"


class ScriptClient:
    """One connection, which notes what it receives."""

    def __init__(self, ports: dict[str, int], listener: str = SASL) -> None:
        self.transcript: list[object] = []
        self._socket = socket.create_connection(("127.0.0.1", ports[listener]), timeout=LIMIT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sent_at = 0.0
        self.closed = False

    def send(self, *payloads: bytes) -> None:
        """Sends frames in one write."""
        self.send_bytes(b"".join(map(framed, payloads)))

    def send_bytes(self, data: bytes) -> None:
        self._sent_at = time.monotonic()
        if not self.closed:
            try:
                self._socket.sendall(data)
            except ConnectionError:
                self._note_end()

    def receive(self, limit_s: float = QUIET_S) -> bytes | None:
        """The next frame; None, noted, for the end or for silence."""
        if self.closed:
            return None
        self._socket.settimeout(limit_s)
        try:
            data = self._read(4)
            return self._read(struct.unpack(">i", data)[0])
        except TimeoutError:
            self.transcript.append("silence")
        except (ConnectionError, EOFError):
            self._note_end()
        return None

    def ask(self, message: Message, version: int) -> Any:
        """Sends a request, and notes the response to it; returns it, or None."""
        self.send(request(message, version))
        return self.note(message, version)

    def note(self, message: Message, version: int) -> Any:
        """Notes the response to this request; returns it, or None."""
        frame = self.receive()
        if frame is None:
            return None
        assert message.api_key is not None
        head = 4 + response_header_version(message.api_key, version)
        response = decode(response_type(message.api_key), version, frame[head:])
        self.transcript.append(shown(response))
        return response

    def note_raw(self, shown_as: Callable[[bytes], object] = bytes) -> bytes | None:
        """Notes a frame as it is, or as `shown_as` shows it."""
        frame = self.receive()
        if frame is not None:
            self.transcript.append(shown_as(frame))
        return frame

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def _note_end(self) -> None:
        self.closed = True
        took = time.monotonic() - self._sent_at
        self.transcript.append("closed late" if took >= LATE_S else "closed at once")

    # ---- steps

    def versions(self, version: int = 3, **fields: Any) -> Any:
        names = {"client_software_name": "script", "client_software_version": "1.0"} if version >= 3 else {}
        return self.ask(ApiVersionsRequest(**{**names, **fields}), version)

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> Any:
        return self.ask(SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, token: bytes, version: int = 2) -> Any:
        return self.ask(SaslAuthenticateRequest(auth_bytes=token), version)

    def log_in(self, user: str = "alice", password: str = PASSWORD, version: int = 2) -> Any:
        self.handshake()
        return self.authenticate(plain_token(user, password), version)

    def metadata(self) -> None:
        """Notes whether a request is answered."""
        self.send(request(MetadataRequest(topics=[]), 9))
        if self.receive() is not None:
            self.transcript.append("metadata")


def shown(response: Any) -> object:
    """What of a response must be the same from both brokers."""
    name = type(response).__name__
    if name == "ApiVersionsResponse":
        return name, response.error_code, len(response.api_keys) if response.error_code else "all"
    if name == "SaslHandshakeResponse":
        return name, response.error_code, sorted(response.mechanisms)
    if name == "SaslAuthenticateResponse":
        token = "a token" if response.auth_bytes else "none"
        return name, response.error_code, response.error_message, token, response.session_lifetime_ms
    return name, getattr(response, "error_code", None)


Script = Callable[[dict[str, int]], list[object]]
SCRIPTS: dict[str, Script] = {}


def script(*cases: tuple[Any, ...], listener: str = SASL) -> Callable[[Callable[..., None]], Any]:
    """Registers a function as a script, once for each case of arguments."""

    def register(play: Callable[..., None]) -> Callable[..., None]:
        for case in cases or ((),):
            name = "-".join([play.__name__.replace("_", "-"), *map(_word, case)])
            assert name not in SCRIPTS

            def run(ports: dict[str, int], case: tuple[Any, ...] = case) -> list[object]:
                client = ScriptClient(ports, listener)
                try:
                    play(client, *case)
                    return client.transcript
                finally:
                    client.close()

            SCRIPTS[name] = run
        return play

    return register


def _word(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()[-40:] or "empty"
    return type(value).__name__ if isinstance(value, Message) else str(value)[:40]


def versions_of(*versions: int) -> list[tuple[int]]:
    return [(version,) for version in versions]


# ---- before the mechanism is known


@script(*versions_of(0, 1, 2, 3, 4))
def api_versions_first(client: ScriptClient, version: int) -> None:
    client.versions(version)
    client.log_in()
    client.metadata()


@script()
def unknown_versions_of_api_versions_leave_the_state(client: ScriptClient) -> None:
    for _ in range(2):
        client.send(struct.pack(">hhihbb", ApiKey.API_VERSIONS, 99, 7, -1, 0, 0))
        client.note(ApiVersionsRequest(), 0)
    client.versions()
    client.log_in()


@script(("", "1"), ("a b", "1"), ("a", ""), ("-a", "1"))
def invalid_names_of_software_leave_the_state(client: ScriptClient, name: str, version: str) -> None:
    client.versions(client_software_name=name, client_software_version=version)
    client.versions()
    client.log_in()


@script()
def a_second_api_versions_request(client: ScriptClient) -> None:
    client.versions()
    client.versions()


@script(*((key,) for key in ApiKey if key not in (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE)))
def another_api_first(client: ScriptClient, key: ApiKey) -> None:
    client.send(struct.pack(">hhih", key, 0, 7, -1) + bytes(40))
    client.receive()


@script(
    (b"",),
    (b"\0",),
    (bytes(8),),
    (b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",),
    (b"\x60\x82\x02\x39" + bytes(60),),
    (struct.pack(">hhih", 999, 0, 7, -1),),
    (struct.pack(">hhih", -1, 0, 7, -1),),
    (struct.pack(">hhih", ApiKey.SASL_HANDSHAKE, 1, 7, 500) + b"abc",),
    (struct.pack(">hhihh", ApiKey.SASL_HANDSHAKE, 1, 7, -1, 50) + b"PLAIN",),
    (struct.pack(">hhih", ApiKey.SASL_HANDSHAKE, 1, 7, -1),),
)
def garbage_first(client: ScriptClient, payload: bytes) -> None:
    client.send(payload)
    client.receive()


@script(
    (struct.pack(">i", -1),),
    (struct.pack(">i", 524_289) + b"x",),
    (struct.pack(">i", 2**31 - 1),),
    (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",),
)
def sizes_beyond_the_limit(client: ScriptClient, data: bytes) -> None:
    client.send_bytes(data)
    client.receive()


@script(
    (struct.pack(">i", -1),),
    (struct.pack(">i", 524_289),),
)
def sizes_beyond_the_limit_among_tokens(client: ScriptClient, data: bytes) -> None:
    client.handshake()
    client.send_bytes(data)
    client.receive()


@script(*product(("GSSAPI", "plain", "x" * 300), (0, 1)))
def mechanisms_that_are_not_enabled(client: ScriptClient, mechanism: str, version: int) -> None:
    client.handshake(mechanism, version)
    client.receive()


@script(*versions_of(2, -1, 32767))
def unknown_versions_of_the_handshake(client: ScriptClient, version: int) -> None:
    client.send(struct.pack(">hhihh", ApiKey.SASL_HANDSHAKE, version, 7, -1, 5) + b"PLAIN")
    client.receive()


@script()
def all_at_once(client: ScriptClient) -> None:
    """Frames that come together are taken one after the other."""
    versions = ApiVersionsRequest(client_software_name="script", client_software_version="1")
    handshake = SaslHandshakeRequest(mechanism="PLAIN")
    token = SaslAuthenticateRequest(auth_bytes=plain_token("alice", PASSWORD))
    metadata = MetadataRequest(topics=[])
    client.send(request(versions, 3), request(handshake, 1), request(token, 2), request(metadata, 9))
    client.note(versions, 3)
    client.note(handshake, 1)
    client.note(token, 2)
    client.note_raw(lambda frame: "metadata")


@script()
def all_at_once_with_a_wrong_password(client: ScriptClient) -> None:
    handshake = SaslHandshakeRequest(mechanism="PLAIN")
    token = SaslAuthenticateRequest(auth_bytes=plain_token("alice", WRONG))
    client.send(request(handshake, 1), request(token, 2), request(MetadataRequest(topics=[]), 9))
    client.note(handshake, 1)
    client.note(token, 2)
    client.receive()


# ---- tokens


@script(*product(USERS, (0, 1, 2)))
def plain(client: ScriptClient, user: str, version: int) -> None:
    client.handshake()
    client.authenticate(plain_token(user, PASSWORD), version)
    client.metadata()


@script(*product(("alice", "nobody"), (0, 1, 2)))
def plain_with_a_wrong_password(client: ScriptClient, user: str, version: int) -> None:
    client.handshake()
    client.authenticate(plain_token(user, WRONG), version)
    client.receive()


@script(
    (b"",),
    (b"alice",),
    (b"\0alice",),
    (b"\0alice\0pencil\0",),
    (b"\0alice\0pencil\0\0\0",),
    (b"\0\0pencil",),
    (b"\0alice\0",),
    (b"alice\0alice\0pencil",),
    (b"bob\0alice\0pencil",),
    (b"bob\0alice\0wrong",),
    (b"\0\xff\xfe\0pencil",),
)
def plain_tokens(client: ScriptClient, token: bytes) -> None:
    client.handshake()
    client.authenticate(token)
    client.receive()


@script((b"\0alice\0pencil",), (b"\0alice\0wrong",), (b"alice",))
def raw_plain_tokens(client: ScriptClient, token: bytes) -> None:
    client.handshake(version=0)
    client.send(token)
    if client.note_raw() is not None:
        client.metadata()


@script(*product(("SCRAM-SHA-256", "SCRAM-SHA-512"), (0, 1, 2)))
def scram(client: ScriptClient, mechanism: str, version: int) -> None:
    client.handshake(mechanism)
    scram_client = ScramClient(mechanism, "alice", PASSWORD)
    first = client.authenticate(scram_client.first(), version)
    last = client.authenticate(scram_client.final(first.auth_bytes), version)
    client.transcript.append(scram_client.trusts(last.auth_bytes))
    client.metadata()


@script()
def raw_scram(client: ScriptClient) -> None:
    client.handshake("SCRAM-SHA-256", version=0)
    scram_client = ScramClient("SCRAM-SHA-256", "alice", PASSWORD)
    client.send(scram_client.first())
    first = client.note_raw(lambda frame: "a token")
    assert first is not None
    client.send(scram_client.final(first))
    client.note_raw(scram_client.trusts)
    client.metadata()


@script(("SCRAM-SHA-256",), ("SCRAM-SHA-512",))
def scram_with_a_wrong_password(client: ScriptClient, mechanism: str) -> None:
    client.handshake(mechanism)
    scram_client = ScramClient(mechanism, "alice", WRONG)
    first = client.authenticate(scram_client.first())
    client.authenticate(scram_client.final(first.auth_bytes))
    client.receive()


@script()
def scram_of_an_unknown_user(client: ScriptClient) -> None:
    client.handshake("SCRAM-SHA-256")
    scram_client = ScramClient("SCRAM-SHA-256", "nobody", PASSWORD)
    first = client.authenticate(scram_client.first())
    if first.auth_bytes:
        client.authenticate(scram_client.final(first.auth_bytes))
    client.receive()


@script()
def raw_scram_with_a_wrong_password(client: ScriptClient) -> None:
    client.handshake("SCRAM-SHA-256", version=0)
    scram_client = ScramClient("SCRAM-SHA-256", "alice", WRONG)
    client.send(scram_client.first())
    first = client.note_raw(lambda frame: "a token")
    assert first is not None
    client.send(scram_client.final(first))
    client.receive()


@script(
    (b"",),
    (b"garbage",),
    (b"y,,n=alice,r=abc",),
    (b"p=tls-unique,,n=alice,r=abc",),
    (b"n,,n=alice",),
    (b"n,,r=abc",),
    (b"n,,n=,r=abc",),
    (b"n,,n=a=b,r=abc",),
    (b"n,a=bob,n=alice,r=abc",),
    (b"n,,n=alice,r=abc,e",),
)
def scram_first_messages(client: ScriptClient, token: bytes) -> None:
    client.handshake("SCRAM-SHA-256")
    client.authenticate(token)
    client.receive()


@script(("c=biws,r=abc,p=AAAA",), ("c=biws,r={nonce},p=AAAA",), ("c=biws,r={nonce}",), ("",))
def scram_final_messages(client: ScriptClient, form: str) -> None:
    client.handshake("SCRAM-SHA-256")
    first = client.authenticate(b"n,,n=alice,r=abc")
    nonce = first.auth_bytes.decode().partition(",")[0].removeprefix("r=")
    client.authenticate(form.format(nonce=nonce).encode())
    client.receive()


@script()
def scram_with_extensions(client: ScriptClient) -> None:
    client.handshake("SCRAM-SHA-256")
    scram_client = ScramClient("SCRAM-SHA-256", "alice", PASSWORD, extensions=",tokenauth=false")
    first = client.authenticate(scram_client.first())
    client.authenticate(scram_client.final(first.auth_bytes))


@script()
def scram_with_an_unknown_token(client: ScriptClient) -> None:
    client.handshake("SCRAM-SHA-256")
    client.authenticate(b"n,,n=alice,r=abc,tokenauth=true")
    client.receive()


@script(
    (ApiVersionsRequest(client_software_name="s", client_software_version="1"), 3),
    (SaslHandshakeRequest(mechanism="PLAIN"), 1),
)
def another_api_among_tokens(client: ScriptClient, message: Message, version: int) -> None:
    client.handshake()
    client.ask(message, version)
    client.receive()


@script(
    (b"",), (b"abc",), (bytes(8),), (struct.pack(">hhih", ApiKey.SASL_AUTHENTICATE, 3, 7, -1) + bytes(9),)
)
def garbage_among_tokens(client: ScriptClient, payload: bytes) -> None:
    client.handshake()
    client.send(payload)
    client.receive()


# ---- after the login


@script(*versions_of(0, 1, 2))
def a_token_after_the_login(client: ScriptClient, version: int) -> None:
    client.log_in()
    client.authenticate(plain_token("alice", PASSWORD), version)
    client.metadata()


@script(*versions_of(0, 1))
def a_handshake_after_the_login(client: ScriptClient, version: int) -> None:
    client.log_in()
    client.handshake(version=version)
    client.metadata()


@script(*versions_of(0, 1), listener=PLAINTEXT)
def a_handshake_without_sasl(client: ScriptClient, version: int) -> None:
    client.handshake(version=version)
    client.metadata()


@script(*versions_of(0, 1, 2), listener=PLAINTEXT)
def a_token_without_sasl(client: ScriptClient, version: int) -> None:
    client.authenticate(b"", version)
    client.metadata()


# ---- re-authentication


@script(*versions_of(0, 1, 2), listener=RENEWING)
def a_session_that_ends(client: ScriptClient, version: int) -> None:
    client.log_in(version=version)
    client.metadata()
    time.sleep(SESSION_MS / 1000 + 0.3)
    client.metadata()


@script(listener=RENEWING)
def renewals(client: ScriptClient) -> None:
    """The second comes too early, the third does not."""
    client.log_in()
    client.log_in()
    client.metadata()
    client.handshake()
    client.metadata()
    time.sleep(1.2)
    client.log_in()
    client.metadata()


@script(listener=RENEWING)
def a_renewal_after_the_end(client: ScriptClient) -> None:
    client.log_in()
    time.sleep(SESSION_MS / 1000 + 0.3)
    client.log_in()
    client.metadata()


@script(("alice", WRONG), ("bob", PASSWORD), ("nobody", WRONG), listener=RENEWING)
def renewals_that_fail(client: ScriptClient, user: str, password: str) -> None:
    client.log_in()
    client.log_in(user, password)
    client.receive()


@script(("SCRAM-SHA-256",), ("GSSAPI",), listener=RENEWING)
def renewals_by_another_mechanism(client: ScriptClient, mechanism: str) -> None:
    client.log_in()
    client.handshake(mechanism)
    if not client.closed:
        client.authenticate(b"n,,n=alice,r=abc")
        client.receive()


@script(listener=RENEWING)
def another_request_within_a_renewal(client: ScriptClient) -> None:
    client.log_in()
    client.handshake()
    client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    client.receive()


@script((b"\0alice\0pencil",), (b"\0alice\0wrong",), listener=RENEWING)
def renewals_with_raw_tokens(client: ScriptClient, token: bytes) -> None:
    client.log_in()
    client.handshake(version=0)
    client.send(token)
    if client.note_raw() is not None:
        client.metadata()

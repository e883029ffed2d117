"""Secured connections of a NodeClient, to servers of asyncio over real sockets and to a scripted wire."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeUnavailable
from barnabas.broker.node_client.client import NodeClient, NodeClientSettings
from barnabas.broker.node_client.login import Login
from barnabas.broker.node_client.secure import ClientContexts, SecureWire, secure_opener
from barnabas.protocol.api_keys import ApiKey, request_header_version, request_type, response_header_version
from barnabas.protocol.codec import decode, decoder, encode
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.security import SaslAuthenticateResponse, SaslHandshakeResponse
from barnabas.protocol.schema import Message
from barnabas.security.client_settings import ClientSecurity, security_of
from barnabas.security.sasl_client import PlainClient, parse_login
from barnabas.security.settings import TlsSettings
from tests.broker.network.socket_harness import until
from tests.support.certificates import Authority, Identity

CA = Authority()
BROKER = CA.issue("broker", ["localhost"])
SETTINGS = NodeClientSettings("me", setup_timeout_ms=5_000, reconnect_backoff_ms=10_000)
CLUSTER_ID = "c" * 30_000
JAAS = 'PlainLoginModule required username="u" password="{}";'


def answer(key: ApiKey, version: int, frame: bytes) -> Message:
    """What a broker says to a request."""
    if key is ApiKey.API_VERSIONS:
        served = ApiVersionsResponse.ApiVersion(api_key=ApiKey.METADATA, min_version=9, max_version=12)
        return ApiVersionsResponse(api_keys=[served])
    if key is ApiKey.SASL_HANDSHAKE:
        return SaslHandshakeResponse(mechanisms=["PLAIN"])
    if key is ApiKey.SASL_AUTHENTICATE:
        request: Any = decode(request_type(key), version, frame)
        if request.auth_bytes == b"\0u\0right":
            return SaslAuthenticateResponse()
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="Invalid username or password"
        )
    return MetadataResponse(cluster_id=CLUSTER_ID)


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            key, version = ApiKey(int.from_bytes(frame[:2])), int.from_bytes(frame[2:4])
            header, position = decoder(RequestHeader, request_header_version(key, version))(
                frame, 0, len(frame)
            )
            response_header = ResponseHeader(correlation_id=header.correlation_id)
            payload = encode(response_header, response_header_version(key, version))
            payload += encode(answer(key, version, frame[position:]), version)
            writer.write(len(payload).to_bytes(4, "big") + payload)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def server_tls(identity: Identity = BROKER, *, client_auth: bool = False) -> ssl.SSLContext:
    from barnabas.security.contexts import server_context
    from barnabas.security.stores import load_stores

    given = TlsSettings(
        {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": identity.key_pem(),
            "ssl.keystore.certificate.chain": identity.chain_pem(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": CA.pem,
            "ssl.client.auth": "required" if client_auth else "none",
        }
    )
    return server_context(given, load_stores(given))


def security(
    protocol: str, ca: Authority = CA, password: str = "right", own: Identity | None = None
) -> ClientSecurity:
    texts = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": ca.pem}
    if own is not None:
        texts |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": own.key_pem(),
            "ssl.keystore.certificate.chain": own.chain_pem(),
        }
    return security_of(protocol, TlsSettings(texts), lambda: parse_login("PLAIN", JAAS.format(password)))


@asynccontextmanager
async def client_of(
    tls: ssl.SSLContext | None,
    ours: ClientSecurity,
    host: str = "localhost",
    serving: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]] = serve,
) -> AsyncIterator[NodeClient]:
    loop = asyncio.get_running_loop()
    connections: set[asyncio.Task[Any]] = set()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        await serving(reader, writer)
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    server = await asyncio.start_server(served, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    client = NodeClient(NodeAddress(host, port), SETTINGS, loop, secure_opener(loop, ours, "me"))
    try:
        yield client
    finally:
        client.close()
        server.close()
        if connections:
            await asyncio.wait(connections, timeout=20)


async def ask(client: NodeClient) -> Any:
    future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    client.send(MetadataRequest(topics=[])).add_done_callback(future.set_result)
    return await asyncio.wait_for(future, 20)


@pytest.mark.parametrize("protocol", ["SSL", "SASL_PLAINTEXT", "SASL_SSL"])
async def test_requests_over_each_protocol(protocol: str) -> None:
    tls = server_tls() if protocol.endswith("SSL") else None
    async with client_of(tls, security(protocol)) as client:
        for _ in range(2):
            response = await ask(client)
            assert response.cluster_id == CLUSTER_ID
        assert client.is_connected


async def test_mutual_tls() -> None:
    async with client_of(server_tls(client_auth=True), security("SSL", own=CA.issue("node"))) as client:
        assert (await ask(client)).cluster_id == CLUSTER_ID


@pytest.mark.parametrize(
    ("ours", "host", "said"),
    [
        (
            security("SSL", Authority("Other")),
            "localhost",
            "is signed by none that ssl.truststore.location trusts",
        ),
        (security("SSL"), "127.0.0.1", "the certificate is not for 127.0.0.1: IP address mismatch"),
        (security("SASL_SSL", password="wrong"), "localhost", "failed: Invalid username or password"),
    ],
)
async def test_why_a_connection_is_not_made(ours: ClientSecurity, host: str, said: str) -> None:
    async with client_of(server_tls(), ours, host) as client:
        result = await ask(client)
        assert isinstance(result, NodeUnavailable)
        assert said in result.reason


async def test_a_node_that_does_not_speak_tls() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\0\0\0\x10 and so on")
        await reader.read()
        writer.close()

    async with client_of(None, security("SSL"), serving=plain) as client:
        result = await ask(client)
        assert isinstance(result, NodeUnavailable)
        assert "failed: the peer does not speak TLS" in result.reason


async def test_a_node_that_is_not_there() -> None:
    loop = asyncio.get_running_loop()
    client = NodeClient(
        NodeAddress("127.0.0.1", 1), SETTINGS, loop, secure_opener(loop, security("SSL"), "me")
    )
    result = await ask(client)
    assert isinstance(result, NodeUnavailable)
    assert "no connection to 127.0.0.1:1" in result.reason
    client.close()


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_node_that_says_goodbye(is_open: bool) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if is_open:
            for _ in range(2):
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                key, version = ApiKey(int.from_bytes(frame[:2])), int.from_bytes(frame[2:4])
                if key is not ApiKey.API_VERSIONS:
                    break
                payload = bytes(3) + b"\1" + encode(answer(key, version, b""), version)
                writer.write(len(payload).to_bytes(4, "big") + payload)
        writer.close()

    async with client_of(server_tls(), security("SSL"), serving=leave) as client:
        result = await ask(client)
        assert isinstance(result, NodeUnavailable)
        assert "closed the connection" in result.reason


async def test_a_silent_node_is_given_up_in_time() -> None:
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()
        left.set()

    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    address = NodeAddress("localhost", server.sockets[0].getsockname()[1])
    client = NodeClient(
        address,
        SETTINGS._replace(setup_timeout_ms=50, setup_timeout_max_ms=50),
        loop,
        secure_opener(loop, security("SSL"), "me"),
    )
    result = await ask(client)
    assert isinstance(result, NodeUnavailable)
    assert "within" in result.reason
    await asyncio.wait_for(left.wait(), 20)  # the socket is closed, too
    client.close()
    server.close()


def test_a_context_is_made_again_when_a_file_changes(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(CA.pem)
    given = TlsSettings({"ssl.truststore.type": "PEM", "ssl.truststore.location": str(path)})
    contexts = ClientContexts(ClientSecurity("SSL", given))
    first = contexts.current()
    assert first is not None
    assert contexts.current() is first
    path.write_text(CA.pem + Authority("Second").pem)
    second = contexts.current()
    assert second is not None
    assert second is not first
    assert len(second.get_ca_certs()) == 2
    path.write_text("damaged")
    assert contexts.current() is second
    path.unlink()
    assert contexts.current() is second
    assert ClientContexts(security("SASL_PLAINTEXT")).current() is None


# ---- the wire by itself


class FakeSocket:
    """An asyncio transport."""

    def __init__(self) -> None:
        self.written = b""
        self.ends: list[str] = []

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.ends.append("closed")

    def abort(self) -> None:
        self.ends.append("aborted")

    def get_extra_info(self, name: str, default: object = None) -> object:
        return name


class Inner(asyncio.BufferedProtocol):
    """The protocol behind the wire, with a small buffer."""

    def __init__(self) -> None:
        self.wire: Any = None
        self.received = b""
        self.lost: list[Exception | None] = []
        self._buffer = bytearray(3)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.wire = transport

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self._buffer[:nbytes]

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)


class Wired:
    def __init__(self, *, login: bool = True, client: PlainClient | None = None) -> None:
        self.inner = Inner()
        self.socket = FakeSocket()
        self.failures: list[str] = []
        self.wire = SecureWire(
            self.inner,
            self.failures.append,
            address=NodeAddress("h", 1),
            tls=None,
            login=Login(client or PlainClient("u", "right"), "me") if login else None,
        )

    def made(self) -> Wired:
        self.wire.connection_made(cast("asyncio.BaseTransport", self.socket))
        return self

    def receive(self, data: bytes) -> None:
        buffer = self.wire.get_buffer(-1)
        buffer[: len(data)] = data
        self.wire.buffer_updated(len(data))


class SlowClient(PlainClient):
    """Makes its messages in a thread."""

    blocks = True

    def initial(self) -> bytes:
        assert threading.current_thread() is not threading.main_thread()
        return super().initial()


class SlowLogin:
    mechanism, user = "PLAIN", "u"

    def __init__(self, password: str) -> None:
        self._password = password

    def client(self, host: str) -> SlowClient:
        assert host == "localhost"
        return SlowClient("u", self._password)


async def test_a_login_that_asks_others_runs_in_a_thread() -> None:
    ours = ClientSecurity("SASL_PLAINTEXT", None, SlowLogin("right"))
    async with client_of(None, ours) as client:
        answer = await ask(client)
        assert answer.cluster_id == CLUSTER_ID


async def test_such_a_login_may_fail() -> None:
    ours = ClientSecurity("SASL_PLAINTEXT", None, SlowLogin("wrong"))
    async with client_of(None, ours) as client:
        answer = await ask(client)
        assert isinstance(answer, NodeUnavailable)
        assert "Invalid username or password" in answer.reason


def handshake_answer() -> bytes:
    body = encode(SaslHandshakeResponse(mechanisms=["PLAIN"]), 1)
    payload = (
        encode(ResponseHeader(correlation_id=1), response_header_version(ApiKey.SASL_HANDSHAKE, 1)) + body
    )
    return len(payload).to_bytes(4, "big") + payload


async def test_a_node_that_does_not_wait_for_the_answer() -> None:
    wired = Wired(client=SlowClient("u", "right")).made()
    wired.receive(handshake_answer())
    wired.receive(handshake_answer())
    assert wired.failures == [
        "h:1 does not speak Kafka's protocol as expected: it goes on before it is answered"
    ]
    await until(lambda: not wired.wire._is_working)
    assert wired.socket.ends == ["closed"]


def test_bytes_are_passed_on_as_the_protocol_has_room() -> None:
    wired = Wired(login=False).made()
    wired.receive(b"12345678")
    assert wired.inner.received == b"12345678"
    wired.inner.wire.write(b"x")
    assert wired.socket.written == b"x"
    assert wired.inner.wire.get_extra_info("socket") == "socket"
    wired.wire.connection_lost(None)
    wired.wire.connection_lost(None)
    assert wired.inner.lost == [None]
    wired.inner.wire.write(b"y")
    assert wired.socket.written == b"x"
    assert wired.wire.eof_received() is False


def test_garbage_in_a_login_ends_it() -> None:
    wired = Wired().made()
    wired.receive(b"HTTP/1.1 400")
    assert "h:1 does not speak Kafka's protocol as expected" in wired.failures[0]
    assert wired.socket.ends == ["closed"]
    wired.wire.give_up()
    assert wired.socket.ends == ["closed"]
    wired.wire._fail("again")
    assert len(wired.failures) == 1


def test_a_node_may_leave_during_a_login() -> None:
    wired = Wired().made()
    wired.wire.connection_lost(OSError("reset"))
    assert wired.failures == ["h:1 closed the connection during the login: reset"]


def test_a_connection_that_was_given_up_before_it_was_made() -> None:
    wired = Wired()
    assert wired.wire.get_extra_info("socket") is None
    wired.wire.give_up()
    wired.made()
    assert wired.socket.ends == ["aborted"]


def test_an_error_of_an_open_connection_reaches_its_protocol() -> None:
    wired = Wired(login=False).made()
    wired.wire._fail("broken")
    assert [str(error) for error in wired.inner.lost] == ["broken"]
    assert wired.failures == []

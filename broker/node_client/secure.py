"""Connections to other nodes by SSL, SASL_PLAINTEXT and SASL_SSL: `secure_opener` opens them, in place of `opener`.

A SecureWire stands between the socket and the protocol of a NodeClient, which learns of the connection when TLS and the
login are complete, and gets plain bytes:

    stage   | becomes  | when
    --------+----------+----------------------------------------------------------------------------
    TLS     | login    | the handshake is complete and the node's certificate, with its name, accepted
    login   | open     | the node accepts the login
    any     | closed   | the node closes, rejects, or breaks a protocol; `failed` says why

TLS runs over memory, not over the socket, so that asyncio's own TLS is not needed. A handshake takes the loop less than
a millisecond, and connections between nodes are few and stay. Source: org.apache.kafka.common.network.ChannelBuilders.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.login import Login
from barnabas.broker.node_client.opening import Open, Opening, opener
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import Frame, Framer
from barnabas.security.client_settings import ClientSecurity
from barnabas.security.errors import SaslClientError, SettingError
from barnabas.security.stores import store_files
from barnabas.security.tls_errors import explain

logger = logging.getLogger("barnabas.node_client")

_READ_BYTES: Final = 64 * 1024
MAX_LOGIN_BYTES: Final = 512 * 1024
"""Above any response in a login."""


class Tls:
    """TLS over memory, of one connection as its client."""

    def __init__(self, context: ssl.SSLContext, host: str) -> None:
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._object = context.wrap_bio(self._in, self._out, server_hostname=host)

    def put(self, data: bytes | memoryview) -> None:
        """Bytes have come from the peer."""
        self._in.write(data)

    def take(self) -> bytes:
        """The bytes to be sent to the peer."""
        return self._out.read()

    def shake_hands(self) -> bool:
        """Whether the handshake is complete. Raises SSLError."""
        try:
            self._object.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def read_into(self, buffer: memoryview) -> int | None:
        """Decrypts; None where more bytes are needed, 0 at the end. Raises SSLError."""
        try:
            return self._object.read(len(buffer), buffer)  # type: ignore[return-value]  # a count, with a buffer
        except ssl.SSLWantReadError:
            return None

    def write(self, data: bytes) -> None:
        """Encrypts all of it. Raises SSLError."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._object.write(rest) :]


class SecureWire(asyncio.BufferedProtocol):
    """The protocol of the socket, and the Wire of the protocol behind it."""

    def __init__(
        self,
        protocol: asyncio.BufferedProtocol,
        failed: Callable[[str], object],
        *,
        address: NodeAddress,
        tls: Tls | None,
        login: Login | None,
    ) -> None:
        self._protocol = protocol
        self._failed = failed
        self._address = address
        self._tls = tls
        self._login = login
        self._framer = Framer(MAX_LOGIN_BYTES)
        self._wire: asyncio.Transport | None = None
        self._buffer = memoryview(bytearray(_READ_BYTES))
        self._plain = memoryview(bytearray(_READ_BYTES))  # of the login
        self._shaking = tls is not None
        self._is_open = False
        self._is_over = False
        self._is_working = False

    # ---- what the socket calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast("asyncio.Transport", transport)
        if self._is_over:
            self._wire.abort()
        elif self._shaking:
            self._guarded(self._advance)
        else:
            self._guarded(self._begin_login)

    def get_buffer(self, sizehint: int) -> Any:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data = self._buffer[:nbytes]
        if self._tls is None:
            self._guarded(lambda: self._pass_on(data))
        else:
            self._tls.put(data)
            self._guarded(self._advance)

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_over:
            return
        self._is_over = True
        if self._is_open:
            self._protocol.connection_lost(exc)
        else:
            what = "TLS handshake" if self._shaking else "login"
            self._failed(
                f"{self._address} closed the connection during the {what}" + (f": {exc}" if exc else "")
            )

    # ---- what the protocol behind it calls

    def write(self, data: bytes) -> None:
        """Sends bytes."""
        if self._is_over:
            return
        assert self._wire is not None
        if self._tls is not None:
            self._tls.write(data)
            data = self._tls.take()
        self._wire.write(data)

    def abort(self) -> None:
        """Closes the socket at once."""
        self._is_over = True
        if self._wire is not None:
            self._wire.abort()

    def give_up(self) -> None:
        """Closes the socket at once, unless that has begun: an alert may be on its way."""
        if not self._is_over:
            self.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """About the socket."""
        return None if self._wire is None else self._wire.get_extra_info(name, default)

    # ---- stages

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except ssl.SSLError as error:
            assert self._tls is not None
            self._flush(self._tls)  # the alert
            self._fail(f"TLS with {self._address} failed: {explain(error, self._address.host)}")
        except SaslClientError as error:
            self._fail(f"the login at {self._address} failed: {error}")
        except ProtocolError as error:
            self._fail(f"{self._address} does not speak Kafka's protocol as expected: {error}")

    def _fail(self, reason: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        assert self._wire is not None
        self._wire.close()  # and not abort: an alert may be on its way
        if self._is_open:
            logger.info("%s", reason)
            self._protocol.connection_lost(ConnectionAbortedError(reason))
        else:
            self._failed(reason)

    def _advance(self) -> None:
        """Does what the bytes allow that have come."""
        tls = self._tls
        assert tls is not None
        if self._shaking:
            self._shaking = not tls.shake_hands()
            self._flush(tls)
            if self._shaking:
                return
            self._begin_login()
        while not self._is_over:
            target = self._target()
            count = tls.read_into(target)
            if count is None:
                break
            if not count:
                assert self._wire is not None
                self._wire.close()
                self.connection_lost(None)
                return
            self._received(target[:count], count)
        self._flush(tls)

    def _flush(self, tls: Tls) -> None:
        data = tls.take()
        if data and not self._is_over:
            assert self._wire is not None
            self._wire.write(data)

    def _target(self) -> memoryview:
        return memoryview(self._protocol.get_buffer(-1)) if self._is_open else self._plain

    def _received(self, data: memoryview, count: int) -> None:
        """Plain bytes have come, into the buffer of the protocol where it is open."""
        if self._is_open:
            self._protocol.buffer_updated(count)
            return
        frames: list[Frame] = []
        self._framer.feed(data, frames)
        for frame in frames:
            assert self._login is not None
            if self._is_working:
                raise ProtocolError("it goes on before it is answered")
            if self._login.blocks:
                self._work(self._login, bytes(frame))
            else:
                self._answered(self._login.receive(frame))

    def _answered(self, answer: bytes | None) -> None:
        if answer is None:
            self._open()
        else:
            self.write(answer)

    def _work(self, login: Login, frame: bytes) -> None:
        """Has a message of the login made in a thread, for it may have to ask others."""
        self._is_working = True
        future = asyncio.get_running_loop().run_in_executor(None, login.receive, frame)
        future.add_done_callback(self._worked)

    def _worked(self, future: asyncio.Future[bytes | None]) -> None:
        self._is_working = False
        if self._is_over:
            future.exception()  # or asyncio complains
            return
        self._guarded(lambda: self._answered(future.result()))

    def _pass_on(self, data: memoryview) -> None:
        """Plain bytes have come into a buffer of ours."""
        while data and not self._is_over:
            if not self._is_open:
                self._received(data, len(data))
                return
            target = self._target()
            count = min(len(target), len(data))
            target[:count] = data[:count]
            self._protocol.buffer_updated(count)
            data = data[count:]

    def _begin_login(self) -> None:
        if self._login is None:
            self._open()
        else:
            self.write(self._login.begin())

    def _open(self) -> None:
        self._is_open = True
        self._protocol.connection_made(cast("asyncio.BaseTransport", self))


class ClientContexts:
    """The context of a node's connections to others, made again when a file of its stores has changed."""

    def __init__(self, security: ClientSecurity) -> None:
        """Raises SettingError."""
        self._security = security
        self._times = self._modified()
        self._context = security.context()

    def current(self) -> ssl.SSLContext | None:
        """The context; the old one where files that have changed cannot be used."""
        times = self._modified()
        if times != self._times:
            self._times = times
            try:
                self._context = self._security.context()
            except SettingError as error:
                logger.error("connections to other nodes keep the certificates that they have: %s", error)
        return self._context

    def _modified(self) -> list[int]:
        tls = self._security.tls
        return [] if tls is None else [_modified_ns(path) for path in store_files(tls)]


def _modified_ns(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return -1


def secure_opener(loop: asyncio.AbstractEventLoop, security: ClientSecurity, client_id: str) -> Open:
    """Opens connections that are secured. Raises SettingError for stores that cannot be used."""
    contexts, open_plain = ClientContexts(security), opener(loop)

    def open_connection(
        address: NodeAddress,
        receive_buffer_bytes: int,
        protocol: asyncio.BufferedProtocol,
        failed: Callable[[str], object],
    ) -> Opening:
        context = contexts.current()
        wire = SecureWire(
            protocol,
            failed,
            address=address,
            tls=None if context is None else Tls(context, address.host),
            login=None if security.login is None else Login(security.login.client(address.host), client_id),
        )
        return _SecureOpening(open_plain(address, receive_buffer_bytes, wire, failed), wire)

    return open_connection


class _SecureOpening:
    """A connection that is opened, and then secured."""

    def __init__(self, plain: Opening, wire: SecureWire) -> None:
        self._plain = plain
        self._wire = wire

    def cancel(self) -> None:
        """Gives the connection up."""
        self._plain.cancel()
        self._wire.give_up()

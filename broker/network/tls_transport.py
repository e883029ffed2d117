"""TlsTransport: the stream of a connection over TLS, on a socket that the event loop watches directly.

    state       | becomes     | when
    ------------+-------------+--------------------------------------------------------------------------------
    accepted    | handshaking | its first byte is that of a TLS record; else it closes
    handshaking | open        | the handshake is complete, and the listener admits the client
    handshaking | closed      | the handshake fails, the client leaves, or the deadline passes
    open        | closed      | `close`: close_notify is sent, and nothing waited for

A step of the handshake takes a third of a millisecond to a whole one, so it runs in a thread of a small pool, and only
when bytes are there: a client that is silent costs an entry in the loop's selector and no thread. While a step runs the
loop does not touch the socket. Where the connection ends meanwhile, it is closed when the step is done.

What the socket has delivered and TLS holds decrypted makes no descriptor readable: `readable` is called again until it
is read. A send that would block has to be repeated with the same bytes: the transport keeps them.
Source: org.apache.kafka.common.network.SslTransportLayer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from typing import Final, NamedTuple, Protocol

from barnabas.broker.network.transport import MORE_COMES, StreamReader
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.broker.waiting.timer import DeadlineQueue
from barnabas.security.tls_errors import explain

logger = logging.getLogger("barnabas.network")

PIECE_BYTES: Final = 64 * 1024
"""What is encrypted by one call: four records."""
RECORD_BYTES: Final = 16 * 1024
"""Parts of a response that are smaller are joined with what comes next, before they are encrypted."""
_MOST_DISCARDED_READS: Final = 8
HANDSHAKE_RECORD: Final = b"\x16"
"""The first byte of every TLS connection."""


class Handshakes(NamedTuple):
    """What the handshakes of all listeners share."""

    runner: BlockingRunner
    """Runs their steps."""
    deadlines: DeadlineQueue
    timeout_ms: int


class Guard(Protocol):
    """The listener, as a transport asks and informs it."""

    def context(self) -> ssl.SSLContext:
        """The context of a connection that begins now."""

    def admit(self, tls: ssl.SSLSocket) -> None:
        """The handshake is complete. Raises ValueError where the client is not let in."""

    def rejected(self, reason: str) -> None:
        """The connection was not let in."""

    def ended(self) -> None:
        """A connection that was let in is closed."""


class TlsTransport:
    """A Transport; see there for what its methods are for."""

    __slots__ = (
        "_accepted",
        "_endpoint",
        "_error",
        "_fd",
        "_fresh",
        "_guard",
        "_handshakes",
        "_has_unread",
        "_held",
        "_is_busy",
        "_is_closed",
        "_is_open",
        "_loop",
        "_read_waits_for_room",
        "_reading",
        "_reads_soon",
        "_retried",
        "_tls",
        "_wants_room",
        "_watches_room",
        "is_completed",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, accepted: socket.socket, guard: Guard, handshakes: Handshakes
    ) -> None:
        self._loop = loop
        self._accepted = accepted
        self._fd = accepted.fileno()
        self._guard = guard
        self._handshakes = handshakes
        self._endpoint: StreamReader
        self._tls: ssl.SSLSocket | None = None
        self._error: OSError | None = None
        self._is_busy = False  # a step of the handshake runs in a thread
        self._is_open = False
        self._is_closed = False
        self.is_completed = False
        """Whether the handshake has ended, for the deadline."""
        self._reading = False
        self._has_unread = False  # TLS holds decrypted bytes, or an end, that no readable descriptor shows
        self._reads_soon = False
        self._wants_room = False  # of the handshake: the next step is due when more can be sent
        self._watches_room = False  # the endpoint wants to be called when more can be sent
        self._read_waits_for_room = False
        self._held = b""  # accepted, and not encrypted yet
        self._retried: bytes | memoryview | None = (
            None  # what the last call that would have blocked was about
        )
        self._fresh = 0  # how many of these bytes are not accepted yet

    # ---- the handshake

    def start(self, endpoint: StreamReader) -> None:
        """Called again when the client has logged in: what the first endpoint has not read is the second's."""
        self._endpoint = endpoint
        if self._is_open:
            self.resume_reading()
            return
        self._reading = True
        self._handshakes.deadlines.add(self._handshakes.timeout_ms, self)
        self._loop.add_reader(self._fd, self._has_first_bytes)

    def expire(self) -> None:
        """The deadline of the handshake has passed."""
        self._reject(f"no TLS handshake within {self._handshakes.timeout_ms} ms")

    def _has_first_bytes(self) -> None:
        try:
            first = self._accepted.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._leave(error)
            return
        if not first:  # as load balancers do, to see whether the port is open
            self._leave(ConnectionResetError("the peer closed the connection before the TLS handshake"))
        elif first != HANDSHAKE_RECORD:
            self._reject("the client sends plain bytes to a TLS listener: is its security.protocol SSL?")
        else:
            self._step()

    def _step(self) -> None:
        """Has a thread do what can be done of the handshake now."""
        if self._wants_room:
            self._wants_room = False
            self._loop.remove_writer(self._fd)
        self._loop.remove_reader(self._fd)
        self._is_busy = True
        self._handshakes.runner.submit(self._shake_hands, self._step_ended)

    def _shake_hands(self) -> None:
        """In a thread. Raises SSLWantReadError and SSLWantWriteError, and OSError where the handshake fails.

        Where many clients wait for the threads, those that have gone or have waited too long meanwhile cost nothing.
        """
        if self._is_closed:
            return
        if self._tls is None:
            self._tls = self._guard.context().wrap_socket(
                self._accepted, server_side=True, do_handshake_on_connect=False
            )
        self._tls.do_handshake()

    def _step_ended(self, error: BaseException | None) -> None:
        self._is_busy = False
        if self._is_closed:
            self._close_socket()
        elif error is None:
            self._handshake_ended()
        elif isinstance(error, ssl.SSLWantReadError):
            self._loop.add_reader(self._fd, self._step)
        elif isinstance(error, ssl.SSLWantWriteError):
            self._wants_room = True
            self._loop.add_writer(self._fd, self._step)
        elif isinstance(error, ssl.SSLError):
            self._reject(explain(error))
        elif isinstance(error, OSError):
            self._leave(error)
        else:
            self._leave(ConnectionAbortedError(str(error)))
            raise error

    def _handshake_ended(self) -> None:
        assert self._tls is not None
        try:
            self._guard.admit(self._tls)
        except ValueError as error:
            self._reject(str(error))
            return
        self.is_completed = True
        self._is_open = True
        if self._reading:
            self.resume_reading()
        if self._watches_room:
            self._loop.add_writer(self._fd, self._has_room)

    def _reject(self, reason: str) -> None:
        self._guard.rejected(reason)
        self._leave(ConnectionAbortedError(reason))

    def _leave(self, error: OSError) -> None:
        """Ends a connection that is not open yet: the endpoint learns of it when it reads."""
        self.is_completed = True
        self._error = error
        self._endpoint.readable()

    # ---- reading

    def pause_reading(self) -> None:
        self._reading = False
        if self._is_open:
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        self._reading = True
        if self._is_open:
            self._loop.add_reader(self._fd, self._is_readable)
            assert self._tls is not None
            if self._has_unread or self._tls.pending():
                self._read_soon()

    def _is_readable(self) -> None:
        """Reads until nothing is left, for what TLS holds decrypted, and for a connection that was reset: libuv stops
        watching that after it has called once."""
        self._endpoint.readable()
        if self._has_unread and self._reading and not self._is_closed:
            self._read_soon()

    def _read_soon(self) -> None:
        if not self._reads_soon:
            self._reads_soon = True
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._reads_soon = False
        if self._reading and not self._is_closed:
            self._is_readable()

    def receive_into(self, buffer: memoryview, /) -> int:
        if self._error is not None:
            raise self._error
        tls = self._tls
        assert tls is not None
        size, total = len(buffer), 0
        self._has_unread = False
        try:
            while total < size:
                count = tls.recv_into(buffer[total:])
                if not count:
                    self._has_unread = total > 0  # the end comes with the next call
                    return total
                total += count
            self._has_unread = True  # perhaps: see `_is_readable`
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLWantWriteError:  # TLS has to answer its peer first, with a new key
            self._read_waits_for_room = True
            self._loop.add_writer(self._fd, self._has_room)
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                logger.debug("%s", explain(error))
                error = ConnectionAbortedError(explain(error))
            if not total:
                raise error from None
            self._error = error
            self._has_unread = True
        if not total:
            raise BlockingIOError
        return total

    # ---- sending

    def watch_writable(self) -> None:
        self._watches_room = True
        if self._is_open:
            self._loop.add_writer(self._fd, self._has_room)

    def ignore_writable(self) -> None:
        self._watches_room = False
        if self._is_open and not self._read_waits_for_room:
            self._loop.remove_writer(self._fd)

    def _has_room(self) -> None:
        if self._read_waits_for_room:
            self._read_waits_for_room = False
            if not self._watches_room:
                self._loop.remove_writer(self._fd)
            if self._reading:
                self._endpoint.readable()
            else:
                self._has_unread = True
        if self._watches_room and not self._is_closed:
            self._endpoint.writable()

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:
        if self._error is not None:
            raise self._error
        assert self._tls is not None
        rest = memoryview(data)
        held = self._held
        if flags & MORE_COMES and self._retried is None and len(held) + len(rest) < RECORD_BYTES:
            self._held = held + rest
            return len(rest)
        total = 0
        while rest or self._held:
            if self._retried is None:
                self._next_piece(rest)
            count = self._write()
            if count is None:
                if not total:
                    raise BlockingIOError
                return total
            rest = rest[count:]
            total += count
        return total

    def _next_piece(self, rest: memoryview) -> None:
        held = self._held
        fresh = rest[: max(PIECE_BYTES - len(held), 0)]
        self._retried = held + fresh if held else fresh
        self._fresh = len(fresh)

    def _write(self) -> int | None:
        """Encrypts and sends the piece; returns how many of its fresh bytes, None where the socket has no room."""
        assert self._tls is not None
        assert self._retried is not None
        try:
            count = self._tls.write(self._retried)
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return None
        except ssl.SSLError as error:
            raise ConnectionAbortedError(explain(error)) from None
        old = len(self._retried) - self._fresh
        self._held = self._held[min(count, old) :]
        self._retried = None
        return max(count - old, 0)

    def send_file(self, file: int, position: int, size: int) -> int:
        """TLS is not spoken by the kernel: the bytes are read, and sent."""
        total = 0
        while total < size:
            data = os.pread(file, min(size - total, PIECE_BYTES), position + total)
            if not data:
                break
            try:
                count = self.send(data)
            except BlockingIOError:
                if not total:
                    raise
                break
            total += count
            if count < len(data):
                break
        return total

    # ---- the end

    def close(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self.is_completed = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        if not self._is_busy:
            self._close_socket()

    def _close_socket(self) -> None:
        tls = self._tls
        if tls is None:
            self._accepted.close()
            return
        if self._is_open:
            with contextlib.suppress(
                OSError, ValueError
            ):  # the peer's is not waited for, and it may have gone
                tls.unwrap()  # sends close_notify
            self._guard.ended()
        else:
            self._discard_unread()
        tls.close()

    def _discard_unread(self) -> None:
        """Bytes that are left unread would reset the connection, and the client would not get the alert."""
        with contextlib.suppress(OSError):
            for _ in range(_MOST_DISCARDED_READS):
                if not os.read(self._fd, RECORD_BYTES):
                    return

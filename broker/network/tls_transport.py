"""TlsTransport: the stream of a connection over TLS, on a socket that the event loop watches directly.

    state       | becomes     | when
    ------------+-------------+--------------------------------------------------------------------------------
    accepted    | handshaking | its first byte is that of a TLS record; else it closes
    handshaking | open        | the handshake is complete, and the listener admits the client
    handshaking | closed      | the handshake fails, the client leaves, or the deadline passes
    open        | closed      | `close`: close_notify is sent, and nothing waited for

The TLS library has no socket: it decrypts from one buffer in memory and encrypts into another. Clients send many small
records (librdkafka two for each message), which the socket gives by one call, and not by two for each record.

    socket -> window, shared by all -> whole records -> TLS -> the endpoint's buffer
                 | the part of a record is kept (`_arrived`)
    socket <- `_unsent` <- TLS <- the endpoint's bytes, 64 KiB of them at most

No more is read from the socket than the endpoint has room for, or a record: so what a connection holds is bounded.

A step of the handshake takes a third of a millisecond to a whole one, so it runs in a thread of a small pool, and only
when a record is there: a client that is silent costs an entry in the loop's selector and no thread. The thread gets
bytes and gives bytes; the socket belongs to the loop. Where the connection ends meanwhile, it is closed when the step
is done.

What was read from the socket and not by the endpoint makes no descriptor readable: `readable` is called again until it
is read. Bytes that are encrypted and not sent are no longer the caller's: where a send would have blocked, it has to be
repeated with the same bytes, and goes on where it was.
Source: org.apache.kafka.common.network.SslTransportLayer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable
from typing import Final, Protocol

from barnabas.broker.network.request_memory import READ_BYTES
from barnabas.broker.network.tls_records import MOST_RECORD_BYTES, whole_records
from barnabas.broker.network.transport import MORE_COMES, StreamReader
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.broker.waiting.timer import DeadlineQueue
from barnabas.security.tls_errors import explain

logger = logging.getLogger("barnabas.network")

PIECE_BYTES: Final = 64 * 1024
"""What is encrypted and sent by one call: four records."""
RECORD_BYTES: Final = 16 * 1024
"""Parts of a response that are smaller are joined with what comes next, before they are encrypted."""
WINDOW_BYTES: Final = READ_BYTES + 2 * MOST_RECORD_BYTES
_MOST_DISCARDED_READS: Final = 8
_NOTHING: Final = memoryview(b"")
_ReadInto = Callable[[int, memoryview], int]
HANDSHAKE_RECORD: Final = b"\x16"
"""The first byte of every TLS connection."""


class Handshakes:
    """What the connections of all listeners share, of one event loop."""

    def __init__(self, runner: BlockingRunner, deadlines: DeadlineQueue, timeout_ms: int) -> None:
        """`runner` runs the steps of handshakes."""
        self.runner = runner
        self.deadlines = deadlines
        self.timeout_ms = timeout_ms
        self.window = memoryview(bytearray(WINDOW_BYTES))
        """A socket is read into it; it is free again when that call has ended."""


class Guard(Protocol):
    """The listener, as a transport asks and informs it."""

    def context(self) -> ssl.SSLContext:
        """The context of a connection that begins now."""

    def admit(self, tls: ssl.SSLObject) -> None:
        """The handshake is complete. Raises ValueError where the client is not let in."""

    def rejected(self, reason: str) -> None:
        """The connection was not let in."""

    def ended(self) -> None:
        """A connection that was let in is closed."""


class TlsTransport:
    """A Transport; see there for what its methods are for."""

    __slots__ = (
        "_arrived",
        "_endpoint",
        "_error",
        "_fd",
        "_fed",
        "_fresh",
        "_guard",
        "_handshakes",
        "_has_filled_window",
        "_has_unread",
        "_held",
        "_incoming",
        "_is_busy",
        "_is_closed",
        "_is_open",
        "_is_peer_done",
        "_is_shaken",
        "_loop",
        "_outgoing",
        "_read_waits_for_room",
        "_reading",
        "_reads_soon",
        "_reset",
        "_socket",
        "_tls",
        "_unsent",
        "_wants_room",
        "_watches_room",
        "is_completed",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, accepted: socket.socket, guard: Guard, handshakes: Handshakes
    ) -> None:
        self._loop = loop
        self._socket = accepted
        self._fd = accepted.fileno()
        self._guard = guard
        self._handshakes = handshakes
        self._endpoint: StreamReader
        self._tls: ssl.SSLObject | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._error: OSError | None = None
        self._is_busy = False  # a step of the handshake runs in a thread, to which TLS and its buffers belong
        self._is_shaken = False  # it was the last
        self._is_open = False
        self._is_closed = False
        self.is_completed = False
        """Whether the handshake has ended, for the deadline."""
        self._reading = False
        self._arrived = _NOTHING  # read from the socket, and not given to TLS yet
        self._fed = 0  # at most so many of the records that TLS has been given are not read to their end
        self._has_filled_window = False  # the socket has more, perhaps
        self._reset: OSError | None = None  # what the socket has said besides its last bytes
        self._is_peer_done = False  # it has sent close_notify
        self._has_unread = False  # bytes, or an end, that no readable descriptor shows
        self._reads_soon = False
        self._wants_room = False  # of the handshake: the next step is due when all is sent
        self._watches_room = False  # the endpoint wants to be called when more can be sent
        self._read_waits_for_room = False  # TLS owes its peer an answer
        self._held = b""  # accepted, and not encrypted yet
        self._unsent: list[bytes | memoryview] = []  # encrypted
        self._fresh = 0  # how many bytes of that, before encryption, are not accepted yet

    # ---- the handshake

    def start(self, endpoint: StreamReader) -> None:
        """Called again when the client has logged in: what the first endpoint has not read is the second's."""
        self._endpoint = endpoint
        if self._is_open:
            self.resume_reading()
            return
        self._reading = True
        self._handshakes.deadlines.add(self._handshakes.timeout_ms, self)
        self._loop.add_reader(self._fd, self._has_bytes)

    def expire(self) -> None:
        """The deadline of the handshake has passed."""
        self._reject(f"no TLS handshake within {self._handshakes.timeout_ms} ms")

    def _has_bytes(self) -> None:
        try:
            data = self._socket.recv(MOST_RECORD_BYTES)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._leave(error)
            return
        if self._tls is None and not self._arrived:
            if not data:  # as load balancers do, to see whether the port is open
                self._leave(ConnectionResetError("the peer closed the connection before the TLS handshake"))
                return
            if data[:1] != HANDSHAKE_RECORD:
                self._reject("the client sends plain bytes to a TLS listener: is its security.protocol SSL?")
                return
        if not data:
            self._reject(explain(ssl.SSLEOFError(ssl.SSL_ERROR_EOF, "")))
            return
        self._arrived = memoryview(b"".join((self._arrived, data)))
        self._step()

    def _step(self) -> None:
        """Has a thread do what can be done of the handshake now."""
        end, count = whole_records(self._arrived, 0)
        if not count:
            self._loop.add_reader(self._fd, self._has_bytes)
            return
        given, self._arrived = self._arrived[:end], self._arrived[end:]
        self._fed = count
        self._loop.remove_reader(self._fd)
        self._is_busy = True
        self._handshakes.runner.submit(lambda: self._shake_hands(given), self._step_ended)

    def _shake_hands(self, given: memoryview) -> None:
        """In a thread. Raises SSLWantReadError where bytes are missing, and another SSLError where the handshake fails.

        Where many clients wait for the threads, those that have gone or have waited too long meanwhile cost nothing.
        """
        if self._is_closed:
            return
        if self._tls is None:
            self._tls = self._guard.context().wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._incoming.write(given)
        self._tls.do_handshake()

    def _step_ended(self, error: BaseException | None) -> None:
        self._is_busy = False
        if self._is_closed:
            self._close_socket()
        elif error is None or isinstance(error, ssl.SSLWantReadError):
            self._is_shaken = error is None
            self._answer()
        elif isinstance(error, ssl.SSLError):
            with contextlib.suppress(OSError):
                self._flush()  # the alert
            self._reject(explain(error))
        elif isinstance(error, OSError):
            self._leave(error)
        else:
            self._leave(ConnectionAbortedError(str(error)))
            raise error

    def _answer(self) -> None:
        """Sends what the step has left to send, and goes on when the socket has taken it."""
        try:
            is_sent = self._flush()
        except OSError as error:
            if not self._is_shaken:
                self._leave(error)
                return
            is_sent = True  # a client that leaves without its session ticket may have sent something
        if self._wants_room is is_sent:
            self._wants_room = not is_sent
            if is_sent:
                self._loop.remove_writer(self._fd)
            else:
                self._loop.add_writer(self._fd, self._answer)
        if is_sent:
            if self._is_shaken:
                self._handshake_ended()
            else:
                self._step()

    def _handshake_ended(self) -> None:
        assert self._tls is not None
        try:
            self._guard.admit(self._tls)
        except ValueError as error:
            self._reject(str(error))
            return
        self.is_completed = True
        self._is_open = True
        if not self._incoming.pending:
            self._fed = 0
        self._has_unread = self._holds_records()
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
        if self._is_open and not self._read_waits_for_room:
            self._loop.add_reader(self._fd, self._is_readable)
            if self._has_unread:
                self._read_soon()

    def _is_readable(self) -> None:
        """Reads until nothing is left, for what is not in the socket any more, and for a connection that was reset:
        libuv stops watching that after it has called once."""
        self._endpoint.readable()
        if self._has_unread and self._reading and not self._read_waits_for_room and not self._is_closed:
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
        if self._read_waits_for_room:
            raise BlockingIOError
        if self._is_peer_done:
            return 0
        arrived = self._arrived
        if not self._holds_records():
            arrived = self._receive(len(buffer))
            if not arrived:
                return 0
        total, used = self._decrypt(arrived, buffer)
        if arrived is self._arrived:
            self._arrived = arrived[used:]
        else:  # in the window
            self._arrived = memoryview(bytes(arrived[used:])) if used < len(arrived) else _NOTHING
        self._has_unread = (
            self._has_filled_window
            or self._is_peer_done
            or self._reset is not None
            or self._error is not None
            or self._holds_records()
        )
        if not total:
            if self._error is not None:
                raise self._error
            if not self._is_peer_done:
                raise BlockingIOError
        return total

    def _holds_records(self) -> bool:
        """TLS can decrypt something without more from the socket."""
        return self._fed > 0 or whole_records(self._arrived, 0)[1] > 0

    def _receive(self, room: int) -> memoryview:
        """What has arrived, with what the socket has for an endpoint with so much room; nothing at the end."""
        self._has_unread = False
        if self._reset is not None:
            raise self._reset
        kept, window = len(self._arrived), self._handshakes.window
        window[:kept] = self._arrived
        free = window[kept : kept + max(room - kept, MOST_RECORD_BYTES)]
        self._has_filled_window = False
        count = self._socket.recv_into(free)
        if not count:
            return _NOTHING
        if count == len(free):
            self._has_filled_window = True
        else:  # libuv, which reports an error once, may have done so
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._reset = OSError(code, os.strerror(code))
        return window[: kept + count]

    def _decrypt(self, arrived: memoryview, buffer: memoryview) -> tuple[int, int]:
        """Returns how many bytes are in `buffer` now, and how many of those that have arrived TLS has been given."""
        tls = self._tls
        assert tls is not None
        read: _ReadInto = tls.read  # type: ignore[assignment]  # typeshed knows the form that returns bytes
        size = len(buffer)
        total, used, fed = 0, 0, self._fed
        try:
            while total < size:
                if not fed:
                    end, fed = whole_records(arrived, used)
                    if not fed:
                        break
                    self._incoming.write(arrived[used:end])
                    used = end
                try:
                    count = read(size, buffer[total:])
                except ssl.SSLWantReadError:  # there were no data in the rest of them
                    fed = 0
                    if not self._has_answered():
                        break
                    continue
                if not count:
                    self._is_peer_done = True
                    break
                total += count
                fed -= 1
            if total == size and tls.pending():
                fed += 1  # the last one is not read to its end
            self._has_answered()
        except OSError as error:
            self._error = self._failure(error)
        self._fed = fed
        return total, used

    def _has_answered(self) -> bool:
        """Sends what TLS owes its peer, a new key or an alert. Nothing is read while the socket has no room for it."""
        if not self._outgoing.pending or self._flush():
            return True
        if not self._read_waits_for_room:
            self._read_waits_for_room = True
            self._loop.remove_reader(self._fd)
            self._loop.add_writer(self._fd, self._has_room)
        return False

    def _failure(self, error: OSError) -> OSError:
        """What the endpoint gets for it."""
        if not isinstance(error, ssl.SSLError):
            return error
        with contextlib.suppress(OSError):
            self._flush()  # the alert
        logger.debug("%s", explain(error))
        return ConnectionAbortedError(explain(error))

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
            self._answer_and_read_on()
        if self._watches_room and not self._is_closed:
            self._endpoint.writable()

    def _answer_and_read_on(self) -> None:
        try:
            if not self._flush():
                return
        except OSError as error:
            self._error = error
        self._read_waits_for_room = False
        if not self._watches_room:
            self._loop.remove_writer(self._fd)
        self._has_unread = True
        if self._reading:
            self.resume_reading()

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:
        if self._error is not None:
            raise self._error
        rest = memoryview(data)
        held = self._held
        if (
            flags & MORE_COMES
            and not self._unsent
            and not self._fresh
            and len(held) + len(rest) < RECORD_BYTES
        ):
            self._held = held + rest
            return len(rest)
        total = 0
        while self._flush():
            total += self._fresh
            rest = rest[self._fresh :]
            self._fresh = 0
            if not rest and not self._held:
                return total
            self._encrypt(rest)
        if not total:
            raise BlockingIOError
        return total

    def _encrypt(self, rest: memoryview) -> None:
        """The next piece: what is held, and the first of these bytes."""
        assert self._tls is not None
        fresh = rest[: PIECE_BYTES - len(self._held)]
        piece = memoryview(self._held + fresh) if self._held else fresh
        self._held = b""
        self._fresh = len(fresh)
        try:
            while piece:
                piece = piece[self._tls.write(piece[:RECORD_BYTES]) :]
                self._unsent.append(self._outgoing.read())
        except ssl.SSLError as error:
            raise ConnectionAbortedError(explain(error)) from None

    def _flush(self) -> bool:
        """Sends what is encrypted; False where the socket does not take all of it."""
        unsent = self._unsent
        if self._outgoing.pending:
            unsent.append(self._outgoing.read())
        while unsent:
            try:
                count = self._socket.sendmsg(unsent) if len(unsent) > 1 else self._socket.send(unsent[0])
            except (BlockingIOError, InterruptedError):
                return False
            while unsent and count >= len(unsent[0]):
                count -= len(unsent.pop(0))
            if count:
                unsent[0] = memoryview(unsent[0])[count:]
        return True

    def send_file(self, file: int, position: int, size: int) -> int:
        """TLS is not spoken by the kernel: the bytes are read, and sent."""
        total = self.send(b"") if self._fresh else 0
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
        if self._is_open:
            assert self._tls is not None
            with contextlib.suppress(OSError, ValueError):
                self._tls.unwrap()  # close_notify; the peer's is not waited for
            with contextlib.suppress(OSError):  # it may have gone
                self._flush()
            self._guard.ended()
        elif self._tls is not None:
            self._discard_unread()
        self._unsent.clear()
        self._arrived = _NOTHING
        self._socket.close()

    def _discard_unread(self) -> None:
        """Bytes that are left unread would reset the connection, and the client would not get the alert."""
        with contextlib.suppress(OSError):
            for _ in range(_MOST_DISCARDED_READS):
                if not os.read(self._fd, RECORD_BYTES):
                    return

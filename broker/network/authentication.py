"""Authentications: connections between their acceptance and their login.

A connection of a listener with SASL begins here: an `Authentication` reads its frames from the transport and passes
them to a `SaslAuthenticator`. When the client has logged in, the Connection itself takes the transport over, and its
requests go through `SaslRequests` (sasl_requests).

Over SASL_SSL the handshake of TLS comes first, in the transport: its time counts as the login's.

Frames are read one at a time, each no further than its end: bytes behind it stay in the socket, so that they cost
this broker nothing before they are due, and are there for whatever reads next. While an answer is not sent, a check
runs in a thread, or the delay of a failure passes, nothing is read.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, Protocol

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.network.authentication_memory import LIMIT_BYTES, AuthenticationMemory
from barnabas.broker.network.connection import Connection
from barnabas.broker.network.failure_delay import FailureDelay, Timer
from barnabas.broker.network.failure_log import FailureLog, sanitized
from barnabas.broker.network.in_flight import Handler
from barnabas.broker.network.sasl_requests import ConnectionSession, SaslRequests
from barnabas.broker.network.transport import Transport
from barnabas.broker.probes import ListenerProbe
from barnabas.broker.request import ConnectionInfo
from barnabas.broker.security.sasl.authenticator import (
    Clock,
    Doors,
    Failure,
    Fate,
    SaslAuthenticator,
    Step,
)
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.protocol.framing import SIZE_BYTES, size_prefix

if TYPE_CHECKING:
    from barnabas.broker.security.sasl.listener import SaslListener
    from barnabas.protocol.wire import Chunk

logger = logging.getLogger("barnabas.network")
security_logger = logging.getLogger("barnabas.security")

READ_BYTES: Final = 16 * 1024
"""Most that is read of a frame at once."""

KEPT_TIMES: Final = 5
"""How often a mechanism may keep the bytes of a token until the next: in parts, and as a whole."""

FREE_BYTES: Final = 1024
"""What the frames of a usual login have, so that many clients that connect together are charged with nothing."""


class Loop(Timer, Protocol):
    """The event loop, or a clock that a test turns."""

    def call_soon(self, callback: Callable[[], None]) -> object: ...


class Authentications:
    """All connections that have not logged in yet, and what they share."""

    def __init__(
        self,
        *,
        timeout_ms: int,
        failure_delay_ms: int,
        memory_bytes: int = LIMIT_BYTES,
        doors: Doors,
        loop: Loop,
        now_ms: Callable[[], int],
        runner: BlockingRunner,
        complaints: RateLimit,
    ) -> None:
        """`timeout_ms` is barnabas.authentication.timeout.ms, `failure_delay_ms`
        connection.failed.authentication.delay.ms, and `memory_bytes` the budget for all of them together.
        """
        self.doors = doors
        self.loop = loop
        self.clock = Clock(loop.time, now_ms)
        self.runner = runner
        self.failures = FailureDelay(loop, failure_delay_ms)
        self.memory = AuthenticationMemory(memory_bytes)
        self.buffer = memoryview(bytearray(READ_BYTES))
        self._timeout_ms = timeout_ms
        self._complaints = complaints
        self._failure_log = FailureLog(loop.time)
        self._under_way: dict[Connection, Authentication] = {}  # those that began first come first

    def __len__(self) -> int:
        return len(self._under_way)

    def guarded(self, handle: Handler, listener: SaslListener, probe: ListenerProbe) -> Handler:
        """The handler of a listener's requests: it sees to their sessions before `handle`."""
        return SaslRequests(handle, listener, self, probe)

    def begin(
        self, connection: Connection, transport: Transport, listener: SaslListener, probe: ListenerProbe
    ) -> None:
        """Has the client of a new connection log in; then the connection begins to handle requests."""
        authentication = Authentication(self, connection, transport, listener, probe)
        self._under_way[connection] = authentication
        connection.attach(transport)
        transport.start(authentication)

    def finished(self, connection: Connection) -> None:
        """The client has logged in."""
        del self._under_way[connection]

    def forget(self, connection: Connection) -> None:
        """The connection is gone, before or after its login."""
        authentication = self._under_way.pop(connection, None)
        if authentication is not None:
            authentication.release()
        session: ConnectionSession | None = connection.info.session
        if session is not None:
            session.forget()

    def sweep(self, now: float) -> None:
        """Ends those that take too long; called about once a second."""
        for connection, authentication in list(self._under_way.items()):
            if (now - authentication.began_at) * 1000 < self._timeout_ms:
                break
            authentication.count_failure(Failure(f"it took longer than {self._timeout_ms} ms"))
            connection.abort()

    def begun_before(self, time_s: float, listener_name: str | None = None) -> Iterator[Connection]:
        """Those that began before a time, of one listener or of all, the oldest first."""
        for connection, authentication in self._under_way.items():
            if authentication.began_at > time_s:
                return
            if not connection.closing and listener_name in (None, connection.info.listener_name):
                yield connection

    def give_way(self, connection: Connection) -> None:
        """Ends a login, so that another client has its place."""
        self._under_way[connection].count_failure(
            Failure("there are too many connections, and it takes long")
        )
        connection.abort()

    # ---- log lines

    def log_failure(self, info: ConnectionInfo, failure: Failure, *, again: bool) -> None:
        """One line for a failed login. `again`: it was a re-authentication."""
        self._failure_log.login_failed(info, failure.mechanism, failure.user, failure.reason, again=again)

    def complain(self, info: ConnectionInfo, reason: str) -> None:
        """A line for a connection that is closed at once."""
        self._complaints.warning(
            logger,
            info.client_host,
            "closing the connection of %s:%d to listener %s: %s",
            info.client_host,
            info.client_port,
            info.listener_name,
            sanitized(reason),
        )


class Authentication:
    """The login of one connection; its transport calls `readable` and `writable`."""

    __slots__ = (
        "_authenticator",
        "_awaits_room",
        "_body",
        "_connection",
        "_is_complete",
        "_is_reading",
        "_memory",
        "_owner",
        "_prefix",
        "_probe",
        "_size",
        "_taken_bytes",
        "_transport",
        "_unsent",
        "began_at",
    )

    def __init__(
        self,
        owner: Authentications,
        connection: Connection,
        transport: Transport,
        listener: SaslListener,
        probe: ListenerProbe,
    ) -> None:
        self.began_at = owner.clock.monotonic_s()
        self._owner = owner
        self._connection = connection
        self._transport = transport
        self._awaits_room = False
        self._probe = probe
        self._authenticator = SaslAuthenticator(listener, connection.info, owner.doors, owner.clock)
        self._memory = owner.memory.holder(self._give_up)
        self._prefix = b""  # bytes of an incomplete length
        self._size: int | None = None  # of the frame whose bytes arrive
        self._body = bytearray()
        self._taken_bytes = 0  # of the frames so far, parts of which the authenticator may keep
        self._unsent = b""
        self._is_reading = True
        self._is_complete = False

    def release(self) -> None:
        """The connection is gone."""
        self._memory.hold(0)
        self._body = bytearray()

    def count_failure(self, failure: Failure) -> None:
        self._probe.failed_authentications += 1
        self._owner.log_failure(self._connection.info, failure, again=False)

    def _give_up(self) -> None:
        self._owner.complain(
            self._connection.info, "the memory for logins is used up, and this one takes the most"
        )
        self._connection.abort()

    # ---- reading

    def readable(self) -> None:
        """Reads on, up to the end of a frame at most."""
        if self._size is None:
            data = self._receive(SIZE_BYTES - len(self._prefix))
            if not data:
                return
            self._prefix += data
            if len(self._prefix) < SIZE_BYTES:
                return
            self._size = int.from_bytes(self._prefix, "big", signed=True)
            self._prefix = b""
            if not self._authenticator.allows_size(self._size):
                self._apply(self._authenticator.reject_size(self._size))
                return
        if self._size > len(self._body):
            self._body += self._receive(min(self._size - len(self._body), READ_BYTES))
            if self._connection.closing:
                return
        if len(self._body) < self._size:
            self._memory.hold(self._kept_bytes() + len(self._body))
            return
        frame, self._body, self._size = bytes(self._body), bytearray(), None
        self._memory.hold(self._kept_bytes() + len(frame))
        self._taken_bytes += len(frame)
        if not self._connection.closing:
            self._take(frame)

    def _kept_bytes(self) -> int:
        """What the broker may keep of the frames that were taken."""
        return KEPT_TIMES * max(0, self._taken_bytes - FREE_BYTES)

    def _receive(self, size: int) -> bytes:
        """What has arrived, up to `size` bytes; nothing where that is none, or at the end."""
        target = self._owner.buffer[:size]
        try:
            count = self._transport.receive_into(target)
        except (BlockingIOError, InterruptedError):
            return b""
        except OSError:
            count = 0
        if not count:
            self._connection.lost()
            return b""
        self._connection.active = True
        self._probe.bytes_in += count
        return bytes(target[:count])

    # ---- what comes of a frame

    def _take(self, frame: bytes | None) -> None:
        """Takes a frame; None: the work of the last one has run."""
        try:
            step = self._authenticator.worked() if frame is None else self._authenticator.receive(frame)
        except Exception:
            info = self._connection.info
            logger.exception("a bug: closing the connection of %s:%d", info.client_host, info.client_port)
            self._connection.abort()
            return
        self._apply(step)

    def _apply(self, step: Step) -> None:
        fate = step.fate
        if fate is not Fate.CONTINUE and fate is not Fate.WORK:
            self._memory.hold(0)
        match fate:
            case Fate.CONTINUE:
                self._memory.hold(self._kept_bytes())
                if not self._connection.closing:
                    self._send(step.answer)
            case Fate.COMPLETE:
                self._is_complete = True
                self._send(step.answer)
            case Fate.WORK:
                self._pause()
                assert step.work is not None
                self._owner.runner.submit(step.work, self._worked)
            case Fate.FAIL:
                assert step.failure is not None
                self.count_failure(step.failure)
                self._pause()
                self._owner.failures.after(lambda: self._end(step.answer))
            case Fate.CLOSE:
                assert step.failure is not None
                self._owner.complain(self._connection.info, step.failure.reason)
                self._connection.abort()

    def _worked(self, error: BaseException | None) -> None:
        if self._connection.closing:
            return
        assert error is None, error  # the step keeps what it meets
        self._take(None)

    def _end(self, answer: list[Chunk] | None) -> None:
        """The delay of a failure has passed. An answer that does not fit into the socket is not waited for."""
        if self._connection.closing:
            return
        if answer is not None:
            self._send(answer)
        if not self._connection.closing:
            self._connection.abort()

    def _send(self, answer: list[Chunk] | None) -> None:
        """Sends a frame, and reads on when it is sent."""
        assert answer is not None
        data = b"".join(answer)  # type: ignore[arg-type]  # no records among them
        self._unsent = size_prefix(len(data)) + data
        self._send_on()

    def _send_on(self) -> None:
        try:
            sent = self._transport.send(self._unsent)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._connection.lost()
            return
        self._probe.bytes_out += sent
        self._unsent = self._unsent[sent:]
        if bool(self._unsent) is not self._awaits_room:
            self._awaits_room = not self._awaits_room
            if self._awaits_room:
                self._pause()
                self._transport.watch_writable()
            else:
                self._transport.ignore_writable()
        if self._awaits_room:
            return
        if self._is_complete:
            self._finish()
        elif not self._is_reading and self._authenticator.is_open:
            self._is_reading = True
            self._transport.resume_reading()

    def writable(self) -> None:
        self._connection.active = True
        self._send_on()

    def _pause(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._transport.pause_reading()

    def _finish(self) -> None:
        """The client has logged in: the connection handles its requests from now on."""
        connection, session = self._connection, self._authenticator.session
        assert session is not None
        self._probe.successful_authentications += 1
        if not session.supports_reauthentication:
            self._probe.successful_authentications_no_reauth += 1
        connection.info.principal = session.principal
        connection.info.session = ConnectionSession(session, connection.close)
        info = connection.info
        if security_logger.isEnabledFor(logging.DEBUG):
            security_logger.debug(
                "listener %s: %s:%d is %s",
                info.listener_name,
                info.client_host,
                info.client_port,
                sanitized(str(info.principal)),
            )
        self._owner.finished(connection)
        connection.begin()

"""Kafka's SocketServer for one event loop: accepts connections, keeps to the limits, sweeps, drains.

Sockets are accepted here, not by loop.create_server, because a broker that has max.connections must leave
further clients in the listen backlog, and a client that has its own maximum must be rejected before
objects are made for it.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.network.connection import Connection, ConnectionContext
from barnabas.broker.network.connection_quotas import (
    LOGIN_GRACE_S,
    ConnectionLimits,
    ConnectionQuotas,
    plain_address,
)
from barnabas.broker.network.connection_sweep import ConnectionSweep
from barnabas.broker.network.in_flight import Handler
from barnabas.broker.network.listener_security import ListenerSecurity, without_security
from barnabas.broker.network.listeners import INHERITS_OPTIONS, ListenError, bind, set_options
from barnabas.broker.network.loop_pulse import LoopPulse
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.probes import ListenerProbe, SocketServerProbe
from barnabas.broker.request import ConnectionInfo
from barnabas.broker.waiting.blocking import BlockingRunner, InlineRunner
from barnabas.broker.waiting.timer import DeadlineQueue
from barnabas.config.dynamic import SettingsWaitError
from barnabas.config.layers import InvalidConfigError
from barnabas.config.listeners import Listener

if TYPE_CHECKING:
    from barnabas.broker.network.authentication import Authentications
    from barnabas.broker.security.sasl.authenticator import Doors

logger = logging.getLogger("barnabas.network")

SWEEP_INTERVAL_S = 1.0
_LEAST_SWEEP_INTERVAL_S = 0.01
_ACCEPTS_AT_ONCE = 64
_MAX_HELD = 1000
"""Connections of addresses that connect too fast; more are closed at once."""

_NOT_OPENED = "listener %s is not opened there: %s"
_OUT_OF_FILES_PAUSE_S = 1.0
_OUT_OF_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class SocketSettings(NamedTuple):
    """The network settings, named as their keys: sizes in bytes, -1 for the system's default."""

    barnabas_authentication_timeout_ms: int = 30_000
    connection_failed_authentication_delay_ms: int = 100
    connections_max_idle_ms: int = 600_000
    socket_listen_backlog_size: int = 50
    socket_receive_buffer_bytes: int = 102_400
    socket_request_max_bytes: int = 104_857_600
    socket_send_buffer_bytes: int = 102_400


class _Listening:
    """One listener: its sockets, and the context of its connections."""

    def __init__(
        self,
        address: Listener,
        security: ListenerSecurity,
        sockets: list[socket.socket],
        probe: ListenerProbe,
    ) -> None:
        assert security.security_protocol == address.security_protocol
        self.address = address
        self.name = address.name
        self.security = security
        self.probe = probe
        self.accepting = False
        self.waiting: _Accepted | None = None
        """A connection that waits for its turn, and has those behind it wait."""
        self.resumes: asyncio.TimerHandle | None = None
        """When it may proceed, as far as the rates of connections are concerned."""
        self.context: ConnectionContext
        self.move(sockets)

    def move(self, sockets: list[socket.socket]) -> None:
        """Listens with these sockets from now on."""
        self.sockets = sockets
        self.port: int = sockets[0].getsockname()[1]


class _Accepted(NamedTuple):
    """A connection that was accepted, with the address of its client."""

    socket: socket.socket
    host: str
    port: int


class _Doomed:
    """A connection of an address that connects too fast: held unread for a while, so that the client waits."""

    def __init__(self, accepted: socket.socket, held: set[_Doomed]) -> None:
        self.is_completed = False
        self._socket = accepted
        self._held = held
        held.add(self)

    def expire(self) -> None:
        self.is_completed = True
        self._held.discard(self)
        self._socket.close()


class SocketServer:
    """All listeners and connections of the broker.

    bind() as early as possible, so that a taken port is found before any work is done; start() when the
    handler can answer; drain() and close() at the end.
    """

    def __init__(
        self,
        *,
        loop: asyncio.AbstractEventLoop,
        listeners: Sequence[Listener],
        settings: SocketSettings,
        quotas: ConnectionQuotas,
        memory: RequestMemory,
        probe: SocketServerProbe,
        secure: Callable[[Listener], ListenerSecurity] = without_security,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        runner: BlockingRunner | None = None,
    ) -> None:
        """`secure` returns how a listener that opens is secured, and raises InvalidConfigError, and SettingsWaitError
        for one that is added while clients are served; `now_ms` is the time of
        day, and `runner` runs checks of credentials that may wait for others.
        """
        self._loop = loop
        self._secure = secure
        self._now_ms = now_ms
        self._runner = runner or InlineRunner()
        self._doors: Doors | None = None
        self.authentications: Authentications | None = None
        """The connections that have not logged in; None until there is a listener with logins."""
        self._addresses = listeners
        self._settings = settings
        self._quotas = quotas
        self._memory = memory
        self._probe = probe
        self._listening: dict[str, _Listening] = {}
        self._opened: dict[str, tuple[str | None, int]] = {}  # host and port of each as configured
        self._awaited: set[str] = set()  # listeners that open when what protects them has been fetched
        self._connections: set[Connection] = set()
        self._connection_ids = itertools.count(1)
        self._complaints = RateLimit()
        self._sweep = ConnectionSweep(settings.connections_max_idle_ms, memory, self._complaints)
        self._all_closed: asyncio.Future[None] | None = None
        self._handle: Handler | None = None
        self._doomed: set[_Doomed] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._sweep_due = 0.0
        self._mutes = DeadlineQueue(loop)
        self._pulse = LoopPulse(loop, probe.pause)
        self._stopping = False
        self.connection_closed: Callable[[int], None] = lambda connection_id: None
        """Called with the id of each connection that has ended."""

    # ---- life

    def bind(self) -> dict[str, int]:
        """Binds every listener; returns their ports by name. Raises ListenError, InvalidConfigError."""
        try:
            for address in self._addresses:
                security = self._secure(address)
                self._listening[address.name] = _Listening(
                    address, security, self._bind(address), self._probe.listener(address.name)
                )
                self._opened[address.name] = address.host, address.port
        except BaseException:
            self._close_listeners()
            raise
        return self.ports

    @property
    def ports(self) -> dict[str, int]:
        """The ports of the listeners that are open, by name."""
        return {name: listening.port for name, listening in self._listening.items()}

    def _bind(self, address: Listener) -> list[socket.socket]:
        return bind(
            address.host or "",
            address.port,
            backlog=self._settings.socket_listen_backlog_size,
            receive_buffer_bytes=self._settings.socket_receive_buffer_bytes,
            send_buffer_bytes=self._settings.socket_send_buffer_bytes,
        )

    def start(self, handle: Handler, doors: Doors | None = None) -> None:
        """Begins to accept connections; `handle` answers their requests (KafkaApis.handle).

        `doors` are for clients that have not logged in, where a listener asks for logins. The configuration may have
        changed since `bind`, by what the metadata have of it. Raises InvalidConfigError.
        """
        self._handle = handle
        self._doors = doors
        for listening in self._listening.values():
            listening.security = self._secure(listening.address)
            listening.context = self._context(handle, listening)
        self._resume_accepting()
        self._sweep_later()

    def _context(self, handle: Handler, listening: _Listening) -> ConnectionContext:
        sasl = listening.security.sasl
        if sasl is not None:
            if self.authentications is None:
                self.authentications = self._new_authentications()
            handle = self.authentications.guarded(handle, sasl, listening.probe)
        return ConnectionContext(
            handle=handle,
            memory=self._memory,
            max_request_bytes=self._settings.socket_request_max_bytes,
            probe=listening.probe,
            complaints=self._complaints,
            call_soon=self._loop.call_soon,
            closed=self._closed,
            mutes=self._mutes,
        )

    def _new_authentications(self) -> Authentications:
        from barnabas.broker.network.authentication import Authentications  # only where clients log in

        assert self._doors is not None, "a listener with logins, and no doors for them"
        return Authentications(
            timeout_ms=self._settings.barnabas_authentication_timeout_ms,
            failure_delay_ms=self._settings.connection_failed_authentication_delay_ms,
            doors=self._doors,
            loop=self._loop,
            now_ms=self._now_ms,
            runner=self._runner,
            complaints=self._complaints,
        )

    async def drain(self, timeout_s: float) -> int:
        """Accepts and reads nothing more, and closes each connection when its requests have been answered.

        Returns the number of connections that had to be cut off because `timeout_s` was over.
        """
        self._stopping = True
        self._close_listeners()
        for connection in list(self._connections):
            connection.drain()
        if self._connections:
            self._all_closed = self._loop.create_future()
            await asyncio.wait([self._all_closed], timeout=timeout_s)
        left = len(self._connections)
        self.close()
        return left

    def close(self) -> None:
        """Closes everything at once."""
        self._stopping = True
        self._close_listeners()
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self._pulse.stop()
        for connection in list(self._connections):
            connection.abort()
        self._mutes.clear()

    def _close_listeners(self) -> None:
        for listening in self._listening.values():
            self._close_sockets(listening)
            self._forget_waiting(listening)
        for doomed in list(self._doomed):
            doomed.expire()

    def _forget_waiting(self, listening: _Listening) -> None:
        if listening.resumes is not None:
            listening.resumes.cancel()
            listening.resumes = None
        if listening.waiting is not None:
            listening.waiting.socket.close()
            listening.waiting = None

    def _close_sockets(self, listening: _Listening) -> None:
        for listener in listening.sockets:
            if listening.accepting:
                self._loop.remove_reader(listener)
            listener.close()
        listening.accepting = False
        listening.sockets = []

    # ---- changes while it runs

    @property
    def limits(self) -> ConnectionLimits:
        return self._quotas.limits

    def change_limits(self, limits: ConnectionLimits) -> None:
        """Changes the limits; closes connections above max.connections, as Kafka does."""
        self._quotas.change_limits(limits)
        self._close_excess()
        self._resume_accepting()

    def change_ip_limits(self, limits: Mapping[str, float], default: float | None) -> None:
        """Changes the rates at which addresses may connect; open connections stay."""
        self._quotas.change_ip_limits(limits, default)

    def change_listeners(self, listeners: Sequence[Listener]) -> None:
        """Opens and closes listeners until these are open; connections of a closed listener finish their requests.

        A listener that gets another address keeps its connections. An address that cannot be bound is logged and
        leaves its listener as it is; it is retried with the next change. One that needs something of another host opens
        when that is there.
        """
        self._addresses = listeners
        wanted = {address.name for address in listeners}
        for name in [name for name in self._listening if name not in wanted]:
            self._close_listener(name)  # first, since another may get its port
        left = [at for at in listeners if self._opened.get(at.name) != (at.host, at.port)]
        while left:
            failures = {at.name: error for at in left if (error := self._open(at)) is not None}
            if len(failures) == len(left):
                for name, error in failures.items():
                    logger.error(_NOT_OPENED, name, error)
                break
            left = [
                at for at in left if at.name in failures
            ]  # another listener may have released the port now
        self._resume_accepting()

    def _open(self, address: Listener) -> ListenError | None:
        """Opens a listener, or moves it to the address, now or later; returns the error where that fails now."""
        listening = self._listening.get(address.name)
        try:
            security = self._secure(address) if listening is None else listening.security
            sockets = self._bind(address)
        except SettingsWaitError as wait:
            if address.name not in self._awaited:
                self._awaited.add(address.name)
                wait.fetch(partial(self._open_awaited, address.name))
            return None
        except InvalidConfigError as error:
            return ListenError(str(error))
        except ListenError as error:
            return error
        self._opened[address.name] = address.host, address.port
        if listening is not None:
            self._close_sockets(listening)
            listening.move(sockets)
        else:
            listening = _Listening(address, security, sockets, self._probe.listener(address.name))
            if self._handle is not None:
                listening.context = self._context(self._handle, listening)
            self._listening[address.name] = listening
        logger.info("listener %s is open on port %d", address.name, listening.port)
        return None

    def _open_awaited(self, name: str) -> None:
        """What protects a listener has been fetched, or cannot be, which is an error of the listener."""
        self._awaited.discard(name)
        address = next((at for at in self._addresses if at.name == name), None)
        if address is None or name in self._listening or self._stopping:
            return
        error = self._open(address)
        if error is not None:
            logger.error(_NOT_OPENED, name, error)
        self._resume_accepting()

    def _close_listener(self, name: str) -> None:
        listening = self._listening.pop(name)
        self._close_sockets(listening)
        self._forget_waiting(listening)
        del self._opened[name]
        for connection in list(self._connections):
            if connection.info.listener_name == name:
                connection.drain()
        logger.info("listener %s is closed", name)

    # ---- for metrics

    def connections(self) -> Iterable[ConnectionInfo]:
        """The connections that are open, as a copy."""
        return [connection.info for connection in self._connections]

    @property
    def quotas(self) -> ConnectionQuotas:
        return self._quotas

    @property
    def request_queue_size(self) -> int:
        """Requests that have arrived and wait to be handled, over all connections."""
        return sum(connection.backlog for connection in self._connections)

    # ---- accepting

    def _resume_accepting(self) -> None:
        """Accepts on each listener that may have another connection, and on no other."""
        if self._handle is None:
            return
        for listening in list(self._listening.values()):
            if listening.waiting is not None and listening.resumes is None:
                self._admit_waiting(listening)
            has_room = self._has_room(listening)
            accepting = not self._stopping and has_room and listening.waiting is None
            if accepting is listening.accepting:
                continue
            listening.accepting = accepting
            for listener in listening.sockets:
                if accepting:
                    self._loop.add_reader(listener, self._accept, listening, listener)
                else:
                    self._loop.remove_reader(listener)
            if not has_room and not self._stopping:
                self._complaints.warning(
                    logger,
                    listening.name,
                    "listener %s is full: %d connections, %d in all; others wait",
                    listening.name,
                    self._quotas.count(listening.name),
                    self._quotas.total,
                )

    def _wait_for_rate(self, listening: _Listening, accepted: _Accepted, throttle_ms: int) -> None:
        """The connection waits, and those behind it: they come too fast."""
        listening.waiting = accepted
        listening.resumes = self._loop.call_later(throttle_ms / 1000, self._rate_is_down, listening)
        self._resume_accepting()

    def _rate_is_down(self, listening: _Listening) -> None:
        listening.resumes = None
        self._resume_accepting()

    def _admit_waiting(self, listening: _Listening) -> None:
        """Its time is over; it may still have to wait for others to close."""
        accepted = listening.waiting
        if accepted is None or not self._make_room(listening):
            return
        if listening.waiting is accepted:  # and was not admitted by the end of the one that has made room
            listening.waiting = None
            self._admit(listening, accepted)

    def _has_room(self, listening: _Listening) -> bool:
        """Whether another connection may come, in place of a login that takes long too."""
        return self._quotas.may_accept(listening.name) or self._long_login(listening) is not None

    def _long_login(self, listening: _Listening) -> Connection | None:
        """The oldest of the connections that could give way to one of a full listener."""
        if self.authentications is None:
            return None
        name = listening.name if self._quotas.has_maximum(listening.name) else None
        return next(self.authentications.begun_before(self._loop.time() - LOGIN_GRACE_S, name), None)

    def _make_room(self, listening: _Listening) -> bool:
        """Whether the listener may take another connection now; a login that takes long ends for that."""
        if not self._quotas.may_accept(listening.name):
            login = self._long_login(listening)
            if login is not None:
                assert self.authentications is not None
                self.authentications.give_way(login)
        return self._quotas.may_accept(listening.name)

    def _accept(self, listening: _Listening, listener: socket.socket) -> None:
        for _ in range(_ACCEPTS_AT_ONCE):
            try:
                accepted, address = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._accept_failed(listening, error)
                return
            arrived = _Accepted(accepted, plain_address(address[0]), address[1])
            throttle_ms = self._quotas.arrived(listening.name)
            if throttle_ms:
                self._wait_for_rate(listening, arrived, throttle_ms)
                return
            if not self._make_room(listening):  # the login that was to give way is complete
                listening.waiting = arrived
                self._resume_accepting()
                return
            self._admit(listening, arrived)
            if not self._has_room(listening):
                self._resume_accepting()
                return

    def _accept_failed(self, listening: _Listening, error: OSError) -> None:
        """Pauses accepting: the client stays in the backlog, and the loop would spin."""
        if error.errno not in _OUT_OF_FILES:
            raise error
        self._complaints.warning(
            logger,
            "accept",
            "cannot accept connections: %s; raise the limit of open files (ulimit -n)",
            error,
        )
        listening.accepting = False
        for listener in listening.sockets:
            self._loop.remove_reader(listener)
        self._loop.call_later(_OUT_OF_FILES_PAUSE_S, self._resume_accepting)

    def _admit(self, listening: _Listening, arrived: _Accepted) -> None:
        accepted, host, port = arrived
        throttle_ms = self._quotas.ip_throttle_ms(listening.name, host)
        if throttle_ms:
            self._hold(accepted, host, throttle_ms)
            return
        if not self._quotas.admit(listening.name, host):
            accepted.close()
            self._complaints.warning(
                logger,
                ("per ip", host),
                "rejected a connection of %s, which has its maximum of %d",
                host,
                self._quotas.max_of(host),
            )
            return
        try:
            local = accepted.getsockname()
            accepted.setblocking(False)
            if not INHERITS_OPTIONS:
                set_options(accepted, self._settings.socket_send_buffer_bytes)
        except OSError:  # the client has gone already
            self._quotas.release(listening.name, host)
            accepted.close()
            return
        info = ConnectionInfo(
            connection_id=next(self._connection_ids),
            listener_name=listening.name,
            client_host=host,
            client_port=port,
            local_host=plain_address(local[0]),
            local_port=local[1],
            security_protocol=listening.security.security_protocol,
            principal=listening.security.initial_principal,
        )
        if not listening.security.begin_naming(info):
            self._quotas.release(listening.name, host)
            accepted.close()
            return
        connection = Connection(listening.context, info)
        self._connections.add(connection)
        self._sweep.watch(connection, self._loop.time())
        listening.probe.connections_created += 1
        security, probe = listening.security, listening.probe
        transport = security.transport(self._loop, accepted, info, probe)
        if security.sasl is None:
            connection.connection_made(transport)
        else:
            assert self.authentications is not None
            self.authentications.begin(connection, transport, security.sasl, probe)
        self._close_excess()

    def _hold(self, accepted: socket.socket, host: str, throttle_ms: int) -> None:
        """The address connects too fast: the connection is closed, but not at once."""
        self._complaints.warning(
            logger, ("ip rate", host), "rejected a connection of %s, which connects too fast", host
        )
        doomed = _Doomed(accepted, self._doomed)
        if len(self._doomed) > _MAX_HELD:
            doomed.expire()
        else:
            self._mutes.add(throttle_ms, doomed)

    def _close_excess(self) -> None:
        """Closes connections above max.connections, but none of the protected listener: logins that take long, then
        those that have been unused the longest.
        """
        excess = (
            self._quotas.excess - sum(one.closing for one in self._connections) if self._quotas.excess else 0
        )
        if excess <= 0:
            return
        others = [
            one
            for one in self._connections
            if not one.closing and not self._quotas.is_protected(one.info.listener_name)
        ]
        ordered = self._sweep.longest_unused(others)
        if self.authentications is not None:
            logins = set(self.authentications.begun_before(self._loop.time() - LOGIN_GRACE_S))
            ordered.sort(key=lambda one: one not in logins)
        for connection in ordered[:excess]:
            logger.info("closing a connection of %s: there are too many", connection.info.client_host)
            connection.close()

    # ---- looking after connections

    def _closed(self, connection: Connection) -> None:
        info = connection.info
        self._connections.discard(connection)
        self._sweep.forget(connection)
        if self.authentications is not None:
            self.authentications.forget(connection)
        self._probe.listener(info.listener_name).connections_closed += 1
        self._quotas.release(info.listener_name, info.client_host)
        self.connection_closed(info.connection_id)
        if not self._connections and self._all_closed is not None and not self._all_closed.done():
            self._all_closed.set_result(None)
        listening = self._listening.get(info.listener_name)
        if not self._stopping and listening is not None and not listening.accepting:
            self._resume_accepting()

    def _sweep_later(self) -> None:
        max_idle_s = self._settings.connections_max_idle_ms / 1000
        interval_s = min(SWEEP_INTERVAL_S, max_idle_s / 4) if max_idle_s >= 0 else SWEEP_INTERVAL_S
        if self.authentications is not None:
            interval_s = min(interval_s, self._settings.barnabas_authentication_timeout_ms / 4000)
        self._sweep_due = self._loop.time() + max(interval_s, _LEAST_SWEEP_INTERVAL_S)
        self._sweep_timer = self._loop.call_at(self._sweep_due, self._sweep_now)

    def _sweep_now(self) -> None:
        now = self._loop.time()
        self._pulse.ticked(self._sweep_due, now)
        self._sweep.sweep(now)
        if self.authentications is not None:
            self.authentications.sweep(now)
            self._resume_accepting()  # some may have become old enough to give way
        self._probe.sample(now)
        self._sweep_later()

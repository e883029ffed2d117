"""One client's connection: bytes in, requests to the handler, answers out in order, and no more of either than fits.

Reading stops while the client does not read its answers, while as many of its requests are in flight as may
be, and while the memory for requests is used up; what has been sent meanwhile waits in the sockets'
buffers, and in the end at the client.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.network.in_flight import Handler, InFlightRequests
from broker.network.request_memory import FREE_BYTES, RequestMemory
from broker.network.send_queue import RecordsGoneError, SendQueue
from broker.request import ConnectionInfo
from protocol.errors import ProtocolError
from protocol.framing import Framer

if TYPE_CHECKING:
    from broker.log_setup import RateLimit
    from broker.probes import ListenerProbe

logger = logging.getLogger("barnabas.network")


class ConnectionContext:
    """What all connections of one listener share."""

    __slots__ = ("call_soon", "closed", "complaints", "handle", "max_request_bytes", "memory", "probe")

    def __init__(
        self,
        *,
        handle: Handler,
        memory: RequestMemory,
        max_request_bytes: int,
        probe: ListenerProbe,
        complaints: RateLimit,
        call_soon: Callable[[Callable[[], None]], object],
        closed: Callable[[Connection], None],
    ) -> None:
        self.handle = handle
        self.memory = memory
        self.max_request_bytes = max_request_bytes
        self.probe = probe
        self.complaints = complaints
        self.call_soon = call_soon
        self.closed = closed


class Connection(asyncio.BufferedProtocol):
    """The protocol of one socket. SocketServer makes it and looks after it."""

    __slots__ = (
        "_charged",
        "_context",
        "_framer",
        "_memory",
        "_probe",
        "_reading",
        "_requests",
        "_scheduled",
        "_sending",
        "_transport",
        "_waits_for_memory",
        "active",
        "closing",
        "draining",
        "info",
    )

    def __init__(self, context: ConnectionContext, info: ConnectionInfo) -> None:
        self.info = info
        self.active = True  # something has arrived since SocketServer looked last
        self.closing = False
        self.draining = False
        self._context = context
        self._memory = context.memory
        self._probe = context.probe
        self._framer = Framer(context.max_request_bytes)
        self._requests = InFlightRequests(context.handle, info, context.memory, self._schedule)
        self._sending = SendQueue()
        self._transport: asyncio.Transport | None = None
        self._charged = 0  # bytes of an unfinished request, as the budget knows them
        self._reading = True
        self._scheduled = False
        self._waits_for_memory = False

    # ---- what SocketServer asks

    @property
    def unfinished_bytes(self) -> int:
        """Bytes held of a large request that the client has begun, if it is up to the client to go on."""
        return 0 if self._waits_for_memory else self._charged

    @property
    def backlog(self) -> int:
        """Requests that have arrived and wait to be handled."""
        return self._requests.backlog

    @property
    def idle(self) -> bool:
        """Nothing waits to be handled, answered or sent."""
        return self._requests.idle and not self._sending

    @property
    def waits_for_peer(self) -> bool:
        """Whatever comes next has to come from the client: another request, or room for answers."""
        return not self._waits_for_memory and (self.idle or not self._requests.writable)

    def drain(self) -> None:
        """Takes no more requests, and closes once those that are here have been answered."""
        self.draining = True
        self._proceed()

    def close(self) -> None:
        """Closes behind what the transport has been given already."""
        self.closing = True
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Closes at once."""
        self.closing = True
        if self._transport is not None:
            self._transport.abort()

    # ---- what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # of a stream socket, so an asyncio.Transport
        if self.draining or self.closing:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        self._transport = None
        self._requests.abandon()
        self._sending.clear()
        self._charge_unfinished(0)
        self._context.closed(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._memory.window

    def buffer_updated(self, nbytes: int) -> None:
        self.active = True
        self._probe.bytes_in += nbytes
        framer = self._framer
        frames: list[bytes] = []
        try:
            try:
                framer.feed(self._memory.buffer[:nbytes], frames)
            finally:
                self._requests.receive(frames)
        except Exception as error:
            self._end_with(error)
            return
        if framer.buffered or self._charged:
            self._charge_unfinished(framer.buffered)
        self._flush()

    def pause_writing(self) -> None:
        self._requests.writable = False
        self._regulate()

    def resume_writing(self) -> None:
        self._requests.writable = True
        self._schedule()

    # ---- the way through

    def memory_available(self) -> None:
        """The budget has room again; RequestMemory says so to one connection after the other."""
        self._waits_for_memory = False
        self._regulate()

    def _schedule(self) -> None:
        """Goes on soon: never from within the handler that happened to complete one of our requests."""
        if not self._scheduled:
            self._scheduled = True
            self._context.call_soon(self._proceed)

    def _proceed(self) -> None:
        self._scheduled = False
        if self.closing:
            return
        try:
            self._requests.proceed()
        except Exception as error:
            self._end_with(error)
            return
        self._flush()

    def _flush(self) -> None:
        """Sends what can be sent, and reads on or stops reading, whichever is due."""
        try:
            self._send()
        except (RecordsGoneError, OSError):
            logger.exception("closing the connection of %s in the middle of an answer", self._peer())
            self.abort()
            return
        self._regulate()

    def _send(self) -> None:
        transport = self._transport
        requests = self._requests
        if transport is None:
            return
        if requests.output:
            if not requests.output_has_records and not self._sending:
                data = b"".join(requests.take_output())  # type: ignore[arg-type]  # bytes: no records among them
                self._probe.bytes_out += len(data)
                transport.write(data)
                return
            self._sending.put(requests.take_output())
        while self._sending and requests.writable:
            pieces = self._sending.take()
            self._probe.bytes_out += sum(map(len, pieces))
            transport.writelines(pieces)

    def _regulate(self) -> None:
        """Reads as long as what is read can be handled, and closes when nothing is left to be done."""
        requests = self._requests
        transport = self._transport
        if transport is None or self.closing:
            return
        if requests.hang_up or (self.draining and self.idle):
            self.close()
            return
        stop = requests.saturated
        if requests.backlog:
            if not stop:
                self._schedule()
            stop = True
        reading = not (stop or self._waits_for_memory or self.draining)
        if reading is not self._reading:
            self._reading = reading
            if reading:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def _charge_unfinished(self, buffered: int) -> None:
        """Tells the budget how much an unfinished request holds, unless it is small."""
        held = buffered if buffered > FREE_BYTES else 0
        change = held - self._charged
        self._charged = held
        if change > 0:
            self._memory.charge(change)
        elif change < 0:
            self._memory.release(-change)
        if held:
            self._waits_for_memory = not self._memory.may_read(self)
        elif change:
            self._waits_for_memory = False
            self._memory.leave(self)

    def _end_with(self, error: Exception) -> None:
        """Closes because of `error`, behind the answers to what came before; only this connection is concerned."""
        if isinstance(error, ProtocolError):
            self._context.complaints.warning(
                logger, self.info.client_host, "closing the connection of %s: %s", self._peer(), error
            )
        else:
            logger.error("a bug: closing the connection of %s", self._peer(), exc_info=error)
        self._requests.hang_up = True
        self._flush()

    def _peer(self) -> str:
        return f"{self.info.client_host}:{self.info.client_port}"

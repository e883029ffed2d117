"""One client's connection: bytes in, requests to the handler, answers out in order, and no more of either than fits.

Reading stops while the client does not read its answers, while one of its requests has to wait for the answer to an
earlier one (`request_order`), while as many are in flight as may be, and while the memory for requests is used up; what
has been sent meanwhile waits in the sockets' buffers, and in the end at the client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.broker.network.in_flight import Handler, InFlightRequests
from barnabas.broker.network.request_memory import FREE_BYTES, RequestMemory
from barnabas.broker.network.send_queue import RecordsGoneError, SendQueue
from barnabas.broker.network.transport import Transport
from barnabas.broker.request import ConnectionInfo
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import Frame, Framer

if TYPE_CHECKING:
    from barnabas.broker.logging.setup import RateLimit
    from barnabas.broker.probes import ListenerProbe

logger = logging.getLogger("barnabas.network")

ANSWERED_FIRST: Final = 8
"""How many others are answered at once when a request has completed theirs, before it is answered itself."""


class ConnectionContext:
    """What all connections of one listener share."""

    __slots__ = (
        "call_soon",
        "closed",
        "complaints",
        "completed",
        "handle",
        "is_handling",
        "max_request_bytes",
        "memory",
        "probe",
    )

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
        self.is_handling = False
        """Requests that one of the connections has received are being handled."""
        self.completed: list[Connection] = []
        """Whose requests have been completed meanwhile: they go on when that is done."""

    def go_on(self) -> None:
        """Answers those who were waiting for what has been handled now.

        They come first, and at once: a consumer has waited for the records for longer than their producer, who would
        keep the processor busy with his acknowledgement. Where they are many they must not keep him waiting, though.
        """
        completed, self.completed = self.completed, []
        for connection in completed[ANSWERED_FIRST:]:
            self.call_soon(connection.proceed)
        for connection in completed[:ANSWERED_FIRST]:
            connection.proceed()


class Connection:
    """One client. SocketServer makes it and looks after it; its Transport calls `readable` and `writable`."""

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
        self.active = True  # something has arrived, or gone out, since SocketServer looked last
        self.closing = False
        self.draining = False
        self._context = context
        self._memory = context.memory
        self._probe = context.probe
        self._framer = Framer(context.max_request_bytes, context.memory.frame_buffers.take)
        self._requests = InFlightRequests(context.handle, info, context.memory, self._schedule)
        self._sending = SendQueue()
        self._transport: Transport | None = None
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
        self.proceed()

    def close(self) -> None:
        """Closes behind what is being sent already."""
        self.closing = True
        transport = self._transport
        if transport is None:
            return
        if not self._sending:
            self.lost()
        elif self._reading:
            self._reading = False
            transport.pause_reading()

    def abort(self) -> None:
        """Closes at once."""
        self.closing = True
        self.lost()

    # ---- what the transport calls

    def connection_made(self, transport: Transport) -> None:
        self._transport = transport
        if self.draining or self.closing:
            self.close()
        else:
            transport.start(self)

    def lost(self) -> None:
        """The connection has ended, on whichever side."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        self.closing = True
        transport.close()
        self._requests.abandon()
        self._sending.clear()
        self._framer.forget()
        self.info.cached_headers.clear()  # they refer to it; nothing is left for the garbage collector
        self._charge_unfinished(0)
        self._context.closed(self)

    def readable(self) -> None:
        framer = self._framer
        window = self._memory.window
        rest = framer.rest  # of a large request, which is read to where it stays
        target = window if rest is None else rest[: len(window)]
        size = self._receive(target)
        if not size:
            return
        frames: list[Frame] = []
        if rest is not None:
            framer.filled(size, frames)
            if not frames:  # it goes on; nothing else has changed
                self._charge_unfinished(framer.buffered)
                if self._waits_for_memory:
                    self._regulate()
                return
        context = self._context
        context.is_handling = True
        try:
            try:
                if rest is None:
                    framer.feed(target[:size], frames)
            finally:
                self._requests.receive(frames)
        except Exception as error:
            self._end_with(error)
            return
        finally:
            context.is_handling = False
            if context.completed:
                context.go_on()
        if framer.started or self._charged:
            self._charge_unfinished(framer.buffered)
        self._flush()

    def _receive(self, target: memoryview) -> int:
        """How many bytes have been read into `target`; 0 if there are none, or no more will come."""
        transport = self._transport
        if transport is None:
            return 0
        try:
            size = transport.receive_into(target)
        except (BlockingIOError, InterruptedError):
            return 0
        except OSError:
            self.lost()
            return 0
        if not size:
            self.close()
            return 0
        self.active = True
        self._probe.bytes_in += size
        return size

    def writable(self) -> None:
        self._flush()
        if self.closing and not self._sending:
            self.lost()

    # ---- the way through

    def memory_available(self) -> None:
        """The budget has room again; RequestMemory says so to one connection after the other."""
        self._waits_for_memory = False
        self._regulate()

    def _schedule(self) -> None:
        """Goes on soon: never from within the handler that happened to complete one of our requests."""
        if self._scheduled:
            return
        self._scheduled = True
        context = self._context
        if context.is_handling:
            context.completed.append(self)
        else:
            context.call_soon(self.proceed)

    def proceed(self) -> None:
        """Handles what had to wait, and sends what can be sent."""
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
        requests = self._requests
        try:
            if self._sending:
                self._send_on()
            elif requests.output:
                self._send()
        except RecordsGoneError:
            logger.exception("closing the connection of %s in the middle of an answer", self._peer())
            self.abort()
            return
        except OSError:  # the client has gone
            self.lost()
            return
        except Exception:
            logger.exception("a bug: closing the connection of %s in the middle of an answer", self._peer())
            self.abort()
            return
        if not self._reading or self._waits_for_memory or self.draining or not requests.calm:
            self._regulate()

    def _send(self) -> None:
        """Sends answers while nothing else waits to be sent: small ones by one call."""
        requests = self._requests
        transport = self._transport
        if transport is None:
            return
        if requests.output_has_records:
            self._sending.put(requests.take_output())
            self._send_on()
            return
        data = b"".join(requests.take_output())  # type: ignore[arg-type]  # bytes: no records among them
        try:
            sent = transport.send(data)
        except (BlockingIOError, InterruptedError):
            sent = 0
        if sent:
            self.active = True
            self._probe.bytes_out += sent
        if sent < len(data):
            self._sending.put((memoryview(data)[sent:],))
            self._wait_for_room(transport)

    def _send_on(self) -> None:
        """Sends what waits and what has come behind it."""
        requests = self._requests
        transport = self._transport
        if transport is None:
            return
        sending = self._sending
        if requests.output:
            sending.put(requests.take_output())
        sent = sending.send(transport)
        if sent:
            self.active = True
            self._probe.bytes_out += sent
        if sending:
            self._wait_for_room(transport)
        elif not requests.writable:
            requests.writable = True
            transport.ignore_writable()

    def _wait_for_room(self, transport: Transport) -> None:
        """No more requests are handled until what is being sent has gone."""
        if self._requests.writable:
            self._requests.writable = False
            transport.watch_writable()

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
            if requests.can_proceed:
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
        self._requests.end()
        self._flush()

    def _peer(self) -> str:
        return f"{self.info.client_host}:{self.info.client_port}"

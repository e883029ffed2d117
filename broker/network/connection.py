"""One client's connection: reads requests, passes them to the handler and sends responses in order, within limits.

Reading stops while the client does not read its responses, while one of its requests has to wait for the response to an
earlier one (`request_order`), while too many are in flight, while the memory for requests is used up, and while a quota
throttles the client (`muting`). Further requests wait in the sockets' buffers, and in the end at the client.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.broker.network.in_flight import Handler, InFlightRequests, MeteredAnswer
from barnabas.broker.network.muting import Mute
from barnabas.broker.network.request_memory import FREE_BYTES, RequestMemory
from barnabas.broker.network.send_queue import RecordsGoneError, SendQueue
from barnabas.broker.network.transport import Transport
from barnabas.broker.request import ConnectionInfo
from barnabas.broker.waiting.timer import DeadlineQueue
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.framing import Frame, Framer

if TYPE_CHECKING:
    from barnabas.broker.logging.setup import RateLimit
    from barnabas.broker.probes import ListenerProbe

logger = logging.getLogger("barnabas.network")

ANSWERED_FIRST: Final = 8
"""How many requests of others are answered before the request that completed them."""


class ConnectionContext:
    """Shared by all connections of one listener."""

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
        mutes: DeadlineQueue | None = None,
    ) -> None:
        """`mutes` is None where no handler throttles."""
        self.handle = handle
        self.memory = memory
        self.max_request_bytes = max_request_bytes
        self.probe = probe
        self.complaints = complaints
        self.call_soon = call_soon
        self.closed = closed
        self.mutes = mutes
        self.is_handling = False
        """Requests that one of the connections has received are being handled."""
        self.completed: list[Connection] = []
        """Connections whose requests were completed meanwhile; they proceed when the handling is done."""

    def proceed_completed(self) -> None:
        """Answers the requests that the ones handled now have completed.

        They come first: a consumer has waited for the records for longer than their producer, whose acknowledgement
        would keep the processor busy. The number is limited, so that the producer does not wait for many of them.
        """
        completed, self.completed = self.completed, []
        for connection in completed[ANSWERED_FIRST:]:
            self.call_soon(connection.proceed)
        for connection in completed[:ANSWERED_FIRST]:
            connection.proceed()


class Connection:
    """One client. SocketServer creates and sweeps it; its Transport calls `readable` and `writable`."""

    __slots__ = (
        "_charged",
        "_context",
        "_framer",
        "_has_filled_window",
        "_memory",
        "_mute",
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
        self.active = True  # bytes were received or sent since the last sweep
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
        self._mute: Mute | None = None
        self._has_filled_window = False  # the last read left bytes unread, perhaps

    # ---- what SocketServer asks

    @property
    def unfinished_bytes(self) -> int:
        """Bytes held of a large request that the client has begun; 0 while the broker makes it wait."""
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
        """Only the client can act next: send another request, or read its responses. Or it is throttled."""
        requests = self._requests
        return not self._waits_for_memory and (self.idle or not requests.writable or requests.muted)

    def drain(self) -> None:
        """Takes no more requests, and closes after the responses to those in flight."""
        self.draining = True
        self.proceed()

    def close(self) -> None:
        """Closes after the responses that are being sent."""
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
        self.attach(transport)
        self.begin()

    def attach(self, transport: Transport) -> None:
        """The transport is that of this connection, which closes it; another endpoint reads from it until `begin`."""
        self._transport = transport

    def begin(self) -> None:
        """Handles requests from now on."""
        transport = self._transport
        if transport is None:
            return
        if self.draining or self.closing:
            self.close()
        else:
            transport.start(self)

    def lost(self) -> None:
        """The connection has ended, on either side."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        self.closing = True
        transport.close()
        self._requests.abandon()
        self._sending.clear()
        self._framer.forget()
        if self._mute is not None:
            self._mute.end()
        self.info.cached_headers.clear()  # they refer to the info, and need no garbage collection then
        self._charge_unfinished(0)
        self._context.closed(self)

    def readable(self) -> None:
        framer = self._framer
        window = self._memory.window
        rest = framer.rest  # of a large request, which is read into its final place
        target = window if rest is None else rest[: len(window)]
        size = self._receive(target)
        if not size:
            return
        frames: list[Frame] = []
        if rest is not None:
            framer.filled(size, frames)
            if not frames:  # it is still unfinished; nothing else has changed
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
                context.proceed_completed()
        if framer.started or self._charged:
            self._charge_unfinished(framer.buffered)
        self._flush()

    def read_on(self) -> None:
        """For a connection that is not active: reads what the last read may have left, until nothing is left.

        libuv stops watching a socket after it has reported an error once, as for a reset, whatever came before that.
        """
        if self._has_filled_window and self._reading:
            self.readable()
            self._has_filled_window = self.active

    def _receive(self, target: memoryview) -> int:
        """Reads into `target` and returns how many bytes; 0 for none, or at the end."""
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
        self._has_filled_window = size == len(target)
        self._probe.bytes_in += size
        return size

    def writable(self) -> None:
        self._flush()
        if self.closing and not self._sending:
            self.lost()

    # ---- handling

    def memory_available(self) -> None:
        """RequestMemory calls this on one connection after the other when the budget has room again."""
        self._waits_for_memory = False
        self._regulate()

    def _schedule(self) -> None:
        """Proceeds soon: never from within the handler that completed one of this connection's requests."""
        if self._scheduled:
            return
        self._scheduled = True
        context = self._context
        if context.is_handling:
            context.completed.append(self)
        else:
            context.call_soon(self.proceed)

    def proceed(self) -> None:
        """Handles requests that had to wait, and sends the responses that are due."""
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
        """Sends the responses that are due, and resumes or stops reading."""
        requests = self._requests
        meter = requests.meter
        if meter is not None:
            requests.meter = None
            began = meter.now()
            self._flush()
            meter.used_network(meter.now() - began)
            return
        try:
            if self._sending:
                self._send_on()
            elif requests.output:
                self._send()
        except RecordsGoneError:
            logger.exception("closing the connection of %s in the middle of a response", self._peer())
            self.abort()
            return
        except OSError:  # the client has gone
            self.lost()
            return
        except Exception:
            logger.exception("a bug: closing the connection of %s in the middle of a response", self._peer())
            self.abort()
            return
        if not self._reading or self._waits_for_memory or self.draining or not requests.calm:
            self._regulate()

    def _send(self) -> None:
        """Sends responses while none waits to be sent: small ones by one call."""
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
        """Sends the waiting responses and those behind them."""
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
        """Handles no more requests until the responses are sent."""
        if self._requests.writable:
            self._requests.writable = False
            transport.watch_writable()

    def _regulate(self) -> None:
        """Reads while requests can be handled, and closes a connection that has nothing left to do."""
        requests = self._requests
        transport = self._transport
        if transport is None or self.closing:
            return
        if requests.closes or (self.draining and (self.idle or requests.muted)):
            self.close()
            return
        if requests.throttled is not None:
            self._begin_mute(requests.throttled)
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

    def _begin_mute(self, throttled: MeteredAnswer) -> None:
        """Handles and reads nothing for the time that the response says."""
        queue = self._context.mutes
        assert queue is not None, "a client is throttled, and nothing would end that"
        self._requests.throttled = None
        if self._mute is not None:
            self._mute.end()
        self._mute = Mute(throttled.meter, self._unmute)
        queue.add(throttled.mute_ms, self._mute)

    def _unmute(self) -> None:
        self._mute = None
        self._requests.muted = False
        self._regulate()

    def _charge_unfinished(self, buffered: int) -> None:
        """Charges the budget with the bytes of an unfinished request, unless it is small."""
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
        """Closes this connection because of `error`, after the responses to earlier requests."""
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

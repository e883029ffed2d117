"""The requests of one connection between arrival and answer: handled in order, answered in order.

A request is handled when the responses to those in front of it are on their way to the client, so that its response
never shows a state older than theirs; `request_order` has the few exceptions, which overlap. No sockets here: frames
go in, chunks for the wire come out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice
from typing import Protocol, TypeAlias

from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.network.request_order import may_overlap, overlapping_api
from barnabas.broker.pending import Pending
from barnabas.broker.request import CLOSE_CONNECTION, NO_RESPONSE, ConnectionInfo, NoResponse
from barnabas.protocol.framing import Frame, size_prefix
from barnabas.protocol.wire import Chunk


class ConnectionMeter(Protocol):
    """Where the sending of a response is charged: quotas.request_meter.RequestMeter. Times in seconds."""

    def now(self) -> float: ...
    def used_network(self, seconds: float) -> None: ...
    def unmuted(self) -> None: ...


class MeteredAnswer:
    """The answer to a request of a client that has quotas, now or later.

    Such requests are handled one at a time. After a response with a `mute_ms` the connection is not read for so long.
    """

    __slots__ = ("answer", "meter", "mute_ms")

    def __init__(
        self,
        answer: list[Chunk] | NoResponse | Pending[list[Chunk] | NoResponse | MeteredAnswer],
        meter: ConnectionMeter,
        mute_ms: int = 0,
    ) -> None:
        self.answer = answer
        self.meter = meter
        self.mute_ms = mute_ms


Response: TypeAlias = list[Chunk] | NoResponse | MeteredAnswer
Answer: TypeAlias = Response | Pending[Response]
"""The result of a handler: the response, now or later."""

Handler: TypeAlias = Callable[[ConnectionInfo, Frame], Answer]
"""Answers one request, given as its frame: KafkaApis.handle. An exception closes the connection."""

MAX_IN_FLIGHT_REQUESTS = 100
"""Requests of one connection that may wait for responses; also how many are handled before others get a turn."""

MAX_UNSENT_BYTES = 1024 * 1024
"""Bytes of unsent responses, without records on the disk, above which a connection's further requests wait."""


def _ignore_ready() -> None:
    """The `ready` of a connection that is gone."""


class _Slot:
    """The place of a request whose response is pending, or waits behind others."""

    __slots__ = ("answer", "closes", "in_flight", "memory", "request_bytes")

    def __init__(self, in_flight: InFlightRequests, request_bytes: int) -> None:
        self.in_flight = in_flight
        self.request_bytes = request_bytes
        self.answer: list[Chunk] | None = None
        self.closes = False  # the connection is closed in place of a response
        self.memory = 0

    def complete(self, answer: Response) -> None:
        if isinstance(answer, MeteredAnswer):
            unwrapped = self.in_flight._unwrap(answer)
            assert not isinstance(unwrapped, Pending), "a result that is still pending"
            self.complete(unwrapped)
            return
        if answer is CLOSE_CONNECTION:
            self.closes = True
            self.answer = []
        else:
            self.answer = [] if isinstance(answer, NoResponse) else answer
        self.in_flight._completed(self)


class InFlightRequests:
    """Handles frames as far as the limits allow; `output` collects responses that can be sent.

    `ready` is called when a pending request at the head of the line completes, never from within `receive`
    or `proceed`: their caller sends `output` anyway. `writable` is False while the peer does not read:
    nothing more is handled then. `closes` becomes True when the connection has to be closed after `output`.

    While clients have quotas: `muted` is True until the connection sets it to False, when the time of `throttled`,
    which it takes out, is over; nothing is handled meanwhile. `meter` is charged with the sending of the output.
    """

    __slots__ = (
        "_backlog",
        "_charged",
        "_ending",
        "_handle",
        "_handling",
        "_info",
        "_memory",
        "_output_memory",
        "_overlapping_api",
        "_ready",
        "_slots",
        "_waiting_memory",
        "closes",
        "meter",
        "muted",
        "output",
        "output_has_records",
        "throttled",
        "writable",
    )

    def __init__(
        self, handle: Handler, info: ConnectionInfo, memory: RequestMemory, ready: Callable[[], None]
    ) -> None:
        self._handle = handle
        self._info = info
        self._memory = memory
        self._ready = ready
        self._slots: deque[_Slot] = deque()
        self._backlog: deque[Frame] = deque()
        self._overlapping_api: bytes | None = None  # of the requests that wait; see request_order
        self._ending = False  # the connection is to be closed behind the requests that wait
        self._charged = 0  # bytes of requests that wait, as the budget knows them
        self._waiting_memory = 0  # bytes of answers that wait behind others
        self._output_memory = 0
        self._handling = False
        self.output: list[Chunk] = []
        self.output_has_records = False
        self.writable = True
        self.closes = False
        self.muted = False
        self.throttled: MeteredAnswer | None = None
        self.meter: ConnectionMeter | None = None

    @property
    def idle(self) -> bool:
        """Nothing waits to be handled, answered or sent."""
        return not (self._slots or self._backlog or self.output)

    @property
    def backlog(self) -> int:
        """Requests that have arrived and have not been handled. No more should be read meanwhile."""
        return len(self._backlog)

    @property
    def calm(self) -> bool:
        """Nothing waits, the next request can be handled and the connection stays open: the usual state."""
        return self.writable and not (self._slots or self._backlog or self.closes or self.muted)

    @property
    def saturated(self) -> bool:
        """No request would be handled now, of whatever API."""
        return (
            len(self._slots) >= MAX_IN_FLIGHT_REQUESTS
            or self._output_memory + self._waiting_memory >= MAX_UNSENT_BYTES
            or not self.writable
            or self._ending
            or self.closes
            or self.muted
        )

    @property
    def can_proceed(self) -> bool:
        """Requests of the backlog would be handled now."""
        backlog = self._backlog
        return (
            bool(backlog)
            and not self.saturated
            and (not self._slots or may_overlap(backlog[0], self._overlapping_api))
        )

    def receive(self, frames: list[Frame]) -> None:
        """Adds requests that have arrived. Raises what the handler raises; the connection has to close then."""
        done = 0 if self._backlog or self.muted else self._handle_some(frames)
        if done < len(frames):
            for frame in islice(frames, done, None):
                self._backlog.append(frame)
                self._charge(len(frame))

    def proceed(self) -> None:
        """Handles requests that had to wait, as far as the limits allow. Raises as `receive` does."""
        backlog = self._backlog
        if backlog and not self.muted:
            done = self._handle_some(list(islice(backlog, MAX_IN_FLIGHT_REQUESTS)))
            for _ in range(done):
                self._charge(-len(backlog.popleft()))

    def end(self) -> None:
        """Handles nothing more, and closes the connection after the pending responses."""
        if not self._slots:
            self._close_after_output()
        elif not self._ending:
            self._file(CLOSE_CONNECTION, 0)

    def take_output(self) -> list[Chunk]:
        """Returns the responses that can be sent now, in order, and forgets them."""
        output, self.output = self.output, []
        self.output_has_records = False
        self._output_memory = 0
        return output

    def abandon(self) -> None:
        """The connection is gone: forgets everything; later responses are dropped."""
        self._slots.clear()
        self._backlog.clear()
        self.take_output()
        self._charge(-self._charged)
        self.closes = True
        self.meter = None
        if self.throttled is not None:
            self.throttled.meter.unmuted()
            self.throttled = None
        self._ready = (
            _ignore_ready  # the connection and this refer to each other, and need not wait for the collector
        )

    def _handle_some(self, frames: list[Frame]) -> int:
        """Handles `frames` until a limit is met; returns how many."""
        slots = self._slots
        if (slots or self.output or not self.writable or self.closes) and self.saturated:
            return 0
        handle = self._handle
        info = self._info
        done = 0
        self._handling = True
        try:
            for frame in frames[:MAX_IN_FLIGHT_REQUESTS]:
                if slots and not may_overlap(frame, self._overlapping_api):
                    break
                answer = handle(info, frame)
                done += 1
                if answer.__class__ is list and not slots:  # by far the most frequent case
                    self._emit(answer)
                else:
                    if not slots:
                        self._overlapping_api = overlapping_api(frame)
                    self._file(answer, len(frame))
                    if self.muted:
                        break
                if self._output_memory >= MAX_UNSENT_BYTES or (slots and self.saturated) or self.closes:
                    break
        finally:
            self._handling = False
        return done

    def _file(self, answer: Answer, request_bytes: int) -> None:
        """Files any result but a response that can be sent at once."""
        if isinstance(answer, MeteredAnswer):
            self._overlapping_api = None
            answer = self._unwrap(answer)
            if isinstance(answer, list) and not self._slots:
                self._emit(answer)
                return
        if answer is NO_RESPONSE:
            return
        if answer is CLOSE_CONNECTION:
            self._ending = True
        slot = _Slot(self, request_bytes)
        self._slots.append(slot)
        self._charge(request_bytes)
        if isinstance(answer, Pending):
            answer.add_done_callback(slot.complete)
        else:
            slot.complete(answer)

    def _unwrap(
        self, metered: MeteredAnswer
    ) -> list[Chunk] | NoResponse | Pending[list[Chunk] | NoResponse | MeteredAnswer]:
        """What is answered, and when; notes who pays for sending it, and whether the client is throttled."""
        if self.closes:  # the connection is gone, or about to be
            metered.meter.unmuted()
            return metered.answer
        self.meter = metered.meter
        if metered.mute_ms:
            # Two requests may both be throttled that overlapped before their client had a quota: the last one counts,
            # since its time was measured after the others.
            if self.throttled is not None:
                self.throttled.meter.unmuted()
            self.muted = True
            self.throttled = metered
        return metered.answer

    def _completed(self, slot: _Slot) -> None:
        slots = self._slots
        if not slots:
            return  # the connection is gone
        assert slot.answer is not None
        self._charge(-slot.request_bytes)
        slot.memory = sum(len(chunk) for chunk in slot.answer if isinstance(chunk, (bytes, memoryview)))
        self._waiting_memory += slot.memory
        if slots[0] is not slot:
            return
        while slots and (answer := slots[0].answer) is not None:
            first = slots.popleft()
            self._waiting_memory -= first.memory
            if answer:  # and not NO_RESPONSE
                self._emit(answer)
            if first.closes:
                self._close_after_output()
        if not self._handling:
            self._ready()

    def _close_after_output(self) -> None:
        """Closes after `output`, since pending responses would come out of order; abandon() releases their memory."""
        self.closes = True
        self._slots.clear()

    def _emit(self, chunks: list[Chunk]) -> None:
        """Appends a response to `output`, with its size in front."""
        memory = 0
        on_disk = 0
        for chunk in chunks:
            if chunk.__class__ is bytes or isinstance(chunk, (bytes, memoryview)):  # as a rule the former
                memory += len(chunk)
            else:
                on_disk += chunk.size
                self.output_has_records = True
        output = self.output
        output.append(size_prefix(memory + on_disk))
        output += chunks
        self._output_memory += memory

    def _charge(self, size: int) -> None:
        """Charges the budget with `size` bytes that requests of this connection hold (negative: releases them)."""
        self._charged += size
        if size > 0:
            self._memory.charge(size)
        elif size:
            self._memory.release(-size)

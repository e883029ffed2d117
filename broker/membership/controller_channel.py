"""ControllerChannel: requests to the active controller of the cluster, whichever node that is.

Requests wait in a queue; one is under way at a time.

    what happens to the request under way     | what follows
    ------------------------------------------+--------------------------------------------------------------------
    a response                                | it goes to the caller
    a response that contains NOT_CONTROLLER   | the connection is closed, the request is the first to be sent again
    the connection is lost, or no response    | the request is the first to be sent again
    no version in common, or garbage          | the error goes to the caller

A request that is sent again after its connection was lost may be carried out twice: the controller's requests are made
for that. While no controller is known it is looked for every 100 ms, or when `controller_changed` is called.
Source: kafka.server.NodeToControllerChannelManager, NodeToControllerRequestThread.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, Protocol

from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import (
    NodeChannel,
    NodeClientError,
    NodeUnavailable,
    ResponseCorrupt,
    UnsupportedVersion,
)
from barnabas.broker.pending import Pending
from barnabas.broker.waiting.timer import DeadlineQueue, Timer, TimerHandle
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.schema import Message, VersionRange

logger = logging.getLogger("barnabas.membership")

LOOK_AGAIN_MS: Final = 100
"""How often a controller is looked for that is not known."""
RETRY_BACKOFF_MS: Final = 50
"""How long a request waits before it is sent to the same node again."""


class DeadlineExpired(NamedTuple):
    """The request was not answered by its deadline; it may have been carried out all the same."""

    reason: str


class ChannelClosed(NamedTuple):
    """The channel was closed: this broker stops."""

    reason: str


ChannelError = DeadlineExpired | ChannelClosed | UnsupportedVersion | ResponseCorrupt


class ControllerConnection(NodeChannel, Protocol):
    """A NodeChannel that also knows which versions the node serves: NodeClient."""

    @property
    def is_connected(self) -> bool: ...

    def served(self, key: int) -> VersionRange | None:
        """The versions of an API that the node serves; None where it does not, or is not connected."""


class Submit(Protocol):
    """ControllerChannel.submit, as users of a channel need it."""

    def __call__(
        self,
        request: Message,
        *,
        deadline_ms: int | None = None,
        version: int | None = None,
        sent: Callable[[], object] | None = None,
    ) -> Pending[Message | ChannelError]: ...


class _Item:
    """A request that waits or is under way."""

    __slots__ = ("_expired", "is_completed", "is_overdue", "pending", "request", "sent", "version")

    def __init__(
        self,
        request: Message,
        version: int | None,
        expired: Callable[[_Item], None],
        sent: Callable[[], object] | None,
    ) -> None:
        self.request = request
        self.version = version
        self.sent = sent
        self.pending: Pending[Message | ChannelError] = Pending()
        self.is_completed = False
        self.is_overdue = False
        self._expired = expired

    def complete(self, result: Message | ChannelError) -> None:
        self.is_completed = True
        self.pending.complete(result)

    def expire(self) -> None:
        self._expired(self)


class ControllerChannel:
    """A queue of requests to the active controller. Lives on the event loop."""

    def __init__(
        self,
        controller: Callable[[], NodeAddress | None],
        connect: Callable[[NodeAddress], ControllerConnection],
        timer: Timer,
        *,
        request_timeout_ms: int = 30_000,
    ) -> None:
        """`controller` is the active controller as far as this node knows, `connect` makes a connection of this
        channel alone; a request under way for longer than `request_timeout_ms` is sent again."""
        self._controller = controller
        self._connect = connect
        self._timer = timer
        self._request_timeout_ms = request_timeout_ms
        self._queue: deque[_Item] = deque()
        self._under_way: _Item | None = None
        self._deadlines = DeadlineQueue(timer)
        self._address: NodeAddress | None = None
        self._connection: ControllerConnection | None = None
        self._next_look: TimerHandle | None = None
        self._is_closed = False

    # -- for callers --

    def submit(
        self,
        request: Message,
        *,
        deadline_ms: int | None = None,
        version: int | None = None,
        sent: Callable[[], object] | None = None,
    ) -> Pending[Message | ChannelError]:
        """Sends `request` when it is its turn, in `version`, by default in the newest that both nodes know.

        With a deadline (in ms from now) it is sent as long as that is not over; else until there is a response. `sent`
        is called each time that it is sent.
        """
        item = _Item(request, version, self._expired, sent)
        if self._is_closed:
            item.complete(ChannelClosed("this broker stops"))
            return item.pending
        if deadline_ms is not None:
            self._deadlines.add(deadline_ms, item)
        self._queue.append(item)
        self._send_next()
        return item.pending

    def served(self, key: int) -> VersionRange | None:
        """The versions of an API that the controller serves; None where it does not serve it. See `is_connected`."""
        return None if self._connection is None else self._connection.served(key)

    @property
    def is_connected(self) -> bool:
        """Whether it is known which versions the controller serves."""
        return self._connection is not None and self._connection.is_connected

    @property
    def queue_length(self) -> int:
        """The requests that wait."""
        return len(self._queue)

    def controller_changed(self) -> None:
        """Another controller is known, or none: does not wait for an answer of the one before."""
        if self._address is not None and self._controller() != self._address:
            self._disconnect()
        self._look()

    def close(self) -> None:
        """Closes the connection; what waits or is under way completes with ChannelClosed."""
        self._is_closed = True
        abandoned = [*([self._under_way] if self._under_way is not None else []), *self._queue]
        self._under_way = None
        self._queue.clear()
        self._deadlines.clear()
        if self._next_look is not None:
            self._next_look.cancel()
        self._disconnect()
        for item in abandoned:
            item.complete(ChannelClosed("this broker stops"))

    # -- sending --

    def _send_next(self) -> None:
        if self._under_way is not None or not self._queue or self._next_look is not None:
            return
        address = self._controller()
        if address is None:
            self._look_in(LOOK_AGAIN_MS)
            return
        connection = self._connection_to(address)
        item = self._under_way = self._queue.popleft()
        if item.sent is not None:
            item.sent()
        sent = connection.send(item.request, version=item.version, timeout_ms=self._request_timeout_ms)
        sent.add_done_callback(partial(self._responded, item))

    def _connection_to(self, address: NodeAddress) -> ControllerConnection:
        if self._connection is None or address != self._address:
            self._disconnect()
            logger.info("the controller is at %s", address)
            self._address, self._connection = address, self._connect(address)
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection, self._address = self._connection, None, None
        if connection is not None:
            connection.close()

    def _look_in(self, delay_ms: int) -> None:
        if self._next_look is None and not self._is_closed:
            self._next_look = self._timer.call_at(self._timer.time() + delay_ms / 1000, self._look)

    def _look(self) -> None:
        handle, self._next_look = self._next_look, None
        if handle is not None:
            handle.cancel()
        self._send_next()

    # -- results --

    def _responded(self, item: _Item, result: Message | NodeClientError) -> None:
        if self._under_way is not item:
            return  # the channel was closed
        self._under_way = None
        if isinstance(result, NodeUnavailable):
            logger.debug("%s will be sent again: %s", type(item.request).__name__, result.reason)
            self._put_back(item)
        elif isinstance(result, Message) and is_not_controller(result):
            logger.debug("%s is not the controller any more", self._address)
            self._disconnect()
            self._put_back(item)
        else:
            self._send_next()
            item.complete(result)

    def _put_back(self, item: _Item) -> None:
        self._look_in(RETRY_BACKOFF_MS)
        if item.is_overdue:
            self._give_up(item)
        else:
            self._queue.appendleft(item)

    def _expired(self, item: _Item) -> None:
        if item is self._under_way:
            item.is_overdue = True
        else:
            self._queue.remove(item)
            self._give_up(item)

    @staticmethod
    def _give_up(item: _Item) -> None:
        name = type(item.request).__name__
        item.complete(DeadlineExpired(f"the controller could not be asked in time: {name}"))


def is_not_controller(response: Message) -> bool:
    """Whether the node answers that it is not the controller, as a whole or for a topic (CreateTopics)."""
    parts = [response, *getattr(response, "topics", ())]
    return any(getattr(part, "error_code", 0) == ErrorCode.NOT_CONTROLLER for part in parts)

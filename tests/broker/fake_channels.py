"""Fakes of NodeChannel: requests wait until the test responds to them."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.broker.node_client.channel import NodeClientError, NodeUnavailable
from barnabas.broker.pending import Pending
from barnabas.protocol.schema import Message

LOST = NodeUnavailable("the connection was lost")


class Sent(NamedTuple):
    """A request under way."""

    request: Message
    version: int | None
    timeout_ms: int | None
    pending: Pending[Message | NodeClientError]


class FakeChannel:
    """A NodeChannel whose requests the test responds to."""

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.is_closed = False

    def send(
        self, request: Message, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Pending[Message | NodeClientError]:
        self.sent.append(Sent(request, version, timeout_ms, Pending()))
        return self.sent[-1].pending

    def respond(self, result: Message | NodeClientError) -> None:
        """Completes the oldest request under way."""
        next(sent for sent in self.sent if not sent.pending.done).pending.complete(result)

    @property
    def under_way(self) -> int:
        return sum(not sent.pending.done for sent in self.sent)

    def close(self) -> None:
        self.is_closed = True


class FakeChannels:
    """A channel to each broker that is asked for, but for those in `missing`."""

    def __init__(self) -> None:
        self.channels: dict[int, FakeChannel] = {}
        self.missing: set[int] = set()

    def __getitem__(self, node_id: int) -> FakeChannel:
        return self.channels.setdefault(node_id, FakeChannel())

    def to(self, node_id: int) -> FakeChannel | None:
        return None if node_id in self.missing else self[node_id]

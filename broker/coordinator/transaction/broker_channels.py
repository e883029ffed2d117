"""BrokerChannels: how a coordinator reaches the other brokers of its cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.member_answers import alive_node
from barnabas.broker.node_client.channel import NodeChannel
from barnabas.protocol.errors import ErrorCode


class BrokerChannels(NamedTuple):
    """This broker's id, its newest metadata, and its channels to others over the inter-broker `listener`.

    `channel_to` makes the channel to a broker, or returns the one that there is; None where it has no address of it.
    """

    node_id: int
    image: Callable[[], MetadataImage]
    listener: str
    channel_to: Callable[[int], NodeChannel | None]
    request_timeout_ms: Callable[[], int]

    def alive(self, node_id: int) -> int | None:
        """`node_id`, where it is this broker or another that is alive on the listener; else None."""
        if node_id == self.node_id or alive_node(self.image(), node_id, self.listener) is not None:
            return node_id
        return None

    def channel(self, node_id: int) -> NodeChannel | None:
        """The channel to another broker; None while that is not alive on the listener."""
        return None if self.alive(node_id) is None else self.channel_to(node_id)


def error_of(code: int) -> ErrorCode:
    """The error of a response; UNKNOWN_SERVER_ERROR for a code that this broker does not know."""
    try:
        return ErrorCode(code)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR

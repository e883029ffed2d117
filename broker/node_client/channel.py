"""NodeChannel: how this node sends requests to another one; and the errors that it may get in place of a response.

Source: org.apache.kafka.clients.NetworkClient, ClientResponse.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from barnabas.broker.pending import Pending
from barnabas.protocol.schema import Message


class NodeUnavailable(NamedTuple):
    """The node could not be reached, disconnected, or did not respond in time: `reason` says which."""

    reason: str


class UnsupportedVersion(NamedTuple):
    """The node does not know the API, or no version of it that this node could send."""

    reason: str


class ResponseCorrupt(NamedTuple):
    """The response cannot be decoded."""

    reason: str


NodeClientError = NodeUnavailable | UnsupportedVersion | ResponseCorrupt


class NodeChannel(Protocol):
    """A connection to one node, made when it is needed."""

    def send(
        self, request: Message, *, version: int | None = None, timeout_ms: int | None = None
    ) -> Pending[Message | NodeClientError]:
        """Sends `request` in `version`, by default in the newest that both nodes know.

        Completes with the response, or with the error value: exactly once, `timeout_ms` from now at the latest.
        """

    def close(self) -> None:
        """Closes the connection; what is under way completes with NodeUnavailable."""

"""RpcProducerIdManager: producer ids from blocks that the cluster's controller allocates to this broker.

The next block is asked for when 90 % of the present one are used, so that a controller which is away for a while is not
noticed. Source: org.apache.kafka.coordinator.transaction.RPCProducerIdManager.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from barnabas.broker.membership.controller_channel import ChannelClosed, ChannelError, Submit
from barnabas.broker.pending import Pending, completed
from barnabas.broker.waiting.timer import Timer
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.cluster import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from barnabas.protocol.schema import Message

logger = logging.getLogger("barnabas.membership")

RETRY_BACKOFF_MS: Final = 50
DEADLINE_MS: Final = 60_000
_PREFETCH: Final = 0.9
"""The part of a block after which the next one is asked for."""

_NOTHING: Final = range(0)


class RpcProducerIdManager:
    """Generates producer ids. Lives on the event loop; has the interface of controller.producer_ids."""

    def __init__(
        self, submit: Submit, timer: Timer, *, node_id: int, broker_epoch: Callable[[], int]
    ) -> None:
        self._submit = submit
        self._timer = timer
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._block = _NOTHING
        self._used = 0
        self._next_block: range | None = None
        self._is_asking = False
        self._not_before_s = timer.time()

    def generate(self) -> Pending[int | None]:
        """A producer id that was never used; None while there is none: then the client has to ask again."""
        if self._used == len(self._block):
            if self._next_block is None:
                self._ask()
                return completed(None)
            self._block, self._next_block, self._used = self._next_block, None, 0
        producer_id = self._block[self._used]
        self._used += 1
        if self._used >= len(self._block) * _PREFETCH and self._next_block is None:
            self._ask()
        return completed(producer_id)

    def _ask(self) -> None:
        """Asks for a block, unless that is under way or has failed a moment ago."""
        if self._is_asking or self._timer.time() < self._not_before_s:
            return
        self._is_asking = True
        request = AllocateProducerIdsRequest(broker_id=self._node_id, broker_epoch=self._broker_epoch())
        self._submit(request, deadline_ms=DEADLINE_MS).add_done_callback(self._allocated)

    def _allocated(self, response: Message | ChannelError) -> None:
        self._is_asking = False
        if isinstance(response, AllocateProducerIdsResponse) and not response.error_code:
            first, count = response.producer_id_start, response.producer_id_len
            if first >= 0 and count > 0:
                self._next_block = range(first, first + count)
                return
        self._not_before_s = self._timer.time() + RETRY_BACKOFF_MS / 1000
        if not isinstance(response, ChannelClosed):
            logger.warning("No block of producer ids from the controller: %s", _reason(response))


def _reason(response: Message | ChannelError) -> str:
    if not isinstance(response, AllocateProducerIdsResponse):
        return str(getattr(response, "reason", "an unexpected response"))
    if response.error_code == ErrorCode.STALE_BROKER_EPOCH:
        return "this broker's epoch is stale; the next request has the new one"
    return f"error {response.error_code}, ids from {response.producer_id_start}"

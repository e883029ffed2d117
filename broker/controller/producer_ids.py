"""Producer ids, from blocks that the controller reserves, so that none is assigned twice.

A block is reserved with one ProducerIdsRecord before its first id is used; after a crash the rest of the block is lost,
which is why blocks are small. Source: org.apache.kafka.coordinator.transaction.RPCProducerIdManager, ProducerIdsBlock.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from barnabas.broker.controller.embedded import Controller, Decision
from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.pending import Pending
from barnabas.protocol.messages.topic_records import ProducerIdsRecord

BLOCK_SIZE: Final = 1000


class ProducerIdManager:
    """Generates producer ids: from the reserved block, or after the append that reserves another one."""

    def __init__(self, controller: Controller, node_id: int) -> None:
        self._controller = controller
        self._node_id = node_id
        self._next = 0
        self._end = 0
        self._waiting: deque[Pending[int | None]] = deque()

    def generate(self) -> Pending[int | None]:
        """A producer id that was never used; None when no block could be reserved (the disk failed)."""
        pending: Pending[int | None] = Pending()
        if self._next < self._end:
            pending.complete(self._take())
        else:
            self._waiting.append(pending)
            if len(self._waiting) == 1:
                self._reserve()
        return pending

    def _take(self) -> int:
        producer_id = self._next
        self._next += 1
        return producer_id

    def _reserve(self) -> None:
        def decide(image: MetadataImage) -> Decision[int | None]:
            first = image.next_producer_id
            record = ProducerIdsRecord(
                broker_id=self._node_id, broker_epoch=-1, next_producer_id=first + BLOCK_SIZE
            )
            return Decision(first, [record])

        self._controller.submit(decide, lambda _: None).add_done_callback(self._reserved)

    def _reserved(self, first: int | None) -> None:
        if first is None:
            waiting, self._waiting = self._waiting, deque()
            for pending in waiting:
                pending.complete(None)
            return
        self._next, self._end = first, first + BLOCK_SIZE
        while self._waiting and self._next < self._end:
            self._waiting.popleft().complete(self._take())
        if self._waiting:
            self._reserve()

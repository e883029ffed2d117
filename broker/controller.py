"""The embedded controller: decides metadata records, has them made durable, then replays and publishes them.

An operation looks at the newest image and returns the records that bring about what was asked, with the response to
give. One operation at a time: the next decides on the image that the one before left, so that two creations of one
topic cannot both succeed. Nothing changes the image on any other path.
Source: org.apache.kafka.controller.QuorumController, without its quorum.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from broker.blocking import BlockingRunner, Work
from broker.metadata_image import MetadataDelta, MetadataImage
from broker.request import Pending
from protocol.schema import Message

R = TypeVar("R")

logger = logging.getLogger("barnabas.controller")

Publisher = Callable[[MetadataImage, MetadataDelta], None]
"""Is told of every new image, in order, before whoever asked for the change gets the answer."""

Preparation = Callable[[MetadataImage, MetadataDelta], Work | None]
"""Asked before an image is published for what blocks in taking it over, to be done off the event loop."""


Assignment = Callable[[Sequence[Message]], None]
"""Writes into records that are about to be committed in which log directory each new replica is to lie."""


class MetadataLog(Protocol):
    """Where metadata records are kept. Today a file of our own; the metadata log of KRaft fits behind it as well."""

    def append(self, records: Sequence[Message]) -> None:
        """Returns when `records` are durable, all of them; after an OSError none of them is. May block."""


class Decision(Generic[R]):
    """What an operation decided: the records to commit (none: nothing changes) and the response to give then."""

    __slots__ = ("records", "response")

    def __init__(self, response: R, records: Sequence[Message] = ()) -> None:
        self.records = records
        self.response = response


Decide = Callable[[MetadataImage], Decision[R]]
Failed = Callable[[BaseException], R]


class _Operation:
    __slots__ = ("decide", "failed", "pending")

    def __init__(self, decide: Decide[Any], failed: Failed[Any], pending: Pending[Any]) -> None:
        self.decide = decide
        self.failed = failed
        self.pending = pending


class Controller:
    """Serialises operations on the metadata. Lives on the event loop; only the log's append leaves it."""

    def __init__(
        self,
        log: MetadataLog,
        image: MetadataImage,
        runner: BlockingRunner,
        publish: Publisher,
        prepare: Preparation = lambda image, delta: None,
        *,
        assign: Assignment = lambda records: None,
    ) -> None:
        self.image = image
        self._prepare = prepare
        self._assign = assign
        self._log = log
        self._runner = runner
        self._publish = publish
        self._queue: deque[_Operation] = deque()
        self._busy = False

    def submit(self, decide: Decide[R], failed: Failed[R]) -> Pending[R]:
        """Queues an operation. The pending result is the decision's response once its records are durable and
        published, or `failed(error)` when they could not be made so."""
        pending: Pending[R] = Pending()
        self._queue.append(_Operation(decide, failed, pending))
        if not self._busy:
            self._run_queue()
        return pending

    def _run_queue(self) -> None:
        """Runs operations until one has to wait for the disk."""
        while self._queue and not self._busy:
            operation = self._queue.popleft()
            decision = operation.decide(self.image)
            if decision.records:
                self._busy = True
                self._assign(decision.records)
                self._commit(operation, decision)
            else:
                operation.pending.complete(decision.response)

    def _commit(self, operation: _Operation, decision: Decision[Any]) -> None:
        def committed(error: BaseException | None) -> None:
            if error is not None:
                self._finish(operation, operation.failed(error))
                return
            image, delta = self.image.apply(decision.records)
            work = self._prepare(image, delta)
            if work is None:
                publish(image, delta)
            else:
                self._runner.submit(work, lambda failure: prepared(failure, image, delta))

        def prepared(failure: BaseException | None, image: MetadataImage, delta: MetadataDelta) -> None:
            if failure is not None:
                # The records are committed all the same; whoever takes over the image meets the failure again.
                logger.error("preparing for new metadata failed: %s", failure)
            publish(image, delta)

        def publish(image: MetadataImage, delta: MetadataDelta) -> None:
            self.image = image
            self._publish(image, delta)
            self._finish(operation, decision.response)

        self._runner.submit(lambda: self._log.append(decision.records), committed)

    def _finish(self, operation: _Operation, response: Any) -> None:
        self._busy = False
        operation.pending.complete(response)
        if not self._busy:
            self._run_queue()

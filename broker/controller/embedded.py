"""The embedded controller: decides metadata records, has them made durable, then replays and publishes them.

An operation reads the newest image and returns the records of the change, with its response. One operation at a time:
the next one decides on the image that the one before left, so that two creations of one topic cannot both succeed.
Operations that arrive while the disk is busy are decided one on top of the other and then made durable together, with
one fsync; each is an atomic batch of its own. The image changes on no other path.
Source: org.apache.kafka.controller.QuorumController, without its quorum.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.loader import MetadataLoader
from barnabas.broker.metadata.replay import MetadataReplay
from barnabas.broker.pending import Pending
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.schema import Message

R = TypeVar("R")

logger = logging.getLogger("barnabas.controller")

Assignment = Callable[[Sequence[Message]], None]
"""Adds to records that are about to be committed the log directory of each new replica."""


class CommittingLog(Protocol):
    """The part of the metadata log that commits (broker.metadata.log)."""

    @property
    def leader_epoch(self) -> int:
        """The epoch in which this node writes."""

    def append(self, batches: Sequence[Sequence[Message]]) -> int:
        """Returns when all of `batches` are durable: the offset that the next record will have. May block.

        Each batch is atomic; after an error none of them is in the log. An OSError is the disk's, any other one is
        about the records (RecordBatchTooLargeError).
        """


@dataclass(slots=True, eq=False, repr=False)
class Decision(Generic[R]):
    """The result of an operation: the records to commit (none: nothing changes) and the response after that."""

    response: R
    records: Sequence[Message] = ()


Decide = Callable[[MetadataImage], Decision[R]]
"""Reads an image, which is valid during the call only."""

Failed = Callable[[BaseException], R]


@dataclass(slots=True, eq=False, repr=False)
class _Operation:
    decide: Decide[Any]
    failed: Failed[Any]
    pending: Pending[Any]
    decision: Decision[Any] = field(default_factory=lambda: Decision(None))


MAX_RECORDS_PER_COMMIT = 10_000
"""The records after which a commit begins; other operations in the queue follow."""


class Controller:
    """Serialises operations on the metadata. Lives on the event loop; only the log's append leaves it."""

    def __init__(
        self,
        log: CommittingLog,
        loader: MetadataLoader,
        runner: BlockingRunner,
        *,
        assign: Assignment = lambda records: None,
    ) -> None:
        self._loader = loader
        self._assign = assign
        self._log = log
        self._runner = runner
        self._queue: deque[_Operation] = deque()
        self._alone_count = 0
        self._busy = False

    @property
    def image(self) -> MetadataImage:
        """The newest image that is published."""
        return self._loader.image

    def submit(self, decide: Decide[R], failed: Failed[R]) -> Pending[R]:
        """Queues an operation. The pending result is the decision's response once its records are durable and
        published, or `failed(error)` when that failed."""
        pending: Pending[R] = Pending()
        self._queue.append(_Operation(decide, failed, pending))
        if not self._busy:
            self._run_queue()
        return pending

    def change(self, what: str, decide: Decide[R], rejected: Callable[[ApiError], R]) -> Pending[R]:
        """Queues a change that a client requests, of `what`. `rejected` makes the response to a request that fails as a
        whole: because `decide` raises ApiError, or because the change cannot be recorded."""

        def decide_or_reject(image: MetadataImage) -> Decision[R]:
            try:
                return decide(image)
            except ApiError as error:
                return Decision(rejected(error))

        def failed(error: BaseException) -> R:
            return rejected(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what} could not be recorded: {error}"))

        return self.submit(decide_or_reject, failed)

    def _run_queue(self) -> None:
        """Decides and commits the queued operations, until the queue is empty or the disk is busy."""
        while self._queue and not self._busy:
            self._busy = True  # operations that a response leads to are queued
            replay, decided = self._decide_all()
            batches = [operation.decision.records for operation in decided if operation.decision.records]
            if batches:
                self._commit(replay, decided, batches)
            else:
                self._busy = False
                _answer(decided)

    def _decide_all(self) -> tuple[MetadataReplay, list[_Operation]]:
        """Decides operations from the queue on top of each other, and replays their records.

        An operation without records still waits for those before it, since it was decided on their outcome.
        """
        replay = MetadataReplay(self.image)
        decided: list[_Operation] = []
        record_count = 0
        is_alone = self._alone_count > 0
        while self._queue and record_count < MAX_RECORDS_PER_COMMIT and not (is_alone and decided):
            self._alone_count = max(self._alone_count - 1, 0)
            operation = self._queue.popleft()
            try:
                self._decide(operation, replay)
            except Exception as error:  # a bug, which must not stop the controller
                logger.exception("a bug: an operation on the metadata failed")
                operation.pending.complete(operation.failed(error))
                replay = MetadataReplay(self.image)  # which may hold some of its records
                for record in (record for before in decided for record in before.decision.records):
                    replay.apply(record)
                continue
            record_count += len(operation.decision.records)
            decided.append(operation)
        return replay, decided

    def _decide(self, operation: _Operation, replay: MetadataReplay) -> None:
        operation.decision = operation.decide(replay.image())
        if operation.decision.records:
            self._assign(operation.decision.records)
            for record in operation.decision.records:
                replay.apply(record)

    def _commit(
        self, replay: MetadataReplay, decided: list[_Operation], batches: list[Sequence[Message]]
    ) -> None:
        end_offset = 0

        def append() -> None:
            nonlocal end_offset
            end_offset = self._log.append(batches)

        def committed(error: BaseException | None) -> None:
            if error is not None:
                self._fail(decided, error)
                return
            image = replay.finish(end_offset - 1, self._log.leader_epoch)
            self._loader.take_over(image, replay.delta, lambda: self._finish(decided))

        self._runner.submit(append, committed)

    def _finish(self, decided: list[_Operation]) -> None:
        _answer(decided)
        self._continue()

    def _fail(self, decided: list[_Operation], error: BaseException) -> None:
        """Fails operations whose records could not be committed, and decides those without records again.

        Where the disk is not the cause, all operations are decided again, each by itself: the records of one of them
        cannot be written, which must not fail the others.
        """
        again = []
        if not isinstance(error, OSError) and sum(bool(each.decision.records) for each in decided) > 1:
            self._alone_count = len(decided)
            again, decided = decided, []
        for operation in decided:
            if operation.decision.records:
                operation.pending.complete(operation.failed(error))
            else:
                again.append(operation)
        self._queue.extendleft(reversed(again))
        self._continue()

    def _continue(self) -> None:
        self._busy = False
        self._run_queue()


def _answer(decided: list[_Operation]) -> None:
    for operation in decided:
        operation.pending.complete(operation.decision.response)

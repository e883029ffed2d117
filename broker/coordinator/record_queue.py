"""RecordQueue: the records of one shard on their way to the log, in the order in which they were replayed.

Records of operations wait in a batch that is appended at the end of the pass of the event loop (or when the linger time
is over, or when the batch is full), so that what comes in together is written together. Batches that are in the log
and not yet committed wait behind one another.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from barnabas.broker.coordinator import errors
from barnabas.broker.coordinator.dependencies import RuntimeDependencies
from barnabas.broker.coordinator.partition_log import LogLimits
from barnabas.broker.coordinator.shard import CoordinatorShard
from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendError, AppendResult
from barnabas.broker.waiting.timer import Timer, TimerHandle
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.layout import RECORD_BATCH_OVERHEAD

logger = logging.getLogger("barnabas.coordinator")

S = TypeVar("S", bound=CoordinatorShard)


R = TypeVar("R")
Encoded = tuple[bytes, bytes | None]
"""Key and value of a record."""

_MAX_RECORD_OVERHEAD: Final = 31
"""Bytes of a record without headers beside key and value: attributes, and varints as long as they can get."""

Committed = Callable[[ApiError | None], None]
"""Told None when records are committed, or why they are not."""


class Answer(Generic[R]):
    """What somebody waits for: a response, or what `failed` makes of an error."""

    __slots__ = ("_failed", "pending")

    def __init__(self, failed: Callable[[ApiError], R]) -> None:
        self._failed = failed
        self.pending: Pending[R] = Pending()

    def fail(self, error: ApiError) -> None:
        self.pending.complete(self._failed(error))

    def give(self, response: R | Pending[R]) -> None:
        if isinstance(response, Pending):
            response.add_done_callback(self.pending.complete)
        else:
            self.pending.complete(response)


def size_of(records: Sequence[Encoded]) -> int:
    """An upper bound for what the records take in a batch, in bytes, its header left aside."""
    return sum(_MAX_RECORD_OVERHEAD + len(key) + len(value or b"") for key, value in records)


class Batch:
    """Records that are appended in one piece; the first gets `first_offset`.

    `size` is an upper bound, in bytes; the log takes `max_bytes`. `began` is when the first record came, in s.
    """

    __slots__ = (
        "_expiry",
        "_waiting",
        "began",
        "first_offset",
        "is_complete",
        "max_bytes",
        "records",
        "size",
    )

    def __init__(self, first_offset: int, max_bytes: int) -> None:
        self.first_offset = first_offset
        self.max_bytes = max_bytes
        self.began = 0.0
        self.is_complete = False
        self.records: list[tuple[bytes | None, bytes | None, int, tuple[()]]] = []
        self.size = RECORD_BATCH_OVERHEAD
        self._waiting: list[Committed] = []
        self._expiry: TimerHandle | None = None

    @property
    def next_offset(self) -> int:
        return self.first_offset + len(self.records)

    def add(self, records: Sequence[Encoded], now_ms: int) -> None:
        self.records += [(key, value, now_ms, ()) for key, value in records]
        self.size += size_of(records)

    def when_committed(self, callback: Committed) -> None:
        self._waiting.append(callback)

    def expire_after(self, timeout_ms: int, timer: Timer) -> None:
        """Whoever still waits after that time, and again after that, hears that it is over; records stay where they
        are."""

        def expire() -> None:
            self.expire_after(timeout_ms, timer)
            error = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "Records were not committed in time.")
            self._tell(error)

        self._expiry = timer.call_at(timer.time() + timeout_ms / 1000, expire)

    def complete(self, error: ApiError | None) -> None:
        """Tells all who wait, in the order in which they came."""
        self.is_complete = True
        if self._expiry is not None:
            self._expiry.cancel()
        self._tell(error)

    def _tell(self, error: ApiError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            tell(callback, error)


def tell(callback: Committed, error: ApiError | None) -> None:
    """A bug in one who waits is not to keep the others from their answers."""
    try:
        callback(error)
    except Exception:
        logger.exception("an answer could not be given")


class RecordQueue(Generic[S]):
    """`lost(batch, error)` is called for a batch that is not in the log as it was replayed: the state is not the log's
    any more."""

    def __init__(
        self, dependencies: RuntimeDependencies[S], partition: int, lost: Callable[[Batch, ApiError], None]
    ) -> None:
        self.name = f"{dependencies.topic}-{partition}"
        self._dependencies = dependencies
        self._partition = partition
        self._lost = lost
        self._pending: Batch | None = None
        self._written: list[Batch] = []

    def encode(self, records: Sequence[Any]) -> list[Encoded]:
        """Raises ApiError for what cannot be written, which is a bug."""
        try:
            return [self._dependencies.serde.encode(record) for record in records]
        except Exception as error:
            logger.exception("records of %s cannot be written", self.name)
            raise errors.bug(self.name) from error

    def new_batch(self, size: int, *, is_needed: bool) -> Batch:
        """A batch for `size` bytes, of its own, from the log's end on. Raises ApiError where they could not be written.

        On a disk that is full for clients only what `is_needed` can.
        """
        limits = self._limits(size, is_needed=is_needed)
        batch = Batch(limits.next_offset, limits.max_batch_bytes)
        batch.began = self._dependencies.probe.clock()
        return batch

    def _limits(self, size: int, *, is_needed: bool) -> LogLimits:
        limits = self._dependencies.logs.check(self._partition, is_needed=is_needed)
        if RECORD_BATCH_OVERHEAD + size > limits.max_batch_bytes:
            raise ApiError(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"Records of {size} bytes for {self.name}, which takes {limits.max_batch_bytes} at a time.",
            )
        return limits

    def batch_for(self, size: int, *, is_needed: bool) -> Batch:
        """The same, or the batch that is gathered where that has room."""
        pending = self._pending
        if pending is not None:
            if pending.size + size <= self._limits(size, is_needed=is_needed).max_batch_bytes:
                return pending
            self.flush()
        return self.new_batch(size, is_needed=is_needed)

    def add(self, batch: Batch, records: Sequence[Encoded]) -> None:
        """Puts records into a batch that `batch_for` gave, and has it appended soon."""
        batch.add(records, self._dependencies.now_ms())
        if self._pending is batch:
            return
        assert self._pending is None
        self._pending = batch
        linger_ms, loop = self._dependencies.linger_ms(), self._dependencies.loop
        if linger_ms < 0:
            loop.call_soon(partial(self._flush_if, batch))
        elif linger_ms > 0:
            loop.call_at(loop.time() + linger_ms / 1000, partial(self._flush_if, batch))

    def flush_unless_lingering(self) -> None:
        """To be called when an operation is through: without any linger time it is written there and then."""
        if self._pending is not None and self._dependencies.linger_ms() == 0:
            self.flush()

    def _flush_if(self, batch: Batch) -> None:
        if self._pending is batch:
            self.flush()

    def flush(self) -> None:
        """Appends what was gathered."""
        batch, self._pending = self._pending, None
        if batch is None:
            return
        probe = self._dependencies.probe
        began = probe.clock()
        probe.linger.add(began - batch.began)
        try:
            data = build_batch(
                batch.records,
                compression=self._dependencies.compression(),
                base_sequence=self._dependencies.base_sequence,
            )
        except Exception:
            logger.exception("a batch of %s cannot be built", self.name)
            self._lost(batch, errors.bug(self.name))
            return
        result = self._dependencies.logs.append(self._partition, data)
        probe.flush.add(probe.clock() - began)
        self.follow(batch, result)

    def follow(self, batch: Batch, result: AppendResult | Pending[AppendResult]) -> None:
        """Tells those who wait for `batch` when it is committed, by what became of its append."""
        if not isinstance(result, Pending):
            self._appended(batch, result)
            return
        self._written.append(batch)
        batch.expire_after(self._dependencies.write_timeout_ms(), self._dependencies.loop)
        result.add_done_callback(partial(self._appended, batch))

    def _appended(self, batch: Batch, result: AppendResult) -> None:
        if batch.is_complete:  # given up before
            return
        if batch in self._written:
            self._written.remove(batch)
        if isinstance(result, AppendError):
            self._lost(batch, ApiError(result.error, result.error_message))
        elif result.first_offset != batch.first_offset:
            logger.error(
                "%s expected offset %d and was given %d: somebody else writes there",
                self.name,
                batch.first_offset,
                result.first_offset,
            )
            self._lost(batch, errors.not_coordinator(self.name))
        else:
            batch.complete(None)
            self._dependencies.probe.purgatory.add(self._dependencies.probe.clock() - batch.began)

    def when_committed(self, callback: Committed) -> None:
        """Calls it when everything that was replayed is committed, at once where it is."""
        if self._pending is not None:
            self._pending.when_committed(callback)
        elif self._written:
            self._written[-1].when_committed(callback)
        else:
            tell(callback, None)

    def give_up(self, error: ApiError) -> None:
        """Nothing more is written; whoever waits is told."""
        batches = [*self._written, *([self._pending] if self._pending is not None else ())]
        self._written, self._pending = [], None
        for batch in batches:
            batch.complete(error)

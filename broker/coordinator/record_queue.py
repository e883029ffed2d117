"""RecordQueue: the records of one shard on their way to the log, in the order in which they were replayed.

Records of operations wait in a batch that is appended at the end of the pass of the event loop (or when the linger time
is over, or when the batch is full), so that the operations of one pass share a batch. Batches that are appended and not
yet committed are kept in order.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Generic, TypeVar

from barnabas.broker.coordinator import errors
from barnabas.broker.coordinator.dependencies import RuntimeDependencies
from barnabas.broker.coordinator.partition_log import LogLimits
from barnabas.broker.coordinator.shard import CoordinatorShard
from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendError, AppendResult
from barnabas.broker.waiting.timer import RESOLUTION_S, Timer, TimerHandle
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
"""Called with None when records are committed, or with the error."""


class Answer(Generic[R]):
    """A response that a client waits for; `failed` makes one of an error."""

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
    """An upper bound of the bytes of the records in a batch, without its header."""
    return sum(_MAX_RECORD_OVERHEAD + len(key) + len(value or b"") for key, value in records)


class Batch:
    """Records that are appended in one piece; the first gets `first_offset`.

    `size` is an upper bound, in bytes; `max_bytes` is the log's limit. `began` is the time of the first record, in s.
    """

    __slots__ = (
        "_callbacks",
        "_expiry",
        "_late",
        "_timeout_ms",
        "_timer",
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
        self._callbacks: list[Committed] = []
        self._late: deque[tuple[float, Committed]] = deque()
        self._expiry: TimerHandle | None = None
        self._timer: Timer | None = None
        self._timeout_ms = 0

    @property
    def next_offset(self) -> int:
        return self.first_offset + len(self.records)

    def add(self, records: Sequence[Encoded], now_ms: int) -> None:
        self.records += [(key, value, now_ms, ()) for key, value in records]
        self.size += size_of(records)

    def when_committed(self, callback: Committed) -> None:
        if self._timer is None:
            self._callbacks.append(callback)
            return
        self._late.append((self._timer.time() + self._timeout_ms / 1000, callback))
        if self._expiry is None:
            self._expire_at(self._late[0][0])

    def expire_after(self, timeout_ms: int, timer: Timer) -> None:
        """Fails each callback `timeout_ms` after it was added (those up to now: from now on); the records stay in the
        log and in the state, since they may still be committed."""
        self._timer, self._timeout_ms = timer, timeout_ms
        due = timer.time() + timeout_ms / 1000
        self._late.extend((due, callback) for callback in self._callbacks)
        self._callbacks.clear()
        if self._late:
            self._expire_at(due)

    def _expire_at(self, when: float) -> None:
        assert self._timer is not None
        self._expiry = self._timer.call_at(when, self._expire)

    def _expire(self) -> None:
        assert self._timer is not None
        self._expiry = None
        now, expired = self._timer.time() + RESOLUTION_S, []
        while self._late and self._late[0][0] <= now:
            expired.append(self._late.popleft()[1])
        if self._late:
            self._expire_at(self._late[0][0])
        error = ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "Records were not committed in time.")
        for callback in expired:
            notify(callback, error)

    def complete(self, error: ApiError | None) -> None:
        """Calls all callbacks, in the order in which they were added."""
        self.is_complete = True
        if self._expiry is not None:
            self._expiry.cancel()
        callbacks = [*self._callbacks, *(callback for _, callback in self._late)]
        self._callbacks.clear()
        self._late.clear()
        for callback in callbacks:
            notify(callback, error)


def notify(callback: Committed, error: ApiError | None) -> None:
    """Calls `callback`; an exception in it must not keep the other callbacks from being called."""
    try:
        callback(error)
    except Exception:
        logger.exception("a callback of committed records failed")


class RecordQueue(Generic[S]):
    """`lost(batch, error)` is called for a batch that is not in the log as it was replayed: the shard's state no longer
    matches the log."""

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
        """Raises ApiError for a record that cannot be encoded, which is a bug."""
        try:
            return [self._dependencies.serde.encode(record) for record in records]
        except Exception as error:
            logger.exception("records of %s cannot be encoded", self.name)
            raise errors.bug(self.name) from error

    def new_batch(self, size: int, *, is_needed: bool) -> Batch:
        """A batch of its own for `size` bytes, at the log end offset. Raises ApiError where it could not be appended.

        On a disk that is full for clients only a batch that `is_needed` can be.
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
        """As `new_batch`, or the batch that is being filled where it has room."""
        pending = self._pending
        if pending is not None:
            if pending.size + size <= self._limits(size, is_needed=is_needed).max_batch_bytes:
                return pending
            self.flush()
        return self.new_batch(size, is_needed=is_needed)

    def add(self, batch: Batch, records: Sequence[Encoded]) -> None:
        """Adds records to a batch of `batch_for` and schedules its append."""
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
        """Appends the batch after an operation where the linger time is 0."""
        if self._pending is not None and self._dependencies.linger_ms() == 0:
            self.flush()

    def _flush_if(self, batch: Batch) -> None:
        if self._pending is batch:
            self.flush()

    def flush(self) -> None:
        """Appends the batch that is being filled."""
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
        """Completes `batch` with the result of its append."""
        if not isinstance(result, Pending):
            self._appended(batch, result)
            return
        self._written.append(batch)
        batch.expire_after(self._dependencies.write_timeout_ms(), self._dependencies.loop)
        result.add_done_callback(partial(self._appended, batch))

    def _appended(self, batch: Batch, result: AppendResult) -> None:
        if batch.is_complete:  # abandoned before
            return
        if batch in self._written:
            self._written.remove(batch)
        if isinstance(result, AppendError):
            self._lost(batch, ApiError(result.error, result.error_message))
        elif result.first_offset != batch.first_offset:
            logger.error(
                "%s expected offset %d and got %d: another writer appends to it",
                self.name,
                batch.first_offset,
                result.first_offset,
            )
            self._lost(batch, errors.not_coordinator(self.name))
        else:
            batch.complete(None)
            self._dependencies.probe.purgatory.add(self._dependencies.probe.clock() - batch.began)

    def follow_loaded(self) -> None:
        """Has what is answered from a loaded state wait for the loaded records that are not committed yet: a new leader
        may have records above its high watermark. Raises ApiError."""
        uncommitted = self._dependencies.logs.uncommitted(self._partition)
        if uncommitted is None:
            return
        loaded = Batch(0, 0)
        self._written.append(loaded)
        loaded.expire_after(self._dependencies.write_timeout_ms(), self._dependencies.loop)

        def committed(_: object) -> None:
            if not loaded.is_complete:
                self._written.remove(loaded)
                loaded.complete(None)

        uncommitted.add_done_callback(committed)

    def when_committed(self, callback: Committed) -> None:
        """Calls `callback` when all replayed records are committed, at once if they are."""
        if self._pending is not None:
            self._pending.when_committed(callback)
        elif self._written:
            self._written[-1].when_committed(callback)
        else:
            notify(callback, None)

    def abandon(self, error: ApiError) -> None:
        """Drops the batches that are not committed, and fails their callbacks."""
        batches = [*self._written, *([self._pending] if self._pending is not None else ())]
        self._written, self._pending = [], None
        for batch in batches:
            batch.complete(error)

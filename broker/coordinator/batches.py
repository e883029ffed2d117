"""Records on their way into the log, and who waits until they are committed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from barnabas.broker.pending import Pending
from barnabas.broker.waiting.timer import Timer, TimerHandle
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.records.layout import RECORD_BATCH_OVERHEAD

logger = logging.getLogger("barnabas.coordinator")

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

"""What is asked of, and what comes of, appending to and reading from one partition among many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from protocol.errors import ErrorCode
from storage.offsets import AppendOrigin, EpochEndOffset, FetchDataInfo, FetchIsolation, LogAppendInfo
from storage.verification import VerificationGuard

WITHOUT_LOG_START: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Failed appends that are answered without the log's start offset, as Kafka does it."""


class AppendTerms(NamedTuple):
    """On what terms records are appended; `guards` by topic and index, for transactions that were verified."""

    required_acks: int
    origin: AppendOrigin
    guards: Mapping[tuple[str, int], VerificationGuard] | None
    transaction_version: int


class AppendResult:
    """What became of one partition's records. `required_offset` is the log's end (exclusive) right behind them."""

    __slots__ = (
        "error",
        "error_message",
        "info",
        "log_start_offset",
        "needs_flush",
        "record_errors",
        "required_offset",
    )

    def __init__(self) -> None:
        self.error = ErrorCode.NONE
        self.error_message: str | None = None
        self.info: LogAppendInfo | None = None
        self.record_errors: Sequence[tuple[int, str]] = ()
        self.log_start_offset = -1
        self.required_offset = -1
        self.needs_flush = False

    def fail(
        self, code: ErrorCode, message: str | None, record_errors: Sequence[tuple[int, str]] = ()
    ) -> None:
        self.error = code
        self.error_message = message
        self.record_errors = record_errors


class DeletionResult:
    """What became of deleting one partition's records before `required_offset`.

    `low_watermark` is the lowest log start offset among the replicas; -1 where an error left it unknown.
    """

    __slots__ = ("error", "low_watermark", "partition", "required_offset", "topic")

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.error = ErrorCode.NONE
        self.required_offset = -1
        self.low_watermark = -1

    def fail(self, code: ErrorCode) -> None:
        self.error = code
        self.low_watermark = -1


class FetchParams:
    """How a reader wants to be answered: `max_wait_ms` long at most, with `min_bytes` to `max_bytes` of records."""

    __slots__ = ("isolation", "max_bytes", "max_wait_ms", "min_bytes", "replica_id")

    def __init__(
        self, *, replica_id: int, max_wait_ms: int, min_bytes: int, max_bytes: int, isolation: FetchIsolation
    ) -> None:
        self.replica_id = replica_id
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation = isolation


class FetchResult:
    """What one partition gives a reader; offsets are -1 where an error left them unknown."""

    __slots__ = (
        "data",
        "diverging_epoch",
        "error",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
    )

    def __init__(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.error = error
        self.data: FetchDataInfo | None = None
        self.diverging_epoch: EpochEndOffset | None = None
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1

    @property
    def size(self) -> int:
        """Bytes of records."""
        return self.data.records.size if self.data is not None else 0


class TopicProbe(Protocol):
    """What the metrics want to know of traffic; counts are of records and bytes."""

    def produced(self, topic: str, records: int, size: int) -> None: ...
    def produce_failed(self, topic: str, code: ErrorCode, size: int) -> None: ...
    def batch_invalid(self, topic: str, error: Exception) -> None: ...
    def converted(self, topic: str, records: int) -> None: ...
    def fetched(self, topic: str, size: int) -> None: ...
    def fetch_failed(self, topic: str) -> None: ...
    def topic_deleted(self, topic: str) -> None: ...

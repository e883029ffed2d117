"""What is asked of, and what comes of, appending to and reading from one partition among many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from protocol.errors import ErrorCode
from protocol.wire import Uuid
from storage.offsets import FetchIsolation, LogAppendInfo

if TYPE_CHECKING:
    from broker.replica.partition import Partition

WITHOUT_LOG_START: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Failed appends that are answered without the log's start offset, as Kafka does it."""


AppendEntry = tuple[str | None, int, Uuid, bytes | memoryview, Exception | None]
"""What is to be appended to one partition: topic, partition, topic id, records, refusal.

The topic is None where the metadata know none of that id, which is ZERO_UUID where the topic is named. A refusal
(one of the MAPPED_ERRORS) says why the records are not to be appended; a partition that is not here is told before it.
"""


class AppendError:
    """Why one partition's records were not appended, or are not as safe as was asked for."""

    __slots__ = ("error", "error_message", "log_start_offset", "record_errors")

    def __init__(
        self,
        error: ErrorCode,
        error_message: str | None,
        record_errors: Sequence[tuple[int, str]] = (),
        log_start_offset: int = -1,
    ) -> None:
        self.error = error
        self.error_message = error_message
        self.record_errors = record_errors
        self.log_start_offset = log_start_offset


AppendResult = LogAppendInfo | AppendError
"""What became of one partition's records."""


def append_error_of(result: AppendResult) -> ErrorCode:
    """NONE where the records are in the log."""
    return result.error if isinstance(result, AppendError) else ErrorCode.NONE


class Unacknowledged:
    """An append that is answered when all before `required_offset` is replicated, and with `needs_flush` on the disk.

    `at` is its place among the results of its request.
    """

    __slots__ = ("at", "needs_flush", "partition", "required_offset")

    def __init__(self, partition: Partition, at: int, required_offset: int, needs_flush: bool) -> None:
        self.partition = partition
        self.at = at
        self.required_offset = required_offset
        self.needs_flush = needs_flush


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


class TopicTraffic(Protocol):
    """What the metrics want to know of one topic, hot: whoever appends holds on to it."""

    def produced(self, records: int, size: int) -> None: ...


class TopicProbe(Protocol):
    """What the metrics want to know of traffic; counts are of records and bytes.

    A topic is known from its first success on, until it is deleted.
    """

    def topic(self, topic: str) -> TopicTraffic: ...
    def produce_failed(self, topic: str, code: ErrorCode, size: int) -> None: ...
    def batch_invalid(self, topic: str, error: Exception) -> None: ...
    def converted(self, topic: str, records: int) -> None: ...
    def fetched(self, topic: str, size: int) -> None: ...
    def fetched_nothing(self, topic: str, partitions: int) -> None: ...
    def fetch_failed(self, topic: str) -> None: ...
    def topic_deleted(self, topic: str) -> None: ...

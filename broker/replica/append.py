"""The entries and results of an append to many partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.wire import Uuid
from barnabas.storage.offsets import LogAppendInfo

WITHOUT_LOG_START: Final = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.RECORD_LIST_TOO_LARGE,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Errors of appends that are answered without the log start offset, as in Kafka."""


AppendEntry = tuple[str | None, int, Uuid, bytes | memoryview, Exception | None]
"""The append to one partition: topic, partition, topic id, records, error.

The topic is None where no topic has the id, which is ZERO_UUID where the topic is named. An error (one of the
MAPPED_ERRORS) rejects the records; that the partition is not on this broker is reported before it.
"""


class AppendError:
    """Why one partition's records were not appended, or not acknowledged as requested."""

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
"""The result for one partition."""


def append_error_of(result: AppendResult) -> ErrorCode:
    """NONE where the records are in the log."""
    return result.error if isinstance(result, AppendError) else ErrorCode.NONE

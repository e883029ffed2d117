"""What is to be appended to one partition among many, and what became of it."""

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

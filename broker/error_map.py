"""The table from exceptions of storage and record batches to Kafka's error codes."""

from __future__ import annotations

from typing import Final

from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionError,
)
from barnabas.storage import errors as storage

_CODES: Final[dict[type[Exception], ErrorCode]] = {
    CorruptRecordError: ErrorCode.CORRUPT_MESSAGE,
    InvalidRecordError: ErrorCode.INVALID_RECORD,
    UnsupportedCompressionError: ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
    storage.OffsetOutOfRangeError: ErrorCode.OFFSET_OUT_OF_RANGE,
    storage.RecordTooLargeError: ErrorCode.MESSAGE_TOO_LARGE,
    storage.RecordBatchTooLargeError: ErrorCode.RECORD_LIST_TOO_LARGE,
    storage.InvalidTimestampError: ErrorCode.INVALID_TIMESTAMP,
    storage.OutOfOrderSequenceError: ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    storage.InvalidProducerEpochError: ErrorCode.INVALID_PRODUCER_EPOCH,
    storage.UnknownProducerIdError: ErrorCode.UNKNOWN_PRODUCER_ID,
    storage.InvalidTxnStateError: ErrorCode.INVALID_TXN_STATE,
    storage.TransactionCoordinatorFencedError: ErrorCode.TRANSACTION_COORDINATOR_FENCED,
    storage.InconsistentTopicIdError: ErrorCode.INCONSISTENT_TOPIC_ID,
    # Not KAFKA_STORAGE_ERROR, on which clients ask for new metadata each time they try again. This one only says
    # that nothing was written: every client waits and sends again until its delivery timeout.
    storage.DiskFullError: ErrorCode.NOT_ENOUGH_REPLICAS,
    storage.KafkaStorageError: ErrorCode.KAFKA_STORAGE_ERROR,
}

MAPPED_ERRORS: Final[tuple[type[Exception], ...]] = (ApiError, *_CODES)
"""The errors that a partition may raise; any other is a bug and is not caught."""


def error_code_of(error: Exception) -> ErrorCode:
    """The code for `error`, by the first of its classes in the table; `error` must be a MAPPED_ERROR."""
    if isinstance(error, ApiError):
        return error.code
    for kind in type(error).__mro__:
        code = _CODES.get(kind)
        if code is not None:
            return code
    raise AssertionError(f"{type(error).__name__} has no error code") from error

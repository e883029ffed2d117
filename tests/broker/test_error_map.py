"""Every error that storage or the record formats raise at a partition has an error code of Kafka's."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

from barnabas.broker.error_map import MAPPED_ERRORS, error_code_of
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.records import errors as record_errors
from barnabas.storage import errors as storage_errors

NEVER_ANSWERED = {
    "StorageError": "the base of all; nothing is raised that is no more than this",
    "OffsetsOutOfOrderError": "heard by the replica that appends what it fetched, not by a client",
    "UnexpectedAppendOffsetError": "heard by the replica that appends what it fetched, not by a client",
    "InconsistentMetadataError": "ends the start of the broker",
    "LogDirLockedError": "ends the start of the broker",
    "NoLogDirError": "ends the start of the broker",
    "LogCleaningAbortedError": "heard by who compacts, who tries again",
    "OffsetMapTooSmallError": "heard by who compacts",
    "SegmentOverflowError": "heard by who compacts, who makes smaller segments",
    "CorruptIndexError": "the index is rebuilt",
    "CorruptSnapshotError": "an older snapshot, or the log, takes its place",
    "EmptySnapshotError": "an older snapshot, or the log, takes its place",
    "CorruptCheckpointError": "the log is recovered as if there were none",
}
"""Errors that no request can cause, and why."""


def errors_of(*modules: ModuleType) -> list[type[Exception]]:
    return [
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Exception)
    ]


ALL = errors_of(storage_errors, record_errors)


def made(kind: type[Exception]) -> Exception:
    """Makes an instance, whatever arguments its constructor requires."""
    error = kind.__new__(kind)
    Exception.__init__(error, "what went wrong")
    return error


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind.__name__ not in NEVER_ANSWERED])
def test_every_error_has_a_code(kind: type[Exception]) -> None:
    assert issubclass(kind, MAPPED_ERRORS)
    assert error_code_of(made(kind)) is not ErrorCode.NONE


@pytest.mark.parametrize("kind", [kind for kind in ALL if kind.__name__ in NEVER_ANSWERED])
def test_errors_outside_of_requests_are_not_mapped(kind: type[Exception]) -> None:
    assert not issubclass(kind, MAPPED_ERRORS)
    with pytest.raises(AssertionError, match="has no error code"):
        error_code_of(made(kind))


def test_the_listed_reasons_are_about_existing_errors() -> None:
    assert set(NEVER_ANSWERED) <= {kind.__name__ for kind in ALL}


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (record_errors.CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
        (record_errors.DecompressedTooLargeError, ErrorCode.CORRUPT_MESSAGE),
        (record_errors.InvalidRecordError, ErrorCode.INVALID_RECORD),
        (record_errors.UnsupportedCompressionError, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (storage_errors.OffsetOutOfRangeError, ErrorCode.OFFSET_OUT_OF_RANGE),
        (storage_errors.RecordTooLargeError, ErrorCode.MESSAGE_TOO_LARGE),
        (storage_errors.RecordBatchTooLargeError, ErrorCode.RECORD_LIST_TOO_LARGE),
        (storage_errors.InvalidTimestampError, ErrorCode.INVALID_TIMESTAMP),
        (storage_errors.OutOfOrderSequenceError, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (storage_errors.InvalidProducerEpochError, ErrorCode.INVALID_PRODUCER_EPOCH),
        (storage_errors.KafkaStorageError, ErrorCode.KAFKA_STORAGE_ERROR),
    ],
)
def test_the_codes_equal_kafkas(kind: type[Exception], code: ErrorCode) -> None:
    assert error_code_of(made(kind)) is code


def test_an_api_error_has_its_code() -> None:
    error = ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "elsewhere")
    assert isinstance(error, MAPPED_ERRORS)
    assert error_code_of(error) is ErrorCode.NOT_LEADER_OR_FOLLOWER

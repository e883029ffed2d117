"""The errors of storage; the broker maps them to Kafka's error codes in one table.

Errors about record bytes themselves (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError) come from
`protocol.records.batch`.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from barnabas.protocol.records.errors import InvalidRecordError

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})
_NO_RESOURCES: Final = _NO_DESCRIPTORS | {errno.ENOMEM}


class StorageError(Exception):
    """An operation that storage rejects, or that failed."""


class OffsetOutOfRangeError(StorageError):
    """The requested offset is before the log's start or beyond its end."""

    def __init__(self, message: str, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(message)
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class RecordTooLargeError(StorageError):
    """A batch is larger than max.message.bytes, or than the limit for its uncompressed size."""


class RecordBatchTooLargeError(StorageError):
    """The batches of one append do not fit into a segment."""


class InvalidMagicError(InvalidRecordError):
    """Batches of different formats in one append."""


class InvalidOffsetOrSequenceError(InvalidRecordError):
    """A batch whose count, offsets or sequence no client may send, or a control batch of a client."""


class MissingKeyError(InvalidRecordError):
    """Records without a key for a compacted topic; `record_errors` lists them."""


class InvalidTimestampError(StorageError):
    """Records whose timestamps lie outside message.timestamp.{before,after}.max.ms; `record_errors` lists them."""

    def __init__(self, message: str, record_errors: list[tuple[int, str]] | None = None) -> None:
        super().__init__(message)
        self.record_errors = record_errors or []


class OutOfOrderSequenceError(StorageError):
    """A producer's sequence number leaves a gap, or repeats a batch older than those that the log remembers."""


class InvalidProducerEpochError(StorageError):
    """A producer writes with an epoch older than the one in the log: it has been fenced."""


class UnknownProducerIdError(StorageError):
    """The log has no state of the producer, where it must have."""


class InvalidTxnStateError(StorageError):
    """A write that does not fit the producer's transaction."""


class TransactionCoordinatorFencedError(StorageError):
    """An end-transaction marker from a coordinator that has been replaced."""


class OffsetsOutOfOrderError(StorageError):
    """A follower received batches whose offsets do not increase."""


class UnexpectedAppendOffsetError(StorageError):
    """A follower received a batch that begins before its log's end."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class InconsistentTopicIdError(StorageError):
    """The directory belongs to another topic id."""


class InconsistentMetadataError(StorageError):
    """meta.properties does not fit the cluster, the node or the other directories."""


class NoLogDirError(StorageError):
    """No log directory works, or none of those that work has the metadata log."""


class LogDirLockedError(StorageError):
    """Another process holds the directory's .lock."""


class KafkaStorageError(StorageError):
    """The disk failed. Unless the partial change was `undone`, the log takes no more appends.

    `cause` is the error of the system, or the damage. Modules that mypyc compiles pass it here for the callers that
    read it: `raise ... from` loses it there.
    """

    def __init__(self, message: str, *, undone: bool = False, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.undone = undone
        if cause is not None:
            self.__cause__ = cause


class LogDirError(KafkaStorageError):
    """A log directory failed in an operation on two; `log_dir` names it."""

    def __init__(self, message: str, log_dir: str) -> None:
        super().__init__(message)
        self.log_dir = log_dir


class AllCordonedError(KafkaStorageError):
    """Every log directory that works is cordoned, so that there is no place for a new log."""


class DiskFullError(KafkaStorageError):
    """The disk is full: nothing was written, and the log takes appends again when there is room."""

    def __init__(self, message: str, *, cause: OSError | None = None) -> None:
        super().__init__(message, undone=True, cause=cause)


class OutOfResourcesError(KafkaStorageError):
    """No descriptors or memory are left (or, for a read, no room): no fault of the disk, and nothing was written."""

    def __init__(self, message: str, *, cause: OSError | None = None) -> None:
        super().__init__(message, undone=True, cause=cause)


TRANSIENT_ERRORS: Final = (DiskFullError, OutOfResourcesError)
"""The failures that pass and leave the data valid; after any other, a log directory goes offline."""


def is_no_space(error: OSError) -> bool:
    """Whether the disk, or the quota on it, is full."""
    return error.errno in _NO_SPACE


def is_out_of_descriptors(error: OSError) -> bool:
    """Whether the process, or the system, has too many open files; no fsync fails with this."""
    return error.errno in _NO_DESCRIPTORS


def is_fault_of_disk(error: OSError) -> bool:
    """Whether the disk failed, which means that it is not full and the process not out of resources."""
    return not is_no_space(error) and error.errno not in _NO_RESOURCES


def storage_error(what: str, error: OSError, *, undone: bool) -> KafkaStorageError:
    """The KafkaStorageError for an error of the operating system; `undone`: the partial change was undone."""
    message = f"{what}: {error}"
    if undone and is_no_space(error):
        return DiskFullError(message, cause=error)
    if undone and error.errno in _NO_RESOURCES:
        return OutOfResourcesError(message, cause=error)
    return KafkaStorageError(message, undone=undone, cause=error)


def read_error(what: str, error: OSError) -> KafkaStorageError:
    """The same for a read, which changes nothing. A full disk, which the rebuild of an index may meet, is
    OutOfResourcesError."""
    message = f"{what}: {error}"
    if is_fault_of_disk(error):
        return KafkaStorageError(message, undone=True, cause=error)
    return OutOfResourcesError(message, cause=error)


@contextmanager
def suppress_no_space() -> Iterator[None]:
    """Suppresses the OSError of a full disk."""
    try:
        yield
    except OSError as error:
        if not is_no_space(error):
            raise


class CorruptIndexError(StorageError):
    """An index contradicts itself or its segment; it is rebuilt from the segment."""


class CorruptSnapshotError(StorageError):
    """A producer snapshot cannot be read; an older one, or the log itself, is used instead."""


class EmptySnapshotError(CorruptSnapshotError):
    """A producer snapshot has no byte: one that is about to be written, or was not flushed before a crash."""


class CorruptCheckpointError(StorageError):
    """A checkpoint file cannot be read; the log is recovered as without one."""


class LogCleaningAbortedError(StorageError):
    """The cleaning of a log was aborted; its files are removed."""


class OffsetMapTooSmallError(StorageError):
    """The cleaner's offset map has no room for a key: cleaning could never make progress."""


class SegmentOverflowError(StorageError):
    """An offset or position is beyond the range of a segment's indexes."""

    def __init__(self, message: str, base_offset: int) -> None:
        super().__init__(message)
        self.base_offset = base_offset

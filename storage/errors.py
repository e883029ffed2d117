"""What can go wrong with a log, in storage's own words; the broker maps these to wire codes in one table.

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
    """Anything storage refuses or cannot do."""


class OffsetOutOfRangeError(StorageError):
    """An offset before the log's start or beyond its end was asked for."""

    def __init__(self, message: str, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(message)
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class RecordTooLargeError(StorageError):
    """A batch is larger than max.message.bytes, or unpacks to more than the broker takes."""


class RecordBatchTooLargeError(StorageError):
    """What is to be appended in one piece does not fit into a segment."""


class InvalidMagicError(InvalidRecordError):
    """Batches of different formats in one append."""


class InvalidOffsetOrSequenceError(InvalidRecordError):
    """A batch whose count, offsets or sequence cannot be a client's, or one that clients may not write at all."""


class MissingKeyError(InvalidRecordError):
    """Records without a key for a compacted topic; `record_errors` says which."""


class InvalidTimestampError(StorageError):
    """Records whose timestamps lie outside message.timestamp.{before,after}.max.ms; `record_errors` says which."""

    def __init__(self, message: str, record_errors: list[tuple[int, str]] | None = None) -> None:
        super().__init__(message)
        self.record_errors = record_errors or []


class OutOfOrderSequenceError(StorageError):
    """A producer's sequence number leaves a gap after, or repeats more than, what the log remembers."""


class InvalidProducerEpochError(StorageError):
    """A producer writes with an epoch older than the one the log has seen: it has been fenced."""


class UnknownProducerIdError(StorageError):
    """The log knows nothing of the producer, although it must."""


class InvalidTxnStateError(StorageError):
    """A write that does not fit the producer's transaction."""


class TransactionCoordinatorFencedError(StorageError):
    """An end-transaction marker from a coordinator that has been replaced."""


class OffsetsOutOfOrderError(StorageError):
    """A follower was given batches whose offsets do not increase."""


class UnexpectedAppendOffsetError(StorageError):
    """A follower was given a batch that begins before its log's end."""

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class InconsistentTopicIdError(StorageError):
    """The directory belongs to another incarnation of the topic."""


class InconsistentMetadataError(StorageError):
    """meta.properties does not fit the cluster, the node or the other directories."""


class NoLogDirError(StorageError):
    """No log directory is left that could be used, or none of those that are left has the metadata."""


class LogDirLockedError(StorageError):
    """Another process holds the directory's .lock."""


class KafkaStorageError(StorageError):
    """The disk failed us. Unless what was half done could be `undone`, the log takes no more appends.

    `cause` is what the system said, or what the damage is. Modules that mypyc compiles give it here, since callers ask
    for it: what stands behind `from` is lost there.
    """

    def __init__(self, message: str, *, undone: bool = False, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.undone = undone
        if cause is not None:
            self.__cause__ = cause


class LogDirError(KafkaStorageError):
    """A log directory, `log_dir`, failed where two were at stake."""

    def __init__(self, message: str, log_dir: str) -> None:
        super().__init__(message)
        self.log_dir = log_dir


class AllCordonedError(KafkaStorageError):
    """Every log directory that works is cordoned: a new log has no place, until one of them is not any more."""


class DiskFullError(KafkaStorageError):
    """There is no room for what was to be written: nothing of it was, and the log goes on when there is."""

    def __init__(self, message: str, *, cause: OSError | None = None) -> None:
        super().__init__(message, undone=True, cause=cause)


class OutOfResourcesError(KafkaStorageError):
    """The process has no descriptors or no memory left (or a reader no room): the disk is not to blame, and nothing was
    written."""

    def __init__(self, message: str, *, cause: OSError | None = None) -> None:
        super().__init__(message, undone=True, cause=cause)


TRANSIENT_ERRORS: Final = (DiskFullError, OutOfResourcesError)
"""What passes without putting anything in doubt; after any other failure a log directory is not to be trusted."""


def is_no_space(error: OSError) -> bool:
    """Whether the disk, or the quota on it, is full."""
    return error.errno in _NO_SPACE


def is_out_of_descriptors(error: OSError) -> bool:
    """Whether a file could not be opened because the process, or the system, has too many; no fsync fails so."""
    return error.errno in _NO_DESCRIPTORS


def is_fault_of_disk(error: OSError) -> bool:
    """Whether nothing on that disk is to be trusted any more: it is not full, nor is the process out of resources."""
    return not is_no_space(error) and error.errno not in _NO_RESOURCES


def storage_error(what: str, error: OSError, *, undone: bool) -> KafkaStorageError:
    """The error that stands for one of the operating system's, after which what was half done is `undone` or not."""
    message = f"{what}: {error}"
    if undone and is_no_space(error):
        return DiskFullError(message, cause=error)
    if undone and error.errno in _NO_RESOURCES:
        return OutOfResourcesError(message, cause=error)
    return KafkaStorageError(message, undone=undone, cause=error)


def read_error(what: str, error: OSError) -> KafkaStorageError:
    """The same for a read, which changes nothing: only a fault of the disk is one. Readers know no DiskFullError, which
    an index that has to be built anew may run into."""
    message = f"{what}: {error}"
    if is_fault_of_disk(error):
        return KafkaStorageError(message, undone=True, cause=error)
    return OutOfResourcesError(message, cause=error)


@contextmanager
def suppress_no_space() -> Iterator[None]:
    """Passes over what only a full disk prevents."""
    try:
        yield
    except OSError as error:
        if not is_no_space(error):
            raise


class CorruptIndexError(StorageError):
    """An index contradicts itself or its segment; it is rebuilt from the segment."""


class CorruptSnapshotError(StorageError):
    """A producer snapshot that cannot be read; an older one, or the log itself, takes its place."""


class CorruptCheckpointError(StorageError):
    """A checkpoint file that cannot be read; the log is recovered as if there were none."""


class LogCleaningAbortedError(StorageError):
    """The cleaning of a log was called off; what it had made so far is gone."""


class OffsetMapTooSmallError(StorageError):
    """The cleaner's offset map would not hold a single key: cleaning could never make progress."""


class SegmentOverflowError(StorageError):
    """A segment holds an offset, or would hold a position, that its indexes have no room for."""

    def __init__(self, message: str, base_offset: int) -> None:
        super().__init__(message)
        self.base_offset = base_offset

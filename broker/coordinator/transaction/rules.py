"""The rules of transactional ids: from metadata and a request to new metadata, or ApiError.

Pure functions. Where no epoch is left, a new producer id has to be fetched first: the result is NEW_ID_NEEDED then, and
the caller repeats the call with the id. Source: TransactionCoordinator
(prepareInitProducerIdTransit, handleAddPartitionsToTransaction, handleVerifyPartitionsInTransaction, endTransaction).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from barnabas.broker.coordinator.transaction.metadata import (
    MAX_EPOCH,
    TV_0,
    TransactionMetadata,
    is_epoch_exhausted,
    supports_epoch_bump,
)
from barnabas.broker.coordinator.transaction.state import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    IDLE,
    ONGOING,
)
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.records.layout import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from barnabas.storage.offsets import TopicPartition


class NewIdNeeded(enum.Enum):
    NEW_ID_NEEDED = "new id needed"


NEW_ID_NEEDED: Final = NewIdNeeded.NEW_ID_NEEDED


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and epoch of a producer."""

    producer_id: int
    producer_epoch: int


class ProducerAnswer(NamedTuple):
    """The answer to a producer: an error, or its producer id and epoch from now on."""

    error: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


def answer_for(metadata: TransactionMetadata) -> ProducerAnswer:
    return ProducerAnswer(ErrorCode.NONE, metadata.producer_id, metadata.producer_epoch)


def initialized(
    metadata: TransactionMetadata,
    timeout_ms: int,
    expected: ProducerIdAndEpoch | None,
    now_ms: int,
    new_id: int | None,
) -> TransactionMetadata | NewIdNeeded:
    """InitProducerId of an id without an open transaction.

    `expected` are the id and epoch of a producer that needs another epoch after an error (KIP-360).
    """
    assert metadata.state in IDLE
    if metadata.is_epoch_exhausted and (
        expected is None or expected.producer_epoch == metadata.producer_epoch
    ):
        if new_id is None:
            return NEW_ID_NEEDED
        last = NO_PRODUCER_EPOCH if expected is None else metadata.producer_epoch
        return metadata.with_new_producer_id(new_id, timeout_ms, now_ms, last_epoch=last)
    if expected is None:
        return metadata.with_next_epoch(timeout_ms, now_ms, last_epoch=NO_PRODUCER_EPOCH)
    return _reinitialized(metadata, timeout_ms, expected.producer_epoch, now_ms)


def _reinitialized(
    metadata: TransactionMetadata, timeout_ms: int, expected_epoch: int, now_ms: int
) -> TransactionMetadata:
    if metadata.is_epoch_exhausted:
        # As in Kafka, where this is a broken invariant: the last epoch is never assigned, so no producer can have
        # an older one.
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR)
    if metadata.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
        return metadata.with_next_epoch(timeout_ms, now_ms, last_epoch=metadata.producer_epoch)
    if expected_epoch == metadata.last_producer_epoch:
        return metadata.with_same_epoch(timeout_ms, now_ms)
    raise ApiError(ErrorCode.PRODUCER_FENCED)


def check_expected_producer(metadata: TransactionMetadata, expected: ProducerIdAndEpoch | None) -> None:
    """Raises PRODUCER_FENCED where the producer that needs a new epoch does not have the id any more.

    One that missed the response with its new producer id names the previous id in its last epoch.
    """
    if expected is None or metadata.producer_epoch == NO_PRODUCER_EPOCH:
        return
    if expected.producer_id == metadata.producer_id:
        return
    if expected.producer_id == metadata.previous_producer_id and is_epoch_exhausted(expected.producer_epoch):
        return
    raise ApiError(ErrorCode.PRODUCER_FENCED)


def check_producer(metadata: TransactionMetadata, producer: ProducerIdAndEpoch) -> None:
    """Raises INVALID_PRODUCER_ID_MAPPING and PRODUCER_FENCED."""
    if producer.producer_id != metadata.producer_id:
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if producer.producer_epoch != metadata.producer_epoch:
        raise ApiError(ErrorCode.PRODUCER_FENCED)


def check_not_ending(metadata: TransactionMetadata) -> None:
    """Raises CONCURRENT_TRANSACTIONS while markers are being written."""
    if metadata.is_ending:
        raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)


def with_partitions(
    metadata: TransactionMetadata,
    producer: ProducerIdAndEpoch,
    partitions: Iterable[TopicPartition],
    client_version: int,
    now_ms: int,
) -> TransactionMetadata | None:
    """AddPartitionsToTxn; None where all partitions are in the transaction already."""
    # Checked first: with transaction version 2 a producer may have the next producer id already.
    check_not_ending(metadata)
    check_producer(metadata, producer)
    wanted = tuple(partitions)
    if metadata.state is ONGOING and set(wanted) <= set(metadata.partitions):
        return None
    return metadata.with_partitions(wanted, now_ms, client_version)


def verified(
    metadata: TransactionMetadata, producer: ProducerIdAndEpoch, partitions: Collection[TopicPartition]
) -> Mapping[TopicPartition, ErrorCode]:
    """NONE for each partition that is in the producer's transaction, TRANSACTION_ABORTABLE for the others."""
    check_producer(metadata, producer)
    check_not_ending(metadata)
    known = set(metadata.partitions)
    return {
        partition: ErrorCode.NONE if partition in known else ErrorCode.TRANSACTION_ABORTABLE
        for partition in partitions
    }


def ended(
    metadata: TransactionMetadata,
    producer: ProducerIdAndEpoch,
    *,
    commits: bool,
    client_version: int,
    now_ms: int,
    new_id: int | None,
) -> TransactionMetadata | NewIdNeeded | None:
    """EndTxn; None for a retry, whose response the client missed."""
    if not supports_epoch_bump(client_version):
        return _ended_before_version_2(metadata, producer, commits, now_ms)
    check_not_ending(metadata)
    is_retry = _is_retry(metadata, producer)
    if producer.producer_id != metadata.producer_id and not _retries_after_overflow(metadata, producer):
        raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    if not _is_valid_epoch(metadata, producer, is_retry):
        raise ApiError(ErrorCode.PRODUCER_FENCED)
    if metadata.state is not ONGOING and not _may_abort_nothing(metadata, commits, is_retry):
        return None
    if metadata.is_epoch_exhausted and new_id is None:
        return NEW_ID_NEEDED
    return metadata.ending(
        commits=commits,
        client_version=client_version,
        now_ms=now_ms,
        next_producer_id=new_id if metadata.is_epoch_exhausted and new_id is not None else NO_PRODUCER_ID,
    )


def _is_retry(metadata: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
    return metadata.producer_epoch == producer.producer_epoch + 1 or _retries_after_overflow(
        metadata, producer
    )


def _retries_after_overflow(metadata: TransactionMetadata, producer: ProducerIdAndEpoch) -> bool:
    """Whether the transaction took the last epoch of the previous producer id."""
    return (
        producer.producer_id == metadata.previous_producer_id
        and producer.producer_epoch == MAX_EPOCH - 1
        and metadata.producer_epoch == 0
    )


def _is_valid_epoch(metadata: TransactionMetadata, producer: ProducerIdAndEpoch, is_retry: bool) -> bool:
    if producer.producer_epoch == metadata.producer_epoch:
        return True
    return is_retry and metadata.state in (COMPLETE_COMMIT, COMPLETE_ABORT)


def _may_abort_nothing(metadata: TransactionMetadata, commits: bool, is_retry: bool) -> bool:
    """With transaction version 2 a producer also aborts where it does not know whether records reached the broker.

                      abort              commit
                      retry    current   retry    current
    Empty             fenced   ends      fenced   invalid
    CompleteAbort     done     ends      invalid  invalid
    CompleteCommit    invalid  ends      done     invalid

    True for "ends", False for "done"; INVALID_TXN_STATE is raised for "invalid".
    """
    if not commits and not is_retry:
        return True
    done = COMPLETE_COMMIT if commits else COMPLETE_ABORT
    if is_retry and metadata.state is done:
        return False
    raise ApiError(ErrorCode.INVALID_TXN_STATE)


def _ended_before_version_2(
    metadata: TransactionMetadata,
    producer: ProducerIdAndEpoch,
    commits: bool,
    now_ms: int,
) -> TransactionMetadata | None:
    """A retry cannot be distinguished from a second EndTxn here: neither changes anything."""
    check_producer(metadata, producer)
    check_not_ending(metadata)
    if metadata.state is ONGOING:
        return metadata.ending(commits=commits, client_version=TV_0, now_ms=now_ms)
    if metadata.state is (COMPLETE_COMMIT if commits else COMPLETE_ABORT):
        return None
    raise ApiError(ErrorCode.INVALID_TXN_STATE)

"""Descriptions and lists of transactional ids (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.broker.coordinator.transaction.metadata import TransactionMetadata
from barnabas.broker.coordinator.transaction.state import BY_LABEL, TransactionState
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.records.layout import NO_TIMESTAMP
from barnabas.storage.offsets import TopicPartition

if TYPE_CHECKING:
    from barnabas.broker.coordinator.transaction.shard import TransactionCoordinatorShard


class TransactionDescription(NamedTuple):
    """One transactional id, or its error. `start_timestamp_ms` is -1 before the first transaction."""

    transactional_id: str
    error: ErrorCode
    state: str = ""
    timeout_ms: int = 0
    start_timestamp_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    partitions: Sequence[TopicPartition] = ()


class ListedTransaction(NamedTuple):
    """One transactional id of a list."""

    transactional_id: str
    producer_id: int
    state: str


class TransactionFilter:
    """A filter of transactional ids; a condition that is not given matches all.

    `unknown_states` are names that no state has. `longer_than_ms` is exclusive; -1 matches any duration.
    """

    def __init__(
        self,
        *,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        longer_than_ms: int = -1,
        matches: Callable[[str], bool] | None = None,
    ) -> None:
        names = list(dict.fromkeys(states))
        self.states: frozenset[TransactionState] | None = (
            frozenset(BY_LABEL[name] for name in names if name in BY_LABEL) if names else None
        )
        self.unknown_states = [name for name in names if name not in BY_LABEL]
        self.producer_ids = frozenset(producer_ids) or None
        self.longer_than_ms = longer_than_ms
        self.matches = matches

    def accepts(self, metadata: TransactionMetadata, now_ms: int) -> bool:
        if self.producer_ids is not None and metadata.producer_id not in self.producer_ids:
            return False
        if self.states is not None and metadata.state not in self.states:
            return False
        if self.longer_than_ms >= 0 and now_ms - metadata.start_timestamp_ms <= self.longer_than_ms:
            return False
        return self.matches is None or self.matches(metadata.transactional_id)


def list_transactions(
    transactions: Iterable[TransactionMetadata], wanted: TransactionFilter, now_ms: int
) -> list[ListedTransaction]:
    """The transactional ids that match `wanted`."""
    return [
        ListedTransaction(metadata.transactional_id, metadata.producer_id, metadata.state.label)
        for metadata in transactions
        if wanted.accepts(metadata, now_ms)
    ]


def describe(shard: TransactionCoordinatorShard, transactional_id: str) -> TransactionDescription:
    """Raises ApiError(TRANSACTIONAL_ID_NOT_FOUND)."""
    metadata = shard.transactions.get(transactional_id)
    if metadata is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    assert metadata.start_timestamp_ms >= NO_TIMESTAMP, metadata
    return TransactionDescription(
        transactional_id=transactional_id,
        error=ErrorCode.NONE,
        state=metadata.state.label,
        timeout_ms=metadata.timeout_ms,
        start_timestamp_ms=metadata.start_timestamp_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        partitions=shard.partitions_of(metadata),
    )

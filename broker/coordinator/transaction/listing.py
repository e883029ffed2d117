"""Descriptions and lists of transactional ids (KIP-664, KIP-994, KIP-1152)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from barnabas.broker.coordinator.transaction.metadata import TransactionMetadata
from barnabas.broker.coordinator.transaction.state import BY_LABEL, TransactionState
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.producers import DescribeTransactionsResponse, ListTransactionsResponse
from barnabas.protocol.records.layout import NO_TIMESTAMP

if TYPE_CHECKING:
    from barnabas.broker.coordinator.transaction.shard import TransactionCoordinatorShard


Described = DescribeTransactionsResponse.TransactionState
Listed = list[ListTransactionsResponse.TransactionState]


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
) -> Listed:
    """The transactional ids that match `wanted`."""
    return [
        ListTransactionsResponse.TransactionState(
            transactional_id=metadata.transactional_id,
            producer_id=metadata.producer_id,
            transaction_state=metadata.state.label,
        )
        for metadata in transactions
        if wanted.accepts(metadata, now_ms)
    ]


def describe(shard: TransactionCoordinatorShard, transactional_id: str) -> Described:
    """Raises ApiError(TRANSACTIONAL_ID_NOT_FOUND)."""
    metadata = shard.transactions.get(transactional_id)
    if metadata is None:
        raise ApiError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    assert metadata.start_timestamp_ms >= NO_TIMESTAMP, metadata
    topics: dict[str, list[int]] = {}
    for topic, index in shard.partitions_of(metadata):
        topics.setdefault(topic, []).append(index)
    return Described(
        transactional_id=transactional_id,
        transaction_state=metadata.state.label,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_start_time_ms=metadata.start_timestamp_ms,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[
            DescribeTransactionsResponse.TopicData(topic=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )

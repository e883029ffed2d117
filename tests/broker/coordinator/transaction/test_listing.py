"""TransactionFilter: the transactional ids that match; and descriptions of one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.coordinator.transaction.listing import TransactionFilter, describe, list_transactions
from barnabas.broker.coordinator.transaction.metadata import TV_2, TransactionMetadata
from barnabas.protocol.errors import ApiError, ErrorCode

EMPTY = TransactionMetadata("empty", 1, 60_000, 0, producer_epoch=0)
OPEN = TransactionMetadata("open", 2, 60_000, 0, producer_epoch=0).with_partitions([("t", 0)], 1_000, TV_2)


def names(wanted: TransactionFilter, now_ms: int = 2_000) -> list[str]:
    return [transaction.transactional_id for transaction in list_transactions([EMPTY, OPEN], wanted, now_ms)]


def test_without_a_filter_all_are_listed() -> None:
    assert names(TransactionFilter()) == ["empty", "open"]


def test_a_duration_is_exclusive_and_counts_from_the_start_of_the_transaction() -> None:
    assert names(TransactionFilter(longer_than_ms=999)) == ["empty", "open"]
    assert names(TransactionFilter(longer_than_ms=1_000)) == ["empty"]
    assert names(TransactionFilter(longer_than_ms=2_001)) == []
    assert names(TransactionFilter(longer_than_ms=0), now_ms=1_000) == ["empty"]


def test_state_filters_use_the_names_of_states() -> None:
    assert names(TransactionFilter(states=["Ongoing"])) == ["open"]
    unknown = TransactionFilter(states=["ongoing", "Ongoing", "ongoing", "ONGOING"])
    assert names(unknown) == ["open"]
    assert unknown.unknown_states == ["ongoing", "ONGOING"]
    assert names(TransactionFilter(states=["ongoing"])) == []
    assert names(TransactionFilter(states=["Dead"])) == []


def test_filters_are_combined() -> None:
    assert names(TransactionFilter(producer_ids=[1, 2], states=["Empty"])) == ["empty"]
    assert names(TransactionFilter(producer_ids=[2], states=["Empty"])) == []
    assert names(TransactionFilter(producer_ids=[2], matches="open".__eq__)) == ["open"]
    assert names(TransactionFilter(matches="o".__eq__)) == []


def shard() -> Any:
    """Of a shard only what a description reads."""
    transactions = {one.transactional_id: one for one in (EMPTY, OPEN)}
    return SimpleNamespace(
        transactions=transactions, partitions_of=lambda metadata: sorted(metadata.partitions)
    )


def test_a_description_has_the_partitions_of_the_open_transaction() -> None:
    described = describe(shard(), "open")
    assert (described.producer_id, described.transaction_state) == (2, "Ongoing")
    assert described.transaction_start_time_ms == 1_000
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [("t", [0])]
    assert describe(shard(), "empty").topics == []


def test_an_unknown_transactional_id_is_not_described() -> None:
    with pytest.raises(ApiError) as caught:
        describe(shard(), "unknown")
    assert caught.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND

"""Records of transactional ids: Apache Kafka's bytes, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.coordinator.records import TRANSACTION_RECORDS, RecordSerde
from barnabas.broker.coordinator.transaction.metadata import TV_2, TransactionMetadata
from barnabas.broker.coordinator.transaction.records import (
    TransactionRecord,
    forgotten,
    metadata_of,
    value_version,
)
from barnabas.broker.coordinator.transaction.state import TransactionState
from barnabas.protocol.messages.transaction_state import TransactionLogKey, TransactionLogValue

SERDE = RecordSerde(TRANSACTION_RECORDS)
BEGUN = TransactionMetadata("tx", 7, 60_000, 100, producer_epoch=3).with_partitions(
    [("t", 1), ("u", 0), ("t", 0)], 1_700_000_000_000, TV_2
)


def test_values_are_flexible_from_transaction_version_1_on() -> None:
    assert [value_version(version) for version in (0, 1, 2)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("version", "value"),
    [
        (
            0,
            "0000" "0000000000000007" "0003" "0000ea60" "01"
            "00000002" "0001" "74" "00000002" "00000001" "00000000" "0001" "75" "00000001" "00000000"
            "0000018bcfe56800" "0000018bcfe56800",
        ),
        (
            2,
            "0001" "0000000000000007" "0003" "0000ea60" "01"
            "03" "02" "74" "03" "00000001" "00000000" "00" "02" "75" "02" "00000000" "00"
            "0000018bcfe56800" "0000018bcfe56800" "02" "00" "08" "0000000000000007" "02" "02" "0002",
        ),
    ],
)  # fmt: skip
def test_bytes(version: int, value: str) -> None:
    key, written = SERDE.encode(TransactionRecord(BEGUN, version))
    assert key.hex() == "000000027478"
    assert written is not None
    assert written.hex() == value


def test_without_a_transaction_no_partitions_are_written() -> None:
    record = TransactionRecord(BEGUN._replace(state=TransactionState.EMPTY, partitions=()), 2)
    assert isinstance(record.value, TransactionLogValue)
    assert record.value.transaction_partitions is None


def test_an_expired_id_has_a_tombstone() -> None:
    assert SERDE.encode(forgotten("tx")) == (b"\0\0\0\2tx", None)


def test_an_unknown_state() -> None:
    with pytest.raises(KeyError):
        metadata_of("tx", TransactionLogValue(transaction_status=99))


STATES = st.sampled_from([state for state in TransactionState if state < TransactionState.DEAD])
PARTITIONS = st.lists(
    st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 99)), unique=True, max_size=40
)


@given(STATES, PARTITIONS, st.integers(0, 2), st.integers(0, 2**62), st.integers(0, 32767))
def test_written_records_are_read_back(
    state: TransactionState,
    partitions: list[tuple[str, int]],
    version: int,
    number: int,
    epoch: int,
) -> None:
    metadata = TransactionMetadata(
        "tx",
        number,
        60_000,
        number // 2,
        previous_producer_id=number // 3 if version else -1,
        next_producer_id=number // 5 if version else -1,
        producer_epoch=epoch,
        state=state,
        partitions=() if state is TransactionState.EMPTY else tuple(partitions),
        start_timestamp_ms=number // 7,
        client_version=version,
    )
    read = SERDE.decode(*SERDE.encode(TransactionRecord(metadata, version)))
    assert isinstance(read.key, TransactionLogKey)
    assert isinstance(read.value, TransactionLogValue)
    again = metadata_of(read.key.transactional_id, read.value)
    assert set(again.partitions) == set(metadata.partitions)
    assert again._replace(partitions=(), table=0, client_version=0) == metadata._replace(
        partitions=(), table=0, client_version=0
    )
    assert again.client_version == (metadata.client_version if version else 0)

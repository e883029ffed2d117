"""RecordSerde: encodes and decodes records, and rejects other bytes."""

from __future__ import annotations

import pytest

from barnabas.broker.coordinator.records import (
    GROUP_RECORDS,
    TRANSACTION_RECORDS,
    CoordinatorRecord,
    RecordSerde,
    UnknownRecordTypeError,
    UnreadableRecordError,
    tombstone,
)
from barnabas.protocol.messages.group_state import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.messages.transaction_state import TransactionLogKey, TransactionLogValue

GROUPS = RecordSerde(GROUP_RECORDS)


def test_a_key_is_its_type_and_its_message() -> None:
    key, value = GROUPS.encode(tombstone(GroupMetadataKey(group="g")))
    assert (key.hex(), value) == ("0002000167", None)


@pytest.mark.parametrize("version", range(5))
def test_a_record_is_decoded_in_the_version_in_which_it_was_encoded(version: int) -> None:
    value = OffsetCommitValue(offset=7, metadata="m", commit_timestamp=1)
    record = CoordinatorRecord(OffsetCommitKey(group="g", topic="t", partition=1), value, version)
    key, data = GROUPS.encode(record)
    assert data is not None
    assert data[:2] == version.to_bytes(2, "big")
    assert GROUPS.decode(key, data) == record


def test_the_record_types_of_the_two_topics_are_distinct() -> None:
    transactions = RecordSerde(TRANSACTION_RECORDS)
    record = CoordinatorRecord(
        TransactionLogKey(transactional_id="x"),
        TransactionLogValue(producer_id=1, transaction_partitions=[]),
        1,
    )
    assert transactions.decode(*transactions.encode(record)) == record
    with pytest.raises(AssertionError):
        transactions.encode(tombstone(GroupMetadataKey(group="g")))


def test_every_record_type_of_kafkas_group_coordinator_is_known_once() -> None:
    types = sorted(key.api_key for key, _ in GROUP_RECORDS if key.api_key is not None)
    assert types == [*range(9), *range(10, 18), *range(19, 24)]
    assert all(value.api_key == key.api_key for key, value in GROUP_RECORDS)


def test_an_unknown_type_is_distinguished_from_damage() -> None:
    with pytest.raises(UnknownRecordTypeError) as caught:
        GROUPS.decode(b"\x00\x63rest", b"\x00\x00")
    assert caught.value.type == 99


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"\x00", b""),
        (b"\x00\x02\x00\x05g", None),  # a truncated name
        (b"\x00\x02\x00\x01g", b"\x00"),
        (b"\x00\x02\x00\x01g", b"\x00\x63"),  # an unknown version of the value
        (b"\x00\x02\x00\x01g", b"\xff\xff"),
        (b"\x00\x02\x00\x01g", b"\x00\x00\x00\x09"),
    ],
)
def test_damaged_records_raise_an_error(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(UnreadableRecordError):
        GROUPS.decode(key, value)

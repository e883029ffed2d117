"""The frame of metadata records, and their versions under a metadata.version."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.records import frame, frame_as, record_types, unframe
from barnabas.protocol.codec import encode
from barnabas.protocol.messages.cluster_records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from barnabas.protocol.messages.topic_records import (
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)
from barnabas.protocol.schema import Message
from tests.protocol.strategies import messages_of

A = b"a" * 16


def test_a_frame_is_three_varints_before_the_message() -> None:
    record = FeatureLevelRecord(name="metadata.version", feature_level=30)
    assert frame(record, 30) == bytes.fromhex("010c00") + b"\x11metadata.version\x00\x1e\x00"
    assert frame(NoOpRecord(), 30) == bytes.fromhex("01140000")


@pytest.mark.parametrize(
    ("metadata_version", "version"), [(0, 0), (7, 0), (16, 0), (17, 1), (22, 1), (23, 2), (30, 2)]
)
def test_partitions_are_written_in_the_version_of_the_metadata_version(
    metadata_version: int, version: int
) -> None:
    record = PartitionRecord(
        topic_id=A, replicas=[1], isr=[1], leader=1, directories=[A], eligible_leader_replicas=[1]
    )
    assert frame(record, metadata_version)[:3] == bytes((1, 3, version))
    read = unframe(frame(record, metadata_version))
    assert isinstance(read, PartitionRecord)
    assert read.directories == ([A] if version >= 1 else [])
    assert read.eligible_leader_replicas == ([1] if version >= 2 else None)
    assert record.directories == [A], "the record itself is not touched"


@pytest.mark.parametrize(("metadata_version", "version"), [(7, 1), (8, 2), (17, 3), (29, 3), (30, 4)])
def test_brokers_register_in_the_version_of_the_metadata_version(metadata_version: int, version: int) -> None:
    record = RegisterBrokerRecord(broker_id=1, incarnation_id=A, broker_epoch=5, log_dirs=[A])
    assert frame(record, metadata_version)[:3] == bytes((1, 0, version))


@pytest.mark.parametrize(
    ("record", "version"),
    [
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=-1), 0),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, in_controlled_shutdown=1), 1),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, log_dirs=[A]), 2),
        (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, cordoned_log_dirs=[]), 3),
    ],
)
def test_changes_of_a_registration_have_the_lowest_version_that_holds_them(
    record: Message, version: int
) -> None:
    assert frame(record, 30)[:3] == bytes((1, 17, version))
    assert unframe(frame(record, 30)) == record


@settings(deadline=None)
@given(st.data())
def test_framed_records_are_read_back(data: st.DataObject) -> None:
    record_type = data.draw(st.sampled_from(sorted(record_types().values(), key=lambda one: one.__name__)))
    version = data.draw(st.integers(*record_type.versions))
    record = data.draw(messages_of(record_type, version))
    value = frame_as(record, version)
    assert unframe(value) == record
    assert value.endswith(encode(record, version))


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_decode_to_a_record_or_an_error(value: bytes) -> None:
    try:
        unframe(value)
    except MetadataLogError:
        return


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "no value"),
        (b"", "cannot be read"),
        (bytes((0, 2, 0)), "frame version 0"),
        (bytes((1, 0x80, 0x02, 0)), "type 256 is not known to this broker; a newer one may have written it"),
        (bytes((1, 2, 9)), "TopicRecord has version 9; this broker knows 0"),
        (frame(TopicRecord(name="t", topic_id=A), 30) + b"x", "followed by 1 bytes"),
        (frame(TopicRecord(name="t", topic_id=A), 30)[:-3], "cannot be read"),
    ],
)
def test_damaged_records_have_distinct_errors(value: bytes | None, words: str) -> None:
    with pytest.raises(MetadataLogError, match=words):
        unframe(value)


def test_every_record_type_has_its_number() -> None:
    assert len(record_types()) >= 25
    assert record_types()[5] is PartitionChangeRecord

"""Rejections before an append, for any bytes, compared with a second reading of ProduceRequest.validateRecords."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.error_map import error_code_of
from barnabas.broker.kafka_apis.handlers.produce import entries_of
from barnabas.broker.request import ConnectionInfo, RequestContext
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.compression import CompressionType
from barnabas.protocol.records.errors import CorruptRecordError
from tests.broker.coordinator.transaction.txn_fakes import txn_batch
from tests.broker.logs import START_MS, batch

CONNECTION = ConnectionInfo(
    connection_id=1, listener_name="TEST", client_host="", client_port=1, local_host="", local_port=1
)
WHOLE = (
    batch("a"),
    txn_batch("b"),
    batch("c", "d", producer_id=1, producer_epoch=0, base_sequence=0),
    build_batch([(None, b"e", START_MS, ())], compression=CompressionType.ZSTD),
)
LENGTH, MAGIC, ATTRIBUTES = 8, 16, 22


@st.composite
def batches(draw: st.DrawFn) -> bytes | memoryview | None:
    """A batch, or an invalid one: with another length, format or attributes, truncated, or with bytes behind it."""
    data = bytearray(draw(st.sampled_from(WHOLE)))
    if draw(st.booleans()):
        length = st.integers(-2, 70) | st.integers(-(1 << 31), (1 << 31) - 1)
        struct.pack_into(">i", data, LENGTH, draw(length))
    if draw(st.booleans()):
        data[MAGIC] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        data[ATTRIBUTES] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    if draw(st.booleans()):
        data += draw(st.sampled_from(WHOLE) | st.binary(max_size=80))
    records = bytes(data)
    return draw(st.sampled_from((records, memoryview(records), None)))


def size_at(records: bytes, at: int) -> int | ErrorCode:
    """The length of the whole batch at that offset, of any format; 0 where there is none."""
    if len(records) - at < 12:
        return 0
    (length,) = struct.unpack_from(">i", records, at + LENGTH)
    if length < 14:
        return ErrorCode.CORRUPT_MESSAGE
    if len(records) - at > MAGIC and records[at + MAGIC] > 2:
        return ErrorCode.CORRUPT_MESSAGE
    fits = len(records) - at > MAGIC and at + 12 + length <= len(records)
    return 12 + length if fits else 0


def finds_transaction(partitions: Sequence[bytes]) -> bool | ErrorCode:
    """Whether one of the partitions has a transactional batch; the error where the search fails before."""
    for records in partitions:
        size = size_at(records, 0)
        if isinstance(size, ErrorCode):
            return size
        if size > ATTRIBUTES and records[MAGIC] == 2 and records[ATTRIBUTES] & 0x10:
            return True
    return False


def refusal_of(
    records: bytes, topic: str, version: int, acks: int, client_id: str | None
) -> ErrorCode | None:
    """The error code of a partition that is rejected before the append."""
    first = size_at(records, 0)
    if isinstance(first, ErrorCode):
        return first
    if first == 0 or records[MAGIC] != 2:
        return ErrorCode.INVALID_RECORD
    if version < 7 and records[ATTRIBUTES] & 7 == 4:
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    second = size_at(records, first)
    if second:
        return second if isinstance(second, ErrorCode) else ErrorCode.INVALID_RECORD
    if acks not in (-1, 0, 1):
        return ErrorCode.INVALID_REQUIRED_ACKS
    if topic == "__consumer_offsets" and client_id != "__admin_client":
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return None


@settings(max_examples=500)
@given(
    st.lists(batches(), min_size=1, max_size=3),
    st.sampled_from((3, 6, 7, 12)),
    st.sampled_from((-1, 1, 2)),
    st.sampled_from(("t", "__consumer_offsets")),
    st.sampled_from((None, "app", "__admin_client")),
)
def test_rejections_follow_the_rules(
    records: list[bytes | memoryview | None], version: int, acks: int, topic: str, client_id: str | None
) -> None:
    broker = SimpleNamespace(image=SimpleNamespace(topic_names={}))
    partitions = [
        ProduceRequest.PartitionProduceData(index=at, records=data) for at, data in enumerate(records)
    ]
    request = ProduceRequest(
        transactional_id="tx",
        acks=acks,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=partitions)],
    )
    context = RequestContext(CONNECTION, ApiKey.PRODUCE, version, client_id)
    plain = [bytes(data or b"") for data in records]
    expected = finds_transaction(plain)
    if isinstance(expected, ErrorCode):
        with pytest.raises(CorruptRecordError):
            entries_of(broker, context, request)  # type: ignore[arg-type]
        return
    entries, is_transactional = entries_of(broker, context, request)  # type: ignore[arg-type]
    told = [None if entry[4] is None else error_code_of(entry[4]) for entry in entries]
    assert told == [refusal_of(data, topic, version, acks, client_id) for data in plain]
    assert is_transactional == expected

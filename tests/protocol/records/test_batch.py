"""RecordBatch: the view, the walk over a buffer, the stamps."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.records import batch as batch_module
from barnabas.protocol.records.batch import (
    HEADER,
    RECORD_BATCH_OVERHEAD,
    SMALL_BATCH_BYTES,
    CompressionType,
    CorruptRecordError,
    InvalidRecordError,
    RecordBatch,
    TimestampType,
    UnsupportedCompressionError,
    build_batch,
    entry_header,
    increment_sequence,
    stamp,
    stamp_max_timestamp,
)
from barnabas.protocol.records.entries import batches
from tests.protocol.records.message_sets import message_set
from tests.support.loops import FORMS, in_form

REFUSALS = (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError)

# Offset 5, one record at 77 ms with key "k" and value "v"; as Kafka's own builder writes it.
EXAMPLE = bytes.fromhex(
    "0000000000000005 0000003a ffffffff 02 66ff1b81 0000 00000000 000000000000004d 000000000000004d"
    "ffffffffffffffff ffff ffffffff 00000001  10 00 00 00 02 6b 02 76 00"
)


@pytest.fixture(params=FORMS, scope="module")
def form(request: pytest.FixtureRequest) -> Any:
    """The module: interpreted, and compiled where it has been built."""
    return in_form(batch_module, request.param)


def example(**fields: Any) -> bytes:
    return build_batch([(b"k", b"v", 1000 + i, [("h", b"x")]) for i in range(3)], **fields)


def test_the_worked_example() -> None:
    assert build_batch([(b"k", b"v", 77, [])], base_offset=5) == EXAMPLE
    batch = RecordBatch(EXAMPLE)
    batch.ensure_valid()
    assert batch.size_in_bytes == len(EXAMPLE) == 70
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (5, 5, 6)
    assert (batch.partition_leader_epoch, batch.magic, batch.record_count) == (-1, 2, 1)
    assert (batch.base_timestamp, batch.max_timestamp) == (77, 77)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (
        -1,
        -1,
        -1,
        -1,
    )
    assert (batch.compression_type, batch.timestamp_type) == (CompressionType.NONE, TimestampType.CREATE_TIME)
    flags = (batch.is_compressed, batch.is_transactional, batch.is_control, batch.has_producer_id)
    assert not any(flags)
    assert batch.delete_horizon_ms is None
    assert batch.payload() == EXAMPLE[61:]
    (record,) = batch.records()
    assert (record.offset, record.timestamp, record.key, record.value) == (5, 77, b"k", b"v")


def test_attributes_each_have_their_bit() -> None:
    batch = RecordBatch(
        example(
            compression=CompressionType.ZSTD,
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            log_append_time=5000,
            is_transactional=True,
            is_control=True,
            delete_horizon_ms=900,
            producer_id=7,
            producer_epoch=1,
            base_sequence=2**31 - 2,
            partition_leader_epoch=9,
        )
    )
    assert batch.attributes == 0b1111100
    assert batch.compression_type == CompressionType.ZSTD
    assert batch.timestamp_type == TimestampType.LOG_APPEND_TIME
    assert batch.is_compressed
    assert batch.is_transactional
    assert batch.is_control
    assert batch.has_producer_id
    assert (batch.delete_horizon_ms, batch.max_timestamp, batch.partition_leader_epoch) == (900, 5000, 9)
    assert batch.last_sequence == 0
    assert [record.timestamp for record in batch.records()] == [5000] * 3


def test_a_view_anywhere_in_any_buffer(form: Any) -> None:
    for buffer_type in (bytes, bytearray, memoryview):
        batch = form.RecordBatch(buffer_type(b"before" + EXAMPLE + b"after"), 6)
        assert batch.is_valid_crc()
        assert batch.payload() == EXAMPLE[RECORD_BATCH_OVERHEAD:]
        assert batch.validate_records().max_timestamp == 77
        assert [record.value for record in batch.records()] == [b"v"]


def test_properties_of_a_batch_are_those_of_its_header(form: Any) -> None:
    data = example(producer_id=9, producer_epoch=2, base_sequence=30, is_transactional=True)
    batch = form.RecordBatch(data)
    names = (
        "size_in_bytes",
        "attributes",
        "last_offset_delta",
        "record_count",
        "max_timestamp",
        "producer_id",
        "base_sequence",
    )
    assert batch.claims() == tuple(getattr(batch, name) for name in names)
    assert batch.claims() == (len(data), 0x10, 2, 3, 1002, 9, 30)


def test_header_properties_need_only_the_header(form: Any) -> None:
    batch = form.RecordBatch(EXAMPLE[:61], header_only=True)
    assert (batch.base_offset, batch.size_in_bytes) == (5, 70)
    with pytest.raises(CorruptRecordError, match="too few"):
        form.RecordBatch(EXAMPLE[:60], header_only=True)
    with pytest.raises(CorruptRecordError, match="too few"):
        form.RecordBatch(EXAMPLE, -1)


def test_properties_that_need_more_than_the_header_are_rejected(form: Any) -> None:
    """Nothing beyond the buffer is read, whatever length the header claims."""
    batch = form.RecordBatch(EXAMPLE[:61], header_only=True)
    assert not batch.is_valid_crc()
    with pytest.raises(InvalidRecordError):
        batch.validate_records()
    assert bytes(b"".join(batch.stamped(5, -1))) == EXAMPLE[:61]


@pytest.mark.parametrize("size", [0, SMALL_BATCH_BYTES])
def test_a_batch_is_stamped_without_changing_its_buffer(form: Any, size: int) -> None:
    data = build_batch([(b"k", bytes(size), 1000, [])])
    batch = form.RecordBatch(b"??" + data + b"!", 2)
    pieces = batch.stamped((1 << 40) + 1, 7)
    assert len(pieces) == (2 if size else 1)
    stamped = b"".join(pieces)
    assert stamped[16:] == data[16:]
    assert batch.buffer == b"??" + data + b"!"
    again = form.RecordBatch(stamped)
    again.ensure_valid()
    for one in (batch, again):
        assert (one.base_offset, one.partition_leader_epoch) == ((1 << 40) + 1, 7)
        assert one.size_in_bytes == len(data)


FIELDS = st.tuples(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(45, 75),
    st.integers(-(1 << 31), (1 << 31) - 1),
    st.sampled_from([0, 1, 2, 2, 2, 2, 255]),
    st.integers(0, (1 << 32) - 1),
    st.integers(-(1 << 15), (1 << 15) - 1),
    st.integers(-(1 << 31), (1 << 31) - 1),
    *[st.integers(-(1 << 63), (1 << 63) - 1)] * 3,
    st.integers(-(1 << 15), (1 << 15) - 1),
    *[st.integers(-(1 << 31), (1 << 31) - 1)] * 2,
)


@settings(deadline=None)
@given(fields=FIELDS, tail=st.binary(max_size=20), before=st.binary(max_size=3), header_only=st.booleans())
def test_both_forms_read_any_header_alike(
    fields: tuple[int, ...], tail: bytes, before: bytes, header_only: bool
) -> None:
    data = before + HEADER.pack(*fields) + tail
    answers: list[object] = []
    for name in FORMS:
        try:
            batch = in_form(batch_module, name).RecordBatch(data, len(before), header_only=header_only)
        except CorruptRecordError as error:
            answers.append(str(error))
            continue
        values = [getattr(batch, name) for name in RecordBatch.__slots__ if name != "buffer"]
        try:
            values.append(batch.validate_records(1 << 20).max_timestamp)
        except REFUSALS as error:
            values.append(type(error))
        derived = (batch.last_offset, batch.next_offset, batch.last_sequence, batch.is_valid_crc())
        answers.append((repr(batch), values, derived, b"".join(batch.stamped(3, 4))))
    assert answers[0] == answers[-1]


@pytest.mark.parametrize("end", range(len(EXAMPLE)))
def test_a_batch_cut_at_every_byte(end: int) -> None:
    with pytest.raises(CorruptRecordError):
        RecordBatch(EXAMPLE[:end])
    assert list(batches(EXAMPLE[:end])) == []


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 48, 59, 2**31 - 1])
def test_invalid_lengths_are_rejected(form: Any, length: int) -> None:
    claimed = EXAMPLE[:8] + struct.pack(">i", length) + EXAMPLE[12:]
    with pytest.raises(CorruptRecordError):
        form.RecordBatch(claimed)


def test_another_format_is_not_a_v2_batch(form: Any) -> None:
    for magic in (0, 1, 3, 255):
        with pytest.raises(CorruptRecordError, match=f"magic {magic}"):
            form.RecordBatch(EXAMPLE[:16] + bytes([magic]) + EXAMPLE[17:])


def test_the_crc_covers_every_bit_from_the_attributes_on(form: Any) -> None:
    for position in range(17, len(EXAMPLE)):
        damaged = bytearray(EXAMPLE)
        damaged[position] ^= 0x10
        batch = form.RecordBatch(damaged)
        assert not batch.is_valid_crc()
        with pytest.raises(CorruptRecordError, match="claims CRC"):
            batch.ensure_valid()


def test_entry_header() -> None:
    assert entry_header(EXAMPLE) == (5, 70, 2)
    legacy = message_set([(b"k", b"v", 5)], magic=1, base_offset=3)
    assert entry_header(b"?" + legacy, 1) == (3, len(legacy), 1)
    for magic, least in ((0, 14), (1, 22), (2, 49)):
        header = struct.pack(">qiiB", 0, least, 0, magic)
        assert entry_header(header) == (0, least + 12, magic)
        with pytest.raises(CorruptRecordError, match=f"length {least - 1}"):
            entry_header(struct.pack(">qiiB", 0, least - 1, 0, magic))
    with pytest.raises(CorruptRecordError, match="magic 3"):
        entry_header(struct.pack(">qiiB", 0, 100, 0, 3))


def test_stamp_keeps_the_crc_valid() -> None:
    buffer = bytearray(b"??" + EXAMPLE)
    stamp(memoryview(buffer), 2, 1 << 40, 17)
    batch = RecordBatch(buffer, 2)
    batch.ensure_valid()
    assert (batch.base_offset, batch.last_offset, batch.partition_leader_epoch) == (1 << 40, 1 << 40, 17)
    assert buffer[18:] == EXAMPLE[16:]


def test_stamp_log_append_time() -> None:
    buffer = bytearray(
        b"??" + example(is_transactional=True, producer_id=1, producer_epoch=0, base_sequence=0)
    )
    stamp_max_timestamp(buffer, 2, TimestampType.LOG_APPEND_TIME, 123_456)
    batch = RecordBatch(buffer, 2)
    batch.ensure_valid()
    assert (batch.timestamp_type, batch.max_timestamp) == (TimestampType.LOG_APPEND_TIME, 123_456)
    assert batch.is_transactional
    assert [record.timestamp for record in batch.records()] == [123_456] * 3


def test_stamping_the_same_values_changes_nothing() -> None:
    buffer = bytearray(EXAMPLE)
    buffer[-1] ^= 1  # a computed CRC would be valid now
    stamp_max_timestamp(buffer, 0, TimestampType.CREATE_TIME, 77)
    assert not RecordBatch(buffer).is_valid_crc()
    stamp_max_timestamp(buffer, 0, TimestampType.CREATE_TIME, 78)
    assert RecordBatch(buffer).is_valid_crc()


def test_an_unknown_codec() -> None:
    damaged = bytearray(EXAMPLE)
    damaged[22] = 5
    batch = RecordBatch(damaged)
    assert batch.is_compressed
    with pytest.raises(UnsupportedCompressionError, match="5"):
        batch.records()


def test_validate_records_of_a_compressed_batch(form: Any) -> None:
    summary = form.RecordBatch(example(compression=CompressionType.LZ4)).validate_records()
    assert (summary.record_count, summary.max_timestamp, summary.max_timestamp_index) == (3, 1002, 2)
    with pytest.raises(CorruptRecordError, match="more than the 10 bytes allowed"):
        form.RecordBatch(example(compression=CompressionType.LZ4)).validate_records(10)


def test_increment_sequence() -> None:
    assert increment_sequence(5, 3) == 8
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 1, 5) == 4


def test_repr_names_the_main_fields() -> None:
    assert repr(RecordBatch(EXAMPLE)).startswith(
        "RecordBatch(offsets 5..5, 1 records, 70 bytes, attributes 0x0"
    )


@settings(deadline=None)
@given(
    data=st.binary(max_size=120)
    | st.builds(
        lambda fields, tail: HEADER.pack(*fields) + tail,
        st.tuples(
            st.integers(0, 9),
            st.integers(40, 60),
            st.just(0),
            st.just(2),
            st.just(0),
            st.integers(0, 127),
            st.integers(-1, 5),
            *[st.integers(-1, 9)] * 3,
            st.just(-1),
            st.just(-1),
            st.integers(-1, 3),
        ),
        st.binary(max_size=20),
    )
)
def test_any_bytes_are_read_or_rejected(data: bytes) -> None:
    """Any bytes at all either are batches or raise one of three exceptions, and nothing else."""
    try:
        for entry in batches(data):
            entry.is_valid_crc()
            list(entry.records(max_decompressed_bytes=1 << 20))
    except REFUSALS:
        pass

"""Message sets v0 and v1: reading and rejection."""

from __future__ import annotations

import struct
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.records.batch import CompressionType, TimestampType, build_batch
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionError,
)
from barnabas.protocol.records.legacy import LegacyEntry
from barnabas.protocol.records.up_conversion import up_convert
from tests.protocol.records.message_sets import Message, message, message_set

REFUSALS = (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError)
CODECS = list(CompressionType)[:4]
WRAPPERS = CODECS[1:]
MESSAGES: list[Message] = [(b"a", b"1", 50), (None, b"", 70), (b"", None, 60)]

# The worked example of the module's docstring.
EXAMPLE = bytes.fromhex("0000000000000003 00000018 7fdc1dec 01 00 0000000000000005 00000001 6b 00000001 76")


def contents(data: bytes) -> list[tuple[Any, ...]]:
    return [
        (r.offset, r.timestamp, r.key, r.value, list(r.headers), r.sequence)
        for entry in batches(data)
        for r in entry.records()
    ]


def expected(first: int, *, magic: int = 1, timestamp: int | None = None) -> list[tuple[Any, ...]]:
    return [
        (first + i, -1 if magic == 0 else stamp if timestamp is None else timestamp, key, value, [], -1)
        for i, (key, value, stamp) in enumerate(MESSAGES)
    ]


def test_the_worked_example() -> None:
    assert message(b"k", b"v", magic=1, offset=3, timestamp=5) == EXAMPLE
    entry = LegacyEntry(EXAMPLE)
    entry.ensure_valid()
    assert (entry.base_offset, entry.last_offset, entry.next_offset, entry.size_in_bytes) == (3, 3, 4, 36)
    assert (entry.magic, entry.attributes, entry.max_timestamp) == (1, 0, 5)
    assert (entry.compression_type, entry.timestamp_type) == (CompressionType.NONE, TimestampType.CREATE_TIME)
    assert contents(EXAMPLE) == [(3, 5, b"k", b"v", [], -1)]
    assert repr(entry) == "LegacyEntry(v1, last offset 3, 36 bytes, attributes 0x0)"


def test_attributes_of_v2_alone_are_absent() -> None:
    entry = LegacyEntry(EXAMPLE)
    assert (entry.producer_id, entry.producer_epoch, entry.base_sequence, entry.last_sequence) == (
        -1,
        -1,
        -1,
        -1,
    )
    assert entry.partition_leader_epoch == -1
    assert entry.delete_horizon_ms is None
    flags = (entry.has_producer_id, entry.is_transactional, entry.is_control)
    assert not any(flags)


def test_v0_has_no_timestamps() -> None:
    entry = LegacyEntry(message(b"k", b"v", magic=0, offset=3))
    assert (entry.timestamp_type, entry.max_timestamp) == (TimestampType.NO_TIMESTAMP_TYPE, -1)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", CODECS)
def test_offsets_inside_wrappers(magic: int, compression: CompressionType) -> None:
    """Absolute in v0, relative in v1; the wrapper's offset is the same in both."""
    data = message_set(MESSAGES, magic=magic, base_offset=40, compression=compression)
    assert contents(data) == expected(40, magic=magic)
    first, *_ = batches(data)
    assert (first.base_offset, first.last_offset) == ((40, 42) if compression else (40, 40))


def test_the_wrapper_s_log_append_time_is_that_of_all_its_entries() -> None:
    data = message_set(
        MESSAGES, magic=1, base_offset=40, compression=CompressionType.GZIP, log_append_time=999
    )
    assert contents(data) == expected(40, timestamp=999)


def test_a_wrapper_at_offset_zero_leaves_the_offsets_alone() -> None:
    data = message_set(MESSAGES, magic=1, compression=CompressionType.GZIP)
    assert contents(bytes(8) + data[8:]) == expected(0)


def wrapper(value: bytes | None, *, offset: int = 5, attributes: int = 1, magic: int = 1) -> bytes:
    return message(None, value, magic=magic, offset=offset, attributes=attributes)


def gzip(data: bytes) -> bytes:
    from barnabas.protocol.records.compression import compress

    return compress(CompressionType.GZIP, data)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (wrapper(None), InvalidRecordError, "has no value"),
        (wrapper(gzip(b"")), InvalidRecordError, "is empty"),
        (wrapper(b"no gzip"), CorruptRecordError, "gzip"),
        (wrapper(gzip(message(b"k", b"v", magic=0))), InvalidRecordError, "another format"),
        (wrapper(gzip(build_batch([(b"k", b"v", 1, [])]))), InvalidRecordError, "another format"),
        (wrapper(gzip(wrapper(b""))), InvalidRecordError, "another wrapper"),
        (
            wrapper(gzip(message(b"k", b"v", magic=1, offset=6))),
            InvalidRecordError,
            "below the last one inside",
        ),
        (wrapper(b"", attributes=4), UnsupportedCompressionError, "zstd"),
        (wrapper(b"", attributes=7), UnsupportedCompressionError, "7"),
        (wrapper(gzip(message(b"k", b"v", magic=1)[:8] + bytes(30))), CorruptRecordError, "length 0"),
        (wrapper(b"\x04\x22\x4d", magic=0, attributes=3), CorruptRecordError, "inside the frame header"),
    ],
)
def test_invalid_entries_of_a_wrapper_are_rejected(data: bytes, error: type[Exception], message: str) -> None:
    (entry,) = batches(data)
    entry.ensure_valid()
    with pytest.raises(error, match=message):
        entry.records()


def test_wrappers_are_decompressed_within_the_bound() -> None:
    (entry,) = batches(wrapper(gzip(message(b"k", bytes(5000), magic=1))))
    with pytest.raises(CorruptRecordError, match="more than the 1000 bytes allowed"):
        entry.records(1000)


def test_a_message_set_cut_at_every_byte() -> None:
    for data in (EXAMPLE, message(b"k", b"v", magic=0)):
        for end in range(len(data)):
            with pytest.raises(CorruptRecordError):
                LegacyEntry(data[:end])


@pytest.mark.parametrize("length", [-1, 0, 21, 25, 2**31 - 1])
def test_invalid_lengths_are_rejected(length: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"length {length}"):
        LegacyEntry(EXAMPLE[:8] + struct.pack(">i", length) + EXAMPLE[12:])


def test_v2_is_not_an_entry_of_a_message_set() -> None:
    with pytest.raises(CorruptRecordError, match="magic 2"):
        LegacyEntry(build_batch([(b"k", b"v", 1, [])]))


@pytest.mark.parametrize(("position", "length"), [(26, 100), (26, 7), (26, 6), (31, 2), (31, 2**31 - 1)])
def test_invalid_lengths_of_keys_and_values_are_rejected(position: int, length: int) -> None:
    damaged = EXAMPLE[:position] + struct.pack(">i", length) + EXAMPLE[position + 4 :]
    with pytest.raises(CorruptRecordError, match=r"claims a key or value|ends before its value"):
        LegacyEntry(damaged).key_and_value()


def test_a_wrong_checksum_is_rejected() -> None:
    with pytest.raises(CorruptRecordError, match="claims CRC"):
        LegacyEntry(EXAMPLE[:-1] + b"w").ensure_valid()


KEYS = st.none() | st.binary(max_size=20)


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(KEYS, KEYS, st.integers(-1, 1 << 62)), min_size=1, max_size=5),
    magic=st.sampled_from([0, 1]),
    compression=st.sampled_from(CODECS),
    base_offset=st.integers(0, 1 << 60),
)
def test_round_trip(rows: list[Message], magic: int, compression: CompressionType, base_offset: int) -> None:
    data = message_set(rows, magic=magic, base_offset=base_offset, compression=compression)
    read = [(offset, key, value) for offset, _, key, value, _, _ in contents(data)]
    first = 0 if magic == 1 and base_offset + len(rows) == 1 else base_offset
    assert read == [(first + i, key, value) for i, (key, value, _) in enumerate(rows)]
    assert contents(up_convert(data)) == contents(data)


@settings(deadline=None)
@given(
    rows=st.lists(st.tuples(KEYS, KEYS, st.integers(-1, 99)), min_size=1, max_size=3),
    magic=st.sampled_from([0, 1]),
    compression=st.sampled_from(CODECS),
    damage=st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=3),
)
def test_any_bytes_are_read_or_rejected(
    rows: Any, magic: int, compression: CompressionType, damage: Any
) -> None:
    data = bytearray(message_set(rows, magic=magic, compression=compression))
    for position, byte in damage:
        data[position % len(data)] = byte
    data[12:16] = struct.pack(">I", crc32(data[16:]))  # otherwise the checksum would catch nearly everything
    try:
        contents(bytes(data))
        up_convert(data)
    except REFUSALS:
        pass

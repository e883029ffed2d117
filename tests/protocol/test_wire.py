"""UUIDs and unsigned varints."""

from __future__ import annotations

from itertools import chain, repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.wire import (
    ZERO_UUID,
    is_reserved_uuid,
    random_uuid,
    read_unsigned_varint,
    unsigned_varint,
    uuid_from_string,
    uuid_to_string,
)


def test_text_of_a_uuid_is_url_safe_base64_without_padding() -> None:
    assert uuid_to_string(ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_string(b"\xff" * 16) == "_____________________w"
    assert uuid_to_string(b"\xfb\xef\xbe" * 5 + b"\x01") == "--------------------AQ"


@given(st.binary(min_size=16, max_size=16))
def test_the_text_of_a_uuid_parses_to_it(uuid: bytes) -> None:
    text = uuid_to_string(uuid)
    assert len(text) == 22
    assert uuid_from_string(text) == uuid
    assert uuid_from_string(text + "==") == uuid


@pytest.mark.parametrize(
    "text", ["", "AAAA", "A" * 21, "A" * 23, "A" * 25, "AAAAAAAAAAAAAAAAAAAA!A", "\u00e9" * 22]
)
def test_an_invalid_uuid_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="is not a UUID"):
        uuid_from_string(text)


def test_a_random_uuid_is_version_4() -> None:
    assert random_uuid(lambda count: b"\x00" * count) == bytes.fromhex("00000000000040008000000000000000")
    assert random_uuid(lambda count: b"\xef" * count) == bytes.fromhex("efefefefefef4fefafefefefefefefef")


def test_a_random_uuid_does_not_begin_with_a_dash_in_text() -> None:
    dash, good = b"\xf8" + bytes(15), b"\x01" * 16
    draws = chain([dash, dash], repeat(good))
    uuid = random_uuid(lambda count: next(draws))
    assert not uuid_to_string(uuid).startswith("-")
    assert uuid[0] == 1


def test_the_hundred_lowest_uuids_are_reserved() -> None:
    assert is_reserved_uuid(ZERO_UUID)
    assert is_reserved_uuid(bytes(15) + b"\x63")
    assert not is_reserved_uuid(bytes(15) + b"\x64")
    assert not is_reserved_uuid(b"\x01" + bytes(15))


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (0, b"\x00"),
        (1, b"\x01"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (16383, b"\xff\x7f"),
        (16384, b"\x80\x80\x01"),
        (2**32 - 1, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_varints_by_example(value: int, data: bytes) -> None:
    assert unsigned_varint(value) == data
    assert read_unsigned_varint(b"\xaa" + data + b"\xbb", 1) == (value, 1 + len(data))


@given(st.integers(0, 2**32 - 1))
def test_varints_survive_a_round_trip(value: int) -> None:
    data = unsigned_varint(value)
    assert read_unsigned_varint(data, 0) == (value, len(data))
    with pytest.raises(ProtocolError, match="cut off"):
        read_unsigned_varint(data[:-1], 0)


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x00", b"\xff" * 9])
def test_varints_of_more_than_32_bits_are_rejected(data: bytes) -> None:
    with pytest.raises(ProtocolError, match="more than 32 bits"):
        read_unsigned_varint(data, 0)


@pytest.mark.parametrize("value", [-1, 2**32])
def test_only_32_bits_can_be_encoded(value: int) -> None:
    with pytest.raises(ValueError, match="unsigned varint"):
        unsigned_varint(value)

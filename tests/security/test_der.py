from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.security.der import SEQUENCE, DerError, elements, object_identifier, single


def encoded(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


@given(st.lists(st.tuples(st.integers(0, 30), st.binary(max_size=300) | st.just(bytes(300)))))
def test_elements_come_back_as_they_were(parts: list[tuple[int, bytes]]) -> None:
    data = b"".join(encoded(tag, content) for tag, content in parts)
    found = list(elements(data))
    assert [(each.tag, each.content) for each in found] == parts
    assert b"".join(each.whole for each in found) == data
    assert list(single(encoded(SEQUENCE, data)).expect(SEQUENCE).children()) == found


def test_a_long_element() -> None:
    assert single(encoded(4, bytes(70_000))).content == bytes(70_000)


@given(st.binary(max_size=60))
def test_any_bytes_are_elements_or_raise_der_error(data: bytes) -> None:
    with contextlib.suppress(DerError):
        assert b"".join(each.whole for each in elements(data)) == data


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x30", "cut off"),
        (b"\x1f\x01\x00", "several bytes"),
        (b"\x30\x80", "indefinite"),
        (b"\x30\x85\x00\x00\x00\x00\x00", "too long"),
        (b"\x30\x82\x01", "cut off"),
        (b"\x30\x02\x00", "of 2 bytes is cut off"),
        (b"\x30\x00\x00", "1 bytes follow"),
    ],
)
def test_what_is_wrong_is_said(data: bytes, said: str) -> None:
    with pytest.raises(DerError, match=said):
        single(data)


def test_another_tag_is_rejected() -> None:
    with pytest.raises(DerError, match="tag 0x04, where 0x30 is expected"):
        single(b"\x04\x00").expect(SEQUENCE)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"\x55\x04\x03", "2.5.4.3"),
        (bytes.fromhex("2a864886f70d010901"), "1.2.840.113549.1.9.1"),
        (bytes.fromhex("0992268993f22c640119"), "0.9.2342.19200300.100.1.25"),
        (b"\x88\x37\x03", "2.999.3"),
    ],
)
def test_object_identifiers(content: bytes, text: str) -> None:
    assert object_identifier(content) == text


@pytest.mark.parametrize("content", [b"", b"\x55\x84"])
def test_a_damaged_object_identifier_is_rejected(content: bytes) -> None:
    with pytest.raises(DerError, match="empty or cut off"):
        object_identifier(content)

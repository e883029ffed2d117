"""Hex, base64 and raw bytes, and where frames begin."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.wire.inputs import (
    BASE64,
    FORMATS,
    HEX,
    PCAP,
    RAW,
    InputError,
    Piece,
    decoded,
    is_plausible_request,
    kind_of,
    kind_of_text,
    split,
)
from barnabas.protocol.messages.groups import HeartbeatRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from tests.cli.wire.captured import pcap, pcapng
from tests.cli.wire.frames_made import request, sized

FRAME = request(HeartbeatRequest(group_id="group", member_id="\xff member"), 4)
OTHER = request(MetadataRequest(topics=None), 12, 8)


@pytest.mark.parametrize(
    "text",
    [
        FRAME.hex(),
        FRAME.hex(" ").upper(),
        FRAME.hex(":"),
        ", ".join(f"0x{byte:02x}" for byte in FRAME),
        "".join(f"\\x{byte:02x}" for byte in FRAME) + "\n",
    ],
)
def test_hex(text: str) -> None:
    assert kind_of(text.encode()) == HEX
    assert decoded(text.encode(), HEX) == FRAME


@pytest.mark.parametrize(
    "text", [b64encode(FRAME), urlsafe_b64encode(FRAME).rstrip(b"="), b64encode(FRAME).replace(b"A", b"A\n")]
)
def test_base64(text: bytes) -> None:
    assert kind_of(text) == BASE64
    assert decoded(text, BASE64) == FRAME


def test_raw_and_captures() -> None:
    assert kind_of(FRAME) == RAW
    assert decoded(FRAME, RAW) == FRAME
    assert kind_of(b"") == RAW
    for content in (
        pcap([]),
        pcap([], order=">"),
        pcap([], nanoseconds=True),
        pcapng([]),
        pcapng([], order=">"),
    ):
        assert kind_of(content) == PCAP


def test_hex_and_base64_on_the_command_line_are_recognized() -> None:
    assert kind_of_text(b"capture") is None
    assert kind_of_text(b64encode(FRAME)) == BASE64
    assert kind_of_text(FRAME.hex().encode()) == HEX


@pytest.mark.parametrize(
    ("text", "kind"), [(b"0g", HEX), (b"", HEX), (b"012", HEX), (b"A", BASE64), (b"A=A", BASE64)]
)
def test_invalid_input_is_rejected(text: bytes, kind: str) -> None:
    with pytest.raises(InputError, match=f"not {kind}"):
        decoded(text, kind)


@given(st.binary(max_size=60), st.sampled_from(FORMATS), st.booleans())
def test_any_bytes_are_framed_or_rejected(content: bytes, kind: str, is_response: bool) -> None:
    kind_of(content)
    try:
        data = decoded(content, kind)
    except InputError:
        return
    pieces = split(data, is_response=is_response)
    assert b"".join(piece.data for piece in pieces) in data or len(pieces) > 1


def test_frames_behind_their_sizes_and_without() -> None:
    assert split(FRAME, is_response=False) == [Piece(0, FRAME)]
    assert split(sized(FRAME), is_response=False) == [Piece(4, FRAME)]
    both = sized(FRAME) + sized(OTHER)
    expected = [Piece(4, FRAME), Piece(8 + len(FRAME), OTHER)]
    assert split(both, is_response=False) == expected
    assert split(both, is_response=True) == expected


def test_an_incomplete_frame() -> None:
    assert split(sized(FRAME)[:-3], is_response=False) == [Piece(4, FRAME[:-3], 3)]
    assert split(sized(FRAME) + b"\x00\x00", is_response=False) == [
        Piece(4, FRAME),
        Piece(4 + len(FRAME), b"\x00\x00"),
    ]


def test_plausible_requests() -> None:
    assert is_plausible_request(FRAME)
    for data in (b"\x00\x0c\x00", b"\x03\xe7\x00\x00", b"\x00\x0c\x00\x63"):
        assert not is_plausible_request(data)

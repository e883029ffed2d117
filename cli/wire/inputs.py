"""The input of `wire decode`: its format, and the frames in bytes that are not a capture."""

from __future__ import annotations

import binascii
import re
import struct
from typing import Final, NamedTuple

from barnabas.cli.wire.captures import MAGICS
from barnabas.protocol.api_keys import request_type

HEX, BASE64, RAW, PCAP = "hex", "base64", "raw", "pcap"
FORMATS: Final = (HEX, BASE64, RAW, PCAP)

_SIZE = struct.Struct(">i")
_KEY_AND_VERSION = struct.Struct(">hh")
_HEX_NOISE = re.compile(rb"0x|\\x|[\s:,;-]+", re.IGNORECASE)
_HEX = re.compile(rb"(?:[0-9a-f]{2})+", re.IGNORECASE)
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]+={0,2}")


class InputError(Exception):
    """The input is not of the format that --input names."""


class Piece(NamedTuple):
    """The bytes of one frame without its size, their offset, and how many are missing at the end."""

    start: int
    data: bytes
    missing: int = 0


def kind_of(content: bytes) -> str:
    """One of FORMATS."""
    if content[:4] in MAGICS:
        return PCAP
    if _HEX.fullmatch(_HEX_NOISE.sub(b"", content)):
        return HEX
    text = b"".join(content.split())
    return BASE64 if _BASE64.fullmatch(text) and len(text.rstrip(b"=")) % 4 != 1 else RAW


def kind_of_text(content: bytes) -> str | None:
    """HEX or BASE64 for the text of a command line; None for other words, some of which look like base64.

    A frame begins with a byte that is zero: the high one of a size, an API key or a correlation id.
    """
    kind = kind_of(content)
    return kind if kind == HEX or (kind == BASE64 and content.startswith(b"A")) else None


def decoded(content: bytes, kind: str) -> bytes:
    """The decoded bytes of the text; raw bytes as they are. Raises InputError."""
    if kind == HEX:
        digits = _HEX_NOISE.sub(b"", content)
        if not _HEX.fullmatch(digits):
            raise InputError("this is not hex: pairs of hex digits, with spaces, colons or 0x between them")
        return bytes.fromhex(digits.decode())
    if kind == BASE64:
        text = b"".join(content.split()).rstrip(b"=").replace(b"-", b"+").replace(b"_", b"/")
        try:
            return binascii.a2b_base64(text + b"=" * (-len(text) % 4), strict_mode=True)
        except binascii.Error as error:
            raise InputError(f"this is not base64: {error}") from None
    return content


def split(data: bytes, *, is_response: bool) -> list[Piece]:
    """The frames in `data`: one without its size, or any number with their sizes."""
    if not _is_sized(data, is_response):
        return [Piece(0, data)]
    pieces = []
    position = 0
    while len(data) - position >= _SIZE.size:
        (size,) = _SIZE.unpack_from(data, position)
        start = position + _SIZE.size
        if size < 0:
            break
        pieces.append(Piece(start, data[start : start + size], max(size - (len(data) - start), 0)))
        position = start + size
    if position < len(data):
        pieces.append(Piece(position, data[position:]))
    return pieces


def _is_sized(data: bytes, is_response: bool) -> bool:
    """Whether the bytes begin with the size of a frame."""
    if len(data) < 2 * _SIZE.size:
        return False
    (size,) = _SIZE.unpack_from(data)
    left = len(data) - _SIZE.size
    if size == left:
        return True
    if size < _SIZE.size:
        return False
    if is_response:
        return size < left and _ends_with_a_frame(data)
    return not is_plausible_request(data) and is_plausible_request(data[_SIZE.size :])


def _ends_with_a_frame(data: bytes) -> bool:
    position = 0
    while len(data) - position >= _SIZE.size:
        (size,) = _SIZE.unpack_from(data, position)
        if size < 0:
            return False
        position += _SIZE.size + size
    return position == len(data)


def is_plausible_request(data: bytes) -> bool:
    """Whether bytes begin with an API key and a version of that API."""
    if len(data) < _KEY_AND_VERSION.size:
        return False
    key, version = _KEY_AND_VERSION.unpack_from(data)
    try:
        return request_type(key).versions.has(version)
    except ValueError:
        return False

"""What was given to decode: hex, base64 or raw bytes, and where one frame in it ends and the next begins."""

from __future__ import annotations

import binascii
import re
import struct
from typing import Final, NamedTuple

from barnabas.protocol.api_keys import ApiKey, request_type

HEX, BASE64, RAW, PCAP = "hex", "base64", "raw", "pcap"
FORMATS: Final = (HEX, BASE64, RAW, PCAP)

_CAPTURE_MAGICS: Final = frozenset(
    bytes.fromhex(magic) for magic in ("a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1", "0a0d0d0a")
)
_SIZE = struct.Struct(">i")
_KEY_AND_VERSION = struct.Struct(">hh")
_HEX_NOISE = re.compile(rb"0x|\\x|[\s:,;-]+", re.IGNORECASE)
_HEX = re.compile(rb"(?:[0-9a-f]{2})+", re.IGNORECASE)
_BASE64 = re.compile(rb"[A-Za-z0-9+/_-]+={0,2}")


class InputError(Exception):
    """What was given is not what it was said to be."""


class Piece(NamedTuple):
    """The bytes of one frame without its size, where they begin, and how many are missing at its end."""

    start: int
    data: bytes
    missing: int = 0


def kind_of(content: bytes) -> str:
    """One of FORMATS."""
    if content[:4] in _CAPTURE_MAGICS:
        return PCAP
    if _HEX.fullmatch(_HEX_NOISE.sub(b"", content)):
        return HEX
    if _BASE64.fullmatch(b"".join(content.split())) and len(b"".join(content.split()).rstrip(b"=")) % 4 != 1:
        return BASE64
    return RAW


def kind_of_text(content: bytes) -> str | None:
    """The same for what stands on a command line, where words that are no frame may look like base64.

    A frame begins with a byte that is zero: the high one of a size, an API key or a correlation id.
    """
    kind = kind_of(content)
    return kind if kind == HEX or (kind == BASE64 and content.startswith(b"A")) else None


def decoded(content: bytes, kind: str) -> bytes:
    """The bytes that the text stands for; raw bytes as they are. Raises InputError."""
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
    """The frames in `data`: one without its size, or any number of them behind their sizes."""
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
    """Whether bytes begin with an API key and a version that go together."""
    if len(data) < _KEY_AND_VERSION.size:
        return False
    key, version = _KEY_AND_VERSION.unpack_from(data)
    try:
        return request_type(ApiKey(key)).versions.has(version)
    except ValueError:
        return False

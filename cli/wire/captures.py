"""pcap and pcapng files: the packets in them, with the protocol of their outermost layer.

dpkt, a library of a fitting size, has had no release since 2022, does not report a file that is cut off, and applies
the link type and clock of the first interface to all. Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_PCAP: Final = {
    b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6),
    b"\xa1\xb2\x3c\x4d": (">", 1e-9),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
}
_PCAPNG: Final = b"\x0a\x0d\x0d\x0a"
_BYTE_ORDERS: Final = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
MAGICS: Final = frozenset({*_PCAP, _PCAPNG})
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _PACKET = 1, 2, 3, 6
_TIME_RESOLUTION: Final = 9
"""The option of an interface that says what its timestamps count."""


class CaptureError(Exception):
    """The file is not a capture, or is cut off."""


class Packet(NamedTuple):
    """The captured bytes of one packet. `time` is in seconds since 1970, None where the file has none."""

    time: float | None
    link_type: int
    data: bytes


def packets(content: bytes) -> Iterator[Packet]:
    """The packets in the order of the file. Raises CaptureError after the last packet before the damage."""
    if content[:4] in _PCAP:
        return _pcap(content)
    if content[:4] == _PCAPNG:
        return _pcapng(content)
    raise CaptureError(f"this is neither pcap nor pcapng: it begins with {content[:4].hex(' ') or 'nothing'}")


def _pcap(content: bytes) -> Iterator[Packet]:
    order, unit = _PCAP[content[:4]]
    if len(content) < 24:
        raise CaptureError(f"the header of a pcap file has 24 bytes, this file {len(content)}")
    link_type = struct.unpack_from(f"{order}I", content, 20)[0] & 0x0FFFFFFF
    position = 24
    while position < len(content):
        if len(content) - position < 16:
            raise CaptureError(f"the file ends within the header of a packet at byte {position}")
        seconds, fraction, size = struct.unpack_from(f"{order}III", content, position)
        start = position + 16
        if size > len(content) - start:
            raise CaptureError(f"the file ends within the packet at byte {position}")
        yield Packet(seconds + fraction * unit, link_type, content[start : start + size])
        position = start + size


def _pcapng(content: bytes) -> Iterator[Packet]:
    order, position = "<", 0
    interfaces: list[tuple[int, float]] = []
    while position < len(content):
        if content[position : position + 4] == _PCAPNG:
            order = _BYTE_ORDERS.get(content[position + 8 : position + 12], "")
            if not order:
                raise CaptureError(f"the section at byte {position} has no byte order")
            interfaces = []
        left = len(content) - position
        if left < 12:
            raise CaptureError(f"the file ends within a block at byte {position}")
        kind, size = struct.unpack_from(f"{order}II", content, position)
        if size < 12 or size % 4 or size > left:
            raise CaptureError(f"the block at byte {position} claims {size} of {left} bytes")
        body = content[position + 8 : position + size - 4]
        try:
            if kind == _INTERFACE:
                interfaces.append(_interface(body, order))
            elif kind in {_PACKET, _OLD_PACKET, _SIMPLE_PACKET}:
                yield _packet(kind, body, order, interfaces)
        except (struct.error, IndexError):
            raise CaptureError(f"the block at byte {position} is too short for its type") from None
        position += size


def _interface(body: bytes, order: str) -> tuple[int, float]:
    """The link type, and the unit of timestamps in seconds."""
    (link_type,) = struct.unpack_from(f"{order}H6x", body)
    unit, position = 1e-6, 8
    while len(body) - position >= 4:
        code, size = struct.unpack_from(f"{order}HH", body, position)
        if code == 0:
            break
        if code == _TIME_RESOLUTION:
            raw = body[position + 4]
            unit = 2.0 ** -(raw & 0x7F) if raw & 0x80 else 10.0**-raw
        position += 4 + (size + 3) // 4 * 4
    return link_type, unit


def _packet(kind: int, body: bytes, order: str, interfaces: list[tuple[int, float]]) -> Packet:
    if kind == _SIMPLE_PACKET:
        (original,) = struct.unpack_from(f"{order}I", body)
        return Packet(None, interfaces[0][0], body[4 : 4 + original])
    number, high, low, size = struct.unpack_from(f"{order}{'I' if kind == _PACKET else 'H2x'}III4x", body)
    link_type, unit = interfaces[number]
    if size > len(body) - 20:
        raise IndexError(size)
    return Packet((high << 32 | low) * unit, link_type, body[20 : 20 + size])

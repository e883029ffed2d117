"""pcap and pcapng files: the packets in them, with the protocol of their outermost layer.

Both formats are small, and the libraries that read both bring far more than that; nothing of theirs is needed here.
Sources: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_PCAP_MAGICS: Final = {
    b"\xa1\xb2\xc3\xd4": (">", 1e-6),
    b"\xd4\xc3\xb2\xa1": ("<", 1e-6),
    b"\xa1\xb2\x3c\x4d": (">", 1e-9),
    b"\x4d\x3c\xb2\xa1": ("<", 1e-9),
}
_SECTION: Final = b"\x0a\x0d\x0d\x0a"
_BYTE_ORDERS: Final = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}
_SECTION_HEADER, _INTERFACE, _SIMPLE_PACKET, _PACKET, _ENHANCED_PACKET = 0x0A0D0D0A, 1, 3, 2, 6
_TIME_RESOLUTION: Final = 9
"""The option of an interface that says what its timestamps count."""


class CaptureError(Exception):
    """The file is no capture, or ends within one."""


class Packet(NamedTuple):
    """What was captured of one packet. `time` is in seconds since 1970, None where the file has none."""

    time: float | None
    link_type: int
    data: bytes


class _Interface(NamedTuple):
    link_type: int
    seconds: float


def packets(content: bytes) -> Iterator[Packet]:
    """The packets of a capture in its order. Raises CaptureError; the packets before the damage have come by then."""
    if content[:4] in _PCAP_MAGICS:
        return _pcap(content)
    if content[:4] == _SECTION:
        return _pcapng(content)
    raise CaptureError(f"this is neither pcap nor pcapng: it begins with {content[:4].hex(' ') or 'nothing'}")


def _pcap(content: bytes) -> Iterator[Packet]:
    order, unit = _PCAP_MAGICS[content[:4]]
    if len(content) < 24:
        raise CaptureError(f"the header of a pcap file has 24 bytes, this file {len(content)}")
    link_type = struct.unpack_from(f"{order}I", content, 20)[0] & 0x0FFFFFFF
    header = struct.Struct(f"{order}IIII")
    position = 24
    while position < len(content):
        if len(content) - position < header.size:
            raise CaptureError(f"the file ends within the header of a packet at byte {position}")
        seconds, fraction, captured, _ = header.unpack_from(content, position)
        start = position + header.size
        if captured > len(content) - start:
            raise CaptureError(f"the file ends within the packet at byte {position}")
        yield Packet(seconds + fraction * unit, link_type, content[start : start + captured])
        position = start + captured


def _pcapng(content: bytes) -> Iterator[Packet]:
    order, position = "<", 0
    interfaces: list[_Interface] = []
    while position < len(content):
        if content[position : position + 4] == _SECTION:
            order = _BYTE_ORDERS.get(content[position + 8 : position + 12], "")
            if not order:
                raise CaptureError(f"the section at byte {position} has no byte order")
            interfaces = []
        if len(content) - position < 12:
            raise CaptureError(f"the file ends within a block at byte {position}")
        kind, size = struct.unpack_from(f"{order}II", content, position)
        if size < 12 or size % 4 or size > len(content) - position:
            raise CaptureError(
                f"the block at byte {position} claims {size} of {len(content) - position} bytes"
            )
        body = content[position + 8 : position + size - 4]
        try:
            if kind == _INTERFACE:
                interfaces.append(_interface(body, order))
            elif kind in {_ENHANCED_PACKET, _SIMPLE_PACKET, _PACKET}:
                yield _packet(kind, body, order, interfaces)
        except (struct.error, IndexError):
            raise CaptureError(f"the block at byte {position} is too short for what it is") from None
        position += size


def _interface(body: bytes, order: str) -> _Interface:
    (link_type,) = struct.unpack_from(f"{order}H", body)
    struct.unpack_from(f"{order}I", body, 4)  # the snap length has to be there
    seconds, position = 1e-6, 8
    while len(body) - position >= 4:
        code, size = struct.unpack_from(f"{order}HH", body, position)
        if code == 0:
            break
        if code == _TIME_RESOLUTION:
            raw = body[position + 4]
            seconds = 2.0 ** -(raw & 0x7F) if raw & 0x80 else 10.0**-raw
        position += 4 + (size + 3) // 4 * 4
    return _Interface(link_type, seconds)


def _packet(kind: int, body: bytes, order: str, interfaces: list[_Interface]) -> Packet:
    if kind == _SIMPLE_PACKET:
        (original,) = struct.unpack_from(f"{order}I", body)
        return Packet(None, interfaces[0].link_type, body[4 : 4 + original])
    number_format = "I" if kind == _ENHANCED_PACKET else "HH"
    number, *_, high, low, captured, _ = struct.unpack_from(f"{order}{number_format}IIII", body)
    interface = interfaces[number]
    if captured > len(body) - 20:
        raise IndexError(captured)
    return Packet((high << 32 | low) * interface.seconds, interface.link_type, body[20 : 20 + captured])

"""TCP connections of captured packets, and the bytes of each direction in order.

A segment that comes again, or overlaps another, counts once; one that comes late is put in its place. Bytes that were
not captured are a gap between two pieces.
"""

from __future__ import annotations

import bisect
import ipaddress
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.cli.wire.captures import Packet

_SYN, _ACK = 0x02, 0x10
_TCP: Final = 6
_IPV6_EXTENSIONS: Final = frozenset({0, 43, 60, 135})
_IPV6_FRAGMENT: Final = 44
_ETHER_IP: Final = frozenset({0x0800, 0x86DD})
_ETHER_TAGS: Final = frozenset({0x8100, 0x88A8, 0x9100})
_RAW: Final = frozenset({12, 14, 101, 228, 229})
_LOOPBACK: Final = frozenset({0, 108})
_ETHER_TYPE_AT: Final = {1: (12, 14), 113: (14, 16), 276: (0, 20)}
"""By link type (Ethernet, Linux SLL, Linux SLL2): where the ether type and where the packet begins."""
_HALF, _WHOLE = 1 << 31, 1 << 32


class Address(NamedTuple):
    """One end of a connection."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Segment(NamedTuple):
    """One TCP packet."""

    source: Address
    target: Address
    sequence: int
    flags: int
    data: bytes
    time: float | None


@dataclass(slots=True)
class Piece:
    """Bytes without a gap. `start` counts from the first byte that was captured of this direction."""

    start: int
    data: bytes
    times: list[tuple[int, float | None]]
    """Where in the piece each packet's bytes begin, and when they came."""

    def time_at(self, position: int) -> float | None:
        """When the byte at `position` of the piece came."""
        index = bisect.bisect_right(self.times, position, key=lambda entry: entry[0]) - 1
        return self.times[max(index, 0)][1] if self.times else None


@dataclass(slots=True)
class Direction:
    """The segments of one end."""

    segments: list[Segment] = field(default_factory=list)
    first: int | None = None
    """The sequence number of the first byte, if the beginning of the connection was captured."""

    def pieces(self) -> list[Piece]:
        """The bytes in order, in more than one piece where some were not captured."""
        filled = [segment for segment in self.segments if segment.data]
        if not filled:
            return []
        anchor = filled[0].sequence if self.first is None else self.first
        placed = sorted((_distance(anchor, each.sequence), index) for index, each in enumerate(filled))
        origin = placed[0][0] if self.first is None else 0
        pieces: list[Piece] = []
        parts: list[list[bytes]] = []
        end = 0  # of the bytes that are in a piece
        for offset, index in placed:
            start, data = offset - origin, filled[index].data
            if start + len(data) <= end:
                continue
            if start > end or not pieces:
                end = max(start, end)
                pieces.append(Piece(end, b"", []))
                parts.append([])
            pieces[-1].times.append((end - pieces[-1].start, filled[index].time))
            parts[-1].append(data[end - start :])
            end = start + len(data)
        for piece, of_piece in zip(pieces, parts, strict=True):
            piece.data = b"".join(of_piece)
        return pieces


def _distance(anchor: int, sequence: int) -> int:
    """How far a sequence number lies behind another; they wrap at 2^32."""
    return (sequence - anchor + _HALF) % _WHOLE - _HALF


@dataclass(slots=True)
class Connection:
    """Two ends and the bytes that each sent. `client` is the end that opened it, if that was captured."""

    ends: tuple[Address, Address]
    directions: dict[Address, Direction]
    client: Address | None = None

    def other(self, end: Address) -> Address:
        """The end that is not this one."""
        return self.ends[1] if end == self.ends[0] else self.ends[0]

    def is_another(self, syn: Segment) -> bool:
        """Whether this SYN opens a new connection between the same ports, and is not the first one once more."""
        first = self.directions[syn.source].first
        has_begun = first is not None or any(each.segments for each in self.directions.values())
        return has_begun and first != (syn.sequence + 1) % _WHOLE


@dataclass(slots=True)
class Traffic:
    """The connections of a capture in the order in which they appear."""

    connections: list[Connection] = field(default_factory=list)
    unread: int = 0
    """Packets that were skipped: fragments of IP packets, and those of unknown form."""

    def add(self, packets: Iterable[Packet]) -> Traffic:
        """Adds packets; those before an error that `packets` raises stay."""
        current: dict[frozenset[Address], Connection] = {}
        for packet in packets:
            try:
                segment = _segment(packet)
            except (struct.error, LookupError):
                self.unread += 1
                continue
            if segment is not None:
                self._add_segment(current, segment)
        return self

    def _add_segment(self, current: dict[frozenset[Address], Connection], segment: Segment) -> None:
        ends = frozenset((segment.source, segment.target))
        found = current.get(ends)
        opens = segment.flags & (_SYN | _ACK) == _SYN
        if found is None or (opens and found.is_another(segment)):
            pair = (segment.source, segment.target)
            found = current[ends] = Connection(pair, {end: Direction() for end in pair})
            self.connections.append(found)
        direction = found.directions[segment.source]
        if segment.flags & _SYN:
            direction.first = (segment.sequence + 1) % _WHOLE
            found.client = segment.source if opens else segment.target
        elif segment.data:
            direction.segments.append(segment)


# ---- headers of packets


def _segment(packet: Packet) -> Segment | None:
    """The TCP segment in a packet; None for other traffic.

    Raises struct.error where the packet is too short, LookupError for a link type or a fragment that is not read.
    """
    data = _ip_packet(packet.data, packet.link_type)
    if not data or data[0] >> 4 not in {4, 6}:
        return None
    if data[0] >> 4 == 4:
        size, fragment, protocol, source, target = struct.unpack_from(">2xH2xHxB2x4s4s", data)
        start = (data[0] & 0x0F) * 4
        is_fragment = protocol == _TCP and fragment & 0x3FFF
    else:
        size, protocol, source, target = struct.unpack_from(">4xHBx16s16s", data)
        size = 40 + size if size else 0
        start = 40
        while protocol in _IPV6_EXTENSIONS:
            protocol, length = struct.unpack_from(">BB", data, start)
            start += (length + 1) * 8
        is_fragment = protocol == _IPV6_FRAGMENT
    if is_fragment:
        raise LookupError("a fragment of an IP packet")
    if protocol != _TCP:
        return None
    tcp = data[start : size or len(data)]  # size 0: the network card was to cut the packet
    source_port, target_port, sequence, offset, flags = struct.unpack_from(">HHI4xBB", tcp)
    return Segment(
        Address(str(ipaddress.ip_address(source)), source_port),
        Address(str(ipaddress.ip_address(target)), target_port),
        sequence,
        flags,
        tcp[(offset >> 4) * 4 :],
        packet.time,
    )


def _ip_packet(data: bytes, link_type: int) -> bytes:
    """The packet behind the link layer, empty where it is not IP. Raises LookupError for an unknown link type."""
    if link_type in _RAW:
        return data
    if link_type in _LOOPBACK:
        return data[4:]
    at, start = _ETHER_TYPE_AT[link_type]
    (ether_type,) = struct.unpack_from(">H", data, at)
    while ether_type in _ETHER_TAGS:
        at, start = at + 4, start + 4
        (ether_type,) = struct.unpack_from(">H", data, at)
    return data[start:] if ether_type in _ETHER_IP else b""

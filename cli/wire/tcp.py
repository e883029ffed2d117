"""TCP out of packets: who speaks to whom, and the bytes of each direction in order.

A segment that comes again, or overlaps another, is taken once; one that comes late is put in its place. What is
missing stays missing: the stream says where.
"""

from __future__ import annotations

import bisect
import ipaddress
import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from barnabas.cli.wire.captures import Packet

_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10
_TCP: Final = 6
_IPV6_EXTENSIONS: Final = frozenset({0, 43, 60, 135})
_IPV6_FRAGMENT: Final = 44
_ETHER_IPV4, _ETHER_IPV6 = 0x0800, 0x86DD
_ETHER_TAGS: Final = frozenset({0x8100, 0x88A8, 0x9100})
_NULL, _ETHERNET, _LOOP, _LINUX_SLL, _LINUX_SLL2, _IPV4, _IPV6 = 0, 1, 108, 113, 276, 228, 229
_RAW: Final = frozenset({12, 14, 101, _IPV4, _IPV6})
_HALF, _WHOLE = 1 << 31, 1 << 32


class Address(NamedTuple):
    """One end of a connection."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Segment(NamedTuple):
    """What one TCP packet carries."""

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
        index = bisect.bisect_right([start for start, _ in self.times], position) - 1
        return self.times[max(index, 0)][1] if self.times else None


@dataclass(slots=True)
class Direction:
    """What one end sent."""

    segments: list[Segment] = field(default_factory=list)
    first: int | None = None
    """The number of the first byte where the beginning of the connection was captured."""

    def pieces(self) -> list[Piece]:
        """The bytes in order, in more than one piece where some were not captured."""
        filled = [segment for segment in self.segments if segment.data]
        if not filled:
            return []
        anchor = filled[0].sequence if self.first is None else self.first
        placed = sorted(
            ((_distance(anchor, segment.sequence), index) for index, segment in enumerate(filled)),
        )
        origin = placed[0][0] if self.first is None else 0
        pieces: list[Piece] = []
        parts: list[bytes] = []
        end = 0  # of what has been put together
        for offset, index in placed:
            segment = filled[index]
            start = offset - origin
            if start + len(segment.data) <= end:
                continue
            if start > end or not pieces:
                _finish(pieces, parts)
                pieces.append(Piece(max(start, end), b"", []))
                end = max(start, end)
            fresh = segment.data[end - start :]
            pieces[-1].times.append((end - pieces[-1].start, segment.time))
            parts.append(fresh)
            end += len(fresh)
        _finish(pieces, parts)
        return pieces


def _finish(pieces: list[Piece], parts: list[bytes]) -> None:
    if pieces:
        pieces[-1].data = b"".join(parts)
    parts.clear()


def _distance(anchor: int, sequence: int) -> int:
    """How far a sequence number lies behind another; they wrap at 2^32."""
    return (sequence - anchor + _HALF) % _WHOLE - _HALF


@dataclass(slots=True)
class Connection:
    """Two ends and what each sent. `client` is the end that opened the connection, if that was captured."""

    ends: tuple[Address, Address]
    directions: dict[Address, Direction]
    client: Address | None = None
    has_begun: bool = False
    """Whether data, or the answer to a SYN, was captured: a SYN after that is another connection's."""

    def other(self, end: Address) -> Address:
        """The end that is not this one."""
        return self.ends[1] if end == self.ends[0] else self.ends[0]


@dataclass(slots=True)
class Traffic:
    """The connections of a capture in the order in which they appear, and how many packets were left out."""

    connections: list[Connection] = field(default_factory=list)
    fragments: int = 0
    unknown: int = 0

    def add(self, packets: Iterable[Packet]) -> Traffic:
        """Takes the packets in; what was taken stays when the file proves to be damaged."""
        current: dict[frozenset[Address], Connection] = {}
        for packet in packets:
            segment = self._segment(packet)
            if segment is not None:
                self._take(current, segment)
        return self

    def _segment(self, packet: Packet) -> Segment | None:
        try:
            return _segment(packet)
        except _FragmentError:
            self.fragments += 1
        except (struct.error, IndexError):
            self.unknown += 1
        return None

    def _take(self, current: dict[frozenset[Address], Connection], segment: Segment) -> None:
        ends = frozenset((segment.source, segment.target))
        found = current.get(ends)
        opens = segment.flags & (_SYN | _ACK) == _SYN
        if found is None or (opens and _is_another(found, segment)):
            pair = (segment.source, segment.target)
            found = current[ends] = Connection(pair, {end: Direction() for end in pair})
            self.connections.append(found)
        direction = found.directions[segment.source]
        if segment.flags & _SYN:
            direction.first = (segment.sequence + 1) % _WHOLE
            found.client = segment.source if opens else segment.target
        elif segment.data:
            direction.segments.append(segment)
            found.has_begun = True


def _is_another(connection: Connection, syn: Segment) -> bool:
    """Whether this opens a new connection between the same ports, and is not the same SYN once more."""
    first = connection.directions[syn.source].first
    return first != (syn.sequence + 1) % _WHOLE and (connection.has_begun or first is not None)


class _FragmentError(Exception):
    """A part of an IP packet."""


def _segment(packet: Packet) -> Segment | None:
    """The TCP segment in a packet; None for other traffic. Raises struct.error where the packet is too short."""
    data = _network_layer(packet)
    if not data:
        return None
    version = data[0] >> 4
    if version == 4:
        return _from_ipv4(data, packet.time)
    return _from_ipv6(data, packet.time) if version == 6 else None


def _network_layer(packet: Packet) -> bytes | None:
    """What lies behind the link layer, None where that is no IP."""
    data, link = packet.data, packet.link_type
    if link in _RAW:
        return data
    if link in {_NULL, _LOOP}:
        return data[4:]
    if link == _ETHERNET:
        at = 12
    elif link == _LINUX_SLL:
        at = 14
    elif link == _LINUX_SLL2:
        (ether_type,) = struct.unpack_from(">H", data)
        return data[20:] if ether_type in {_ETHER_IPV4, _ETHER_IPV6} else None
    else:
        raise IndexError(f"link type {link}")
    (ether_type,) = struct.unpack_from(">H", data, at)
    while ether_type in _ETHER_TAGS:
        at += 4
        (ether_type,) = struct.unpack_from(">H", data, at)
    return data[at + 2 :] if ether_type in {_ETHER_IPV4, _ETHER_IPV6} else None


def _from_ipv4(data: bytes, time: float | None) -> Segment | None:
    total, fragment = struct.unpack_from(">2xH2xH", data)
    protocol, source, target = struct.unpack_from(">9xB2x4s4s", data)
    if protocol != _TCP:
        return None
    if fragment & 0x3FFF:
        raise _FragmentError
    header = (data[0] & 0x0F) * 4
    end = total or len(data)  # 0 where the network card was to cut it into packets
    return _from_tcp(data[header:end], source, target, time)


def _from_ipv6(data: bytes, time: float | None) -> Segment | None:
    length, protocol, source, target = struct.unpack_from(">4xHBx16s16s", data)
    end = 40 + length if length else len(data)
    at = 40
    while protocol in _IPV6_EXTENSIONS:
        protocol, size = struct.unpack_from(">BB", data, at)
        at += (size + 1) * 8
    if protocol == _IPV6_FRAGMENT:
        raise _FragmentError
    return _from_tcp(data[at:end], source, target, time) if protocol == _TCP else None


def _from_tcp(data: bytes, source: bytes, target: bytes, time: float | None) -> Segment:
    source_port, target_port, sequence, offset, flags = struct.unpack_from(">HHI4xBB", data)
    return Segment(
        Address(str(ipaddress.ip_address(source)), source_port),
        Address(str(ipaddress.ip_address(target)), target_port),
        sequence,
        flags,
        data[(offset >> 4) * 4 :],
        time,
    )


def connections_of(packets: Iterator[Packet]) -> Traffic:
    """All TCP connections of a capture."""
    return Traffic().add(packets)

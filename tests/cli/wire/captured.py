"""Captures, built by hand: TCP in IPv4 or IPv6, in one of the link layers, in pcap or pcapng."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass, field

ETHERNET, NULL, RAW, SLL, SLL2 = 1, 0, 101, 113, 276
SYN, ACK, PUSH = 0x02, 0x10, 0x18


def pcap(packets: list[bytes], link: int = ETHERNET, *, order: str = "<", nanoseconds: bool = False) -> bytes:
    """A pcap file; the n-th packet has the time 1,000 + n s."""
    magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
    parts = [struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, link)]
    for number, packet in enumerate(packets):
        parts.append(struct.pack(f"{order}IIII", 1000 + number, 0, len(packet), len(packet)) + packet)
    return b"".join(parts)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    """A block of a pcapng file."""
    padded = body + bytes(-len(body) % 4)
    size = len(padded) + 12
    return struct.pack(f"{order}II", kind, size) + padded + struct.pack(f"{order}I", size)


def pcapng(packets: list[bytes], link: int = ETHERNET, *, order: str = "<") -> bytes:
    """A pcapng file: a section, an interface that counts milliseconds, a block for each packet, one of another kind."""
    section = block(0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    options = struct.pack(f"{order}HHB3xHH", 9, 1, 3, 0, 0)
    parts = [
        section,
        block(1, struct.pack(f"{order}HHI", link, 0, 65535) + options, order),
        block(5, b"stat", order),
    ]
    for number, packet in enumerate(packets):
        stamp = (1000 + number) * 1000
        head = struct.pack(f"{order}IIIII", 0, stamp >> 32, stamp & 0xFFFFFFFF, len(packet), len(packet))
        parts.append(block(6, head + packet, order))
    return b"".join(parts)


def linked(packet: bytes, link: int) -> bytes:
    """An IP packet behind a link layer."""
    is_ipv6 = packet[0] >> 4 == 6
    ether_type = struct.pack(">H", 0x86DD if is_ipv6 else 0x0800)
    if link == ETHERNET:
        return (
            bytes(12) + b"\x81\x00\x00\x07" + ether_type + packet + bytes(3)
        )  # a VLAN, and padding behind it
    if link == NULL:
        return struct.pack("<I", 30 if is_ipv6 else 2) + packet
    if link == SLL:
        return bytes(14) + ether_type + packet
    return ether_type + bytes(18) + packet if link == SLL2 else packet


@dataclass
class Endpoint:
    """One end of a TCP connection; `sequence` is the sequence number of its next byte."""

    host: str
    port: int
    sequence: int


@dataclass
class TcpConnection:
    """Builds the packets of one TCP connection; each method returns what it builds."""

    client: Endpoint
    server: Endpoint
    link: int = ETHERNET
    sent: list[bytes] = field(default_factory=list)

    def open(self) -> list[bytes]:
        """The handshake."""
        packets = [
            self._packet(self.client, self.server, b"", SYN),
            self._packet(self.server, self.client, b"", SYN | ACK),
        ]
        self.client.sequence += 1
        self.server.sequence += 1
        return packets

    def request(self, data: bytes) -> bytes:
        """A packet with bytes of the client."""
        return self._send(self.client, self.server, data)

    def response(self, data: bytes) -> bytes:
        """A packet with bytes of the broker."""
        return self._send(self.server, self.client, data)

    def _send(self, source: Endpoint, target: Endpoint, data: bytes) -> bytes:
        packet = self._packet(source, target, data, PUSH)
        source.sequence = (source.sequence + len(data)) % 2**32
        return packet

    def _packet(self, source: Endpoint, target: Endpoint, data: bytes, flags: int) -> bytes:
        tcp = struct.pack(
            ">HHIIBBHHH", source.port, target.port, source.sequence % 2**32, 0, 8 << 4, flags, 0, 0, 0
        )
        tcp += bytes(12) + data  # twelve bytes of options
        first, second = ipaddress.ip_address(source.host), ipaddress.ip_address(target.host)
        if first.version == 4:
            head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0x4000, 64, 6, 0)
        else:
            head = struct.pack(">IHBB", 6 << 28, len(tcp), 6, 64)
        return linked(head + first.packed + second.packed + tcp, self.link)


def tcp_connection(
    port: int = 50000, *, link: int = ETHERNET, ipv6: bool = False, first: int = 100
) -> TcpConnection:
    """A connection from `port` to the broker at 9092."""
    host = "fd00::1" if ipv6 else "10.0.0.1"
    broker = "fd00::2" if ipv6 else "10.0.0.2"
    return TcpConnection(Endpoint(host, port, first), Endpoint(broker, 9092, 7000), link)

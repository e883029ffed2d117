"""pcap and pcapng files, whole and damaged."""

from __future__ import annotations

import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.wire.captures import CaptureError, Packet, packets
from tests.cli.wire.captured import ETHERNET, RAW, block, pcap, pcapng

PACKETS = [b"one", b"", b"three!"]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_pcap(order: str, nanoseconds: bool) -> None:
    content = pcap(PACKETS, RAW, order=order, nanoseconds=nanoseconds)
    assert list(packets(content)) == [Packet(1000.0 + n, RAW, data) for n, data in enumerate(PACKETS)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng(order: str) -> None:
    content = pcapng(PACKETS, order=order)
    assert list(packets(content)) == [Packet(1000.0 + n, ETHERNET, data) for n, data in enumerate(PACKETS)]


def test_sections_follow_each_other() -> None:
    content = pcapng([b"a"], ETHERNET) + pcapng([b"b"], RAW, order=">")
    assert [(packet.link_type, packet.data) for packet in packets(content)] == [(ETHERNET, b"a"), (RAW, b"b")]


def test_the_other_blocks_with_packets() -> None:
    section, interface = pcapng([])[:28], block(1, struct.pack("<HHI", RAW, 0, 65535))
    old = block(2, struct.pack("<HHIIII", 0, 0, 0, 2_000_000, 3, 3) + b"old")
    simple = block(3, struct.pack("<I", 2) + b"hi")
    assert list(packets(section + interface + old + simple)) == [
        Packet(2.0, RAW, b"old"),
        Packet(None, RAW, b"hi"),
    ]


def test_binary_resolutions() -> None:
    options = struct.pack("<HHB3x", 9, 1, 0x80 | 10)
    content = pcapng([])[:28] + block(1, struct.pack("<HHI", RAW, 0, 0) + options)
    content += block(6, struct.pack("<IIIII", 0, 0, 3 * 1024, 1, 1) + b"x")
    assert [packet.time for packet in packets(content)] == [3.0]


@pytest.mark.parametrize("make", [pcap, pcapng])
def test_cut_anywhere(make: Callable[[list[bytes]], bytes]) -> None:
    content = make(PACKETS)
    whole = list(packets(content))
    for end in range(len(content)):
        found: list[Packet] = []
        with suppress(CaptureError):
            found.extend(packets(content[:end]))
        assert found == whole[: len(found)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "nothing"),
        (b"GIF8", "47 49 46 38"),
        (pcap([])[:20], "24 bytes"),
        (pcap([b"x"])[:-1], "within the packet"),
        (pcapng([])[:8] + bytes(8), "byte order"),
        (pcapng([]) + b"\x06\x00\x00\x00", "within a block"),
        (pcapng([]) + struct.pack("<III", 6, 13, 0), "claims 13"),
        (pcapng([])[:28] + block(6, bytes(20)), "too short"),
    ],
)
def test_damage(content: bytes, said: str) -> None:
    with pytest.raises(CaptureError, match=said):
        list(packets(content))


@given(st.binary(max_size=300), st.sampled_from([b"", pcap([])[:24], pcapng([])]))
def test_any_bytes_are_packets_or_rejected(data: bytes, head: bytes) -> None:
    with suppress(CaptureError):
        list(packets(head + data))

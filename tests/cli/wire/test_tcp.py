"""TCP segments in order."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.wire.captures import Packet
from barnabas.cli.wire.tcp import Address, Connection, Direction, Segment, Traffic
from tests.cli.wire.captured import ETHERNET, NULL, RAW, SLL, SLL2, TcpConnection, tcp_connection

HERE, THERE = Address("10.0.0.1", 50000), Address("10.0.0.2", 9092)


def connections(packets: list[bytes], link: int = ETHERNET) -> list[Connection]:
    return Traffic().add(Packet(float(n), link, data) for n, data in enumerate(packets)).connections


def stream(connection: Connection, end: Address) -> list[tuple[int, bytes]]:
    return [(piece.start, piece.data) for piece in connection.directions[end].pieces()]


@pytest.mark.parametrize("link", [ETHERNET, NULL, RAW, SLL, SLL2])
@pytest.mark.parametrize("ipv6", [False, True])
def test_every_link_layer(link: int, ipv6: bool) -> None:
    tcp = tcp_connection(link=link, ipv6=ipv6)
    packets = [*tcp.open(), tcp.request(b"hello "), tcp.response(b"yes"), tcp.request(b"world")]
    (connection,) = connections(packets, link)
    assert connection.client is not None
    assert connection.client.port == 50000
    assert str(connection.client) == ("[fd00::1]:50000" if ipv6 else "10.0.0.1:50000")
    assert stream(connection, connection.client) == [(0, b"hello world")]
    assert stream(connection, connection.other(connection.client)) == [(0, b"yes")]


def direction(segments: list[tuple[int, bytes]], first: int | None = None) -> Direction:
    made = [
        Segment(HERE, THERE, sequence % 2**32, 0x10, data, float(number))
        for number, (sequence, data) in enumerate(segments)
    ]
    return Direction(made, first)


def joined(segments: list[tuple[int, bytes]], first: int | None = None) -> list[tuple[int, bytes]]:
    return [(piece.start, piece.data) for piece in direction(segments, first).pieces()]


def test_late_repeated_and_overlapping_segments() -> None:
    assert joined([(5, b"fgh"), (0, b"abc"), (3, b"de")], 0) == [(0, b"abcdefgh")]
    assert joined([(0, b"abc"), (0, b"abc"), (3, b"de")], 0) == [(0, b"abcde")]
    assert joined([(0, b"abc"), (1, b"bcdef"), (2, b"cd")], 0) == [(0, b"abcdef")]
    assert joined([(0, b"abc"), (2, b"?"), (3, b"de")], 0) == [
        (0, b"abcde")
    ]  # a probe that keeps the connection open


def test_sequence_numbers_that_wrap() -> None:
    assert joined([(2**32 - 2, b"ab"), (2, b"ef"), (0, b"cd")], 2**32 - 2) == [(0, b"abcdef")]


def test_gaps_in_a_stream() -> None:
    assert joined([(0, b"abc"), (5, b"fg")], 0) == [(0, b"abc"), (5, b"fg")]
    assert joined([(2, b"cd")], 0) == [(2, b"cd")]


def test_without_the_beginning_of_a_connection() -> None:
    assert joined([(105, b"fg"), (100, b"abcde")]) == [(0, b"abcdefg")]
    assert joined([]) == []


def test_times_are_those_of_the_packets() -> None:
    (piece,) = direction([(0, b"abc"), (5, b"fg"), (3, b"de")], 0).pieces()
    assert [piece.time_at(position) for position in range(7)] == [0.0, 0.0, 0.0, 2.0, 2.0, 1.0, 1.0]


@given(st.binary(min_size=1, max_size=200), st.randoms(use_true_random=False), st.integers(0, 2**32 - 1))
def test_any_order_with_repeats_gives_the_same_bytes(data: bytes, dice: Random, first: int) -> None:
    cuts = sorted({0, len(data), *(dice.randrange(len(data) + 1) for _ in range(5))})
    parts = [(first + start, data[start:end]) for start, end in pairwise(cuts)]
    for _ in range(3):
        start = dice.randrange(len(data))
        parts.append((first + start, data[start : dice.randrange(start, len(data)) + 1]))
    dice.shuffle(parts)
    assert joined(parts, first) == [(0, data)]
    assert joined(parts) == [(0, data)]


def test_interleaved_connections_are_separated() -> None:
    first, second = tcp_connection(50000), tcp_connection(50001)
    packets = [
        *first.open(),
        *second.open(),
        first.request(b"a"),
        second.request(b"x"),
        first.request(b"b"),
        second.request(b"y"),
    ]
    found = connections(packets)
    assert [stream(each, each.client) for each in found if each.client] == [[(0, b"ab")], [(0, b"xy")]]


def test_the_same_ports_again_are_another_connection() -> None:
    first, second = tcp_connection(first=100), tcp_connection(first=5000)
    packets = [*first.open(), first.request(b"a"), *second.open(), second.request(b"b")]
    assert [stream(each, HERE) for each in connections(packets)] == [[(0, b"a")], [(0, b"b")]]


def test_a_syn_that_comes_twice_is_one_connection() -> None:
    tcp = tcp_connection()
    opening = tcp.open()
    (connection,) = connections([opening[0], *opening, tcp.request(b"a"), opening[0]])
    assert stream(connection, HERE) == [(0, b"a")]


def truncated(tcp: TcpConnection) -> bytes:
    return tcp.request(b"abcdef")[:-6]


def test_bytes_that_were_not_captured_are_a_gap() -> None:
    tcp = tcp_connection()
    opening = tcp.open()
    (connection,) = connections([*opening, truncated(tcp), tcp.request(b"gh")])
    pieces = stream(connection, HERE)
    assert pieces[-1] == (6, b"gh")


def test_other_traffic_is_left_out() -> None:
    tcp = tcp_connection(link=RAW)
    packet = bytearray(tcp.request(b"a"))
    packet[9] = 17
    traffic = Traffic().add(
        [Packet(None, RAW, bytes(packet)), Packet(None, RAW, b""), Packet(None, 1, b"\x08" * 14)]
    )
    assert traffic.connections == []
    assert traffic.unread == 0
    packet[9], packet[6] = 6, 0x20
    unread = [Packet(None, RAW, bytes(packet)), Packet(None, 147, b"abc"), Packet(None, 1, b"x")]
    traffic = Traffic().add(unread)
    assert (traffic.connections, traffic.unread) == ([], 3)


@given(st.lists(st.binary(max_size=80)), st.sampled_from([ETHERNET, NULL, RAW, SLL, SLL2, 147]))
def test_any_packets_are_read_or_skipped(datas: list[bytes], link: int) -> None:
    for connection in connections(datas, link):
        for end in connection.ends:
            connection.directions[end].pieces()

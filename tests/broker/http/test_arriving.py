"""A request that comes slowly, or is too large, ends; and what is left of its time is counted."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest

from barnabas.broker.http import app
from barnabas.broker.http.arriving import MAX_REQUEST_BYTES, Arriving
from barnabas.broker.http.server import HttpServer
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.config.broker_config import BrokerConfig


class Peer:
    """A connection whose other end sends a byte at a time, one in `pause_s`."""

    def __init__(self, pause_s: float = 0.0) -> None:
        self.now = 0.0
        self.timeouts: list[float] = []
        self._pause_s = pause_s

    def settimeout(self, timeout_s: float) -> None:
        self.timeouts.append(timeout_s)

    def recv_into(self, window: memoryview) -> int:
        if self._pause_s > self.timeouts[-1]:
            raise TimeoutError
        self.now += self._pause_s
        window[:1] = b"x"
        return 1


def arriving(peer: Peer, timeout_s: float = 10.0, max_bytes: int = 100) -> Arriving:
    return Arriving(peer, timeout_s, max_bytes, lambda: peer.now)  # type: ignore[arg-type]


def test_a_client_that_sends_a_byte_now_and_then_has_so_long_in_all() -> None:
    peer = Peer(pause_s=4)
    stream = arriving(peer)
    assert [stream.read(5), stream.read(5)] == [b"x", b"x"]
    with pytest.raises(TimeoutError):
        stream.read(5)
    assert peer.timeouts == [10.0, 10.0, 6.0, 10.0, 2.0, 10.0]
    peer.now = 10.0
    with pytest.raises(TimeoutError, match="took too long"):
        stream.read(5)


def test_so_many_bytes_and_no_more() -> None:
    stream = arriving(Peer(), max_bytes=3)
    assert stream.readable()
    assert [stream.read(1) for _ in range(3)] == [b"x"] * 3
    with pytest.raises(OSError, match="too large"):
        stream.read(1)


def test_the_end_of_what_a_client_sends() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.send(b"abc")
        theirs.shutdown(socket.SHUT_WR)
        stream = Arriving(ours, 10.0)
        assert [stream.read(2), stream.read(2), stream.read(2)] == [b"ab", b"c", b""]


async def test_the_port_closes_what_is_too_large_and_what_takes_too_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    http = HttpServer(asyncio.get_running_loop(), BrokerConfig(), Metrics(), lambda: None)
    port = http.bind("127.0.0.1", 0)
    http.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        line = b"X-Header: " + b"x" * 60_000 + b"\r\n"
        writer.write(b"GET /metrics HTTP/1.0\r\n" + line * (MAX_REQUEST_BYTES // len(line) + 1))
        with contextlib.suppress(ConnectionResetError):  # bytes of ours were not read
            assert await reader.read() == b""
        writer.close()
        monkeypatch.setattr(app, "CLIENT_TIMEOUT_S", 0.01)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /met")
        assert await reader.read() == b""
        writer.close()
    finally:
        http.close()

"""Cost of the network part: microseconds a request without sockets, and throughput through the loopback.

The claim is 4 us a request at most for one connection's framing, ordering and writing, when requests come one by one.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import time
from collections.abc import Callable, Sequence

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.network.connection import Connection, ConnectionContext
from barnabas.broker.network.connection_quotas import ConnectionQuotas
from barnabas.broker.network.in_flight import Answer
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.network.socket_server import SocketServer, SocketSettings
from barnabas.broker.network.transport import StreamReader
from barnabas.broker.probes import ListenerProbe, SocketServerProbe
from barnabas.broker.request import ConnectionInfo
from barnabas.config.listeners import Listener
from barnabas.protocol.framing import Frame, size_prefix
from barnabas.protocol.wire import Chunk
from barnabas.storage.env import RealFile
from barnabas.storage.offsets import FileRecords

MOST_US = 4.0
REQUEST_BYTES = 100
ANSWER: list[Chunk] = [bytes(4), bytes(REQUEST_BYTES)]
MIB = 1024 * 1024
SECONDS_PER_FIGURE = 0.5


class _Nowhere:
    """A transport that returns the same data at each read, and discards all writes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def start(self, endpoint: StreamReader) -> None:
        pass

    def receive_into(self, buffer: memoryview, /) -> int:
        buffer[: len(self._data)] = self._data
        return len(self._data)

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:
        return len(data)

    def send_file(self, file: int, position: int, size: int) -> int:
        return size

    def pause_reading(self) -> None:
        pass

    resume_reading = watch_writable = ignore_writable = close = pause_reading


def handler_us(requests_per_read: int) -> float:
    """Microseconds that a connection spends on one of so many requests that arrive together."""
    context = ConnectionContext(
        handle=lambda info, frame: list(ANSWER),
        memory=RequestMemory(1 << 30),
        max_request_bytes=MIB,
        probe=ListenerProbe("bench"),
        complaints=RateLimit(),
        call_soon=lambda callback: callback(),
        closed=lambda connection: None,
    )
    info = ConnectionInfo(
        connection_id=1, listener_name="bench", client_host="", client_port=0, local_host="", local_port=0
    )
    connection = Connection(context, info)
    data = (size_prefix(REQUEST_BYTES) + bytes(REQUEST_BYTES)) * requests_per_read
    connection.connection_made(_Nowhere(data))
    return _best_us(connection.readable) / requests_per_read


def _best_us(call: Callable[[], None]) -> float:
    """Microseconds of one call, the best of many rounds."""
    best = float("inf")
    end = time.perf_counter() + SECONDS_PER_FIGURE
    while time.perf_counter() < end:
        started = time.perf_counter()
        for _ in range(200):
            call()
        best = min(best, (time.perf_counter() - started) / 200)
    return best * 1e6


async def through_sockets(file: RealFile) -> dict[str, float]:
    """MiB a second over one connection: requests of 1 MiB, and answers of 50 MiB in slices of a file of 1 MiB."""

    def handle(info: ConnectionInfo, frame: Frame) -> Answer:
        return [FileRecords(file, 0, MIB)] * 50 if len(frame) < 10 else list(ANSWER)

    server = SocketServer(
        loop=asyncio.get_running_loop(),
        listeners=[Listener("bench", "127.0.0.1", 0)],
        settings=SocketSettings(),
        quotas=ConnectionQuotas(),
        memory=RequestMemory(1 << 30),
        probe=SocketServerProbe(),
    )
    port = server.bind()["bench"]
    server.start(handle)
    try:
        return await asyncio.to_thread(_client, port)
    finally:
        server.close()


def _client(port: int) -> dict[str, float]:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        small, large = size_prefix(4) + b"give", size_prefix(MIB) + bytes(MIB)
        return {
            "us a round trip": 1e6 / _rate(client, size_prefix(10) + bytes(10), 108),
            "requests of 1 MiB: MiB/s": _rate(client, large, 108),
            "answers of 50 MiB: MiB/s": 50 * _rate(client, small, 50 * MIB + 4),
        }


def _rate(client: socket.socket, request: bytes, answer_bytes: int) -> float:
    """How often a second a request is answered."""
    buffer = bytearray(MIB)
    count = 0
    started = time.perf_counter()
    while time.perf_counter() - started < SECONDS_PER_FIGURE:
        client.sendall(request)
        left = answer_bytes
        while left:
            left -= client.recv_into(buffer)
        count += 1
    return count / (time.perf_counter() - started)


def main(_: Sequence[str] = ()) -> None:
    """Prints the figures. Exits with a status when a claim does not hold."""
    import tempfile

    import uvloop

    figures = {count: handler_us(count) for count in (1, 5, 50)}
    for count, us in figures.items():
        print(f"{us:8.2f} us a request, {count} in a read")
    with tempfile.TemporaryFile() as file:
        file.write(bytes(MIB))
        file.flush()
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            for what, figure in runner.run(through_sockets(RealFile(os.dup(file.fileno())))).items():
                print(f"{figure:8.1f} {what}")
    if figures[1] > MOST_US:
        sys.exit(f"a request costs {figures[1]:.2f} us, and {MOST_US} us was claimed")


if __name__ == "__main__":
    main()

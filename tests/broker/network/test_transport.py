"""A transport on a real socket, under uvloop and under plain asyncio."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from pathlib import Path

from barnabas.broker.network.transport import MORE_COMES, SocketTransport
from tests.broker.network.socket_harness import Run


class End:
    """An endpoint that records its callbacks, on one end of a pair of sockets whose other end is `peer`."""

    def __init__(self) -> None:
        ours, self.peer = socket.socketpair()
        ours.setblocking(False)
        self.peer.setblocking(False)
        self.transport = SocketTransport(asyncio.get_running_loop(), ours)
        self.received: list[bytes] = []
        self.room = 0
        self.told: asyncio.Event = asyncio.Event()

    def readable(self) -> None:
        buffer = bytearray(100)
        self.received.append(bytes(buffer[: self.transport.receive_into(memoryview(buffer))]))
        if not self.received[-1]:
            self.transport.close()
        self.told.set()

    def writable(self) -> None:
        self.room += 1
        self.transport.ignore_writable()
        self.told.set()

    async def is_told(self) -> None:
        await self.told.wait()
        self.told.clear()

    def fill(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self.transport.send(bytes(100_000))

    def drain(self) -> int:
        count = 0
        while True:
            try:
                count += len(self.peer.recv(1 << 20))
            except BlockingIOError:
                return count


def test_received_bytes_are_read_until_the_end(run: Run) -> None:
    async def dialogue() -> None:
        end = End()
        end.transport.start(end)
        end.peer.send(b"one")
        await end.is_told()
        end.peer.close()
        await end.is_told()
        assert end.received == [b"one", b""]

    run(dialogue())


def test_nothing_is_read_while_reading_is_paused(run: Run) -> None:
    async def dialogue() -> None:
        end = End()
        end.transport.start(end)
        end.transport.pause_reading()
        end.peer.send(b"one")
        for _ in range(5):
            await asyncio.sleep(0)
        assert end.received == []
        end.transport.resume_reading()
        await end.is_told()
        assert end.received == [b"one"]
        end.transport.close()
        end.peer.close()

    run(dialogue())


def test_writing_resumes_when_the_peer_has_read(run: Run) -> None:
    async def dialogue() -> None:
        end = End()
        end.transport.start(end)
        end.fill()
        end.transport.watch_writable()
        for _ in range(5):
            await asyncio.sleep(0)
        assert end.room == 0
        end.drain()
        await end.is_told()
        assert end.room == 1
        end.transport.close()
        end.peer.close()

    run(dialogue())


def test_bytes_of_a_file_follow_earlier_bytes(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(200)))
    file = os.open(tmp_path / "file", os.O_RDONLY)

    async def dialogue() -> None:
        end = End()
        end.transport.start(end)
        assert end.transport.send(b"header", MORE_COMES) == 6
        assert end.transport.send_file(file, 100, 50) == 50
        assert end.transport.send_file(file, 190, 50) == 10
        assert end.transport.send_file(file, 200, 50) == 0
        assert end.peer.recv(1000) == b"header" + bytes(range(100, 150)) + bytes(range(190, 200))
        end.transport.close()
        assert end.peer.recv(1000) == b""
        end.peer.close()

    run(dialogue())
    os.close(file)


def test_one_that_waits_for_room_is_told_of_none_after_its_end(run: Run) -> None:
    async def dialogue() -> None:
        end = End()
        end.transport.start(end)
        end.transport.watch_writable()
        end.transport.close()
        await asyncio.sleep(0)
        assert end.room == 0
        assert end.peer.recv(1000) == b""
        end.peer.close()

    run(dialogue())

"""Transport: the stream of a connection; a plain TCP socket, watched by the event loop directly.

There is no asyncio transport: a readable socket costs one callback and one recv, an answer one send, and records go
from the file to the socket within the kernel (sendfile).

This is the seam for other kinds of streams: TLS is another class with the methods of `Transport`, `tls_transport`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final, Protocol

MORE_COMES: Final[int] = getattr(socket, "MSG_MORE", 0)
"""With `send`: a packet that is not full may wait for what is sent next."""


class StreamReader(Protocol):
    """The connection, as its transport calls it."""

    def readable(self) -> None: ...
    def writable(self) -> None: ...


class Transport(Protocol):
    """The stream of a connection. Operations that would block raise BlockingIOError."""

    def start(self, endpoint: StreamReader) -> None:
        """Calls `endpoint.readable` from now on whenever there are bytes to read."""

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...

    def receive_into(self, buffer: memoryview, /) -> int:
        """Reads the bytes received; 0 when the peer has closed its end. Raises OSError when it has gone."""

    def watch_writable(self) -> None:
        """Calls `endpoint.writable` as long as more can be sent."""

    def ignore_writable(self) -> None: ...

    def send(self, data: bytes | memoryview, flags: int = 0, /) -> int:
        """Sends as much as fits now and returns how much. Raises OSError when the peer has gone."""

    def send_file(self, file: int, position: int, size: int) -> int:
        """The same with bytes of an open file; 0 where it has ended."""

    def close(self) -> None:
        """Closes at once; the endpoint is not called any more."""


class SocketTransport:
    """A stream socket that does not block."""

    __slots__ = ("_endpoint", "_fd", "_is_watching_writable", "_loop", "_socket", "receive_into", "send")

    def __init__(self, loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> None:
        self._loop = loop
        self._socket = accepted
        self._fd = accepted.fileno()
        self._endpoint: StreamReader
        self._is_watching_writable = False
        self.receive_into = accepted.recv_into
        self.send = accepted.send

    def start(self, endpoint: StreamReader) -> None:
        self._endpoint = endpoint
        self.resume_reading()

    def pause_reading(self) -> None:
        self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        self._loop.add_reader(self._fd, self._endpoint.readable)

    def watch_writable(self) -> None:
        self._is_watching_writable = True
        self._loop.add_writer(self._fd, self._endpoint.writable)

    def ignore_writable(self) -> None:
        self._is_watching_writable = False
        self._loop.remove_writer(self._fd)

    def send_file(self, file: int, position: int, size: int) -> int:
        return os.sendfile(self._fd, file, position, size)

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        if self._is_watching_writable:
            self._loop.remove_writer(self._fd)
        self._socket.close()

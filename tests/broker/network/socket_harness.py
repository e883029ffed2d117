"""A SocketServer over real sockets with a scripted handler behind it, and clients of it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from barnabas.broker.network.connection_quotas import ConnectionLimits, ConnectionQuotas
from barnabas.broker.network.listener_security import without_security
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.broker.network.socket_server import SocketServer, SocketSettings
from barnabas.broker.probes import SocketServerProbe
from barnabas.config.listeners import Listener
from tests.broker.scripted import ScriptedHandler, framed
from tests.broker.security.sasl.logins import FakeDoors

MIB = 1024 * 1024
Run = Callable[[Coroutine[Any, Any, None]], None]


class Address(Listener):
    def __new__(
        cls,
        host: str = "127.0.0.1",
        port: int = 0,
        name: str = "PLAINTEXT",
        security_protocol: str = "PLAINTEXT",
    ) -> Address:
        return super().__new__(cls, name, host, port, security_protocol)


class ServerHarness:
    """A SocketServer with a ScriptedHandler behind it."""

    def __init__(self, *addresses: Address, **options: Any) -> None:
        loop = options.pop("loop", None) or asyncio.get_running_loop()
        self.handler = ScriptedHandler()
        self.memory = RequestMemory(options.pop("limit_bytes", 64 * MIB))
        self.probe = SocketServerProbe()
        idle_ms = options.pop("connections_max_idle_ms", 600_000)
        max_bytes = options.pop("socket_request_max_bytes", 16 * MIB)
        timeout_ms = options.pop("authentication_timeout_ms", 30_000)
        clock, window_ms = options.pop("clock", loop.time), options.pop("window_ms", 1000)
        self.server = SocketServer(
            loop=loop,
            listeners=addresses or [Address()],
            settings=SocketSettings(
                barnabas_authentication_timeout_ms=timeout_ms,
                connection_failed_authentication_delay_ms=10,
                connections_max_idle_ms=idle_ms,
                socket_request_max_bytes=max_bytes,
            ),
            secure=options.pop("secure", without_security),
            quotas=ConnectionQuotas(ConnectionLimits(**options), clock, samples=2, window_ms=window_ms),
            memory=self.memory,
            probe=self.probe,
        )
        self.ports = self.server.bind()
        self.server.start(self.handler, FakeDoors())

    @property
    def port(self) -> int:
        return self.ports["PLAINTEXT"]


@asynccontextmanager
async def harness(*addresses: Address, **options: Any) -> AsyncIterator[ServerHarness]:
    home = ServerHarness(*addresses, **options)
    try:
        yield home
    finally:
        await home.server.drain(5)


class Client:
    """A client over a real socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def dials(cls, port: int, host: str = "127.0.0.1", **options: Any) -> Client:
        return cls(*await asyncio.open_connection(host, port, **options))

    def send(self, *requests: str) -> None:
        self.writer.write(b"".join(framed(request.encode()) for request in requests))

    async def answer(self) -> bytes:
        size: int = struct.unpack(">i", await self.reader.readexactly(4))[0]
        return await self.reader.readexactly(size)

    async def asks(self, request: str) -> bytes:
        self.send(request)
        return await self.answer()

    async def sees_the_end(self) -> bool:
        """Whether the broker closes the connection, with nothing more to read before that."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionResetError:
            return True

    async def leaves(self) -> None:
        self.writer.close()
        await asyncio.wait([asyncio.ensure_future(self.writer.wait_closed())])


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what a thread of the broker reports to the loop; the dialogue has a limit of its own."""
    while not condition():  # noqa: ASYNC110  # turns of the loop, no time
        await asyncio.sleep(0)

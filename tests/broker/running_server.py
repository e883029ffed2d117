"""A whole Server in this process, on ports that the system chooses, and a minimal client."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from barnabas.broker.startup.server import Server
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.api_keys import ApiKey, request_header_version, response_header_version, response_type
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.messages.headers import RequestHeader, ResponseHeader
from barnabas.protocol.schema import Message
from barnabas.storage.env import RealEnv

LOCALHOST = "127.0.0.1"
TIMEOUT_S = 60.0


def config_of(log_dirs: str | Path, **settings: str) -> BrokerConfig:
    """A configuration over `log_dirs`, with the keys' dots written as underscores; listening on localhost, any port."""
    values = {
        "listeners": f"PLAINTEXT://{LOCALHOST}:0",
        "barnabas.http.port": "-1",
        "log.dirs": str(log_dirs),
    }
    values |= {key.replace("_", "."): value for key, value in settings.items()}
    return BrokerConfig.of(None, overrides=[f"{key}={value}" for key, value in values.items()])


def new_server(config: BrokerConfig) -> Server:
    return Server(config, asyncio.get_running_loop(), RealEnv())


@asynccontextmanager
async def running(config: BrokerConfig) -> AsyncIterator[Server]:
    """A started server; it is stopped at the end."""
    server = new_server(config)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class Stream:
    """A connection that sends and reads frames, independent of the broker's Connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, framed: bytes) -> bytes:
        self.send(framed)
        return await self.receive()

    async def call(self, request: Message, version: int) -> Any:
        """The response to a request in this version."""
        assert request.api_key is not None
        key = ApiKey(request.api_key)
        header = RequestHeader(
            request_api_key=key, request_api_version=version, correlation_id=5, client_id="test"
        )
        sent = encode(header, request_header_version(key, version)) + encode(request, version)
        received = await self.ask(struct.pack(">i", len(sent)) + sent)
        head = len(encode(ResponseHeader(), response_header_version(key, version)))
        return decode(response_type(key), version, received[head:])

    def send(self, framed: bytes) -> None:
        self._writer.write(framed)

    async def receive(self) -> bytes:
        """The next response without its size."""
        (size,) = struct.unpack(">i", await asyncio.wait_for(self._reader.readexactly(4), TIMEOUT_S))
        return await asyncio.wait_for(self._reader.readexactly(size), TIMEOUT_S)

    async def is_closed(self) -> bool:
        """Waits for the other side to close; False when it sends something instead."""
        return await asyncio.wait_for(self._reader.read(1), TIMEOUT_S) == b""


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[Stream]:
    """A connection to a port of this machine. Raises OSError."""
    reader, writer = await asyncio.open_connection(LOCALHOST, port)
    try:
        yield Stream(reader, writer)
    finally:
        writer.close()
        await writer.wait_closed()

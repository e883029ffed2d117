"""Opening a connection: the buffer before it, several addresses, and what goes wrong."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, cast

import pytest

from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.opening import USE_SYSTEM_BUFFER, opener

LOCALHOST = "127.0.0.1"
LIMIT_S = 20.0


class Peer(asyncio.BufferedProtocol):
    """The protocol of the connection that is opened; `result` becomes its transport, or the reason of a failure."""

    def __init__(self) -> None:
        self.result: asyncio.Future[asyncio.BaseTransport | str] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.result.set_result(transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(1024)

    def buffer_updated(self, nbytes: int) -> None:
        raise AssertionError("nobody sends anything")


class Addresses:
    """The methods of an event loop that opening needs, with a name that has several addresses."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = ports

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio.get_running_loop(), name)

    async def getaddrinfo(self, host: str, port: int, **_: object) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (LOCALHOST, each)) for each in self._ports]


@pytest.fixture
def listening() -> Any:
    with socket.create_server((LOCALHOST, 0)) as server:
        yield server


@pytest.fixture
def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server((LOCALHOST, 0)) as server:
        return int(server.getsockname()[1])


async def opened(loop: object, address: NodeAddress, receive_buffer_bytes: int = USE_SYSTEM_BUFFER) -> Any:
    """The transport, or the reason why there is none."""
    peer = Peer()
    opening = opener(cast("asyncio.AbstractEventLoop", loop))(
        address, receive_buffer_bytes, peer, peer.result.set_result
    )
    result = await asyncio.wait_for(peer.result, LIMIT_S)
    await asyncio.wait_for(cast("asyncio.Task[None]", opening), LIMIT_S)
    return result


async def test_the_receive_buffer_is_set_and_small_requests_leave_at_once(listening: socket.socket) -> None:
    at = NodeAddress(LOCALHOST, listening.getsockname()[1])
    system = await opened(asyncio.get_running_loop(), at)
    usual = system.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
    wanted = usual // 4
    transport = await opened(asyncio.get_running_loop(), at, wanted)
    found = transport.get_extra_info("socket")
    assert found.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) in (wanted, 2 * wanted)  # Linux doubles it
    assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    system.abort()
    transport.abort()


@pytest.mark.skipif(
    not hasattr(socket, "TCP_MAXSEG"), reason="the system does not say how large segments are"
)
async def test_the_buffer_is_known_when_the_connection_is_made(listening: socket.socket) -> None:
    """Two segments fit into the window with which a connection opens: the second is what is acknowledged at once."""
    transport = await opened(
        asyncio.get_running_loop(), NodeAddress(LOCALHOST, listening.getsockname()[1]), 65_536
    )
    accepted, _ = listening.accept()
    with accepted:
        segment = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    assert segment <= 65_536 // 2
    transport.abort()


async def test_the_next_address_of_a_host_is_tried(listening: socket.socket, free_port: int) -> None:
    port = listening.getsockname()[1]
    transport = await opened(Addresses([free_port, port]), NodeAddress("n1.test", 9092))
    assert transport.get_extra_info("peername") == (LOCALHOST, port)
    transport.abort()


async def test_a_host_none_of_whose_addresses_accepts_is_an_error(free_port: int) -> None:
    reason = await opened(Addresses([free_port, free_port]), NodeAddress("n1.test", 9092))
    assert reason.startswith("no connection to n1.test:9092: Connect")


@pytest.mark.parametrize("host", ["a" * 64 + ".test", "n1..test"])
async def test_a_name_that_is_none_is_an_error(host: str) -> None:
    reason = await opened(asyncio.get_running_loop(), NodeAddress(host, 1))
    assert reason.startswith(f"no connection to {host}:1: ")


async def test_an_opening_that_is_cancelled_closes_its_socket() -> None:
    class Never(Addresses):
        async def sock_connect(self, opened: socket.socket, at: object) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                sockets.append(opened)

    sockets: list[socket.socket] = []
    peer = Peer()
    opening = opener(cast("asyncio.AbstractEventLoop", Never([1])))(
        NodeAddress("n1.test", 9092), USE_SYSTEM_BUFFER, peer, peer.result.set_result
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cast("asyncio.Task[None]", opening)
    assert [each.fileno() for each in sockets] == [-1]
    assert not peer.result.done()

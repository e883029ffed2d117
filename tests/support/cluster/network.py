"""The network between the nodes of a cluster, in user space: links that can be cut, stalled or delayed.

    network = Network()
    network.link(1, 2, port)         # listens on 127.1.2.1:port, forwards to 127.0.0.1:port
    network.stall(1, 2)              # connections stay open and nothing arrives, in either direction
    network.stall(1, 2, one_way=True)  # what 1 sends does not arrive; what 2 sends does
    network.cut(1, 2)                # connections are reset, new ones too
    network.delay(1, 2, 0.05)        # each piece arrives 50 ms later
    network.heal()

Stalling is what a partition looks like that drops packets and heals in time: nothing is lost, since TCP repeats it.
Cutting is what a firewall that rejects looks like, or a broken switch after which connections were given up.

A direction (source, target) is about bytes, whoever opened the connection. Everything runs on one event loop in a
thread; the methods may be called from any other thread and return when the fault acts.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, TypeVar

from tests.support.cluster.names import LOOPBACK, address_between

T = TypeVar("T")

PIECE_BYTES: Final = 1 << 16
RESET: Final = struct.pack("ii", 1, 0)
"""SO_LINGER of a socket whose close sends RST."""


class _Direction:
    """What happens to the bytes from one node to another."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.is_cut = False
        self.bytes = 0
        """All that were forwarded."""
        self._flows = asyncio.Event()
        self._flows.set()

    @property
    def is_stalled(self) -> bool:
        return not self._flows.is_set()

    def stall(self) -> None:
        self._flows.clear()

    def heal(self) -> None:
        self.delay_s, self.is_cut = 0.0, False
        self._flows.set()

    async def passes(self) -> None:
        """Waits for the delay, and while the direction is stalled."""
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self._flows.wait()


@dataclass(eq=False)
class _Connection:
    """A connection through a link: both sockets, and the tasks that forward."""

    opener: int
    opened: int
    near: asyncio.StreamWriter
    far: asyncio.StreamWriter | None = None
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def reset(self) -> None:
        """Ends both sides with RST."""
        for writer in (self.near, self.far):
            if writer is not None:
                reset(writer)

    def is_between(self, source: int, target: int) -> bool:
        return {self.opener, self.opened} == {source, target}


def reset(writer: asyncio.StreamWriter) -> None:
    """Closes a socket so that the other side sees ECONNRESET."""
    held: socket.socket | None = writer.get_extra_info("socket")
    if held is not None:
        with suppress(OSError):
            held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    writer.transport.abort()


class Network:
    """All links of a cluster. Starts with its first use; `close` ends its thread."""

    def __init__(self) -> None:
        self._directions: dict[tuple[int, int], _Direction] = {}
        self._connections: set[_Connection] = set()
        self._servers: dict[tuple[int, int, int], asyncio.Server] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()

    def link(self, opener: int, opened: int, port: int) -> str:
        """Listens for connections of one node to a port of another; returns the host to connect to."""
        host = address_between(opener, opened)
        if host != LOOPBACK:
            self._do(self._link(opener, opened, host, port))
        return host

    def cut(self, source: int, target: int, *, one_way: bool = False) -> None:
        """Resets the connections between two nodes and any new one; one way: only those that `source` opens."""
        self._do(self._cut(source, target, one_way))

    def stall(self, source: int, target: int, *, one_way: bool = False) -> None:
        """Lets nothing through, in both directions or from `source` to `target` only; connections stay open."""

        def act(direction: _Direction) -> None:
            direction.stall()

        for direction in self._both(source, target, one_way):
            self._call(act, direction)

    def delay(self, source: int, target: int, delay_s: float, *, one_way: bool = False) -> None:
        """Has every piece arrive so much later, which also limits the rate."""

        def act(direction: _Direction) -> None:
            direction.delay_s = delay_s

        for direction in self._both(source, target, one_way):
            self._call(act, direction)

    def isolate(self, node: int, others: list[int], *, by_cut: bool = False) -> None:
        """Stalls, or cuts, all between a node and the others."""
        for other in others:
            if by_cut:
                self.cut(node, other)
            else:
                self.stall(node, other)

    def heal(self) -> None:
        """Ends all faults; what was stalled arrives."""

        def act() -> None:
            for direction in self._directions.values():
                direction.heal()

        self._call(act)

    def forwarded(self, source: int, target: int) -> int:
        """Bytes that arrived from one node at another, over all their connections."""
        return self._direction(source, target).bytes

    def is_healed(self) -> bool:
        """Whether no fault acts."""
        return not any(each.is_cut or each.is_stalled or each.delay_s for each in self._directions.values())

    def close(self) -> None:
        """Closes all links and connections and ends the thread."""
        if self._loop.is_closed():
            return
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        assert not self._thread.is_alive()
        self._loop.close()

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- on the loop

    async def _link(self, opener: int, opened: int, host: str, port: int) -> None:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._serve(_Connection(opener, opened, writer), reader, port)

        key = (opener, opened, port)
        if key not in self._servers:
            self._servers[key] = await asyncio.start_server(accepted, host, port)

    async def _serve(self, connection: _Connection, near: asyncio.StreamReader, port: int) -> None:
        there = self._direction(connection.opener, connection.opened)
        back = self._direction(connection.opened, connection.opener)
        if there.is_cut:
            connection.reset()
            return
        self._connections.add(connection)
        try:
            await there.passes()
            await back.passes()  # the handshake needs both directions
            far, connection.far = await asyncio.open_connection(LOOPBACK, port)
            connection.tasks = [
                asyncio.ensure_future(_forward(near, connection.far, there)),
                asyncio.ensure_future(_forward(far, connection.near, back)),
            ]
            await asyncio.wait(connection.tasks, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            connection.reset()
        finally:
            await self._end(connection)

    async def _end(self, connection: _Connection) -> None:
        """Closes both sides after what one of them sent last has arrived at the other."""
        for task in connection.tasks:
            task.cancel()
        for writer in (connection.near, connection.far):
            if writer is not None and not writer.transport.is_closing():
                writer.close()
        await asyncio.gather(*connection.tasks, return_exceptions=True)
        self._connections.discard(connection)

    async def _cut(self, source: int, target: int, one_way: bool) -> None:
        for direction in self._both(source, target, one_way):
            direction.is_cut = True
        for connection in list(self._connections):
            if connection.is_between(source, target) and (not one_way or connection.opener == source):
                connection.reset()

    async def _close(self) -> None:
        for server in self._servers.values():
            server.close()
        for connection in list(self._connections):
            connection.reset()
        own = asyncio.current_task()
        others = [task for task in asyncio.all_tasks() if task is not own]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    # ---- from other threads

    def _direction(self, source: int, target: int) -> _Direction:
        return self._directions.setdefault((source, target), _Direction())

    def _both(self, source: int, target: int, one_way: bool) -> Iterator[_Direction]:
        yield self._direction(source, target)
        if not one_way:
            yield self._direction(target, source)

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    def _call(self, act: Any, *arguments: object) -> None:
        async def called() -> None:
            act(*arguments)

        self._do(called())


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: _Direction) -> None:
    """Forwards until the reader's side ends; its end passes as late as its bytes do."""
    with suppress(OSError):
        while piece := await reader.read(PIECE_BYTES):
            await direction.passes()
            direction.bytes += len(piece)  # before they arrive: the receiver finds them counted
            writer.write(piece)
            await writer.drain()
    await direction.passes()

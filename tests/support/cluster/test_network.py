from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.support.cluster.names import CLIENTS, address_between
from tests.support.cluster.network import Network
from tests.support.ports import held_ports

PATIENCE_S = 10.0
MOMENT_S = 0.1
"""How long a test looks whether something arrives that should not."""


class Echo:
    """A server on 127.0.0.1 that sends back what it gets."""

    def __init__(self) -> None:
        self.port = held_ports(1)[0]
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        self.connections: list[socket.socket] = []

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError):
            while piece := connection.recv(1 << 16):
                connection.sendall(piece)
            connection.close()

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.connections:
            connection.close()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def network() -> Iterator[Network]:
    with Network() as network:
        yield network


def dial(host: str, port: int) -> socket.socket:
    return socket.create_connection((host, port), timeout=PATIENCE_S)


def exchange(connection: socket.socket, data: bytes) -> bytes:
    connection.sendall(data)
    return receive(connection, len(data))


def receive(connection: socket.socket, size: int) -> bytes:
    connection.settimeout(PATIENCE_S)
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        if not piece:
            break
        found += piece
    return found


def nothing_arrives(connection: socket.socket) -> bool:
    connection.settimeout(MOMENT_S)
    try:
        return connection.recv(1) is None
    except TimeoutError:
        return True


def is_reset(connection: socket.socket) -> bool:
    connection.settimeout(PATIENCE_S)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def rejects(host: str, port: int) -> bool:
    """Whether a new connection is reset, at once or after it seemed to be there."""
    try:
        with dial(host, port) as connection:
            return is_reset(connection)
    except ConnectionResetError:
        return True


def test_a_link_forwards_in_both_directions_and_counts(network: Network, echo: Echo) -> None:
    data = b"x" * 1_000_000
    with dial(network.link(1, 2, echo.port), echo.port) as connection:
        sender = threading.Thread(target=connection.sendall, args=(data,))
        sender.start()
        assert receive(connection, len(data)) == data
        sender.join()
    assert network.forwarded(1, 2) == network.forwarded(2, 1) == len(data)
    assert network.forwarded(2, 3) == 0


def test_the_end_of_one_side_ends_the_other(network: Network, echo: Echo) -> None:
    with dial(network.link(1, 2, echo.port), echo.port) as connection:
        assert exchange(connection, b"a") == b"a"
        echo.connections[0].shutdown(socket.SHUT_RDWR)
        assert receive(connection, 1) == b""


def test_a_link_to_no_server_is_reset(network: Network) -> None:
    (port,) = held_ports(1)
    assert rejects(network.link(1, 2, port), port)


def test_a_stall_keeps_connections_and_delivers_everything_after_it(network: Network, echo: Echo) -> None:
    with dial(network.link(1, 2, echo.port), echo.port) as connection:
        assert exchange(connection, b"before") == b"before"
        network.stall(1, 2)
        connection.sendall(b"during")
        assert nothing_arrives(connection)
        assert not network.is_healed()
        network.heal()
        assert receive(connection, 6) == b"during"
        assert network.is_healed()


def test_a_connection_opened_during_a_stall_waits(network: Network, echo: Echo) -> None:
    host = network.link(1, 2, echo.port)
    network.stall(2, 1, one_way=True)
    with dial(host, echo.port) as connection:
        connection.sendall(b"hello")
        assert nothing_arrives(connection)
        assert echo.connections == []
        network.heal()
        assert receive(connection, 5) == b"hello"


def test_a_one_way_stall_lets_the_other_direction_through(network: Network, echo: Echo) -> None:
    with dial(network.link(1, 2, echo.port), echo.port) as connection:
        assert exchange(connection, b"a") == b"a"
        network.stall(1, 2, one_way=True)
        connection.sendall(b"lost")
        echo.connections[0].sendall(b"b")
        assert receive(connection, 1) == b"b"
        assert nothing_arrives(connection)


def test_a_direction_is_about_bytes_whoever_opened_the_connection(network: Network, echo: Echo) -> None:
    with dial(network.link(2, 1, echo.port), echo.port) as connection:
        assert exchange(connection, b"a") == b"a"
        network.stall(1, 2, one_way=True)  # what the echo of node 1 sends to node 2
        connection.sendall(b"b")
        assert nothing_arrives(connection)
        network.heal()
        assert receive(connection, 1) == b"b"


def test_a_cut_resets_open_and_new_connections_until_it_heals(network: Network, echo: Echo) -> None:
    host = network.link(1, 2, echo.port)
    with dial(host, echo.port) as connection:
        assert exchange(connection, b"a") == b"a"
        network.cut(1, 2)
        assert is_reset(connection)
    assert rejects(host, echo.port)
    network.heal()
    with dial(host, echo.port) as connection:
        assert exchange(connection, b"a") == b"a"


def test_a_cut_in_one_way_leaves_what_the_other_node_opened(network: Network, echo: Echo) -> None:
    with (
        dial(network.link(1, 2, echo.port), echo.port) as there,
        dial(network.link(2, 1, echo.port), echo.port) as back,
    ):
        assert exchange(there, b"a") == exchange(back, b"a")
        network.cut(1, 2, one_way=True)
        assert is_reset(there)
        assert exchange(back, b"b") == b"b"


def test_other_pairs_are_left_alone(network: Network, echo: Echo) -> None:
    with dial(network.link(1, 3, echo.port), echo.port) as connection:
        network.isolate(2, [1, 3], by_cut=True)
        network.isolate(4, [1, 3])
        assert exchange(connection, b"a") == b"a"


def test_a_delay_is_waited_for_in_each_direction(network: Network, echo: Echo) -> None:
    with dial(network.link(1, 2, echo.port), echo.port) as connection:
        assert exchange(connection, b"a") == b"a"
        network.delay(1, 2, MOMENT_S)
        begun = time.monotonic()
        assert exchange(connection, b"b") == b"b"
        assert time.monotonic() - begun >= 2 * MOMENT_S


def test_a_node_reaches_itself_without_a_link(network: Network) -> None:
    assert network.link(1, 1, 1) == "127.0.0.1"


def test_clients_have_links_of_their_own(network: Network, echo: Echo) -> None:
    host = network.link(CLIENTS, 2, echo.port)
    assert host == address_between(CLIENTS, 2)
    network.cut(1, 2)
    with dial(host, echo.port) as connection:
        assert exchange(connection, b"a") == b"a"


def test_closing_ends_everything(echo: Echo) -> None:
    network = Network()
    host = network.link(1, 2, echo.port)
    with dial(host, echo.port) as connection:
        assert exchange(connection, b"a") == b"a"
        network.stall(1, 2)
        connection.sendall(b"b")
        network.close()
        assert is_reset(connection)
    with pytest.raises(ConnectionRefusedError):
        dial(host, echo.port)
    network.close()

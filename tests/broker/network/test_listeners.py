"""Listening sockets on real addresses of this machine."""

from __future__ import annotations

import contextlib
import re
import select
import socket
from collections.abc import Iterator

import pytest

from barnabas.broker.network import listeners
from barnabas.broker.network.listeners import ListenError, bind


def has_ipv6_loopback() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def has_second_address() -> bool:
    """Linux has all of 127.0.0.0/8, macOS 127.0.0.1 alone."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.bind(("127.0.0.2", 0))
    except OSError:
        return False
    return True


needs_second_address = pytest.mark.skipif(not has_second_address(), reason="this machine has no 127.0.0.2")
needs_ipv6 = pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no ::1")


@contextlib.contextmanager
def bound(host: str, port: int = 0) -> Iterator[list[socket.socket]]:
    sockets = bind(host, port, backlog=5, receive_buffer_bytes=100_000)
    try:
        yield sockets
    finally:
        for listening in sockets:
            listening.close()


def addresses(sockets: list[socket.socket]) -> list[str]:
    return [listening.getsockname()[0] for listening in sockets]


def connects(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=60).close()
    except OSError:
        return False
    return True


def test_a_literal_address_is_bound() -> None:
    with bound("127.0.0.1") as sockets:
        assert addresses(sockets) == ["127.0.0.1"]
        assert connects("127.0.0.1", sockets[0].getsockname()[1])


@needs_ipv6
def test_localhost_is_bound_at_both_addresses_on_one_port() -> None:
    with bound("localhost") as sockets:
        assert len({listening.getsockname()[1] for listening in sockets}) == 1
        if len(sockets) == 2:  # depends on the hosts file
            assert addresses(sockets) == ["127.0.0.1", "::1"]


def resolve_to(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    def getaddrinfo(*_: object, **__: object) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [
            (socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0))
            for host in hosts
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@needs_second_address
@needs_ipv6
def test_a_name_is_bound_at_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "::1", "127.0.0.1", "127.0.0.1", "127.0.0.2")
    with bound("everywhere") as sockets:
        assert addresses(sockets) == ["127.0.0.1", "127.0.0.2", "::1"]
        assert len({listening.getsockname()[1] for listening in sockets}) == 1


def test_an_address_that_the_machine_lacks_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.1", "2001:db8::1")
    with bound("halfway") as sockets:
        assert addresses(sockets) == ["127.0.0.1"]


@needs_second_address
def test_a_port_taken_at_another_address_is_replaced_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    resolve_to(monkeypatch, "127.0.0.1", "127.0.0.2")
    taken: list[socket.socket] = []
    bind_one = listeners._bind_one

    def first_port_is_taken(
        family: socket.AddressFamily, address: str, port: int, options: listeners._Options
    ) -> socket.socket:
        if address == "127.0.0.2" and not taken:
            taken.append(bind_one(family, address, port, options))
        return bind_one(family, address, port, options)

    monkeypatch.setattr(listeners, "_bind_one", first_port_is_taken)
    with bound("both") as sockets, taken[0]:
        assert addresses(sockets) == ["127.0.0.1", "127.0.0.2"]
        assert sockets[0].getsockname()[1] != taken[0].getsockname()[1]


def test_an_empty_host_means_all_interfaces() -> None:
    with bound("") as sockets:
        assert len(sockets) == 1
        port = sockets[0].getsockname()[1]
        assert connects("127.0.0.1", port)
        assert connects("::1", port) is has_ipv6_loopback()


def test_all_interfaces_without_ipv6(monkeypatch: pytest.MonkeyPatch) -> None:
    bind_one = listeners._bind_one

    def no_ipv6(family: socket.AddressFamily, *rest: object) -> socket.socket:
        if family == socket.AF_INET6:
            raise OSError(97, "Address family not supported by protocol")
        return bind_one(family, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(listeners, "_bind_one", no_ipv6)
    with bound("") as sockets:
        assert addresses(sockets) == ["0.0.0.0"]


def test_the_error_names_a_taken_port() -> None:
    with bound("127.0.0.1") as sockets:
        port = sockets[0].getsockname()[1]
        with pytest.raises(ListenError, match=rf"cannot listen on 127\.0\.0\.1:{port}: another program"):
            bind("127.0.0.1", port, backlog=5, receive_buffer_bytes=-1)


def test_the_error_names_an_address_of_another_machine() -> None:
    with pytest.raises(ListenError, match=r"192\.0\.2\.1:\d+: this machine does not have that address"):
        bind("192.0.2.1", 9092, backlog=5, receive_buffer_bytes=-1)


@pytest.mark.parametrize("name", ["no-such-host.invalid", "no..host", f"{'x' * 64}.invalid"])
def test_the_error_names_an_unknown_host_name(name: str) -> None:
    with pytest.raises(ListenError, match=rf"{re.escape(name)} is not known here"):
        bind(name, 9092, backlog=5, receive_buffer_bytes=-1)


@pytest.mark.parametrize(("number", "words"), [(13, "not allowed"), (12, "Cannot allocate memory")])
def test_other_failures_are_explained(number: int, words: str) -> None:
    assert words in listeners._explain(OSError(number, "x"), "::1", 80)


def test_accepted_sockets_have_the_options_of_a_connection() -> None:
    """By the listening socket, where the system passes them on."""
    (listening,) = listeners.bind(
        "127.0.0.1", 0, backlog=5, receive_buffer_bytes=-1, send_buffer_bytes=30_000
    )
    with listening, socket.create_connection(listening.getsockname()):
        select.select([listening], [], [], 10)
        accepted, _ = listening.accept()
        with accepted:
            if not listeners.INHERITS_OPTIONS:
                listeners.set_options(accepted, 30_000)
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) in (30_000, 60_000)


def test_the_buffer_of_the_system_is_left_as_it_is() -> None:
    with socket.socket() as stream, socket.socket() as other:
        listeners.set_options(stream, listeners.USE_SYSTEM_BUFFER)
        assert stream.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        sizes = {each.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for each in (stream, other)}
        assert len(sizes) == 1

"""Listeners and limits that change while clients are there."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest

from barnabas.broker.network.connection_quotas import ConnectionLimits
from barnabas.broker.network.listener_security import ListenerSecurity
from barnabas.config.dynamic import SettingsWaitError
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError
from barnabas.config.listeners import Listener
from tests.broker.network.socket_harness import Address, Client, Run, harness
from tests.broker.network.test_socket_server import HANDSHAKE, SASL, secured, token


def test_a_listener_is_opened_and_closed(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            home.server.change_listeners([Address(), Address(name="INSIDE")])
            assert home.server.ports.keys() == {"PLAINTEXT", "INSIDE"}
            port = home.server.ports["INSIDE"]
            inside = await Client.dials(port)
            outside = await Client.dials(home.port)
            assert await inside.asks("echo one") == b"one"
            home.server.change_listeners([Address()])
            assert await inside.sees_the_end()
            await inside.leaves()
            assert await outside.asks("echo two") == b"two"
            with pytest.raises(ConnectionRefusedError):
                await Client.dials(port)
            await outside.leaves()

    run(dialogue())


def test_a_listener_moves_and_keeps_its_connections(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(Address(port=0)) as home:
            before = await Client.dials(home.port)
            home.server.change_listeners([Address(host="localhost")])
            moved = home.server.ports["PLAINTEXT"]
            assert moved != home.port
            after = await Client.dials(moved)
            assert await before.asks("echo one") == b"one"
            assert await after.asks("echo two") == b"two"
            with pytest.raises(ConnectionRefusedError):
                await Client.dials(home.port)
            await before.leaves()
            await after.leaves()

    run(dialogue())


class Fetching:
    """The security of listeners; that of one has to be fetched first, until a test says that it is there."""

    def __init__(self) -> None:
        self.then: list[Callable[[], None]] = []
        self.error: InvalidConfigError | None = None

    def __call__(self, listener: Listener) -> ListenerSecurity:
        if listener.name == "INSIDE" and self.error is not None:
            raise self.error
        if listener.name == "INSIDE" and not self.then:
            raise SettingsWaitError(self.then.append)
        return ListenerSecurity(listener.security_protocol)


def test_a_listener_opens_when_what_protects_it_has_been_fetched(run: Run) -> None:
    async def dialogue() -> None:
        secure = Fetching()
        async with harness(secure=secure) as home:
            wanted = [Address(), Address(name="INSIDE"), Address(name="OTHER")]
            home.server.change_listeners(wanted)
            assert home.server.ports.keys() == {"PLAINTEXT", "OTHER"}
            secure.then[0]()
            client = await Client.dials(home.server.ports["INSIDE"])
            assert await client.asks("echo one") == b"one"
            await client.leaves()
            secure.then[0]()  # it is open
            assert home.server.ports.keys() == {"PLAINTEXT", "OTHER", "INSIDE"}

    run(dialogue())


def test_a_listener_is_awaited_once_and_not_for_ever(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def dialogue() -> None:
        secure = Fetching()
        async with harness(secure=secure) as home:
            home.server.change_listeners([Address(), Address(name="INSIDE")])
            (then,) = secure.then
            secure.then.clear()
            home.server.change_listeners([Address(), Address(name="INSIDE"), Address(name="OTHER")])
            assert secure.then == []
            home.server.change_listeners([Address()])
            then()  # it is not wanted any more
            assert home.server.ports.keys() == {"PLAINTEXT"}
            home.server.change_listeners([Address(), Address(name="INSIDE")])
            secure.error = InvalidConfigError([ConfigError("the.url", "http://x", "must have keys")])
            secure.then[0]()
            assert home.server.ports.keys() == {"PLAINTEXT"}
            assert "listener INSIDE is not opened there: the.url=http://x must have keys" in caplog.text

    run(dialogue())


def test_an_address_that_is_taken_changes_nothing(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            home.server.change_listeners([Address(), Address(name="INSIDE", port=home.port)])
            assert home.server.ports == home.ports
            assert "INSIDE is not opened there" in caplog.text
            client = await Client.dials(home.port)
            assert await client.asks("echo one") == b"one"
            await client.leaves()

    run(dialogue())


def test_an_address_that_was_taken_is_tried_again(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            with socket.socket() as other:
                other.bind(("127.0.0.1", 0))
                other.listen()
                port = other.getsockname()[1]
                home.server.change_listeners([Address(), Address(name="INSIDE", port=port)])
                assert home.server.ports.keys() == {"PLAINTEXT"}
            home.server.change_listeners([Address(), Address(name="INSIDE", port=port)])
            assert home.server.ports["INSIDE"] == port

    run(dialogue())


def test_a_port_goes_from_one_listener_to_another(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            home.server.change_listeners([Address(), Address(name="INSIDE")])
            port = home.server.ports["INSIDE"]
            home.server.change_listeners([Address(), Address(name="OTHER", port=port)])
            assert home.server.ports == {**home.ports, "OTHER": port}
            home.server.change_listeners([Address(port=port), Address(name="OTHER")])
            assert home.server.ports["PLAINTEXT"] == port
            assert home.server.ports.keys() == {"PLAINTEXT", "OTHER"}
            client = await Client.dials(port)
            assert await client.asks("echo one") == b"one"
            await client.leaves()
            assert "is not opened" not in caplog.text

    run(dialogue())


def test_who_goes_back_from_an_address_that_was_taken_stays(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def dialogue() -> None:
        async with harness(Address(port=0)) as home:
            before = Address(port=0)
            with socket.socket() as other:
                other.bind(("127.0.0.1", 0))
                other.listen()
                home.server.change_listeners([Address(port=other.getsockname()[1])])
                assert home.server.ports == home.ports
                caplog.clear()
                home.server.change_listeners([before])
            assert home.server.ports == home.ports
            assert not caplog.text

    run(dialogue())


def test_other_limits_let_those_in_who_wait(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(max_connections=1) as home:
            first = await Client.dials(home.port)
            assert await first.asks("echo one") == b"one"
            second = await Client.dials(home.port)
            second.send("echo two")
            home.server.change_limits(ConnectionLimits(max_connections=2))
            assert await second.answer() == b"two"
            home.server.change_limits(ConnectionLimits(max_connections_per_ip=1))
            third = await Client.dials(home.port)
            assert await third.sees_the_end()
            assert await first.asks("echo three") == b"three"
            for client in (first, second, third):
                await client.leaves()

    run(dialogue())


def test_a_lower_maximum_closes_connections(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            clients = [await Client.dials(home.port) for _ in range(3)]
            for client in clients:
                assert await client.asks("echo one") == b"one"
            home.server.change_limits(ConnectionLimits(max_connections=1))
            assert home.server.quotas.total == 1
            home.server.change_limits(ConnectionLimits(max_connections=1))
            assert home.server.quotas.total == 1
            for client in clients:
                await client.leaves()

    run(dialogue())


def test_a_listener_with_logins_is_opened_while_others_run(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(secure=secured) as home:
            home.server.change_listeners([Address(), SASL])
            client = await Client.dials(home.server.ports["SASL"])
            client.writer.write(HANDSHAKE + token("pencil"))
            await client.answer()
            await client.answer()
            assert await client.asks("echo one") == b"one"
            home.server.change_listeners([Address()])
            assert await client.sees_the_end()
            await client.leaves()

    run(dialogue())


def test_a_listener_whose_logins_are_wrong_stays_closed(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    def wrong(address: Listener) -> ListenerSecurity:
        if address.name == "PLAINTEXT":
            return ListenerSecurity("PLAINTEXT")
        raise InvalidConfigError([ConfigError("sasl.enabled.mechanisms", "X", "must be another")])

    async def dialogue() -> None:
        async with harness(secure=wrong) as home:
            home.server.change_listeners([Address(), SASL])
            assert home.server.ports.keys() == {"PLAINTEXT"}
            assert "SASL is not opened there: sasl.enabled.mechanisms=X must be another" in caplog.text

    run(dialogue())

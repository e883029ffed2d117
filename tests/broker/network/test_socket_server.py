"""Real sockets on the loopback, under uvloop and under plain asyncio."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import struct
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.network import socket_server
from barnabas.broker.network.listener_security import ListenerSecurity
from barnabas.broker.network.listeners import ListenError
from barnabas.config.keys import ConfigError
from barnabas.config.layers import InvalidConfigError
from barnabas.config.listeners import Listener
from barnabas.protocol.framing import Frame, size_prefix
from barnabas.protocol.messages.security import SaslAuthenticateRequest, SaslHandshakeRequest
from barnabas.storage.env import RealFile
from barnabas.storage.offsets import FileRecords
from tests.broker.network.socket_harness import MIB, Address, Client, Run, ServerHarness, harness, until
from tests.broker.network.test_listeners import has_ipv6_loopback
from tests.broker.scripted import FakeRecords, SliceableRecords, framed
from tests.broker.security.sasl.logins import listener as logins_of_a_listener
from tests.support.sasl import framed as with_size
from tests.support.sasl import plain_token, request


def test_requests_are_answered(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            client = await Client.dials(home.port)
            client.send("echo one", "echo two")
            assert await client.answer() == b"one"
            assert await client.answer() == b"two"
            await client.leaves()

    run(dialogue())


def test_a_sweep_that_is_late_shows_a_pause_of_the_loop(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            home.server._sweep_due = asyncio.get_running_loop().time() - 5
            home.server._sweep_now()
            assert home.probe.pause.seconds >= 5

    run(dialogue())


def test_many_clients_at_once(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            clients = await asyncio.gather(*(Client.dials(home.port) for _ in range(40)))
            answers = await asyncio.gather(*(c.asks(f"echo {n}") for n, c in enumerate(clients)))
            assert answers == [str(n).encode() for n in range(40)]
            assert home.probe.listener("PLAINTEXT").connection_count == 40
            assert len({info.connection_id for info in home.server.connections()}) == 40
            await asyncio.gather(*(client.leaves() for client in clients))

    run(dialogue())


def test_a_handler_knows_both_ends_of_the_connection(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(Address(host="")) as home:
            client = await Client.dials(home.port)
            await client.asks("echo")
            (info,) = home.server.connections()
            assert (info.client_host, info.local_host, info.local_port) == (
                "127.0.0.1",
                "127.0.0.1",
                home.port,
            )
            assert info.client_port == client.writer.get_extra_info("sockname")[1]
            assert info.listener_name == "PLAINTEXT"
            await client.leaves()

    run(dialogue())


@pytest.mark.skipif(not has_ipv6_loopback(), reason="this machine has no ::1")
def test_localhost_answers_on_both_of_its_addresses(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(Address(host="localhost")) as home:
            for host in {item[4][0] for item in socket.getaddrinfo("localhost", None)}:
                client = await Client.dials(home.port, str(host))
                assert await client.asks("echo hello") == b"hello"
                await client.leaves()

    run(dialogue())


def test_a_taken_port_is_known_before_anything_else_happens(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            with pytest.raises(ListenError, match=f"127.0.0.1:{home.port}"):
                ServerHarness(Address(), Address(port=home.port, name="SECOND"))

    run(dialogue())


def test_a_large_request_and_a_large_answer(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            client = await Client.dials(home.port, limit=MIB)
            body = "x" * (8 * MIB)
            assert await client.asks(f"echo {body}") == body.encode()
            assert home.memory.used_bytes == 0
            await client.leaves()

    run(dialogue())


def test_records_reach_the_client(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            home.handler.records["r"] = SliceableRecords(20 * MIB)
            home.handler.records["s"] = FakeRecords(10)
            client = await Client.dials(home.port, limit=MIB)
            client.send("records r", "records s")
            assert await client.answer() == b"abc" + b"r" * 20 * MIB
            assert await client.answer() == b"abc" + b"r" * 10
            await client.leaves()

    run(dialogue())


def test_records_in_a_file_reach_clients_that_read_side_by_side(run: Run, tmp_path: Path) -> None:
    data = random.Random(1).randbytes(9 * MIB)
    (tmp_path / "0.log").write_bytes(data)
    file = RealFile(os.open(tmp_path / "0.log", os.O_RDWR))

    async def dialogue() -> None:
        async with harness() as home:
            home.handler.records["r"] = FileRecords(file, 5, 8 * MIB)
            home.handler.records["s"] = FileRecords(file, 3, 100)
            clients = [await Client.dials(home.port, limit=MIB) for _ in range(3)]
            for client in clients:
                client.send("records r", "records s", "echo done")
            for client in clients:
                assert await client.answer() == b"abc" + data[5 : 5 + 8 * MIB]
                assert await client.answer() == b"abc" + data[3:103]
                assert await client.answer() == b"done"
                await client.leaves()
            sent = home.probe.listener("PLAINTEXT").bytes_out
            assert sent == 3 * (8 * MIB + 100 + 6 + 4 + 12)

    run(dialogue())


def test_a_log_that_is_cut_under_an_answer_ends_the_connection(run: Run, tmp_path: Path) -> None:
    (tmp_path / "0.log").write_bytes(bytes(9 * MIB))
    file = RealFile(os.open(tmp_path / "0.log", os.O_RDWR))

    async def dialogue() -> None:
        async with harness() as home:
            home.handler.records["r"] = FileRecords(file, 0, 9 * MIB)
            client, other = await Client.dials(home.port, limit=1024), await Client.dials(home.port)
            client.send("records r")
            await client.reader.readexactly(7)
            file.truncate(100)
            with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
                await client.reader.readexactly(9 * MIB)
            assert await other.asks("echo fine") == b"fine"
            await asyncio.gather(client.leaves(), other.leaves())

    run(dialogue())


def test_who_hangs_up_behind_a_large_answer_sends_it_first(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            client = await Client.dials(home.port, limit=1024)
            client.send(f"big {8 * MIB}", "close")
            assert await client.answer() == bytes(8 * MIB)
            assert await client.sees_the_end()
            await client.leaves()

    run(dialogue())


def test_large_requests_that_wait_keep_what_they_hold(run: Run) -> None:
    """Their memory is used again only when nobody looks into it."""

    async def dialogue() -> None:
        async with harness() as home:
            frames: list[Frame] = []
            home.server._listening["PLAINTEXT"].context.handle = lambda info, frame: (
                frames.append(frame) or [b"taken"]  # type: ignore[func-returns-value]
            )
            client = await Client.dials(home.port, limit=MIB)
            for number in range(20):
                assert await client.asks(f"{number:02}" * 200_000) == b"taken"
            assert [bytes(frame[2:]) for frame in frames] == [b"%02d" % n * 200_000 for n in range(20)]
            assert isinstance(frames[0], memoryview)
            await client.leaves()

    run(dialogue())


def test_a_slow_reader_costs_a_piece_and_does_not_hold_up_others(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            records = SliceableRecords(50 * MIB)
            home.handler.records["r"] = records
            slow = await Client.dials(home.port, limit=1024)
            other = await Client.dials(home.port)
            slow.send("records r")
            for n in range(50):
                assert await other.asks(f"echo {n}") == str(n).encode()
            assert 0 < sum(records.reads) < 16 * MIB  # what fits into the sockets' buffers, and one piece
            await slow.leaves()
            await other.leaves()

    run(dialogue())


def test_a_client_that_sends_and_never_reads_is_stopped(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            client = await Client.dials(home.port, limit=1024)
            other = await Client.dials(home.port)
            for _ in range(200):
                client.send(*["big 100000"] * 10)
            assert await other.asks("echo still here") == b"still here"
            assert len(home.handler.handled) < 500
            await client.leaves()
            await other.leaves()

    run(dialogue())


def test_an_address_with_its_maximum_is_turned_away(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(max_connections_per_ip=2) as home:
            first, second = await Client.dials(home.port), await Client.dials(home.port)
            await first.asks("echo"), await second.asks("echo")
            third = await Client.dials(home.port)
            assert await third.sees_the_end()
            assert await first.asks("echo on") == b"on"
            first.send("close")
            assert await first.sees_the_end()
            fourth = await Client.dials(home.port)
            assert await fourth.asks("echo hello") == b"hello"
            await asyncio.gather(*(client.leaves() for client in (first, second, third, fourth)))

    run(dialogue())


@pytest.mark.parametrize(
    "limit", [{"max_connections": 2}, {"max_connections_per_listener": {"PLAINTEXT": 2}}]
)
def test_a_full_broker_lets_the_next_client_wait(run: Run, limit: dict[str, Any]) -> None:
    async def dialogue() -> None:
        async with harness(**limit) as home:
            first, second = await Client.dials(home.port), await Client.dials(home.port)
            await first.asks("echo"), await second.asks("echo")
            third = await Client.dials(home.port)
            third.send("echo at last")
            assert await first.asks("echo on") == b"on"
            assert home.probe.listener("PLAINTEXT").connection_count == 2
            second.send("close")
            assert await second.sees_the_end()
            assert await third.answer() == b"at last"
            await asyncio.gather(*(client.leaves() for client in (first, second, third)))

    run(dialogue())


def test_an_idle_connection_is_closed(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(connections_max_idle_ms=40) as home:
            client = await Client.dials(home.port)
            await client.asks("echo hello")
            assert await client.sees_the_end()
            await client.leaves()

    run(dialogue())


@pytest.mark.parametrize(
    "rubbish",
    [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\xff\xff\xff\xff", size_prefix(17 * MIB), framed(b"?")],
)
def test_rubbish_closes_the_connection_and_no_other(run: Run, rubbish: bytes) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            bad, good = await Client.dials(home.port), await Client.dials(home.port)
            bad.writer.write(rubbish)
            assert await bad.sees_the_end()
            assert await good.asks("echo fine") == b"fine"
            await asyncio.gather(bad.leaves(), good.leaves())

    run(dialogue())


def test_claims_of_huge_requests_take_no_memory(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(limit_bytes=MIB) as home:
            claimants = await asyncio.gather(*(Client.dials(home.port) for _ in range(50)))
            for claimant in claimants:
                claimant.writer.write(size_prefix(16 * MIB) + b"and then nothing")
            client = await Client.dials(home.port, limit=MIB)
            for _ in range(3):
                assert len(await client.asks("echo " + "x" * 2 * MIB)) == 2 * MIB
            assert home.memory.used_bytes == 0
            await asyncio.gather(*(someone.leaves() for someone in [client, *claimants]))

    run(dialogue())


def test_large_requests_take_turns_when_memory_is_short(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(limit_bytes=MIB) as home:
            clients = await asyncio.gather(*(Client.dials(home.port, limit=MIB) for _ in range(12)))
            answers = await asyncio.gather(*(client.asks("echo " + "x" * MIB) for client in clients))
            assert [len(answer) for answer in answers] == [MIB] * 12
            assert (home.memory.used_bytes, home.memory.waiting) == (0, 0)
            await asyncio.gather(*(client.leaves() for client in clients))

    run(dialogue())


def test_whoever_asked_is_told_of_the_end_of_each_connection(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            ended: asyncio.Queue[int] = asyncio.Queue()
            home.server.connection_closed = ended.put_nowait
            client, other = await Client.dials(home.port), await Client.dials(home.port)
            await client.asks("echo")
            await other.asks("echo")
            first, second = sorted(info.connection_id for info in home.server.connections())
            await other.leaves()
            await client.leaves()
            assert {await ended.get(), await ended.get()} == {first, second}

    run(dialogue())


def test_a_client_that_resets_is_forgotten(run: Run) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            client = await Client.dials(home.port)
            client.send("wait one")
            client.writer.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            other = await Client.dials(home.port)
            while not home.handler.pending:
                await other.asks("echo")
            client.writer.transport.abort()
            while len(list(home.server.connections())) > 1:
                await other.asks("echo")
            home.handler.complete("one")
            assert home.memory.used_bytes == 0
            await other.leaves()

    run(dialogue())


def test_a_client_that_resets_before_all_is_read_is_forgotten_while_its_request_waits(run: Run) -> None:
    """libuv reports a reset once, however much has been received before it."""

    async def dialogue() -> None:
        async with harness(connections_max_idle_ms=40) as home:
            home.memory.window = home.memory.buffer[: 16 * 1024]
            client = socket.create_connection(("127.0.0.1", home.port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            requests = [b"wait one", *(b"none " + bytes(1000) for _ in range(100))]
            await until(lambda: len(list(home.server.connections())) == 1)
            client.sendall(b"".join(framed(request) for request in requests))
            client.close()
            await until(lambda: not list(home.server.connections()))
            assert len(home.handler.handled) == len(requests)

    run(dialogue())


def test_draining_answers_what_is_in_flight_and_takes_nothing_new(run: Run) -> None:
    async def dialogue() -> None:
        home = ServerHarness()
        busy, idle = await Client.dials(home.port), await Client.dials(home.port)
        await idle.asks("echo")
        busy.send("wait one", "echo two")
        while not home.handler.pending:
            await idle.asks("echo")
        draining = asyncio.ensure_future(home.server.drain(5))
        assert await idle.sees_the_end()
        with pytest.raises(ConnectionRefusedError):
            await Client.dials(home.port)
        home.handler.complete("one")
        assert [await busy.answer(), await busy.answer()] == [b"one", b"two"]
        assert await busy.sees_the_end()
        assert await draining == 0
        await asyncio.gather(busy.leaves(), idle.leaves())

    run(dialogue())


def test_draining_does_not_wait_for_ever(run: Run) -> None:
    async def dialogue() -> None:
        home = ServerHarness()
        client = await Client.dials(home.port)
        client.send("wait for the end of days")
        other = await Client.dials(home.port)
        while not home.handler.pending:
            await other.asks("echo")
        await other.leaves()
        assert await home.server.drain(0.01) == 1
        assert await client.sees_the_end()
        await client.leaves()

    run(dialogue())


def test_without_file_descriptors_it_waits_and_says_so(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def dialogue() -> None:
        async with harness() as home:
            (listening,) = home.server._listening.values()

            class NoFiles:
                """A listening socket while the process has no file descriptor left."""

                def __init__(self, real: socket.socket) -> None:
                    self.real = real

                def accept(self) -> None:
                    raise OSError(24, "Too many open files")

            home.server._accept(listening, NoFiles(listening.sockets[0]))  # type: ignore[arg-type]
            assert not listening.accepting
            home.server._resume_accepting()
            client = await Client.dials(home.port)
            assert await client.asks("echo again") == b"again"
            await client.leaves()

    run(dialogue())
    assert "raise the limit of open files" in caplog.text


# ---- rates and limits of connections


class Clock:
    """The clock of the rates of connections, in seconds, which the test turns; timers are the event loop's."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_connection_that_comes_too_fast_waits_and_those_behind_it(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(clock=Clock(), max_connection_creation_rate=100) as home:
            clients = [await Client.dials(home.port) for _ in range(103)]
            clients[-1].send("echo here")
            assert await clients[-1].answer() == b"here"
            assert home.probe.listener("PLAINTEXT").connections_created == 103
            assert home.server.quotas.accept_throttle_times_ms() == [("PLAINTEXT", 20.0, 0.0)]
            for client in clients:
                await client.leaves()

    run(dialogue())


def test_a_rate_of_none_has_each_connection_wait_for_a_window(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(window_ms=20, max_connection_creation_rate=0) as home:
            client = await Client.dials(home.port)
            assert await client.asks("echo here") == b"here"
            assert home.server.quotas.accept_throttle_times_ms() == [("PLAINTEXT", 20.0, 0.0)]
            await client.leaves()

    run(dialogue())


def test_a_connection_that_waits_for_the_rate_waits_for_room_as_well(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(window_ms=20, max_connection_creation_rate=0, max_connections=1) as home:
            first = await Client.dials(home.port)
            assert await first.asks("echo one") == b"one"
            second = await Client.dials(home.port)
            second.send("echo two")
            await first.leaves()
            assert await second.answer() == b"two"
            await second.leaves()

    run(dialogue())


def test_a_connection_that_waits_is_closed_with_its_listener(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(
            Address(), Address(name="INSIDE"), clock=Clock(), max_connection_creation_rate=1
        ) as home:
            inside = await Client.dials(home.ports["INSIDE"])
            assert await inside.asks("echo one") == b"one"
            outside = await Client.dials(home.port)  # which waits for a second
            await inside.asks("echo two")  # in the turns of the loop for this it is accepted
            home.server.change_listeners([Address(name="INSIDE")])
            assert await outside.sees_the_end()
            await outside.leaves()
            await inside.leaves()

    run(dialogue())


def test_a_connection_that_waits_is_closed_with_the_server(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(
            Address(), Address(name="INSIDE"), clock=Clock(), max_connection_creation_rate=1
        ) as home:
            inside = await Client.dials(home.ports["INSIDE"])
            assert await inside.asks("echo one") == b"one"
            outside = await Client.dials(home.port)
            await inside.asks("echo two")
            await inside.leaves()
        assert await outside.sees_the_end()
        await outside.leaves()

    run(dialogue())


def test_an_address_that_connects_too_fast_is_held_and_then_closed(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(clock=Clock(), window_ms=50) as home:
            home.server.change_ip_limits({"127.0.0.1": 20.0}, None)
            first = await Client.dials(home.port)
            assert await first.asks("echo one") == b"one"
            second = await Client.dials(home.port)
            second.send("echo two")
            assert await second.sees_the_end()
            assert home.probe.listener("PLAINTEXT").connections_created == 1
            assert home.server.quotas.total == 1
            home.server.change_ip_limits({}, None)
            third = await Client.dials(home.port)
            assert await third.asks("echo three") == b"three"
            for client in (first, second, third):
                await client.leaves()

    run(dialogue())


def test_connections_are_held_up_to_a_bound(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket_server, "_MAX_HELD", 1)

    async def dialogue() -> None:
        async with harness(clock=Clock()) as home:
            home.server.change_ip_limits({}, 0.0)
            first, second = await Client.dials(home.port), await Client.dials(home.port)
            assert await second.sees_the_end()
        assert await first.sees_the_end()
        for client in (first, second):
            await client.leaves()

    run(dialogue())


def test_the_listener_between_brokers_takes_its_connections_and_others_close(run: Run) -> None:
    async def dialogue() -> None:
        options = {"max_connections": 2, "protected_listener": "INSIDE"}
        async with harness(Address(), Address(name="INSIDE"), **options) as home:
            clients = [await Client.dials(home.port) for _ in range(2)]
            for client in clients:
                assert await client.asks("echo one") == b"one"
            home.server._sweep.sweep(1.0)
            assert await clients[0].asks("echo two") == b"two"
            inside = await Client.dials(home.ports["INSIDE"])
            assert await inside.asks("echo three") == b"three"
            assert await clients[1].sees_the_end()  # it has been unused the longest
            assert await clients[0].asks("echo four") == b"four"
            for client in (*clients, inside):
                await client.leaves()

    run(dialogue())


# ---- logins

SASL = Address(name="SASL", security_protocol="SASL_PLAINTEXT")
HANDSHAKE = with_size(request(SaslHandshakeRequest(mechanism="PLAIN"), 1))


def secured(address: Listener) -> ListenerSecurity:
    """PLAIN with alice, where the protocol asks for logins."""
    if address.security_protocol == "PLAINTEXT":
        return ListenerSecurity("PLAINTEXT")
    return ListenerSecurity(address.security_protocol, logins_of_a_listener())


def token(password: str) -> bytes:
    return with_size(request(SaslAuthenticateRequest(auth_bytes=plain_token("alice", password)), 2))


def test_clients_of_a_listener_with_logins_log_in(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(Address(), SASL, secure=secured) as home:
            client, other = await Client.dials(home.ports["SASL"]), await Client.dials(home.port)
            client.writer.write(HANDSHAKE + token("pencil"))
            await client.answer()
            await client.answer()
            assert await client.asks("echo one") == b"one"
            assert await other.asks("echo two") == b"two"
            found = {str(info.principal): info.security_protocol for info in home.server.connections()}
            assert found == {"User:alice": "SASL_PLAINTEXT", "User:ANONYMOUS": "PLAINTEXT"}
            await asyncio.gather(client.leaves(), other.leaves())

    run(dialogue())


def test_who_cannot_log_in_is_sent_away(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(Address(), SASL, secure=secured) as home:
            client = await Client.dials(home.ports["SASL"])
            client.writer.write(HANDSHAKE + token("wrong"))
            client.send("echo one")
            await client.answer()
            assert b"Authentication failed" in await client.answer()
            assert await client.sees_the_end()
            await client.leaves()
            assert home.handler.handled == []
            assert home.probe.listener("SASL").failed_authentications == 1

    run(dialogue())


def test_who_is_logging_in_makes_room_for_the_listener_between_brokers(run: Run) -> None:
    """A flood of clients that begin to log in does not shut brokers out."""

    async def dialogue() -> None:
        options = {"max_connections": 2, "protected_listener": "INSIDE"}
        async with harness(SASL, Address(name="INSIDE"), secure=secured, **options) as home:
            clients = [await Client.dials(home.ports["SASL"]) for _ in range(2)]
            for client in clients:
                client.writer.write(HANDSHAKE)
                await client.answer()
            inside = [await Client.dials(home.ports["INSIDE"]) for _ in range(2)]
            assert [await one.asks("echo one") for one in inside] == [b"one", b"one"]
            assert [await client.sees_the_end() for client in clients] == [True, True]
            logins = home.server.authentications
            assert logins is not None
            assert (len(logins), logins.memory.used_bytes) == (0, 0)
            await asyncio.gather(*(client.leaves() for client in (*clients, *inside)))

    run(dialogue())


@pytest.mark.parametrize("limit", [{"max_connections": 3}, {"max_connections_per_listener": {"SASL": 3}}])
def test_who_is_logging_in_for_long_makes_room_for_the_next(
    run: Run, limit: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that hold all connections, and never log in, do not keep out one that has a password."""
    monkeypatch.setattr(socket_server, "LOGIN_GRACE_S", 0.0)

    async def dialogue() -> None:
        async with harness(SASL, secure=secured, **limit) as home:
            attackers = [await Client.dials(home.ports["SASL"]) for _ in range(3)]
            for attacker in attackers:
                attacker.writer.write(HANDSHAKE)
                await attacker.answer()
            clients = [await Client.dials(home.ports["SASL"]) for _ in range(3)]
            for client in clients:
                client.writer.write(HANDSHAKE + token("pencil"))
                await client.answer()
                await client.answer()
            assert [await one.sees_the_end() for one in attackers] == [True, True, True]
            late = await Client.dials(home.ports["SASL"])  # nobody gives way who has logged in
            late.writer.write(HANDSHAKE + token("pencil"))
            assert [await client.asks("echo one") for client in clients] == [b"one"] * 3
            assert home.probe.listener("SASL").connection_count == 3
            assert home.probe.listener("SASL").failed_authentications == 3
            await clients[0].leaves()
            await late.answer()
            await late.answer()
            assert await late.asks("echo at last") == b"at last"
            await asyncio.gather(*(client.leaves() for client in (*attackers, *clients[1:], late)))

    run(dialogue())


def test_a_login_has_time_before_it_makes_room(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def dialogue() -> None:
        async with harness(Address(), SASL, secure=secured, max_connections=1) as home:
            slow = await Client.dials(home.ports["SASL"])
            slow.writer.write(HANDSHAKE)
            await slow.answer()
            waits = await Client.dials(home.port)
            waits.send("echo one")
            slow.writer.write(token("wrong"))
            assert b"Authentication failed" in await slow.answer()
            assert await waits.answer() == b"one"
            await waits.leaves()
            late = await Client.dials(home.ports["SASL"])
            late.writer.write(HANDSHAKE)
            await late.answer()
            waits = await Client.dials(home.port)
            waits.send("echo two")
            monkeypatch.setattr(socket_server, "LOGIN_GRACE_S", 0.0)
            home.server._sweep_now()
            assert await waits.answer() == b"two"
            assert await late.sees_the_end()
            await asyncio.gather(*(client.leaves() for client in (slow, late, waits)))

    run(dialogue())


def test_who_logs_in_before_it_would_make_room_keeps_its_place(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket_server, "LOGIN_GRACE_S", 0.0)

    async def dialogue() -> None:
        async with harness(Address(), SASL, secure=secured, max_connections=1) as home:
            client = await Client.dials(home.ports["SASL"])
            client.writer.write(HANDSHAKE)
            await client.answer()
            client.writer.write(token("pencil"))
            await client.answer()
            next_one = await Client.dials(home.port)  # the listener still accepts
            next_one.send("echo two")
            assert await client.asks("echo one") == b"one"
            await client.leaves()
            assert await next_one.answer() == b"two"
            await next_one.leaves()

    run(dialogue())


def test_who_does_not_log_in_in_time_is_sent_away(run: Run) -> None:
    async def dialogue() -> None:
        async with harness(Address(), SASL, secure=secured, authentication_timeout_ms=40) as home:
            idle, other = await Client.dials(home.ports["SASL"]), await Client.dials(home.port)
            assert await idle.sees_the_end()
            assert await other.asks("echo two") == b"two"
            await asyncio.gather(idle.leaves(), other.leaves())

    run(dialogue())


def test_a_stop_waits_for_no_login(run: Run) -> None:
    async def dialogue() -> None:
        home = ServerHarness(Address(), SASL, secure=secured)
        client = await Client.dials(home.ports["SASL"])
        client.writer.write(HANDSHAKE)
        await client.answer()
        assert await home.server.drain(5) == 0
        assert await client.sees_the_end()
        await client.leaves()

    run(dialogue())


def test_an_error_in_the_configuration_of_logins_prevents_the_start(run: Run) -> None:
    def wrong(address: Listener) -> ListenerSecurity:
        raise InvalidConfigError([ConfigError("sasl.enabled.mechanisms", "X", "must be another")])

    async def dialogue() -> None:
        with pytest.raises(InvalidConfigError):
            ServerHarness(SASL, secure=wrong)

    run(dialogue())

"""Connections that nobody uses, or that hold up others, are closed; the clock is turned by hand."""

from __future__ import annotations

import pytest

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.network.connection_sweep import CLOSE_LINGER_S, STALL_BYTES, STALL_S, ConnectionSweep
from barnabas.broker.network.request_memory import RequestMemory
from barnabas.protocol.framing import size_prefix
from tests.broker.fakes import ManualTimer
from tests.broker.scripted import Client, ScriptedHandler, framed

MIB = 1024 * 1024
MAX_IDLE_S = 600


class SweepHarness:
    """Clients of one broker, and its sweep, which runs once a second."""

    def __init__(self, limit_bytes: int = 1 << 30, max_idle_ms: int = MAX_IDLE_S * 1000) -> None:
        self.timer = ManualTimer()
        self.memory = RequestMemory(limit_bytes)
        self.sweep = ConnectionSweep(max_idle_ms, self.memory, RateLimit(now=self.timer.time))

    def client(self) -> Client:
        client = Client(ScriptedHandler(), memory=self.memory, timer=self.timer)
        self.sweep.watch(client.connection, self.timer.time())
        return client

    def passes(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.timer.advance(1)
            self.sweep.sweep(self.timer.time())


@pytest.fixture
def harness() -> SweepHarness:
    return SweepHarness()


def test_an_idle_connection_is_closed_when_its_time_is_over(harness: SweepHarness) -> None:
    client = harness.client()
    harness.passes(MAX_IDLE_S - 1)
    assert not client.closed
    harness.passes(2)
    assert client.closed


def test_a_negative_time_is_no_limit() -> None:
    harness = SweepHarness(max_idle_ms=-1)
    client = harness.client()
    harness.passes(3 * MAX_IDLE_S)
    assert not client.closed


def test_a_request_starts_the_time_again(harness: SweepHarness) -> None:
    client = harness.client()
    harness.passes(MAX_IDLE_S - 10)
    client >> "echo here" << "here"
    harness.passes(MAX_IDLE_S - 10)
    assert not client.closed
    harness.passes(12)
    assert client.closed


def test_a_client_that_waits_for_us_is_not_idle(harness: SweepHarness) -> None:
    client = harness.client()
    client >> "wait one"
    harness.passes(2 * MAX_IDLE_S)
    assert not client.closed
    client.completes("one")
    client << "one"
    harness.passes(MAX_IDLE_S - 10)
    assert not client.closed
    harness.passes(12)
    assert client.closed


def test_a_client_that_reads_its_answer_slowly_is_not_idle(harness: SweepHarness) -> None:
    client = harness.client()
    client.transport.peer_window = 0
    client >> "big 100000"
    for _ in range(4):
        harness.passes(MAX_IDLE_S / 2)
        client.transport.read(10_000)
    assert not client.closed
    harness.passes(MAX_IDLE_S + 2)
    assert client.closed


def test_a_client_that_does_not_read_is_idle_whatever_it_waits_for(harness: SweepHarness) -> None:
    client = harness.client()
    client.transport.peer_window = 0
    client >> "big 100000, wait one"
    harness.passes(MAX_IDLE_S + 2)
    assert client.closed


def fills_the_window(client: Client, request: bytes) -> None:
    """One read takes the request and a part of the next one; ten bytes stay unread, and nothing reports them."""
    window = len(client.memory.window)
    first = framed(request)
    client.transport.unread += first + framed(b"none ".ljust(window + 10 - len(first) - 6, b"."))
    client.connection.readable()
    assert len(client.transport.unread) == 10


def test_what_a_read_has_left_is_read_though_the_loop_reports_nothing(harness: SweepHarness) -> None:
    """As libuv does after a reset."""
    client = harness.client()
    fills_the_window(client, b"echo one")
    harness.passes(1)
    assert len(client.transport.unread) == 10
    harness.passes(1)
    assert not client.transport.unread
    assert client.handler.handled == ["echo one", "none ..............."]


def test_what_a_read_has_left_is_not_read_of_a_client_that_does_not_read(harness: SweepHarness) -> None:
    client = harness.client()
    client.transport.peer_window = 0
    fills_the_window(client, b"big 100000")
    harness.passes(5)
    assert len(client.transport.unread) == 10


def test_a_closed_connection_has_a_while_to_send_its_last_answers(harness: SweepHarness) -> None:
    client = harness.client()
    client.transport.peer_window = 0
    client >> "big 100000, close"
    assert client.closed
    harness.passes(CLOSE_LINGER_S)
    assert not client.transport.closed
    harness.passes(2)
    assert client.transport.closed


def test_a_connection_that_has_ended_is_forgotten(harness: SweepHarness) -> None:
    client = harness.client()
    client.transport.disconnect()
    harness.sweep.forget(client.connection)
    harness.passes(MAX_IDLE_S + 2)
    assert client.transport.closed  # once: the transport would not have it twice


# ---- while memory is scarce


def begins(client: Client, size: int) -> None:
    client.send(size_prefix(MIB) + bytes(size))


def test_who_begins_a_large_request_and_falls_silent_may_do_so_while_there_is_memory(
    harness: SweepHarness,
) -> None:
    client = harness.client()
    begins(client, 100_000)
    harness.passes(10 * STALL_S)
    assert not client.closed


def test_when_memory_is_used_up_it_has_to_go_on(caplog: pytest.LogCaptureFixture) -> None:
    harness = SweepHarness(limit_bytes=150_000)
    silent, busy, waiting = (harness.client() for _ in range(3))
    begins(silent, 100_000)
    begins(busy, 60_000)
    begins(waiting, 60_000)
    assert harness.memory.exhausted
    assert [client.transport.reading for client in (silent, busy, waiting)] == [True, True, False]
    assert waiting.transport.unread
    for _ in range(int(STALL_S) + 2):
        busy.send(bytes(STALL_BYTES // 5))
        harness.passes(1)
    assert [client.closed for client in (silent, busy, waiting)] == [True, False, False]
    assert not waiting.transport.unread
    assert "memory for requests is used up" in caplog.text


def test_a_new_request_is_not_blamed_for_an_old_one() -> None:
    harness = SweepHarness(limit_bytes=100_000)
    client = harness.client()
    for _ in range(10):
        begins(client, 110_000)
        harness.passes(STALL_S - 1)
        client.send(bytes(MIB - 110_000))
        assert harness.memory.used_bytes == 0
        assert client.closed  # "bad" request: zeros are no verb
        client = harness.client()


def test_who_was_woken_and_does_nothing_does_not_keep_others_waiting() -> None:
    harness = SweepHarness(limit_bytes=100_000)
    holder = harness.client()
    begins(holder, 90_000)
    first, second = harness.client(), harness.client()
    begins(first, 30_000)
    begins(second, 30_000)
    assert harness.memory.waiting == 1
    third = harness.client()
    begins(third, 30_000)
    assert harness.memory.waiting == 2
    holder.transport.disconnect()
    harness.sweep.forget(holder.connection)
    harness.passes(1)
    harness.passes(1)
    assert harness.memory.waiting == 0


def test_a_muted_connection_is_idle() -> None:
    """A client that is gone, or that is throttled for a day, holds a connection no longer than an idle one."""
    client = Client()
    sweep = ConnectionSweep(60_000, client.memory, RateLimit(now=client.timer.time))
    client >> "throttle 86400000 one, echo two" << "one"
    sweep.watch(client.connection, 0)
    sweep.sweep(1)
    sweep.sweep(61)
    assert client.closed


def test_the_longest_unused_connections_come_first() -> None:
    clients = [Client() for _ in range(3)]
    sweep = ConnectionSweep(60_000, clients[0].memory, RateLimit())
    for now, client in enumerate(clients):
        sweep.watch(client.connection, now)
    sweep.sweep(5)
    sweep.sweep(6)
    clients[0] >> "echo one" << "one"
    order = [
        clients.index(client)
        for connection in sweep.longest_unused([c.connection for c in clients])
        for client in clients
        if client.connection is connection
    ]
    assert order == [1, 2, 0]

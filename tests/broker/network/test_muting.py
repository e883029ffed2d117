"""Mutes: dialogues with a connection whose client is throttled."""

from __future__ import annotations

import pytest

from barnabas.broker.logging.setup import RateLimit
from barnabas.broker.network.connection_sweep import ConnectionSweep
from barnabas.broker.network.muting import Mute
from tests.broker.fakes import ManualTimer
from tests.broker.scripted import Client, FakeMeter, framed


@pytest.fixture
def client() -> Client:
    return Client()


def test_a_throttled_response_is_sent_at_once_and_nothing_is_read_until_the_time_is_over(
    client: Client,
) -> None:
    client >> "throttle 500 one" << "one"
    assert not client.is_read()
    client >> "echo two"
    client.timer.advance(0.499)
    client << ""
    client.timer.advance(0.001)
    assert client.is_read()
    client << "two"
    assert client.handler.meter.unmuted_count == 1


def test_requests_behind_a_throttled_one_wait(client: Client) -> None:
    client >> "echo one, throttle 500 two, throttle 300 three, echo four" << "one, two"
    assert client.handler.handled == ["echo one", "throttle 500 two"]
    client.timer.advance(0.5)
    client << "three"
    client.timer.advance(0.299)
    client << ""
    client.timer.advance(0.001)
    client << "four"
    assert client.is_read()


def test_a_pipeline_is_throttled_request_by_request(client: Client) -> None:
    """The escape: a hundred requests that are all handled before the first one's throttle time."""
    client.send(b"".join(framed(b"throttle 1000 %d" % number) for number in range(100)))
    for number in range(100):
        client << str(number)
        assert len(client.handler.handled) == number + 1
        client.timer.advance(1)
    assert client.is_read()


def test_a_request_without_a_response_mutes_too(client: Client) -> None:
    client >> "silence 500, echo one" << ""
    client.timer.advance(0.5)
    client << "one"


def test_requests_of_a_limited_client_do_not_overlap(client: Client) -> None:
    client >> "limited one, echo two, wait three" << ""
    assert client.handler.handled == ["limited one"]
    client.handler.complete_limited("one", mute_ms=700)
    client << "one"
    client.timer.advance(0.7)
    client << "two"
    client.completes("three")
    client << "three"


def test_a_client_becomes_limited_while_its_requests_overlap(client: Client) -> None:
    client >> "wait one, limited two, wait three" << ""
    assert client.handler.handled == ["wait one", "limited two"]
    client.handler.complete_limited("two", mute_ms=100)
    client << ""
    client >> "echo four"
    client.completes("one")
    client << "one, two"
    client.timer.advance(0.1)
    assert client.handler.handled[2:] == ["wait three"]
    client.completes("three")
    client << "three, four"


def test_sending_is_charged(client: Client) -> None:
    client >> "throttle 10 one" << "one"
    assert client.handler.meter.network_s == 0.25
    client.timer.advance(0.01)
    client >> "echo two" << "two"
    assert client.handler.meter.network_s == 0.25


def test_a_connection_that_ends_is_no_longer_muted(client: Client) -> None:
    client >> "throttle 500 one" << "one"
    client.connection.abort()
    assert client.handler.meter.unmuted_count == 1
    client.timer.advance(1)
    assert client.handler.meter.unmuted_count == 1


def test_a_connection_that_ends_before_its_mute_begins(client: Client) -> None:
    client >> "wait zero, limited one" << ""
    client.handler.complete_limited("one", mute_ms=100)
    client.connection.abort()
    assert client.handler.meter.unmuted_count == 1


def test_draining_does_not_wait_for_the_end_of_a_mute(client: Client) -> None:
    client >> "throttle 500 one, echo two" << "one"
    client.connection.drain()
    assert client.closed
    assert client.handler.handled == ["throttle 500 one"]


def test_a_muted_connection_is_idle() -> None:
    """A client that is gone, or that is throttled for a day, holds a connection no longer than an idle one."""
    client = Client()
    sweep = ConnectionSweep(60_000, client.memory, RateLimit(now=client.timer.time))
    client >> "throttle 86400000 one, echo two" << "one"
    sweep.watch(client.connection, 0)
    sweep.sweep(1)
    sweep.sweep(61)
    assert client.closed


def test_many_mutes_share_a_timer() -> None:
    first = Client(timer=ManualTimer())
    clients = [first, *(Client(beside=first) for _ in range(50))]
    for client in clients:
        client >> "throttle 500 one" << "one"
    assert first.timer.scheduled == 1
    first.timer.advance(0.5)
    assert all(client.is_read() for client in clients)


def test_a_mute_ends_once() -> None:
    meter, over = FakeMeter(), list[bool]()
    mute = Mute(meter, lambda: over.append(True))
    mute.end()
    mute.expire()
    assert (over, meter.unmuted_count) == ([], 1)

"""NodeClient: connecting, requests in order, timeouts, backoff and hostile peers."""

from __future__ import annotations

import asyncio
import logging
import random
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.node_client import client
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeClientError, NodeUnavailable, UnsupportedVersion
from barnabas.broker.node_client.client import NodeClient, NodeClientSettings
from barnabas.broker.node_client.opening import opener
from barnabas.broker.pending import Pending
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from barnabas.protocol.schema import Message
from tests.broker.fakes import ManualTimer
from tests.broker.node_client.scripted_node import ScriptedNode, all_versions, parse_requests, response_frame

ADDRESS = NodeAddress("n2.test", 9092)
SETTINGS = NodeClientSettings("node-1")


class Link:
    """A client, its peer and the clock."""

    def __init__(self, settings: NodeClientSettings = SETTINGS) -> None:
        self.timer = ManualTimer()
        self.node = ScriptedNode()
        self.client = NodeClient(ADDRESS, settings, self.timer, self.node.open, jitter=lambda: 0.5)
        self.results: list[Message | NodeClientError] = []

    def send(self, name: str = "", **options: int) -> Pending[Message | NodeClientError]:
        pending = self.client.send(HeartbeatRequest(group_id=name), **options)
        pending.add_done_callback(self.results.append)
        self.timer.advance(0)
        return pending

    def send_again(self, _: object) -> None:
        """A callback that sends another request."""
        self.send("again")

    def is_connected(self) -> bool:
        return self.client.is_connected

    def names(self) -> list[str]:
        """The groups in the requests that the node got."""
        return [request.group_id for _, request in self.node.requests()]  # type: ignore[attr-defined]

    def reasons(self) -> list[str]:
        """The errors of the requests that have completed, all of them NodeUnavailable."""
        assert all(isinstance(result, NodeUnavailable) for result in self.results)
        return [result.reason for result in self.results]  # type: ignore[union-attr]


def connected(settings: NodeClientSettings = SETTINGS) -> Link:
    """A link whose first request was answered."""
    link = Link(settings)
    link.send("first")
    link.node.negotiate()
    ((header, _),) = link.node.requests()
    link.node.respond(header, HeartbeatResponse())
    assert link.results == [HeartbeatResponse()]
    link.results.clear()
    return link


def test_the_first_request_connects() -> None:
    link = Link()
    assert link.node.opened == []
    link.send("a")
    assert link.node.opened == [ADDRESS]
    assert not link.is_connected()
    link.node.negotiate()
    assert link.is_connected()
    assert link.client.served(ApiKey.HEARTBEAT) is not None
    ((header, request),) = link.node.requests()
    assert request == HeartbeatRequest(group_id="a")
    assert link.results == []
    link.node.respond(header, HeartbeatResponse(throttle_time_ms=7))
    assert link.results == [HeartbeatResponse(throttle_time_ms=7)]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_so_many_requests_are_in_flight_and_the_others_follow_in_order(limit: int) -> None:
    link = connected(SETTINGS._replace(max_in_flight=limit))
    for name in "abcd":
        link.send(name)
    sent = link.node.requests()
    assert [request.group_id for _, request in sent] == list("abcd")[:limit]  # type: ignore[attr-defined]
    link.node.respond(sent[0][0], HeartbeatResponse())
    assert link.names() == list("abcd")[limit : limit + 1]


def test_a_refused_connection_fails_what_waits_for_it() -> None:
    link = Link()
    link.send("a")
    link.send("b")
    link.node.refuse()
    assert link.reasons() == ["connection refused"] * 2


def test_the_next_attempt_waits_twice_as_long_after_each_failure_up_to_a_maximum() -> None:
    link = Link(SETTINGS._replace(reconnect_backoff_ms=50, reconnect_backoff_max_ms=150))
    waited = []
    for _ in range(4):
        begun, count = link.timer.now, len(link.node.opened)
        link.send()
        while len(link.node.opened) == count:
            link.timer.advance(0.001)
        waited.append(round(link.timer.now - begun, 2))
        link.node.refuse()
    assert waited == [0, 0.05, 0.1, 0.15]
    link.timer.advance(1)
    link.send()
    link.node.negotiate()
    link.node.hang_up()
    link.send()
    assert len(link.node.opened) == 5
    link.timer.advance(0.051)
    assert len(link.node.opened) == 6, "a success ends the growth"


def test_of_failures_in_a_row_the_first_is_logged_for_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    link = Link()
    with caplog.at_level(logging.DEBUG, "barnabas.node_client"):
        for _ in range(3):
            link.send()
            link.timer.advance(2)
            link.node.refuse()
        link.send()
        link.timer.advance(2)
        link.node.negotiate()
        link.node.hang_up()
        link.send()
        link.timer.advance(2)
        link.node.refuse()
    failures = [
        logging.getLevelName(one.levelno) for one in caplog.records if one.message == "connection refused"
    ]
    assert failures == ["INFO", "DEBUG", "DEBUG", "INFO"]
    (lost,) = (one for one in caplog.records if one.message.endswith("closed the connection"))
    assert lost.levelno == logging.DEBUG


@pytest.mark.parametrize("size", [65_536, -1], ids=["configured", "of the system"])
def test_a_connection_is_opened_with_the_configured_receive_buffer(size: int) -> None:
    link = Link(SETTINGS._replace(receive_buffer_bytes=size))
    link.send("a")
    link.node.negotiate()
    assert link.node.receive_buffer_bytes == size
    assert link.names() == ["a"]


@pytest.mark.parametrize("option", [12, None], ids=["on Linux", "elsewhere"])
def test_the_pieces_of_a_large_response_are_acknowledged_at_once(
    option: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_TCP_QUICKACK", option)
    link = connected()
    small = ListGroupsResponse()
    large = ListGroupsResponse(groups=[ListGroupsResponse.ListedGroup(group_id="g" * 30_000)] * 9)
    for response in (small, large, small):
        link.client.send(ListGroupsRequest()).add_done_callback(link.results.append)
        ((header, _),) = link.node.requests()
        link.node.respond(header, response, pieces=100_000)
    assert link.results == [small, large, small]
    pieces = (
        [] if option is None else [(socket.IPPROTO_TCP, option, 1)] * 3
    )  # the first is as large as the buffer for small ones, the last one completes the response
    assert link.node.socket_options == pieces


def test_a_connection_that_takes_too_long_is_given_up() -> None:
    link = Link(SETTINGS._replace(setup_timeout_ms=1000, setup_timeout_max_ms=1500))
    link.send()
    link.timer.advance(0.999)
    assert link.results == []
    link.timer.advance(0.002)
    assert link.reasons() == ["no connection to n2.test:9092 within 1000 ms"]
    assert link.node.cancelled == 1
    link.send()
    link.timer.advance(0.1)
    link.node.accept()  # but it never answers ApiVersions
    link.timer.advance(1.5)
    assert link.reasons()[1] == "no connection to n2.test:9092 within 1500 ms"
    assert link.node.is_aborted


def test_a_lost_connection_fails_what_is_in_flight_and_sends_the_rest_on_the_next() -> None:
    link = connected()
    link.send("a")
    link.send("b")
    assert link.names() == ["a"]
    link.node.hang_up()
    assert link.reasons() == ["n2.test:9092 closed the connection"]
    link.timer.advance(0.051)
    link.node.negotiate()
    assert link.names() == ["b"]


def test_a_request_without_a_response_ends_the_connection_at_its_timeout() -> None:
    link = connected()
    link.send("a", timeout_ms=200)
    link.send("b", timeout_ms=5000)
    link.timer.advance(0.2)
    assert link.reasons() == ["n2.test:9092 did not respond to HeartbeatRequest in 200 ms"]
    assert link.node.is_aborted
    link.timer.advance(0.051)
    link.node.negotiate()
    assert link.names() == ["", "b"][1:]


def test_a_request_that_waits_too_long_for_its_turn_leaves_the_connection_alone() -> None:
    link = connected()
    link.send("a")
    link.send("b", timeout_ms=100)
    sent = link.node.requests()
    link.timer.advance(0.1)
    assert link.reasons() == ["n2.test:9092 did not respond to HeartbeatRequest in 100 ms"]
    assert link.is_connected()
    link.node.respond(sent[0][0], HeartbeatResponse())
    assert link.results[1:] == [HeartbeatResponse()]
    assert link.names() == []


def test_requests_have_the_default_timeout() -> None:
    link = connected(SETTINGS._replace(request_timeout_ms=700))
    link.send("a")
    link.timer.advance(0.699)
    assert link.results == []
    link.timer.advance(0.002)
    assert len(link.results) == 1


def test_a_version_that_the_node_lacks_is_an_error_of_its_request_alone() -> None:
    link = connected()
    link.send("a", version=99)
    (result,) = link.results
    assert isinstance(result, UnsupportedVersion)
    link.send("b")
    assert link.names() == ["b"]


def test_a_closed_client_completes_everything_and_sends_nothing_more() -> None:
    link = connected()
    link.send("a")
    link.send("b")
    link.client.close()
    assert link.node.is_aborted
    link.send("c")
    assert link.reasons() == ["the connection to n2.test:9092 was closed"] * 3
    link.timer.advance(100)
    assert len(link.node.opened) == 1
    assert link.timer.scheduled == 0


def test_a_client_closed_while_it_connects_cancels_that() -> None:
    link = Link()
    link.send("a")
    link.client.close()
    assert link.node.cancelled == 1
    link.node.accept()  # the socket opened all the same
    assert link.node.is_aborted


def test_what_a_callback_sends_goes_with_the_next_connection() -> None:
    link = connected()
    link.client.send(HeartbeatRequest(group_id="a")).add_done_callback(link.send_again)
    link.node.hang_up()
    assert link.results == []
    link.timer.advance(0.051)
    link.node.negotiate()
    assert link.names() == ["again"]


def test_what_a_callback_sends_after_a_failed_attempt_waits_for_the_next() -> None:
    link = Link()
    link.client.send(HeartbeatRequest(group_id="a")).add_done_callback(link.send_again)
    link.timer.advance(0)
    link.node.refuse()
    assert link.results == []
    link.timer.advance(0.101)
    link.node.negotiate()
    assert link.names() == ["again"]


def test_an_idle_connection_is_closed_and_opened_again_when_it_is_needed() -> None:
    link = connected(SETTINGS._replace(idle_ms=1000))
    link.timer.advance(0.9)
    assert link.is_connected()
    link.timer.advance(0.5)
    assert not link.is_connected()
    assert link.node.is_aborted
    assert link.results == []
    link.send("a")
    link.node.negotiate()
    assert link.names() == ["a"]


def test_a_connection_with_a_request_in_flight_is_not_idle() -> None:
    link = connected(SETTINGS._replace(idle_ms=1000, request_timeout_ms=60_000))
    link.send("a")
    link.timer.advance(10)
    assert link.is_connected()


@pytest.mark.parametrize(
    "garbage",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"\xff\xff\xff\xff",
        b"\0\0\0\0",
        b"\0\0\0\4\0\0\0\1",
        b"\x7f\xff\xff\xff",
    ],
    ids=["http", "negative", "empty", "short", "huge"],
)
@pytest.mark.parametrize("negotiated", [True, False])
def test_a_peer_that_speaks_something_else_is_disconnected(garbage: bytes, negotiated: bool) -> None:
    link = connected() if negotiated else Link()
    link.send("a")
    if not negotiated:
        link.node.accept()
    link.node.send(garbage)
    (reason,) = link.reasons()
    assert reason.startswith("n2.test:9092 does not speak Kafka's protocol as expected")
    assert link.node.is_aborted


def test_nothing_is_taken_from_a_connection_after_its_end() -> None:
    link = connected(SETTINGS._replace(max_in_flight=2))
    link.send("a")
    link.send("b")
    first, second = (header for header, _ in link.node.requests())
    wrong = response_frame(ApiKey.HEARTBEAT, 4, second.correlation_id, HeartbeatResponse())
    right = response_frame(ApiKey.HEARTBEAT, 4, first.correlation_id, HeartbeatResponse())
    link.node.send(wrong + right)
    assert len(link.reasons()) == 2


@given(st.randoms(use_true_random=False), st.lists(st.integers(0, 60_000), min_size=1, max_size=5))
def test_responses_arrive_whole_however_the_stream_is_cut(rng: random.Random, sizes: list[int]) -> None:
    link = connected(SETTINGS._replace(max_in_flight=len(sizes)))
    for _ in sizes:
        link.client.send(FetchRequest(), version=12).add_done_callback(link.results.append)
    stream = b""
    for (header, _), size in zip(link.node.requests(), sizes, strict=True):
        topic = FetchResponse.FetchableTopicResponse(
            topic="t", partitions=[FetchResponse.PartitionData(records=rng.randbytes(size))]
        )
        stream += response_frame(ApiKey.FETCH, 12, header.correlation_id, FetchResponse(responses=[topic]))
    while stream:
        cut = rng.choice((1, 3, 4, 5, 100, 20_000, 70_000))
        link.node.send(stream[:cut])
        stream = stream[cut:]
    found = [
        len(result.responses[0].partitions[0].records or b"")  # type: ignore[arg-type]
        for result in link.results
        if isinstance(result, FetchResponse)
    ]
    assert found == sizes


async def test_over_a_real_socket() -> None:
    """A server that answers ApiVersions and Heartbeats, then one that is gone."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while prefix := await reader.read(4):
            frame = await reader.readexactly(int.from_bytes(prefix))
            ((header, _),) = parse_requests(prefix + frame)
            is_first = header.request_api_key == ApiKey.API_VERSIONS
            response = all_versions() if is_first else HeartbeatResponse(throttle_time_ms=5)
            writer.write(
                response_frame(
                    header.request_api_key, header.request_api_version, header.correlation_id, response
                )
            )
        writer.close()
        await writer.wait_closed()
        ended.set()

    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    client = NodeClient(NodeAddress("127.0.0.1", port), SETTINGS, loop, opener(loop))

    async def ask() -> Message | NodeClientError:
        answer: asyncio.Future[Message | NodeClientError] = loop.create_future()
        client.send(HeartbeatRequest(group_id="g")).add_done_callback(answer.set_result)
        return await asyncio.wait_for(answer, 20)

    assert await ask() == HeartbeatResponse(throttle_time_ms=5)
    assert await ask() == HeartbeatResponse(throttle_time_ms=5)
    server.close()
    client.close()
    assert isinstance(await ask(), NodeUnavailable)
    await asyncio.wait_for(ended.wait(), 20)
    gone = NodeClient(NodeAddress("127.0.0.1", port), SETTINGS, loop, opener(loop))
    client = gone
    result = await ask()
    assert isinstance(result, NodeUnavailable)
    assert f"127.0.0.1:{port}" in result.reason
    client.close()

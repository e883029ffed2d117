"""A cluster's id, from whichever of its controllers answers."""

from __future__ import annotations

import asyncio
import logging

import pytest

from barnabas.broker.membership import cluster_id
from barnabas.broker.membership.cluster_id import find_cluster_id
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeClientError, NodeUnavailable, UnsupportedVersion
from barnabas.broker.node_client.client import NodeClient, NodeClientSettings
from barnabas.broker.node_client.opening import opener
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.groups import HeartbeatResponse
from barnabas.protocol.messages.metadata import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.schema import Message
from tests.broker.fake_channels import FakeChannel
from tests.broker.startup.fake_controller import CLUSTER_ID, controlling, until

ONE, TWO = NodeAddress("c1.test", 9093), NodeAddress("c2.test", 9093)
FOUND = DescribeClusterResponse(endpoint_type=2, cluster_id="the id")


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next server is asked at once."""
    monkeypatch.setattr(cluster_id, "RETRY_S", 0)


class Search:
    """A search; the test plays the controllers."""

    def __init__(self, *servers: NodeAddress) -> None:
        self.channels: dict[NodeAddress, FakeChannel] = {}
        self.servers: list[NodeAddress] = []
        """Those that were answered for, in order."""
        self.task = asyncio.ensure_future(find_cluster_id(servers, self._connect, timeout_ms=700))

    def _connect(self, server: NodeAddress) -> FakeChannel:
        self.channels[server] = FakeChannel()
        return self.channels[server]

    async def channel(self) -> FakeChannel:
        """That of the request under way, as soon as there is one."""
        await until(lambda: any(channel.under_way for channel in self.channels.values()))
        ((server, channel),) = [at for at in self.channels.items() if at[1].under_way]
        self.servers.append(server)
        return channel

    async def answer(self, *results: Message | NodeClientError) -> None:
        for result in results:
            (await self.channel()).respond(result)


async def test_a_controller_is_asked_about_its_own_kind_and_within_the_timeout() -> None:
    search = Search(ONE, TWO)
    channel = await search.channel()
    ((request, version, timeout_ms, _),) = channel.sent
    assert request == DescribeClusterRequest(endpoint_type=2)
    assert (version, timeout_ms) == (None, 700)
    channel.respond(FOUND)
    assert await search.task == "the id"
    assert search.servers == [ONE]
    assert channel.is_closed


async def test_servers_are_asked_in_turn_until_one_answers() -> None:
    search = Search(ONE, TWO)
    await search.answer(
        NodeUnavailable("c1 is away"),
        UnsupportedVersion("c2 is too old"),
        HeartbeatResponse(),
        DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE, cluster_id="not this"),
        FOUND,
    )
    assert await search.task == "the id"
    assert search.servers == [ONE, TWO, ONE, TWO, ONE]
    assert all(channel.is_closed for channel in search.channels.values())


async def test_a_reason_is_logged_when_it_is_new(caplog: pytest.LogCaptureFixture) -> None:
    search = Search(ONE)
    wrong = DescribeClusterResponse(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    with caplog.at_level(logging.INFO, "barnabas.membership"):
        await search.answer(*[NodeUnavailable("away")] * 3, wrong, HeartbeatResponse(), FOUND)
        await search.task
    assert caplog.messages == [
        "the cluster's id is not known yet: away",
        "the cluster's id is not known yet: c1.test:9093 answers with MISMATCHED_ENDPOINT_TYPE",
        "the cluster's id is not known yet: an unexpected response of c1.test:9093",
        "the cluster of the controller at c1.test:9093 has the id the id",
    ]


async def test_without_a_server_there_is_nothing_to_ask() -> None:
    with pytest.raises(ValueError, match="no server"):
        await Search().task


async def test_a_search_that_is_given_up_closes_its_connection() -> None:
    search = Search(ONE)
    channel = await search.channel()
    search.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await search.task
    assert channel.is_closed
    channel.respond(NodeUnavailable("the connection was closed"))
    assert search.servers == [ONE]


async def test_over_a_real_socket() -> None:
    loop = asyncio.get_running_loop()
    settings = NodeClientSettings("test", reconnect_backoff_ms=1)
    async with controlling() as gone:
        nobody = gone.address
    async with controlling() as controller:
        found = await find_cluster_id(
            [nobody, controller.address],
            lambda server: NodeClient(server, settings, loop, opener(loop)),
            timeout_ms=10_000,
        )
        assert found == CLUSTER_ID
        assert controller.requests == [DescribeClusterRequest(endpoint_type=2)]

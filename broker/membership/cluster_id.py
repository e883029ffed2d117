"""find_cluster_id: asks the controllers of a cluster for its id, for a broker whose directories are new.

Apache Kafka has `kafka-storage.sh format` write the id before the first start; a broker that finds it out needs no such
step. DescribeCluster (KIP-700) answers on the controllers' listener since KIP-919.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle
from typing import Final

from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeChannel, NodeClientError
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.metadata import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.schema import Message

logger = logging.getLogger("barnabas.membership")

CONTROLLERS: Final = 2
"""The endpoint type of a request to a controller."""
RETRY_S: Final = 0.5


async def find_cluster_id(
    servers: Sequence[NodeAddress], connect: Callable[[NodeAddress], NodeChannel], *, timeout_ms: int
) -> str:
    """The cluster's id, from whichever server answers first; asks them in turn until one does.

    `timeout_ms` is how long each may take.
    """
    channels = {server: connect(server) for server in servers}
    try:
        return await _asked_in_turn(channels, timeout_ms)
    finally:
        for channel in channels.values():
            channel.close()


async def _asked_in_turn(channels: Mapping[NodeAddress, NodeChannel], timeout_ms: int) -> str:
    said = set[str]()
    for server, channel in cycle(channels.items()):
        answer = await _ask(channel, timeout_ms)
        if isinstance(answer, DescribeClusterResponse) and not answer.error_code:
            logger.info("the cluster of the controller at %s has the id %s", server, answer.cluster_id)
            return answer.cluster_id
        reason = _reason(server, answer)
        if reason not in said:
            logger.warning("the cluster's id is not known yet: %s", reason)
            said.add(reason)
        await asyncio.sleep(RETRY_S)
    raise ValueError("there is no server to ask")


def _reason(server: NodeAddress, answer: Message | NodeClientError) -> str:
    if not isinstance(answer, DescribeClusterResponse):
        return str(getattr(answer, "reason", f"an unexpected response of {server}"))
    try:
        return f"{server} answers with {ErrorCode(answer.error_code).name}"
    except ValueError:  # one of a later Kafka
        return f"{server} answers with error {answer.error_code}"


async def _ask(channel: NodeChannel, timeout_ms: int) -> Message | NodeClientError:
    answered: asyncio.Future[Message | NodeClientError] = asyncio.get_running_loop().create_future()

    def answer(result: Message | NodeClientError) -> None:
        if not answered.done():  # the start may have been given up
            answered.set_result(result)

    request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    channel.send(request, timeout_ms=timeout_ms).add_done_callback(answer)
    return await answered

"""Waits between two steps for changes that brokers complete after their response.

Apache Kafka answers administrative requests when the controller has committed the change; its broker publishes it
later, first the metadata, then to replicas, coordinators, the authorizer and so on, one change after the other. The
barrier sets a quota of a user that does not exist, and waits until the broker shows it, twice: the second is written
when the first is visible, and visible when every change up to the first is published everywhere. One barrier serves all
sequences that wait when it begins. Barnabas answers when the change is published, and needs no barrier.

A transaction has ended when its state is no longer prepared: then its markers are written.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from barnabas.protocol.messages.acls import CreateAclsRequest, DeleteAclsRequest
from barnabas.protocol.messages.cluster import UpdateFeaturesRequest
from barnabas.protocol.messages.configs import AlterConfigsRequest, IncrementalAlterConfigsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.producers import DescribeTransactionsRequest
from barnabas.protocol.messages.quotas import AlterClientQuotasRequest, DescribeClientQuotasRequest
from barnabas.protocol.messages.security import AlterUserScramCredentialsRequest
from barnabas.protocol.messages.topics import (
    AlterPartitionReassignmentsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
)
from barnabas.protocol.schema import Message
from tests.conformance.differential.connections import Connection

PUBLISHED_LATER: Final = (
    AlterPartitionReassignmentsRequest,
    AlterClientQuotasRequest,
    AlterConfigsRequest,
    AlterUserScramCredentialsRequest,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    UpdateFeaturesRequest,
)
"""Requests whose changes Kafka publishes after its response."""

POLL_S: Final = 0.01
PATIENCE_S: Final = 30.0
_USER: Final = "barrier-of-the-tester"
_KEY: Final = "producer_byte_rate"


class Barrier:
    """Waits until one broker has published the changes that it has acknowledged."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._marks = 1_000_000.0
        self._waiting: list[asyncio.Future[None]] = []
        self._work: asyncio.Task[None] | None = None

    async def passed(self) -> None:
        """Returns when all changes acknowledged before the call are published."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._serve())
        await future

    async def _serve(self) -> None:
        while self._waiting:
            waiting, self._waiting = self._waiting, []
            try:
                await self._mark()
                await self._mark()
            except (TimeoutError, OSError, AssertionError) as error:
                for future in waiting:
                    if not future.done():
                        future.set_exception(error)
            for future in waiting:
                if not future.done():
                    future.set_result(None)

    async def _mark(self) -> None:
        self._marks += 1.0
        entity = AlterClientQuotasRequest.EntityData(entity_type="user", entity_name=_USER)
        value = AlterClientQuotasRequest.OpData(key=_KEY, value=self._marks, remove=False)
        entry = AlterClientQuotasRequest.EntryData(entity=[entity], ops=[value])
        async with asyncio.timeout(PATIENCE_S):
            await (await self._connection.send(AlterClientQuotasRequest(entries=[entry]), 1))
        component = DescribeClientQuotasRequest.ComponentData(entity_type="user", match_type=0, match=_USER)
        request = DescribeClientQuotasRequest(components=[component], strict=True)
        await until(self._connection, request, 1, self._shows_mark)

    def _shows_mark(self, answer: Any) -> bool:
        return any(value.value >= self._marks for entry in answer.entries or [] for value in entry.values)


async def until(connection: Connection, request: Message, version: int, is_good: Any) -> Any:
    """Repeats a request until the response is good, and returns that. Raises TimeoutError."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            answer = await (await connection.send(request, version))
            assert not isinstance(answer, str), answer
            if is_good(answer):
                return answer
            await asyncio.sleep(POLL_S)


def metadata_request(names: list[str]) -> tuple[Message, int]:
    """A request for topics with their ids, and its version."""
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12


async def transaction_ended(connection: Connection, transactional_id: str) -> None:
    """Returns when all markers of that id are written."""
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    await until(connection, request, 0, _has_no_markers_left)


def _has_no_markers_left(answer: Any) -> bool:
    return not any(state.transaction_state.startswith("Prepare") for state in answer.transaction_states)

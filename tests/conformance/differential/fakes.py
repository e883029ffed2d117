"""Brokers in memory, which implement a few requests and answer all others with an empty response.

With them the tester's own tests check the differences that it finds in a pair of which one has a fault.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import Final

from barnabas.protocol.api_keys import response_type
from barnabas.protocol.codec import decode, encode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse
from barnabas.protocol.messages.offsets import DeleteRecordsRequest
from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from barnabas.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from barnabas.protocol.schema import Message
from tests.conformance.differential.connections import Answer
from tests.conformance.differential.world import Versions

VERSIONS: Final[Versions] = {
    key: (high, high)
    for key, high in {
        0: 12, 1: 12, 2: 11, 3: 12, 8: 9, 9: 9, 10: 6, 11: 9, 12: 4, 13: 5, 14: 5, 15: 6, 16: 5, 19: 7,
        20: 5, 21: 2, 22: 5, 23: 4, 24: 3, 25: 4, 26: 5, 27: 2, 28: 5, 29: 3, 30: 3, 31: 3, 32: 4, 33: 2,
        37: 3, 42: 2, 43: 2, 44: 1, 45: 1, 46: 0, 47: 0, 48: 1, 49: 1, 50: 0, 51: 0, 57: 2, 60: 2, 61: 0, 65: 0, 66: 2,
        68: 1, 69: 1, 74: 1, 75: 0,
    }.items()
}  # fmt: skip


class FakeBroker:
    """A broker with topics that have ids, and partitions that count produced batches."""

    def __init__(self) -> None:
        self.ids: dict[str, bytes] = {}
        self.ends: dict[tuple[str, int], int] = {}

    def answer(self, request: Message, version: int) -> Message:
        """The response, which is ready at once."""
        assert request.api_key is not None
        if isinstance(request, CreateTopicsRequest):
            return self.create(request)
        if isinstance(request, MetadataRequest):
            return self.describe(request)
        if isinstance(request, ProduceRequest):
            return self.produce(request)
        return response_type(request.api_key)()

    def create(self, request: CreateTopicsRequest) -> Message:
        results = []
        for topic in request.topics:
            new = topic.name not in self.ids
            topic_id = self.ids.setdefault(topic.name, uuid.uuid4().bytes)
            result = CreateTopicsResponse.CreatableTopicResult(
                name=topic.name, topic_id=topic_id, error_code=0 if new else 36
            )
            results.append(result)
        return CreateTopicsResponse(topics=results)

    def describe(self, request: MetadataRequest) -> Message:
        return MetadataResponse(
            topics=[
                MetadataResponse.MetadataResponseTopic(name=topic.name, topic_id=self.ids[topic.name])
                for topic in request.topics or []
                if topic.name in self.ids
            ]
        )

    def produce(self, request: ProduceRequest) -> Message:
        return ProduceResponse(
            responses=[
                ProduceResponse.TopicProduceResponse(
                    name=topic.name,
                    partition_responses=[
                        ProduceResponse.PartitionProduceResponse(
                            index=part.index, base_offset=self.append(topic.name, part.index)
                        )
                        for part in topic.partition_data
                    ],
                )
                for topic in request.topic_data
            ]
        )

    def append(self, name: str, partition: int) -> int:
        offset = self.ends.get((name, partition), 0)
        self.ends[name, partition] = offset + 1
        return offset


class FaultyBroker(FakeBroker):
    """Returns wrong offsets in a partition whose records were deleted before."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: set[tuple[str, int]] = set()

    def answer(self, request: Message, version: int) -> Message:
        if isinstance(request, DeleteRecordsRequest):
            self.deleted |= {(t.name, p.partition_index) for t in request.topics for p in t.partitions}
        return super().answer(request, version)

    def append(self, name: str, partition: int) -> int:
        return super().append(name, partition) + ((name, partition) in self.deleted)


class FakeEndpoint:
    """The endpoint of a fake broker, which never answers requests that `silent_to` matches.

    With `in_order` it does not answer requests on the same connection after such a request either.
    """

    def __init__(
        self,
        broker: FakeBroker,
        silent_to: Callable[[Message], bool] = lambda _: False,
        *,
        in_order: bool = False,
    ) -> None:
        self.broker = broker
        self.silent_to = silent_to
        self.in_order = in_order
        self.received: list[Message] = []

    def connect(self) -> FakeConnection:
        return FakeConnection(self)


class FakeConnection:
    """A connection to a fake broker, which encodes and decodes messages as a real one."""

    def __init__(self, endpoint: FakeEndpoint) -> None:
        self._endpoint = endpoint
        self._is_silent = False

    async def send(self, request: Message, version: int) -> asyncio.Future[Answer]:
        assert request.api_key is not None
        self._endpoint.received.append(request)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        decoded = decode(type(request), version, encode(request, version))
        self._is_silent = self._endpoint.silent_to(decoded) or (self._endpoint.in_order and self._is_silent)
        if not self._is_silent:
            answer = self._endpoint.broker.answer(decoded, version)
            future.set_result(decode(type(answer), version, encode(answer, version)))
        return future

    def close(self) -> None:
        pass

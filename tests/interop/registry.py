"""A small schema registry: its state is the last value of every key of a compacted topic.

It is built like the registries in use. At the start it reads the topic to its end, by a consumer without a group; a
write is acknowledged when it has been read back; only the primary writes, and a group with its own protocol type elects
the primary: the leader of the group chooses the member whose name sorts first.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Self

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.client import AIOKafkaClient, ConnectionGroup, CoordinationType
from aiokafka.errors import (
    IllegalGenerationError,
    KafkaError,
    MemberIdRequired,
    RebalanceInProgressError,
    UnknownMemberIdError,
    for_code,
)
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, SyncGroupRequest

PROTOCOL_TYPE = "registry"
PROTOCOL = "v0"
REBALANCE_MS = 5000
INTERVAL_S = 0.1
FETCH_WAIT_MS = 50


class NotPrimaryError(Exception):
    """Another registry is the primary."""


class Election:
    """A member of the group that elects the primary."""

    def __init__(self, bootstrap: str, group: str, name: str, session_ms: int) -> None:
        self.group = group
        self.session_ms = session_ms
        self.name = name
        self.primary: str | None = None
        self.generation = -1
        self._member = ""
        self._is_member = False
        self._changed = asyncio.Condition()
        self._client: Any = AIOKafkaClient(bootstrap_servers=bootstrap, client_id=name)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Joins the election."""
        await self._client.bootstrap()
        self._task = asyncio.create_task(self._run())

    async def wait_for(self, primary: str) -> None:
        """Waits until `primary` is the primary."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.primary == primary)

    async def vanish(self) -> None:
        """Stops all requests, without leaving."""
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        await self._client.close()

    async def ask(self, request: Any) -> Any:
        """Returns the coordinator's response. Raises the exception of its error code."""
        node = await self._client.coordinator_lookup(CoordinationType.GROUP, self.group)
        if not await self._client.ready(node, group=ConnectionGroup.COORDINATION):
            await self._client.force_metadata_update()
        answer = await self._client.send(node, request, group=ConnectionGroup.COORDINATION)
        error = for_code(answer.error_code)
        if isinstance(error(), MemberIdRequired):
            self._member = answer.member_id
        if answer.error_code:
            raise error
        return answer

    def join_request(self, protocol_type: str = PROTOCOL_TYPE) -> Any:
        """The JoinGroup request for the member's current state."""
        protocols = [(PROTOCOL, self.name.encode())]
        return JoinGroupRequest(
            self.group, self.session_ms, REBALANCE_MS, self._member, None, protocol_type, protocols
        )

    async def _run(self) -> None:
        while True:
            try:
                if self._is_member:
                    await asyncio.sleep(INTERVAL_S)
                    await self.ask(HeartbeatRequest(self.group, self.generation, self._member))
                else:
                    await self._join()
            except MemberIdRequired:
                continue
            except (RebalanceInProgressError, IllegalGenerationError):
                self._is_member = False
            except UnknownMemberIdError:
                self._is_member, self._member = False, ""
            except KafkaError:  # the coordinator is unavailable: members are still members when it returns
                await asyncio.sleep(INTERVAL_S)

    async def _join(self) -> None:
        joined = await self.ask(self.join_request())
        self._member = joined.member_id
        names = {member: metadata for member, _, metadata in joined.members}
        primary = min(names.values(), default=b"")
        assignment = [(member, primary) for member in names]
        synced = await self.ask(
            SyncGroupRequest(self.group, joined.generation_id, self._member, None, assignment)
        )
        async with self._changed:
            self.generation = joined.generation_id
            self.primary = synced.member_assignment.decode()
            self._is_member = True
            self._changed.notify_all()


class Registry:
    """One registry: `async with Registry(...)` has read the topic."""

    def __init__(self, bootstrap: str, topic: str, group: str, name: str, session_ms: int) -> None:
        self.name = name
        self.state: dict[str, str] = {}
        self.election = Election(bootstrap, group, name, session_ms)
        self._part = TopicPartition(topic, 0)
        # Requests on the same connection wait for the fetch before them.
        self._consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", fetch_max_wait_ms=FETCH_WAIT_MS
        )
        self._producer: Any = AIOKafkaProducer(bootstrap_servers=bootstrap, acks="all")
        self._position = 0
        self._changed = asyncio.Condition()
        self._reader: asyncio.Task[None] | None = None

    @property
    def is_primary(self) -> bool:
        """Whether the last election that it heard of made it the primary."""
        return self.election.primary == self.name

    async def write(self, key: str, value: str | None) -> None:
        """Returns when the write has been read back; None deletes. Raises NotPrimaryError and errors of the client."""
        if not self.is_primary:
            raise NotPrimaryError
        data = None if value is None else value.encode()
        sent = await self._producer.send_and_wait(self._part.topic, data, key.encode(), self._part.partition)
        await self._read_to(sent.offset + 1)

    async def catch_up(self) -> None:
        """Reads to the topic's current end."""
        ends = await self._consumer.end_offsets([self._part])
        await self._read_to(ends[self._part])

    async def vanish(self) -> None:
        """Ends like a killed process."""
        await self.election.vanish()
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        await self._consumer.stop()
        await self._producer.stop()

    async def _read_to(self, offset: int) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._position >= offset)

    async def _read(self) -> None:
        while True:
            fetched = await self._consumer.getmany(timeout_ms=100)
            for record in fetched.get(self._part, ()):
                self._apply(record.key.decode(), record.value)
            async with self._changed:
                self._position = await self._consumer.position(self._part)
                self._changed.notify_all()

    def _apply(self, key: str, value: bytes | None) -> None:
        if value is None:
            self.state.pop(key, None)
        else:
            self.state[key] = value.decode()

    async def __aenter__(self) -> Self:
        await self._consumer.start()
        await self._producer.start()
        self._consumer.assign([self._part])
        self._reader = asyncio.create_task(self._read())
        await self.catch_up()
        await self.election.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.vanish()

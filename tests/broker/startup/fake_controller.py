"""FakeController: the active controller of a cluster, for tests of its members: a metadata log behind a real socket.

It answers what a member needs: the cluster's id, the metadata log, registration, heartbeats, directories of replicas.
Everything that it writes by itself follows from a request; the rest of the cluster is what the test appends. `answers`
takes the place of any of that; a request without an answer gets no response.
The log and the answers to Fetch and FetchSnapshot are those of tests/simulation/metadata_quorum.py.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.versions import DIRECTORY_ASSIGNMENT, LATEST_PRODUCTION
from barnabas.broker.node_client.address import NodeAddress
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.api_versions import ApiVersionsRequest
from barnabas.protocol.messages.cluster import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from barnabas.protocol.messages.cluster_records import BrokerRegistrationChangeRecord, RegisterBrokerRecord
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.log_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from barnabas.protocol.messages.metadata import DescribeClusterRequest, DescribeClusterResponse
from barnabas.protocol.messages.quorum import FetchSnapshotRequest
from barnabas.protocol.messages.topic_records import FeatureLevelRecord, PartitionChangeRecord
from barnabas.protocol.schema import Message
from tests.broker.node_client.scripted_node import all_versions, parse_requests, response_frame
from tests.broker.running_server import LOCALHOST, TIMEOUT_S, config_of
from tests.simulation.metadata_quorum import Controller, Entry, ModelQuorum

CLUSTER_ID: Final = "the-cluster-of-the-tes"
CONTROLLER_ID: Final = 3000
MEMBER_ID: Final = 7
FENCE: Final = 1
UNFENCE: Final = -1
SHUTS_DOWN: Final = 1
_FETCH_BYTES: Final = 1 << 20

M = TypeVar("M", bound=Message)

Answer = Callable[[Any], Message | None]
"""Answers a request; None: it gets no response."""


@dataclass
class _Log(Controller):
    """The log of the controller, which is reached at a port of this machine."""

    port: int = 0

    @property
    def address(self) -> NodeAddress:
        return NodeAddress(LOCALHOST, self.port)


def _state_of(entries: Sequence[Entry]) -> list[Message]:
    image, _ = replayed(MetadataImage.empty(), [entry.record for entry in entries])
    return list(image.records())


def silence(_: Message) -> None:
    """An Answer: no response."""


class FakeController:
    """One controller, which leads the metadata quorum. Lives on the event loop."""

    def __init__(
        self,
        *,
        metadata_version: int = LATEST_PRODUCTION,
        cluster_id: str = CLUSTER_ID,
        node_id: int = CONTROLLER_ID,
    ) -> None:
        """`metadata_version` is the first record; 0 leaves the log empty."""
        self.cluster_id = cluster_id
        self.image = MetadataImage.empty()
        """The newest one, committed or not."""
        self.requests: list[Message] = []
        """All requests so far but ApiVersions, in the order of their arrival."""
        self.client_ids: set[str | None] = set()
        """Of all connections so far."""
        self.unfences = self.grants_shutdown = self.commits = True
        """Whether it lets brokers serve clients, lets them go, and has what it appends committed at once."""
        self.answers: dict[type[Message], Answer] = {
            ApiVersionsRequest: lambda _: all_versions(),
            DescribeClusterRequest: self.describe,
            FetchRequest: self.fetch,
            FetchSnapshotRequest: lambda request: self._quorum.fetch_snapshot(self._log, request),
            BrokerRegistrationRequest: self.register,
            BrokerHeartbeatRequest: self.beat,
            AssignReplicasToDirsRequest: self.assign,
        }
        self._log = _Log(node_id, epoch=1)
        self._log.leader = self._log
        self._quorum = ModelQuorum(
            0, fetch_bytes=_FETCH_BYTES, snapshot_piece=_FETCH_BYTES, state_of=_state_of
        )
        self._quorum.controllers.append(self._log)
        self._news = asyncio.Event()
        """Set with each record and commit; a Fetch that waits takes a new one."""
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._errors: list[Exception] = []
        if metadata_version:
            self.append(FeatureLevelRecord(name="metadata.version", feature_level=metadata_version))

    # -- for tests --

    @property
    def port(self) -> int:
        return self._log.port

    @property
    def address(self) -> NodeAddress:
        return self._log.address

    @property
    def end_offset(self) -> int:
        """The offset that the next record will have."""
        return len(self._log.entries)

    def append(self, *records: Message) -> int:
        """Appends records to the metadata log, and commits them; returns the offset of the last one."""
        for record in records:
            self.image, _ = replayed(self.image, [record], offset=self.end_offset, epoch=self._log.epoch)
            self._log.entries.append(Entry(self._log.epoch, record))
        if self.commits:
            self.commit()
        return self.end_offset - 1

    def commit(self) -> None:
        """Commits everything."""
        self._log.high_watermark = self.end_offset
        self._announce()

    def fence(self, node_id: int) -> None:
        """Fences a broker, as after a session without a heartbeat."""
        epoch = self.image.brokers[node_id].epoch
        self.append(BrokerRegistrationChangeRecord(broker_id=node_id, broker_epoch=epoch, fenced=FENCE))

    @property
    def connection_count(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def hand_over(self, other: FakeController) -> None:
        """Another controller leads in the next epoch, with the same log. This one knows it."""
        log = other._log
        log.entries, log.high_watermark = list(self._log.entries), self._log.high_watermark
        log.epoch = self._log.epoch = self._log.epoch + 1
        other.image, self._log.leader = self.image, log
        self._announce()

    def write_snapshot(self) -> None:
        """Replaces the log so far by a snapshot."""
        self._log.start = self._log.snapshot_end = self.end_offset

    def sent(self, kind: type[M]) -> list[M]:
        """The requests of one kind so far."""
        return [request for request in self.requests if isinstance(request, kind)]

    def last(self, kind: type[M]) -> M:
        """The newest request of one kind."""
        return self.sent(kind)[-1]

    async def next(self, kind: type[M]) -> M:
        """The next request of one kind that arrives."""
        count = len(self.sent(kind))
        await until(lambda: len(self.sent(kind)) > count)
        return self.sent(kind)[count]

    def broker(self, node_id: int = MEMBER_ID) -> RegisterBrokerRecord:
        """A broker's registration, as the newest metadata have it."""
        return self.image.brokers[node_id].record()

    # -- its answers --

    def describe(self, request: DescribeClusterRequest) -> DescribeClusterResponse:
        assert request.endpoint_type == 2, "controllers describe controllers"
        return DescribeClusterResponse(endpoint_type=2, cluster_id=self.cluster_id)

    def fetch(self, request: FetchRequest) -> FetchResponse:
        if request.cluster_id != self.cluster_id:
            return FetchResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        return self._quorum.fetch(self._log, request)

    def register(self, request: BrokerRegistrationRequest) -> BrokerRegistrationResponse:
        """A new incarnation gets the offset of its record as its epoch; the same one keeps it."""
        if request.cluster_id != self.cluster_id:
            return BrokerRegistrationResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        known = self.image.brokers.get(request.broker_id)
        is_same = known is not None and known.incarnation_id == request.incarnation_id
        if known is not None and not is_same and not known.fenced:
            return BrokerRegistrationResponse(error_code=ErrorCode.DUPLICATE_BROKER_REGISTRATION)
        epoch = known.epoch if known is not None and is_same else self.end_offset
        has_dirs = self.image.metadata_version >= DIRECTORY_ASSIGNMENT
        self.append(
            RegisterBrokerRecord(
                broker_id=request.broker_id,
                incarnation_id=request.incarnation_id,
                broker_epoch=epoch,
                end_points=[
                    RegisterBrokerRecord.BrokerEndpoint(
                        name=at.name, host=at.host, port=at.port, security_protocol=at.security_protocol
                    )
                    for at in request.listeners
                ],
                rack=request.rack,
                fenced=known is None or not is_same or known.fenced,
                log_dirs=request.log_dirs if has_dirs else [],
            )
        )
        return BrokerRegistrationResponse(broker_epoch=epoch)

    def beat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        """Unfences a broker that is ready and knows its registration; grants a shutdown, and fences it then."""
        known = self.image.brokers.get(request.broker_id)
        if known is None or known.epoch != request.broker_epoch:
            return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        is_caught_up = request.current_metadata_offset >= known.epoch
        shuts_down = request.want_shut_down and self.grants_shutdown
        change = BrokerRegistrationChangeRecord(broker_id=known.broker_id, broker_epoch=known.epoch)
        online = [one for one in known.log_dirs if one not in request.offline_log_dirs]
        if shuts_down:
            change.fenced, change.in_controlled_shutdown = FENCE, SHUTS_DOWN
        elif known.fenced and self.unfences and is_caught_up and not request.want_fence:
            change.fenced = UNFENCE
        if len(online) < len(known.log_dirs):
            change.log_dirs = online
        if change != BrokerRegistrationChangeRecord(broker_id=known.broker_id, broker_epoch=known.epoch):
            self.append(change)
        return BrokerHeartbeatResponse(
            is_caught_up=is_caught_up,
            is_fenced=self.image.brokers[request.broker_id].fenced,
            should_shut_down=shuts_down,
        )

    def assign(self, request: AssignReplicasToDirsRequest) -> AssignReplicasToDirsResponse:
        """Writes the directories of replicas into the metadata."""
        kind = AssignReplicasToDirsResponse
        response = kind(directories=[])
        for directory in request.directories:
            topics = []
            for topic in directory.topics:
                parts = [
                    kind.PartitionData(
                        partition_index=part.partition_index,
                        error_code=self._assign(
                            topic.topic_id, part.partition_index, request.broker_id, directory.id
                        ),
                    )
                    for part in topic.partitions
                ]
                topics.append(kind.TopicData(topic_id=topic.topic_id, partitions=parts))
            response.directories.append(kind.DirectoryData(id=directory.id, topics=topics))
        return response

    def _assign(self, topic_id: bytes, index: int, node_id: int, directory_id: bytes) -> ErrorCode:
        name = self.image.topic_names.get(topic_id)
        if name is None:  # it was deleted meanwhile
            return ErrorCode.UNKNOWN_TOPIC_ID
        partition = self.image.topics[name].partitions[index]
        directories = [partition.directory_of(node) for node in partition.replicas]
        directories[partition.replicas.index(node_id)] = directory_id
        self.append(PartitionChangeRecord(partition_id=index, topic_id=topic_id, directories=directories))
        return ErrorCode.NONE

    # -- its socket --

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, LOCALHOST, 0)
        self._log.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Closes the socket and all connections. Raises what was wrong with an answer."""
        if self._server is None:
            return
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None
        if self._errors:
            raise self._errors[0]

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._serve(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the member has closed the connection, or the test ends
        except Exception as error:
            self._errors.append(error)
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            prefix = await reader.readexactly(4)
            frame = await reader.readexactly(int.from_bytes(prefix))
            ((header, request),) = parse_requests(prefix + frame)
            self.client_ids.add(header.client_id)
            if not isinstance(request, ApiVersionsRequest):
                self.requests.append(request)
            if isinstance(request, FetchRequest):
                await self._wait_for_news(request)
            response = self.answers.get(type(request), silence)(request)
            if response is not None:
                key, version = struct.unpack_from(">hh", frame)
                writer.write(response_frame(key, version, header.correlation_id, response))

    def _announce(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _wait_for_news(self, request: FetchRequest) -> None:
        """Waits like Kafka's controller until there is something that the observer does not have."""
        asked = request.topics[0].partitions[0]
        if (
            asked.current_leader_epoch == self._log.epoch
            and asked.fetch_offset >= self.end_offset
            and asked.high_watermark >= self._log.high_watermark
        ):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), request.max_wait_ms / 1000)


async def until(holds: Callable[[], object]) -> None:
    """Waits, a turn of the loop after the other, until something holds."""
    async with asyncio.timeout(TIMEOUT_S):
        while not holds():  # noqa: ASYNC110  # turns of the loop, no time
            await asyncio.sleep(0)


@asynccontextmanager
async def controlling(controller: FakeController | None = None) -> AsyncIterator[FakeController]:
    """A controller that is reached over a socket until the end."""
    controller = controller or FakeController()
    await controller.start()
    try:
        yield controller
    finally:
        await controller.close()


def config_of_member(log_dirs: str | Path, controller: FakeController, **settings: str) -> BrokerConfig:
    """The configuration of broker 7 of the controller's cluster; heartbeats are frequent."""
    usual = {
        "process_roles": "broker",
        "node_id": str(MEMBER_ID),
        "controller_quorum_bootstrap_servers": f"{LOCALHOST}:{controller.port}",
        "controller_listener_names": "CONTROLLER",
        "broker_heartbeat_interval_ms": "20",
    }
    return config_of(log_dirs, **(usual | settings))

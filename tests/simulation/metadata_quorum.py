"""A model of a metadata quorum: controllers that elect, append, commit, write snapshots and answer fetches.

Each entry of a log is one record, whose value names the epoch and the offset at which it was written, so that no two
different entries are equal. It has the rules of Kafka's leader for fetches (KafkaRaftClient.tryCompleteFetchRequest,
KafkaRaftLog.validateOffsetAndEpoch), and none of its elections: any controller with all that is committed may be next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from barnabas.broker.metadata.records import frame
from barnabas.broker.metadata.snapshot_files import snapshot_batches
from barnabas.broker.node_client.address import NodeAddress
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.quorum import FetchSnapshotRequest, FetchSnapshotResponse
from barnabas.protocol.messages.topic_records import ConfigRecord, FeatureLevelRecord, TopicRecord
from barnabas.protocol.records.batch import build_batch
from barnabas.protocol.schema import Message

METADATA_VERSION = 30
CLUSTER_ID = "the cluster"
KEYS = 5
TOPICS_EVERY = 6


class Entry(NamedTuple):
    """A record at its offset."""

    epoch: int
    record: Message


def entry(offset: int, epoch: int) -> Entry:
    """The first record of a log is its metadata.version; most others set one of a few keys, some create a topic."""
    if offset == 0:
        return Entry(epoch, FeatureLevelRecord(name="metadata.version", feature_level=METADATA_VERSION))
    if offset % TOPICS_EVERY == 0:
        topic_id = offset.to_bytes(8) + epoch.to_bytes(8)
        return Entry(epoch, TopicRecord(name=f"topic of {offset} in {epoch}", topic_id=topic_id))
    name = f"key {offset % KEYS}"
    value = f"offset {offset} of epoch {epoch}"
    return Entry(epoch, ConfigRecord(resource_type=4, resource_name="", name=name, value=value))


def state_of(entries: Sequence[Entry]) -> list[Message]:
    """The records of a snapshot of these entries."""
    latest: dict[str, Message] = {}
    for _, record in entries:
        latest[record.name] = record  # type: ignore[attr-defined]
    return sorted(latest.values(), key=lambda record: not isinstance(record, FeatureLevelRecord))


StateOf = Callable[[Sequence[Entry]], list[Message]]
"""The records of a snapshot of these entries."""


@dataclass
class Controller:
    """One controller: its log, of which the beginning may be in a snapshot alone; and the newest epoch that it knows.

    One that was replaced as the leader and does not know it answers as if it still led.
    """

    node_id: int
    entries: list[Entry] = field(default_factory=list)
    snapshot_end: int = 0
    start: int = 0
    is_up: bool = True
    epoch: int = 0
    leader: Controller | None = None
    high_watermark: int = 0

    @property
    def address(self) -> NodeAddress:
        return NodeAddress(f"c{self.node_id}.test", 9093)


class ModelQuorum:
    """The controllers, and what they have committed."""

    def __init__(
        self, count: int, *, fetch_bytes: int = 400, snapshot_piece: int = 150, state_of: StateOf = state_of
    ) -> None:
        self.controllers = [Controller(3000 + number) for number in range(count)]
        self.committed: list[Entry] = []
        self.epoch = 0
        self.leader: Controller | None = None
        self._fetch_bytes = fetch_bytes
        self._snapshot_piece = snapshot_piece
        self._state_of = state_of

    # -- what happens --

    def elect(self, rng: Random) -> None:
        """A controller that is up and has everything committed leads in a new epoch; none may be there."""
        able = [
            one
            for one in self.controllers
            if one.is_up and one.entries[: len(self.committed)] == self.committed
        ]
        self.epoch += 1
        self.leader = rng.choice(able) if able else None
        for one in self.controllers:
            if one is self.leader or rng.random() < 0.6:
                self._learn(one)
        if self.leader is not None:
            self.leader.high_watermark = len(self.committed)
            self.append(1)

    def _learn(self, one: Controller) -> None:
        """The controller learns of the newest epoch."""
        one.epoch, one.leader = self.epoch, self.leader

    def append(self, count: int) -> None:
        """The leaders, and whoever believes to be one, append records, which are not committed."""
        for one in self.controllers:
            for _ in range(count if one.leader is one else 0):
                one.entries.append(entry(len(one.entries), one.epoch))

    def commit(self, rng: Random) -> None:
        """A prefix of the leader's log reaches the others that are up, and is committed if they are a majority."""
        leader = self.leader
        if leader is None:
            return
        end = rng.randint(len(self.committed), len(leader.entries))
        up = [one for one in self.controllers if one.is_up]
        for one in up:
            self._learn(one)
            if one is not leader:
                one.entries[:] = leader.entries[:end]
        if 2 * len(up) > len(self.controllers):
            self.committed = leader.entries[:end]
            leader.high_watermark = end

    def snapshot(self, rng: Random) -> None:
        """A controller writes a snapshot of what is committed, and perhaps starts its log there."""
        one = rng.choice(self.controllers)
        if one.entries[: len(self.committed)] == self.committed:
            one.snapshot_end = len(self.committed)
            if rng.random() < 0.5:
                one.start = one.snapshot_end

    def stop(self, rng: Random) -> None:
        """A controller stops; a leader then leads no more."""
        one = rng.choice(self.controllers)
        self.take_down(one)

    def take_down(self, one: Controller) -> None:
        """Stops a controller; it knows nothing of a leader when it starts again."""
        one.is_up, one.leader = False, None
        if one is self.leader:
            self.leader = None

    def start_all(self) -> None:
        for one in self.controllers:
            one.is_up = True

    # -- what they answer --

    def at(self, address: NodeAddress) -> Controller:
        return next(one for one in self.controllers if one.address == address)

    def _leader_and_endpoints(self, one: Controller) -> tuple[int, list[Controller]]:
        return (-1, []) if one.leader is None else (one.leader.node_id, [one.leader])

    def _error(self, one: Controller, epoch: int) -> ErrorCode:
        if epoch < one.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > one.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return ErrorCode.NONE if one.leader is one else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def fetch(self, one: Controller, request: FetchRequest) -> FetchResponse:
        asked = request.topics[0].partitions[0]
        leader_id, endpoints = self._leader_and_endpoints(one)
        data = FetchResponse.PartitionData(
            error_code=self._error(one, asked.current_leader_epoch),
            high_watermark=one.high_watermark,
            current_leader=FetchResponse.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=one.epoch),
            records=b"",
        )
        if not data.error_code:
            self._read(one, asked, data)
        return FetchResponse(
            responses=[FetchResponse.FetchableTopicResponse(partitions=[data])],
            node_endpoints=[
                FetchResponse.NodeEndpoint(node_id=at.node_id, host=at.address.host, port=at.address.port)
                for at in endpoints
            ],
        )

    def _read(
        self, one: Controller, asked: FetchRequest.FetchPartition, data: FetchResponse.PartitionData
    ) -> None:
        offset, last_epoch = asked.fetch_offset, asked.last_fetched_epoch
        if offset < one.start or (offset == 0 and one.snapshot_end):
            epoch = one.entries[one.snapshot_end - 1].epoch
            data.snapshot_id = FetchResponse.SnapshotId(end_offset=one.snapshot_end, epoch=epoch)
            return
        if offset > 0:
            epochs = [each.epoch for each in one.entries]
            known = max((epoch for epoch in epochs if epoch <= last_epoch), default=0)
            end = max((at + 1 for at, epoch in enumerate(epochs) if epoch <= known), default=0)
            if known != last_epoch or offset > end:
                data.diverging_epoch = FetchResponse.EpochEndOffset(epoch=known, end_offset=end)
                return
        records = b""
        for at, (epoch, record) in enumerate(one.entries[offset:], offset):
            row = (None, frame(record, METADATA_VERSION), 1, ())
            records += build_batch([row], base_offset=at, partition_leader_epoch=epoch)
            if len(records) > self._fetch_bytes:
                break
        data.records = records

    def fetch_snapshot(self, one: Controller, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        asked = request.topics[0].partitions[0]
        leader_id, endpoints = self._leader_and_endpoints(one)
        wanted = asked.snapshot_id
        data = FetchSnapshotResponse.PartitionSnapshot(
            error_code=self._error(one, asked.current_leader_epoch),
            snapshot_id=FetchSnapshotResponse.SnapshotId(end_offset=wanted.end_offset, epoch=wanted.epoch),
            current_leader=FetchSnapshotResponse.LeaderIdAndEpoch(
                leader_id=leader_id, leader_epoch=one.epoch
            ),
            unaligned_records=b"",
        )
        if not data.error_code and wanted.end_offset != one.snapshot_end:
            data.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        if not data.error_code:
            whole = self._snapshot_bytes(one)
            data.size, data.position = len(whole), asked.position
            data.unaligned_records = whole[asked.position : asked.position + self._snapshot_piece]
        return FetchSnapshotResponse(
            topics=[FetchSnapshotResponse.TopicSnapshot(partitions=[data])],
            node_endpoints=[
                FetchSnapshotResponse.NodeEndpoint(
                    node_id=at.node_id, host=at.address.host, port=at.address.port
                )
                for at in endpoints
            ],
        )

    def _snapshot_bytes(self, one: Controller) -> bytes:
        entries = one.entries[: one.snapshot_end]
        parts = snapshot_batches(
            (frame(record, METADATA_VERSION) for record in self._state_of(entries)),
            epoch=entries[-1].epoch,
            timestamp_ms=1,
            now_ms=1,
        )
        return b"".join(parts)

"""MetadataObserver: keeps this node's copy of the metadata log up with the leader of the quorum, without a vote.

One request is under way at a time, to whichever node: two fetches could bring one offset twice.

    response                       | what follows
    -------------------------------+------------------------------------------------------------------------------
    names another leader or epoch  | `quorum-state` is written, then that leader is followed (`quorum_view`)
    records                        | appended; the high watermark rises as the leader states
    a diverging epoch              | the log is truncated
    a snapshot id                  | the snapshot is fetched in pieces and takes the place of the log
    no response, or a node that    | the node is left alone for controller.quorum.retry.backoff.ms; without the leader
    has nothing to say             | for controller.quorum.fetch.timeout.ms, the bootstrap servers are asked again

Another cluster's id, a rejected authorization, two leaders of one epoch and a divergence below the high watermark are
fatal. Source: org.apache.kafka.raft.KafkaRaftClient (pollUnattachedAsObserver, pollFollowerAsObserver).
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.observer_raft_log import ObserverRaftLog
from barnabas.broker.metadata.quorum_state import QuorumState
from barnabas.broker.metadata.quorum_view import QuorumView, Verdict, judge
from barnabas.broker.metadata.raft_log import METADATA_TOPIC_ID
from barnabas.broker.metadata.snapshot_files import SnapshotDownload, SnapshotId
from barnabas.broker.node_client.address import NodeAddress
from barnabas.broker.node_client.channel import NodeChannel, NodeClientError
from barnabas.broker.probes import Rate
from barnabas.broker.waiting.blocking import BlockingRunner
from barnabas.broker.waiting.timer import Timer, TimerHandle
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.quorum import FetchSnapshotRequest, FetchSnapshotResponse
from barnabas.protocol.records.batch import CorruptRecordError, InvalidRecordError
from barnabas.protocol.schema import Message
from barnabas.storage.errors import StorageError
from barnabas.storage.manager.log_manager import CLUSTER_METADATA_TOPIC

logger = logging.getLogger("barnabas.metadata")

MAX_WAIT_MS: Final = 500
"""How long the leader waits for something new."""
SAMPLE_INTERVAL_S: Final = 1.0
"""How often the records are noted for their rate, at most."""

_FATAL: Final = (ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_REPLACED: Final = (
    ErrorCode.SNAPSHOT_NOT_FOUND,
    ErrorCode.OFFSET_OUT_OF_RANGE,
    ErrorCode.POSITION_OUT_OF_RANGE,
)
"""The leader no longer has the snapshot, or another one."""


class ObserverSettings(NamedTuple):
    """The keys controller.quorum.*; times in ms."""

    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_timeout_ms: int = 2_000
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20


DEFAULT_SETTINGS: Final = ObserverSettings()


class Quorum(NamedTuple):
    """Where the quorum is found: its cluster's id, bootstrap servers, and the voters that the configuration names."""

    cluster_id: str
    bootstrap: Sequence[NodeAddress]
    voters: Mapping[int, NodeAddress] = {}
    """By id; empty where the log names the voters (kraft.version 1)."""

    @property
    def servers(self) -> list[NodeAddress]:
        """The nodes that name the leader."""
        return [*self.bootstrap, *(at for at in self.voters.values() if at not in self.bootstrap)]


class ObserverEvents(NamedTuple):
    """Called on the event loop."""

    progressed: Callable[[], object]
    """After each fetch from the leader: the high watermark may have moved."""
    replaced: Callable[[], object]
    """A snapshot has taken the place of the log."""
    leader_changed: Callable[[], object]
    failed: Callable[[str], object]
    """Nothing more is fetched; the text is for the operator."""


class MetadataObserver:
    """The observer of one log. Lives on the event loop; what syncs files leaves it."""

    def __init__(
        self,
        log: ObserverRaftLog,
        quorum: Quorum,
        *,
        channel_to: Callable[[NodeAddress], NodeChannel],
        timer: Timer,
        runner: BlockingRunner,
        events: ObserverEvents,
        settings: ObserverSettings = DEFAULT_SETTINGS,
        choose: Callable[[Sequence[NodeAddress]], NodeAddress] = random.choice,
    ) -> None:
        self.leader_high_watermark: int | None = None
        """The high watermark that a leader has stated last, perhaps beyond the log; None before the first."""
        self.fetch_rate = Rate()
        """Of the records that were appended."""
        self._fetched_records = 0
        self._sampled_s = -math.inf
        self._log = log
        self._quorum = quorum
        self._channel_to = channel_to
        self._timer = timer
        self._runner = runner
        self._events = events
        self._settings = settings
        self._choose = choose
        self._view = QuorumView(log.raft.latest_epoch)
        self._leader: NodeAddress | None = None
        self._heard_s = timer.time()
        self._backoffs: dict[NodeAddress, float] = {}
        self._download: SnapshotDownload | None = None
        self._next: TimerHandle | None = None
        self._is_stopped = False

    # -- for others --

    @property
    def view(self) -> QuorumView:
        return self._view

    @property
    def leader(self) -> NodeAddress | None:
        """The address of the active controller; None while it is not known."""
        return self._leader

    def start(self) -> None:
        self._poll_in(0)

    def stop(self) -> None:
        """Sends and applies nothing more."""
        self._is_stopped = True
        if self._next is not None:
            self._next.cancel()
        self._drop_download()

    # -- asking --

    def _poll_in(self, delay_s: float) -> None:
        if not self._is_stopped:
            self._next = self._timer.call_at(self._timer.time() + delay_s, self._poll)

    def _poll(self) -> None:
        self._sample(self._timer.time())
        node = self._destination()
        if node is None:
            self._poll_in(max(min(self._backoffs.values()) - self._timer.time(), 0))
            return
        download = self._download
        request = (
            self._fetch() if download is None or node != self._leader else self._fetch_snapshot(download)
        )
        pending = self._channel_to(node).send(request, timeout_ms=self._settings.request_timeout_ms)
        pending.add_done_callback(partial(self._responded, node))

    def _sample(self, now: float) -> None:
        if now - self._sampled_s >= SAMPLE_INTERVAL_S:
            self._sampled_s = now
            self.fetch_rate.sample(now, self._fetched_records)

    def _destination(self) -> NodeAddress | None:
        """The leader, unless it is silent; else a bootstrap server. None while all are left alone."""
        now = self._timer.time()
        self._backoffs = {node: until for node, until in self._backoffs.items() if until > now}
        is_silent = now - self._heard_s >= self._settings.fetch_timeout_ms / 1000
        if self._leader is not None and not is_silent and self._leader not in self._backoffs:
            return self._leader
        ready = [node for node in self._quorum.servers if node not in self._backoffs]
        return self._choose(ready) if ready else None

    def _fetch(self) -> FetchRequest:
        log = self._log
        partition = FetchRequest.FetchPartition(
            partition=0,
            current_leader_epoch=self._view.epoch,
            fetch_offset=log.end_offset,
            last_fetched_epoch=log.last_epoch,
            partition_max_bytes=self._settings.fetch_max_bytes,
            replica_directory_id=log.directory_id,
            high_watermark=-1 if self.leader_high_watermark is None else log.raft.high_watermark,
        )
        return FetchRequest(
            cluster_id=self._quorum.cluster_id,
            replica_state=FetchRequest.ReplicaState(replica_id=log.node_id),
            max_wait_ms=MAX_WAIT_MS,
            max_bytes=self._settings.fetch_max_bytes,
            topics=[
                FetchRequest.FetchTopic(
                    topic=CLUSTER_METADATA_TOPIC, topic_id=METADATA_TOPIC_ID, partitions=[partition]
                )
            ],
        )

    def _fetch_snapshot(self, download: SnapshotDownload) -> FetchSnapshotRequest:
        partition = FetchSnapshotRequest.PartitionSnapshot(
            partition=0,
            current_leader_epoch=self._view.epoch,
            snapshot_id=FetchSnapshotRequest.SnapshotId(
                end_offset=download.snapshot_id.end_offset, epoch=download.snapshot_id.epoch
            ),
            position=download.position,
            replica_directory_id=self._log.directory_id,
        )
        return FetchSnapshotRequest(
            cluster_id=self._quorum.cluster_id,
            replica_id=self._log.node_id,
            max_bytes=self._settings.fetch_snapshot_max_bytes,
            topics=[FetchSnapshotRequest.TopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])],
        )

    # -- responses --

    def _responded(self, node: NodeAddress, result: Message | NodeClientError) -> None:
        if self._is_stopped:
            return
        try:
            match result:
                case FetchResponse():
                    self._fetched(node, result)
                case FetchSnapshotResponse():
                    self._fetched_snapshot(node, result)
                case _:
                    self._leave_alone(node, getattr(result, "reason", "an unexpected response"))
        except (MetadataLogError, StorageError, OSError) as error:
            self._fail(str(error))

    def _leave_alone(self, node: NodeAddress, reason: str) -> None:
        logger.debug("no metadata from %s: %s", node, reason)
        self._backoffs[node] = self._timer.time() + self._settings.retry_backoff_ms / 1000
        self._poll_in(0)

    def _retry(self, node: NodeAddress, reason: str) -> None:
        """Asks again in a moment, the same node if it is the leader: it has answered, but with nothing of use."""
        logger.warning("metadata of no use from %s: %s", node, reason)
        self._poll_in(self._settings.retry_backoff_ms / 1000)

    def _is_rejected(self, node: NodeAddress, error: int) -> bool:
        """Whether the response is an error as a whole."""
        if error in _FATAL:
            self._fail(
                f"the controller at {node} rejects this broker with {ErrorCode(error).name}; cluster.id here is "
                f"{self._quorum.cluster_id}"
            )
        elif error:
            self._leave_alone(node, f"error {error}")
        return error != 0

    def _fetched(self, node: NodeAddress, response: FetchResponse) -> None:
        if self._is_rejected(node, response.error_code):
            return
        if len(response.responses) != 1 or len(response.responses[0].partitions) != 1:
            self._retry(node, "a response without the partition of the metadata")
            return
        data = response.responses[0].partitions[0]
        if self._is_from_leader(node, response, data):
            self._take(node, data)

    def _is_from_leader(
        self,
        node: NodeAddress,
        response: FetchResponse | FetchSnapshotResponse,
        data: FetchResponse.PartitionData | FetchSnapshotResponse.PartitionSnapshot,
    ) -> bool:
        """Whether the response, with its one partition, is the leader's of the epoch; else it is dealt with here."""
        error = data.error_code
        named = QuorumView(data.current_leader.leader_epoch, data.current_leader.leader_id)
        verdict, view = judge(self._view, error, named)
        if verdict is Verdict.CHANGE:
            endpoints = {at.node_id: NodeAddress(at.host, at.port) for at in response.node_endpoints}
            self._follow(view, endpoints.get(view.leader_id) or self._quorum.voters.get(view.leader_id), node)
        elif verdict is not Verdict.PROCEED:
            self._leave_alone(node, f"epoch {named.epoch}, error {error}")
        elif error and error not in _REPLACED:
            self._leave_alone(node, f"error {error}")
        else:
            self._heard_s = self._timer.time()
            return True
        return False

    def _follow(self, view: QuorumView, leader: NodeAddress | None, source: NodeAddress) -> None:
        """Follows another leader, or the same one elsewhere, once the state is durable."""
        is_new = view != self._view
        self._drop_download()
        if not is_new and leader in (None, self._leader):
            self._leave_alone(source, "it does not lead")
            return

        def followed() -> None:
            self._view, self._leader = view, leader
            if leader is not None:
                self._heard_s = self._timer.time()
            logger.info(
                "epoch %d of the metadata quorum: %s",
                view.epoch,
                f"controller {view.leader_id} at {leader}" if leader else "no leader is known",
            )
            self._events.leader_changed()
            self._poll_in(0)

        if is_new:
            self._run(lambda: self._log.raft.write_state(self._state_of(view)), followed)
        else:
            followed()

    def _state_of(self, view: QuorumView) -> QuorumState:
        voters = tuple(sorted(self._quorum.voters)) if self._log.raft.control.kraft_version == 0 else None
        return QuorumState(leader_epoch=view.epoch, leader_id=view.leader_id, voters=voters)

    # -- the leader's log --

    def _take(self, node: NodeAddress, data: FetchResponse.PartitionData) -> None:
        snapshot_id = SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch)
        diverging = data.diverging_epoch
        if diverging.epoch >= 0:
            self._run(lambda: self._log.truncate(diverging.epoch, diverging.end_offset), self._poll)
        elif snapshot_id.end_offset >= 0 and snapshot_id.epoch >= 0:
            self._drop_download()
            self._download = self._log.begin_snapshot(snapshot_id)
            logger.info("fetching snapshot %s of the metadata from %s", snapshot_id.file_name, node)
            self._poll_in(0)
        elif data.error_code:
            self._retry(node, f"error {data.error_code}")
        else:
            self._append(node, data)

    def _append(self, node: NodeAddress, data: FetchResponse.PartitionData) -> None:
        end = self._log.end_offset
        try:
            self._log.append(_bytes_of(data.records), self._view.epoch)
        except (CorruptRecordError, InvalidRecordError) as error:
            self._retry(node, f"records that cannot be appended: {error}")
            return
        self._fetched_records += self._log.end_offset - end
        if data.high_watermark >= 0:  # a new leader does not know it yet
            self.leader_high_watermark = data.high_watermark
            self._log.update_high_watermark(data.high_watermark)
        self._events.progressed()
        self._poll_in(0)

    # -- the leader's snapshots --

    def _fetched_snapshot(self, node: NodeAddress, response: FetchSnapshotResponse) -> None:
        if self._is_rejected(node, response.error_code):
            return
        if len(response.topics) != 1 or len(response.topics[0].partitions) != 1:
            self._retry(node, "a response without the snapshot of the metadata")
            return
        data = response.topics[0].partitions[0]
        if self._is_from_leader(node, response, data):
            self._take_piece(node, data)

    def _take_piece(self, node: NodeAddress, data: FetchSnapshotResponse.PartitionSnapshot) -> None:
        download = self._download
        found = SnapshotId(data.snapshot_id.end_offset, data.snapshot_id.epoch)
        if (
            download is None
            or data.error_code
            or found != download.snapshot_id
            or data.position != download.position
        ):
            self._drop_download()
            self._retry(node, f"not the piece of the snapshot that was asked for (error {data.error_code})")
            return
        download.append(_bytes_of(data.unaligned_records))
        if download.position < data.size:
            self._poll_in(0)
            return
        self._download = None
        self._run(lambda: self._log.install_snapshot(download), self._installed)

    def _installed(self) -> None:
        self._events.replaced()
        self._poll()

    def _drop_download(self) -> None:
        download, self._download = self._download, None
        if download is not None:
            download.abandon()

    # -- blocking work --

    def _run(self, work: Callable[[], None], then: Callable[[], None]) -> None:
        """Runs blocking work, then the rest; the disk's failure ends the observer."""

        def done(error: BaseException | None) -> None:
            if self._is_stopped:
                return
            if error is not None:
                self._fail(str(error))
            else:
                then()

        self._runner.submit(work, done)

    def _fail(self, reason: str) -> None:
        self.stop()
        self._events.failed(reason)


def _bytes_of(records: object) -> bytes | memoryview:
    assert records is None or isinstance(records, (bytes, memoryview))
    return records or b""

"""RaftLog: `__cluster_metadata-0`, the metadata log of a node: its directory, what reads it, and its snapshots.

The directory is that of a KRaft node, so that Apache Kafka can take it over and give it back:

    <offset>.log, .index, .timeindex     segments, as of any partition; a batch of records is one atomic change
    <offset>.snapshot                    producers, always empty
    <end offset>-<epoch>.checkpoint      snapshots of the metadata (`snapshot_files`)
    leader-epoch-checkpoint              where each leader's records begin
    partition.metadata                   the id of the metadata topic, always the same
    quorum-state                         the epoch, and who leads in it (`quorum_state`)

Others append to it: the controller of this node (`EmbeddedRaftLog`), or the leader of a quorum that this node observes
(`ObserverRaftLog`).

At opening the log is read from its first batch on, also after a clean stop, and truncated at the first incomplete one.
Records before its first offset are in a snapshot.
Source: org.apache.kafka.raft.internals.KafkaRaftLog.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from threading import RLock
from typing import TYPE_CHECKING, Final

from barnabas.broker.metadata.log import MetadataBatch, MetadataLogError
from barnabas.broker.metadata.log_replay import LogReplay
from barnabas.broker.metadata.quorum_state import QuorumState, QuorumStateFile
from barnabas.broker.metadata.raft_snapshots import NO_SNAPSHOT, RaftLogSettings, RaftSnapshots
from barnabas.broker.metadata.snapshot_files import Control, SnapshotId
from barnabas.broker.metadata.versions import METADATA_VERSION
from barnabas.protocol.messages.cluster_records import RemoveUserScramCredentialRecord
from barnabas.protocol.messages.topic_records import FeatureLevelRecord, RemoveTopicRecord
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import Uuid
from barnabas.storage.env import Env, make_directory
from barnabas.storage.log.deletion import DeletionQueue
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.loader import open_log
from barnabas.storage.manager.log_manager import CLUSTER_METADATA_TOPIC
from barnabas.storage.offsets import FetchIsolation

if TYPE_CHECKING:
    from barnabas.broker.metadata.image import MetadataImage

METADATA_TOPIC_ID: Final[Uuid] = bytes(15) + b"\x01"

_READ_BYTES: Final = 4 << 20

_MISREAD: Final = frozenset({RemoveTopicRecord, RemoveUserScramCredentialRecord})
"""Records that Apache Kafka 4.3 replays wrongly where all since the last snapshot is one delta, as at its start: the
settings of a removed topic apply to the next of its name, and a removed SCRAM credential may remove others
(ConfigurationsDelta.replay, ScramDelta.apply). A snapshot avoids that. Topics that this broker removes are safe, see
`topic_admin.config_removals`."""

logger = logging.getLogger("barnabas.metadata")


class RaftLog:
    """The metadata log in a log directory of this node.

    Blocking, for any thread. `log` is for the class that appends, one caller at a time, under `lock`; snapshots may be
    written meanwhile (`RaftSnapshots`).
    """

    def __init__(self, env: Env, log_dir: str, settings: RaftLogSettings) -> None:
        """Opens the log in `log_dir`, or creates it, and recovers it.

        Raises MetadataLogError for one whose first records are lost; StorageError, OSError.
        """
        self.directory = f"{log_dir}/{CLUSTER_METADATA_TOPIC}-0"
        self.settings = settings
        self.metadata_version = 0
        self.control = Control()
        self.lock = RLock()
        self._env = env
        make_directory(env, self.directory)
        self._deletions = DeletionQueue(env)
        self.log: UnifiedLog = open_log(
            env, self.directory, CLUSTER_METADATA_TOPIC, 0, settings.log_config, deletions=self._deletions
        )
        self.log.assign_topic_id(METADATA_TOPIC_ID)
        self.snapshots = RaftSnapshots(env, self.log, settings, self._deletions, self.lock)
        self.state_file = QuorumStateFile(env, self.directory)
        self.state = self.state_file.read() or QuorumState()
        self.replay = LogReplay()
        """The state of the replay at the end of what was read."""
        self.on_failure: Callable[[], object] = lambda: None
        """Called, on any thread, when the disk fails in a way that leaves the log undefined: see `is_failed`."""

    @property
    def high_watermark(self) -> int:
        """The offset up to which everything is committed."""
        return self.log.high_watermark

    @property
    def latest_epoch(self) -> int:
        """The newest epoch of which this node knows, by its state, its log and its snapshots."""
        return max(self.state.leader_epoch, self.log.latest_epoch, self.snapshots.latest_epoch)

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, of the log or of the snapshot at which it starts; 0 for neither."""
        if self.log.latest_epoch >= 0:
            return self.log.latest_epoch
        latest = self.snapshots.latest
        return latest.epoch if latest is not None and latest.end_offset == self.log.log_end_offset else 0

    @property
    def voter_count(self) -> int:
        """How many nodes have a vote, by the log or else by `quorum-state`; 0 while neither names any."""
        voters = self.control.voters
        return len(self.state.voters or ()) if voters is None else len(voters.voters)

    def write_state(self, state: QuorumState) -> None:
        """Replaces the election state; durable on return. Raises OSError."""
        self.state_file.write(state)
        self.state = state

    # -- reading --

    def load(self) -> Iterator[MetadataBatch]:
        """The latest snapshot, then the log from there to the high watermark, in pieces as large as possible.

        Raises MetadataLogError for records that this broker does not know; StorageError, OSError.
        """
        snapshot_id, batch = self.load_snapshot()
        if batch is not None:
            yield batch
        yield from self.read(snapshot_id.end_offset)

    def load_snapshot(self) -> tuple[SnapshotId, MetadataBatch | None]:
        """The latest whole snapshot, from which the replay of the log begins anew; NO_SNAPSHOT, None without any.

        Raises MetadataLogError, OSError.
        """
        self.replay = LogReplay()
        snapshot_id, snapshot = self.snapshots.latest_whole()
        if snapshot is None:
            return NO_SNAPSHOT, None
        self.replay.control = self.control = snapshot.control
        self.replay.timestamp_ms = snapshot.timestamp_ms
        self._note_version(snapshot.records)
        if not snapshot_id.end_offset:
            return snapshot_id, None
        self.replay.has_quorum_records = True
        return snapshot_id, MetadataBatch(snapshot.records, snapshot_id.end_offset - 1, snapshot_id.epoch)

    def read(self, offset: int) -> Iterator[MetadataBatch]:
        """The committed records from `offset` on, where the replay stopped. Raises what `load` raises."""
        for batch in self.replay.batches(self._batches_from(offset)):
            self._note_version(batch.records)
            if not _MISREAD.isdisjoint(map(type, batch.records)):
                self.snapshots.demand(batch.last_offset + 1)
            yield batch
        self.control = self.replay.control

    def _batches_from(self, offset: int) -> Iterator[RecordBatch]:
        while offset < self.log.high_watermark:
            with self.lock:  # an observer reads in one thread what it appends in another
                info = self.log.read(offset, _READ_BYTES, FetchIsolation.HIGH_WATERMARK, min_one_message=True)
                data = info.records.read()
            at = offset
            for batch in batches(data):
                assert isinstance(batch, RecordBatch), "the metadata log has record batches only"
                self.snapshots.count(batch.size_in_bytes)
                yield batch
                offset = batch.next_offset
            if offset == at:
                raise MetadataLogError(
                    f"{self.directory} has nothing at offset {offset} and ends at {self.log.log_end_offset}"
                )

    def _note_version(self, records: Iterable[Message]) -> None:
        """Notes the metadata.version, which decides the versions of later records."""
        for record in records:
            if type(record) is FeatureLevelRecord and record.name == METADATA_VERSION:
                self.metadata_version = record.feature_level

    def appended(self, records: Iterable[Message]) -> None:
        """Notes records that this node has appended."""
        self._note_version(records)
        if RemoveUserScramCredentialRecord in map(type, records):
            self.snapshots.demand(self.log.log_end_offset)

    def notify_failure(self) -> None:
        """Reports a failure that leaves the log undefined, if there is one."""
        if self.is_failed:
            self.on_failure()

    # -- snapshots --

    def snapshot_is_due(self, image: MetadataImage) -> bool:
        """Whether enough was appended, or enough time has passed, for a snapshot of `image`."""
        return self.snapshots.is_due(image.offset + 1)

    def write_snapshot(self, image: MetadataImage) -> bool:
        """Writes a snapshot of a published image, then deletes what retention does not keep.

        May run in a thread of its own while records are appended. False where this offset has one already.
        Raises MetadataLogError, StorageError, OSError.
        """
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        is_new = self.snapshots.write(snapshot_id, image.records(), image.metadata_version, self.control)
        self.clean()
        return is_new

    def clean(self) -> None:
        """Deletes the snapshots that retention does not keep, and the log before the next one."""
        try:
            self.snapshots.clean()
        finally:
            self.notify_failure()

    def maybe_snapshot(self, image: MetadataImage) -> bool:
        """Writes one if it is due."""
        return self.snapshot_is_due(image) and self.write_snapshot(image)

    @property
    def is_failed(self) -> bool:
        """Whether the disk failed in a way that leaves the log undefined: the node cannot continue without it."""
        return self.log.is_failed

    def run_deletions(self) -> None:
        """Deletes the files whose delay is over. Raises OSError."""
        with self.lock:
            due = self._deletions.take_due(self._env.now_ms())
        for deletion in due:
            deletion.run()

    def close(self) -> None:
        """Closes the files; everything is durable already. Raises OSError."""
        with self.lock:
            self.log.close()

"""EmbeddedRaftLog: `__cluster_metadata-0`, the metadata log of a node whose controller is the only voter.

The directory is that of a KRaft controller, so that Apache Kafka can take it over and give it back:

    <offset>.log, .index, .timeindex     segments, as of any partition; a batch of records is one atomic change
    <offset>.snapshot                    producers, always empty
    <end offset>-<epoch>.checkpoint      snapshots of the metadata (`snapshot_files`)
    leader-epoch-checkpoint              where each leader's records begin
    partition.metadata                   the id of the metadata topic, always the same
    quorum-state                         the epoch, and who leads in it (`quorum_state`)

A single voter elects itself, and everything that it has flushed is committed. Each start opens a new epoch, whose first
record is a LeaderChangeMessage.

At opening the log is read from its first batch on, also after a clean stop, and truncated at the first incomplete one:
only records that were never acknowledged are lost. Records before its first offset are in a snapshot.
Source: org.apache.kafka.raft.internals.KafkaRaftLog, KafkaRaftClient.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from errno import EIO
from threading import RLock
from typing import TYPE_CHECKING, Final

from barnabas.broker.metadata.log import MetadataBatch, MetadataLogError
from barnabas.broker.metadata.log_replay import LogReplay
from barnabas.broker.metadata.quorum_state import QuorumState, QuorumStateFile
from barnabas.broker.metadata.raft_snapshots import DEFAULT_SETTINGS, RaftLogSettings, RaftSnapshots
from barnabas.broker.metadata.records import frame
from barnabas.broker.metadata.snapshot_files import Control, SnapshotId, control_batch, quorum_records
from barnabas.broker.metadata.versions import METADATA_TRANSACTIONS, METADATA_VERSION
from barnabas.protocol.messages.cluster_records import RemoveUserScramCredentialRecord
from barnabas.protocol.messages.control_records import LeaderChangeMessage, VotersRecord
from barnabas.protocol.messages.topic_records import (
    AbortTransactionRecord,
    FeatureLevelRecord,
    RemoveTopicRecord,
)
from barnabas.protocol.records.batch import RecordBatch, build_batch
from barnabas.protocol.records.control import ControlRecordType
from barnabas.protocol.records.entries import batches
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ZERO_UUID, Uuid
from barnabas.storage.env import Env, make_directory
from barnabas.storage.errors import KafkaStorageError, RecordBatchTooLargeError, StorageError, is_no_space
from barnabas.storage.log.deletion import DeletionQueue
from barnabas.storage.manager.loader import open_log
from barnabas.storage.manager.log_manager import CLUSTER_METADATA_TOPIC
from barnabas.storage.offsets import AppendOrigin, FetchIsolation

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


class EmbeddedRaftLog:
    """The metadata log in a log directory of this node.

    `load`, then `become_leader`, then `append`. Blocking, for any thread; one caller at a time, except that snapshots
    may be written meanwhile (`RaftSnapshots`).
    """

    def __init__(
        self,
        env: Env,
        log_dir: str,
        node_id: int,
        directory_id: Uuid = ZERO_UUID,
        settings: RaftLogSettings = DEFAULT_SETTINGS,
    ) -> None:
        """Opens the log in `log_dir`, or creates it, and recovers it.

        `directory_id` is that of `log_dir`, in the records of a voter. Raises MetadataLogError for a log of
        another node or of several controllers, and for one whose first records are lost; StorageError, OSError.
        """
        self.directory = f"{log_dir}/{CLUSTER_METADATA_TOPIC}-0"
        self.node_id = node_id
        self.directory_id = directory_id
        self.settings = settings
        self.metadata_version = 0
        self.control = Control()
        self._env = env
        self._lock = RLock()
        make_directory(env, self.directory)
        self._deletions = DeletionQueue(env)
        self._log = open_log(
            env, self.directory, CLUSTER_METADATA_TOPIC, 0, settings.log_config, deletions=self._deletions
        )
        self._log.assign_topic_id(METADATA_TOPIC_ID)
        self.snapshots = RaftSnapshots(env, self._log, settings, self._deletions, self._lock)
        self._log.update_high_watermark(self._log.log_end_offset)
        self._state_file = QuorumStateFile(env, self.directory)
        self._state = self._state_file.read() or QuorumState()
        self._check_state()
        self.leader_epoch = max(self._state.leader_epoch, self._log.latest_epoch, self.snapshots.latest_epoch)
        self.on_failure: Callable[[], object] = lambda: None
        """Called, on any thread, when the disk fails in a way that leaves the log undefined: see `is_failed`."""
        self._in_transaction = False
        self._voters_in_log = False
        self._unwritten_state: QuorumState | None = None
        self._waiting: list[bytes] = []
        self._waiting_count = 0

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._log.log_end_offset + self._waiting_count

    @property
    def high_watermark(self) -> int:
        """The offset up to which everything is durable, and so, with one voter, committed."""
        return self._log.high_watermark

    # -- reading --

    def load(self) -> Iterator[MetadataBatch]:
        """The latest snapshot, then the log from there on, in pieces as large as possible.

        Raises MetadataLogError for records that this broker does not know; StorageError, OSError.
        """
        replay = LogReplay()
        snapshot_id, snapshot = self.snapshots.latest_whole()
        if snapshot is not None:
            replay.control = snapshot.control
            self._note_version(snapshot.records)
            if snapshot_id.end_offset:
                yield MetadataBatch(snapshot.records, snapshot_id.end_offset - 1, snapshot_id.epoch)
        for batch in replay.batches(self._batches_from(snapshot_id.end_offset)):
            self._note_version(batch.records)
            if not _MISREAD.isdisjoint(map(type, batch.records)):
                self.snapshots.demand(batch.last_offset + 1)
            yield batch
        self.control = replay.control
        self._voters_in_log = snapshot_id.end_offset > 0 or replay.has_quorum_records
        self._in_transaction = replay.in_transaction
        self._check_voters()

    def _batches_from(self, offset: int) -> Iterator[RecordBatch]:
        while offset < self._log.log_end_offset:
            info = self._log.read(offset, _READ_BYTES, FetchIsolation.LOG_END, min_one_message=True)
            at = offset
            for batch in batches(info.records.read()):
                assert isinstance(batch, RecordBatch), "the metadata log has record batches only"
                self.snapshots.count(batch.size_in_bytes)
                yield batch
                offset = batch.next_offset
            if offset == at:
                raise MetadataLogError(
                    f"{self.directory} has nothing at offset {offset} and ends at {self.end_offset}"
                )

    def _note_version(self, records: Iterable[Message]) -> None:
        """Notes the metadata.version, which decides the versions of later records."""
        for record in records:
            if type(record) is FeatureLevelRecord and record.name == METADATA_VERSION:
                self.metadata_version = record.feature_level

    # -- checks of the voter --

    def _check_state(self) -> None:
        voters = self._state.voters
        if voters and set(voters) != {self.node_id}:
            raise MetadataLogError(
                f"{self.directory} belongs to a quorum of controllers {sorted(voters)}; "
                f"node {self.node_id} cannot lead it alone"
            )

    def _check_voters(self) -> None:
        voters = self.control.voters
        if voters is None:
            return
        ids = sorted(voter.voter_id for voter in voters.voters)
        if ids != [self.node_id]:
            raise MetadataLogError(
                f"{self.directory} belongs to a quorum of controllers {ids}; node {self.node_id} cannot lead it alone"
            )
        found = voters.voters[0].voter_directory_id
        if found not in (ZERO_UUID, self.directory_id) and self.directory_id != ZERO_UUID:
            raise MetadataLogError(
                f"{self.directory} has a voter in another directory than this one: its meta.properties was replaced"
            )

    # -- writing --

    def become_leader(self) -> int:
        """Opens a new epoch, durably; returns it. To be called once, after `load`, before anything is appended.

        An open transaction at the end of the log is aborted. On a full disk the records wait, as in `append`.
        Raises OSError.
        """
        with self._lock:
            epoch = self.leader_epoch + 1
            static_voters = (self.node_id,) if self.control.kraft_version == 0 else None
            state = QuorumState(leader_epoch=epoch, leader_id=self.node_id, voters=static_voters)
            self._state = self._unwritten_state = state
            self.leader_epoch = epoch
            self._append_or_wait([self._start_of_epoch()])
            self._voters_in_log = True
            if self._in_transaction and self.metadata_version >= METADATA_TRANSACTIONS:
                self.append([[AbortTransactionRecord(reason="failover")]], may_wait=True)
            self._in_transaction = False
            return epoch

    def _start_of_epoch(self) -> bytes:
        me = LeaderChangeMessage.Voter(voter_id=self.node_id)
        change = LeaderChangeMessage(version=0, leader_id=self.node_id, voters=[me], granting_voters=[me])
        messages: list[tuple[ControlRecordType, Message]] = [(ControlRecordType.LEADER_CHANGE, change)]
        if not self._voters_in_log:  # only the snapshot of the format has named them
            messages += quorum_records(self.control)
        return self._control_batch(messages)

    def _control_batch(self, messages: Iterable[tuple[ControlRecordType, Message]]) -> bytes:
        return control_batch(
            messages, base_offset=self.end_offset, epoch=self.leader_epoch, now_ms=self._env.now_ms()
        )

    def change_quorum(self, kraft_version: int, voters: VotersRecord) -> None:
        """Records the voters in the log: the step from kraft.version 0 to 1.

        Raises OSError; nothing is recorded then.
        """
        with self._lock:
            control = Control(kraft_version, voters)
            self._append_durably([self._control_batch(quorum_records(control))])
            self.control = control
            state = self._state._replace(voters=None)
            self._state_file.write(state)
            self._state = state

    def append(self, batches: Sequence[Sequence[Message]], *, may_wait: bool = False) -> int:
        """Appends each inner list as one atomic batch; the end offset, once all of them are durable.

        `may_wait` is for records of the node's start, which the next start would write again: on a full disk these
        batches are kept in memory, and written before later ones.
        Raises RecordBatchTooLargeError for a batch above 8 MiB, and OSError; none of the batches is appended then.
        """
        with self._lock:
            now_ms, offset = self._env.now_ms(), self.end_offset
            built: list[bytes] = []
            for records in batches:
                built.append(self._build(records, offset, now_ms))
                offset += len(records)
            (self._append_or_wait if may_wait else self._append_durably)(built)
            for records in batches:
                self._note_version(records)
                if RemoveUserScramCredentialRecord in map(type, records):
                    self.snapshots.demand(self.end_offset)
            return self.end_offset

    def _build(self, records: Sequence[Message], offset: int, now_ms: int) -> bytes:
        rows = [(None, frame(record, self.metadata_version), now_ms, ()) for record in records]
        batch = build_batch(rows, base_offset=offset, partition_leader_epoch=self.leader_epoch)
        if len(batch) > self.settings.max_batch_bytes:
            raise RecordBatchTooLargeError(
                f"{len(records)} metadata records take {len(batch)} bytes in one batch; "
                f"{self.settings.max_batch_bytes} is the most"
            )
        return batch

    def _append_or_wait(self, built: Sequence[bytes]) -> None:
        try:
            self._append_durably(built)
        except OSError as error:
            if not is_no_space(error) or self.is_failed:
                raise
            logger.warning(
                "%s: the records of this start are written when there is room: %s", self.directory, error
            )
            self._waiting += built
            self._waiting_count += sum(RecordBatch(batch).record_count for batch in built)

    def write_waiting(self) -> None:
        """Writes the batches that wait for room, if any. Raises OSError."""
        with self._lock:
            if self._waiting:
                self._append_durably([])

    def _append_durably(self, built: Sequence[bytes]) -> None:
        """Appends consecutive batches and syncs once; truncates all of them when that fails."""
        built = [*self._waiting, *built]
        end_offset = self._log.log_end_offset
        try:
            if self._unwritten_state is not None:
                self._state_file.write(self._unwritten_state)
                self._unwritten_state = None
            for group in _joined(built, self.settings.max_batch_bytes):
                self._log.append_as_leader(group, self.leader_epoch, AppendOrigin.RAFT_LEADER)
            self._log.flush()
        except OSError:
            self._truncate_failed(end_offset)
            raise
        except KafkaStorageError as error:
            self._truncate_failed(end_offset)
            raise _system_error(error) from error
        self._waiting, self._waiting_count = [], 0
        self._log.update_high_watermark(self._log.log_end_offset)
        self.snapshots.count(sum(map(len, built)))

    def _truncate_failed(self, end_offset: int) -> None:
        """Truncates appended batches that may not be durable."""
        try:
            self._log.truncate_to(end_offset)
        except (StorageError, OSError) as error:
            # No more appends (the log is offline); the next start finds whole batches, or none.
            self._log.fail(f"a failed append could not be truncated: {error}")
        self._notify_failure()

    def _notify_failure(self) -> None:
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
            self._notify_failure()

    def maybe_snapshot(self, image: MetadataImage) -> bool:
        """Writes one if it is due."""
        return self.snapshot_is_due(image) and self.write_snapshot(image)

    @property
    def is_failed(self) -> bool:
        """Whether the disk failed in a way that leaves the log undefined: the node cannot continue without it."""
        return self._log.is_failed

    def run_deletions(self) -> None:
        """Deletes the files whose delay is over. Raises OSError."""
        with self._lock:
            due = self._deletions.take_due(self._env.now_ms())
        for deletion in due:
            deletion.run()

    def close(self) -> None:
        """Closes the files; everything is durable already. Raises OSError."""
        with self._lock:
            self._log.close()


def _system_error(error: KafkaStorageError) -> OSError:
    """The error of the system, by which callers distinguish a full disk from a failed one."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__
    return OSError(EIO, str(error)) if cause is None else OSError(cause.errno, str(error))


def _joined(built: Sequence[bytes], max_bytes: int) -> Iterator[bytes]:
    """The batches, joined as far as they fit into a segment."""
    group: list[bytes] = []
    size = 0
    for batch in built:
        if group and size + len(batch) > max_bytes:
            yield b"".join(group)
            group, size = [], 0
        group.append(batch)
        size += len(batch)
    if group:
        yield b"".join(group)

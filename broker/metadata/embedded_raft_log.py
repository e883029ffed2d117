"""EmbeddedRaftLog: the metadata log of a node whose controller is the only voter: it leads, and appends.

A single voter elects itself, and everything that it has flushed is committed. Each start opens a new epoch, whose first
record is a LeaderChangeMessage. Records that were not acknowledged may be lost at opening.
Source: org.apache.kafka.raft.KafkaRaftClient, LeaderState.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from errno import EIO

from barnabas.broker.metadata.log import MetadataBatch, MetadataLogError
from barnabas.broker.metadata.quorum_state import QuorumState
from barnabas.broker.metadata.raft_log import RaftLog
from barnabas.broker.metadata.raft_snapshots import DEFAULT_SETTINGS, RaftLogSettings
from barnabas.broker.metadata.records import frame
from barnabas.broker.metadata.snapshot_files import Control, control_batch, quorum_records
from barnabas.broker.metadata.versions import METADATA_TRANSACTIONS
from barnabas.protocol.messages.control_records import LeaderChangeMessage, VotersRecord
from barnabas.protocol.messages.topic_records import AbortTransactionRecord
from barnabas.protocol.records.batch import RecordBatch, build_batch
from barnabas.protocol.records.control import ControlRecordType
from barnabas.protocol.schema import Message
from barnabas.protocol.wire import ZERO_UUID, Uuid
from barnabas.storage.env import Env
from barnabas.storage.errors import KafkaStorageError, RecordBatchTooLargeError, StorageError, is_no_space
from barnabas.storage.offsets import AppendOrigin

logger = logging.getLogger("barnabas.metadata")


class EmbeddedRaftLog:
    """The metadata log, led by this node.

    `load`, then `become_leader`, then `append`. Blocking, for any thread; one caller at a time.
    """

    def __init__(self, raft: RaftLog, node_id: int, directory_id: Uuid, now_ms: Callable[[], int]) -> None:
        """`directory_id` is that of the log directory, in the records of a voter.

        Raises MetadataLogError for a log of another node or of several controllers.
        """
        self.raft = raft
        self.node_id = node_id
        self.directory_id = directory_id
        self._log = raft.log
        self._lock = raft.lock
        self._now_ms = now_ms
        self._log.update_high_watermark(self._log.log_end_offset)
        self._check_state()
        self.leader_epoch = raft.latest_epoch
        self._in_transaction = False
        self._voters_in_log = False
        self._unwritten_state: QuorumState | None = None
        self._waiting: list[bytes] = []
        self._waiting_count = 0

    @classmethod
    def open(
        cls,
        env: Env,
        log_dir: str,
        node_id: int,
        directory_id: Uuid = ZERO_UUID,
        settings: RaftLogSettings = DEFAULT_SETTINGS,
    ) -> EmbeddedRaftLog:
        """Opens the log in `log_dir`, or creates it, and recovers it.

        Raises MetadataLogError, StorageError, OSError.
        """
        return cls(RaftLog(env, log_dir, settings), node_id, directory_id, env.now_ms)

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._log.log_end_offset + self._waiting_count

    def load(self) -> Iterator[MetadataBatch]:
        """Everything in the log: see `RaftLog.load`. Raises MetadataLogError for a quorum of other voters, too."""
        yield from self.raft.load()
        self._voters_in_log = self.raft.replay.has_quorum_records
        self._in_transaction = self.raft.replay.in_transaction
        self._check_voters()

    # -- checks of the voter --

    def _check_state(self) -> None:
        voters = self.raft.state.voters
        if voters and set(voters) != {self.node_id}:
            raise MetadataLogError(
                f"{self.raft.directory} belongs to a quorum of controllers {sorted(voters)}; "
                f"node {self.node_id} cannot lead it alone"
            )

    def _check_voters(self) -> None:
        voters = self.raft.control.voters
        if voters is None:
            return
        ids = sorted(voter.voter_id for voter in voters.voters)
        if ids != [self.node_id]:
            raise MetadataLogError(
                f"{self.raft.directory} belongs to a quorum of controllers {ids}; "
                f"node {self.node_id} cannot lead it alone"
            )
        found = voters.voters[0].voter_directory_id
        if found not in (ZERO_UUID, self.directory_id) and self.directory_id != ZERO_UUID:
            raise MetadataLogError(
                f"{self.raft.directory} has a voter in another directory than this one: "
                "its meta.properties was replaced"
            )

    # -- writing --

    def become_leader(self) -> int:
        """Opens a new epoch, durably; returns it. To be called once, after `load`, before anything is appended.

        An open transaction at the end of the log is aborted. On a full disk the records wait, as in `append`.
        Raises OSError.
        """
        with self._lock:
            epoch = self.leader_epoch + 1
            static_voters = (self.node_id,) if self.raft.control.kraft_version == 0 else None
            state = QuorumState(leader_epoch=epoch, leader_id=self.node_id, voters=static_voters)
            self._unwritten_state = state
            self.leader_epoch = epoch
            self._append_or_wait([self._start_of_epoch()])
            self._voters_in_log = True
            if self._in_transaction and self.raft.metadata_version >= METADATA_TRANSACTIONS:
                self.append([[AbortTransactionRecord(reason="failover")]], may_wait=True)
            self._in_transaction = False
            return epoch

    def _start_of_epoch(self) -> bytes:
        me = LeaderChangeMessage.Voter(voter_id=self.node_id)
        change = LeaderChangeMessage(version=0, leader_id=self.node_id, voters=[me], granting_voters=[me])
        messages: list[tuple[ControlRecordType, Message]] = [(ControlRecordType.LEADER_CHANGE, change)]
        if not self._voters_in_log:  # only the snapshot of the format has named them
            messages += quorum_records(self.raft.control)
        return self._control_batch(messages)

    def _control_batch(self, messages: Iterable[tuple[ControlRecordType, Message]]) -> bytes:
        return control_batch(
            messages, base_offset=self.end_offset, epoch=self.leader_epoch, now_ms=self._now_ms()
        )

    def change_quorum(self, kraft_version: int, voters: VotersRecord) -> None:
        """Records the voters in the log: the step from kraft.version 0 to 1.

        Raises OSError; nothing is recorded then.
        """
        with self._lock:
            control = Control(kraft_version, voters)
            self._append_durably([self._control_batch(quorum_records(control))])
            self.raft.control = control
            self.raft.write_state(self.raft.state._replace(voters=None))

    def append(self, batches: Sequence[Sequence[Message]], *, may_wait: bool = False) -> int:
        """Appends each inner list as one atomic batch; the end offset, once all of them are durable.

        `may_wait` is for records of the node's start, which the next start would write again: on a full disk these
        batches are kept in memory, and written before later ones.
        Raises RecordBatchTooLargeError for a batch above 8 MiB, and OSError; none of the batches is appended then.
        """
        with self._lock:
            now_ms, offset = self._now_ms(), self.end_offset
            built: list[bytes] = []
            for records in batches:
                built.append(self._build(records, offset, now_ms))
                offset += len(records)
            (self._append_or_wait if may_wait else self._append_durably)(built)
            for records in batches:
                self.raft.appended(records)
            return self.end_offset

    def _build(self, records: Sequence[Message], offset: int, now_ms: int) -> bytes:
        rows = [(None, frame(record, self.raft.metadata_version), now_ms, ()) for record in records]
        batch = build_batch(rows, base_offset=offset, partition_leader_epoch=self.leader_epoch)
        if len(batch) > self.raft.settings.max_batch_bytes:
            raise RecordBatchTooLargeError(
                f"{len(records)} metadata records take {len(batch)} bytes in one batch; "
                f"{self.raft.settings.max_batch_bytes} is the most"
            )
        return batch

    def _append_or_wait(self, built: Sequence[bytes]) -> None:
        try:
            self._append_durably(built)
        except OSError as error:
            if not is_no_space(error) or self.raft.is_failed:
                raise
            logger.warning(
                "%s: the records of this start are written when there is room: %s", self.raft.directory, error
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
                self.raft.write_state(self._unwritten_state)
                self._unwritten_state = None
            for group in _joined(built, self.raft.settings.max_batch_bytes):
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
        self.raft.snapshots.count(sum(map(len, built)))

    def _truncate_failed(self, end_offset: int) -> None:
        """Truncates appended batches that may not be durable."""
        try:
            self._log.truncate_to(end_offset)
        except (StorageError, OSError) as error:
            # No more appends (the log is offline); the next start finds whole batches, or none.
            self._log.fail(f"a failed append could not be truncated: {error}")
        self.raft.notify_failure()


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

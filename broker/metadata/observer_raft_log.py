"""ObserverRaftLog: the metadata log of a node that follows a quorum without a vote: a copy of the leader's log.

What the leader has is appended as it comes and is not synced: a tail that a crash loses is fetched again. Only what is
below the high watermark, which the leader states, is committed. At opening that is what the latest snapshot holds.
Source: org.apache.kafka.raft.internals.KafkaRaftLog, org.apache.kafka.raft.KafkaRaftClient, FollowerState.
"""

from __future__ import annotations

import logging

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.raft_log import RaftLog
from barnabas.broker.metadata.snapshot_files import SnapshotDownload, SnapshotId
from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.protocol.records.entries import batches
from barnabas.protocol.wire import Uuid
from barnabas.storage.env import Buffer, Env

logger = logging.getLogger("barnabas.metadata")


class ObserverRaftLog:
    """The metadata log, appended to as the leader of the quorum says. Blocking; one caller at a time."""

    def __init__(self, raft: RaftLog, env: Env, node_id: int, directory_id: Uuid) -> None:
        """Raises MetadataLogError for a log of which this node is a voter."""
        self.raft = raft
        self.node_id = node_id
        self.directory_id = directory_id
        self._env = env
        self._log = raft.log
        self._truncate_at_gap()
        latest = raft.snapshots.latest
        if latest is not None:
            self._log.update_high_watermark(max(latest.end_offset, self._log.high_watermark))
        if node_id in (raft.state.voters or ()) or raft.state.leader_id == node_id:
            raise self._voter_error()

    def _truncate_at_gap(self) -> None:
        """Truncates the log where records are missing: a power cut may lose an unsynced segment, and keep a later one.

        Raises StorageError.
        """
        end = self._log.segments[0].base_offset
        for segment in self._log.segments:
            if segment.base_offset != end:
                break
            end = segment.read_next_offset()
        else:
            return
        logger.warning("%s has nothing at offset %d and is truncated there", self.raft.directory, end)
        self._log.truncate_to(end)
        self.raft.snapshots.maybe_start_log_at_latest()

    def check_voters(self) -> None:
        """To be called once the log was loaded. Raises MetadataLogError where it names this node as a voter."""
        voters = self.raft.control.voters
        if voters is not None and self.node_id in {voter.voter_id for voter in voters.voters}:
            raise self._voter_error()

    def _voter_error(self) -> MetadataLogError:
        return MetadataLogError(
            f"{self.raft.directory} belongs to a controller: node {self.node_id} is a voter in it, and a node with "
            "process.roles=broker has no vote. Give the broker another node.id and other log directories"
        )

    # -- what the leader is asked with --

    @property
    def end_offset(self) -> int:
        """The offset that the next record will have: the fetch offset."""
        return self._log.log_end_offset

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record, of the log or of the snapshot at which it starts; 0 for neither."""
        return self.raft.last_epoch

    # -- what it answers --

    def append(self, records: Buffer, epoch: int) -> None:
        """Appends the leader's batches, up to the first of an epoch above `epoch`.

        Raises CorruptRecordError for damaged ones and for such as do not follow the log, StorageError.
        """
        first = next(iter(batches(records)), None)
        if first is None:
            return
        if first.base_offset != self.end_offset:
            raise CorruptRecordError(
                f"a batch at {first.base_offset} for a log that ends at {self.end_offset}"
            )
        with self.raft.lock:
            self._log.append_as_follower(records, epoch)

    def update_high_watermark(self, offset: int) -> bool:
        """Raises the high watermark to `offset`, as far as the log goes; returns whether it moved."""
        committed = min(offset, self.end_offset)
        if committed <= self.raft.high_watermark:
            return False
        self._log.update_high_watermark(committed)
        return True

    def truncate(self, epoch: int, end_offset: int) -> None:
        """Truncates to where the leader's log diverges: the end of its largest epoch at or below our last one.

        Durable on return. Raises MetadataLogError for an offset below the high watermark, which no leader may name;
        StorageError.
        """
        if end_offset < self.raft.high_watermark:
            raise MetadataLogError(
                f"the leader's epoch {epoch} ends at {end_offset}, and {self.raft.directory} is committed up to "
                f"{self.raft.high_watermark}: the two are not of one quorum, or one of them has lost committed records"
            )
        ours = self._log.leader_epoch_cache.end_offset_for(epoch, self.end_offset)
        if ours is None or ours.epoch == epoch:
            target = min(end_offset, self.end_offset if ours is None else ours.end_offset)
        else:
            target = ours.end_offset
        logger.info("%s is truncated from %d to %d", self.raft.directory, self.end_offset, target)
        with self.raft.lock:
            self._log.truncate_to(max(target, self.raft.high_watermark))

    # -- snapshots of the leader --

    def begin_snapshot(self, snapshot_id: SnapshotId) -> SnapshotDownload:
        """A file for a snapshot of the leader. Raises OSError."""
        return SnapshotDownload(self._env, self.raft.directory, snapshot_id)

    def install_snapshot(self, download: SnapshotDownload) -> None:
        """Makes a complete snapshot durable under its name, and starts the log at its end.

        Raises MetadataLogError where it is not whole; StorageError, OSError.
        """
        download.finish()
        with self.raft.lock:
            self.raft.snapshots.install(download.snapshot_id)

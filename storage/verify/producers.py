"""Verification of .snapshot and .txnindex files against a replay of the batches, which are read in order.

Entries of .txnindex are read here on purpose, not by `storage.segment.txn_index`: a fault there must not hide what it
has written.
"""

import struct
from typing import Final

from barnabas.protocol.records.batch import (
    MAGIC_V2,
    CorruptRecordError,
    InvalidRecordError,
    RecordBatch,
    UnsupportedCompressionError,
)
from barnabas.protocol.records.control import ControlRecordType, control_record_type
from barnabas.protocol.records.layout import MAX_SEQUENCE
from barnabas.storage.env import Env
from barnabas.storage.errors import CorruptSnapshotError, EmptySnapshotError
from barnabas.storage.log.producer_entry import ProducerStateEntry
from barnabas.storage.log.producer_snapshots import ProducerSnapshotFiles, SnapshotEntry
from barnabas.storage.log.producer_state import ProducerStateManager
from barnabas.storage.segment.batch_reading import Batch
from barnabas.storage.segment.names import TXN_INDEX_SUFFIX, segment_path
from barnabas.storage.verify.segment import is_dense
from barnabas.storage.verify.verifier import (
    REBUILT,
    REMOVED,
    Check,
    Findings,
    Severity,
    Situation,
    without_path,
)

# Not TransactionIndex.ENTRY: a fault there must not hide what it has written.
_TXN_ENTRY: Final = struct.Struct(">hqqqq")
_SEQUENCE_REMEDY: Final = "a start takes it as it is; records of this producer are missing, or there twice"
_NEVER_MS: Final = 1 << 62
_FIELDS: Final = (
    ("producer_epoch", "epoch"),
    ("last_sequence", "last sequence"),
    ("last_offset", "last offset"),
    ("offset_delta", "offset delta"),
    ("current_txn_first_offset", "first offset of the open transaction"),
)

Aborted = tuple[int, int, int, int]
"""(producer id, first offset, last offset, last stable offset)."""

TxnProblem = tuple[str, str, int | None]
"""(what is wrong, what would be right, offset)."""


class ProducersVerifier:
    """The replay of the producers of one partition from its first batch on, and the files to check."""

    def __init__(
        self, env: Env, directory: str, names: list[str], findings: Findings, situation: Situation
    ) -> None:
        """`names`: the content of the directory."""
        self._env = env
        self._findings = findings
        self._situation = situation
        self._snapshots = ProducerSnapshotFiles(env, directory, names)
        self._directory = directory
        self._producers = self._no_producers()
        self._waiting: dict[int, list[SnapshotEntry]] = {}
        self._first_offset = self._next_offset = 0
        self._aborted: list[Aborted] = []
        self._markers: set[tuple[int, int]] = set()  # (producer id, offset) of each abort in this segment
        self.has_gaps = bool(situation.cleaner_offset)  # what was compacted does not tell all that there was
        self.is_missing = False  # something before the batch that comes next could not be read
        self.has_missed = False  # the same, before any that was followed
        self._is_followed = True  # all of the segment so far
        self._log_path = directory  # of the segment that is being followed

    def _no_producers(self) -> ProducerStateManager:
        """The state before the first batch."""
        return ProducerStateManager(
            ProducerSnapshotFiles(self._env, self._directory, []), self._directory, _NEVER_MS
        )

    def __getstate__(self) -> dict[str, object]:
        """Pickles one that has not followed a batch yet: compiled producer state cannot be pickled."""
        assert not self._producers.producers
        return {name: value for name, value in vars(self).items() if name != "_producers"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._producers = self._no_producers()

    # -- snapshots --

    def read_snapshots(self) -> None:
        """Reads all snapshots before the log, which only grows. Raises OSError."""
        for offset in self._snapshots.offsets:
            path = self._snapshots.path(offset)
            try:
                self._waiting[offset] = self._snapshots.read(offset)
            except CorruptSnapshotError as error:
                if not self._env.exists(path):
                    continue  # retention took it meanwhile
                self._add_corrupt(offset, error)
            except OSError as error:
                self._findings.unreadable(error, path)
            self._findings.counts.files += 1

    def _add_corrupt(self, offset: int, error: CorruptSnapshotError) -> None:
        """Adds the finding for a snapshot that cannot be read.

        The last one may be empty while a broker is at work, for as long as its thread takes from the creation of the
        file to the write, and after a crash, since a roll does not sync it.
        """
        path = self._snapshots.path(offset)
        problem = without_path(path, error)
        remedy = "a start removes it, and takes the one before it or reads the log"
        severity = Severity.ERROR if self._situation.is_clean else Severity.WARNING
        is_last = offset == self._snapshots.latest_offset
        if is_last and isinstance(error, EmptySnapshotError) and not self._situation.is_clean:
            severity = Severity.NOTE
            problem += ": about to be written, or not flushed before a crash"
        self._findings.add(severity, path, problem, "", remedy, offset=offset)

    def begin(self, first_offset: int) -> None:
        """Starts the log at `first_offset`."""
        self._first_offset = self._next_offset = first_offset

    def go_to(self, base_offset: int, log_path: str) -> None:
        """Starts a segment."""
        self._log_path = log_path
        self._is_followed = True
        if self.is_missing:
            self.begin_again(base_offset)
        elif base_offset > self._next_offset:
            self.gap_before(base_offset)

    def missed(self) -> None:
        """To be called before unreadable batches; snapshots up to here can be checked."""
        self._check_snapshots(self._next_offset)
        self.is_missing = self.has_missed = True
        self._is_followed = False

    def begin_again(self, first_offset: int) -> None:
        """To be called after unreadable batches before `first_offset`, which count as deleted."""
        self.is_missing, self.has_missed = False, True
        self._producers = self._no_producers()
        self._aborted, self._markers = [], set()
        self._waiting = {offset: saved for offset, saved in self._waiting.items() if offset > first_offset}
        self.begin(first_offset)

    def reached(self, offset: int) -> None:
        """Whether all batches up to an offset were read, without gaps, and none was a producer's."""
        self._next_offset = offset

    def gap_before(self, first_offset: int) -> None:
        """To be called when offsets are missing before, or within, the next batch."""
        self.has_gaps = True
        self._check_snapshots(first_offset)

    def take(self, batch: Batch) -> None:
        """Checks the snapshots before a batch, then follows the batch."""
        first = batch.base_offset if isinstance(batch, RecordBatch) else batch.last_offset
        if self.is_missing:
            self.begin_again(first)
        if (
            isinstance(batch, RecordBatch)
            and batch.producer_id >= 0
            and batch.is_control
            and not self._note_marker(batch)
        ):
            self.missed()  # which transaction it ends, and how, is not known
            return
        self.has_gaps = self.has_gaps or first > self._next_offset or not is_dense(batch)
        self._next_offset = batch.next_offset
        self._check_snapshots(first)
        if batch.magic != MAGIC_V2 or batch.producer_id < 0 or not isinstance(batch, RecordBatch):
            return
        if not batch.is_control and not self.has_gaps:
            self._check_sequence(batch)
        completed = self._producers.update(batch, batch.base_offset, batch.last_offset)
        if completed is None:
            return
        if completed.is_aborted:
            stable = self._producers.last_stable_offset_after(completed)
            self._aborted.append(
                (completed.producer_id, completed.first_offset, completed.last_offset, stable)
            )
        self._producers.complete_txn(completed)
        self._producers.on_high_watermark_updated(completed.last_offset + 1)

    def _check_sequence(self, batch: RecordBatch) -> None:
        """Checks a batch against the one before it of the same producer.

        Who is new here may begin with any sequence, as his past may have been deleted; so may one of whom there is
        only a marker. A producer that expired (producer.id.expiration.ms) may begin again.
        """
        entry = self._producers.producers.get(batch.producer_id)
        if entry is None or batch.base_sequence < 0:
            return
        is_same = batch.producer_epoch == entry.producer_epoch
        if is_same and (not entry.batches or entry.last_sequence < 0):
            return
        expected = f"epoch {entry.producer_epoch} or a later one, as before it"
        if batch.producer_epoch >= entry.producer_epoch:
            due = (entry.last_sequence + 1) & MAX_SEQUENCE if is_same else 0
            if batch.base_sequence == due:
                return
            expected = f"sequence {due}"
        who = f"producer {batch.producer_id}, epoch {batch.producer_epoch}"
        known = entry.find_duplicate(batch)
        problem = f"{who}, goes on with sequence {batch.base_sequence}"
        severity, remedy = Severity.ERROR, _SEQUENCE_REMEDY
        if batch.base_sequence == 0:
            severity, remedy = Severity.NOTE, "the broker takes it so once it has forgotten the producer"
            problem = f"{who}, begins anew"
        elif known is not None:
            problem = f"{who}, repeats what is at offset {known.first_offset}"
        self._findings.add(
            severity,
            self._log_path,
            problem,
            expected,
            remedy,
            offset=batch.base_offset,
            check=Check.SEQUENCES,
        )

    def _note_marker(self, batch: RecordBatch) -> bool:
        """Records the marker of an abort; whether the batch is readable. Its records are reported elsewhere."""
        try:
            record = next(iter(batch.records()), None)
        except (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError):
            return False
        try:
            is_abort = record is not None and control_record_type(record.key) is ControlRecordType.ABORT
        except InvalidRecordError:
            is_abort = False
        if is_abort:
            self._markers.add((batch.producer_id, batch.last_offset))
        return True

    def _check_snapshots(self, first_offset: int) -> None:
        """Checks the snapshots at or before `first_offset`, whose batches were all read."""
        while self._waiting and (offset := next(iter(self._waiting))) <= first_offset:
            entries = self._waiting.pop(offset)
            if offset >= self._first_offset:
                for entry in entries:
                    self._check_entry(entry, offset)

    def _check_entry(self, saved: SnapshotEntry, offset: int) -> None:
        """Producers that are not in the snapshot may have expired, what they did before the log's start is unknown.

        With gaps, the batches that a snapshot speaks of may have been compacted away since: of each producer only the
        last one of all is kept.
        """
        path = self._snapshots.path(offset)
        known = self._producers.producers.get(saved.producer_id)
        problem = expected = ""
        if max(saved.last_offset, saved.current_txn_first_offset) >= offset:
            problem = f"producer {saved.producer_id} has last offset {saved.last_offset}"
            expected = f"one below {offset}"
        elif known is None:
            if saved.last_offset >= self._first_offset and not self.has_gaps:
                problem = f"producer {saved.producer_id} has last offset {saved.last_offset}"
                expected = "a batch of that producer there"
        elif self.has_gaps and saved.last_offset != known.last_offset:
            # After a marker that began a new epoch there is none; the marker may have been compacted away.
            if 0 <= saved.last_offset < known.last_offset and saved.producer_epoch == known.producer_epoch:
                problem = f"producer {saved.producer_id} has last offset {saved.last_offset}"
                expected = f"{known.last_offset} or more: there is a batch of that producer"
        elif saved.last_offset >= self._first_offset or known.last_offset >= 0:
            problem, expected = self._difference(saved, known)
        if problem:
            is_unflushed = self._situation.is_recovered(offset)
            severity = Severity.WARNING if is_unflushed else Severity.ERROR
            remedy = "a start reads the log instead" if is_unflushed else "a start takes the latest as it is"
            self._findings.add(severity, path, problem, expected, remedy, offset=offset)

    def _difference(self, saved: SnapshotEntry, known: ProducerStateEntry) -> tuple[str, str]:
        last = known.batches[-1] if known.batches else None
        replayed = SnapshotEntry(
            known.producer_id,
            known.producer_epoch,
            known.last_sequence,
            known.last_offset,
            last.offset_delta if last else 0,
            known.last_timestamp,
            known.coordinator_epoch,
            known.current_txn_first_offset,
        )
        for name, text in _FIELDS:
            said, found = getattr(saved, name), getattr(replayed, name)
            # Of a transaction that was open, the beginning may be gone, or all of it.
            is_txn = name == "current_txn_first_offset"
            is_unknown = is_txn and (0 <= said < self._first_offset or self.has_gaps)
            if said != found and not is_unknown:
                return f"producer {saved.producer_id}: {text} {said}", f"{found}, by its batches"
        return "", ""

    def end(self, end_offset: int) -> None:
        """Ends the log at `end_offset`, the end of what was readable."""
        self.has_gaps = self.has_gaps or end_offset > self._next_offset
        if self.is_missing:
            return
        self._check_snapshots(end_offset)
        for offset in self._waiting:
            path = self._snapshots.path(offset)
            expected = f"at most {end_offset}, where the log ends"
            severity = Severity.ERROR if self._situation.is_clean else Severity.WARNING
            self._findings.add(severity, path, f"it is of offset {offset}", expected, REMOVED, offset=offset)

    # -- .txnindex --

    def check_segment(self, segment: "TransactionIndexFile", *, is_read: bool) -> None:
        """Checks the .txnindex of a segment against its aborted transactions, if all of it was readable.

        With gaps in the offsets the log was compacted, and what a transaction had written may be gone: then only what
        can be seen has to agree.
        """
        replayed, markers = self._aborted, self._markers
        self._aborted, self._markers = [], set()
        problems = segment.problems
        if is_read and self._is_followed and segment.entries is not None:
            problems = _txn_problems(segment, replayed, markers, self.has_gaps, self._first_offset)
        is_rebuilt = self._situation.is_recovered(segment.end_offset, is_active=segment.is_active)
        severity = Severity.WARNING if is_rebuilt else Severity.ERROR
        remedy = REBUILT if is_rebuilt else "a start takes it as it is; readers at read_committed go wrong"
        for problem, expected, offset in problems:
            self._findings.add(severity, segment.path, problem, expected, remedy, offset=offset)


class TransactionIndexFile:
    """The entries of a .txnindex, read before the .log; none without a file.

    `entries` is None where they make no sense, and `problems` says why.
    """

    def __init__(self, directory: str, base_offset: int, data: bytes | None, *, is_active: bool) -> None:
        """`data`: the content of the file, None without one."""
        self.path = segment_path(directory, base_offset, TXN_INDEX_SUFFIX)
        self.data = data
        self.is_active = is_active
        self.end_offset = base_offset
        self.entries: list[Aborted] | None = []
        self.problems: list[TxnProblem] = []
        if data is not None:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        whole = len(data) // _TXN_ENTRY.size * _TXN_ENTRY.size
        found = list(_TXN_ENTRY.iter_unpack(data[:whole]))
        odd = next((entry[0] for entry in found if entry[0] != 0), None)
        if odd is not None:
            self.problems.append((f"it has an entry of version {odd}", "0", None))
        elif whole != len(data):
            self.problems.append((f"it has {len(data)} bytes", f"a multiple of {_TXN_ENTRY.size}", None))
        self.entries = (
            None if self.problems else [(entry[1], entry[2], entry[3], entry[4]) for entry in found]
        )


def _txn_problems(
    segment: TransactionIndexFile,
    replayed: list[Aborted],
    markers: set[tuple[int, int]],
    has_gaps: bool,
    first_offset: int,
) -> list[TxnProblem]:
    problems: list[TxnProblem] = []
    by_marker = {(entry[0], entry[2]): entry for entry in replayed}
    for entry in segment.entries or []:
        producer_id, first, last, stable = entry
        text = f"it has producer {producer_id}, offsets {first} to {last}, last stable offset {stable}"
        known = by_marker.pop((producer_id, last), None)
        if (producer_id, last) not in markers:
            if last < segment.end_offset:
                problems.append((text, f"an abort marker of that producer at offset {last}", last))
        elif known is None:
            if first >= first_offset and not has_gaps:
                problems.append((text, "a transaction that was open at that marker", last))
        elif has_gaps:
            if first > known[1]:
                problems.append((text, f"first offset {known[1]} or less", last))
        elif first != known[1] and first >= first_offset:
            problems.append((text, f"first offset {known[1]}", last))
        elif stable > known[3] or (stable != known[3] and stable >= first_offset):
            problems.append((text, f"last stable offset {known[3]}", last))
    if not has_gaps:
        for producer_id, first, last, _ in by_marker.values():
            text = f"it lacks the abort of producer {producer_id}, offsets {first} to {last}"
            problems.append((text, "an entry for it", last))
    return problems

"""Verification of a partition's directory: file names, segments in order, epochs, producers, topic id."""

import re
from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.protocol.records.batch import RecordBatch
from barnabas.storage.env import Env
from barnabas.storage.errors import CorruptCheckpointError
from barnabas.storage.log.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    PartitionMetadataFile,
)
from barnabas.storage.log.producer_snapshots import SNAPSHOT_SUFFIX
from barnabas.storage.log.segment_swap import CLEANED_SUFFIX, SWAP_SUFFIX
from barnabas.storage.segment.batch_reading import Batch
from barnabas.storage.segment.names import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    segment_path,
)
from barnabas.storage.verify.detached import SegmentVerification, replay, verify_segment
from barnabas.storage.verify.epochs import EpochsVerifier
from barnabas.storage.verify.producers import ProducersVerifier, TransactionIndexFile
from barnabas.storage.verify.segment import SegmentOutcome
from barnabas.storage.verify.verifier import (
    LEFT_ALONE,
    REMOVED,
    Check,
    Findings,
    OnProgress,
    RecurringFindings,
    Situation,
    without_path,
)

PASSES: Final = 3
_INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_KNOWN: Final = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA})
_STEM: Final = re.compile(r"\d{20}")
_KRAFT: Final = re.compile(r"quorum-state|\d{20}-\d{10}(\.checkpoint(\.deleted)?|-\w+\.checkpoint\.part)")
_REMOTE: Final = re.compile(r"remote_log_snapshot|remote-log-.*")


Fingerprint = list[tuple[str, int]]
"""The names in a directory with sizes (-1: removed meanwhile)."""


class LogRange(NamedTuple):
    """The start and end offset of a log by its batches, -1 without a segment; gaps suggest compaction."""

    start_offset: int
    end_offset: int
    has_gaps: bool


def verify_partition(
    env: Env,
    directory: str,
    situation: Situation,
    situation_now: Callable[[], Situation],
    *,
    is_deep: bool,
    on_progress: OnProgress,
) -> tuple[Findings, LogRange]:
    """The findings in a partition, and the range of its log.

    While files change, findings have to recur in three passes, unless all are notes: a running broker deletes, rolls,
    truncates and compacts. `situation_now` is called before the second and the third pass.
    Raises OSError.
    """
    before = fingerprint(env, directory)
    partition = PartitionVerifier(env, directory, situation, is_deep=is_deep, on_progress=on_progress)
    partition.run()
    return confirmed(env, directory, partition, before, situation_now, is_deep=is_deep)


def confirmed(
    env: Env,
    directory: str,
    partition: "PartitionVerifier",
    before: Fingerprint,
    situation_now: Callable[[], Situation],
    *,
    is_deep: bool,
) -> tuple[Findings, LogRange]:
    """The findings of a first pass, begun with the directory as in `before`, that a later pass repeats."""
    recurring = RecurringFindings(partition.findings.all)
    for _ in range(PASSES - 1):
        after = fingerprint(env, directory)
        if partition.findings.are_only_notes or after == before:
            break
        before = after
        partition = PartitionVerifier(
            env, directory, situation_now(), is_deep=is_deep, on_progress=lambda _: None
        )
        partition.run()
        recurring.keep_repeated(partition.findings.all)
    partition.findings.all = recurring.all
    return partition.findings, partition.range


def unreadable(directory: str, error: OSError) -> tuple[Findings, LogRange]:
    """The finding for a partition that the operating system cannot read."""
    findings = Findings(directory)
    findings.counts.partitions += 1
    findings.unreadable(error)
    return findings, LogRange(-1, -1, has_gaps=False)


def fingerprint(env: Env, directory: str) -> Fingerprint:
    """The names in a directory, and the sizes of files that appends do not change."""
    found = []
    for name in sorted(env.listdir(directory)):
        try:
            found.append((name, env.size(f"{directory}/{name}")))
        except FileNotFoundError:
            found.append((name, -1))
    return found


class PartitionVerifier:
    """One pass over one partition's directory."""

    def __init__(
        self, env: Env, directory: str, situation: Situation, *, is_deep: bool, on_progress: OnProgress
    ) -> None:
        self._env = env
        self._directory = directory
        self._situation = situation
        self._is_deep = is_deep
        self._on_progress = on_progress
        self._names = sorted(env.listdir(directory))
        self.base_offsets: list[int] = []
        self._log_path = directory
        self._has_inner_gaps = bool(situation.cleaner_offset)
        self._is_end_unknown = (
            False  # the segment before could not be read to its end, which has been reported
        )
        self.findings = Findings(directory)
        self._epochs = EpochsVerifier(env, directory, self._names, self.findings, situation)
        self._producers = ProducersVerifier(env, directory, self._names, self.findings, situation)
        self.start_offset = self.end_offset = -1

    @property
    def range(self) -> LogRange:
        """The range of the log."""
        has_gaps = self._producers.has_gaps or self._producers.has_missed
        return LogRange(self.start_offset, self.end_offset, has_gaps)

    def run(self) -> None:
        """Verifies everything in one pass. Raises OSError."""
        self.begin()
        for base in self.base_offsets:
            self._segment(base)
        self.end()

    def begin(self) -> None:
        """Reads what must be read before the .log files: names, epochs, snapshots. Raises OSError.

        After that each of `base_offsets` is taken, in order, and then comes `end`.
        """
        self.findings.counts.partitions += 1
        self._check_names()
        self._read_topic_id()
        self._epochs.read()
        self._producers.read_snapshots()
        stems = [name[:20] for name in self._names if name[20:] == LOG_SUFFIX and _STEM.fullmatch(name[:20])]
        bases = [int(stem) for stem in stems]
        if not bases:
            self.findings.warning(
                self._directory, "there is no segment", "at least one .log", "a start makes an empty one"
            )
            return
        self.start_offset = self.end_offset = bases[0]
        self.base_offsets = bases
        self._epochs.begin(bases)
        self._producers.begin(bases[0])

    def end(self) -> None:
        """To be called after the last segment."""
        if self.base_offsets:
            self._producers.end(self.end_offset)
            self._epochs.end(self.end_offset, is_read=not self._producers.is_missing)

    def is_active(self, base_offset: int) -> bool:
        """Whether it is the active segment."""
        return base_offset == self.base_offsets[-1]

    # -- names --

    def _check_names(self) -> None:
        self._note_deleted([name for name in self._names if name.endswith(DELETED_SUFFIX)])
        for name in self._names:
            path = f"{self._directory}/{name}"
            if self._env.is_dir(path):
                self.findings.warning(path, "a directory that is none of a log's", "", LEFT_ALONE)
            elif name.endswith(".tmp"):
                self.findings.note(path, "about to replace another file", "", REMOVED)
            elif name.endswith(CLEANED_SUFFIX):
                self.findings.note(path, "being written by compaction, or left of one", "", REMOVED)
            elif name.endswith(SWAP_SUFFIX):
                self.findings.note(
                    path,
                    "made by compaction, about to take the place of other segments",
                    "",
                    "a start completes that, or takes it back if there is a .cleaned at or before it",
                )
            elif not name.endswith(DELETED_SUFFIX) and not self._is_known(name):
                self.findings.warning(path, "no file of a log", "", LEFT_ALONE)

    def _note_deleted(self, names: list[str]) -> None:
        """Adds one note for all .deleted files, of which retention and compaction leave many."""
        if len(names) == 1:
            self.findings.note(f"{self._directory}/{names[0]}", "on its way out", "", REMOVED)
        elif names:
            what = f"{len(names)} {DELETED_SUFFIX} files are on their way out"
            self.findings.note(self._directory, what, "", "a start removes them")

    def _is_known(self, name: str) -> bool:
        if name in _KNOWN or _KRAFT.fullmatch(name) or _REMOTE.fullmatch(name):
            return True
        stem, suffix = name[:20], name[20:]
        if not _STEM.fullmatch(stem):
            return False
        if suffix in _INDEX_SUFFIXES and stem + LOG_SUFFIX not in self._names:
            path = f"{self._directory}/{name}"
            if self._env.exists(path):
                self.findings.warning(path, "an index without its .log", "", REMOVED)
            return True
        return suffix in (LOG_SUFFIX, SNAPSHOT_SUFFIX, *_INDEX_SUFFIXES)

    def _read_topic_id(self) -> None:
        path = f"{self._directory}/{PARTITION_METADATA}"
        try:
            topic_id = PartitionMetadataFile(self._env, path).read()
        except CorruptCheckpointError as error:
            self.findings.error(
                path,
                without_path(path, error),
                "version 0 and a topic id in base64",
                "a start does not know whose it is",
            )
            return
        except OSError as error:
            self.findings.unreadable(error, path)
            return
        if topic_id is None:
            self.findings.note(path, "there is no such file", "", "a start writes it")
            return
        self.findings.counts.files += 1
        if not any(topic_id):
            self.findings.error(path, "the topic id is all zeros", "that of a topic")

    # -- segments --

    def _segment(self, base_offset: int) -> None:
        """Reads one segment and follows its batches."""
        self._go_to(base_offset)
        segment, transactions = verify_segment(
            self._env,
            self._directory,
            base_offset,
            self.findings,
            situation=self._situation,
            is_active=self.is_active(base_offset),
            is_deep=self._is_deep,
            on_batch=self._batch,
            on_missed=self._producers.missed,
            on_progress=self._on_progress,
        )
        self._close(base_offset, segment, transactions)

    def add(self, verification: SegmentVerification) -> None:
        """Adds the results of a segment that was verified separately, with the same findings as reading it here."""
        self._go_to(verification.base_offset)
        self.findings.all += verification.findings
        self.findings.counts.add(verification.counts)
        if verification.outcome is not None:
            replay(verification, self._producers, self._batch)
        transactions = TransactionIndexFile(
            self._directory,
            verification.base_offset,
            verification.txn_index,
            is_active=self.is_active(verification.base_offset),
        )
        self._close(verification.base_offset, verification.outcome, transactions)

    def _go_to(self, base_offset: int) -> None:
        self._log_path = segment_path(self._directory, base_offset, LOG_SUFFIX)
        self._producers.go_to(base_offset, self._log_path)

    def _close(
        self, base_offset: int, segment: SegmentOutcome | None, transactions: TransactionIndexFile
    ) -> None:
        """Checks a segment against those before it; None if it was deleted."""
        if segment is None or not segment.is_read_through:
            self._producers.missed()
        if segment is None:
            return  # retention or compaction took it since the names were read
        self._check_place(base_offset, segment)
        # Compaction may leave a segment of nothing, whose records were all overwritten later.
        is_emptied = segment.first_offset is None and not self.is_active(base_offset)
        self._has_inner_gaps = self._has_inner_gaps or segment.has_gaps or is_emptied
        transactions.end_offset = segment.next_offset
        self._producers.check_segment(transactions, is_read=segment.is_whole)
        self.end_offset = max(self.end_offset, segment.next_offset)
        self._is_end_unknown = not segment.is_read_through

    def _check_place(self, base_offset: int, segment: SegmentOutcome) -> None:
        if base_offset < self.end_offset:
            self.findings.error(
                self._log_path,
                f"it begins at offset {base_offset}",
                f"{self.end_offset}, where the segment before it ends",
                "a start drops it, if it reads the segment through; readers may see records twice",
                offset=base_offset,
                check=Check.OFFSETS,
            )
        elif base_offset > self.end_offset and not (
            self._has_inner_gaps or segment.has_gaps or self._is_end_unknown
        ):
            # Followers of a compacted log roll at its gaps, and a power cut may take the end of a segment alone.
            self.findings.warning(
                self._log_path,
                f"offsets {self.end_offset} to {base_offset - 1} are missing before it",
                "no gap, unless the log was compacted or a power cut took what was not flushed",
                "a start takes it as it is",
                offset=base_offset,
                check=Check.OFFSETS,
            )

    def _batch(self, batch: Batch) -> None:
        self._producers.take(batch)
        if isinstance(batch, RecordBatch):
            has_gaps = self._producers.has_gaps or self._producers.has_missed
            self._epochs.take(batch, self._log_path, has_gaps=has_gaps)

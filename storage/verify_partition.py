"""Verification of a partition's directory: its names, its segments one after the other, epochs, producers, topic id."""

import math
import re
from collections.abc import Callable
from typing import Final, NamedTuple

from protocol.records.batch import RecordBatch
from storage.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    LeaderEpochCheckpointFile,
    PartitionMetadataFile,
)
from storage.env import Env
from storage.errors import CorruptCheckpointError
from storage.offsets import NO_LEADER_EPOCH
from storage.segment_files import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)
from storage.segment_swap import CLEANED_SUFFIX, SWAP_SUFFIX
from storage.snapshots import SNAPSHOT_SUFFIX
from storage.verify import LEFT_ALONE, REMOVED, Findings, OnProgress, SameAgain, Severity, Situation
from storage.verify_producers import ProducersVerifier, TransactionIndexFile
from storage.verify_segment import Batch, SegmentVerifier

LOOKS: Final = 3
_INDEX_SUFFIXES: Final = (OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)
_KNOWN: Final = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA})
_STEM: Final = re.compile(r"\d{20}")
_KRAFT: Final = re.compile(r"quorum-state|\d{20}-\d{10}(\.checkpoint(\.deleted)?|-\w+\.checkpoint\.part)")
_REMOTE: Final = re.compile(r"remote_log_snapshot|remote-log-.*")


class LogRange(NamedTuple):
    """Where a log begins and ends by its batches, -1 where it has no segment; with gaps it was compacted, it seems."""

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
    """The findings in a partition, and where its log is.

    Findings other than notes have to be made again at each of three looks, as long as files change in between: a broker
    at work deletes, rolls, truncates and compacts. `situation_now` is asked before the second look and the third.
    Raises OSError.
    """
    before = _fingerprint(env, directory)
    partition = PartitionVerifier(env, directory, situation, is_deep=is_deep, on_progress=on_progress)
    partition.run()
    again = SameAgain(partition.findings.all)
    for _ in range(LOOKS - 1):
        after = _fingerprint(env, directory)
        if partition.findings.are_only_notes or after == before:
            break
        before = after
        partition = PartitionVerifier(
            env, directory, situation_now(), is_deep=is_deep, on_progress=lambda _: None
        )
        partition.run()
        again.look(partition.findings.all)
    partition.findings.all = again.all
    return partition.findings, partition.range


def _fingerprint(env: Env, directory: str) -> list[tuple[str, int]]:
    """The names in a directory and their sizes, as far as those do not change by appending."""
    found = []
    for name in sorted(env.listdir(directory)):
        try:
            found.append((name, env.size(f"{directory}/{name}")))
        except FileNotFoundError:
            found.append((name, -1))
    return found


class PartitionVerifier:
    """One look at one partition's directory."""

    __slots__ = (
        "_directory",
        "_env",
        "_epochs",
        "_has_inner_gaps",
        "_is_deep",
        "_latest_epoch",
        "_log_path",
        "_names",
        "_on_progress",
        "_producers",
        "_read_again_from",
        "_situation",
        "end_offset",
        "findings",
        "start_offset",
    )

    def __init__(
        self, env: Env, directory: str, situation: Situation, *, is_deep: bool, on_progress: OnProgress
    ) -> None:
        self._env = env
        self._directory = directory
        self._situation = situation
        self._is_deep = is_deep
        self._on_progress = on_progress
        self._names = sorted(env.listdir(directory))
        self._epochs: list[tuple[int, int]] | None = None
        self._latest_epoch = NO_LEADER_EPOCH
        self._log_path = directory
        self._has_inner_gaps = bool(situation.cleaner_offset)
        self._read_again_from: float = math.inf
        self.findings = Findings(directory)
        self._producers = ProducersVerifier(env, directory, self._names, self.findings, situation)
        self.start_offset = self.end_offset = -1

    @property
    def range(self) -> LogRange:
        """Where the log is."""
        return LogRange(self.start_offset, self.end_offset, self._producers.has_gaps)

    def run(self) -> None:
        """Looks at everything. Raises OSError."""
        self.findings.counts.partitions += 1
        self._check_names()
        self._read_topic_id()
        self._read_epochs()
        self._producers.read_snapshots()
        stems = [name[:20] for name in self._names if name[20:] == LOG_SUFFIX and _STEM.fullmatch(name[:20])]
        bases = [int(stem) for stem in stems]
        if not bases:
            self.findings.warning(
                self._directory, "there is no segment", "at least one .log", "a start makes an empty one"
            )
            return
        self.start_offset = self.end_offset = bases[0]
        if self._situation.is_recovered(bases[-1], is_active=True):
            recovery_point = self._situation.recovery_point or 0
            self._read_again_from = max((base for base in bases if base <= recovery_point), default=bases[0])
        self._producers.begin(bases[0])
        for number, base in enumerate(bases):
            self._segment(base, is_active=number == len(bases) - 1)
        self._producers.end(self.end_offset)
        self._check_latest_epochs()

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
        """One note for all of them: retention and compaction leave them by the dozen."""
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
                _without(path, error),
                "version 0 and a topic id in base64",
                "a start does not know whose it is",
            )
            return
        if topic_id is None:
            self.findings.note(path, "there is no such file", "", "a start writes it")
            return
        self.findings.counts.files += 1
        if not any(topic_id):
            self.findings.error(path, "the topic id is all zeros", "that of a topic")

    # -- segments --

    def _segment(self, base_offset: int, *, is_active: bool) -> None:
        self._log_path = f"{self._directory}/{base_offset:020d}{LOG_SUFFIX}"
        transactions = TransactionIndexFile(
            self._env, self._directory, base_offset, self.findings, is_active=is_active
        )
        segment = SegmentVerifier(
            self._env,
            self._directory,
            base_offset,
            self.findings,
            situation=self._situation,
            is_active=is_active,
            is_deep=self._is_deep,
            on_batch=self._batch,
            on_progress=self._on_progress,
        )
        try:
            segment.run()
        except FileNotFoundError:
            if self._env.exists(self._log_path):
                raise
            self._producers.is_trusted = False  # retention or compaction took it since the names were read
            return
        self._check_place(base_offset, segment)
        if not segment.is_whole:
            self._producers.is_trusted = False
        # Compaction may leave a segment of nothing, whose records were all overwritten later.
        is_emptied = segment.first_offset is None and not is_active
        self._has_inner_gaps = self._has_inner_gaps or segment.has_gaps or is_emptied
        transactions.end_offset = segment.next_offset
        self._producers.check_segment(transactions)
        self.end_offset = max(self.end_offset, segment.next_offset)

    def _check_place(self, base_offset: int, segment: SegmentVerifier) -> None:
        if base_offset < self.end_offset:
            self.findings.error(
                self._log_path,
                f"it begins at offset {base_offset}",
                f"{self.end_offset}, where the segment before it ends",
                "a start drops it, if it reads the segment through; readers may see records twice",
                offset=base_offset,
            )
        elif base_offset > self.end_offset and not (self._has_inner_gaps or segment.has_gaps):
            # Followers of a compacted log roll at its gaps, and a power cut may take the end of a segment alone.
            self.findings.warning(
                self._log_path,
                f"offsets {self.end_offset} to {base_offset - 1} are missing before it",
                "no gap, unless the log was compacted or a power cut took what was not flushed",
                "a start takes it as it is",
                offset=base_offset,
            )

    def _batch(self, batch: Batch) -> None:
        if not self._producers.is_trusted:
            return
        self._producers.take(batch)
        if isinstance(batch, RecordBatch):
            self._check_epoch(batch)

    # -- leader epochs --

    def _read_epochs(self) -> None:
        path = f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"
        if LEADER_EPOCH_CHECKPOINT not in self._names:
            return
        self.findings.counts.files += 1
        try:
            self._epochs = LeaderEpochCheckpointFile(self._env, path).read()
        except CorruptCheckpointError as error:
            self.findings.error(
                path,
                _without(path, error),
                "epochs and offsets that increase",
                "a start knows epochs from the recovery point on only",
            )
            return
        for before, after in zip(self._epochs, self._epochs[1:], strict=False):
            if after[0] <= before[0] or after[1] <= before[1]:
                self.findings.error(
                    path, f"epoch {after[0]} begins at {after[1]} after epoch {before[0]} at {before[1]}"
                )

    def _check_epoch(self, batch: RecordBatch) -> None:
        """Holds a batch's epoch against the epochs before it and those in the file."""
        epoch = batch.partition_leader_epoch
        if epoch in {self._latest_epoch, NO_LEADER_EPOCH}:
            return
        if epoch < self._latest_epoch:
            self.findings.error(
                self._log_path,
                f"the batch is of leader epoch {epoch}",
                f"{self._latest_epoch} or a later one, as before it",
                "a start takes it as it is",
                offset=batch.base_offset,
            )
            self._latest_epoch = epoch  # it is told once
            return
        self._latest_epoch = epoch
        self._check_epoch_start(epoch, batch.base_offset)

    def _check_epoch_start(self, epoch: int, base_offset: int) -> None:
        """The first batch of an epoch: the file has to know that it began there, or before in a compacted log."""
        if self._epochs is None or (not self._epochs and not self._situation.is_clean):
            return
        starts = dict(self._epochs)
        if epoch not in starts:
            # Epochs are written when the log is flushed; what ended before the log's start is not needed.
            is_before_all = base_offset < (self._situation.log_start_offset or 0) or (
                bool(self._epochs) and epoch < self._epochs[0][0]
            )
            if not is_before_all and not self._is_read_again(base_offset):
                self._wrong_epoch(f"epoch {epoch} is missing", f"that it began at {base_offset}", base_offset)
            return
        start = starts[epoch]
        is_first = self._epochs[0][0] == epoch
        if start > base_offset and not is_first:
            self._wrong_epoch(f"epoch {epoch} begins at {start}", f"{base_offset} or before", base_offset)
        elif start < base_offset and not self._producers.has_gaps and base_offset > self.start_offset:
            self._wrong_epoch(
                f"epoch {epoch} begins at {start}", f"{base_offset}, by its first batch", base_offset
            )

    def _is_read_again(self, offset: int) -> bool:
        """Whether a start finds what is at `offset` in the batches: it reads whole segments."""
        return self._situation.is_recovered(offset) or offset >= self._read_again_from

    def _wrong_epoch(self, problem: str, expected: str, base_offset: int) -> None:
        path = f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"
        is_read_again = self._is_read_again(base_offset)
        severity = Severity.WARNING if is_read_again else Severity.ERROR
        remedy = "a start takes it from the batches" if is_read_again else "a start takes it as it is"
        self.findings.add(severity, path, problem, expected, remedy)

    def _check_latest_epochs(self) -> None:
        path = f"{self._directory}/{LEADER_EPOCH_CHECKPOINT}"
        if LEADER_EPOCH_CHECKPOINT not in self._names:
            if self._latest_epoch >= 0 and self._situation.is_clean:
                remedy = "a start knows epochs from the next append on only"
                self.findings.warning(
                    path, "there is no such file, and batches have leader epochs", "", remedy
                )
            return
        for epoch, start in self._epochs or []:
            if start > self.end_offset and self._producers.is_trusted:
                self.findings.add(
                    Severity.ERROR if self._situation.is_clean else Severity.WARNING,
                    path,
                    f"epoch {epoch} begins at {start}",
                    f"at most {self.end_offset}, where the log ends",
                    "a start forgets it",
                )


def _without(path: str, error: Exception) -> str:
    """The message without the path, which a finding has already."""
    return str(error).removeprefix(path).lstrip(": ")

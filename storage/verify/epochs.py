"""Verification of leader-epoch-checkpoint against the batches, which are read in order."""

import math
from collections.abc import Sequence

from barnabas.protocol.records.batch import RecordBatch
from barnabas.storage.env import Env
from barnabas.storage.errors import CorruptCheckpointError
from barnabas.storage.log.checkpoints import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpointFile
from barnabas.storage.offsets import NO_LEADER_EPOCH
from barnabas.storage.verify.verifier import Check, Findings, Severity, Situation, without_path


class EpochsVerifier:
    """The epochs of one partition."""

    def __init__(
        self, env: Env, directory: str, names: Sequence[str], findings: Findings, situation: Situation
    ) -> None:
        """`names`: the content of the directory."""
        self._env = env
        self._path = f"{directory}/{LEADER_EPOCH_CHECKPOINT}"
        self._is_there = LEADER_EPOCH_CHECKPOINT in names
        self._findings = findings
        self._situation = situation
        self._epochs: list[tuple[int, int]] | None = None
        self._latest_epoch = NO_LEADER_EPOCH
        self._read_again_from: float = math.inf
        self._start_offset = 0

    def begin(self, base_offsets: Sequence[int]) -> None:
        """Sets the base offsets of the segments."""
        self._start_offset = base_offsets[0]
        if self._situation.is_recovered(base_offsets[-1], is_active=True):
            recovery_point = self._situation.recovery_point or 0
            self._read_again_from = max(
                (base for base in base_offsets if base <= recovery_point), default=base_offsets[0]
            )

    def read(self) -> None:
        """Reads the file, before the log, which only grows."""
        if not self._is_there:
            return
        self._findings.counts.files += 1
        try:
            self._epochs = LeaderEpochCheckpointFile(self._env, self._path).read()
        except CorruptCheckpointError as error:
            self._findings.error(
                self._path,
                without_path(self._path, error),
                "epochs and offsets that increase",
                "a start knows epochs from the recovery point on only",
            )
            return
        except OSError as error:
            self._findings.unreadable(error, self._path)
            return
        for before, after in zip(self._epochs, self._epochs[1:], strict=False):
            if after[0] <= before[0] or after[1] <= before[1]:
                self._findings.error(
                    self._path,
                    f"epoch {after[0]} begins at {after[1]} after epoch {before[0]} at {before[1]}",
                )

    def take(self, batch: RecordBatch, log_path: str, *, has_gaps: bool) -> None:
        """Checks a batch's epoch against earlier ones and those in the file."""
        epoch = batch.partition_leader_epoch
        if epoch in {self._latest_epoch, NO_LEADER_EPOCH}:
            return
        if epoch < self._latest_epoch:
            self._findings.error(
                log_path,
                f"the batch is of leader epoch {epoch}",
                f"{self._latest_epoch} or a later one, as before it",
                "a start takes it as it is",
                offset=batch.base_offset,
                check=Check.LEADER_EPOCHS,
            )
            self._latest_epoch = epoch  # reported once
            return
        self._latest_epoch = epoch
        self._check_start(epoch, batch.base_offset, has_gaps=has_gaps)

    def _check_start(self, epoch: int, base_offset: int, *, has_gaps: bool) -> None:
        """Checks that the file has an epoch at its first batch, or before it in a compacted log."""
        if self._epochs is None or (not self._epochs and not self._situation.is_clean):
            return
        starts = dict(self._epochs)
        if epoch not in starts:
            # Epochs are written when the log is flushed; what ended before the log's start is not needed.
            is_before_all = base_offset < (self._situation.log_start_offset or 0) or (
                bool(self._epochs) and epoch < self._epochs[0][0]
            )
            if not is_before_all and not self._is_read_again(base_offset):
                self._wrong(f"epoch {epoch} is missing", f"that it began at {base_offset}", base_offset)
            return
        start = starts[epoch]
        is_first = self._epochs[0][0] == epoch
        if start > base_offset and not is_first:
            self._wrong(f"epoch {epoch} begins at {start}", f"{base_offset} or before", base_offset)
        elif start < base_offset and not has_gaps and base_offset > self._start_offset:
            self._wrong(f"epoch {epoch} begins at {start}", f"{base_offset}, by its first batch", base_offset)

    def _is_read_again(self, offset: int) -> bool:
        """Whether recovery at a start reads the batch at `offset`; it scans whole segments."""
        return self._situation.is_recovered(offset) or offset >= self._read_again_from

    def _wrong(self, problem: str, expected: str, base_offset: int) -> None:
        is_read_again = self._is_read_again(base_offset)
        severity = Severity.WARNING if is_read_again else Severity.ERROR
        remedy = "a start takes it from the batches" if is_read_again else "a start takes it as it is"
        self._findings.add(severity, self._path, problem, expected, remedy)

    def end(self, end_offset: int, *, is_read: bool) -> None:
        """Ends the log at `end_offset`, if all of its last segment was readable."""
        if not self._is_there:
            if self._latest_epoch >= 0 and self._situation.is_clean:
                remedy = "a start knows epochs from the next append on only"
                self._findings.warning(
                    self._path, "there is no such file, and batches have leader epochs", "", remedy
                )
            return
        for epoch, start in self._epochs or []:
            if start > end_offset and is_read:
                self._findings.add(
                    Severity.ERROR if self._situation.is_clean else Severity.WARNING,
                    self._path,
                    f"epoch {epoch} begins at {start}",
                    f"at most {end_offset}, where the log ends",
                    "a start forgets it",
                )

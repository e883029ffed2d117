"""LeaderEpochFileCache: which leader epoch wrote which offsets (KIP-101).

Kept in memory as two parallel, increasing lists and on disk in leader-epoch-checkpoint (`checkpoints`). The file may
lag behind: it is written before the recovery point passes the first batch of an epoch, and recovery reads later epochs
from the batches. Loading removes entries beyond the end of the log.
"""

from bisect import bisect_left, bisect_right
from typing import Final

from barnabas.storage.log.checkpoints import LeaderEpochCheckpointFile
from barnabas.storage.log.flush import FlushJob
from barnabas.storage.offsets import EpochEndOffset

UNDEFINED_EPOCH: Final = -1


class LeaderEpochFileCache:
    """The epochs of one log."""

    __slots__ = ("_checkpoint", "_epochs", "_starts", "is_dirty", "latest_epoch")

    def __init__(
        self, checkpoint: LeaderEpochCheckpointFile, entries: list[tuple[int, int]] | None = None
    ) -> None:
        self._checkpoint = checkpoint
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest_epoch = UNDEFINED_EPOCH
        self.is_dirty = False
        for epoch, start_offset in entries or []:
            self._put(epoch, start_offset)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def _put(self, epoch: int, start_offset: int) -> None:
        """Adds an entry, after dropping those that contradict it: later epochs, or same or later offsets."""
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start_offset))
        del self._epochs[keep:], self._starts[keep:]
        self._epochs.append(epoch)
        self._starts.append(start_offset)
        self.latest_epoch = epoch

    def assign(self, epoch: int, start_offset: int) -> None:
        """Adds `epoch`, which begins at `start_offset`, unless it is the latest and began before.

        In memory only: the next flush of the log writes it (`is_dirty`), and until then recovery reads the epoch from
        the batches, which are beyond the recovery point too.
        """
        if epoch == self.latest_epoch and start_offset >= self._starts[-1]:
            return
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} at offset {start_offset}")
        self._put(epoch, start_offset)
        self.is_dirty = True

    def flush(self) -> None:
        """Writes the file; durable on return."""
        self._checkpoint.write(self.entries)
        self.is_dirty = False

    def hand_to(self, job: FlushJob) -> None:
        """Has a flush write the file instead; the recovery point waits for it."""
        job.include_epochs(self._checkpoint, self.entries)
        self.is_dirty = False

    def update_directory(self, directory: str) -> None:
        """Follows a rename of the partition's directory, also for a flush in progress, which would otherwise write into
        the directory of the next log of the same name.
        """
        self._checkpoint.move_to(directory)

    def epoch_for_offset(self, offset: int) -> int:
        """The epoch that wrote `offset`; -1 if unknown."""
        position = bisect_right(self._starts, offset)
        return self._epochs[position - 1] if position else UNDEFINED_EPOCH

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset | None:
        """The largest epoch at or below the requested one, and its end offset; None if the log cannot know.

        requested                  | result
        ---------------------------+------------------------------------------------
        the latest                 | the latest, the log end offset
        beyond the latest, or none | None
        below the first            | as requested, start of the first
        any other                  | largest epoch <= requested, start of the next
        """
        if epoch == self.latest_epoch and self._epochs:
            return EpochEndOffset(epoch, log_end_offset)
        higher = bisect_right(self._epochs, epoch)
        if epoch == UNDEFINED_EPOCH or higher == len(self._epochs):
            return None
        return EpochEndOffset(self._epochs[higher - 1] if higher else epoch, self._starts[higher])

    def replace(self, entries: list[tuple[int, int]]) -> None:
        """Takes other (epoch, start offset), oldest first. In memory only, as `assign`."""
        self._epochs = [epoch for epoch, _ in entries]
        self._starts = [start for _, start in entries]
        self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        self.is_dirty = True

    def take_over(self, other: "LeaderEpochFileCache") -> None:
        """Copies the epochs of another log. In memory only, as `assign`."""
        self.replace(other.entries)

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes epochs that begin at or after `end_offset`.

        In memory only, as `assign`: loading removes entries beyond the end of the log, and the file is written before
        the recovery point passes later appends.
        """
        keep = bisect_left(self._starts, end_offset)
        if end_offset >= 0 and keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
            self.is_dirty = True

    def truncate_from_start(self, start_offset: int) -> None:
        """Removes epochs that end at or before `start_offset`; the first remaining one then starts there."""
        position = bisect_right(self._starts, start_offset) - 1
        if position < 0 or (position == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:position], self._starts[:position]
        self._starts[0] = start_offset
        self.is_dirty = True

    def clear_and_flush(self) -> None:
        """Removes all entries, when the log was emptied."""
        if self._epochs:
            self._epochs, self._starts, self.latest_epoch = [], [], UNDEFINED_EPOCH
            self.flush()

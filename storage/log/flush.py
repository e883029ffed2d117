"""FlushJob: one fsync round of a log, in three steps, so that the second one can leave the event loop.

`log.prepare_flush()` collects on the loop what must be synced; `job.run()` only syncs and may run in a thread;
`log.complete_flush(job)` moves the recovery point, back on the loop. Appends continue meanwhile, and the recovery point
moves at most to the log end offset of the first step.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.storage.env import Env, File, sync_path
from barnabas.storage.errors import is_fault_of_disk, is_out_of_descriptors
from barnabas.storage.log.checkpoints import LeaderEpochCheckpointFile

if TYPE_CHECKING:
    from barnabas.storage.segment.segment import LogSegment


class FlushJob:
    """The files of one round. Made by `LocalLog.prepare_flush` for `UnifiedLog.prepare_flush`."""

    def __init__(
        self,
        env: Env,
        *,
        up_to_offset: int,
        generation: int,
        files: list[File],
        paths: list[str],
        unsynced_paths: Sequence[str] = (),
        directory: str | None,
        sealed_segments: "Sequence[LogSegment]",
    ) -> None:
        self._env = env
        self._files = files
        self._paths = [*paths, *unsynced_paths]
        self._directory = directory
        self._epoch_checkpoint: LeaderEpochCheckpointFile | None = None
        self._epochs: list[tuple[int, int]] = []
        self.up_to_offset = up_to_offset
        self.generation = generation
        self.unsynced_paths = unsynced_paths
        self.sealed_segments = sealed_segments
        self.error: OSError | None = None
        self.put_off_by: OSError | None = None  # no descriptor, or no room for epochs, but no failed fsync
        self.is_done = False

    def include_epochs(self, checkpoint: LeaderEpochCheckpointFile, epochs: list[tuple[int, int]]) -> None:
        """Adds the leader epochs: the recovery point must not pass an epoch that is not on disk."""
        self._epoch_checkpoint = checkpoint
        self._epochs = epochs

    def run(self) -> None:
        """Syncs. Never raises: it stores the error, which `complete_flush` raises on the loop."""
        try:
            for file in self._files:
                file.sync()
            for path in self._paths:
                self._sync_path(path)
            if self._directory is not None:
                self._sync_directory(self._directory)
            if self._epoch_checkpoint is not None:
                self._write_epochs(self._epoch_checkpoint)
        except OSError as error:
            if is_out_of_descriptors(error):
                self.put_off_by = error
            else:
                self.error = error
        self.is_done = True

    def _sync_path(self, path: str) -> None:
        try:
            sync_path(self._env, path)
        except FileNotFoundError:
            return  # deleted, or renamed for deletion, since the job was prepared

    def _sync_directory(self, directory: str) -> None:
        try:
            self._env.sync_dir(directory)
        except FileNotFoundError:
            return  # the partition was deleted meanwhile

    def _write_epochs(self, checkpoint: LeaderEpochCheckpointFile) -> None:
        try:
            checkpoint.write(self._epochs)
        except FileNotFoundError:
            return  # the partition was deleted meanwhile
        except OSError as error:
            if is_fault_of_disk(error):
                raise
            self.put_off_by = error

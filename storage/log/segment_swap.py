"""Swaps a cleaned segment into the log: its files are named .cleaned, then .swap, then as the segment.

In Kafka's order (LocalLog.replaceSegments), so that loading completes or reverts it after a crash at any step:

    0  the directory is locked, other .cleaned files are removed, and the segments that were read are synced
       (`SwapClaim`)
    1  the worker has written and synced `<base offset>.log.cleaned` and its indexes
    2  all of them are renamed to .swap, the .log last; the directory is synced (`SwapPreparation`, off the event loop)
    3  the old segments' files are renamed to .deleted, oldest first
    4  the .swap files are renamed, the .log first (3 and 4: `LocalLog.replace_segments`, without interruption)

    after a crash there is                | and loading
    --------------------------------------+--------------------------------------------------------------------
    a .cleaned                            | removes it, and each .swap whose base offset is not below it
    a .log.swap                           | removes the segments whose offsets lie within it, then continues with 4
    another .swap without its .log.swap   | renames it, as its .log was already
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from threading import Lock
from typing import TYPE_CHECKING, Final

from barnabas.storage.env import Env, remove_if_exists
from barnabas.storage.env import Lock as DirectoryLock
from barnabas.storage.errors import is_out_of_descriptors
from barnabas.storage.segment.names import LOG_SUFFIX, SEGMENT_SUFFIXES, TXN_INDEX_SUFFIX, segment_path
from barnabas.storage.segment.scan import batch_headers

if TYPE_CHECKING:
    from barnabas.storage.log.cleaning_plan import CleanedSegment

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"


class DirectoryBusyError(OSError):
    """Another process holds the partition's directory: the worker of a broker that was just killed."""


class SwapClaim:
    """Step 0. `run` is safe in a thread.

    A stray .cleaned would lose data: loading would revert a swap whose old segments are already deleted. Workers hold
    the same lock while they write, so that no new one appears after `run`.

    Compaction drops a record because a later one has its key, so the later one must be durable first, or a power cut
    would lose both: `paths_to_sync` are the segments that were read and that no flush has covered.
    """

    def __init__(
        self,
        env: Env,
        directory: str,
        cleaned: "Sequence[CleanedSegment]",
        paths_to_sync: Sequence[str] = (),
    ) -> None:
        self._env = env
        self._directory = directory
        self._paths_to_sync = paths_to_sync
        self.has_sync_failed = False
        self._base_offsets = {segment.base_offset for segment in cleaned}
        self._lock: DirectoryLock | None = None

    def run(self) -> None:
        """Raises DirectoryBusyError, OSError."""
        self._lock = lock_directory(self._env, self._directory)
        for name in _listed(self._env, self._directory):
            is_ours = name[:20].isdigit() and int(name[:20]) in self._base_offsets
            if name.endswith(CLEANED_SUFFIX) and not is_ours:
                self._env.remove(f"{self._directory}/{name}")
        try:
            self._sync()
        except OSError as error:
            # A second fsync would not report what the first has lost; without a descriptor there was none yet.
            self.has_sync_failed = not is_out_of_descriptors(error)
            raise

    def _sync(self) -> None:
        for path in self._paths_to_sync:
            with closing(self._env.open(path)) as file:
                file.sync()
        if self._paths_to_sync:
            self._env.sync_dir(self._directory)

    def release(self) -> None:
        """Unlocks the directory. Idempotent."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()


def lock_directory(env: Env, directory: str) -> DirectoryLock:
    """Locks a partition's directory against other cleaning processes. Raises DirectoryBusyError, OSError."""
    lock = env.lock_dir(directory)
    if lock is None:
        raise DirectoryBusyError(f"another process is compacting {directory}")
    return lock


class SwapPreparation:
    """Step 2 for one cleaned segment. `run` is safe in a thread, and `cancel` at any time beside it."""

    def __init__(self, env: Env, directory: str, cleaned: "CleanedSegment") -> None:
        self._env = env
        self._directory = directory
        self._lock = Lock()
        self._is_cancelled = False
        self.cleaned = cleaned
        self.is_done = False

    def run(self) -> None:
        """Renames and syncs; does nothing after `cancel`. Raises OSError, after it has reverted the renames."""
        with self._lock:
            if self._is_cancelled:
                return
            try:
                for suffix in reversed(SEGMENT_SUFFIXES):
                    self._rename(suffix, CLEANED_SUFFIX, SWAP_SUFFIX)
                self._env.sync_dir(self._directory)
            except OSError:
                self._revert()
                raise
            self.is_done = True

    def cancel(self) -> None:
        """Removes the .swap files, durably. Raises OSError."""
        with self._lock:
            self._is_cancelled = True
            if self.is_done:
                self.is_done = False
                self._revert()

    def _path(self, suffix: str) -> str:
        return segment_path(self._directory, self.cleaned.base_offset, suffix)

    def _rename(self, suffix: str, old: str, new: str) -> None:
        path = self._path(suffix)
        try:
            self._env.rename(path + old, path + new)
        except FileNotFoundError:
            if suffix != TXN_INDEX_SUFFIX:  # which exists only when it has entries
                raise

    def _revert(self) -> None:
        """Renames the .log to .cleaned before it removes the others: while it exists, loading reverts the swap."""
        log = self._path(LOG_SUFFIX)
        if self._env.exists(log + SWAP_SUFFIX):
            self._env.rename(log + SWAP_SUFFIX, log + CLEANED_SUFFIX)
        for suffix in reversed(SEGMENT_SUFFIXES):
            remove_if_exists(self._env, self._path(suffix) + SWAP_SUFFIX)
        self._env.sync_dir(self._directory)


def finish_swap(env: Env, directory: str, base_offset: int) -> None:
    """Step 4: renames the .swap files of a segment, the .log first. Raises OSError."""
    for suffix in SEGMENT_SUFFIXES:
        path = segment_path(directory, base_offset, suffix)
        try:
            env.rename(path + SWAP_SUFFIX, path)
        except FileNotFoundError:
            if suffix == LOG_SUFFIX:
                raise


def remove_cleaned(env: Env, directory: str) -> None:
    """Removes the files of failed cleanings from a partition's directory. Raises OSError."""
    for name in _listed(env, directory):
        if name.endswith(CLEANED_SUFFIX):
            remove_if_exists(env, f"{directory}/{name}")


def _listed(env: Env, directory: str) -> Iterable[str]:
    try:
        return sorted(env.listdir(directory))
    except FileNotFoundError:  # the partition was deleted meanwhile
        return ()


# -- after a crash --


def complete_swaps(env: Env, directory: str, names: set[str]) -> None:
    """Completes or reverts the swaps that a crash interrupted, and updates `names`, the content of the directory.

    Swaps at or after a .cleaned were not fully prepared (or belong to an incomplete split) and are reverted, the others
    are completed. May be interrupted and repeated. Raises OSError, CorruptRecordError.
    """
    if not any(name.endswith(SWAP_SUFFIX) for name in names):
        return
    swaps = sorted((name for name in names if _is_of_segment(name, SWAP_SUFFIX)), key=_log_first)
    if not swaps:
        return
    limit = min((int(name[:20]) for name in names if _is_of_segment(name, CLEANED_SUFFIX)), default=None)
    for name in reversed(swaps):
        if limit is not None and int(name[:20]) >= limit:
            env.remove(f"{directory}/{name}")
            names.discard(name)
    valid = [name for name in swaps if name in names]
    for name in valid:
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            _remove_replaced(env, directory, names, name)
    for name in valid:
        target = name.removesuffix(SWAP_SUFFIX)
        env.rename(f"{directory}/{name}", f"{directory}/{target}")
        names.discard(name)
        names.add(target)
    env.sync_dir(directory)


def _is_of_segment(name: str, suffix: str) -> bool:
    return name.endswith(suffix) and name[:20].isdigit()


def _log_first(name: str) -> tuple[str, bool]:
    return name[:20], not name.endswith(LOG_SUFFIX + SWAP_SUFFIX)


def _remove_replaced(env: Env, directory: str, names: set[str], swap_name: str) -> None:
    """Removes the segments whose offsets lie within those of a .log.swap."""
    base_offset = int(swap_name[:20])
    end = base_offset + 1
    file = env.open(f"{directory}/{swap_name}", write=False)
    for header in batch_headers(file, 0, file.size(), 65536):
        end = header.last_offset + 1
    file.close()
    for name in sorted(names):
        is_file = name[:20].isdigit() and name[20:] in SEGMENT_SUFFIXES
        if is_file and base_offset <= int(name[:20]) < end:
            env.remove(f"{directory}/{name}")
            names.discard(name)

"""DiskSpace: the free space of a log directory, and whether it takes appends of producers.

Below `limit_bytes` those are rejected, while everything else continues: reads, retention, deletions, compaction, and
the broker's own writes, which may use the rest. An append makes no system call: the free bytes are measured from time
to time, appends are subtracted, and near the limit they are measured again.

    state      | becomes   | when
    -----------+-----------+------------------------------------------------------------------------------
    has room   | full      | fewer than the limit are free, or a write met a full disk (a quota, no inodes)
    full       | has room  | an eighth more than the limit are free, and 10 s have passed since such a write

The free space includes a reserve, `barnabas.reserve`: a file of 1 MiB that is removed when other programs have filled
the disk to the last byte, so that a topic can still be deleted and a checkpoint be written.
"""

import logging
from typing import Final

from barnabas.storage.env import Env, remove_if_exists, write_fully
from barnabas.storage.errors import DiskFullError

AUTOMATIC: Final = -1
MAX_AUTOMATIC_BYTES: Final = 256 << 20
AUTOMATIC_DIVISOR: Final = 20
RESERVE_FILE: Final = "barnabas.reserve"
RESERVE_BYTES: Final = 1 << 20
RETRY_MS: Final = 10_000
_NEVER: Final = -(1 << 62)

logger = logging.getLogger("barnabas.storage")


class DiskSpace:
    """The room in one log directory; by default without a limit."""

    def __init__(self, env: Env, path: str, min_free_bytes: int = 0) -> None:
        """`min_free_bytes`: the limit; 0 for none, AUTOMATIC for a twentieth of the disk, at most 256 MiB."""
        self._env = env
        self._min_free_bytes = min_free_bytes
        self._full_until_ms = 0
        self._measure_below = _NEVER
        self.path = path
        self.free_bytes = 0  # as measured, less the appends since
        self.limit_bytes = 0
        self.is_full = False
        self.has_reserve = False
        self.rejections = 0

    @property
    def is_guarded(self) -> bool:
        """Whether there is a limit."""
        return self._min_free_bytes != 0

    # -- appends --

    def take(self, size: int) -> None:
        """Subtracts `size` bytes that were appended."""
        self.free_bytes -= size
        if self.free_bytes < self._measure_below:
            self.check()

    def reject(self) -> DiskFullError:
        """Counts an append that is rejected while `is_full`; returns its error."""
        self.rejections += 1
        return DiskFullError(
            f"The log directory {self.path} is full: {max(self.free_bytes, 0)} bytes are free, "
            f"{self.limit_bytes} are required. Nothing was written; retry when there is room."
        )

    def ran_out(self) -> None:
        """To be called when the write of an append found the disk full, whatever the measurements say."""
        self.check()
        if self.is_guarded and not self.is_full:
            self._full_until_ms = self._env.now_ms() + RETRY_MS
            self._fill(", but a write found no space (a quota, or no inodes)")

    # -- measuring --

    def check(self) -> None:
        """Measures and applies the result."""
        self.apply(self.measure())

    def measure(self) -> tuple[int, int] | None:
        """(total, free) bytes of the disk; None if unknown. Safe in a thread."""
        try:
            return self._env.disk_space(self.path)
        except OSError:
            return None

    def apply(self, measured: tuple[int, int] | None) -> None:
        """Applies a result of `measure`."""
        if measured is None:
            return
        total, self.free_bytes = measured
        limit = self.limit_bytes = self._limit(total)
        if not self.is_guarded:
            return
        if not self.is_full:
            if self.free_bytes < limit:
                self._fill("")
        elif self.free_bytes >= limit + limit // 8 and self._env.now_ms() >= self._full_until_ms:
            self.is_full = False
            logger.warning(
                "log directory %s has room again, %d bytes are free: appends of producers are accepted",
                self.path,
                self.free_bytes,
            )
        self._measure_below = self.free_bytes - max(self.free_bytes - limit, limit // 16)

    def _limit(self, total_bytes: int) -> int:
        if self._min_free_bytes == AUTOMATIC:
            return min(total_bytes // AUTOMATIC_DIVISOR, MAX_AUTOMATIC_BYTES)
        return self._min_free_bytes

    def _fill(self, note: str) -> None:
        self.is_full = True
        logger.error(
            "log directory %s is full: %d bytes are free, %d are required%s. Appends of producers are rejected until "
            "there is room; everything else continues",
            self.path,
            self.free_bytes,
            self.limit_bytes,
            note,
        )

    # -- the reserve --

    @property
    def wants_reserve(self) -> bool:
        """Whether the reserve is missing and there is enough room for it."""
        plenty = self.limit_bytes + self.limit_bytes // 8 + RESERVE_BYTES
        return self.is_guarded and not self.is_full and not self.has_reserve and self.free_bytes >= plenty

    @property
    def needs_reserve(self) -> bool:
        """Whether the reserve must be released."""
        return self.is_full and self.has_reserve and self.free_bytes < RESERVE_BYTES

    def find_reserve(self) -> None:
        """Checks whether an earlier process left one."""
        self.has_reserve = self._env.exists(f"{self.path}/{RESERVE_FILE}")

    def make_reserve(self) -> None:
        """Writes the file, or leaves none. Raises OSError. Safe in a thread, as `release_reserve`."""
        path = f"{self.path}/{RESERVE_FILE}"
        file = self._env.open(path, create=True)
        try:
            # Random, since a file system that compresses would store zeros in no space.
            write_fully(file, (self._env.random_bytes(RESERVE_BYTES),), 0, RESERVE_BYTES)
            file.sync()
        except OSError:
            remove_if_exists(self._env, path)
            raise
        finally:
            file.close()
        self.has_reserve = True

    def release_reserve(self) -> None:
        """Removes the file, for the broker's own writes. Raises OSError."""
        logger.warning(
            "log directory %s: the reserve of %d bytes is released for the broker's own writes",
            self.path,
            RESERVE_BYTES,
        )
        remove_if_exists(self._env, f"{self.path}/{RESERVE_FILE}")
        self.has_reserve = False

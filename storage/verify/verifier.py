"""Verification of log directories: what is wrong in them, what would be right, and what a start would do about it.

Reads and never changes: nothing is opened for writing, locked, trimmed or rebuilt, so that a broker may be at work in
the directory meanwhile. A second check of a partition distinguishes what a broker did between two reads from damage.

    error    something is lost or contradicts itself
    warning  nothing is lost: what a start puts right, and what does not belong there
    note     as it should be, though it may surprise: what is on its way out, a tail that was not yet flushed

`verify.py` has the words for it; `verify_directory` looks at an entry of log.dirs, `verify_partition` at a partition,
`verify_segment` at a segment with its indexes.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Final, NamedTuple, TypedDict, Unpack

from barnabas.storage.log.checkpoints import LEADER_EPOCH_CHECKPOINT, META_PROPERTIES, PARTITION_METADATA
from barnabas.storage.log.producer_snapshots import SNAPSHOT_SUFFIX
from barnabas.storage.segment.names import (
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
)


class Severity(StrEnum):
    """The severity of a finding."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Check(StrEnum):
    """The check that made a finding."""

    NAMES = "names"
    IDENTITY = "identity"
    CHECKPOINTS = "checkpoints"
    BATCHES = "batches"
    CRC = "crc"
    RECORDS = "records"
    OFFSETS = "offsets"
    SEQUENCES = "sequences"
    TIMESTAMPS = "timestamps"
    LEADER_EPOCHS = "leader-epochs"
    OFFSET_INDEX = "offset-index"
    TIME_INDEX = "time-index"
    TRANSACTION_INDEX = "transaction-index"
    SNAPSHOTS = "snapshots"


_CHECK_BY_SUFFIX: Final = (
    (OFFSET_INDEX_SUFFIX, Check.OFFSET_INDEX),
    (TIME_INDEX_SUFFIX, Check.TIME_INDEX),
    (TXN_INDEX_SUFFIX, Check.TRANSACTION_INDEX),
    (SNAPSHOT_SUFFIX, Check.SNAPSHOTS),
    (LOG_SUFFIX, Check.BATCHES),
    (LEADER_EPOCH_CHECKPOINT, Check.LEADER_EPOCHS),
    (PARTITION_METADATA, Check.IDENTITY),
    (META_PROPERTIES, Check.IDENTITY),
    ("-checkpoint", Check.CHECKPOINTS),
    (".checkpoint", Check.CHECKPOINTS),
)


def check_of(path: str) -> Check:
    """The check for a file, by its name."""
    return next((check for suffix, check in _CHECK_BY_SUFFIX if path.endswith(suffix)), Check.NAMES)


def legible(text: str) -> str:
    """A file name, which need not be UTF-8, as text for JSON, tables and terminals."""
    return text.encode(errors="surrogateescape").decode(errors="backslashreplace")


class Finding(NamedTuple):
    """One finding. `position` (bytes) and `offset` if known; `remedy`: what a start does."""

    severity: Severity
    path: str
    problem: str
    expected: str = ""
    remedy: str = ""
    position: int | None = None
    offset: int | None = None
    check: Check = Check.NAMES


MAX_ALIKE: Final = 100
LEFT_ALONE: Final = "a start leaves it alone"
REMOVED: Final = "a start removes it"
REBUILT: Final = "a start builds it anew from the .log"


class Counts:
    """The counts of what was verified."""

    __slots__ = ("batches", "bytes", "directories", "files", "partitions", "records", "segments")

    def __init__(self) -> None:
        self.directories = self.partitions = self.segments = self.files = 0
        self.batches = self.records = self.bytes = 0

    def as_dict(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in self.__slots__}

    def add(self, other: "Counts") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Where(TypedDict, total=False):
    """The position of a finding, in bytes and by offset, and its subject."""

    position: int | None
    offset: int | None
    check: Check


class Findings:
    """Collects the findings about one path.

    Of those of one kind in one file there are at most MAX_ALIKE, and one that says that there are more: a segment that
    is garbage all through has a million batches that are wrong.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.all: list[Finding] = []
        self.counts = Counts()
        self._alike: Counter[tuple[Severity, str, Check]] = Counter()

    def add(
        self,
        severity: Severity,
        path: str,
        problem: str,
        expected: str = "",
        remedy: str = "",
        *,
        position: int | None = None,
        offset: int | None = None,
        check: Check | None = None,
    ) -> None:
        """`check`: where the file's name does not say it, as for all that is found in a .log."""
        check = check or check_of(path)
        self._alike[severity, path, check] += 1
        count = self._alike[severity, path, check]
        if count > MAX_ALIKE + 1:
            return
        if count > MAX_ALIKE:
            problem, expected = (
                f"more than {MAX_ALIKE} findings like these",
                "none; the others are not listed",
            )
        self.all.append(Finding(severity, path, problem, expected, remedy, position, offset, check))

    def unreadable(self, error: OSError, path: str = "") -> None:
        """Adds an error of the operating system; `path` is used if the error names no file."""
        named = error.filename if isinstance(error.filename, str) else path or self.path
        problem = f"it cannot be read: {error.strerror or error}"
        self.error(named, problem, "something that can be", "a start fails at it, too")

    def error(
        self, path: str, problem: str, expected: str = "", remedy: str = "", **where: Unpack[Where]
    ) -> None:
        self.add(Severity.ERROR, path, problem, expected, remedy, **where)

    def warning(
        self, path: str, problem: str, expected: str = "", remedy: str = "", **where: Unpack[Where]
    ) -> None:
        self.add(Severity.WARNING, path, problem, expected, remedy, **where)

    def note(
        self, path: str, problem: str, expected: str = "", remedy: str = "", **where: Unpack[Where]
    ) -> None:
        self.add(Severity.NOTE, path, problem, expected, remedy, **where)

    @property
    def are_only_notes(self) -> bool:
        return all(finding.severity is Severity.NOTE for finding in self.all)


class Situation(NamedTuple):
    """The offsets of a partition in the checkpoints, None if absent.

    `is_clean`: the broker has stopped in order, so that everything is on stable storage and as it should be. Otherwise
    a start reads the log from the recovery point on, and cuts it where it is not whole.
    """

    is_clean: bool = False
    recovery_point: int | None = None
    log_start_offset: int | None = None
    cleaner_offset: int | None = None

    def is_recovered(self, offset: int, *, is_active: bool = False) -> bool:
        """Whether a start reads the batch at `offset`, and rebuilds the indexes of a segment that ends there.

        It does so with the active segment in any case.
        """
        if self.is_clean or self.recovery_point is None:
            return False
        return is_active or offset >= self.recovery_point

    def is_unflushed(self, offset: int) -> bool:
        """Whether the batch at `offset` may be unflushed."""
        return not self.is_clean and offset >= (self.recovery_point or 0)


OnProgress = Callable[[int], None]
"""Called with the bytes of .log files that were read since the last call."""


class RecurringFindings:
    """The findings that every pass repeats. Those that a running broker causes differ each time."""

    def __init__(self, first: Iterable[Finding]) -> None:
        self._kept = list(first)

    def keep_repeated(self, findings: Iterable[Finding]) -> None:
        """Drops the findings that are not in `findings`, those of another pass."""
        found = set(findings)
        self._kept = [finding for finding in self._kept if finding in found]

    @property
    def all(self) -> list[Finding]:
        return self._kept


def without_path(path: str, error: Exception) -> str:
    """The message without the path, which a finding has already."""
    return str(error).removeprefix(path).lstrip(": ")

"""Verification of one segment: every batch of the .log, and the .index and .timeindex against them.

Indexes are read before the .log's length is asked: what is appended meanwhile is in the .log first.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.protocol.records.batch import (
    MAGIC_V2,
    TIMESTAMP_TYPE_MASK,
    CorruptRecordError,
    InvalidRecordError,
    RecordBatch,
    UnsupportedCompressionError,
    entry_header,
)
from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.layout import ENTRY_HEADER_BYTES
from barnabas.protocol.records.legacy import LegacyEntry
from barnabas.storage.env import Env, File, read_fully
from barnabas.storage.segment.batch_reading import Batch
from barnabas.storage.segment.index import MAX_RELATIVE_OFFSET
from barnabas.storage.segment.names import LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX, segment_path
from barnabas.storage.verify.indexes import OffsetIndexCheck, TimeIndexCheck
from barnabas.storage.verify.verifier import REBUILT, Check, Findings, OnProgress, Severity, Situation

if TYPE_CHECKING:
    from barnabas.protocol.records.record import RecordsSummary

CHUNK_BYTES: Final = 1024 * 1024
_BAD_RECORDS: Final = (CorruptRecordError, InvalidRecordError, UnsupportedCompressionError)

OnBatch = Callable[[Batch], None]
"""Called with each whole batch, in order."""

OnMissed = Callable[[], None]
"""Called with the position of damage: of a batch, or of all that follows."""


class SegmentOutcome(NamedTuple):
    """The result for a segment: the offsets where its batches begin (None without any) and end, and gaps."""

    first_offset: int | None
    next_offset: int
    has_gaps: bool
    is_whole: bool
    is_read_through: bool
    """False if something in it is no batch, so that what followed is unknown."""


class SegmentVerifier:
    """One segment; used once. `outcome` is valid after `run`."""

    def __init__(
        self,
        env: Env,
        directory: str,
        base_offset: int,
        findings: Findings,
        *,
        situation: Situation,
        is_active: bool,
        is_deep: bool,
        on_batch: OnBatch,
        on_missed: OnMissed,
        on_progress: OnProgress,
    ) -> None:
        self._env = env
        self._path = segment_path(directory, base_offset, LOG_SUFFIX)
        self._base_offset = base_offset
        self._findings = findings
        self._situation = situation
        self._is_active = is_active
        self._is_deep = is_deep
        self._on_batch = on_batch
        self._on_missed = on_missed
        self._on_progress = on_progress
        self._end = 0
        self._indexes: list[OffsetIndexCheck | TimeIndexCheck] = []
        self.next_offset = base_offset
        self.first_offset: int | None = None
        self.has_gaps = False
        self.is_whole = self.is_read_through = True

    @property
    def outcome(self) -> SegmentOutcome:
        return SegmentOutcome(
            self.first_offset, self.next_offset, self.has_gaps, self.is_whole, self.is_read_through
        )

    def run(self) -> None:
        """Reads the segment. Raises OSError, and FileNotFoundError if the segment is deleted meanwhile."""
        directory = self._path.rpartition("/")[0]
        offset_path = segment_path(directory, self._base_offset, OFFSET_INDEX_SUFFIX)
        time_path = segment_path(directory, self._base_offset, TIME_INDEX_SUFFIX)
        offset_data, time_data = self._read(offset_path), self._read(time_path)
        self._file = self._env.open(self._path, write=False)
        self._end = self._file.size()
        self._findings.counts.segments += 1
        self._findings.counts.bytes += self._end
        if offset_data is not None:
            offsets = OffsetIndexCheck(offset_path, self._base_offset, offset_data, self._is_active)
            self._indexes.append(offsets)
        if time_data is not None:
            self._indexes.append(TimeIndexCheck(time_path, self._base_offset, time_data, self._is_active))
        with closing(self._file):
            for batch, position in self._batches(self._file):
                self._take(batch, position)
        self._report_indexes(offset_path, offset_data, time_path, time_data)

    def _read(self, path: str) -> bytes | None:
        try:
            data = self._env.read_file(path)
        except FileNotFoundError:
            return None
        self._findings.counts.files += 1
        return data

    # -- batches --

    def _batches(self, file: File) -> Iterator[tuple[Batch, int]]:
        """The whole batches, valid or not, and their positions; reports anything else."""
        position, start, chunk, end = 0, 0, b"", self._end
        while position < end:
            at = position - start
            if at + ENTRY_HEADER_BYTES > len(chunk):
                chunk, start, at = read_fully(file, min(CHUNK_BYTES, end - position), position), position, 0
                self._on_progress(len(chunk))
            try:
                if len(chunk) < ENTRY_HEADER_BYTES:
                    raise CorruptRecordError(f"{end - position} bytes are too few for a batch")
                _, size, magic = entry_header(chunk, at)
                if size > end - position:
                    raise CorruptRecordError(f"the batch claims {size} bytes, and {end - position} are left")
            except CorruptRecordError as error:
                self._unreadable(position, str(error))
                return
            if at + size > len(chunk):
                wanted = min(max(size, CHUNK_BYTES), end - position)
                chunk, start, at = read_fully(file, wanted, position), position, 0
                self._on_progress(len(chunk))
                if len(chunk) < size:
                    return  # truncated since its length was asked
            yield (RecordBatch(chunk, at) if magic == MAGIC_V2 else LegacyEntry(chunk, at)), position
            position += size

    def _unreadable(self, position: int, why: str) -> None:
        """Reports that no batch begins at `position`: a partial append, preallocated zeros, or damage."""
        left = self._end - position
        if self._is_active and self._is_zero(position):
            self._findings.note(
                self._path,
                f"{left} bytes of zeros at the end",
                "room that preallocate=true keeps",
                "a start cuts it off" if not self._situation.is_clean else "",
                position=position,
                offset=self.next_offset,
            )
            return
        self.is_whole = self.is_read_through = False
        for index in self._indexes:
            index.is_all_reported = False
        self._on_missed()
        if self._is_unflushed_tail():
            self._findings.note(
                self._path,
                f"not yet flushed: {why}",
                "nothing from the recovery point on has to be whole while a broker is at work or was killed",
                f"a start cuts {left} bytes off here",
                position=position,
                offset=self.next_offset,
            )
            return
        self._damage(
            Check.BATCHES,
            f"no batch begins here: {why}",
            f"a batch that begins at offset {self.next_offset} or after",
            position,
            self.next_offset,
        )

    def _is_unflushed_tail(self) -> bool:
        return self._is_active and self._situation.is_unflushed(self.next_offset)

    def _damage(self, check: Check, problem: str, expected: str, position: int, offset: int) -> None:
        """Reports that nothing from `position` on is valid, which before the recovery point is an error."""
        if self._situation.is_recovered(self.next_offset):
            severity = Severity.WARNING
            expected += (
                "; but nothing from the recovery point on was flushed, so that a power cut may have taken it"
            )
            later = "" if self._is_active else ", and the segments after it go"
            remedy = f"a start cuts {self._end - position} bytes off here{later}"
        else:
            severity = Severity.ERROR
            remedy = "a start does not look here; readers are told that the records are corrupt"
        self._findings.add(
            severity, self._path, problem, expected, remedy, position=position, offset=offset, check=check
        )

    def _is_zero(self, position: int) -> bool:
        while position < self._end:
            chunk = read_fully(self._file, min(CHUNK_BYTES, self._end - position), position)
            if not chunk or chunk.strip(b"\0"):
                return False
            position += len(chunk)
        return True

    def _take(self, batch: Batch, position: int) -> None:
        if not self._is_right(batch, position):
            self._go_on_behind(batch)
            return
        first = batch.base_offset if isinstance(batch, RecordBatch) else batch.last_offset
        is_in_order = self._check_offsets(first, batch.last_offset, position)
        if self._is_deep:
            self._check_records(batch, position)
        if first > self.next_offset or not is_dense(batch):
            self.has_gaps = True
        if self.first_offset is None:
            self.first_offset = first
        self.next_offset = max(self.next_offset, batch.last_offset + 1)
        counts = self._findings.counts
        counts.batches += 1
        if isinstance(batch, RecordBatch):
            counts.records += batch.record_count
        for index in self._indexes:
            index.take(first, batch.last_offset, batch.max_timestamp, position)
        self._on_batch(batch)
        if not is_in_order:
            self._on_missed()

    def _is_right(self, batch: Batch, position: int) -> bool:
        """Whether the checksum is valid; an invalid one at the end may be that of a partial append."""
        if batch.is_valid_crc():
            return True
        self.is_whole = False
        is_last = position + batch.size_in_bytes == self._end
        if is_last and self._is_unflushed_tail():
            self._findings.note(
                self._path,
                "not yet flushed: the last batch is not as it was written",
                "nothing from the recovery point on has to be whole while a broker is at work or was killed",
                f"a start cuts {batch.size_in_bytes} bytes off here",
                position=position,
                offset=self.next_offset,
                check=Check.CRC,
            )
            return False
        actual = f"{_actual_crc(batch):#010x}" if isinstance(batch, RecordBatch) else "another"
        self._damage(
            Check.CRC,
            f"the batch of {batch.size_in_bytes} bytes claims CRC {batch.crc:#010x}, and its bytes have {actual}",
            "one that is right",
            position,
            self.next_offset,
        )
        return False

    def _go_on_behind(self, batch: Batch) -> None:
        """Uses the offsets of a header that may be damaged only if the next batch still fits."""
        if 0 <= batch.last_offset - self.next_offset <= MAX_RELATIVE_OFFSET:
            self.next_offset = batch.last_offset + 1
        for index in self._indexes:
            index.is_all_reported = False
        self._on_missed()

    def _check_offsets(self, first: int, last: int, position: int) -> bool:
        """Whether the offsets follow those before."""
        if first < self.next_offset or last < first:
            self.is_whole = False
            self._damage(
                Check.OFFSETS,
                f"the batch has offsets {first} to {last}",
                f"{self.next_offset} or greater ones",
                position,
                first,
            )
        elif last - self._base_offset > MAX_RELATIVE_OFFSET:
            expected = f"at most {self._base_offset + MAX_RELATIVE_OFFSET}, or the indexes cannot point to it"
            self._damage(Check.OFFSETS, f"the batch ends with offset {last}", expected, position, last)
        return self.next_offset <= first <= last

    def _check_records(self, batch: Batch, position: int) -> None:
        try:
            if isinstance(batch, RecordBatch):
                problem = _records_problem(batch, batch.validate_records())
            else:
                problem = ""
                self._findings.counts.records += len(list(batch.records(check_inner=True)))
        except _BAD_RECORDS as error:
            problem = str(error)
        if problem:
            self._findings.error(
                self._path,
                f"the records of the batch: {problem}",
                "records that fit the batch's header",
                "a start does not look into batches; readers fail at it",
                position=position,
                offset=batch.last_offset,
                check=Check.RECORDS,
            )

    # -- what the indexes have come to --

    def _report_indexes(
        self, offset_path: str, offset_data: bytes | None, time_path: str, time_data: bytes | None
    ) -> None:
        is_rebuilt = self._situation.is_recovered(self.next_offset, is_active=self._is_active)
        severity = Severity.WARNING if is_rebuilt else Severity.ERROR
        for path, data in ((offset_path, offset_data), (time_path, time_data)):
            if data is None and self._end:  # Kafka makes those of an empty segment when they are needed
                self._findings.warning(path, "there is no such file", "one for each .log", REBUILT)
        for index in self._indexes:
            index.end(self._end, is_final=not self._is_active or self._situation.is_clean)
            remedy = REBUILT if is_rebuilt or index.is_noticed else _UNNOTICED
            for problem, expected, offset in index.problems:
                self._findings.add(severity, index.path, problem, expected, remedy, offset=offset)
            if index.lag is not None:
                problem, expected = index.lag
                self._findings.warning(index.path, problem, expected, _LAGS)
            if index.unreported:
                self._findings.add(severity, index.path, f"{index.unreported} more of its entries are wrong")


_LAGS: Final = (
    "a start takes it as it is: look-ups by time and retention take the segment for older than it is"
)
_UNNOTICED: Final = "a start takes it as it is; removed while the broker is stopped, it is built anew"


def is_dense(batch: Batch) -> bool:
    """Whether a batch has as many records as offsets; a compacted one has fewer."""
    return not isinstance(batch, RecordBatch) or batch.record_count == batch.last_offset_delta + 1


def _actual_crc(batch: RecordBatch) -> int:
    start = batch.position + 21
    return crc32c(memoryview(batch.buffer)[start : batch.position + batch.size_in_bytes])


def _records_problem(batch: RecordBatch, found: "RecordsSummary") -> str:
    """Why valid records do not match the header; empty if they do."""
    is_create_time = not batch.attributes & TIMESTAMP_TYPE_MASK
    if found.record_count and is_create_time and found.max_timestamp != batch.max_timestamp:
        return f"the youngest is of {found.max_timestamp}, the header says {batch.max_timestamp}"
    if batch.record_count > batch.last_offset_delta + 1:
        return f"there are {batch.record_count} for {batch.last_offset_delta + 1} offsets"
    if found.offset_gap_index < 0:
        return ""
    next_offset = batch.base_offset
    for record in batch.records():
        if not next_offset <= record.offset <= batch.last_offset:
            return f"offset {record.offset} where {next_offset} to {batch.last_offset} are possible"
        next_offset = record.offset + 1
    return ""

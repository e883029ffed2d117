"""A pass over a .log in big pieces, each batch checked and added by the compiled loop of `scanning`.

Recovery passes over every segment from the recovery point on; the same pass without checksums rebuilds a lost index
and brings producer states up to date. It takes a piece of memory of its own (`PIECE_BYTES`), whatever the size of
the log and of its batches, beside the index entries that it gathers: at most two and a half times segment.index.bytes.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from barnabas.protocol.records.batch import (
    RECORD_BATCH_OVERHEAD,
    CorruptRecordError,
    RecordBatch,
    entry_header,
)
from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.layout import CRC_START, ENTRY_HEADER_BYTES, MAGIC_V2
from barnabas.protocol.records.scanning import CONTROL, DAMAGED, LEGACY, SegmentScanner
from barnabas.storage.env import File, read_fully, read_into

if TYPE_CHECKING:
    from barnabas.protocol.records.legacy import LegacyEntry

PIECE_BYTES: Final = 512 * 1024
PROGRESS_BYTES: Final = 8 * 1024 * 1024

OnControl = Callable[[RecordBatch], None]
OnProgress = Callable[[int], None]


class SegmentPass:
    """Feeds a scanner with a file. One at a time; the memory is kept for the next."""

    def __init__(self, on_progress: OnProgress | None = None, piece_bytes: int = PIECE_BYTES) -> None:
        """`on_progress` is called with the number of bytes that were read since its last call."""
        self._piece = bytearray(max(piece_bytes, RECORD_BATCH_OVERHEAD))
        self._view = memoryview(self._piece)
        self._on_progress = on_progress
        self._reported = 0

    def run(
        self,
        file: File,
        end: int,
        scanner: SegmentScanner,
        on_control: OnControl | None = None,
        position: int = 0,
    ) -> None:
        """Scans from `position` to `end`, or to the first invalid batch, described by `scanner.damage`.

        `on_control` is called with batches that end transactions and must take the runs first. Raises OSError.
        """
        scanner.position = self._reported = position
        while scanner.position < end:
            length = self._fill(file, scanner.position, end)
            at = 0
            while True:
                at = scanner.scan(self._piece, at, length, end)
                if scanner.stop == CONTROL:
                    self._control(scanner, on_control)
                elif scanner.stop != LEGACY or not (taken := self._legacy(scanner, at, length)):
                    break
                else:
                    at += taken
            if scanner.stop == DAMAGED or (at == 0 and not self._large(file, end, scanner, on_control)):
                break
            self._report(scanner.position, PROGRESS_BYTES)
        self._report(scanner.position, 1)

    def _fill(self, file: File, position: int, end: int) -> int:
        return read_into(file, self._view[: min(len(self._piece), end - position)], position)

    def _report(self, position: int, least: int) -> None:
        if self._on_progress is not None and position - self._reported >= least:
            self._on_progress(position - self._reported)
            self._reported = position

    def _control(self, scanner: SegmentScanner, on_control: OnControl | None) -> None:
        if on_control is not None:
            on_control(RecordBatch(self._piece, scanner.control_at))

    def _legacy(self, scanner: SegmentScanner, at: int, length: int) -> int:
        """Checks and adds an entry of an older message set; returns its size, 0 if it is incomplete or damaged."""
        from barnabas.protocol.records.legacy import LegacyEntry

        _, size, _ = entry_header(self._piece, at)
        if size > length - at:
            return 0
        return size if _take_legacy(scanner, LegacyEntry(self._view[:length], at)) else 0

    def _large(self, file: File, end: int, scanner: SegmentScanner, on_control: OnControl | None) -> bool:
        """Adds a batch that is larger than a piece; False if there is none, or it is damaged."""
        position = scanner.position
        header = read_fully(file, RECORD_BATCH_OVERHEAD, position)
        if len(header) < min(RECORD_BATCH_OVERHEAD, end - position) or end - position < ENTRY_HEADER_BYTES:
            scanner.reject(f"{end - position} bytes are too few for a batch")
            return False
        _, size, magic = entry_header(header)
        if magic != MAGIC_V2:
            from barnabas.protocol.records.legacy import LegacyEntry

            return _take_legacy(scanner, LegacyEntry(read_fully(file, size, position)))
        batch = RecordBatch(header, header_only=True)
        if not self._has_right_crc(file, position, batch):
            scanner.reject("its checksum does not match its bytes")
            return False
        taken = scanner.add_header(header, size)
        if taken and scanner.stop == CONTROL and on_control is not None:
            on_control(RecordBatch(read_fully(file, size, position)))
        return taken

    def _has_right_crc(self, file: File, position: int, batch: RecordBatch) -> bool:
        crc, end = 0, position + batch.size_in_bytes
        position += CRC_START
        while position < end:
            length = self._fill(file, position, end)
            if not length:
                return False
            crc = crc32c(self._view[:length], crc)
            position += length
        return crc == batch.crc


def _take_legacy(scanner: SegmentScanner, entry: "LegacyEntry") -> bool:
    try:
        entry.ensure_valid()
    except CorruptRecordError as error:
        scanner.reject(str(error))
        return False
    return scanner.add_entry(entry.last_offset, entry.size_in_bytes, entry.max_timestamp)

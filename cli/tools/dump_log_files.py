"""Reads the files for `dump-log` as Kafka's DumpLogSegments does, and passes their content to a printer.

Damage is reported as a problem that names `barnabas log verify`; the dump continues after it if possible.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.cli.tools.dump_log_batches import DAMAGED, FileBatch, file_batches, records
from barnabas.cli.tools.dump_log_decoders import UndecodableError, control
from barnabas.cli.tools.dump_log_text import Report, TextPrinter
from barnabas.protocol.records.errors import CorruptRecordError
from barnabas.storage.env import Env, File, read_fully
from barnabas.storage.errors import CorruptIndexError, CorruptSnapshotError
from barnabas.storage.log.producer_snapshots import decode_snapshot
from barnabas.storage.segment.index import OffsetIndex, TimeIndex
from barnabas.storage.segment.txn_index import TransactionIndex

if TYPE_CHECKING:
    from barnabas.cli.tools.dump_log_decoders import Decoder
    from barnabas.cli.tools.dump_log_json import JsonPrinter
    from barnabas.protocol.records.record import Record

_CHECKPOINT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"
_ZEROS_BYTES: Final = 1024 * 1024
MAX_INT32: Final = 0x7FFFFFFF


class UnreadableError(Exception):
    """A file as a whole cannot be dumped; the message says why."""


class Options(NamedTuple):
    """The options of the command; `decode` decodes keys and values."""

    decode: Decoder
    print_data: bool = False
    deep: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_message_size: int = 5 * 1024 * 1024
    max_bytes: int = MAX_INT32
    skip_record_metadata: bool = False


class Dump:
    """Dumps files to `printer`; `report` has the findings about all of them."""

    def __init__(self, env: Env, options: Options, printer: TextPrinter | JsonPrinter) -> None:
        self._env = env
        self._options = options
        self._printer = printer
        self._last_offset = -1  # of the records of the current file
        self.report = Report()

    def file(self, path: str) -> None:
        """Dumps one file; an error goes to the printer. Raises BrokenPipeError if the output is closed."""
        self._printer.file(path)
        name = os.path.basename(path)
        dumps = {
            ".log": self._log,
            ".checkpoint": self._log,
            ".index": self._index,
            ".timeindex": self._time_index,
            ".txnindex": self._txn_index,
            ".snapshot": self._producers,
        }
        dump = dumps.get(name[name.rfind(".") :] if "." in name else "")
        if dump is None:
            self._printer.unknown_file(path)
            return
        try:
            dump(path, name)
        except BrokenPipeError:
            raise  # of the output, not of the file
        except OSError as error:
            self._printer.problem(path, error.strerror or str(error))
        except UnreadableError as error:
            self._printer.problem(path, str(error))
        except (CorruptRecordError, CorruptIndexError, CorruptSnapshotError) as error:
            self._damaged(path, str(error))

    def _damaged(self, path: str, what: str) -> None:
        """A problem with the content of a file."""
        directory = os.path.dirname(path) or "."
        self._printer.problem(path, f"{what} (`barnabas log verify {directory}` finds all that is wrong)")

    def _open(self, path: str) -> File:
        return self._env.open(path, write=False)

    # -- .log and .checkpoint --

    def _log(self, path: str, name: str) -> None:
        if name.endswith(".log"):
            self._printer.log(_base_offset(name))
        elif name == BOOTSTRAP_NAME:
            self._printer.bootstrap()
        else:
            found = _CHECKPOINT_NAME.fullmatch(name)
            if found is None:
                raise UnreadableError(
                    f"{name} is not the name of a snapshot: <20 digits>-<10 digits>.checkpoint"
                )
            self._printer.snapshot(int(found[1]), int(found[2]))
        file = self._open(path)
        size = min(file.size(), self._options.max_bytes)
        valid_bytes = 0
        self._last_offset = -1
        try:
            for batch in file_batches(file, size):
                self._batch(batch, path)
                valid_bytes = batch.position + batch.entry.size_in_bytes
        except CorruptRecordError:
            if not _is_zeros(file, valid_bytes, size):  # the room of a preallocated file
                raise
        if size > valid_bytes and self._options.max_bytes == MAX_INT32:
            self._printer.trailing_bytes(size - valid_bytes, path)

    def _batch(self, batch: FileBatch, path: str) -> None:
        try:
            self._printer.batch(batch)
            if self._options.deep:
                self._records(batch, path)
        except DAMAGED as error:
            self._damaged(path, f"the batch at position {batch.position}: {error}")

    def _records(self, batch: FileBatch, path: str) -> None:
        """Raises one of DAMAGED."""
        options, printer = self._options, self._printer
        is_control = batch.entry.is_control
        for record, check in records(batch.entry):
            if record.offset != self._last_offset + 1:
                pairs = self.report.non_consecutive.setdefault(os.path.abspath(path), {})
                pairs[self._last_offset] = record.offset
            self._last_offset = record.offset
            if not options.skip_record_metadata:
                printer.record(batch, record, check, control(record) if is_control else None)
            if options.print_data and not is_control:
                self._contents(record, path)
            printer.end_record()

    def _contents(self, record: Record, path: str) -> None:
        try:
            decoded = self._options.decode(record)
        except UndecodableError as error:
            self._printer.problem(path, str(error))
            return
        self._printer.contents(record, decoded, follows_metadata=not self._options.skip_record_metadata)

    # -- indexes --

    def _index(self, path: str, name: str) -> None:
        base_offset, log = self._beside(path, name)
        data = self._env.read_file(path)
        count = len(data) // OffsetIndex.ENTRY.size
        if not count:
            self._printer.empty_index(path)
            return
        if self._options.index_sanity_check:
            _check_sanity(data, OffsetIndex)
            self._printer.sane_index(path)
            return
        for slot in range(count):
            relative, position = OffsetIndex.ENTRY.unpack_from(data, slot * OffsetIndex.ENTRY.size)
            if not relative and slot:
                return  # preallocated space reads as zeros
            offset = base_offset + relative
            last_offset = _last_offset_at(log, position, self._options.max_message_size)
            if last_offset != offset:
                self.report.index_mismatches.setdefault(os.path.abspath(path), {})[offset] = last_offset
            if not self._options.verify_index_only:
                self._printer.offset_entry(offset, position)

    def _beside(self, path: str, name: str) -> tuple[int, File]:
        """The base offset in the name, and the .log of that name."""
        base_offset = _base_offset(name)
        log_path = os.path.join(os.path.dirname(path), name.partition(".")[0] + ".log")
        try:
            return base_offset, self._open(log_path)
        except FileNotFoundError:
            raise UnreadableError(f"there is no {log_path} to compare it with") from None

    def _time_index(self, path: str, name: str) -> None:
        base_offset, log = self._beside(path, name)
        data = self._env.read_file(path)
        if self._options.index_sanity_check:
            _check_sanity(data, TimeIndex)
            self._printer.sane_index(path)
            return
        index_path = os.path.join(os.path.dirname(path), name.partition(".")[0] + ".index")
        offsets = OffsetIndex.as_it_is(self._env, index_path, base_offset)
        previous = -1
        for slot in range(len(data) // TimeIndex.ENTRY.size):
            timestamp, relative = TimeIndex.ENTRY.unpack_from(data, slot * TimeIndex.ENTRY.size)
            offset = base_offset + relative
            if not relative and slot:
                return
            found = _batch_reaching(log, offsets.lookup(offset)[1], offset)
            self._check_time_entry(path, found, (timestamp, offset), previous)
            if not self._options.verify_index_only:
                self._printer.time_entry(timestamp, offset)
            previous = timestamp

    def _check_time_entry(
        self, path: str, found: FileBatch | None, entry: tuple[int, int], previous: int
    ) -> None:
        """`found`: the batch that reaches the entry's offset; `previous`: the timestamp of the entry before."""
        timestamp, offset = entry
        absolute = os.path.abspath(path)
        if found is None or found.entry.last_offset != offset:
            last_offset = -1 if found is None else found.entry.last_offset
            self.report.offsets_not_found.setdefault(absolute, []).append((offset, last_offset))
            return
        try:
            greatest = max((record.timestamp for record, _ in records(found.entry)), default=-1)
        except DAMAGED as error:
            raise CorruptRecordError(f"the batch at position {found.position} of the log: {error}") from None
        greatest = max(greatest, -1)
        if greatest != timestamp:
            self.report.time_mismatches.setdefault(absolute, []).append((timestamp, greatest))
        if previous >= timestamp:
            self.report.times_out_of_order.setdefault(absolute, []).append((timestamp, previous))

    def _txn_index(self, path: str, name: str) -> None:
        _base_offset(name)
        data = self._env.read_file(path)
        layout = TransactionIndex.ENTRY
        for version, *fields in layout.iter_unpack(data[: len(data) // layout.size * layout.size]):
            if version != 0:
                raise CorruptIndexError(f"it has an aborted transaction of version {version}")
            self._printer.aborted(version, tuple(fields))

    # -- .snapshot --

    def _producers(self, path: str, _name: str) -> None:
        for producer in decode_snapshot(self._env.read_file(path)):
            self._printer.producer(producer)


def _is_zeros(file: File, position: int, end: int) -> bool:
    while position < end:
        chunk = read_fully(file, min(_ZEROS_BYTES, end - position), position)
        if not chunk or chunk.strip(b"\0"):
            return False
        position += len(chunk)
    return True


def _base_offset(name: str) -> int:
    stem = name.partition(".")[0]
    if not re.fullmatch(r"[+-]?\d+", stem, re.ASCII):
        raise UnreadableError(f"its name does not begin with the base offset of a segment: {stem!r}")
    return int(stem)


def _check_sanity(data: bytes, index: type[OffsetIndex | TimeIndex]) -> None:
    """The checks by which Kafka decides at startup whether to rebuild an index. Raises CorruptIndexError."""
    size = index.ENTRY.size
    if len(data) % size:
        raise CorruptIndexError(f"it has {len(data)} bytes, not a multiple of {size}")
    if not data:
        return
    first, last = index.ENTRY.unpack_from(data), index.ENTRY.unpack_from(data, len(data) - size)
    if index is TimeIndex and (last[0] < first[0] or last[1] < 0):
        raise CorruptIndexError("its last entry lies before its first")
    if index is OffsetIndex and last[0] < 0:
        raise CorruptIndexError("its last entry lies before the base offset of the segment")


def _last_offset_at(log: File, position: int, max_message_size: int) -> int:
    """The last offset of the batch at `position`. Raises CorruptIndexError, CorruptRecordError."""
    found = next(_batches_from(log, position, max_message_size), None)
    if found is None:
        raise CorruptIndexError(
            f"it points to position {position} of the log, where no batch of at most {max_message_size} bytes begins"
        )
    return found.entry.last_offset


def _batch_reaching(log: File, position: int, offset: int) -> FileBatch | None:
    """The first batch from `position` on that ends at `offset` or later."""
    return next((found for found in _batches_from(log, position) if found.entry.last_offset >= offset), None)


def _batches_from(log: File, position: int, limit: int = MAX_INT32) -> Iterator[FileBatch]:
    size = log.size()
    if not 0 <= position <= size:
        raise CorruptIndexError(f"it points to position {position} of a log of {size} bytes")
    return file_batches(log, min(position + limit, size), position)

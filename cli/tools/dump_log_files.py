"""What `dump-log` finds in each kind of file, reported to a printer. Reads as Kafka's DumpLogSegments does.

What is damaged is reported as a problem that names `barnabas log verify`, and the dump goes on behind it where that is
possible.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from barnabas.cli.tools.control_text import Control, control
from barnabas.cli.tools.dump_log_batches import DAMAGED, FileBatch, LegacyCheck, file_batches, records
from barnabas.cli.tools.dump_log_decoders import UndecodableError
from barnabas.cli.tools.dump_log_indexes import MAX_INT32, batch_reaching, check_sanity, last_offset_at
from barnabas.protocol.records.errors import CorruptRecordError
from barnabas.storage.env import Env, File, read_fully
from barnabas.storage.errors import CorruptIndexError, CorruptSnapshotError
from barnabas.storage.log.producer_snapshots import SnapshotEntry, decode_snapshot
from barnabas.storage.segment.index import OffsetIndex, TimeIndex
from barnabas.storage.segment.txn_index import TransactionIndex

if TYPE_CHECKING:
    from barnabas.cli.tools.dump_log_decoders import Decoded, Decoder
    from barnabas.protocol.records.record import Record

_CHECKPOINT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"
_ZEROS_BYTES: Final = 1024 * 1024


class UnreadableError(Exception):
    """A file as a whole cannot be dumped; the message says why."""


class Options(NamedTuple):
    """The flags of the command; `decode` is what makes keys and values readable."""

    decode: Decoder
    print_data: bool = False
    deep: bool = False
    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_message_size: int = 5 * 1024 * 1024
    max_bytes: int = MAX_INT32
    skip_record_metadata: bool = False


class Printer(Protocol):
    """What a dump is told to. `path` is as the user wrote it."""

    def file(self, path: str) -> None:
        """A file begins."""

    def unknown_file(self, path: str) -> None:
        """It is none that can be dumped."""

    def log(self, base_offset: int) -> None:
        """It is a .log."""

    def snapshot(self, end_offset: int, epoch: int) -> None:
        """It is a KRaft snapshot."""

    def bootstrap(self) -> None:
        """It is a bootstrap snapshot."""

    def batch(self, batch: FileBatch) -> None:
        """A batch begins."""

    def record(
        self, batch: FileBatch, record: Record, check: LegacyCheck | None, control: Control | None
    ) -> None:
        """The metadata of a record."""

    def contents(self, record: Record, decoded: Decoded, *, follows_metadata: bool) -> None:
        """Its key and value."""

    def end_record(self) -> None:
        """Nothing more of it."""

    def trailing_bytes(self, count: int, path: str) -> None:
        """What is left at the end is no batch."""

    def offset_entry(self, offset: int, position: int) -> None: ...

    def time_entry(self, timestamp: int, offset: int) -> None: ...

    def aborted(self, version: int, fields: tuple[int, int, int, int]) -> None:
        """Producer id, first offset, last offset, last stable offset."""

    def producer(self, producer: SnapshotEntry) -> None: ...

    def empty_index(self, path: str) -> None: ...

    def sane_index(self, path: str) -> None: ...

    def problem(self, path: str, message: str) -> None:
        """Something cannot be read."""


class Report:
    """What is said of all files at the end, by the absolute path of the file, in the order in which it was found."""

    def __init__(self) -> None:
        self.index_mismatches: dict[str, dict[int, int]] = {}
        self.time_mismatches: dict[str, list[tuple[int, int]]] = {}
        self.times_out_of_order: dict[str, list[tuple[int, int]]] = {}
        self.offsets_not_found: dict[str, list[tuple[int, int]]] = {}
        self.non_consecutive: dict[str, dict[int, int]] = {}


class Dump:
    """Dumps one file after the other to `printer`; what concerns all of them is in `report` afterwards."""

    def __init__(self, env: Env, options: Options, printer: Printer) -> None:
        self._env = env
        self._options = options
        self._printer = printer
        self.report = Report()

    def file(self, path: str) -> None:
        """Dumps one. What cannot be read is a problem for the printer. Raises BrokenPipeError when nobody listens."""
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
            raise  # that is of who reads what we say
        except OSError as error:
            self._printer.problem(path, error.strerror or str(error))
        except UnreadableError as error:
            self._printer.problem(path, str(error))
        except (CorruptRecordError, CorruptIndexError, CorruptSnapshotError) as error:
            self.damaged(path, str(error))

    def damaged(self, path: str, what: str) -> None:
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
                raise UnreadableError(f"{name} is no name of a snapshot: <20 digits>-<10 digits>.checkpoint")
            self._printer.snapshot(int(found[1]), int(found[2]))
        file = self._open(path)
        size = min(file.size(), self._options.max_bytes)
        valid_bytes = 0
        records_of = _Records(self, path)
        try:
            for batch in file_batches(file, size):
                self._batch(batch, path, records_of)
                valid_bytes = batch.position + batch.entry.size_in_bytes
        except CorruptRecordError:
            if not _zeros_only(
                file, valid_bytes, size
            ):  # the room of a file that is preallocated is no damage
                raise
        if size > valid_bytes and self._options.max_bytes == MAX_INT32:
            self._printer.trailing_bytes(size - valid_bytes, path)

    def _batch(self, batch: FileBatch, path: str, records_of: _Records) -> None:
        try:
            self._printer.batch(batch)
            if self._options.deep:
                records_of.dump(batch)
        except DAMAGED as error:
            self.damaged(path, f"the batch at position {batch.position}: {error}")

    # -- indexes --

    def _index(self, path: str, name: str) -> None:
        base_offset, log = self._beside(path, name)
        data = self._env.read_file(path)
        count = len(data) // OffsetIndex.ENTRY.size
        if not count:
            self._printer.empty_index(path)
            return
        if self._options.index_sanity_check:
            check_sanity(data, OffsetIndex)
            self._printer.sane_index(path)
            return
        for slot in range(count):
            relative, position = OffsetIndex.ENTRY.unpack_from(data, slot * OffsetIndex.ENTRY.size)
            if not relative and slot:
                return  # the room that is preallocated reads as zeros
            offset = base_offset + relative
            last_offset = last_offset_at(log, position, self._options.max_message_size)
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
            raise UnreadableError(f"there is no {log_path} to hold it against") from None

    def _time_index(self, path: str, name: str) -> None:
        base_offset, log = self._beside(path, name)
        data = self._env.read_file(path)
        if self._options.index_sanity_check:
            check_sanity(data, TimeIndex)
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
            found = batch_reaching(log, offsets.lookup(offset)[1], offset)
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


class _Records:
    """The records of one file, batch by batch."""

    def __init__(self, dump: Dump, path: str) -> None:
        self._options = dump._options
        self._printer = dump._printer
        self._non_consecutive = dump.report.non_consecutive
        self._path = path
        self._last_offset = -1

    def dump(self, batch: FileBatch) -> None:
        """Raises one of DAMAGED."""
        prints_contents = self._options.print_data and not batch.entry.is_control
        prints_metadata = not self._options.skip_record_metadata
        printer = self._printer
        for record, check in records(batch.entry):
            if record.offset != self._last_offset + 1:
                pairs = self._non_consecutive.setdefault(os.path.abspath(self._path), {})
                pairs[self._last_offset] = record.offset
            self._last_offset = record.offset
            if prints_metadata:
                said = control(record) if batch.entry.is_control else None
                printer.record(batch, record, check, said)
            if prints_contents:
                self._contents(record, prints_metadata)
            printer.end_record()

    def _contents(self, record: Record, follows_metadata: bool) -> None:
        try:
            decoded = self._options.decode(record)
        except UndecodableError as error:
            self._printer.problem(self._path, str(error))
            return
        self._printer.contents(record, decoded, follows_metadata=follows_metadata)


def _zeros_only(file: File, position: int, end: int) -> bool:
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

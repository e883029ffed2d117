"""What `dump-log` finds in each kind of file, told to a printer. Reads as Kafka's DumpLogSegments does.

Where Kafka's tool would end with a stack trace the printer is told of a problem, and the dump goes on behind it if
that is possible.
"""

from __future__ import annotations

import os
import re
import struct
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from cli.tools.control_text import Control, control
from cli.tools.dump_log_batches import UNREADABLE, LegacyCheck, RawBatch, info, raw_batches, records
from cli.tools.dump_log_decoders import UndecodableError
from cli.tools.dump_log_indexes import (
    MAX_INT32,
    OFFSET_ENTRY,
    TIME_ENTRY,
    OffsetEntries,
    UnreadableError,
    batch_reaching,
    check_time_index_sanity,
    last_offset_at,
)
from protocol.records.checksum import crc32c
from protocol.records.errors import CorruptRecordError
from storage.env import Env, File, read_fully
from storage.log.producer_snapshots import PRODUCER_ENTRY, SnapshotEntry

if TYPE_CHECKING:
    from cli.tools.dump_log_batches import BatchInfo
    from cli.tools.dump_log_decoders import Decoded, Decoder
    from protocol.records.record import Record

_TXN_ENTRY: Final = struct.Struct(">bxqqqq")  # of the version Kafka looks at the first of two bytes
_CHECKPOINT_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
BOOTSTRAP_NAME: Final = "bootstrap.checkpoint"
_ZEROS_BYTES: Final = 1024 * 1024


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

    def batch(self, batch: BatchInfo) -> None:
        """A batch begins."""

    def record(
        self, batch: BatchInfo, record: Record, check: LegacyCheck | None, control: Control | None
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

    def corrupt_snapshot(self, message: str) -> None: ...

    def empty_index(self, path: str) -> None: ...

    def sane_index(self, path: str) -> None: ...

    def problem(self, path: str, message: str) -> None:
        """Something cannot be read; in Kafka's tool a stack trace."""


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
        except (OSError, CorruptRecordError, UnreadableError) as error:
            self._printer.problem(path, _reason(error))

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
            for batch in raw_batches(file, size):
                self._batch(batch, path, records_of)
                valid_bytes = batch.position + batch.size
        except CorruptRecordError:
            if not _zeros_only(
                file, valid_bytes, size
            ):  # the room of a file that is preallocated is no damage
                raise
        if size > valid_bytes and self._options.max_bytes == MAX_INT32:
            self._printer.trailing_bytes(size - valid_bytes, path)

    def _batch(self, batch: RawBatch, path: str, records_of: _Records) -> None:
        try:
            header = info(batch)
        except UNREADABLE as error:
            self._printer.problem(path, f"the batch at position {batch.position}: {error}")
            return
        self._printer.batch(header)
        if self._options.deep:
            try:
                records_of.dump(batch, header)
            except UNREADABLE as error:
                self._printer.problem(path, f"the records of the batch at position {batch.position}: {error}")

    # -- indexes --

    def _index(self, path: str, name: str) -> None:
        base_offset, log = self._beside(path, name)
        data = self._env.read_file(path)
        count = len(data) // OFFSET_ENTRY.size
        if not count:
            self._printer.empty_index(path)
            return
        entries = OffsetEntries(data, base_offset)
        if self._options.index_sanity_check:
            entries.check_sanity(path)
            self._printer.sane_index(path)
            return
        for slot in range(count):
            offset, position = entries.entry(slot)
            if offset == base_offset and slot:
                return  # the room that is preallocated reads as zeros
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
            check_time_index_sanity(data, base_offset, path)
            self._printer.sane_index(path)
            return
        index_path = os.path.join(os.path.dirname(path), name.partition(".")[0] + ".index")
        try:
            offsets = OffsetEntries(self._env.read_file(index_path), base_offset)
        except FileNotFoundError:
            raise UnreadableError(f"there is no {index_path} to look offsets up in") from None
        previous = -1
        for slot in range(len(data) // TIME_ENTRY.size):
            timestamp, relative = TIME_ENTRY.unpack_from(data, slot * TIME_ENTRY.size)
            offset = base_offset + relative
            if offset == base_offset and slot:
                return
            found = batch_reaching(log, offsets.lookup(offset), offset)
            self._check_time_entry(path, found, (timestamp, offset), previous)
            if not self._options.verify_index_only:
                self._printer.time_entry(timestamp, offset)
            previous = timestamp

    def _check_time_entry(
        self, path: str, found: RawBatch | None, entry: tuple[int, int], previous: int
    ) -> None:
        """`found`: the batch that reaches the entry's offset; `previous`: the timestamp of the entry before."""
        timestamp, offset = entry
        absolute = os.path.abspath(path)
        if found is None or info(found).last_offset != offset:
            last_offset = -1 if found is None else info(found).last_offset
            self.report.offsets_not_found.setdefault(absolute, []).append((offset, last_offset))
            return
        try:
            greatest = max((record.timestamp for record, _ in records(found)), default=-1)
        except UNREADABLE as error:
            raise UnreadableError(f"the batch at position {found.position} of the log: {error}") from None
        greatest = max(greatest, -1)
        if greatest != timestamp:
            self.report.time_mismatches.setdefault(absolute, []).append((timestamp, greatest))
        if previous >= timestamp:
            self.report.times_out_of_order.setdefault(absolute, []).append((timestamp, previous))

    def _txn_index(self, path: str, name: str) -> None:
        _base_offset(name)
        data = self._env.read_file(path)
        whole = len(data) // _TXN_ENTRY.size * _TXN_ENTRY.size
        lines = list(_TXN_ENTRY.iter_unpack(data[:whole]))
        for version, *_ in lines:  # Kafka's tool reads all before it prints one
            if version > 0:
                raise UnreadableError(
                    f"it has an aborted transaction of version {version}, and 0 is the latest"
                )
        for version, *fields in lines:
            self._printer.aborted(version, tuple(fields))

    # -- .snapshot --

    def _producers(self, path: str, _name: str) -> None:
        data = self._env.read_file(path)
        problem = _snapshot_problem(data)
        if problem:
            self._printer.corrupt_snapshot(problem)
            return
        count = int.from_bytes(data[6:10], "big")
        for fields in PRODUCER_ENTRY.iter_unpack(data[10 : 10 + count * PRODUCER_ENTRY.size]):
            self._printer.producer(SnapshotEntry(*fields))


class _Records:
    """The records of one file, batch by batch."""

    def __init__(self, dump: Dump, path: str) -> None:
        self._options = dump._options
        self._printer = dump._printer
        self._non_consecutive = dump.report.non_consecutive
        self._path = path
        self._last_offset = -1

    def dump(self, batch: RawBatch, header: BatchInfo) -> None:
        """Raises one of UNREADABLE."""
        prints_contents = self._options.print_data and not header.is_control
        prints_metadata = not self._options.skip_record_metadata
        printer = self._printer
        for record, check in records(batch):
            if record.offset != self._last_offset + 1:
                pairs = self._non_consecutive.setdefault(os.path.abspath(self._path), {})
                pairs[self._last_offset] = record.offset
            self._last_offset = record.offset
            if prints_metadata:
                said = control(record) if header.is_control else None
                printer.record(header, record, check, said)
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


def _snapshot_problem(data: bytes) -> str | None:
    """Why a .snapshot cannot be read, in Kafka's words."""
    schema = _snapshot_schema_problem(data)
    if schema is not None:
        return f"Snapshot failed schema validation: {schema}"
    crc, computed = int.from_bytes(data[2:6], "big"), crc32c(data[6:])
    if crc != computed:
        return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {crc}. Computed crc: {computed}"
    return None


def _snapshot_schema_problem(data: bytes) -> str | None:
    version = int.from_bytes(data[:2], "big", signed=True)
    if len(data) >= 2 and version != 1:
        return f"Snapshot contained an unknown file version {version}"
    if len(data) < 10:
        return "null"
    count, left = int.from_bytes(data[6:10], "big", signed=True), len(data) - 10
    if count < 0:
        return "non-nullable field producerEntries was serialized as null"
    if count > left:
        return f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
    return "null" if count * PRODUCER_ENTRY.size > left else None


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


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)

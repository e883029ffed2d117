"""The dump as JSON, one object a line; HELP describes the types."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.tools.dump_log_batches import TIMESTAMP_TYPES
from barnabas.cli.tools.java_text import file_text

if TYPE_CHECKING:
    from barnabas.cli.tools.dump_log_batches import FileBatch, LegacyCheck
    from barnabas.cli.tools.dump_log_decoders import Control, Decoded
    from barnabas.cli.tools.dump_log_text import Report
    from barnabas.protocol.records.record import Record
    from barnabas.storage.log.producer_snapshots import SnapshotEntry

HELP: Final = """\
With --json each line is one object. Its "type" is one of

\b
  file         path, kind, and base_offset of a log, end_offset and epoch of a snapshot
  batch        position, size, magic, base_offset, last_offset, count, ..., crc, is_valid
  record       offset, timestamp, key_size, value_size, sequence, headers, control;
               with --print-data-log or a decoder: key, value
  offset_entry, time_entry, aborted_transaction, producer     of the other files
  empty_index, sane_index, trailing_bytes, unknown_file
  index_mismatch, time_mismatch, time_out_of_order, offset_not_found, non_consecutive
  problem      path, message

Times are in milliseconds; absent values are null. Keys, values and header values come with "key_encoding" and so on:
"utf8" for text, "base64" for other bytes, "json" for the result of a decoder. Problems and reports are on the same
stream as the rest.
"""

_NO_SEQUENCE: Final = -1


class JsonPrinter:
    """Writes each line with its line end to `out`."""

    def __init__(self, out: Callable[[str], object]) -> None:
        self._write = out
        self._encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
        self._path = ""
        self._record: dict[str, Any] = {}
        self.problems = 0

    def _line(self, kind: str, /, **fields: Any) -> None:
        self._write(self._encode({"type": kind, **fields}) + "\n")

    def file(self, path: str) -> None:
        self._path = file_text(path)

    def _file(self, kind: str, **fields: Any) -> None:
        self._line("file", path=self._path, kind=kind, **fields)

    def unknown_file(self, path: str) -> None:
        self._line("unknown_file", path=file_text(path))

    def log(self, base_offset: int) -> None:
        self._file("log", base_offset=base_offset)

    def snapshot(self, end_offset: int, epoch: int) -> None:
        self._file("snapshot", end_offset=end_offset, epoch=epoch)

    def bootstrap(self) -> None:
        self._file("bootstrap")

    def batch(self, batch: FileBatch) -> None:
        entry = batch.entry
        fields: dict[str, Any] = {
            "position": batch.position,
            "size": entry.size_in_bytes,
            "magic": entry.magic,
            "last_offset": entry.last_offset,
            "timestamp_type": TIMESTAMP_TYPES[entry.timestamp_type],
            "max_timestamp": entry.max_timestamp,
            "compression": entry.compression_type.label,
            "crc": entry.crc,
            "is_valid": entry.is_valid_crc(),
        }
        if entry.magic >= 2:
            fields |= {
                "base_offset": entry.base_offset,
                "count": entry.record_count,
                "base_sequence": _or_none(entry.base_sequence),
                "last_sequence": _or_none(entry.last_sequence),
                "producer_id": _or_none(entry.producer_id),
                "producer_epoch": _or_none(entry.producer_epoch),
                "partition_leader_epoch": _or_none(entry.partition_leader_epoch),
                "is_transactional": entry.is_transactional,
                "is_control": entry.is_control,
                "delete_horizon_ms": entry.delete_horizon_ms,
            }
        self._line("batch", **fields)

    def record(
        self, batch: FileBatch, record: Record, check: LegacyCheck | None, control: Control | None
    ) -> None:
        fields: dict[str, Any] = {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key_size": None if record.key is None else len(record.key),
            "value_size": None if record.value is None else len(record.value),
        }
        if batch.entry.magic >= 2:
            fields["sequence"] = _or_none(record.sequence)
            fields["headers"] = [{"key": name, **_encoded("value", value)} for name, value in record.headers]
        if check is not None:
            fields |= {"is_valid": check.is_valid, "crc": check.crc}
        if control is not None:
            fields["control"] = {"name": control.name, "number": control.number}
            if control.coordinator_epoch is not None:
                fields["control"]["coordinator_epoch"] = control.coordinator_epoch
            if control.data is not None:
                fields["control"]["data"] = control.data
        self._record |= fields

    def contents(self, record: Record, decoded: Decoded, *, follows_metadata: bool) -> None:
        if not follows_metadata:
            self._record["offset"] = record.offset
        for name, raw, item in (
            ("key", record.key, decoded.key),
            ("value", record.value, decoded.value),
        ):
            tree = getattr(item, "tree", None)
            if tree is not None:
                self._record |= {name: tree, f"{name}_encoding": "json"}
            elif isinstance(item, int):
                self._record |= {name: item, f"{name}_encoding": "number"}
            else:
                self._record |= _encoded(name, raw)

    def end_record(self) -> None:
        if self._record:
            self._line("record", **self._record)
            self._record = {}

    def trailing_bytes(self, count: int, path: str) -> None:
        self._line("trailing_bytes", path=file_text(path), count=count)

    def offset_entry(self, offset: int, position: int) -> None:
        self._line("offset_entry", path=self._path, offset=offset, position=position)

    def time_entry(self, timestamp: int, offset: int) -> None:
        self._line("time_entry", path=self._path, timestamp=timestamp, offset=offset)

    def aborted(self, version: int, fields: tuple[int, int, int, int]) -> None:
        names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
        named = dict(zip(names, fields, strict=True))
        self._line("aborted_transaction", path=self._path, version=version, **named)

    def producer(self, producer: SnapshotEntry) -> None:
        has_batch = producer.last_offset >= 0
        self._line(
            "producer",
            path=self._path,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            coordinator_epoch=_or_none(producer.coordinator_epoch),
            current_txn_first_offset=_or_none(producer.current_txn_first_offset),
            last_timestamp=producer.timestamp,
            first_sequence=producer.first_sequence if has_batch else None,
            last_sequence=producer.last_sequence if has_batch else None,
            last_offset=producer.last_offset if has_batch else None,
            offset_delta=producer.offset_delta if has_batch else None,
        )

    def empty_index(self, path: str) -> None:
        self._line("empty_index", path=file_text(path))

    def sane_index(self, path: str) -> None:
        self._line("sane_index", path=file_text(path))

    def problem(self, path: str, message: str) -> None:
        self.problems += 1
        self._line("problem", path=file_text(path), message=message)

    def report(self, report: Report) -> None:
        """Prints the findings about all files."""
        self._pairs("index_mismatch", report.index_mismatches, ("index_offset", "log_offset"))
        self._pairs("time_mismatch", report.time_mismatches, ("index_timestamp", "log_timestamp"))
        self._pairs("time_out_of_order", report.times_out_of_order, ("index_timestamp", "previous_timestamp"))
        self._pairs("offset_not_found", report.offsets_not_found, ("index_offset", "log_offset"))
        self._pairs("non_consecutive", report.non_consecutive, ("offset", "next_offset"))

    def _pairs(
        self,
        kind: str,
        found: dict[str, dict[int, int]] | dict[str, list[tuple[int, int]]],
        names: tuple[str, str],
    ) -> None:
        for path, pairs in found.items():
            for pair in sorted(pairs.items()) if isinstance(pairs, dict) else pairs:
                self._line(kind, path=path, **dict(zip(names, pair, strict=True)))


def _or_none(number: int) -> int | None:
    return None if number == _NO_SEQUENCE else number


def _encoded(name: str, data: bytes | None) -> dict[str, Any]:
    """The field and its encoding."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode(), f"{name}_encoding": "utf8"}
    except UnicodeDecodeError:
        return {name: base64.b64encode(data).decode(), f"{name}_encoding": "base64"}

"""The lines of Kafka's DumpLogSegments: data on one stream, reports and problems on the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Sized
from typing import TYPE_CHECKING

from barnabas.cli.tools.dump_log_batches import TIMESTAMP_TYPES
from barnabas.cli.tools.java_text import file_text, hash_map_order

if TYPE_CHECKING:
    from barnabas.cli.tools.dump_log_batches import FileBatch, LegacyCheck
    from barnabas.cli.tools.dump_log_decoders import Control, Decoded
    from barnabas.protocol.records.record import Record
    from barnabas.storage.log.producer_snapshots import SnapshotEntry

Write = Callable[[str], object]


class Report:
    """The findings that are printed after the last file, by absolute path of the file, in the order they were found."""

    def __init__(self) -> None:
        self.index_mismatches: dict[str, dict[int, int]] = {}
        self.time_mismatches: dict[str, list[tuple[int, int]]] = {}
        self.times_out_of_order: dict[str, list[tuple[int, int]]] = {}
        self.offsets_not_found: dict[str, list[tuple[int, int]]] = {}
        self.non_consecutive: dict[str, dict[int, int]] = {}


class TextPrinter:
    """Writes each line with its line end to `out`, reports and problems to `err`."""

    def __init__(self, out: Write, err: Write) -> None:
        self._out = out
        self._err = err
        self.problems = 0

    def file(self, path: str) -> None:
        self._out(f"Dumping {file_text(path)}\n")

    def unknown_file(self, path: str) -> None:
        self._err(f"Ignoring unknown file {file_text(path)}\n")

    def log(self, base_offset: int) -> None:
        self._out(f"Log starting offset: {base_offset}\n")

    def snapshot(self, end_offset: int, epoch: int) -> None:
        self._out(f"Snapshot end offset: {end_offset}, epoch: {epoch}\n")

    def bootstrap(self) -> None:
        self._out("KRaft bootstrap snapshot\n")

    def batch(self, batch: FileBatch) -> None:
        entry = batch.entry
        if entry.magic >= 2:
            beginning = (
                f"baseOffset: {entry.base_offset} lastOffset: {entry.last_offset} count: {entry.record_count} "
                f"baseSequence: {entry.base_sequence} lastSequence: {entry.last_sequence} "
                f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch} "
                f"partitionLeaderEpoch: {entry.partition_leader_epoch} "
                f"isTransactional: {_bool(entry.is_transactional)} isControl: {_bool(entry.is_control)} "
                f"deleteHorizonMs: {_optional(entry.delete_horizon_ms)}"
            )
        else:
            beginning = f"offset: {entry.last_offset}"
        self._out(
            f"{beginning} position: {batch.position} {TIMESTAMP_TYPES[entry.timestamp_type]}: {entry.max_timestamp} "
            f"size: {entry.size_in_bytes} magic: {entry.magic} compresscodec: {entry.compression_type.label} "
            f"crc: {entry.crc} isvalid: {_bool(entry.is_valid_crc())}\n"
        )

    def record(
        self, batch: FileBatch, record: Record, check: LegacyCheck | None, control: Control | None
    ) -> None:
        key, value = record.key, record.value
        line = (
            f"| offset: {record.offset} {TIMESTAMP_TYPES[batch.entry.timestamp_type]}: {record.timestamp} "
            f"keySize: {-1 if key is None else len(key)} valueSize: {-1 if value is None else len(value)}"
        )
        if batch.entry.magic >= 2:
            names = ",".join(name for name, _ in record.headers) if record.headers else ""
            line += f" sequence: {record.sequence} headerKeys: [{names}]"
        if check is not None:
            line += f" isValid: {_bool(check.is_valid)} crc: {check.crc}"
        self._out(line if control is None else f"{line}{control}")

    def contents(self, record: Record, decoded: Decoded, *, follows_metadata: bool) -> None:
        prefix = " " if follows_metadata else "| "
        if decoded.key is not None:
            self._out(f"{prefix}key: {decoded.key}")
            prefix = " "
        if decoded.value is not None:
            self._out(f"{prefix}payload: {decoded.value}")

    def end_record(self) -> None:
        self._out("\n")

    def trailing_bytes(self, count: int, path: str) -> None:
        self._out(f"Found {count} invalid bytes at the end of {os.path.basename(path)}\n")

    def offset_entry(self, offset: int, position: int) -> None:
        self._out(f"offset: {offset} position: {position}\n")

    def time_entry(self, timestamp: int, offset: int) -> None:
        self._out(f"timestamp: {timestamp} offset: {offset}\n")

    def aborted(self, version: int, fields: tuple[int, int, int, int]) -> None:
        producer_id, first_offset, last_offset, last_stable_offset = fields
        self._out(
            f"version: {version} producerId: {producer_id} firstOffset: {first_offset} lastOffset: {last_offset} "
            f"lastStableOffset: {last_stable_offset}\n"
        )

    def producer(self, producer: SnapshotEntry) -> None:
        first = producer.current_txn_first_offset
        line = (
            f"producerId: {producer.producer_id} producerEpoch: {producer.producer_epoch} "
            f"coordinatorEpoch: {producer.coordinator_epoch} "
            f"currentTxnFirstOffset: {_optional(first if first >= 0 else None)} lastTimestamp: {producer.timestamp}"
        )
        if producer.last_offset >= 0:
            line += (
                f" firstSequence: {producer.first_sequence} lastSequence: {producer.last_sequence} "
                f"lastOffset: {producer.last_offset} offsetDelta: {producer.offset_delta} "
                f"timestamp: {producer.timestamp}"
            )
        self._out(f"{line}\n")

    def empty_index(self, path: str) -> None:
        self._out(f"{file_text(path)} is empty.\n")

    def sane_index(self, path: str) -> None:
        self._out(f"{file_text(path)} passed sanity check.\n")

    def problem(self, path: str, message: str) -> None:
        self.problems += 1
        self._err(f"error: {file_text(path)}: {message}\n")

    def report(self, report: Report) -> None:
        """What Kafka's tool says after the last file, in its order: that of its hash maps."""
        err = self._err
        for path in _in_order(report.index_mismatches):
            err(f"Mismatches in :{path}\n")
            for offset, found in sorted(report.index_mismatches[path].items(), reverse=True):
                err(f"  Index offset: {offset}, log offset: {found}\n")
        for path in _in_order(report.time_mismatches):
            err(f"Found timestamp mismatch in :{path}\n")
            for timestamp, found in report.time_mismatches[path]:
                err(f"  Index timestamp: {timestamp}, log timestamp: {found}\n")
        for path in _in_order(report.times_out_of_order):
            err(f"Found out of order timestamp in :{path}\n")
            for timestamp, previous in report.times_out_of_order[path]:
                err(f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}\n")
        for path in _in_order(report.offsets_not_found):
            err(f"The following indexed offsets are not found in :{path}\n")
            for offset, found in report.offsets_not_found[path]:
                err(f"Indexed offset: {offset}, found log offset: {found}\n")
        for path in _in_order(report.non_consecutive):
            err(f"Non-consecutive offsets in {path}\n")
            for offset, following in sorted(report.non_consecutive[path].items()):
                err(f"  {offset} is followed by {following}\n")


def _in_order(found: Mapping[str, Sized]) -> Sequence[str]:
    """The files in the order of Kafka's hash map."""
    return hash_map_order(found, is_asked_again=bool(found) and len(found[next(reversed(list(found)))]) > 1)


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _optional(value: int | None) -> str:
    """`OptionalLong.toString`."""
    return "OptionalLong.empty" if value is None else f"OptionalLong[{value}]"

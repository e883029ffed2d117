"""Loading: replays a partition's log into a new shard, on any thread.

The log is read twice: first for the last offset of each key, then for the records. One that a later record of the same
key replaces is skipped, so the shard replays what compaction would leave. In a log that was not compacted lately most
records are skipped, which is far cheaper than decoding them. Records of transactions are all replayed and replace none:
a marker decides later whether they count.
Source: org.apache.kafka.coordinator.common.runtime.CoordinatorLoaderImpl.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from barnabas.broker.coordinator.records import RecordSerde, UnknownRecordTypeError
from barnabas.broker.coordinator.shard import CoordinatorShard
from barnabas.protocol.records.batch import CorruptRecordError, RecordBatch, entry_header
from barnabas.protocol.records.control import ControlRecordType, control_record_type
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.legacy import LegacyEntry
from barnabas.storage.env import File, read_fully
from barnabas.storage.offsets import FileRecords

if TYPE_CHECKING:
    from barnabas.protocol.records.cleaning import KeyMapper, RecordFilter

logger = logging.getLogger("barnabas.coordinator")

_PART_BYTES: Final = 64 * 1024
"""Bytes that are processed before other threads get a turn: the event loop must not wait long."""

_LONGEST_HEADER_BYTES: Final = 17
"""The bytes that give the size of a batch, of any format."""

_NO_END: Final = 1 << 62
_LONG_AGO: Final = -(1 << 62)
_MANY_RECORDS: Final = 10_000

_MIN_TABLE_BYTES: Final = 4096
_MAX_TABLE_BYTES: Final = 256 << 20
"""Room for eleven million keys; the memory is taken as it is used."""


class LoadCancelledError(Exception):
    """The shard is no longer needed."""


class LoadSummary:
    """The result of a load: `records` were replayed, `skipped` replaced by later ones; `size` in bytes, times in ms."""

    def __init__(self) -> None:
        self.records = 0
        self.size = 0
        self.skipped = 0
        self.started_ms = time.time() * 1000
        self.ended_ms = self.started_ms


class ShardLoader:
    """Replays one log, `buffer_size` bytes at a time, as long as `is_wanted` returns True."""

    def __init__(
        self, name: str, serde: RecordSerde, buffer_size: int, is_wanted: Callable[[], bool]
    ) -> None:
        self._name = name
        self._serde = serde
        self._buffer_size = buffer_size
        self._is_wanted = is_wanted
        self._unknown: set[int] = set()
        self.summary = LoadSummary()

    def load(self, contents: Sequence[FileRecords], shard: CoordinatorShard) -> None:
        """Raises LoadCancelledError, OSError, CorruptRecordError, InvalidRecordError, UnreadableRecordError, and what a
        replay raises."""
        with _without_collections():
            self._load(contents, shard)
            if self.summary.records > _MANY_RECORDS:
                gc.freeze()  # what is loaded stays, so that no collection need traverse it
        self.summary.ended_ms = time.time() * 1000

    def _load(self, contents: Sequence[FileRecords], shard: CoordinatorShard) -> None:
        # Only for a log with groups or transactions: they and hashlib take 1 MiB.
        from barnabas.protocol.records.cleaning import KeyMapper, RecordFilter
        from barnabas.protocol.records.key_table import KeyTable

        self.summary.size = sum(piece.size for piece in contents)
        table_bytes = min(max(_MIN_TABLE_BYTES, self.summary.size * 3 // 4), _MAX_TABLE_BYTES)
        table = KeyTable(table_bytes, os.urandom(16))
        mapper = KeyMapper(table, first_offset=0, end_offset=_NO_END, max_entries=table.slots - 1)
        self._walk(contents, lambda part: _map_keys(part, mapper))
        latest = RecordFilter(
            table,
            now_ms=_LONG_AGO,  # so that no tombstone has expired
            horizon_ms=0,
            upper_bound_offset=-1,
            last_data_offsets={},
            output_bytes=_PART_BYTES,
        )
        self._walk(contents, lambda part: self._replay_part(part, latest, shard))
        self.summary.skipped = latest.messages_read - latest.messages_kept

    def _walk(self, contents: Sequence[FileRecords], process: Callable[[bytes], int]) -> None:
        """Passes the log to `process` in pieces; `process` returns the bytes of the whole batches that it found."""
        for piece in contents:
            position, end = piece.position, piece.position + piece.size
            while position < end:
                assert piece.file is not None
                position += self._process_data(self._read(piece.file, position, end), process)

    def _read(self, file: File, position: int, end: int) -> bytes:
        """Up to `buffer_size` bytes, and one batch at least."""
        data = read_fully(file, min(self._buffer_size, end - position), position)
        size = _first_size(data)
        if size > end - position:
            raise CorruptRecordError(f"{self._name}: {end - position} bytes at the end are no batch")
        return read_fully(file, size, position) if size > len(data) else data

    def _process_data(self, data: bytes, process: Callable[[bytes], int]) -> int:
        """Returns the bytes of whole batches in `data`; a batch that is cut off at the end is left."""
        at = 0
        while at < len(data):
            if not self._is_wanted():
                raise LoadCancelledError
            taken = process(data[at : at + _PART_BYTES])
            if taken == 0:  # a batch that is larger than that
                size = _first_size(data[at : at + _LONGEST_HEADER_BYTES])
                if size > len(data) - at:
                    break
                taken = process(data[at : at + size])
            at += taken
            time.sleep(0)
        return at

    def _replay_part(self, part: bytes, latest: RecordFilter, shard: CoordinatorShard) -> int:
        """Replays the whole batches of `part`, without replaced records, and returns their bytes."""
        at = 0
        while True:
            came = latest.filter_plain_batches(part, at)
            for batch in batches(bytes(latest.taken())):
                self._replay(batch, shard)
            latest.clear()
            if came > at:
                at = came
                continue
            other = next(batches(part, at), None)
            if other is None:
                return at
            if other.is_control:
                self._replay_control(other, shard)
            else:
                self._replay(other, shard)
            at += other.size_in_bytes

    def _replay(self, batch: RecordBatch | LegacyEntry, shard: CoordinatorShard) -> None:
        decode, replay = self._serde.decode, shard.replay
        producer_id, producer_epoch = batch.producer_id, batch.producer_epoch
        for record in batch.records():
            self.summary.records += 1
            try:
                decoded = decode(record.key, record.value)
            except UnknownRecordTypeError as error:
                self._log_unknown_type(error.type, record.offset)
                continue
            replay(record.offset, producer_id, producer_epoch, decoded)

    def _replay_control(self, batch: RecordBatch | LegacyEntry, shard: CoordinatorShard) -> None:
        for record in batch.records():
            kind = control_record_type(record.key)
            if kind in {ControlRecordType.COMMIT, ControlRecordType.ABORT}:
                shard.replay_end_transaction_marker(
                    batch.producer_id, batch.producer_epoch, committed=kind is ControlRecordType.COMMIT
                )

    def _log_unknown_type(self, kind: int, offset: int) -> None:
        if kind not in self._unknown:
            self._unknown.add(kind)
            logger.warning(
                "%s: records of type %d are skipped, the first at offset %d: a later version wrote them",
                self._name,
                kind,
                offset,
            )


@contextmanager
def _without_collections() -> Iterator[None]:
    """Disables the garbage collector: growing state has no cyclic garbage, and each collection would stop the event
    loop to traverse all of it."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _map_keys(part: bytes, mapper: KeyMapper) -> int:
    """Maps keys to their last offsets, as far as the table has room; returns the bytes of whole batches."""
    at = mapper.map_plain_batches(part, 0)
    while (other := next(batches(part, at), None)) is not None:
        at = mapper.map_plain_batches(part, at + other.size_in_bytes)
    return at


def _first_size(data: bytes) -> int:
    """The bytes of the first batch, or of a header where that is cut off."""
    return entry_header(data)[1] if len(data) >= _LONGEST_HEADER_BYTES else _LONGEST_HEADER_BYTES

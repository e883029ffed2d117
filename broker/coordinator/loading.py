"""Loading: a partition's log replayed into a new shard, on whatever thread.

Source: org.apache.kafka.coordinator.common.runtime.CoordinatorLoaderImpl.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from broker.coordinator.serde import RecordSerde, UnknownRecordTypeError
from broker.coordinator.shard import CoordinatorShard
from protocol.records.batch import RecordBatch
from protocol.records.control import ControlRecordType, control_record_type
from protocol.records.legacy import LegacyEntry
from storage.offsets import FileRecords
from storage.replay import read_batches

logger = logging.getLogger("barnabas.coordinator")

_RECORDS_BETWEEN_REST: Final = 200
"""Records after which the interpreter is offered to the other threads: the event loop must not wait for a loader."""


class LoadCancelledError(Exception):
    """Nobody wants the shard any more."""


class LoadSummary:
    """What was read: `records` without markers, `size` in bytes, and how long it took."""

    __slots__ = ("ended_ms", "records", "size", "started_ms")

    def __init__(self) -> None:
        self.records = 0
        self.size = 0
        self.started_ms = time.time() * 1000
        self.ended_ms = self.started_ms


class ShardLoader:
    """Replays one log. `is_wanted` is asked now and then whether to go on."""

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
        """Raises LoadCancelledError, OSError, CorruptRecordError, UnreadableRecordError, and what a replay raises."""
        for piece in contents:
            if piece.file is None:
                continue
            self.summary.size += piece.size
            end = piece.position + piece.size
            for batch in read_batches(piece.file, piece.position, end, self._buffer_size):
                self._replay(batch, shard)

    def _replay(self, batch: RecordBatch | LegacyEntry, shard: CoordinatorShard) -> None:
        if not self._is_wanted():
            raise LoadCancelledError
        if batch.is_control:
            self._replay_control(batch, shard)
            return
        producer_id, producer_epoch = batch.producer_id, batch.producer_epoch
        for record in batch.records():
            self.summary.records += 1
            if self.summary.records % _RECORDS_BETWEEN_REST == 0:
                time.sleep(0)
            try:
                decoded = self._serde.decode(record.key, record.value)
            except UnknownRecordTypeError as error:
                self._skipped(error.type, record.offset)
                continue
            shard.replay(record.offset, producer_id, producer_epoch, decoded)

    def _replay_control(self, batch: RecordBatch | LegacyEntry, shard: CoordinatorShard) -> None:
        for record in batch.records():
            kind = control_record_type(record.key)
            if kind in {ControlRecordType.COMMIT, ControlRecordType.ABORT}:
                shard.replay_end_transaction_marker(
                    batch.producer_id, batch.producer_epoch, committed=kind is ControlRecordType.COMMIT
                )

    def _skipped(self, kind: int, offset: int) -> None:
        if kind not in self._unknown:
            self._unknown.add(kind)
            logger.warning(
                "%s: records of type %d are left out, the first at offset %d: a later version wrote them",
                self._name,
                kind,
                offset,
            )

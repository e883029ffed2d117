"""BatchFilter: which records of a batch the log cleaner keeps. Kafka's rules of Cleaner.cleanInto.

`protocol.records.cleaning` filters batches without transactions, which are nearly all, many at a time. This module
filters the rest: transactional data, control batches, and the older formats.

batch                       | its records                        | a batch without records
----------------------------+------------------------------------+----------------------------------------------------
data, not aborted           | are kept by key                    | is dropped; kept empty if it is the last one of
                            |                                    | its producer or the last one of this cleaning
data of an aborted          | are dropped                        | the same
transaction                 |                                    |
marker, data were seen      | are kept                           | -
marker, no data were seen   | are kept until their delete        | the same; a producer that has only a marker left
                            | horizon has passed                 | keeps the one with its last epoch
other control batches       | are kept                           | -
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from barnabas.protocol.records.batch import NO_TIMESTAMP, RecordBatch, TimestampType, build_batch
from barnabas.protocol.records.cleaning import RecordFilter
from barnabas.protocol.records.legacy import LegacyEntry
from barnabas.storage.cleaner.cleaned_transactions import CleanedTransactions
from barnabas.storage.cleaner.offset_map import OffsetMap
from barnabas.storage.log.cleaning_plan import CleaningPlan

if TYPE_CHECKING:
    from barnabas.protocol.records.record import Record


MAX_TIMESTAMP: Final = (1 << 63) - 1


class BatchFilter:
    """Filters batches into `records.taken()`."""

    def __init__(self, plan: CleaningPlan, offset_map: OffsetMap, transactions: CleanedTransactions) -> None:
        self._plan = plan
        self._offset_map = offset_map
        self._transactions = transactions
        self.keeps_legacy_deletes = True
        """Whether tombstones of the older formats, which have no delete horizon, are kept in this segment."""
        self.records = RecordFilter(
            offset_map.table,
            now_ms=plan.now_ms,
            horizon_ms=_delete_horizon_ms(plan),
            upper_bound_offset=plan.first_uncleanable_offset,
            last_data_offsets={
                producer_id: offset
                for producer_id, (_, offset) in plan.last_records_of_producers.items()
                if offset is not None
            },
            output_bytes=plan.io_buffer_bytes,
        )

    def filter(self, batch: RecordBatch | LegacyEntry) -> None:
        """Filters one whole batch. Raises CorruptRecordError, InvalidRecordError, UnsupportedCompressionError."""
        batch.ensure_valid()
        if isinstance(batch, LegacyEntry):
            self._filter_legacy(batch)
        elif batch.is_control:
            self._filter_control(batch)
        elif batch.is_transactional and self._transactions.may_discard(batch):
            self._keep_empty(
                batch, is_kept=self.records.stays_empty(batch.producer_id, batch.last_offset), is_read=False
            )
        else:
            self._filter_data(batch)

    def _filter_data(self, batch: RecordBatch) -> None:
        horizon = batch.delete_horizon_ms
        keeps_deletes = horizon is None or self._plan.now_ms < horizon
        payload = batch.uncompressed_payload()
        kept = self.records.filter_records(
            payload, batch.record_count, batch.base_offset, keeps_deletes, by_key=True
        )
        if kept:
            sets_horizon = horizon is None and self.records.has_tombstone
            self._write(batch, payload, kept, sets_horizon=sets_horizon)
        else:
            is_kept = self.records.stays_empty(batch.producer_id, batch.last_offset)
            self._keep_empty(batch, is_kept=is_kept, is_read=True)

    def _filter_control(self, batch: RecordBatch) -> None:
        may_go = self._transactions.may_discard(batch)
        horizon = batch.delete_horizon_ms
        payload = batch.uncompressed_payload()
        if batch.record_count == 0 or (may_go and horizon is not None and horizon <= self._plan.now_ms):
            self._keep_empty(batch, is_kept=self._is_last_marker(batch), is_read=False)
            return
        kept = self.records.filter_records(
            payload, batch.record_count, batch.base_offset, keeps_deletes=True, by_key=False
        )
        sets_horizon = horizon is None and (may_go or self.records.has_tombstone)
        self._write(batch, payload, kept, sets_horizon=sets_horizon)

    def _is_last_marker(self, batch: RecordBatch) -> bool:
        if batch.next_offset == self._plan.first_uncleanable_offset:
            return True
        last = self._plan.last_records_of_producers.get(batch.producer_id)
        if not batch.has_producer_id or last is None:
            return False
        epoch, last_data_offset = last
        if last_data_offset is None:
            return batch.producer_epoch == epoch
        return batch.last_offset == last_data_offset

    def _write(
        self, batch: RecordBatch, payload: bytes | memoryview, kept: int, *, sets_horizon: bool
    ) -> None:
        if kept == batch.record_count and not sets_horizon:
            self.records.append_batch(_bytes_of(batch), batch.last_offset, batch.max_timestamp)
        else:
            self.records.rebuild(payload, _bytes_of(batch), kept, sets_horizon)

    def _keep_empty(self, batch: RecordBatch, *, is_kept: bool, is_read: bool) -> None:
        """Writes a batch without records if `is_kept`; its records count as read, unless `is_read` counted them."""
        if is_kept:
            self.records.write_empty(_bytes_of(batch))
            if not is_read:
                self.records.messages_read += batch.record_count

    # -- older formats --

    def _filter_legacy(self, entry: LegacyEntry) -> None:
        """Converts the kept records of a message, or of a wrapper, to a v2 batch (as Kafka 4 does, but not earlier)."""
        records = list(entry.records(check_inner=True))
        kept = list(self._kept(records))
        self.records.messages_read += len(records)
        self.records.messages_kept += len(kept)
        if not kept:
            return
        has_tombstone = any(record.value is None for record in kept)
        appended = entry.timestamp_type == TimestampType.LOG_APPEND_TIME
        batch = build_batch(
            kept,
            compression=entry.compression_type,
            timestamp_type=TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME,
            log_append_time=entry.max_timestamp if appended else NO_TIMESTAMP,
            delete_horizon_ms=self.records.horizon_ms
            if has_tombstone and self.records.horizon_ms >= 0
            else None,
        )
        max_timestamp = entry.max_timestamp if appended else max(record.timestamp for record in kept)
        self.records.append_batch(batch, kept[-1].offset, max_timestamp)

    def _kept(self, records: "list[Record]") -> "Iterator[Record]":
        for record in records:
            if record.offset > self._offset_map.latest_offset:
                yield record
            elif record.key is None:
                self.records.invalid_messages += 1
            elif (record.value is not None or self.keeps_legacy_deletes) and self._offset_map.get(
                record.key
            ) <= record.offset:
                yield record


def _delete_horizon_ms(plan: CleaningPlan) -> int:
    """The delete horizon, ms, that this cleaning sets; -1 (never) beyond the largest timestamp, as in Kafka."""
    horizon_ms = plan.now_ms + plan.delete_retention_ms
    return horizon_ms if horizon_ms <= MAX_TIMESTAMP else -1


def _bytes_of(batch: RecordBatch | LegacyEntry) -> memoryview:
    return memoryview(batch.buffer)[batch.position : batch.position + batch.size_in_bytes]

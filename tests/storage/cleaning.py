"""Helpers of the log cleaner's tests: make plans, put cleaned segments in place, read logs back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from barnabas.protocol.records import cleaning, key_table
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.legacy import LegacyEntry
from barnabas.storage.cleaner import batch_filter, offset_map
from barnabas.storage.cleaner import cleaner as log_cleaner
from barnabas.storage.cleaner.cleaned_segment import CLEANED_SUFFIX
from barnabas.storage.env import Env, remove_if_exists
from barnabas.storage.log.cleaning_plan import CleaningPlan, CleaningResult, SegmentToClean
from barnabas.storage.log.producer_state import ProducerStateManager
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.segment.names import LOG_SUFFIX, SEGMENT_SUFFIXES, TXN_INDEX_SUFFIX, segment_path
from barnabas.storage.segment.txn_index import AbortedTxn, TransactionIndex
from tests.storage.helpers import T0
from tests.support.loops import in_form


def forms_of_the_loops(form: str) -> tuple[Any, Any]:
    """(key_table, cleaning), interpreted or compiled; skips the test where they are not compiled."""
    return in_form(key_table, form), in_form(cleaning, form)


@contextmanager
def running(form: str) -> Iterator[None]:
    """Run the cleaner with its loops in one of the two forms."""
    tables, loops = forms_of_the_loops(form)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(offset_map, "KeyTable", tables.KeyTable)
        patch.setattr(log_cleaner, "KeyMapper", loops.KeyMapper)
        patch.setattr(batch_filter, "RecordFilter", loops.RecordFilter)
        yield


# -- plans --


def base_offsets(env: Env, directory: str) -> list[int]:
    """The base offsets of all segments, the active one last."""
    return sorted(int(name[:20]) for name in env.listdir(directory) if name.endswith(LOG_SUFFIX))


def segments_in(env: Env, directory: str) -> list[SegmentToClean]:
    """All segments but the active one, as a manager describes them."""
    return [
        SegmentToClean(
            base_offset,
            env.size(segment_path(directory, base_offset, ".log")),
            env.size(segment_path(directory, base_offset, ".index")),
            env.size(segment_path(directory, base_offset, ".timeindex")),
            env.mtime_ms(segment_path(directory, base_offset, ".log")),
        )
        for base_offset in base_offsets(env, directory)[:-1]
    ]


def last_records(producers: ProducerStateManager) -> dict[int, tuple[int, int | None]]:
    """Kafka's lastRecordsOfActiveProducers."""
    return {
        entry.producer_id: (entry.producer_epoch, entry.last_offset if entry.last_offset >= 0 else None)
        for entry in producers.producers.values()
    }


def plan_for(env: Env, log: UnifiedLog, **changes: Any) -> CleaningPlan:
    """A plan to clean all but the active segment of a log that is closed or flushed."""
    config = log.config
    segments = segments_in(env, log.directory)
    active = base_offsets(env, log.directory)[-1]
    plan = CleaningPlan(
        directory=log.directory,
        topic="t",
        partition=0,
        segments=tuple(segments),
        first_dirty_offset=0,
        first_uncleanable_offset=active,
        log_start_offset=log.log_start_offset,
        now_ms=T0 + 1_000_000,
        last_records_of_producers=last_records(log.producer_state_manager),
        segment_bytes=config.segment_bytes,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        delete_retention_ms=100_000,
        dedupe_buffer_bytes=1 << 16,
        load_factor=0.9,
        io_buffer_bytes=4096,
        max_io_bytes_per_second=float("inf"),
    )
    return plan._replace(**changes)


def swap_in(env: Env, directory: str, result: CleaningResult) -> None:
    """Replaces segments by the cleaned ones."""
    for cleaned in result.segments:
        for base_offset in cleaned.replaces:
            for suffix in SEGMENT_SUFFIXES:
                remove_if_exists(env, segment_path(directory, base_offset, suffix))
        for suffix in SEGMENT_SUFFIXES:
            path = segment_path(directory, cleaned.base_offset, suffix)
            if env.exists(path + CLEANED_SUFFIX):
                env.rename(path + CLEANED_SUFFIX, path)


# -- reading back --


def stored_batches(env: Env, directory: str) -> list[RecordBatch | LegacyEntry]:
    """Every batch of every segment, checked."""
    found: list[RecordBatch | LegacyEntry] = []
    for base_offset in base_offsets(env, directory):
        data = env.read_file(segment_path(directory, base_offset, ".log"))
        segment = list(batches(data))
        assert sum(batch.size_in_bytes for batch in segment) == len(data)
        found += segment
    for batch in found:
        batch.ensure_valid()
    return found


def stored_records(env: Env, directory: str) -> dict[int, Any]:
    """Offset: record, for all data batches."""
    return {
        record.offset: record
        for batch in stored_batches(env, directory)
        if not batch.is_control
        for record in batch.records()
    }


def aborted_transactions(env: Env, directory: str) -> list[AbortedTxn]:
    """All entries of all transaction indexes."""
    return [
        entry
        for base_offset in base_offsets(env, directory)
        for entry in TransactionIndex(
            env, segment_path(directory, base_offset, TXN_INDEX_SUFFIX), base_offset
        ).transactions
    ]


def committed_records(env: Env, directory: str) -> dict[int, Any]:
    """The records that a read_committed consumer receives; it finds aborted data by the transaction indexes."""
    aborted = aborted_transactions(env, directory)
    return {
        record.offset: record
        for batch in stored_batches(env, directory)
        if not batch.is_control
        and not any(
            batch.is_transactional
            and batch.producer_id == entry.producer_id
            and entry.first_offset <= batch.last_offset <= entry.last_offset
            for entry in aborted
        )
        for record in batch.records()
    }


def last_values(records: dict[int, Any], keys_from: int = 0) -> dict[bytes, bytes]:
    """Key: last value, without keys whose last record is a tombstone."""
    values: dict[bytes, bytes | None] = {}
    for offset in sorted(records):
        record = records[offset]
        if record.key is not None and offset >= keys_from:
            values[record.key] = record.value
    return {key: value for key, value in values.items() if value is not None}

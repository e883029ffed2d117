"""Compares the counts of keys and kept records with a model and with the log cleaner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.audit.keys import KEYS, Kept, KeptRecords, KeyCounter, KeyStats, last_records, parts_of
from barnabas.pipeline.audit.plan import AuditOptions, SegmentTask
from barnabas.pipeline.audit.segment import examine
from barnabas.protocol.records.batch import CompressionType, RecordBatch, build_batch
from barnabas.protocol.records.entries import batches
from barnabas.storage.cleaner.cleaner import clean
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import AppendOrigin
from barnabas.storage.segment.txn_index import AbortedTxn
from barnabas.storage.verify.verifier import Situation
from tests.protocol.records.message_sets import message_set
from tests.storage.cleaning import base_offsets, plan_for, stored_batches, swap_in
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import DIRECTORY, T0, end_txn, new_log, small_config
from tests.support.chance import seeds

Record = tuple[bytes | None, bytes | None]
RECORDS = st.tuples(st.none() | st.binary(max_size=2), st.none() | st.binary(max_size=40))
SEGMENTS = st.lists(st.lists(st.lists(RECORDS, min_size=1, max_size=6), max_size=5), min_size=1, max_size=5)
ACTIVE = 1_000_000


def counted(
    segment: Sequence[Sequence[Record]], codec: CompressionType = CompressionType.NONE
) -> tuple[KeyStats, Any, int]:
    """The counts of a segment with these batches, and its bytes."""
    counter, size = KeyCounter(), 0
    for each in segment:
        data = build_batch([(key, value, T0, []) for key, value in each], base_offset=0, compression=codec)
        counter.add(RecordBatch(data))
        size += len(data)
    stats, table = counter.finish()
    assert table.schema == KEYS
    return stats, table, size


@settings(max_examples=150, deadline=None)
@given(SEGMENTS, st.sampled_from(list(CompressionType)), st.integers(1, 5), st.booleans())
def test_a_model(
    segments: list[list[list[Record]]], codec: CompressionType, parts: int, has_active: bool
) -> None:
    last: dict[bytes, tuple[int, bytes | None]] = {}
    keys: set[bytes] = set()
    tables = []
    for number, segment in enumerate(segments):
        is_active = has_active and number == len(segments) - 1
        stats, table, size = counted(segment, codec)
        flat = [record for each in segment for record in each]
        keyed = [record for record in flat if record[0] is not None]
        assert (stats.keyed_records, stats.keyless_records) == (len(keyed), len(flat) - len(keyed))
        assert math.isclose(stats.keyed_bytes + stats.keyless_bytes, size, abs_tol=2)
        tables.append((ACTIVE if is_active else number, table))
        for key, value in keyed:
            assert key is not None
            keys.add(key)
            if not is_active:
                last[key] = number, value
    total = Kept(0, {})
    for part in range(parts):
        total = total.plus(
            last_records([(base, parts_of(table, parts)[part]) for base, table in tables], ACTIVE)
        )
    assert total.distinct_keys == len(keys)
    assert set(total.by_segment) == {base for base, _ in tables if base != ACTIVE}
    for number, kept in total.by_segment.items():
        mine = [value for where, value in last.values() if where == number]
        assert (kept.records, kept.tombstones) == (len(mine), sum(value is None for value in mine))
        assert (kept.bytes > 0) is bool(mine)


def test_bytes_are_shares_of_batches() -> None:
    stats, table, size = counted([[(b"a", b"x" * 92), (b"b", b"x" * 92)], [(None, b"y")]])
    assert stats.keyed_bytes + stats.keyless_bytes == size
    assert table["bytes"].to_pylist() == pytest.approx([stats.keyed_bytes / 2] * 2)


def test_many_rows_are_counted_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.pipeline.audit.keys.ROWS_AT_A_TIME", 10_000)
    counter = KeyCounter()
    count = 300
    for number in range(count):
        records: list[Any] = [(b"%d" % (at % 700), b"v", T0, []) for at in range(500)]
        counter.add(RecordBatch(build_batch(records, base_offset=500 * number)))
    stats, table = counter.finish()
    assert (stats.keyed_records, table.num_rows) == (500 * count, 500)
    assert len(table["hash"].unique()) == 500


def test_records_of_aborted_transactions_count_apart() -> None:
    counter = KeyCounter([AbortedTxn(7, 10, 20, 10)])
    for offset, producer, transactional in (
        (9, 7, True),
        (12, 7, True),
        (13, 8, True),
        (14, 7, False),
        (21, 7, True),
    ):
        data = build_batch(
            [(b"k%d" % offset, b"v", T0, [])],
            base_offset=offset,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=transactional,
        )
        counter.add(RecordBatch(data))
    stats, table = counter.finish()
    assert (stats.aborted_records, stats.keyed_records, table.num_rows) == (1, 4, 4)


def test_unreadable_batches_are_skipped() -> None:
    data = bytearray(build_batch([(b"k", b"v", T0, [])], base_offset=0, compression=CompressionType.GZIP))
    data[70:] = bytes(len(data) - 70)
    counter = KeyCounter()
    counter.add(RecordBatch(bytes(data)))
    assert counter.finish()[0] == KeyStats()


def test_nothing() -> None:
    stats, table = KeyCounter().finish()
    assert (stats, table.num_rows) == (KeyStats(), 0)
    assert last_records([(0, table), (9, table)], 9) == Kept(0, {0: KeptRecords()})
    assert last_records([], -1) == Kept(0, {})


@pytest.mark.parametrize("codec", [CompressionType.NONE, CompressionType.GZIP])
@pytest.mark.parametrize("magic", [0, 1])
def test_older_formats(magic: int, codec: CompressionType) -> None:
    counter = KeyCounter()
    rows = [(b"a", b"1", T0), (None, b"2", T0), (b"a", None, T0)]
    for each in batches(message_set(rows, magic=magic, compression=codec)):
        counter.add(each)
    stats, table = counter.finish()
    assert (stats.keyed_records, stats.keyless_records) == (2, 1)
    assert table["is_tombstone"].to_pylist() == [True]


@pytest.mark.parametrize("seed", seeds(4))
def test_kept_records_are_those_that_the_log_cleaner_keeps(seed: int) -> None:
    """Records to the number; bytes as far as headers of batches, of which records are left, allow."""
    env, rng = FaultEnv(), Random(seed)
    log = new_log(env, small_config(segment_bytes=4000))
    _write(log, rng)
    log.flush()
    active = base_offsets(env, DIRECTORY)[-1]
    counted_before = []
    for base in base_offsets(env, DIRECTORY):
        task = SegmentTask(0, DIRECTORY, base, 0, base == active, 1, Situation())
        _, (keys,) = examine(env, task, AuditOptions(is_deep=True, counts_keys=True, now_ms=T0))
        counted_before.append((base, keys.table))
    kept = last_records(counted_before, active)
    swap_in(env, DIRECTORY, clean(env, plan_for(env, log, delete_retention_ms=1 << 50)))
    left = [batch for batch in stored_batches(env, DIRECTORY) if batch.last_offset < active]
    data = [batch for batch in left if not batch.is_control and batch.record_count]
    assert sum(batch.record_count for batch in data) == sum(each.records for each in kept.by_segment.values())
    size = sum(batch.size_in_bytes for batch in data)
    estimate = sum(each.bytes for each in kept.by_segment.values())
    assert 0.5 * size < estimate < 1.1 * size


def _write(log: UnifiedLog, rng: Random) -> None:
    """Keys in random order, some records without a key or a value, in batches of several codecs; transactions."""
    for number in range(120):
        records: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]] = [
            (
                None if rng.random() < 0.05 else b"key %d" % rng.randrange(60),
                None if rng.random() < 0.1 else rng.randbytes(rng.randrange(100)),
                T0,
                [],
            )
            for _ in range(rng.randrange(1, 8))
        ]
        is_transactional = rng.random() < 0.2
        producer: dict[str, Any] = (
            {"producer_id": 7, "producer_epoch": number, "base_sequence": 0} if is_transactional else {}
        )
        codec = rng.choice([CompressionType.NONE, CompressionType.LZ4, CompressionType.ZSTD])
        data = build_batch(records, compression=codec, is_transactional=is_transactional, **producer)
        log.append_as_leader(data, 0)
        if is_transactional:
            marker = end_txn(7, number, commit=rng.random() < 0.5)
            log.append_as_leader(marker, 0, AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)

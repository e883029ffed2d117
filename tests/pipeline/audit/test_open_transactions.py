"""Compares the first uncleanable segment with that of the log itself."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from barnabas.pipeline.audit.audit import audit
from barnabas.pipeline.audit.engines import LocalEngine
from barnabas.pipeline.audit.open_transactions import (
    SegmentTransactions,
    TransactionCollector,
    first_uncleanable_segment,
    first_unstable_offset,
)
from barnabas.pipeline.audit.plan import AuditOptions
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.storage.cleaner.log_to_clean import cleanable_offsets, log_to_clean
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import AppendOrigin
from tests.protocol.records.message_sets import message_set
from tests.storage.cleaning import base_offsets
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import DIRECTORY, T0, append, end_txn, make_batch, new_log, small_config

OPTIONS = AuditOptions(is_deep=False, counts_keys=True, now_ms=T0 + 60_000)


def transactions(*ended: int, **opened: int) -> SegmentTransactions:
    """`p7=3`: producer 7 has an open transaction that begins at offset 3, or continues there."""
    return SegmentTransactions(frozenset(ended), {int(name[1:]): first for name, first in opened.items()})


@pytest.mark.parametrize(
    ("segments", "wanted"),
    [
        ([], None),
        ([transactions(7)], None),
        ([transactions(p7=3), transactions(7)], None),
        ([transactions(p7=3), transactions(p7=9)], 3),
        ([transactions(p7=3), transactions(7, p7=12)], 12),
        ([transactions(p7=3, p8=5), transactions(7), transactions(p9=20)], 5),
        ([transactions(p7=3), SegmentTransactions(is_read=False), transactions(p8=30)], 30),
        ([transactions(p7=3), SegmentTransactions(opened={7: 9}, is_read=False)], None),
    ],
)
def test_segments_in_order(segments: list[SegmentTransactions], wanted: int | None) -> None:
    assert first_unstable_offset(segments) == wanted


@pytest.mark.parametrize(
    ("opened", "active", "wanted"),
    [({}, 20, 20), ({}, None, None), ({"p7": 12}, 20, 10), ({"p7": 10}, None, 10), ({"p7": 25}, 20, 20)],
)
def test_a_segment_that_is_cleanable_in_part_is_not_compacted(
    opened: dict[str, int], active: int | None, wanted: int | None
) -> None:
    segments = [(0, transactions()), (10, transactions()), (20, transactions(**opened))]
    assert first_uncleanable_segment(segments, active) == wanted


def test_the_transactions_of_a_segment_are_collected() -> None:
    collector = TransactionCollector()
    for offset, data in enumerate(
        (
            make_batch(b"a", producer=(7, 0, 0), transactional=True),
            make_batch(b"b", producer=(8, 0, 0), transactional=True),
            make_batch(b"c", producer=(9, 0, 0)),
            make_batch(b"d"),
            make_batch(b"e", producer=(7, 0, 1), transactional=True),
            end_txn(8, 0, commit=False),
            end_txn(6, 0, commit=True),
        )
    ):
        collector.add(RecordBatch(_at(data, offset)))
    for entry in batches(message_set([(b"k", b"v", T0)], magic=1)):
        collector.add(entry)
    assert collector.finish(is_read=True) == SegmentTransactions(frozenset({8, 6}), {7: 0})


def _at(data: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + data[8:]


@pytest.mark.parametrize("seed", range(6))
def test_the_first_uncleanable_segment_is_the_log_cleaners(seed: int) -> None:
    env, rng = FaultEnv(), Random(seed)
    log = new_log(env, small_config())
    _write(log, rng, leaves_open=bool(seed))
    log.flush()
    unused: Any = None
    offsets = log_to_clean(log, unused, cleanable_offsets(log, None, T0), T0).offsets
    bound, bases = offsets.first_uncleanable_offset, base_offsets(env, DIRECTORY)
    assert (bound < bases[-1]) is bool(seed), "a transaction is open, or none is"
    result = audit(env, [DIRECTORY], OPTIONS, LocalEngine(env))
    left_alone = [row["base_offset"] for row in result.segments if row["saved_bytes"] is None]
    assert left_alone == [base for base in bases if base >= bound]
    (partition,) = result.partitions
    cleanable = [row for row in result.segments if row["base_offset"] < bound]
    assert (partition["compactable_bytes"] or 0) == sum(row["compactable_bytes"] for row in cleanable)


def _write(log: UnifiedLog, rng: Random, *, leaves_open: bool) -> None:
    """Transactions of three producers; producer 9 may leave its last one open while the others continue."""
    sequences = dict.fromkeys((7, 8, 9), 0)
    busy: set[int] = set()
    last_of_nine = rng.randrange(10, 100)
    for step in range(120):
        producer = rng.choice((7, 8) if step > last_of_nine else (7, 8, 9))
        if step == last_of_nine and leaves_open:
            producer = 9
        elif producer in busy and rng.random() < 0.4:
            busy.discard(producer)
            _end(log, producer, commit=rng.random() < 0.5)
            continue
        value = b"v" * rng.randrange(100)
        data = make_batch(value, producer=(producer, 0, sequences[producer]), transactional=True)
        log.append_as_leader(data, 0)
        sequences[producer] += 1
        busy.add(producer)
    for producer in sorted(busy - ({9} if leaves_open else set())):
        _end(log, producer, commit=True)
    for _ in range(20):
        append(log, b"p" * 80)


def _end(log: UnifiedLog, producer: int, *, commit: bool) -> None:
    log.append_as_leader(end_txn(producer, 0, commit=commit), 0, AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)

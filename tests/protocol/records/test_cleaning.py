"""The loops of compaction: with any bytes, interpreted and compiled do the same, and at worst reject them."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.records.batch import (
    CompressionType,
    CorruptRecordError,
    InvalidRecordError,
    TimestampType,
    UnsupportedCompressionError,
    build_batch,
)
from barnabas.protocol.records.compression import compress
from barnabas.protocol.records.entries import batches
from tests.protocol.records.raw_batches import raw_batch
from tests.storage.cleaning import forms_of_the_loops
from tests.support.loops import FORMS

SECRET = bytes(range(16))
T0 = 1_700_000_000_000
NOW, HORIZON = T0 + 5000, T0 + 9000
KEYS = st.none() | st.sampled_from([b"", b"a", b"b", b"a longer key than a word of the hash"])
ROWS = st.lists(
    st.tuples(KEYS, st.none() | st.binary(max_size=80), st.integers(T0 - 200, T0 + 70_000), st.just(())),
    min_size=1,
    max_size=8,
)
REFUSALS = (InvalidRecordError, CorruptRecordError, UnsupportedCompressionError)


def run(form: str, chunk: bytes, latest_known: int) -> list[Any]:
    """The results of both passes for a chunk, or the kind of error."""
    tables, loops = forms_of_the_loops(form)
    table = tables.KeyTable(24 * 64, SECRET)
    mapper = loops.KeyMapper(table, first_offset=3, end_offset=latest_known + 1, max_entries=3)
    try:
        position = mapper.map_plain_batches(chunk, 0)
        mapped = [position, mapper.messages_read, mapper.is_full, table.size, table.latest_offset]
    except REFUSALS as error:
        mapped = [type(error).__name__]
    table.latest_offset = latest_known
    records = loops.RecordFilter(
        table,
        now_ms=NOW,
        horizon_ms=HORIZON,
        upper_bound_offset=30,
        last_data_offsets={5: 7},
        output_bytes=100,
    )
    written = []
    try:
        position, stopped = 0, -1
        while position != stopped:
            stopped = position
            position = records.filter_plain_batches(chunk, position)
            written.append((bytes(records.taken()), records.appended))
            records.clear()
        filtered = [position, records.messages_read, records.messages_kept, records.invalid_messages]
    except REFUSALS as error:
        filtered = [type(error).__name__]
    return [mapped, filtered, written]


def both(chunk: bytes, latest_known: int = 40) -> list[Any]:
    plain, compiled = (run(form, chunk, latest_known) for form in FORMS)
    assert plain == compiled
    return plain


@settings(deadline=None)
@given(
    rows=st.lists(ROWS, min_size=1, max_size=5),
    codec=st.sampled_from(list(CompressionType)),
    horizon=st.none() | st.sampled_from([NOW, NOW + 1]),
    appended=st.booleans(),
    latest_known=st.integers(-1, 40),
)
def test_interpreted_and_compiled_agree(
    rows: list[Any], codec: CompressionType, horizon: int | None, appended: bool, latest_known: int
) -> None:
    chunk, offset = b"", 0
    for number, some in enumerate(rows):
        chunk += build_batch(
            some,
            base_offset=offset,
            compression=codec,
            delete_horizon_ms=horizon if number % 2 else None,
            timestamp_type=TimestampType.LOG_APPEND_TIME if appended else TimestampType.CREATE_TIME,
            log_append_time=T0 + 60_000,
            producer_id=5 if number % 3 else -1,
            producer_epoch=0 if number % 3 else -1,
            base_sequence=offset if number % 3 else -1,
        )
        offset += len(some) + number
    _, (position, read, kept, _), written = both(chunk, latest_known)
    assert position == len(chunk)
    assert read == sum(map(len, rows))
    out = [batch for data, _ in written for batch in batches(data)]
    for batch in out:
        batch.ensure_valid()
    records = [record for batch in out for record in batch.records()]
    assert len(records) == kept
    original = {
        record.offset: (record.key, record.value, record.timestamp)
        for batch in batches(chunk)
        for record in batch.records()
    }
    for record in records:
        assert original[record.offset] == (record.key, record.value, record.timestamp)


def hostile_batch(payload: bytes, count: int, codec: int) -> bytes:
    """A batch with a valid checksum and any bytes as records."""
    return raw_batch(
        payload,
        base_offset=0,
        partition_leader_epoch=0,
        attributes=codec,
        last_offset_delta=5,
        base_timestamp=T0,
        max_timestamp=T0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )


@settings(deadline=None, max_examples=300)
@given(
    payload=st.binary(max_size=60),
    count=st.integers(-2, 4) | st.just(0x7FFFFFFF),
    codec=st.sampled_from([0, 0, 0, 1, 3, 5, 7]),
    packs=st.booleans(),
)
def test_hostile_records_are_rejected_alike(payload: bytes, count: int, codec: int, packs: bool) -> None:
    if packs and 0 < codec < 5:
        payload = compress(CompressionType.of(codec), payload)
    both(hostile_batch(payload, count, codec))


@settings(deadline=None, max_examples=300)
@given(rows=ROWS, position=st.integers(0, 1 << 16), byte=st.integers(0, 255))
def test_one_wrong_byte_in_good_records(rows: list[Any], position: int, byte: int) -> None:
    payload = bytearray(build_batch(rows)[61:])
    payload[position % len(payload)] = byte
    both(hostile_batch(bytes(payload), len(rows), 0))


@given(chunk=st.binary(max_size=200))
def test_bytes_that_are_not_a_batch_are_left_to_the_caller(chunk: bytes) -> None:
    both(chunk)


def test_an_incomplete_batch_is_left_to_the_caller() -> None:
    batch = build_batch([(b"a", b"1", T0, ())])
    for size in range(len(batch)):
        (position, *_), _, _ = both(batch + batch[:size])
        assert position == len(batch)


def test_an_output_buffer_that_grew_is_returned() -> None:
    chunk = build_batch([(b"a", bytes(5000), T0, ())])
    _, _, written = both(chunk * 3)
    assert b"".join(data for data, _ in written) == chunk * 3

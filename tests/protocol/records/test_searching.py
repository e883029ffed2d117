"""The loops of lookups, interpreted and compiled."""

from __future__ import annotations

import struct
from bisect import bisect_right
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.records import searching
from barnabas.protocol.records.batch import build_batch
from barnabas.protocol.records.searching import ANY_TIME
from tests.storage.segment.test_scan import old_message
from tests.support.loops import FORMS, in_form


@pytest.fixture(params=FORMS, scope="session")
def module(request: pytest.FixtureRequest) -> Any:
    return in_form(searching, request.param)


@given(
    fields=st.lists(st.integers(-(1 << 31), (1 << 31) - 1), unique=True, max_size=40).map(sorted),
    target=st.integers(-(1 << 33), 1 << 33),
    wide=st.booleans(),
)
def test_entries_are_found(module: Any, fields: list[int], target: int, wide: bool) -> None:
    if wide:
        entries = b"".join(struct.pack(">qi", field << 20, 7) for field in fields)
        target <<= 20
        fields = [field << 20 for field in fields]
    else:
        entries = b"".join(struct.pack(">ii", field, 7) for field in fields)
    count = len(fields)
    for data in (entries, bytearray(entries), memoryview(entries)):
        found = module.count_at_most(data, 0, count, 12 if wide else 8, target)
        assert found == bisect_right(fields, target)


def test_entries_beyond_the_memory_are_rejected(module: Any) -> None:
    with pytest.raises(ValueError, match="entries"):
        module.count_at_most(bytes(16), 0, 3, 8, 1)


def chunk() -> tuple[bytes, list[tuple[int, int, int, int]]]:
    """Batches of every format, and (position, size, last offset, timestamp) of each."""
    parts = [
        old_message(1, b"v0", 0),
        old_message(2, b"v1", 1, timestamp=50),
        build_batch([(None, b"x", 40, []), (None, b"y", 60, [])], base_offset=3),
        build_batch([(None, b"z", 55, [])], base_offset=9),
    ]
    known = [(1, -1), (2, 50), (4, 60), (9, 55)]
    at, table = 0, []
    for part, (last, timestamp) in zip(parts, known, strict=True):
        table.append((at, len(part), last, timestamp))
        at += len(part)
    return b"".join(parts), table


@pytest.mark.parametrize("target", range(11))
@pytest.mark.parametrize("least", [ANY_TIME, 0, 51, 56, 61])
def test_batches_are_found(module: Any, target: int, least: int) -> None:
    data, table = chunk()
    for first, (start, *_) in enumerate(table):
        wanted = next((row for row in table[first:] if row[2] >= target and row[3] >= least), None)
        assert module.seek(data, start, target, least) == (wanted or (len(data), 0, -1, -1))


def test_an_incomplete_batch_is_left_for_the_next_chunk(module: Any) -> None:
    data, table = chunk()
    for length in range(len(data)):
        at, size, *_ = module.seek(data[:length], 0, 100, ANY_TIME)
        assert size == 0
        assert at in [row[0] for row in table] or at == len(data)


@pytest.mark.parametrize(("at", "value"), [(16, 3), (16, 255), (11, 1), (8, 0xFF)])
def test_bytes_that_are_not_a_batch_are_reported(module: Any, at: int, value: int) -> None:
    data = bytearray(chunk()[0])
    data[at] = value
    assert module.seek(bytes(data), 0, 100, ANY_TIME)[:2] == (0, -1)


def test_positions_before_the_chunk_are_refused(module: Any) -> None:
    with pytest.raises(ValueError, match="position"):
        module.seek(bytes(100), -1, 0, ANY_TIME)

"""Batches are read in pieces of any size as they are in the file."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.storage.segment.batch_reading import Pieces
from tests.storage.segment.test_scan import MIXED, file_of

DATA = b"".join(MIXED)
ENDS = [sum(map(len, MIXED[: index + 1])) for index in range(len(MIXED))]


@given(st.integers(1, 700), st.integers(1, 700))
def test_batches_are_the_same_in_pieces_of_any_size(piece_bytes: int, other_bytes: int) -> None:
    """Also where the buffers were used before."""
    pieces = Pieces(piece_bytes)
    for reader in (pieces, pieces, Pieces(other_bytes)):
        last_offsets = []
        for batch in reader.batches(file_of(DATA), 0, len(DATA)):
            batch.ensure_valid()
            last_offsets.append(batch.last_offset)
        assert last_offsets == [0, 1, 3, 7, 9]


def test_a_walk_may_begin_and_end_anywhere_between_batches() -> None:
    batches = Pieces().batches(file_of(DATA), ENDS[0], ENDS[-2])
    assert [batch.last_offset for batch in batches] == [1, 3, 7]


@given(st.integers(1, 700), st.integers(1, len(DATA) - 1))
def test_an_incomplete_batch_at_the_end_is_damage(piece_bytes: int, end: int) -> None:
    """Whether the file or the requested range ends there."""
    for file in (file_of(DATA), file_of(DATA[:end])):
        if end in ENDS:
            assert len(list(Pieces(piece_bytes).batches(file, 0, end))) == ENDS.index(end) + 1
        else:
            with pytest.raises(CorruptRecordError):
                list(Pieces(piece_bytes).batches(file, 0, end))


@given(st.integers(1, 700), st.integers(0, len(DATA) - 1))
def test_a_file_that_is_shorter_than_it_was_is_damage(piece_bytes: int, size: int) -> None:
    with pytest.raises(CorruptRecordError):
        list(Pieces(piece_bytes).batches(file_of(DATA[:size]), 0, len(DATA)))


def test_a_batch_is_read_once() -> None:
    """Of a batch larger than a piece, only the missing bytes are read."""
    file = file_of(DATA)
    read = []
    pread_into = file.pread_into

    def counting(buffer: memoryview, position: int) -> int:
        read.append((position, len(buffer)))
        return pread_into(buffer, position)

    file.pread_into = counting  # type: ignore[method-assign]
    begin, end = ENDS[2], ENDS[3]
    assert len(list(Pieces(100).batches(file, begin, end))) == 1
    assert read == [(begin, 100), (begin + 100, end - begin - 100)]

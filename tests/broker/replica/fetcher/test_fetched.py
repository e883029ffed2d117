"""Answers taken in slices."""

from __future__ import annotations

import pytest

from barnabas.broker.replica.fetcher import fetched
from barnabas.broker.replica.fetcher.fetched import FetchedPartition
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.records.errors import CorruptRecordError
from barnabas.protocol.wire import Chunk
from barnabas.storage.offsets import FileRecords
from tests.broker.replica.fetcher.fetcher_harness import batch


def answer(records: Chunk | None, epoch: int = 0) -> FetchedPartition:
    return FetchedPartition(
        ("t", 0), FetchResponse.PartitionData(partition_index=0, records=records), 0, epoch
    )


def slices(part: FetchedPartition) -> list[bytes]:
    found = []
    while taken := part.peek():
        found.append(bytes(taken))
        part.consumed(len(taken), 0)
    return found


def test_whole_batches_up_to_the_size_of_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three, large = batch(0), batch(1), batch(2), batch(3, bytes(500))
    monkeypatch.setattr(fetched, "SLICE_BYTES", len(one) + len(two))
    part = answer(one + two + three + large)
    assert part.is_untouched
    assert slices(part) == [one + two, three, large]
    assert part.left_bytes == 0
    assert not part.is_untouched


def test_a_slice_is_a_view_of_the_frame() -> None:
    frame = bytearray(batch(0))
    part = answer(memoryview(frame))
    frame[20] ^= 1
    assert part.peek()[20] == frame[20]


def test_a_batch_that_is_cut_off_is_left() -> None:
    part = answer(batch(0) + batch(1)[:-1])
    assert slices(part) == [batch(0)]
    assert part.left_bytes == len(batch(1)) - 1
    assert slices(answer(batch(0)[:10])) == []


def test_batches_of_later_epochs_are_left() -> None:
    part = answer(batch(0, epoch=3) + batch(1, epoch=5) + batch(2, epoch=4), epoch=4)
    assert slices(part) == [batch(0, epoch=3)]


def test_an_impossible_length_is_an_error() -> None:
    broken = bytearray(batch(0))
    broken[8:12] = (1).to_bytes(4, "big")
    with pytest.raises(CorruptRecordError):
        answer(bytes(broken)).peek()


def test_records_may_be_absent_or_in_a_file() -> None:
    assert slices(answer(None)) == []
    assert slices(answer(FileRecords(None, 0, 0))) == []

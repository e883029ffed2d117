"""The walk over a buffer that holds batches and message sets."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.protocol.records import entries
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.errors import CorruptRecordError
from barnabas.protocol.records.legacy import LegacyEntry
from tests.protocol.records.message_sets import message_set
from tests.protocol.records.test_batch import EXAMPLE
from tests.support.loops import FORMS, in_form


@pytest.fixture(params=FORMS, scope="module")
def batches(request: pytest.FixtureRequest) -> Any:
    """`entries.batches`: interpreted, and compiled where it has been built."""
    return in_form(entries, request.param).batches


def test_batches_of_all_formats_follow_each_other(batches: Any) -> None:
    old = message_set([(b"k", b"v", 5)], magic=0) + message_set([(b"k", b"v", 5)], magic=1)
    buffer = EXAMPLE + old + EXAMPLE
    found = list(batches(buffer))
    assert [type(entry) for entry in found] == [RecordBatch, LegacyEntry, LegacyEntry, RecordBatch]
    assert [entry.magic for entry in found] == [2, 0, 1, 2]
    assert sum(entry.size_in_bytes for entry in found) == len(buffer)
    assert found[-1].position == len(buffer) - len(EXAMPLE)
    assert len(list(batches(buffer, len(EXAMPLE)))) == 3
    assert len(list(batches(buffer[:-1]))) == 3


def test_batches_stops_at_bytes_that_are_not_a_batch(batches: Any) -> None:
    walk = batches(EXAMPLE + bytes(17))
    assert next(walk).magic == 2
    with pytest.raises(CorruptRecordError, match="length 0"):
        next(walk)

"""Decodes fetched bytes as a consumer does; with read_committed, as Java's Fetcher."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.control import ControlRecordType, control_record_type
from barnabas.protocol.records.entries import batches


class Read(NamedTuple):
    """A record that an application sees."""

    offset: int
    value: bytes


def read(
    data: bytes | None,
    from_offset: int,
    aborted: Sequence[FetchResponse.AbortedTransaction] | None = None,
) -> tuple[list[Read], int]:
    """The records from an offset on and the next offset. `aborted` transactions are left out."""
    found: list[Read] = []
    position = from_offset
    for batch in _visible(bytes(data or b""), aborted or ()):
        if not batch.is_control:
            found += [
                Read(record.offset, record.value or b"")
                for record in batch.records()
                if record.offset >= from_offset
            ]
    for entry in batches(bytes(data or b"")):
        assert isinstance(entry, RecordBatch)
        position = max(position, entry.next_offset)
    return found, position


def _visible(data: bytes, aborted: Sequence[FetchResponse.AbortedTransaction]) -> Iterator[RecordBatch]:
    begins = sorted((one.first_offset, one.producer_id) for one in aborted)
    open_and_aborted: set[int] = set()
    for batch in batches(data):
        assert isinstance(batch, RecordBatch)
        while begins and begins[0][0] <= batch.last_offset:
            open_and_aborted.add(begins.pop(0)[1])
        if batch.is_control:
            kind = control_record_type(next(batch.records()).key)
            if kind == ControlRecordType.ABORT:
                open_and_aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in open_and_aborted):
            yield batch

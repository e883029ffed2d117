"""From the batches of a metadata log to the records that count: control records and metadata transactions aside.

    record                       what becomes of it
    control (leader, voters)     changes `control`, and only moves the offset
    NoOpRecord                   only moves the offset
    BeginTransactionRecord       what follows is held back,
    EndTransactionRecord         and handed over here, in one piece,
    AbortTransactionRecord       or forgotten
    any other                    handed over

Source: org.apache.kafka.image.loader.MetadataBatchLoader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from barnabas.broker.metadata.log import MetadataBatch, MetadataLogError
from barnabas.broker.metadata.records import unframe
from barnabas.broker.metadata.snapshot_files import Control, control_after, read_control
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.topic_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    NoOpRecord,
)
from barnabas.protocol.records.batch import CorruptRecordError, InvalidRecordError, RecordBatch
from barnabas.protocol.schema import Message

RECORDS_AT_ONCE: Final = 100_000
"""Every image that is made costs a copy of its maps: so many records are gathered for one."""


class LogReplay:
    """The state between batches."""

    def __init__(self) -> None:
        self.control = Control()
        self.has_quorum_records = False
        self.in_transaction = False
        self._transaction: list[Message] = []
        self._records: list[Message] = []

    def batches(self, source: Iterable[RecordBatch]) -> Iterator[MetadataBatch]:
        """What the batches hold for an image, in large pieces. A transaction at the end that is open is left out.

        Raises MetadataLogError for a record that this broker does not know or that cannot be read.
        """
        last: MetadataBatch | None = None
        for batch in source:
            try:
                self._take(batch)
            except (CorruptRecordError, InvalidRecordError, ProtocolError, MetadataLogError) as error:
                raise MetadataLogError(f"the metadata log at offset {batch.base_offset}: {error}") from error
            if self.in_transaction:
                continue
            last = MetadataBatch(self._records, batch.last_offset, batch.partition_leader_epoch)
            if len(self._records) >= RECORDS_AT_ONCE:
                yield last
                last, self._records = None, []
        if last is not None:
            yield last

    def _take(self, batch: RecordBatch) -> None:
        if batch.is_control:
            for record in batch.records():
                before = self.control
                self.control = control_after(before, read_control(record))
                self.has_quorum_records |= self.control is not before
            return
        for record in batch.records():
            self._take_record(unframe(record.value))

    def _take_record(self, record: Message) -> None:
        match record:
            case NoOpRecord():
                return
            case BeginTransactionRecord():
                self.in_transaction, self._transaction = True, []
            case EndTransactionRecord():
                self._records += self._transaction
                self.in_transaction, self._transaction = False, []
            case AbortTransactionRecord():
                self.in_transaction, self._transaction = False, []
            case _:
                (self._transaction if self.in_transaction else self._records).append(record)

"""LogReplay: extracts metadata records from the batches of a log, without control records and open transactions.

    record                       effect
    control (leader, voters)     changes `control` and advances the offset
    NoOpRecord                   advances the offset
    BeginTransactionRecord       later records are held back,
    EndTransactionRecord         and returned here, in one piece,
    AbortTransactionRecord       or dropped
    any other                    returned

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
"""The records of one image: each image costs a copy of its maps."""
NO_TIMESTAMP: Final = -1


class LogReplay:
    """The state between batches."""

    def __init__(self) -> None:
        self.control = Control()
        self.has_quorum_records = False
        self.in_transaction = False
        self.timestamp_ms = NO_TIMESTAMP
        """Of the last batch that was read, or of the snapshot before."""
        self._transaction: list[Message] = []
        self._records: list[Message] = []

    def batches(self, source: Iterable[RecordBatch]) -> Iterator[MetadataBatch]:
        """The records for an image, in large pieces, without a transaction that is open at the end.

        Raises MetadataLogError for a record that this broker does not know or that cannot be read.
        """
        last: MetadataBatch | None = None
        for batch in source:
            self.timestamp_ms = batch.max_timestamp
            try:
                self._add_batch(batch)
            except (CorruptRecordError, InvalidRecordError, ProtocolError, MetadataLogError) as error:
                raise MetadataLogError(f"the metadata log at offset {batch.base_offset}: {error}") from error
            if self.in_transaction:
                continue
            last = MetadataBatch(self._records, batch.last_offset, batch.partition_leader_epoch)
            if len(self._records) >= RECORDS_AT_ONCE:
                yield last
                last, self._records = None, []
        if last is not None:
            self._records = []
            yield last

    def _add_batch(self, batch: RecordBatch) -> None:
        if batch.is_control:
            for record in batch.records():
                before = self.control
                self.control = control_after(before, read_control(record))
                self.has_quorum_records |= self.control is not before
            return
        for record in batch.records():
            self._add_record(unframe(record.value))

    def _add_record(self, record: Message) -> None:
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

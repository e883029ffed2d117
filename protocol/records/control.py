"""Control records, which a broker writes between the records of applications.

    key    version int16 (0) | type int16
    value  for ABORT and COMMIT: version int16 (0) | coordinator epoch int32; for the KRaft types a message of
           Kafka's (LeaderChangeMessage, SnapshotHeaderRecord, ...)

Kafka's ControlRecordType and EndTransactionMarker.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.errors import InvalidRecordError
from barnabas.protocol.records.layout import NO_PARTITION_LEADER_EPOCH

_KEY = struct.Struct(">hh")
_END_TRANSACTION = struct.Struct(">hi")
_VERSION = 0


class ControlRecordType(IntEnum):
    """The type of a control record; UNKNOWN is one of a later version, which is skipped."""

    UNKNOWN = -1
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def control_record_key(record_type: ControlRecordType) -> bytes:
    """The key that makes a record in a control batch one of this type."""
    return _KEY.pack(_VERSION, record_type)


def control_record_type(key: bytes | None) -> ControlRecordType:
    """The type that a control record's key names; raises InvalidRecordError when it can name none."""
    if key is None or len(key) < _KEY.size:
        raise InvalidRecordError(f"{key!r} is not the key of a control record")
    version, number = _KEY.unpack_from(key)
    if version < 0:
        raise InvalidRecordError(f"a control record's key has version {version}")
    return (
        ControlRecordType(number)
        if 0 <= number <= ControlRecordType.KRAFT_VOTERS
        else ControlRecordType.UNKNOWN
    )


def end_transaction_marker(
    *,
    commit: bool,
    coordinator_epoch: int,
    producer_id: int,
    producer_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
) -> bytes:
    """The control batch that ends a producer's transaction in one partition; `timestamp` in ms."""
    record_type = ControlRecordType.COMMIT if commit else ControlRecordType.ABORT
    return build_batch(
        [
            (
                control_record_key(record_type),
                _END_TRANSACTION.pack(_VERSION, coordinator_epoch),
                timestamp,
                (),
            )
        ],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        partition_leader_epoch=partition_leader_epoch,
        is_transactional=True,
        is_control=True,
    )


def coordinator_epoch(value: bytes | None) -> int:
    """The coordinator's epoch in the value of an ABORT or COMMIT record; raises InvalidRecordError."""
    if value is None or len(value) < _END_TRANSACTION.size:
        raise InvalidRecordError(f"{value!r} is not a transaction marker")
    version, epoch = _END_TRANSACTION.unpack_from(value)
    if version < 0:
        raise InvalidRecordError(f"the end of a transaction has version {version}")
    return int(epoch)

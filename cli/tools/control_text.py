"""What control records say, for `dump-log`."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from barnabas.cli.tools.kafka_json import dumps, to_json
from barnabas.protocol.codec import decoder
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.messages.control_records import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
)
from barnabas.protocol.records.control import ControlRecordType, control_record_type, coordinator_epoch
from barnabas.protocol.records.errors import InvalidRecordError
from barnabas.protocol.records.record import Record
from barnabas.protocol.schema import Message

_MESSAGES: Final[dict[ControlRecordType, tuple[str, type[Message]]]] = {
    ControlRecordType.LEADER_CHANGE: ("LeaderChange:", LeaderChangeMessage),
    ControlRecordType.SNAPSHOT_HEADER: ("SnapshotHeader", SnapshotHeaderRecord),
    ControlRecordType.SNAPSHOT_FOOTER: ("SnapshotFooter", SnapshotFooterRecord),
    ControlRecordType.KRAFT_VERSION: ("KRaftVersion", KRaftVersionRecord),
    ControlRecordType.KRAFT_VOTERS: ("KRaftVoters", VotersRecord),
}


class Control(NamedTuple):
    """A control record: its type's name and number; the coordinator's epoch of a marker, or the KRaft message."""

    name: str
    number: int
    coordinator_epoch: int | None = None
    label: str = ""
    data: dict[str, Any] | None = None

    def __str__(self) -> str:
        if self.coordinator_epoch is not None:
            return f" endTxnMarker: {self.name} coordinatorEpoch: {self.coordinator_epoch}"
        if self.data is not None:
            return f" {self.label} {dumps(self.data)}"
        return f" controlType: {self.name}({self.number})"


def control(record: Record) -> Control:
    """What the record says. Raises InvalidRecordError."""
    kind = control_record_type(record.key)
    number = int.from_bytes((record.key or b"")[2:4], "big", signed=True)
    if kind in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return Control(kind.name, number, coordinator_epoch=coordinator_epoch(record.value))
    if kind not in _MESSAGES:
        return Control(kind.name, number)
    label, message_type = _MESSAGES[kind]
    message = _read(message_type, record)
    return Control(kind.name, number, label=label, data=to_json(message, getattr(message, "version", 0)))


def _read(message_type: type[Message], record: Record) -> Message:
    """Kafka reads them as version 0 and shows them as what they say that they are."""
    value = record.value or b""
    try:
        return decoder(message_type, 0)(value, 0, len(value))[0]
    except ProtocolError as error:
        raise InvalidRecordError(f"the control record at offset {record.offset}: {error}") from None

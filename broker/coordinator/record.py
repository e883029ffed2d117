"""CoordinatorRecord: one record of __consumer_offsets or __transaction_state, as the coordinators speak of it.

On disk a key is its type (int16, the `api_key` of the key's message) and the message; a value is its version (int16)
and the message; a record without a value deletes what its key names. Source: CoordinatorRecord and
CoordinatorRecordSerde in org.apache.kafka.coordinator.common.runtime; the messages of coordinator-common's schemas.
"""

from __future__ import annotations

from barnabas.protocol.schema import Message


class CoordinatorRecord:
    """A key, and what it stands for from now on: `value`, written in `version` of its message, or None: nothing."""

    __slots__ = ("key", "value", "version")

    def __init__(self, key: Message, value: Message | None, version: int = 0) -> None:
        self.key = key
        self.value = value
        self.version = version

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoordinatorRecord) and (self.key, self.value, self.version) == (
            other.key,
            other.value,
            other.version,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CoordinatorRecord({self.key!r}, {self.value!r}, version={self.version})"


def tombstone(key: Message) -> CoordinatorRecord:
    """The record that deletes what `key` names."""
    return CoordinatorRecord(key, None)

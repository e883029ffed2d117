"""Records of __remote_log_metadata in the words of the toString methods of Kafka's RemoteLogMetadata classes."""

from __future__ import annotations

from typing import Any, Final

from cli.tools.kafka_json import to_json
from protocol.schema import Message
from protocol.wire import uuid_to_string

_SEGMENT_STATES: Final = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES: Final = (
    "DELETE_PARTITION_MARKED",
    "DELETE_PARTITION_STARTED",
    "DELETE_PARTITION_FINISHED",
)


class RemoteLogText:
    """One record; its text is Kafka's, `tree` that of --json."""

    __slots__ = ("_message", "_version")

    def __init__(self, message: Message, version: int) -> None:
        self._message: Any = message
        self._version = version

    @property
    def tree(self) -> dict[str, Any]:
        name = type(self._message).__name__
        return {"type": name, "version": self._version, "data": to_json(self._message, self._version)}

    def __str__(self) -> str:
        match type(self._message).__name__:
            case "RemoteLogSegmentMetadataRecord":
                return self._segment()
            case "RemoteLogSegmentMetadataUpdateRecord":
                return self._update()
            case "RemotePartitionDeleteMetadataRecord":
                return self._delete()
        return self._snapshot()

    def _segment(self) -> str:
        message = self._message
        return (
            f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(message.remote_log_segment_id)}, "
            f"startOffset={message.start_offset}, endOffset={message.end_offset}, brokerId={message.broker_id}, "
            f"maxTimestampMs={message.max_timestamp_ms}, eventTimestampMs={message.event_timestamp_ms}, "
            f"segmentLeaderEpochs={_epochs(message)}, segmentSizeInBytes={message.segment_size_in_bytes}, "
            f"customMetadata={_custom(message)}, state={_segment_state(message)}, "
            f"txnIdxEmpty={str(message.txn_index_empty).lower()}}}"
        )

    def _update(self) -> str:
        message = self._message
        return (
            f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(message.remote_log_segment_id)}, "
            f"customMetadata={_custom(message)}, state={_segment_state(message)}, "
            f"eventTimestampMs={message.event_timestamp_ms}, brokerId={message.broker_id}}}"
        )

    def _delete(self) -> str:
        message = self._message
        state = _state(_PARTITION_STATES, message.remote_partition_delete_state)
        return (
            f"RemotePartitionDeleteMetadata{{topicPartition={_partition(message.topic_id_partition)}, state={state}, "
            f"eventTimestampMs={message.event_timestamp_ms}, brokerId={message.broker_id}}}"
        )

    def _snapshot(self) -> str:
        message = self._message
        return (
            f"RemoteLogSegmentMetadataSnapshot{{segmentId={uuid_to_string(message.segment_id)}, "
            f"startOffset={message.start_offset}, endOffset={message.end_offset}, "
            f"maxTimestampMs={message.max_timestamp_ms}, segmentLeaderEpochs={_epochs(message)}, "
            f"segmentSizeInBytes={message.segment_size_in_bytes}, customMetadata={_custom(message)}, "
            f"state={_segment_state(message)}, txnIdxEmpty={str(message.txn_index_empty).lower()}}}"
        )


def _partition(entry: Any) -> str:
    return f"{uuid_to_string(entry.id)}:{entry.name}-{entry.partition}"


def _segment_id(entry: Any) -> str:
    topic_id_partition = _partition(entry.topic_id_partition)
    return f"RemoteLogSegmentId{{topicIdPartition={topic_id_partition}, id={uuid_to_string(entry.id)}}}"


def _epochs(message: Any) -> str:
    epochs = {entry.leader_epoch: entry.offset for entry in message.segment_leader_epochs}
    return "{" + ", ".join(f"{epoch}={epochs[epoch]}" for epoch in sorted(epochs)) + "}"


def _custom(message: Any) -> str:
    data = message.custom_metadata
    return "Optional.empty" if data is None else f"Optional[CustomMetadata{{{len(data)} bytes}}]"


def _segment_state(message: Any) -> str:
    return _state(_SEGMENT_STATES, message.remote_log_segment_state)


def _state(names: tuple[str, ...], number: int) -> str:
    return names[number] if 0 <= number < len(names) else "null"

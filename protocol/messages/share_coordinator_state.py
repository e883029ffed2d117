"""Records of __share_group_state."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string, uuid
from barnabas.protocol.wire import Uuid


class ShareSnapshotKey(Message, api_key=0, versions="0", flexible="none"):
    """The key of the whole state of a share partition."""

    group_id: str = string(versions="0")
    topic_id: Uuid = uuid(versions="0")
    partition: int = int32(versions="0")


class ShareSnapshotValue(Message, api_key=0, versions="0", flexible="0+"):
    """The whole state of a share partition."""

    class StateBatch(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        delivery_state: int = int8()
        delivery_count: int = int16()

    snapshot_epoch: int = int32()
    state_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0, tagged="0+")
    create_timestamp: int = int64()
    write_timestamp: int = int64()
    state_batches: list[ShareSnapshotValue.StateBatch] = array("StateBatch")


class ShareUpdateKey(Message, api_key=1, versions="0", flexible="none"):
    """The key of a change since the last snapshot."""

    group_id: str = string(versions="0")
    topic_id: Uuid = uuid(versions="0")
    partition: int = int32(versions="0")


class ShareUpdateValue(Message, api_key=1, versions="0", flexible="0+"):
    """A change to a share partition since its last snapshot."""

    class StateBatch(Struct):
        first_offset: int = int64()
        last_offset: int = int64()
        delivery_state: int = int8()
        delivery_count: int = int16()

    snapshot_epoch: int = int32()
    leader_epoch: int = int32()
    start_offset: int = int64()
    delivery_complete_count: int = int32(default=-1, tag=0, tagged="0+")
    state_batches: list[ShareUpdateValue.StateBatch] = array("StateBatch")

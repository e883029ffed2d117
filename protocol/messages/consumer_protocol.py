"""The opaque fields of JoinGroup and SyncGroup of classic consumers."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bytes_, int32, string


class ConsumerProtocolSubscription(Message, versions="0-3", flexible="none"):
    """The metadata of a consumer that joins: its topics, and the partitions it owned before."""

    class TopicPartition(Struct):
        topic: str = string(versions="1+")
        partitions: list[int] = array(int32, versions="1+")

    topics: list[str] = array(string)
    user_data: bytes | None = bytes_(nullable="0+", default=None)
    owned_partitions: list[ConsumerProtocolSubscription.TopicPartition] = array(
        "TopicPartition", versions="1+", ignorable=True
    )
    generation_id: int = int32(versions="2+", default=-1, ignorable=True)
    rack_id: str | None = string(versions="3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Message, versions="0-3", flexible="none"):
    """The assignment of a consumer by the leader of the group."""

    class TopicPartition(Struct):
        topic: str = string()
        partitions: list[int] = array(int32)

    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = array("TopicPartition")
    user_data: bytes | None = bytes_(nullable="0+", default=None)

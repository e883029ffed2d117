"""What classic consumers put into the opaque fields of JoinGroup and SyncGroup."""

from __future__ import annotations

from barnabas.protocol.schema import Message, Struct, array, bytes_, int32, string


class ConsumerProtocolSubscription(Message, versions="0-3", flexible="none"):
    """What a consumer brings when it joins: topics, and what it owned before."""

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
    """What the leader of a group gives to a consumer."""

    class TopicPartition(Struct):
        topic: str = string()
        partitions: list[int] = array(int32)

    assigned_partitions: list[ConsumerProtocolAssignment.TopicPartition] = array("TopicPartition")
    user_data: bytes | None = bytes_(nullable="0+", default=None)

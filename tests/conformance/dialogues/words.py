"""Short builders of the requests that most dialogues send."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.protocol.messages.fetch import FetchRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offsets import ListOffsetsRequest
from barnabas.protocol.messages.produce import ProduceRequest
from barnabas.protocol.wire import ZERO_UUID, Uuid

IDS_IN_PRODUCE, IDS_IN_FETCH = 13, 13
"""The first versions that identify topics by id."""


def named(*names: str | None, topic_id: Uuid = ZERO_UUID) -> list[MetadataRequest.MetadataRequestTopic]:
    return [MetadataRequest.MetadataRequestTopic(name=name, topic_id=topic_id) for name in names]


def list_offsets(
    name: str,
    *partitions: int,
    timestamp: int = -1,
    epoch: int = -1,
    isolation_level: int = 0,
    replica_id: int = -1,
) -> ListOffsetsRequest:
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation_level,
        timeout_ms=10_000,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name=name,
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(
                        partition_index=index, timestamp=timestamp, current_leader_epoch=epoch
                    )
                    for index in partitions
                ],
            )
        ],
    )


def produce(
    topic: str | Uuid,
    *records: bytes | None,
    acks: int = -1,
    first_partition: int = 0,
    transactional_id: str | None = None,
) -> ProduceRequest:
    """A request for one topic; element n of `records` is for partition `first_partition` + n."""
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            ProduceRequest.TopicProduceData(
                name=topic if isinstance(topic, str) else "",
                topic_id=topic if isinstance(topic, bytes) else ZERO_UUID,
                partition_data=[
                    ProduceRequest.PartitionProduceData(index=first_partition + at, records=data)
                    for at, data in enumerate(records)
                ],
            )
        ],
    )


def partition(
    index: int = 0,
    offset: int = 0,
    *,
    max_bytes: int = 1_048_576,
    epoch: int = -1,
    last_fetched_epoch: int = -1,
) -> FetchRequest.FetchPartition:
    return FetchRequest.FetchPartition(
        partition=index,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=epoch,
        last_fetched_epoch=last_fetched_epoch,
    )


def fetch_topic(
    topic: str | Uuid, partitions: Sequence[FetchRequest.FetchPartition]
) -> FetchRequest.FetchTopic:
    return FetchRequest.FetchTopic(
        topic=topic if isinstance(topic, str) else "",
        topic_id=topic if isinstance(topic, bytes) else ZERO_UUID,
        partitions=list(partitions),
    )


def fetch(
    *topics: FetchRequest.FetchTopic,
    forgotten: Sequence[FetchRequest.ForgottenTopic] = (),
    session_id: int = 0,
    session_epoch: int = -1,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 10_000_000,
    isolation_level: int = 0,
) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=list(topics),
        forgotten_topics_data=list(forgotten),
    )

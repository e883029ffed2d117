"""Builders of requests about committed offsets, and functions that note their effects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from barnabas.broker.coordinator.records import GROUP_RECORDS, RecordSerde
from barnabas.broker.metadata.internal_topics import partition_for
from barnabas.protocol.messages.commits import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from barnabas.protocol.messages.fetch import FetchResponse
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.transactions import AddOffsetsToTxnRequest, TxnOffsetCommitRequest
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from tests.conformance.dialogue_client import NO_ID, DialogueClient
from tests.conformance.dialogues.members import a_group
from tests.conformance.dialogues.transactional import Producer
from tests.conformance.dialogues.words import fetch, fetch_topic, named, partition

IDS, MANY_GROUPS = 10, 8
ADD_OFFSETS: Final = 4
ADDS_GROUP_IMPLICITLY: Final = 5
"""The first version of TxnOffsetCommit that adds the group to the transaction."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
MAX_METADATA: Final = 4096
"""Kafka's default of offset.metadata.max.bytes."""


def commit_of(
    client: DialogueClient, group: str, *offsets: tuple[str, int, int], **fields: Any
) -> OffsetCommitRequest:
    """A commit of (topic, partition, offset) tuples; `fields` hold what concerns the member and the metadata."""
    metadata = fields.pop("metadata", "said")
    epoch = fields.pop("leader_epoch", 0)
    by_id = client.version >= IDS
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                topic_id=id_or_none(client, name) if by_id else bytes(16),
                partitions=[
                    OffsetCommitRequest.OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        committed_metadata=metadata,
                    )
                ],
            )
            for name, index, offset in offsets
        ],
        **fields,
    )


def id_or_none(client: DialogueClient, name: str) -> bytes:
    try:
        return client.id_of(name)
    except StopIteration:
        return NO_ID


def fetch_of(
    client: DialogueClient,
    groups: Sequence[str],
    topics: Sequence[tuple[str, Sequence[int]]] | None = None,
    *,
    stable: bool = False,
    version: int | None = None,
    **member: Any,
) -> OffsetFetchRequest:
    """OffsetFetch in the form of its version; `topics` None: all topics."""
    version = client.version if version is None else version
    if version < MANY_GROUPS:
        (group,) = groups
        old = [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=name, partition_indexes=list(indexes))
            for name, indexes in topics or ()
        ]
        return OffsetFetchRequest(
            group_id=group, topics=None if topics is None else old, require_stable=stable
        )
    new = [
        OffsetFetchRequest.OffsetFetchRequestTopics(
            name=name,
            topic_id=id_or_none(client, name) if version >= IDS else bytes(16),
            partition_indexes=list(indexes),
        )
        for name, indexes in topics or ()
    ]
    return OffsetFetchRequest(
        groups=[
            OffsetFetchRequest.OffsetFetchRequestGroup(
                group_id=group, topics=None if topics is None else new, **member
            )
            for group in groups
        ],
        require_stable=stable,
    )


def sorted_topics(answer: Any) -> Any:
    """The response with topics and partitions sorted: Kafka returns them in hash order."""
    for holder in [answer, *answer.groups]:
        holder.topics.sort(key=lambda topic: (topic.name, getattr(topic, "topic_id", b"") == NO_ID))
        for topic in holder.topics:
            topic.partitions.sort(key=lambda it: it.partition_index)
    return answer


def note_offsets(client: DialogueClient, group: str) -> None:
    """Notes all committed offsets of the group, in a version that names topics."""
    client.request(fetch_of(client, [group], version=MANY_GROUPS), MANY_GROUPS, noting=sorted_topics)


def note_records(client: DialogueClient, group: str) -> None:
    """Notes the group's records in __consumer_offsets, in log order: keys as bytes, values by version and field."""
    described = client.request_until(
        MetadataRequest(topics=named(OFFSETS_TOPIC)), lambda it: it.topics[0].error_code == 0, 9
    )
    index = partition_for(group, len(described.topics[0].partitions))
    serde = RecordSerde(GROUP_RECORDS)
    for key, value, is_transactional in log_of(client, index):
        if key is None or group.encode() not in key:
            continue
        record = serde.decode(key, value)
        assert serde.encode(record) == (key, value)
        client.note([key.hex(), record.value and (record.version, record.value), is_transactional])


def log_of(client: DialogueClient, index: int) -> Any:
    """Keys and values of a partition of __consumer_offsets, and whether they belong to a transaction."""
    at = 0
    while True:
        request = fetch(fetch_topic(OFFSETS_TOPIC, [partition(index, at)]))
        answer = client.connection.request(request, 12)
        assert isinstance(answer, FetchResponse)
        records: Any = answer.responses[0].partitions[0].records
        found = list(batches(bytes(records or b"")))
        if not found:
            return
        for batch in found:
            assert isinstance(batch, RecordBatch)
            at = batch.last_offset + 1
            if not batch.is_control:
                for record in batch.records():
                    yield record.key, record.value, batch.is_transactional


def partition_of_group(client: DialogueClient, group: str) -> int:
    described = client.connection.request(MetadataRequest(topics=named(OFFSETS_TOPIC)), 9)
    return partition_for(group, len(described.topics[0].partitions))  # type: ignore[attr-defined]


def some_offsets(client: DialogueClient) -> tuple[str, str]:
    """Commits offsets of two of the four partitions of a new topic; returns the group and the topic."""
    group, name = a_group(client, "g"), client.create("a", 4)
    request = commit_of(client, group, (name, 0, 5), (name, 2, 7))
    for topic in request.topics:
        topic.name, topic.topic_id = name, bytes(16)
    client.request_until(request, lambda answer: answer.topics[0].partitions[0].error_code == 0, 8)
    return group, name


def delete_of(group: str, *partitions: tuple[str, int]) -> OffsetDeleteRequest:
    return OffsetDeleteRequest(
        group_id=group,
        topics=[
            OffsetDeleteRequest.OffsetDeleteRequestTopic(
                name=name,
                partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=index)],
            )
            for name, index in partitions
        ],
    )


def txn_commit_of(producer: Producer, group: str, *offsets: tuple[str, int, int], **fields: Any) -> Any:
    metadata = fields.pop("metadata", "said")
    epoch = fields.pop("leader_epoch", 0)
    names: dict[str, Any] = {
        "transactional_id": producer.transactional_id,
        "producer_id": producer.id,
        "producer_epoch": producer.epoch,
    }
    return TxnOffsetCommitRequest(
        group_id=group,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name=name,
                partitions=[
                    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=offset,
                        committed_leader_epoch=epoch,
                        committed_metadata=metadata,
                    )
                ],
            )
            for name, index, offset in offsets
        ],
        **(names | fields),
    )


def add_and_commit(producer: Producer, group: str, *offsets: tuple[str, int, int]) -> None:
    """Adds the group to the producer's transaction, then commits offsets, as old clients do; notes nothing."""
    client = producer.client
    add_group(producer, group)
    client.request_until(
        txn_commit_of(producer, group, *offsets),
        lambda answer: not any(p.error_code for topic in answer.topics for p in topic.partitions),
        3,
    )


def add_group(producer: Producer, group: str) -> None:
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    producer.client.request_until(request, lambda answer: answer.error_code == 0, ADD_OFFSETS)


def add_group_if_required(producer: Producer, group: str) -> None:
    """Adds the group to the transaction where TxnOffsetCommit of this version does not."""
    if producer.client.version < ADDS_GROUP_IMPLICITLY:
        add_group(producer, group)


def end(producer: Producer, *, committed: bool) -> None:
    producer.end(committed=committed, version=5 if producer.client.version >= ADDS_GROUP_IMPLICITLY else 4)
    producer.settle()

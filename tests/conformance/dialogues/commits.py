"""OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit, and the records that committed offsets are kept in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from broker.controller.internal_topics import partition_for
from broker.coordinator.record_types import GROUP_RECORDS
from broker.coordinator.serde import RecordSerde
from protocol.api_keys import ApiKey
from protocol.messages.commits import OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest
from protocol.messages.fetch import FetchResponse
from protocol.messages.metadata import MetadataRequest
from protocol.messages.topics import DeleteTopicsRequest
from protocol.messages.transactions import AddOffsetsToTxnRequest, TxnOffsetCommitRequest
from protocol.records.batch import RecordBatch, batches
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.members import Member, a_group
from tests.conformance.dialogues.transactional import Producer
from tests.conformance.dialogues.words import fetch, fetch_topic, named, partition
from tests.conformance.speaker import NO_ID, Speaker

COMMIT_FIRST, COMMIT_LAST = 2, 10
FETCH_FIRST, FETCH_LAST = 1, 10
TXN_FIRST, TXN_LAST = 0, 5
IDS, MANY_GROUPS, STABLE, MEMBERS_OF_FETCH, ALL_TOPICS, INSTANCES, MEMBERS_IN_TXN = 10, 8, 7, 9, 2, 7, 3
ADD_OFFSETS: Final = 4
ADDS_BY_ITSELF: Final = 5
"""From this version on TxnOffsetCommit adds the group to the transaction."""

OFFSETS_TOPIC: Final = "__consumer_offsets"
MAX_METADATA: Final = 4096


# ---- words


def commit_of(
    client: Speaker, group: str, *offsets: tuple[str, int, int], **fields: Any
) -> OffsetCommitRequest:
    """A commit of (topic, partition, offset)s; what is said of members and metadata is in `fields`."""
    metadata = fields.pop("metadata", "said")
    epoch = fields.pop("leader_epoch", 0)
    by_id = client.version >= IDS
    return OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(
                name=name,
                topic_id=_id_of(client, name) if by_id else bytes(16),
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


def _id_of(client: Speaker, name: str) -> bytes:
    try:
        return client.id_of(name)
    except StopIteration:
        return NO_ID


def fetch_of(
    client: Speaker,
    groups: Sequence[str],
    topics: Sequence[tuple[str, Sequence[int]]] | None = None,
    *,
    stable: bool = False,
    version: int | None = None,
    **member: Any,
) -> OffsetFetchRequest:
    """OffsetFetch in whichever form its version has; `topics` None: all."""
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
            topic_id=_id_of(client, name) if version >= IDS else bytes(16),
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
    """An answer to a fetch with topics and partitions in order: Kafka's is that of its tables."""
    for holder in [answer, *answer.groups]:
        holder.topics.sort(key=lambda topic: (topic.name, getattr(topic, "topic_id", b"") == NO_ID))
        for topic in holder.topics:
            topic.partitions.sort(key=lambda it: it.partition_index)
    return answer


def note_offsets(client: Speaker, group: str) -> None:
    """All that the group has committed, in a version that tells it by name."""
    client.ask(fetch_of(client, [group], version=MANY_GROUPS), MANY_GROUPS, noting=sorted_topics)


def note_records(client: Speaker, group: str) -> None:
    """The records of the group in __consumer_offsets, in their order: keys in bytes, values by version and field."""
    described = client.until(
        MetadataRequest(topics=named(OFFSETS_TOPIC)), lambda it: it.topics[0].error_code == 0, 9
    )
    index = partition_for(group, len(described.topics[0].partitions))
    serde = RecordSerde(GROUP_RECORDS)
    for key, value, is_transactional in _log(client, index):
        if key is None or group.encode() not in key:
            continue
        record = serde.decode(key, value)
        assert serde.encode(record) == (key, value)
        client.note([key.hex(), record.value and (record.version, record.value), is_transactional])


def _log(client: Speaker, index: int) -> Any:
    """Keys and values of a partition of __consumer_offsets, and whether they belong to a transaction."""
    at = 0
    while True:
        request = fetch(fetch_topic(OFFSETS_TOPIC, [partition(index, at)]))
        answer = client.peer.ask(request, 12)
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


# ---- OffsetCommit


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def by_hand(client: Speaker) -> None:
    group, name = a_group(client, "g"), client.create("a", 3)
    client.ask(commit_of(client, group, (name, 0, 5), (name, 2, 0)))
    client.ask(commit_of(client, group, (name, 0, 4), metadata=None, leader_epoch=-1))
    client.ask(commit_of(client, group, (name, 1, -1), metadata="", leader_epoch=7))
    client.ask(commit_of(client, group, (name, 1, 2**62)))
    note_offsets(client, group)
    note_records(client, group)


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def partitions_that_are_not_there(client: Speaker) -> None:
    group, name = a_group(client, "g"), client.create("a")
    other = client.topic("b")
    client.ask(commit_of(client, group, (name, 0, 5), (name, 1, 5), (other, 0, 5), (name, -1, 5)))
    client.ask(commit_of(client, group, (other, 0, 5)))
    client.ask(commit_of(client, group, (name, 7, 5)))
    client.ask(commit_of(client, group))
    client.ask(commit_of(client, group, (name, 0, 1), (name, 0, 2)))
    if client.version < IDS:
        client.ask(commit_of(client, group, ("", 0, 5), ("a b", 0, 5)))
    note_offsets(client, group)


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def much_metadata(client: Speaker) -> None:
    group, name = a_group(client, "g"), client.create("a")
    for metadata in ("x" * MAX_METADATA, "x" * (MAX_METADATA + 1), "😀" * (MAX_METADATA // 2), "😀" * 2049):
        client.ask(commit_of(client, group, (name, 0, len(metadata)), metadata=metadata))
    note_offsets(client, group)


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def groups_and_members_that_are_not_there(client: Speaker) -> None:
    group, name = a_group(client, "g"), client.create("a")
    said: list[dict[str, Any]] = [
        {"generation_id_or_member_epoch": 0},
        {"generation_id_or_member_epoch": 3, "member_id": "m"},
        {"generation_id_or_member_epoch": -1, "member_id": "m"},
        {"generation_id_or_member_epoch": -2},
        {"generation_id_or_member_epoch": 0},
        {"generation_id_or_member_epoch": 0, "member_id": "m"},
        {"generation_id_or_member_epoch": -1, "member_id": "m"},
    ]
    if client.version >= INSTANCES:
        said += [{"group_instance_id": "i"}, {"group_instance_id": "i", "generation_id_or_member_epoch": 1}]
    for fields in said:
        client.ask(commit_of(client, group, (name, 0, 5), **fields))
    note_offsets(client, group)


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def a_group_without_a_name(client: Speaker) -> None:
    name = client.create("a")
    a_group(client, "g")
    client.ask(commit_of(client, "", (name, 0, 5)))
    client.until(OffsetDeleteRequest(group_id=""), lambda answer: answer.error_code == 24, 0)


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def members_commit(client: Speaker) -> None:
    group, name = a_group(client, "g"), client.create("a")
    with Member(client, group) as member:
        member.join()
        request = commit_of(client, group, (name, 0, 5), member_id=member.id)
        request.generation_id_or_member_epoch = member.generation
        client.ask(request)  # before it has what it is to read
        member.sync({member.id: b"all"})
        client.ask(request)
        for generation, member_id in (
            (member.generation + 1, member.id),
            (member.generation - 1, member.id),
            (-1, member.id),
            (-1, ""),
            (member.generation, "somebody"),
            (member.generation, ""),
        ):
            request.generation_id_or_member_epoch, request.member_id = generation, member_id
            client.ask(request)
        member.leave()
        request.generation_id_or_member_epoch, request.member_id = -1, ""
        client.ask(request)
    note_offsets(client, group)
    note_records(client, group)


@dialogue(ApiKey.OFFSET_COMMIT, INSTANCES, COMMIT_LAST)
def static_members_commit(client: Speaker) -> None:
    group, name = a_group(client, "g"), client.create("a")
    with Member(client, group, instance="i") as member:
        member.join()
        member.sync({member.id: b"all"})
        for generation, member_id, instance in (
            (member.generation, member.id, "i"),
            (member.generation, "somebody", "i"),
            (member.generation, member.id, "j"),
            (member.generation + 1, member.id, "i"),
            (-1, "", "i"),
        ):
            request = commit_of(client, group, (name, 0, 5), member_id=member_id, group_instance_id=instance)
            request.generation_id_or_member_epoch = generation
            client.ask(request)
        member.leave()


@dialogue(ApiKey.OFFSET_COMMIT, 2, 4)
def a_retention_of_its_own(client: Speaker) -> None:
    group, name = a_group(client, "g"), client.create("a", 3)
    for index, retention_ms in enumerate((-1, 60_000, 2**40)):
        client.ask(
            commit_of(client, group, (name, index, 5), retention_time_ms=retention_ms, leader_epoch=-1)
        )
    note_offsets(client, group)
    for key, value, _ in _log(client, _partition_of(client, group)):
        if key is not None and group.encode() in key:
            record: Any = RecordSerde(GROUP_RECORDS).decode(key, value)
            expires = record.value.expire_timestamp
            client.note([record.version, expires - record.value.commit_timestamp if expires >= 0 else "none"])


def _partition_of(client: Speaker, group: str) -> int:
    described = client.peer.ask(MetadataRequest(topics=named(OFFSETS_TOPIC)), 9)
    return partition_for(group, len(described.topics[0].partitions))  # type: ignore[attr-defined]


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def a_topic_is_deleted(client: Speaker) -> None:
    group, name, other = a_group(client, "g"), client.create("a", 2), client.create("b")
    client.ask(commit_of(client, group, (name, 0, 5), (name, 1, 6), (other, 0, 7)))
    client.peer.ask(DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), 5)
    client.until(
        fetch_of(client, [group], version=MANY_GROUPS),
        lambda answer: len(answer.groups[0].topics) == 1,
        MANY_GROUPS,
    )
    note_offsets(client, group)


# ---- OffsetFetch


def some_offsets(client: Speaker) -> tuple[str, str]:
    """A group that has committed some of the partitions of a topic with four; both names."""
    group, name = a_group(client, "g"), client.create("a", 4)
    request = commit_of(client, group, (name, 0, 5), (name, 2, 7))
    for topic in request.topics:
        topic.name, topic.topic_id = name, bytes(16)
    client.until(request, lambda answer: answer.topics[0].partitions[0].error_code == 0, 8)
    return group, name


@dialogue(ApiKey.OFFSET_FETCH, FETCH_FIRST, FETCH_LAST)
def what_was_committed(client: Speaker) -> None:
    group, name = some_offsets(client)
    client.ask(fetch_of(client, [group], [(name, [2, 1, 0, 9])]))
    client.ask(fetch_of(client, [group], [(name, [0]), (name, [2]), (client.topic("b"), [0])]))
    client.ask(fetch_of(client, [group], [(name, [])]))
    client.ask(fetch_of(client, [group], []))
    client.ask(fetch_of(client, [client.topic("nobody")], [(name, [0])]))
    client.ask(fetch_of(client, [""], [(name, [0])]))


@dialogue(ApiKey.OFFSET_FETCH, ALL_TOPICS, FETCH_LAST)
def all_that_was_committed(client: Speaker) -> None:
    group, _ = some_offsets(client)
    client.ask(fetch_of(client, [group]), noting=sorted_topics)
    client.ask(fetch_of(client, [client.topic("nobody")]), noting=sorted_topics)


@dialogue(ApiKey.OFFSET_FETCH, MANY_GROUPS, FETCH_LAST)
def many_groups(client: Speaker) -> None:
    group, name = some_offsets(client)
    nobody = client.topic("nobody")
    client.ask(fetch_of(client, [nobody, group], [(name, [0, 1])]))
    client.ask(fetch_of(client, [group, nobody]), noting=sorted_topics)
    client.ask(fetch_of(client, [group, group], [(name, [0])]))
    client.ask(OffsetFetchRequest())


@dialogue(ApiKey.OFFSET_FETCH, MEMBERS_OF_FETCH, FETCH_LAST)
def as_a_member(client: Speaker) -> None:
    group, name = some_offsets(client)
    for member in ({"member_id": "m", "member_epoch": 3}, {"member_id": None, "member_epoch": 3}):
        client.ask(fetch_of(client, [group], [(name, [0])], **member))


@dialogue(ApiKey.OFFSET_FETCH, STABLE, FETCH_LAST)
def what_a_transaction_is_about_to_change(client: Speaker) -> None:
    group, name = some_offsets(client)
    producer = Producer(client)
    add_and_commit(producer, group, (name, 0, 50), (name, 1, 60))
    for stable in (True, False):
        client.ask(fetch_of(client, [group], [(name, [0, 1, 2])], stable=stable))
        client.ask(fetch_of(client, [group], stable=stable), noting=sorted_topics)
    producer.end(committed=True, version=4)
    producer.settle()
    client.ask(fetch_of(client, [group], [(name, [0, 1, 2])], stable=True))


# ---- OffsetDelete


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


@dialogue(ApiKey.OFFSET_DELETE, 0, 0)
def offsets_go(client: Speaker) -> None:
    group, name = some_offsets(client)
    client.ask(delete_of(group, (name, 0), (name, 1), (name, 9), (client.topic("b"), 0)))
    client.ask(delete_of(group, (name, 0)))
    client.ask(delete_of(group))
    note_offsets(client, group)
    note_records(client, group)
    client.ask(delete_of(client.topic("nobody"), (name, 0)))
    client.ask(delete_of(client.topic("nobody"), (client.topic("b"), 0)))
    client.ask(delete_of("", (name, 0)))


@dialogue(ApiKey.OFFSET_DELETE, 0, 0)
def offsets_of_members_stay(client: Speaker) -> None:
    group = a_group(client, "g")
    name, other = client.create("a"), client.create("b")
    client.ask(commit_of(client, group, (name, 0, 5), (other, 0, 6)), 8)
    subscription = b"\0\0\0\0\0\1" + len(name).to_bytes(2, "big") + name.encode() + b"\xff\xff\xff\xff"
    with Member(client, group, protocols=[("range", subscription)]) as member:
        member.join()
        client.ask(delete_of(group, (name, 0), (other, 0)))
        member.sync({member.id: b"all"})
        client.ask(
            commit_of(client, group, (other, 0, 6), generation_id_or_member_epoch=1, member_id=member.id), 8
        )
        client.ask(delete_of(group, (name, 0), (other, 0)))
        member.leave()
    client.ask(delete_of(group, (name, 0)))
    note_offsets(client, group)


@dialogue(ApiKey.OFFSET_DELETE, 0, 0)
def offsets_of_others_than_consumers_stay(client: Speaker) -> None:
    group, name = some_offsets(client)
    with Member(client, group, kind="connect", protocols=[("v1", b"data")]) as member:
        member.join()
        client.ask(delete_of(group, (name, 0)))
        member.sync({member.id: b"all"})
        client.ask(delete_of(group, (name, 0)))
        member.leave()
    client.ask(delete_of(group, (name, 0)))


# ---- TxnOffsetCommit


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
    """Offsets in a transaction of the producer's, as old clients do it; nothing is noted."""
    client = producer.client
    _add_group(producer, group)
    client.until(
        txn_commit_of(producer, group, *offsets),
        lambda answer: not any(p.error_code for topic in answer.topics for p in topic.partitions),
        3,
    )


def _add_group(producer: Producer, group: str) -> None:
    request = AddOffsetsToTxnRequest(
        transactional_id=producer.transactional_id,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    producer.client.until(request, lambda answer: answer.error_code == 0, ADD_OFFSETS)


def open_for(producer: Producer, group: str) -> None:
    """What comes before TxnOffsetCommit where that does not do it by itself."""
    if producer.client.version < ADDS_BY_ITSELF:
        _add_group(producer, group)


def end(producer: Producer, *, committed: bool) -> None:
    producer.end(committed=committed, version=5 if producer.client.version >= ADDS_BY_ITSELF else 4)
    producer.settle()


@dialogue(ApiKey.TXN_OFFSET_COMMIT, TXN_FIRST, TXN_LAST)
def in_a_transaction(client: Speaker) -> None:
    group, name = some_offsets(client)
    producer = Producer(client)
    for committed in (True, False):
        open_for(producer, group)
        client.ask(txn_commit_of(producer, group, (name, 0, 50), (name, 1, 60)))
        client.ask(txn_commit_of(producer, group, (name, 0, 51), metadata=None, leader_epoch=-1))
        note_offsets(client, group)
        end(producer, committed=committed)
        note_offsets(client, group)
    note_records(client, group)


@dialogue(ApiKey.TXN_OFFSET_COMMIT, TXN_FIRST, TXN_LAST)
def what_is_wrong_in_a_transaction(client: Speaker) -> None:
    group, name = some_offsets(client)
    producer = Producer(client)
    open_for(producer, group)
    client.ask(txn_commit_of(producer, group, (name, 0, 5), (name, 9, 5), (client.topic("b"), 0, 5)))
    client.ask(txn_commit_of(producer, group, (client.topic("b"), 0, 5)))
    client.ask(txn_commit_of(producer, group))
    client.ask(txn_commit_of(producer, "", (name, 0, 5)))
    client.ask(txn_commit_of(producer, group, (name, 0, 5), metadata="x" * (MAX_METADATA + 1)))
    end(producer, committed=False)
    note_offsets(client, group)


@dialogue(ApiKey.TXN_OFFSET_COMMIT, TXN_FIRST, TXN_LAST)
def producers_that_may_not(client: Speaker) -> None:
    group, name = some_offsets(client)
    producer = Producer(client)
    client.ask(txn_commit_of(producer, group, (name, 0, 5), producer_id=producer.id + 1))
    client.ask(txn_commit_of(producer, group, (name, 0, 5), producer_epoch=producer.epoch + 1))
    client.ask(txn_commit_of(producer, group, (name, 0, 5), transactional_id=client.topic("other")))
    if client.version < ADDS_BY_ITSELF:
        client.ask(txn_commit_of(producer, group, (name, 0, 5)))  # to which no transaction belongs
    note_offsets(client, group)


@dialogue(ApiKey.TXN_OFFSET_COMMIT, TXN_FIRST, TXN_LAST)
def a_group_of_offsets_alone(client: Speaker) -> None:
    group, name = a_group(client, "g"), client.create("a")
    producer = Producer(client)
    open_for(producer, group)
    client.ask(txn_commit_of(producer, group, (name, 0, 5)))
    end(producer, committed=True)
    note_offsets(client, group)
    note_records(client, group)


@dialogue(ApiKey.TXN_OFFSET_COMMIT, MEMBERS_IN_TXN, TXN_LAST)
def members_in_a_transaction(client: Speaker) -> None:
    group, name = a_group(client, "g"), client.create("a")
    producer = Producer(client)
    with Member(client, group) as member:
        member.join()
        for generation, member_id in (
            (member.generation, member.id),
            (member.generation + 1, member.id),
            (member.generation, "somebody"),
            (-1, member.id),
            (-1, ""),
        ):
            open_for(producer, group)
            fields = {"generation_id": generation, "member_id": member_id}
            client.ask(txn_commit_of(producer, group, (name, 0, 5), **fields))
        member.sync({member.id: b"all"})
        client.ask(
            txn_commit_of(producer, group, (name, 0, 6), generation_id=member.generation, member_id=member.id)
        )
        end(producer, committed=True)
        member.leave()
    note_offsets(client, group)


@dialogue(ApiKey.TXN_OFFSET_COMMIT, TXN_FIRST, TXN_LAST)
def offsets_go_in_the_midst_of_it(client: Speaker) -> None:
    group, name = some_offsets(client)
    producer = Producer(client)
    open_for(producer, group)
    client.ask(txn_commit_of(producer, group, (name, 0, 50), (name, 1, 60)))
    client.ask(delete_of(group, (name, 0)), 0)
    end(producer, committed=True)
    note_offsets(client, group)

"""OffsetCommit, OffsetFetch and OffsetDelete, and their records in __consumer_offsets."""

from __future__ import annotations

from typing import Any

from barnabas.broker.coordinator.records import GROUP_RECORDS, RecordSerde
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.commits import OffsetDeleteRequest, OffsetFetchRequest
from barnabas.protocol.messages.topics import DeleteTopicsRequest
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.committed import (
    IDS,
    MANY_GROUPS,
    MAX_METADATA,
    add_and_commit,
    commit_of,
    delete_of,
    fetch_of,
    log_of,
    note_offsets,
    note_records,
    partition_of_group,
    some_offsets,
    sorted_topics,
)
from tests.conformance.dialogues.members import Member, a_group
from tests.conformance.dialogues.transactional import Producer

COMMIT_FIRST, COMMIT_LAST = 2, 10
FETCH_FIRST, FETCH_LAST = 1, 10
STABLE, MEMBERS_OF_FETCH, ALL_TOPICS, INSTANCES = 7, 9, 2, 7


# ---- OffsetCommit


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def commits_without_membership(client: DialogueClient) -> None:
    group, name = a_group(client, "g"), client.create("a", 3)
    client.request(commit_of(client, group, (name, 0, 5), (name, 2, 0)))
    client.request(commit_of(client, group, (name, 0, 4), metadata=None, leader_epoch=-1))
    client.request(commit_of(client, group, (name, 1, -1), metadata="", leader_epoch=7))
    client.request(commit_of(client, group, (name, 1, 2**62)))
    note_offsets(client, group)
    note_records(client, group)


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def unknown_partitions(client: DialogueClient) -> None:
    group, name = a_group(client, "g"), client.create("a")
    other = client.topic("b")
    client.request(commit_of(client, group, (name, 0, 5), (name, 1, 5), (other, 0, 5), (name, -1, 5)))
    client.request(commit_of(client, group, (other, 0, 5)))
    client.request(commit_of(client, group, (name, 7, 5)))
    client.request(commit_of(client, group))
    client.request(commit_of(client, group, (name, 0, 1), (name, 0, 2)))
    if client.version < IDS:
        client.request(commit_of(client, group, ("", 0, 5), ("a b", 0, 5)))
    note_offsets(client, group)


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def metadata_sizes(client: DialogueClient) -> None:
    group, name = a_group(client, "g"), client.create("a")
    for metadata in ("x" * MAX_METADATA, "x" * (MAX_METADATA + 1), "😀" * (MAX_METADATA // 2), "😀" * 2049):
        client.request(commit_of(client, group, (name, 0, len(metadata)), metadata=metadata))
    note_offsets(client, group)


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def unknown_groups_and_members(client: DialogueClient) -> None:
    group, name = a_group(client, "g"), client.create("a")
    field_sets: list[dict[str, Any]] = [
        {"generation_id_or_member_epoch": 0},
        {"generation_id_or_member_epoch": 3, "member_id": "m"},
        {"generation_id_or_member_epoch": -1, "member_id": "m"},
        {"generation_id_or_member_epoch": -2},
        {"generation_id_or_member_epoch": 0},
        {"generation_id_or_member_epoch": 0, "member_id": "m"},
        {"generation_id_or_member_epoch": -1, "member_id": "m"},
    ]
    if client.version >= INSTANCES:
        field_sets += [
            {"group_instance_id": "i"},
            {"group_instance_id": "i", "generation_id_or_member_epoch": 1},
        ]
    for fields in field_sets:
        client.request(commit_of(client, group, (name, 0, 5), **fields))
    note_offsets(client, group)


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def an_empty_group_id(client: DialogueClient) -> None:
    name = client.create("a")
    a_group(client, "g")
    client.request(commit_of(client, "", (name, 0, 5)))
    client.request_until(OffsetDeleteRequest(group_id=""), lambda answer: answer.error_code == 24, 0)


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def members_commit(client: DialogueClient) -> None:
    group, name = a_group(client, "g"), client.create("a")
    with Member(client, group) as member:
        member.join()
        request = commit_of(client, group, (name, 0, 5), member_id=member.id)
        request.generation_id_or_member_epoch = member.generation
        client.request(request)  # before it has an assignment
        member.sync({member.id: b"all"})
        client.request(request)
        for generation, member_id in (
            (member.generation + 1, member.id),
            (member.generation - 1, member.id),
            (-1, member.id),
            (-1, ""),
            (member.generation, "somebody"),
            (member.generation, ""),
        ):
            request.generation_id_or_member_epoch, request.member_id = generation, member_id
            client.request(request)
        member.leave()
        request.generation_id_or_member_epoch, request.member_id = -1, ""
        client.request(request)
    note_offsets(client, group)
    note_records(client, group)


@dialogue(ApiKey.OFFSET_COMMIT, INSTANCES, COMMIT_LAST)
def static_members_commit(client: DialogueClient) -> None:
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
            client.request(request)
        member.leave()


@dialogue(ApiKey.OFFSET_COMMIT, 2, 4)
def retention_time_of_a_commit(client: DialogueClient) -> None:
    group, name = a_group(client, "g"), client.create("a", 3)
    for index, retention_ms in enumerate((-1, 60_000, 2**40)):
        client.request(
            commit_of(client, group, (name, index, 5), retention_time_ms=retention_ms, leader_epoch=-1)
        )
    note_offsets(client, group)
    for key, value, _ in log_of(client, partition_of_group(client, group)):
        if key is not None and group.encode() in key:
            record: Any = RecordSerde(GROUP_RECORDS).decode(key, value)
            expires = record.value.expire_timestamp
            client.note([record.version, expires - record.value.commit_timestamp if expires >= 0 else "none"])


@dialogue(ApiKey.OFFSET_COMMIT, COMMIT_FIRST, COMMIT_LAST)
def a_topic_is_deleted(client: DialogueClient) -> None:
    group, name, other = a_group(client, "g"), client.create("a", 2), client.create("b")
    client.request(commit_of(client, group, (name, 0, 5), (name, 1, 6), (other, 0, 7)))
    client.connection.request(DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), 5)
    client.request_until(
        fetch_of(client, [group], version=MANY_GROUPS),
        lambda answer: len(answer.groups[0].topics) == 1,
        MANY_GROUPS,
    )
    note_offsets(client, group)


# ---- OffsetFetch


@dialogue(ApiKey.OFFSET_FETCH, FETCH_FIRST, FETCH_LAST)
def committed_offsets(client: DialogueClient) -> None:
    group, name = some_offsets(client)
    client.request(fetch_of(client, [group], [(name, [2, 1, 0, 9])]))
    client.request(fetch_of(client, [group], [(name, [0]), (name, [2]), (client.topic("b"), [0])]))
    client.request(fetch_of(client, [group], [(name, [])]))
    client.request(fetch_of(client, [group], []))
    client.request(fetch_of(client, [client.topic("nobody")], [(name, [0])]))
    client.request(fetch_of(client, [""], [(name, [0])]))


@dialogue(ApiKey.OFFSET_FETCH, ALL_TOPICS, FETCH_LAST)
def all_committed_offsets(client: DialogueClient) -> None:
    group, _ = some_offsets(client)
    client.request(fetch_of(client, [group]), noting=sorted_topics)
    client.request(fetch_of(client, [client.topic("nobody")]), noting=sorted_topics)


@dialogue(ApiKey.OFFSET_FETCH, MANY_GROUPS, FETCH_LAST)
def many_groups(client: DialogueClient) -> None:
    group, name = some_offsets(client)
    nobody = client.topic("nobody")
    client.request(fetch_of(client, [nobody, group], [(name, [0, 1])]))
    client.request(fetch_of(client, [group, nobody]), noting=sorted_topics)
    client.request(fetch_of(client, [group, group], [(name, [0])]))
    client.request(OffsetFetchRequest())


@dialogue(ApiKey.OFFSET_FETCH, MEMBERS_OF_FETCH, FETCH_LAST)
def as_a_member(client: DialogueClient) -> None:
    group, name = some_offsets(client)
    for member in ({"member_id": "m", "member_epoch": 3}, {"member_id": None, "member_epoch": 3}):
        client.request(fetch_of(client, [group], [(name, [0])], **member))


@dialogue(ApiKey.OFFSET_FETCH, STABLE, FETCH_LAST)
def offsets_pending_in_a_transaction(client: DialogueClient) -> None:
    group, name = some_offsets(client)
    producer = Producer(client)
    add_and_commit(producer, group, (name, 0, 50), (name, 1, 60))
    for stable in (True, False):
        client.request(fetch_of(client, [group], [(name, [0, 1, 2])], stable=stable))
        client.request(fetch_of(client, [group], stable=stable), noting=sorted_topics)
    producer.end(committed=True, version=4)
    producer.settle()
    client.request(fetch_of(client, [group], [(name, [0, 1, 2])], stable=True))


# ---- OffsetDelete


@dialogue(ApiKey.OFFSET_DELETE, 0, 0)
def offsets_are_deleted(client: DialogueClient) -> None:
    group, name = some_offsets(client)
    client.request(delete_of(group, (name, 0), (name, 1), (name, 9), (client.topic("b"), 0)))
    client.request(delete_of(group, (name, 0)))
    client.request(delete_of(group))
    note_offsets(client, group)
    note_records(client, group)
    client.request(delete_of(client.topic("nobody"), (name, 0)))
    client.request(delete_of(client.topic("nobody"), (client.topic("b"), 0)))
    client.request(delete_of("", (name, 0)))


@dialogue(ApiKey.OFFSET_DELETE, 0, 0)
def offsets_of_subscribed_topics_stay(client: DialogueClient) -> None:
    group = a_group(client, "g")
    name, other = client.create("a"), client.create("b")
    client.request(commit_of(client, group, (name, 0, 5), (other, 0, 6)), 8)
    subscription = b"\0\0\0\0\0\1" + len(name).to_bytes(2, "big") + name.encode() + b"\xff\xff\xff\xff"
    with Member(client, group, protocols=[("range", subscription)]) as member:
        member.join()
        client.request(delete_of(group, (name, 0), (other, 0)))
        member.sync({member.id: b"all"})
        client.request(
            commit_of(client, group, (other, 0, 6), generation_id_or_member_epoch=1, member_id=member.id), 8
        )
        client.request(delete_of(group, (name, 0), (other, 0)))
        member.leave()
    client.request(delete_of(group, (name, 0)))
    note_offsets(client, group)


@dialogue(ApiKey.OFFSET_DELETE, 0, 0)
def offsets_of_other_protocol_types_stay(client: DialogueClient) -> None:
    group, name = some_offsets(client)
    with Member(client, group, kind="connect", protocols=[("v1", b"data")]) as member:
        member.join()
        client.request(delete_of(group, (name, 0)))
        member.sync({member.id: b"all"})
        client.request(delete_of(group, (name, 0)))
        member.leave()
    client.request(delete_of(group, (name, 0)))

"""Pipelined requests: one behind another on a connection, while the first waits and the broker's state changes.

Kafka handles one request of a connection at a time, so the second response never shows an older state than the first
(broker/network/request_order.py describes which part of that Barnabas keeps, and why).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.commits import OffsetCommitRequest
from barnabas.protocol.messages.groups import DescribeGroupsRequest, HeartbeatRequest, LeaveGroupRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.offsets import DeleteRecordsRequest, OffsetForLeaderEpochRequest
from barnabas.protocol.messages.topics import DeleteTopicsRequest
from barnabas.protocol.schema import Message
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import DialogueClient, batch
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.classic_groups import pair
from tests.conformance.dialogues.committed import commit_of, delete_of, fetch_of
from tests.conformance.dialogues.fetch import name_or_id
from tests.conformance.dialogues.in_transactions import Transactor, outcomes
from tests.conformance.dialogues.members import Member, a_group, awaits_state, by_id
from tests.conformance.dialogues.words import (
    IDS_IN_FETCH,
    IDS_IN_PRODUCE,
    fetch,
    fetch_topic,
    list_offsets,
    named,
    partition,
    produce,
)

PATIENCE_MS = 20_000
"""The maximum wait of a fetch that records complete long before."""

BRIEF_MS, LONGER_MS = 300, 3_000
"""The maximum wait of a fetch that its timeout completes; the longer one leaves time for a change before that."""

EARLIEST, LATEST = -2, -1
LIST_OFFSETS, METADATA, LEADER_EPOCH, DELETE_RECORDS, FETCH, PRODUCE = 7, 12, 4, 2, 12, 11
DESCRIBE, HEARTBEAT, LEAVE, JOIN, SYNC, OFFSET_FETCH, END = 5, 4, 5, 9, 5, 7, 4

Request = tuple[Message, int]
"""A request and its version."""


def note_pipelined(
    client: DialogueClient,
    *requests: Request,
    meanwhile: Callable[[], object] | None = None,
    connection: BrokerConnection | None = None,
    noting: Callable[[Any], object] = lambda answer: answer,
) -> None:
    """Sends all requests on one connection, calls `meanwhile`, then notes the responses."""
    connection = connection or client.connection
    for request, version in requests:
        connection.send(request, version)
    if meanwhile is not None:
        meanwhile()
    for request, version in requests:
        client.note(noting(connection.receive(request, version)))


def on_another_connection(client: DialogueClient, request: Message, version: int) -> Callable[[], object]:
    """A function that sends the request on another connection; nothing is noted."""

    def send() -> object:
        with BrokerConnection(*client.connection.address) as other:
            return other.request(request, version)

    return send


def waiting_fetch(
    client: DialogueClient, name: str, offset: int = 0, max_wait_ms: int = PATIENCE_MS
) -> Request:
    topics = fetch_topic(name_or_id(client, name), [partition(0, offset)])
    return fetch(topics, max_wait_ms=max_wait_ms), client.version


def delete_records(name: str, offset: int) -> DeleteRecordsRequest:
    single = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[single])
    return DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)


def leader_epoch(name: str) -> OffsetForLeaderEpochRequest:
    single = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=name, partitions=[single])
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])


def note_end(client: DialogueClient, name: str) -> None:
    client.request(list_offsets(name, 0), LIST_OFFSETS)


# ---- behind Fetch


@dialogue(ApiKey.FETCH, 4, 18)
def records_arrive_while_a_fetch_waits(client: DialogueClient) -> None:
    """A consumer that asks for the log end offset behind its fetch never computes a negative lag."""
    name = client.create("a")
    note_pipelined(
        client,
        waiting_fetch(client, name),
        (list_offsets(name, 0), LIST_OFFSETS),
        (list_offsets(name, 0, timestamp=EARLIEST), LIST_OFFSETS),
        (leader_epoch(name), LEADER_EPOCH),
        (fetch(fetch_topic(name, [partition()])), FETCH),
        (fetch(fetch_topic(name, [partition(0, 1)])), FETCH),
        meanwhile=on_another_connection(client, produce(name, batch(b"x")), PRODUCE),
    )


@dialogue(ApiKey.FETCH, 4, 18)
def two_fetches_wait_for_one_record_each(client: DialogueClient) -> None:
    name = client.create("a")

    def twice() -> None:
        for value in (b"x", b"y"):
            on_another_connection(client, produce(name, batch(value)), PRODUCE)()

    note_pipelined(
        client,
        waiting_fetch(client, name),
        (list_offsets(name, 0, timestamp=EARLIEST), LIST_OFFSETS),
        (fetch(fetch_topic(name, [partition(0, 1)]), max_wait_ms=PATIENCE_MS), FETCH),
        (list_offsets(name, 0), LIST_OFFSETS),
        meanwhile=twice,
        noting=_offsets_alone,
    )


def _offsets_alone(answer: Any) -> object:
    """Whether a fetch returned records: its end depends on the time of the response."""
    if hasattr(answer, "responses"):
        data = answer.responses[0].partitions[0]
        return data.error_code, bool(data.records)
    return answer


@dialogue(ApiKey.FETCH, 4, 18)
def records_are_written_behind_a_fetch(client: DialogueClient) -> None:
    """By the same client: the records are appended after the fetch has returned none."""
    name = client.create("a")
    note_pipelined(
        client,
        waiting_fetch(client, name, max_wait_ms=BRIEF_MS),
        (produce(name, batch(b"x")), PRODUCE),
        (list_offsets(name, 0), LIST_OFFSETS),
    )


@dialogue(ApiKey.FETCH, 12, 13)
def records_are_deleted_while_a_fetch_waits(client: DialogueClient) -> None:
    name = client.create("a")
    client.write(name, batch(b"x"), batch(b"y"))
    note_pipelined(
        client,
        waiting_fetch(client, name, offset=2, max_wait_ms=LONGER_MS),
        (list_offsets(name, 0, timestamp=EARLIEST), LIST_OFFSETS),
        (fetch(fetch_topic(name, [partition()])), FETCH),
        meanwhile=on_another_connection(client, delete_records(name, 2), DELETE_RECORDS),
    )


@dialogue(ApiKey.FETCH, 4, 18)
def a_topic_is_deleted_while_a_fetch_waits(client: DialogueClient) -> None:
    name = client.create("a")
    note_pipelined(
        client,
        waiting_fetch(client, name),
        (MetadataRequest(topics=named(name), allow_auto_topic_creation=False), METADATA),
        (list_offsets(name, 0), LIST_OFFSETS),
        meanwhile=on_another_connection(
            client, DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000), 5
        ),
        noting=lambda answer: None if hasattr(answer, "responses") else answer,
    )


# ---- behind Produce


@dialogue(ApiKey.PRODUCE, 3, 13)
def reads_behind_acknowledged_records(client: DialogueClient) -> None:
    name = client.create("a")
    topic = client.id_of(name) if client.version >= IDS_IN_PRODUCE else name
    note_pipelined(
        client,
        (produce(topic, batch(b"x")), client.version),
        (produce(topic, batch(b"y"), acks=1), client.version),
        (list_offsets(name, 0), LIST_OFFSETS),
        (fetch(fetch_topic(name, [partition(0, 1)])), FETCH),
        (produce(topic, batch(b"z")), client.version),
        (delete_records(name, 2), DELETE_RECORDS),
        (list_offsets(name, 0, timestamp=EARLIEST), LIST_OFFSETS),
        (fetch(fetch_topic(name, [partition()])), FETCH),
    )


@dialogue(ApiKey.PRODUCE, 3, 13)
def too_few_in_sync_replicas(client: DialogueClient) -> None:
    name = client.create("a", configs={"min.insync.replicas": "2"})
    topic = client.id_of(name) if client.version >= IDS_IN_PRODUCE else name
    note_pipelined(
        client,
        (produce(topic, batch(b"x")), client.version),
        (produce(topic, batch(b"y"), acks=1), client.version),
        (list_offsets(name, 0), LIST_OFFSETS),
        (produce(topic, batch(b"z")), client.version),
        (fetch(fetch_topic(name, [partition()])), FETCH),
    )


@dialogue(ApiKey.PRODUCE, 3, 13)
def a_failure_with_acks_0_closes_after_earlier_responses(client: DialogueClient) -> None:
    name = client.create("a")
    topic = client.id_of(name) if client.version >= IDS_IN_PRODUCE else name
    nowhere = produce(topic, batch(b"x"), acks=0, first_partition=7)
    note_pipelined(client, (produce(topic, batch(b"x")), client.version))
    client.connection.send(produce(topic, batch(b"y")), client.version)
    client.connection.send(nowhere, client.version)
    client.note(client.connection.receive(produce(topic), client.version))
    client.request(list_offsets(name, 0), LIST_OFFSETS)  # "closed"


# ---- behind JoinGroup and SyncGroup


def _heartbeat(member: Member, generation: int) -> Request:
    return (
        HeartbeatRequest(group_id=member.group, generation_id=generation, member_id=member.id),
        HEARTBEAT,
    )


def _leaving(member: Member) -> Request:
    identity = LeaveGroupRequest.MemberIdentity(member_id=member.id, reason="done")
    return LeaveGroupRequest(group_id=member.group, members=[identity]), LEAVE


def _in_order(answer: Any) -> object:
    """The response with members in the same order for every broker."""
    for group in getattr(answer, "groups", ()):
        group.members.sort(key=by_id)
    if hasattr(answer, "members"):
        answer.members.sort(key=by_id)
    return answer


@dialogue(ApiKey.JOIN_GROUP, 5, 9)
def requests_behind_a_join(client: DialogueClient) -> None:
    """The second member's JoinGroup waits until the first has joined again."""
    group = a_group(client, "g")
    for behind in ("look", "leave", "sync"):
        with Member(client, f"{group}", join_version=client.version) as first:
            first.join()
            first.sync({first.id: b"1"})
            with Member(client, group, join_version=client.version) as second:
                second.id = second.request(second.join_request(), client.version).member_id
                second.generation = first.generation + 1
                following: list[Request] = [
                    _heartbeat(second, second.generation),
                    (DescribeGroupsRequest(groups=[group]), DESCRIBE),
                ]
                if behind == "leave":
                    following += [_leaving(second), _heartbeat(second, second.generation)]
                if behind == "sync":
                    following = [(second.sync_request(), SYNC), following[0], following[1]]

                def rejoin(first: Member = first, behind: str = behind) -> None:
                    awaits_state(client, group, "PreparingRebalance")
                    first.join()
                    if behind == "sync":
                        first.sync({first.id: b"1", second.id: b"2"})

                note_pipelined(
                    client,
                    (second.join_request(), client.version),
                    *following,
                    meanwhile=rejoin,
                    connection=second._connection,
                    noting=_in_order,
                )
                if behind != "leave":
                    second.leave()
            first.leave()


@dialogue(ApiKey.SYNC_GROUP, 0, 5)
def requests_behind_a_sync(client: DialogueClient) -> None:
    """The follower's SyncGroup waits for the leader's."""
    group = a_group(client, "g")
    name = client.create("a")
    with pair(client, group) as (first, second):
        first.begin_to_join()
        awaits_state(client, group, "PreparingRebalance")
        second.join()
        first.joined()
        note_pipelined(
            client,
            (second.sync_request(version=client.version), client.version),
            _heartbeat(second, second.generation),
            (DescribeGroupsRequest(groups=[group]), DESCRIBE),
            (_plain_commit(group, name, second), 7),
            meanwhile=lambda: first.sync({first.id: b"3", second.id: b"4"}),
            connection=second._connection,
            noting=_in_order,
        )


def _plain_commit(group: str, name: str, member: Member) -> Message:
    single = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=member.generation,
        member_id=member.id,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=[single])],
    )


# ---- behind OffsetCommit and DeleteRecords


@dialogue(ApiKey.OFFSET_COMMIT, 2, 9)
def reads_behind_commits(client: DialogueClient) -> None:
    group, name = a_group(client, "g"), client.create("a", 2)
    look = (fetch_of(client, [group], [(name, (0, 1))], version=OFFSET_FETCH), OFFSET_FETCH)
    note_pipelined(
        client,
        (commit_of(client, group, (name, 0, 5)), client.version),
        (commit_of(client, group, (name, 0, 6)), client.version),
        look,
        (commit_of(client, group, (name, 1, 7)), client.version),
        (delete_of(group, (name, 0)), 0),
        look,
        (commit_of(client, group, (name, 0, 8)), client.version),
        (commit_of(client, group, (name, 9, 8)), client.version),
        look,
        noting=_sorted_offsets,
    )


def _sorted_offsets(answer: Any) -> object:
    for topic in getattr(answer, "topics", ()):
        topic.partitions.sort(key=lambda each: int(each.partition_index))
    return answer


@dialogue(ApiKey.DELETE_RECORDS, 0, 2)
def reads_behind_deleted_records(client: DialogueClient) -> None:
    name = client.create("a")
    client.write(name, batch(b"x"), batch(b"y"), batch(b"z"))
    note_pipelined(
        client,
        (delete_records(name, 1), client.version),
        (list_offsets(name, 0, timestamp=EARLIEST), LIST_OFFSETS),
        (delete_records(name, -1), client.version),
        (fetch(fetch_topic(name, [partition(0, 2)])), FETCH),
        (list_offsets(name, 0, timestamp=EARLIEST), LIST_OFFSETS),
        (delete_records(name, 9), client.version),
        (list_offsets(name, 0), LIST_OFFSETS),
    )


# ---- behind requests of transactions


@dialogue(ApiKey.PRODUCE, 11, 13)
def a_pipelined_transaction(client: DialogueClient) -> None:
    """Produce waits until its partition is verified or added; later reads see the records."""
    producer = Transactor(client)
    topic = client.id_of(producer.name) if client.version >= IDS_IN_FETCH else producer.name
    producer.begin(0)
    reading = fetch(fetch_topic(producer.name, [partition()]), isolation_level=1)
    note_pipelined(
        client,
        (producer.produce_request(producer.batch(b"a", sequence=0)), client.version),
        (producer.produce_request(producer.batch(b"b", sequence=1)), client.version),
        (list_offsets(producer.name, 0), LIST_OFFSETS),
        (list_offsets(producer.name, 0, isolation_level=1), LIST_OFFSETS),
        (reading, FETCH),
        (produce(topic, batch(b"plain"), first_partition=1), client.version),
        (list_offsets(producer.name, 1), LIST_OFFSETS),
        noting=_outcomes,
    )
    producer.end(commit=True)
    note_end(client, producer.name)


def _outcomes(answer: Any) -> object:
    """The response without the ids of producers."""
    if hasattr(answer, "responses") and hasattr(answer.responses[0], "partition_responses"):
        return outcomes(answer)
    if hasattr(answer, "responses"):
        data = answer.responses[0].partitions[0]
        return data.error_code, data.high_watermark, data.last_stable_offset, len(data.records or b"")
    return answer

"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from __future__ import annotations

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.offsets import (
    DeleteRecordsRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
)
from barnabas.protocol.records.builder import build_batch
from tests.conformance.dialogue_client import START_MS, DialogueClient, batch
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.fetch import filled
from tests.conformance.dialogues.words import list_offsets

FIRST, LAST = 1, 11
ISOLATION_LEVELS, EPOCHS = 2, 4
SPECIAL = (-1, -2, -3, -4, -5, -6, -7, -(2**62))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def special_timestamps(client: DialogueClient) -> None:
    name = filled(client)
    for timestamp in SPECIAL:
        client.request(list_offsets(name, 0, timestamp=timestamp))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def offsets_of_an_empty_log(client: DialogueClient) -> None:
    name = client.create("a")
    for timestamp in (*SPECIAL, 0, START_MS):
        client.request(list_offsets(name, 0, timestamp=timestamp))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def offsets_by_time(client: DialogueClient) -> None:
    name = client.create("a")
    client.write(name, *(batch(b"a", b"b", b"c", timestamp=START_MS + at) for at in (0, 100, 50, 200)))
    for timestamp in (
        0,
        1,
        START_MS - 1,
        *(START_MS + at for at in (0, 1, 3, 51, 100, 102, 103, 199, 202, 203)),
        2**62,
    ):
        client.request(list_offsets(name, 0, timestamp=timestamp))
    client.request(list_offsets(name, 0, timestamp=-3))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def records_with_and_without_timestamps(client: DialogueClient) -> None:
    name = client.create("a")
    client.write(name, batch(b"a", timestamp=-1), batch(b"b", timestamp=0))
    for timestamp in (-3, 0, 1):
        client.request(list_offsets(name, 0, timestamp=timestamp))


def without_times(*values: bytes) -> bytes:
    return build_batch([(None, value, -1, ()) for value in values])


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def records_without_timestamps(client: DialogueClient) -> None:
    name = client.create("a")
    client.write(name, batch(b"a", b"b"), *(batch(b"c", timestamp=-1) for _ in range(3)))
    wanted = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=2)
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[wanted])
    client.request(list_offsets(name, 0, timestamp=-3))
    client.request(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), 2)
    client.request(list_offsets(name, 0, timestamp=-3))
    timeless = client.create("b")
    client.write(timeless, without_times(b"a", b"b"), batch(b"c", timestamp=-1))
    for isolation_level in (0, 1) if client.version >= ISOLATION_LEVELS else (0,):
        for timestamp in (-3, 0):
            client.request(list_offsets(timeless, 0, timestamp=timestamp, isolation_level=isolation_level))
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=timeless, partitions=[wanted])
    client.request(DeleteRecordsRequest(topics=[topic], timeout_ms=10_000), 2)
    client.request(list_offsets(timeless, 0, timestamp=-3))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def special_timestamps_are_checked_first(client: DialogueClient) -> None:
    """A special timestamp that the version lacks is rejected before the topic and the leader epoch are checked."""
    name = filled(client)
    for timestamp in SPECIAL:
        client.request(list_offsets(client.topic("b"), 0, timestamp=timestamp))
        client.request(list_offsets(name, 7, timestamp=timestamp))
        client.request(list_offsets(name, 0, 0, timestamp=timestamp))
        if client.version >= EPOCHS:
            client.request(list_offsets(name, 0, epoch=7, timestamp=timestamp))
        client.request(list_offsets("a b", 0, timestamp=timestamp))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def equal_timestamps(client: DialogueClient) -> None:
    name = client.create("a")
    client.write(name, batch(b"a"), batch(b"b"), batch(b"c", b"d", timestamp=START_MS - 1), batch(b"e"))
    for timestamp in (-3, START_MS):
        client.request(list_offsets(name, 0, timestamp=timestamp))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def unknown_topics_and_partitions(client: DialogueClient) -> None:
    name = filled(client)
    client.request(list_offsets(client.topic("b"), 0, 1))
    client.request(list_offsets(name, 0, 1, -1))
    client.request(list_offsets("a b", 0))
    client.request(ListOffsetsRequest(replica_id=-1))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def the_same_partition_twice(client: DialogueClient) -> None:
    name = filled(client)
    client.request(list_offsets(name, 0, 0))
    client.request(list_offsets(name, 0, 5, 0, 5))
    named_twice = list_offsets(name, 0)
    named_twice.topics = [*named_twice.topics, *list_offsets(name, 5, 0).topics]
    client.request(named_twice)


@dialogue(ApiKey.LIST_OFFSETS, EPOCHS, LAST)
def leader_epochs(client: DialogueClient) -> None:
    name = filled(client)
    for epoch in (-1, 0, 1, -2):
        client.request(list_offsets(name, 0, epoch=epoch))
        client.request(list_offsets(name, 0, epoch=epoch, timestamp=START_MS))


@dialogue(ApiKey.LIST_OFFSETS, 2, LAST)
def isolation_levels(client: DialogueClient) -> None:
    name = filled(client)
    for level in (0, 1):
        for timestamp in (-1, -2, -3, START_MS):
            client.request(list_offsets(name, 0, isolation_level=level, timestamp=timestamp))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def replica_ids(client: DialogueClient) -> None:
    name = filled(client)
    for replica_id in (1, 2, -2, -3):
        client.request(list_offsets(name, 0, replica_id=replica_id))


# ---- OffsetForLeaderEpoch


def end_of(
    name: str, *partitions: int, epoch: int, current: int = -1, replica_id: int = -1
) -> OffsetForLeaderEpochRequest:
    return OffsetForLeaderEpochRequest(
        replica_id=replica_id,
        topics=[
            OffsetForLeaderEpochRequest.OffsetForLeaderTopic(
                topic=name,
                partitions=[
                    OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                        partition=index, current_leader_epoch=current, leader_epoch=epoch
                    )
                    for index in partitions
                ],
            )
        ],
    )


@dialogue(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4)
def ends_of_epochs(client: DialogueClient) -> None:
    for name in (client.create("a"), filled(client, "b")):
        for epoch in (-1, 0, 1, 7, 2**31 - 1, -2, -(2**31)):
            client.request(end_of(name, 0, epoch=epoch))


@dialogue(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4)
def ends_of_epochs_with_a_current_leader_epoch(client: DialogueClient) -> None:
    name = filled(client)
    for current in (0, 1, -2):
        client.request(end_of(name, 0, epoch=0, current=current))


@dialogue(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4)
def ends_of_epochs_of_unknown_partitions(client: DialogueClient) -> None:
    name = filled(client)
    client.request(end_of(name, 0, 1, -1, epoch=0))
    client.request(end_of(client.topic("b"), 0, epoch=0))
    client.request(OffsetForLeaderEpochRequest(replica_id=-1))
    client.request(end_of(name, 0, 0, epoch=0))


# ---- DeleteRecords


def deletion(name: str, *offsets: tuple[int, int], timeout_ms: int = 5000) -> DeleteRecordsRequest:
    """A request that sets log start offsets, each given as (partition, offset)."""
    partitions = [
        DeleteRecordsRequest.DeleteRecordsPartition(partition_index=index, offset=offset)
        for index, offset in offsets
    ]
    topic = DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=partitions)
    return DeleteRecordsRequest(topics=[topic], timeout_ms=timeout_ms)


def note_bounds(client: DialogueClient, name: str) -> None:
    """Notes the log start and end offsets, and offsets by timestamp."""
    for timestamp in (-2, -1, 0, -3):
        client.request(list_offsets(name, 0, timestamp=timestamp), 7)


@dialogue(ApiKey.DELETE_RECORDS, 0, 2)
def deleting_step_by_step(client: DialogueClient) -> None:
    name = filled(client)
    for offset in (0, 1, 3, 2, 3, -1, -1):
        client.request(deletion(name, (0, offset)))
        note_bounds(client, name)
    client.note(client.write(name, batch(b"after it")))
    note_bounds(client, name)


@dialogue(ApiKey.DELETE_RECORDS, 0, 2)
def deleting_within_a_batch(client: DialogueClient) -> None:
    name = client.create("a")
    client.write(name, batch(b"a", b"b", b"c", b"d"))
    client.request(deletion(name, (0, 2)))
    note_bounds(client, name)


@dialogue(ApiKey.DELETE_RECORDS, 0, 2)
def rejected_deletions(client: DialogueClient) -> None:
    name = filled(client)
    for offset in (6, 2**62, -2, -(2**63), 2**63 - 1):
        client.request(deletion(name, (0, offset)))
    note_bounds(client, name)
    client.request(deletion(client.create("empty"), (0, -1)))
    client.request(deletion(client.topic("none"), (0, 0)))
    client.request(deletion("a b", (0, 0)))
    client.request(deletion(name, (0, 1), timeout_ms=0))
    client.request(deletion(name, (0, 2), timeout_ms=-1))
    client.request(DeleteRecordsRequest(timeout_ms=1000))


@dialogue(ApiKey.DELETE_RECORDS, 0, 2)
def deleting_from_many_partitions(client: DialogueClient) -> None:
    name = client.create("a", 3)
    for index in range(3):
        client.write(name, batch(b"a"), batch(b"b"), partition=index)
    client.request(deletion(name, (2, 1), (0, -1), (1, 5), (7, 0), (-1, 0)))
    client.request(deletion(name, (0, 2), (0, 1)))


@dialogue(ApiKey.DELETE_RECORDS, 0, 2)
def deleting_by_cleanup_policy(client: DialogueClient) -> None:
    for word, policy in (("c", "compact"), ("d", "delete"), ("b", "compact,delete"), ("n", "")):
        name = client.create(word, configs={"cleanup.policy": policy})
        client.write(name, batch(b"a", key=b"k"), batch(b"b", key=b"k"))
        client.request(deletion(name, (0, 1)))
        client.request(deletion(name, (0, -1)))
        note_bounds(client, name)

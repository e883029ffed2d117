"""ListOffsets and OffsetForLeaderEpoch."""

from __future__ import annotations

from protocol.api_keys import ApiKey
from protocol.messages.offsets import ListOffsetsRequest, OffsetForLeaderEpochRequest
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.fetch import filled
from tests.conformance.dialogues.words import list_offsets
from tests.conformance.speaker import START_MS, Speaker, batch

FIRST, LAST = 1, 11
EPOCHS = 4
SPECIAL = (-1, -2, -3, -4, -5, -6, -7, -(2**62))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def offsets_with_names(client: Speaker) -> None:
    name = filled(client)
    for timestamp in SPECIAL:
        client.ask(list_offsets(name, 0, timestamp=timestamp))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def offsets_of_an_empty_log(client: Speaker) -> None:
    name = client.create("a")
    for timestamp in (*SPECIAL, 0, START_MS):
        client.ask(list_offsets(name, 0, timestamp=timestamp))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def offsets_by_time(client: Speaker) -> None:
    name = client.create("a")
    client.write(name, *(batch(b"a", b"b", b"c", timestamp=START_MS + at) for at in (0, 100, 50, 200)))
    for timestamp in (
        0,
        1,
        START_MS - 1,
        *(START_MS + at for at in (0, 1, 3, 51, 100, 102, 103, 199, 202, 203)),
        2**62,
    ):
        client.ask(list_offsets(name, 0, timestamp=timestamp))
    client.ask(list_offsets(name, 0, timestamp=-3))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def records_without_time(client: Speaker) -> None:
    name = client.create("a")
    client.write(name, batch(b"a", timestamp=-1), batch(b"b", timestamp=0))
    for timestamp in (-3, 0, 1):
        client.ask(list_offsets(name, 0, timestamp=timestamp))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def the_same_time_many_times(client: Speaker) -> None:
    name = client.create("a")
    client.write(name, batch(b"a"), batch(b"b"), batch(b"c", b"d", timestamp=START_MS - 1), batch(b"e"))
    for timestamp in (-3, START_MS):
        client.ask(list_offsets(name, 0, timestamp=timestamp))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def what_is_not_there(client: Speaker) -> None:
    name = filled(client)
    client.ask(list_offsets(client.topic("b"), 0, 1))
    client.ask(list_offsets(name, 0, 1, -1))
    client.ask(list_offsets("a b", 0))
    client.ask(ListOffsetsRequest(replica_id=-1))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def the_same_partition_twice(client: Speaker) -> None:
    name = filled(client)
    client.ask(list_offsets(name, 0, 0))
    client.ask(list_offsets(name, 0, 5, 0, 5))


@dialogue(ApiKey.LIST_OFFSETS, EPOCHS, LAST)
def leader_epochs(client: Speaker) -> None:
    name = filled(client)
    for epoch in (-1, 0, 1, -2):
        client.ask(list_offsets(name, 0, epoch=epoch))
        client.ask(list_offsets(name, 0, epoch=epoch, timestamp=START_MS))


@dialogue(ApiKey.LIST_OFFSETS, 2, LAST)
def isolation_levels(client: Speaker) -> None:
    name = filled(client)
    for level in (0, 1):
        for timestamp in (-1, -2, -3, START_MS):
            client.ask(list_offsets(name, 0, isolation_level=level, timestamp=timestamp))


@dialogue(ApiKey.LIST_OFFSETS, FIRST, LAST)
def asked_as_a_replica(client: Speaker) -> None:
    name = filled(client)
    for replica_id in (1, 2, -2, -3):
        client.ask(list_offsets(name, 0, replica_id=replica_id))


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
def ends_of_epochs(client: Speaker) -> None:
    for name in (client.create("a"), filled(client, "b")):
        for epoch in (-1, 0, 1, 7, 2**31 - 1):
            client.ask(end_of(name, 0, epoch=epoch))


@dialogue(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4)
def ends_of_epochs_for_those_who_know_the_leader(client: Speaker) -> None:
    name = filled(client)
    for current in (0, 1, -2):
        client.ask(end_of(name, 0, epoch=0, current=current))


@dialogue(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4)
def ends_of_what_is_not_there(client: Speaker) -> None:
    name = filled(client)
    client.ask(end_of(name, 0, 1, -1, epoch=0))
    client.ask(end_of(client.topic("b"), 0, epoch=0))
    client.ask(OffsetForLeaderEpochRequest(replica_id=-1))
    client.ask(end_of(name, 0, 0, epoch=0))

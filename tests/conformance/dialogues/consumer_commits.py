"""Offsets of groups of the consumer protocol (KIP-848): which member may commit, fetch and delete what, and when."""

from __future__ import annotations

from typing import Any, Final

from barnabas.protocol.api_keys import ApiKey
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.committed import (
    add_group_if_required,
    commit_of,
    delete_of,
    end,
    fetch_of,
    note_offsets,
    sorted_topics,
    txn_commit_of,
)
from tests.conformance.dialogues.consumers import Consumer
from tests.conformance.dialogues.members import a_group
from tests.conformance.dialogues.transactional import Producer

MEMBER_EPOCHS: Final = 9
"""The first version of OffsetCommit and OffsetFetch with member epochs."""


@dialogue(ApiKey.OFFSET_COMMIT, 2, 10)
def consumers_commit(client: DialogueClient) -> None:
    """A commit may carry an older epoch for partitions that the member has owned since then."""
    group, name = a_group(client, "g"), client.create("a", 4)
    first, second = Consumer(client, group, "first"), Consumer(client, group, "second")
    first.join(name)
    began = first.epoch
    first.report_owned({name: [0, 1, 2, 3]})
    for epoch, member_id in (
        (first.epoch, "first"),
        (first.epoch + 1, "first"),
        (first.epoch - 1, "first"),
        (first.epoch, "stranger"),
        (first.epoch, ""),
        (-1, "first"),
        (-1, ""),
        (-2, ""),
    ):
        _commit(client, group, (name, 0, 5), epoch, member_id)
    second.join(name)
    first.heartbeat()
    first.report_owned({name: [0, 1]})
    second.heartbeat()
    second.report_owned({name: [2, 3]})
    first.heartbeat()
    for epoch, member_id, index in (
        (began, "first", 0),
        (began, "first", 3),
        (first.epoch, "first", 3),
        (second.epoch, "second", 3),
        (began, "second", 3),
    ):
        _commit(client, group, (name, index, 7), epoch, member_id)
    first.leave()
    second.leave()
    _commit(client, group, (name, 0, 9), -1, "")
    note_offsets(client, group)


def _commit(
    client: DialogueClient, group: str, offset: tuple[str, int, int], epoch: int, member_id: str
) -> None:
    request = commit_of(client, group, offset, member_id=member_id)
    request.generation_id_or_member_epoch = epoch
    client.request(request)


@dialogue(ApiKey.OFFSET_FETCH, MEMBER_EPOCHS, 10)
def consumers_fetch(client: DialogueClient) -> None:
    group, name = a_group(client, "g"), client.create("a", 2)
    client.request(commit_of(client, group, (name, 0, 5)), 10)
    member = Consumer(client, group, "m")
    member.join(name)
    changes: list[dict[str, Any]] = [
        {"member_id": "m", "member_epoch": member.epoch},
        {"member_id": "m", "member_epoch": member.epoch - 1},
        {"member_id": "m", "member_epoch": member.epoch + 1},
        {"member_id": "stranger", "member_epoch": member.epoch},
        {"member_id": None, "member_epoch": -1},
        {"member_id": None, "member_epoch": member.epoch},
        {"member_id": "", "member_epoch": -1},
        {},
    ]
    for fields in changes:
        if fields.get("member_id", "") is not None or fields["member_epoch"] < 0:
            client.request(fetch_of(client, [group], [(name, [0, 1])], **fields))
            client.request(fetch_of(client, [group], **fields), noting=sorted_topics)
    member.leave()


@dialogue(ApiKey.OFFSET_DELETE, 0, 0)
def offsets_of_consumers_stay(client: DialogueClient) -> None:
    group, name, other = a_group(client, "g"), client.create("a"), client.create("b")
    client.request(commit_of(client, group, (name, 0, 5), (other, 0, 6)), 8)
    member = Consumer(client, group, "m")
    member.join(name)
    client.request(delete_of(group, (name, 0), (other, 0)))
    member.leave()
    client.request(delete_of(group, (name, 0)))
    note_offsets(client, group)


@dialogue(ApiKey.TXN_OFFSET_COMMIT, 3, 5)
def consumers_in_a_transaction(client: DialogueClient) -> None:
    group, name = a_group(client, "g"), client.create("a", 2)
    producer, member = Producer(client), Consumer(client, group, "m")
    member.join(name)
    for epoch, member_id in (
        (member.epoch, "m"),
        (member.epoch + 1, "m"),
        (member.epoch - 1, "m"),
        (member.epoch, "stranger"),
        (-1, "m"),
        (-1, ""),
    ):
        add_group_if_required(producer, group)
        client.request(txn_commit_of(producer, group, (name, 0, 5), generation_id=epoch, member_id=member_id))
    end(producer, committed=True)
    member.leave()
    note_offsets(client, group)

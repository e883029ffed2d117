"""TxnOffsetCommit: offsets that take effect when a transaction is committed."""

from __future__ import annotations

from typing import Final

from barnabas.protocol.api_keys import ApiKey
from tests.conformance.dialogue_client import DialogueClient
from tests.conformance.dialogues import dialogue
from tests.conformance.dialogues.committed import (
    ADDS_GROUP_IMPLICITLY,
    MAX_METADATA,
    add_group_if_required,
    delete_of,
    end,
    note_offsets,
    note_records,
    some_offsets,
    txn_commit_of,
)
from tests.conformance.dialogues.members import Member, a_group
from tests.conformance.dialogues.transactional import Producer

TXN_FIRST, TXN_LAST = 0, 5
MEMBERS_IN_TXN: Final = 3


@dialogue(ApiKey.TXN_OFFSET_COMMIT, TXN_FIRST, TXN_LAST)
def in_a_transaction(client: DialogueClient) -> None:
    group, name = some_offsets(client)
    producer = Producer(client)
    for committed in (True, False):
        add_group_if_required(producer, group)
        client.request(txn_commit_of(producer, group, (name, 0, 50), (name, 1, 60)))
        client.request(txn_commit_of(producer, group, (name, 0, 51), metadata=None, leader_epoch=-1))
        note_offsets(client, group)
        end(producer, committed=committed)
        note_offsets(client, group)
    note_records(client, group)


@dialogue(ApiKey.TXN_OFFSET_COMMIT, TXN_FIRST, TXN_LAST)
def invalid_commits(client: DialogueClient) -> None:
    group, name = some_offsets(client)
    producer = Producer(client)
    add_group_if_required(producer, group)
    client.request(txn_commit_of(producer, group, (name, 0, 5), (name, 9, 5), (client.topic("b"), 0, 5)))
    client.request(txn_commit_of(producer, group, (client.topic("b"), 0, 5)))
    client.request(txn_commit_of(producer, group))
    client.request(txn_commit_of(producer, "", (name, 0, 5)))
    client.request(txn_commit_of(producer, group, (name, 0, 5), metadata="x" * (MAX_METADATA + 1)))
    end(producer, committed=False)
    note_offsets(client, group)


@dialogue(ApiKey.TXN_OFFSET_COMMIT, TXN_FIRST, TXN_LAST)
def wrong_producers(client: DialogueClient) -> None:
    group, name = some_offsets(client)
    producer = Producer(client)
    client.request(txn_commit_of(producer, group, (name, 0, 5), producer_id=producer.id + 1))
    client.request(txn_commit_of(producer, group, (name, 0, 5), producer_epoch=producer.epoch + 1))
    client.request(txn_commit_of(producer, group, (name, 0, 5), transactional_id=client.topic("other")))
    if client.version < ADDS_GROUP_IMPLICITLY:
        client.request(txn_commit_of(producer, group, (name, 0, 5)))  # without a transaction
    note_offsets(client, group)


@dialogue(ApiKey.TXN_OFFSET_COMMIT, TXN_FIRST, TXN_LAST)
def a_zombie_in_a_transaction(client: DialogueClient) -> None:
    """A fenced producer does not affect its successor."""
    group, name = some_offsets(client)
    producer = Producer(client)
    zombie = producer.epoch
    client.request(txn_commit_of(producer, group, (name, 0, 4), producer_epoch=zombie - 1))
    producer.initialize()
    add_group_if_required(producer, group)
    client.request(txn_commit_of(producer, group, (name, 0, 5)))
    client.request(txn_commit_of(producer, group, (name, 0, 6), producer_epoch=zombie))
    client.request(txn_commit_of(producer, group, (name, 1, 7)))
    end(producer, committed=True)
    client.request(txn_commit_of(producer, group, (name, 0, 8), producer_epoch=zombie))
    note_offsets(client, group)


@dialogue(ApiKey.TXN_OFFSET_COMMIT, TXN_FIRST, TXN_LAST)
def a_group_without_members(client: DialogueClient) -> None:
    group, name = a_group(client, "g"), client.create("a")
    producer = Producer(client)
    add_group_if_required(producer, group)
    client.request(txn_commit_of(producer, group, (name, 0, 5)))
    end(producer, committed=True)
    note_offsets(client, group)
    note_records(client, group)


@dialogue(ApiKey.TXN_OFFSET_COMMIT, MEMBERS_IN_TXN, TXN_LAST)
def members_in_a_transaction(client: DialogueClient) -> None:
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
            add_group_if_required(producer, group)
            fields = {"generation_id": generation, "member_id": member_id}
            client.request(txn_commit_of(producer, group, (name, 0, 5), **fields))
        member.sync({member.id: b"all"})
        client.request(
            txn_commit_of(producer, group, (name, 0, 6), generation_id=member.generation, member_id=member.id)
        )
        end(producer, committed=True)
        member.leave()
    note_offsets(client, group)


@dialogue(ApiKey.TXN_OFFSET_COMMIT, TXN_FIRST, TXN_LAST)
def offsets_deleted_during_a_transaction(client: DialogueClient) -> None:
    group, name = some_offsets(client)
    producer = Producer(client)
    add_group_if_required(producer, group)
    client.request(txn_commit_of(producer, group, (name, 0, 50), (name, 1, 60)))
    client.request(delete_of(group, (name, 0)), 0)
    end(producer, committed=True)
    note_offsets(client, group)

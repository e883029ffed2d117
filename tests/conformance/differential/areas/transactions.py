"""Transactions: producers of each transaction version, zombies among them, and reads of committed records."""

from __future__ import annotations

from typing import Any, Final

from barnabas.protocol.messages.producers import DescribeTransactionsRequest, ListTransactionsRequest
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from barnabas.protocol.schema import Message
from tests.conformance.differential.areas.logs import (
    describe_producers,
    fetch,
    list_offsets,
    produce,
    produce_request,
)
from tests.conformance.differential.areas.producers import init_producer_id
from tests.conformance.differential.steps import PREFIX, Step
from tests.conformance.differential.world import Producer, Topic, World


def transactional_produce(world: World) -> Message:
    """Records in a transaction; the newer version adds their partitions to it implicitly."""
    producer = _transactional(world)
    return produce_request(world, producer, transactional=True, acks=world.mostly(-1, [1], 0.05))


def _transactional(world: World) -> Producer:
    """A producer, mostly with a transactional id."""
    if world.chance(0.07):
        return world.producer()
    known = [producer for producer in world.producers if producer.transactional_id]
    if not known:
        return world.producer()
    return known[-1] if world.chance(0.5) else world.one(known)


def _named(world: World, producer: Producer) -> str:
    return world.mostly(
        producer.transactional_id or world.transactional_id(), [world.transactional_id(), ""], 0.06
    )


def _partitions(world: World) -> list[tuple[Topic, list[int]]]:
    return [
        (topic, sorted({world.partition(topic) for _ in range(world.dice.randint(1, 2))}))
        for topic in world.some_topics(world.mostly(1, [0, 2], 0.2))
    ]


def add_partitions(world: World) -> Message:
    """Adds partitions to a transaction; in the versions for brokers to several, or only verifies them."""
    transactions = [_transaction(world) for _ in range(world.mostly(1, [2], 0.15))]
    by_id = {one.transactional_id: one for one in transactions}
    only = transactions[0]
    return AddPartitionsToTxnRequest(
        transactions=list(by_id.values()),
        v3_and_below_transactional_id=only.transactional_id,
        v3_and_below_producer_id=only.producer_id,
        v3_and_below_producer_epoch=only.producer_epoch,
        v3_and_below_topics=only.topics,
    )


def _transaction(world: World) -> AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction:
    producer = _transactional(world)
    return AddPartitionsToTxnRequest.AddPartitionsToTxnTransaction(
        transactional_id=_named(world, producer),
        producer_id=producer.producer_id,
        producer_epoch=world.epoch_of(producer),
        verify_only=world.chance(0.3),
        topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic.name, partitions=partitions)
            for topic, partitions in _partitions(world)
        ],
    )


def add_offsets(world: World) -> Message:
    """Adds a group's offsets to a transaction."""
    producer = _transactional(world)
    return AddOffsetsToTxnRequest(
        transactional_id=_named(world, producer),
        producer_id=producer.producer_id,
        producer_epoch=world.epoch_of(producer),
        group_id=world.group(),
    )


def txn_offset_commit(world: World) -> Message:
    """Commits offsets in a transaction, with or without a member."""
    producer = _transactional(world)
    member_id, generation, instance_id, group = "", -1, None, world.group()
    if world.members and world.chance(0.4):
        member = world.one(world.members)
        member_id, generation, instance_id = member.member_id, member.generation, member.instance_id
        group = world.mostly(member.group, [group])
    odd: list[str | None] = [None, ""]
    if group in world.groups:  # Kafka keeps a group whose first commit it has rejected
        odd.append("x" * 4097)
    return TxnOffsetCommitRequest(
        transactional_id=_named(world, producer),
        group_id=group,
        producer_id=producer.producer_id,
        producer_epoch=world.epoch_of(producer),
        generation_id=generation + world.mostly(0, [1, -1], 0.1),
        member_id=world.mostly(member_id, ["", "stranger"], 0.1),
        group_instance_id=instance_id,
        topics=[
            TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=world.offset(topic, index),
                        committed_leader_epoch=world.mostly(-1, [0, 1, -2]),
                        committed_metadata=world.mostly("m", odd, 0.2),
                    )
                    for index in partitions
                ],
            )
            for topic, partitions in _partitions(world)
        ],
    )


def end_txn(world: World) -> Message:
    """Commits or aborts."""
    producer = _transactional(world)
    return EndTxnRequest(
        transactional_id=_named(world, producer),
        producer_id=producer.producer_id,
        producer_epoch=world.epoch_of(producer),
        committed=world.chance(0.6),
    )


def write_txn_markers(world: World) -> Message:
    """Writes markers as a coordinator or `kafka-transactions abort` does."""
    producer = world.producer()
    return WriteTxnMarkersRequest(
        markers=[
            WriteTxnMarkersRequest.WritableTxnMarker(
                producer_id=producer.producer_id,
                producer_epoch=world.epoch_of(producer),
                transaction_result=world.chance(0.5),
                topics=[
                    WriteTxnMarkersRequest.WritableTxnMarkerTopic(
                        name=topic.name, partition_indexes=partitions
                    )
                    for topic, partitions in _partitions(world)
                ],
                coordinator_epoch=world.mostly(0, [-1, 1], 0.2),
                transaction_version=world.one([0, 1, 2]),
            )
        ]
    )


def describe_transactions(world: World) -> Message:
    """The states of some transactional ids."""
    count = world.mostly(1, [0, 2], 0.3)
    return DescribeTransactionsRequest(
        transactional_ids=sorted({world.mostly(world.transactional_id(), [""], 0.04) for _ in range(count)})
    )


def list_transactions(world: World) -> Message:
    """Lists transactions by several filters; those of other sequences are left out of the response."""
    return ListTransactionsRequest(
        state_filters=world.mostly([], [["Ongoing"], ["Empty", "CompleteCommit"], ["Nonsense"]], 0.5),
        producer_id_filters=[] if world.chance(0.5) else [world.producer().producer_id],
        duration_filter=world.mostly(-1, [0, 3_600_000], 0.2),
        transactional_id_pattern=world.mostly(None, ["", f"{PREFIX}-x[01]", ".*-x2", "["], 0.3),
    )


DRAWS: Final = (
    (6, init_producer_id),
    (12, transactional_produce),
    (2, produce),
    (6, add_partitions),
    (3, add_offsets),
    (4, txn_offset_commit),
    (8, end_txn),
    (1, write_txn_markers),
    (3, describe_transactions),
    (1, list_transactions),
    (4, fetch),
    (3, list_offsets),
    (2, describe_producers),
)


def learn(world: World, step: Step, answer: Any) -> None:
    """Learns nothing: the other areas cover all requests."""

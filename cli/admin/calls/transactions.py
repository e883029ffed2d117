"""Transactions and the producers of partitions: listed, described, aborted."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from barnabas.cli.admin.calls.offsets import leaders_of
from barnabas.cli.admin.client import TRANSACTION_COORDINATOR, AdminClient, Coordinator, Node, every_code
from barnabas.cli.admin.errors import NotReachableError, OnUnreachable, ServerError, check, raise_it
from barnabas.cli.admin.partitions import TopicPartition, by_topic
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.producers import (
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    ListTransactionsRequest,
)
from barnabas.protocol.messages.transactions import InitProducerIdRequest, WriteTxnMarkersRequest

NONE: Final = -1
BATCH: Final = 500
"""The most partitions in one request."""

_DURATION_SINCE, _PATTERN_SINCE = 1, 2


class Listing(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    state: str


class Description(NamedTuple):
    """A transactional id; `start_time_ms` is None while no transaction is open."""

    transactional_id: str
    coordinator_id: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_time_ms: int | None
    partitions: list[TopicPartition]


class Producer(NamedTuple):
    """The state of a producer in a partition; `start_offset` is that of its open transaction."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_timestamp: int
    start_offset: int | None


def list_transactions(
    client: AdminClient,
    *,
    producer_ids: Collection[int] = (),
    duration_ms: int | None = None,
    pattern: str | None = None,
    on_unreachable: OnUnreachable = raise_it,
) -> list[Listing]:
    """The transactional ids of all coordinators, filtered by producers, by the duration of the open transaction and by
    an RE2 expression. Raises ServerError, UnsupportedApiError for filters that a broker does not support, and
    NotReachableError unless `on_unreachable` handles the brokers that do not answer.
    """
    lowest = _PATTERN_SINCE if pattern is not None else _DURATION_SINCE if duration_ms is not None else 0
    request = ListTransactionsRequest(
        producer_id_filters=list(producer_ids),
        duration_filter=NONE if duration_ms is None else duration_ms,
        transactional_id_pattern=pattern,
    )
    found = []
    for node in sorted(client.cluster().nodes):
        try:
            answer = client.send(request, Node(node), versions=f"{lowest}-2")
        except NotReachableError as error:
            on_unreachable(node, error)
            continue
        check(answer.error_code, about=f"broker {node}")
        found += [
            Listing(it.transactional_id, node, it.producer_id, it.transaction_state)
            for it in answer.transaction_states
        ]
    return found


def describe_transaction(client: AdminClient, transactional_id: str) -> Description:
    """The state of a transactional id. Raises ServerError, TRANSACTIONAL_ID_NOT_FOUND among others."""
    answer = client.send(
        DescribeTransactionsRequest(transactional_ids=[transactional_id]),
        Coordinator(transactional_id, TRANSACTION_COORDINATOR),
        codes=every_code,
    )
    state = answer.transaction_states[0]
    check(state.error_code, about=f"transactional id {transactional_id!r}")
    return Description(
        transactional_id,
        client.coordinator_of(transactional_id, TRANSACTION_COORDINATOR),
        state.producer_id,
        state.producer_epoch,
        state.transaction_state,
        state.transaction_timeout_ms,
        state.transaction_start_time_ms if state.transaction_start_time_ms >= 0 else None,
        [TopicPartition(topic.topic, index) for topic in state.topics for index in topic.partitions],
    )


def describe_producers(
    client: AdminClient,
    partitions: Iterable[TopicPartition],
    broker_id: int | None = None,
    *,
    on_unreachable: OnUnreachable = raise_it,
) -> list[Producer]:
    """The producers of partitions, by their leaders or by the replicas on one broker.

    Raises ServerError, and NotReachableError unless `on_unreachable` handles the brokers that do not answer.
    """
    wanted = sorted(set(partitions))
    leaders = leaders_of(client, {each.topic for each in wanted}) if broker_id is None else {}
    by_node: dict[int, list[TopicPartition]] = {}
    for each in wanted:
        node = leaders.get(each) if broker_id is None else broker_id
        if node is None:
            raise ServerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, about=str(each))
        by_node.setdefault(node, []).append(each)
    found: list[Producer] = []
    for node, of_node in by_node.items():
        try:
            for start in range(0, len(of_node), BATCH):
                found += _producers_on(client, node, of_node[start : start + BATCH])
        except NotReachableError as error:
            on_unreachable(node, error)
    return found


def _producers_on(client: AdminClient, node: int, partitions: list[TopicPartition]) -> list[Producer]:
    request = DescribeProducersRequest(
        topics=[
            DescribeProducersRequest.TopicRequest(name=name, partition_indexes=indexes)
            for name, indexes in by_topic(partitions).items()
        ]
    )
    answer = client.send(request, Node(node), codes=every_code)
    found = []
    for topic in answer.topics:
        for each in topic.partitions:
            key = TopicPartition(topic.name, each.partition_index)
            check(each.error_code, each.error_message, about=str(key))
            found += [_producer(key, it) for it in each.active_producers]
    return found


def _producer(partition: TopicPartition, state: Any) -> Producer:
    start = state.current_txn_start_offset
    return Producer(
        partition,
        state.producer_id,
        state.producer_epoch,
        state.coordinator_epoch,
        state.last_sequence,
        state.last_timestamp,
        start if start >= 0 else None,
    )


def abort_in_partition(
    client: AdminClient,
    partition: TopicPartition,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
) -> None:
    """Writes an ABORT marker for a producer into a partition, past its coordinator. Raises ServerError."""
    leader = leaders_of(client, [partition.topic]).get(partition)
    if leader is None:
        raise ServerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, about=str(partition))
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(
        name=partition.topic, partition_indexes=[partition.partition]
    )
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=max(coordinator_epoch, 0),
        transaction_result=False,
        topics=[topic],
    )
    answer = client.send(WriteTxnMarkersRequest(markers=[marker]), Node(leader), codes=every_code)
    for code in every_code(answer):
        check(code, about=str(partition))


def fence_producer(client: AdminClient, transactional_id: str, timeout_ms: int) -> None:
    """Gives the transactional id a new epoch, which aborts its open transaction and fences its producer.

    Kafka's Admin.fenceProducers. Raises ServerError.
    """
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
    answer = client.send(request, Coordinator(transactional_id, TRANSACTION_COORDINATOR), versions="0-5")
    check(answer.error_code, about=f"transactional id {transactional_id!r}")

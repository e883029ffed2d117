"""`barnabas transactions`: kafka-transactions."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final

from barnabas.cli.admin.calls.topics import describe_topics, list_topics
from barnabas.cli.admin.calls.transactions import (
    Description,
    Producer,
    abort_in_partition,
    describe_producers,
    describe_transaction,
    fence_producer,
    list_transactions,
)
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.errors import AdminError, ServerError
from barnabas.cli.admin.options import (
    ParsedOptions,
    admin_group,
    option,
    refuse,
    session,
    subcommand,
)
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.partitions import TopicPartition
from barnabas.cli.admin.shapes import ProducerRow, TransactionRow
from barnabas.protocol.errors import ErrorCode

DEFAULT_TIMEOUT_MIN: Final = 15
_MS_PER_MIN: Final = 60_000

_LIST_HEADS: Final = ("TransactionalId", "Coordinator", "ProducerId", "TransactionState")
_DESCRIBE_HEADS: Final = (
    "CoordinatorId",
    "TransactionalId",
    "ProducerId",
    "ProducerEpoch",
    "TransactionState",
    "TransactionTimeoutMs",
    "CurrentTransactionStartTimeMs",
    "TransactionDurationMs",
    "TopicPartitions",
)
_PRODUCER_HEADS: Final = (
    "ProducerId",
    "ProducerEpoch",
    "LatestCoordinatorEpoch",
    "LastSequence",
    "LastTimestamp",
    "CurrentTransactionStartOffset",
)
_HANGING_HEADS: Final = (
    "Topic",
    "Partition",
    "ProducerId",
    "ProducerEpoch",
    "CoordinatorEpoch",
    "StartOffset",
    "LastTimestamp",
    "Duration(min)",
)


@admin_group("transactions", short_help="Show transactions, and abort hanging ones.", controller=False)
def transactions() -> None:
    """Show transactions and the producers of partitions, and abort hanging transactions: kafka-transactions.

    \b
    barnabas transactions list
    barnabas transactions find-hanging --broker-id 1
    """


@subcommand(transactions, "list", controller=False)
@option("--duration-filter", "Only transactions that have been open longer, in ms.", kind=int, metavar="MS")
@option("--transactional-id-pattern", "Only ids that match a regular expression (RE2).", metavar="REGEX")
def list_(given: ParsedOptions) -> None:
    """List the transactional ids of all coordinators."""
    with session(given) as (client, out):
        listed = list_transactions(
            client,
            duration_ms=given.number("duration-filter"),
            pattern=given.text("transactional-id-pattern"),
            on_unreachable=lambda broker, error: out.failed(
                f"no transactional ids that broker {broker} coordinates: {error}"
            ),
        )
        for it in listed:
            out.row(
                TransactionRow(
                    it.transactional_id, it.coordinator_id, it.producer_id, None, it.state, *[None] * 4
                )
            )
        cells = [(it.transactional_id, it.coordinator_id, it.producer_id, it.state) for it in listed]
        out.table(_LIST_HEADS, cells)


@subcommand(transactions, "describe", controller=False)
@option("--transactional-id", "The id.", metavar="ID")
def describe(given: ParsedOptions) -> None:
    """Show the state of a transactional id."""
    given.need("transactional-id")
    with session(given) as (client, out):
        found = describe_transaction(client, given.text("transactional-id") or "")
        duration_ms = None if found.start_time_ms is None else _now_ms() - found.start_time_ms
        partitions = list(map(str, found.partitions))
        out.row(
            TransactionRow(
                found.transactional_id,
                found.coordinator_id,
                found.producer_id,
                found.producer_epoch,
                found.state,
                found.timeout_ms,
                found.start_time_ms,
                duration_ms,
                partitions,
            )
        )
        cells = (
            found.coordinator_id,
            found.transactional_id,
            *found[2:6],
            found.start_time_ms,
            duration_ms,
            partitions,
        )
        out.table(_DESCRIBE_HEADS, [cells])


@subcommand(transactions, "describe-producers", controller=False)
@option("--broker-id", "The broker whose replica answers. Default: the leader.", kind=int, metavar="ID")
@option("--topic", "The topic.", metavar="TOPIC")
@option("--partition", "The partition.", kind=int, metavar="N")
def show_producers(given: ParsedOptions) -> None:
    """Show the producers of a partition."""
    partition = _partition(given)
    with session(given) as (client, out):
        found = describe_producers(client, [partition], given.number("broker-id"))
        _rows(out, found)
        out.table(_PRODUCER_HEADS, [it[1:] for it in found])


@subcommand(transactions, "abort", controller=False)
@option("--topic", "The topic.", metavar="TOPIC")
@option("--partition", "The partition.", kind=int, metavar="N")
@option("--start-offset", "Where the transaction begins.", kind=int, metavar="OFFSET")
@option("--producer-id", "In its place: the producer of the transaction.", kind=int, metavar="ID")
@option("--producer-epoch", "With --producer-id: the producer's epoch.", kind=int, metavar="EPOCH")
@option("--coordinator-epoch", "With --producer-id: its coordinator's epoch.", kind=int, metavar="EPOCH")
def abort(given: ParsedOptions) -> None:
    """Abort a transaction in one partition, past its coordinator."""
    partition = _partition(given)
    if not given.has("start-offset") and not given.has("producer-id"):
        refuse(
            "The transaction is named by --start-offset, or by --producer-id, --producer-epoch and --coordinator-epoch"
        )
    if not given.has("start-offset"):
        given.need("producer-epoch", "coordinator-epoch")
    with session(given) as (client, out):
        abort_in_partition(client, partition, *_producer_of(client, partition, given))
        out.result("partition", str(partition), "abort")


def _producer_of(
    client: AdminClient, partition: TopicPartition, given: ParsedOptions
) -> tuple[int, int, int]:
    """Producer id, its epoch, and the coordinator's."""
    start = given.number("start-offset")
    if start is None:
        named = [given.number(name) for name in ("producer-id", "producer-epoch", "coordinator-epoch")]
        producer_id, producer_epoch, coordinator_epoch = (value or 0 for value in named)
        return producer_id, producer_epoch, coordinator_epoch
    for producer in describe_producers(client, [partition]):
        if producer.start_offset == start:
            return producer.producer_id, producer.producer_epoch, producer.coordinator_epoch
    raise AdminError(f"no open transaction of {partition} begins at offset {start}")


@subcommand(transactions, "find-hanging", controller=False)
@option("--broker-id", "The broker whose partitions are searched.", kind=int, metavar="ID")
@option(
    "--max-transaction-timeout",
    f"The longest timeout that a transaction may have, in minutes. Default: {DEFAULT_TIMEOUT_MIN}.",
    kind=int,
    metavar="MIN",
)
@option("--topic", "The topic that is searched.", metavar="TOPIC")
@option("--partition", "The partition of it that is searched.", kind=int, metavar="N")
def find_hanging(given: ParsedOptions) -> None:
    """Find transactions that are open in a partition and that no coordinator will complete."""
    if not given.has("topic") and not given.has("broker-id"):
        refuse("--topic or --broker-id is needed")
    given.only_with("partition", "topic")
    timeout_min = given.number("max-transaction-timeout")
    timeout_ms = (DEFAULT_TIMEOUT_MIN if timeout_min is None else timeout_min) * _MS_PER_MIN
    with session(given) as (client, out), out.working("searching"):
        now_ms = _now_ms()
        searched = _searched(client, given)
        late = [
            it
            for it in describe_producers(
                client,
                searched,
                given.number("broker-id"),
                on_unreachable=lambda broker, error: out.failed(
                    f"the partitions of broker {broker} were not searched: {error}"
                ),
            )
            if it.start_offset is not None and now_ms - it.last_timestamp > timeout_ms
        ]
        hanging = _without_a_coordinator(client, late)
        _rows(out, hanging)
        out.table(_HANGING_HEADS, [_hanging_cells(it, now_ms) for it in hanging])


def _searched(client: AdminClient, given: ParsedOptions) -> list[TopicPartition]:
    topic, index, broker = given.text("topic"), given.number("partition"), given.number("broker-id")
    if topic is not None and index is not None:
        return [TopicPartition(topic, index)]
    names = [each.name for each in list_topics(client)] if topic is None else [topic]
    return [
        TopicPartition(each.name, partition.number)
        for each in describe_topics(client, names)
        for partition in each.partitions
        if broker is None or broker in partition.replicas
    ]


def _without_a_coordinator(client: AdminClient, late: Iterable[Producer]) -> list[Producer]:
    """Those without a transactional id, or whose coordinator has no open transaction in that partition."""
    candidates = list(late)
    if not candidates:
        return []
    ids = {it.producer_id for it in candidates}
    names = {it.producer_id: it.transactional_id for it in list_transactions(client, producer_ids=ids)}
    known = {name: _description(client, name) for name in set(names.values())}

    def hangs(producer: Producer) -> bool:
        found = known.get(names.get(producer.producer_id, ""))
        return found is None or producer.partition not in found.partitions

    return [it for it in candidates if hangs(it)]


def _description(client: AdminClient, transactional_id: str) -> Description | None:
    try:
        return describe_transaction(client, transactional_id)
    except ServerError as error:
        if error.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            return None
        raise


def _hanging_cells(producer: Producer, now_ms: int) -> tuple[object, ...]:
    return (
        *producer.partition,
        producer.producer_id,
        producer.producer_epoch,
        producer.coordinator_epoch,
        producer.start_offset,
        producer.last_timestamp,
        (now_ms - producer.last_timestamp) // _MS_PER_MIN,
    )


@subcommand(transactions, "force-terminate", controller=False)
@option("--transactional-id", "The id.", metavar="ID")
def force_terminate(given: ParsedOptions) -> None:
    """Abort the open transaction of a transactional id, and fence its producer."""
    given.need("transactional-id")
    with session(given) as (client, out):
        transactional_id = given.text("transactional-id") or ""
        found = describe_transaction(client, transactional_id)
        fence_producer(client, transactional_id, found.timeout_ms)
        out.result("transactional-id", transactional_id, "force-terminate")


def _partition(given: ParsedOptions) -> TopicPartition:
    given.need("topic", "partition")
    return TopicPartition(given.text("topic") or "", given.number("partition") or 0)


def _rows(out: Output, producers: Iterable[Producer]) -> None:
    for it in producers:
        out.row(
            ProducerRow(
                *it.partition,
                it.producer_id,
                it.producer_epoch,
                it.coordinator_epoch,
                it.last_sequence,
                it.last_timestamp,
                it.start_offset,
            )
        )


def _now_ms() -> int:
    return round(time.time() * 1000)

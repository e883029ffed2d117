"""`barnabas transactions` beside kafka-transactions: the same arguments and broker give the same output.

The broker is Apache Kafka 4.3 or ours. A transaction that one tool ends has ended for the other, too.
"""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.conformance.admin_cli import Tools, View
from tests.conformance.broker_connection import BrokerConnection
from tests.conformance.dialogue_client import batch

pytestmark = pytest.mark.conformance

TOOL = "kafka-transactions"
OVERRIDES = {
    "auto.create.topics.enable": "false",
    "transaction.state.log.num.partitions": "1",
    # Without this, hanging transactions cannot be produced.
    "transaction.partition.verification.enable": "false",
}
HALF_AN_HOUR_MS = 30 * 60 * 1000
STRANGERS = (2**40, 2**40 + 1)
"""Producer ids without a transactional id at the coordinator."""


@pytest.fixture(scope="module")
def producers(tools: Tools) -> list[Producer]:
    """Three producers with an open transaction, and one without."""
    tools.ours_succeeds("kafka-topics", "--create --topic t --partitions 2")
    made = []
    for name in ("open-a", "open-b", "open-c", "idle"):
        producer = Producer(
            {
                "bootstrap.servers": tools.bootstrap,
                "transactional.id": name,
                "transaction.timeout.ms": 600_000,
                "log_level": 0,
            }
        )
        producer.init_transactions(30)
        if name != "idle":
            producer.begin_transaction()
            producer.produce("t", b"v", partition=0)
            producer.flush(10)
        made.append(producer)
    return made


def cells(*without: str) -> View:
    """The rows of a table, sorted, `without` some columns; Kafka prints "None" where ours prints "-"."""

    def view(text: str) -> Any:
        rows = [re.split(r"\t| {2,}", line.strip()) for line in text.splitlines() if line.strip()]
        rows = [[cell.strip() for cell in row if cell.strip()] for row in rows]
        heads = rows[0]
        kept = [at for at, head in enumerate(heads) if head not in without]
        shown = [
            tuple("-" if row[at : at + 1] in ([], ["None"]) else row[at] for at in kept) for row in rows[1:]
        ]
        return [tuple(heads[at] for at in kept), *sorted(shown)]

    return view


def test_transactions_and_producers_are_described(tools: Tools, producers: list[Producer]) -> None:
    names = {row[0] for row in tools.assert_same(cells(), TOOL, "list")[1:]}
    assert names == {"open-a", "open-b", "open-c", "idle"}
    for words in (
        "--duration-filter 0",
        "--duration-filter 1000000",
        "--duration-filter -1",
        "--transactional-id-pattern open-[ab]",
        "--transactional-id-pattern nobody",
        "--transactional-id-pattern open-.* --duration-filter 0",
    ):
        tools.assert_same(cells(), TOOL, "list", *words.split())
    for name in ("open-a", "idle"):
        view = cells("TransactionDurationMs")
        tools.assert_same(view, TOOL, "describe", "--transactional-id", name)
    for words in ("--partition 0", "--partition 1", "--partition 0 --broker-id 1"):
        tools.assert_same(cells(), TOOL, "describe-producers", "--topic", "t", *words.split())


def test_hanging_transactions_are_found_and_aborted(tools: Tools, producers: list[Producer]) -> None:
    for words in ("--topic t", "--broker-id 1 --max-transaction-timeout 0", "--topic t --partition 1"):
        assert len(tools.assert_same(cells(), TOOL, "find-hanging", *words.split())) == 1
    offsets = [leave_open(tools.bootstrap, producer_id) for producer_id in STRANGERS]
    view = cells("Duration(min)")
    for words in ("--topic t", "--broker-id 1", "--topic t --partition 0"):
        found = tools.assert_same(view, TOOL, "find-hanging", *words.split())
        assert [int(row[2]) for row in found[1:]] == list(STRANGERS)
    abort = "abort --topic t --partition 0 --start-offset"
    tools.ours_succeeds(TOOL, f"{abort} {offsets[0]}")
    found = tools.assert_same(view, TOOL, "find-hanging", "--topic", "t")
    assert [int(row[2]) for row in found[1:]] == [STRANGERS[1]]
    whose = f"--producer-id {STRANGERS[1]} --producer-epoch 0 --coordinator-epoch -1"
    tools.ours_succeeds(TOOL, f"abort --topic t --partition 0 {whose}")
    assert len(tools.assert_same(view, TOOL, "find-hanging", "--topic", "t")) == 1
    tools.assert_rejected(TOOL, *abort.split(), str(offsets[0]))


def leave_open(bootstrap: str, producer_id: int) -> int:
    """Begins a transaction without a coordinator, half an hour ago; returns its first offset."""
    payload = batch(
        b"v",
        timestamp=int(time.time() * 1000) - HALF_AN_HOUR_MS,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    data = ProduceRequest.PartitionProduceData(index=0, records=payload)
    request = ProduceRequest(
        transactional_id="stray",
        acks=-1,
        timeout_ms=10_000,
        topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[data])],
    )
    host, port = bootstrap.split(":")
    with BrokerConnection(host, int(port)) as connection:
        answer = connection.request(request, 11)
    assert isinstance(answer, ProduceResponse)
    result = answer.responses[0].partition_responses[0]
    assert result.error_code == 0, result
    return result.base_offset


def test_open_transactions_are_force_terminated(tools: Tools, producers: list[Producer]) -> None:
    tools.kafka_succeeds(TOOL, "forceTerminateTransaction --transactionalId open-a")
    tools.ours_succeeds(TOOL, "force-terminate --transactional-id open-b")
    states = {row[0]: row[3] for row in tools.assert_same(cells(), TOOL, "list")[1:]}
    assert states["open-c"] == "Ongoing"
    assert "Ongoing" not in (states["open-a"], states["open-b"])
    tools.assert_same(cells(), TOOL, "describe-producers", "--topic", "t", "--partition", "0")


def test_invalid_commands_are_rejected(tools: Tools, producers: list[Producer]) -> None:
    for words in (
        "list --transactional-id-pattern [",
        "describe --transactional-id nobody",
        "describe",
        "describe-producers --topic t",
        "find-hanging",
        "find-hanging --broker-id 1 --partition 0",
        "abort --topic t --partition 0",
        "abort --topic t --partition 0 --start-offset 777",
        "abort --topic t --partition 0 --producer-id 1",
        "abort --topic t",
        "force-terminate",
        "list --unheard-of",
    ):
        tools.assert_rejected(TOOL, *words.split())
    assert tools.ours(TOOL, "force-terminate", "--transactional-id", "nobody").status == 1
    assert tools.ours(TOOL, "describe-producers", "--topic", "t", "--partition", "7").status == 1

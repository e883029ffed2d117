"""`barnabas transactions` beside kafka-transactions: the same words, the same broker, the same answers.

Both kinds of broker are asked, Apache Kafka 4.3 and ours. What one tool ends, the other must see ended.
"""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
from confluent_kafka import Producer

from barnabas.protocol.messages.produce import ProduceRequest, ProduceResponse
from tests.conformance.admin_cli import Tools, View
from tests.conformance.peer import Peer
from tests.conformance.speaker import batch

pytestmark = pytest.mark.conformance

TOOL = "kafka-transactions"
OVERRIDES = {
    "auto.create.topics.enable": "false",
    "transaction.state.log.num.partitions": "1",
    # So that transactions can be left hanging at all.
    "transaction.partition.verification.enable": "false",
}
HALF_AN_HOUR_MS = 30 * 60 * 1000
STRANGERS = (2**40, 2**40 + 1)
"""Producers that no coordinator knows."""


@pytest.fixture(scope="module")
def producers(tools: Tools) -> list[Producer]:
    """Three with an open transaction, and one without."""
    tools.ours_does("kafka-topics", "--create --topic t --partitions 2")
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
    """The rows of a table in any order, but for some of its columns; Kafka has "None" where ours has "-"."""

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


def test_what_there_is(tools: Tools, producers: list[Producer]) -> None:
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


def test_what_hangs(tools: Tools, producers: list[Producer]) -> None:
    for words in ("--topic t", "--broker-id 1 --max-transaction-timeout 0", "--topic t --partition 1"):
        assert len(tools.assert_same(cells(), TOOL, "find-hanging", *words.split())) == 1
    offsets = [leave_open(tools.bootstrap, producer_id) for producer_id in STRANGERS]
    view = cells("Duration(min)")
    for words in ("--topic t", "--broker-id 1", "--topic t --partition 0"):
        found = tools.assert_same(view, TOOL, "find-hanging", *words.split())
        assert [int(row[2]) for row in found[1:]] == list(STRANGERS)
    abort = "abort --topic t --partition 0 --start-offset"
    tools.ours_does(TOOL, f"{abort} {offsets[0]}")
    found = tools.assert_same(view, TOOL, "find-hanging", "--topic", "t")
    assert [int(row[2]) for row in found[1:]] == [STRANGERS[1]]
    whose = f"--producer-id {STRANGERS[1]} --producer-epoch 0 --coordinator-epoch -1"
    tools.ours_does(TOOL, f"abort --topic t --partition 0 {whose}")
    assert len(tools.assert_same(view, TOOL, "find-hanging", "--topic", "t")) == 1
    tools.assert_refused(TOOL, *abort.split(), str(offsets[0]))


def leave_open(bootstrap: str, producer_id: int) -> int:
    """A transaction that no coordinator knows, half an hour old; where it begins."""
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
    with Peer(host, int(port)) as peer:
        answer = peer.ask(request, 11)
    assert isinstance(answer, ProduceResponse)
    result = answer.responses[0].partition_responses[0]
    assert result.error_code == 0, result
    return result.base_offset


def test_transactions_that_are_ended_from_outside(tools: Tools, producers: list[Producer]) -> None:
    tools.kafka_does(TOOL, "forceTerminateTransaction --transactionalId open-a")
    tools.ours_does(TOOL, "force-terminate --transactional-id open-b")
    states = {row[0]: row[3] for row in tools.assert_same(cells(), TOOL, "list")[1:]}
    assert states["open-c"] == "Ongoing"
    assert "Ongoing" not in (states["open-a"], states["open-b"])
    tools.assert_same(cells(), TOOL, "describe-producers", "--topic", "t", "--partition", "0")


def test_what_cannot_be_done(tools: Tools, producers: list[Producer]) -> None:
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
        tools.assert_refused(TOOL, *words.split())
    assert tools.ours(TOOL, "force-terminate", "--transactional-id", "nobody").status == 1
    assert tools.ours(TOOL, "describe-producers", "--topic", "t", "--partition", "7").status == 1

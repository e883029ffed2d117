from __future__ import annotations

import json
import time
from collections.abc import Callable

import pytest
from click.testing import Result

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.producers import (
    DescribeProducersResponse,
    DescribeTransactionsResponse,
    ListTransactionsResponse,
)
from barnabas.protocol.messages.transactions import InitProducerIdResponse, WriteTxnMarkersResponse
from tests.cli.admin.fake_broker import FakeCluster

Barnabas = Callable[..., Result]
LONG_AGO_MS = 1_000_000


def listed(*ids: tuple[str, int, str]) -> ListTransactionsResponse:
    return ListTransactionsResponse(
        transaction_states=[
            ListTransactionsResponse.TransactionState(
                transactional_id=name, producer_id=producer_id, transaction_state=state
            )
            for name, producer_id, state in ids
        ]
    )


def described(name: str, *partitions: int, code: int = 0, start_ms: int = LONG_AGO_MS) -> object:
    topic = DescribeTransactionsResponse.TopicData(topic="t", partitions=list(partitions))
    return DescribeTransactionsResponse(
        transaction_states=[
            DescribeTransactionsResponse.TransactionState(
                error_code=code,
                transactional_id=name,
                transaction_state="Ongoing",
                transaction_timeout_ms=60_000,
                transaction_start_time_ms=start_ms,
                producer_id=7,
                producer_epoch=3,
                topics=[topic] if partitions else [],
            )
        ]
    )


def producers(*of_partitions: list[tuple[int, int]]) -> DescribeProducersResponse:
    """For each partition of t the producer ids, and the first offsets of their open transactions (-1: none)."""
    partitions = [
        DescribeProducersResponse.PartitionResponse(
            partition_index=index,
            active_producers=[
                DescribeProducersResponse.ProducerState(
                    producer_id=producer_id,
                    producer_epoch=3,
                    last_sequence=4,
                    last_timestamp=LONG_AGO_MS,
                    coordinator_epoch=-1,
                    current_txn_start_offset=start,
                )
                for producer_id, start in each
            ],
        )
        for index, each in enumerate(of_partitions)
    ]
    return DescribeProducersResponse(
        topics=[DescribeProducersResponse.TopicResponse(name="t", partitions=partitions)]
    )


def markers(code: int = 0) -> WriteTxnMarkersResponse:
    partition = WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(partition_index=0, error_code=code)
    topic = WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(name="t", partitions=[partition])
    return WriteTxnMarkersResponse(
        markers=[WriteTxnMarkersResponse.WritableTxnMarkerResult(producer_id=7, topics=[topic])]
    )


@pytest.mark.parametrize(
    "line",
    [
        "describe",
        "describe-producers --topic t",
        "describe-producers --partition 0",
        "abort --topic t --partition 0",
        "abort --topic t --partition 0 --producer-id 7 --producer-epoch 0",
        "find-hanging",
        "find-hanging --broker-id 1 --partition 0",
        "force-terminate",
        "list --duration-filter soon",
    ],
)
def test_a_wrong_command_line_is_a_usage_error(barnabas: Barnabas, cluster: FakeCluster, line: str) -> None:
    result = barnabas("transactions", *line.split())
    assert (result.exit_code, result.stdout) == (2, "")
    assert not cluster.requests


def test_every_coordinator_lists_its_ids(barnabas: Barnabas) -> None:
    with FakeCluster(2) as cluster:
        cluster.on(ApiKey.LIST_TRANSACTIONS, listed(("a", 1, "Ongoing")), listed(("b", 2, "Empty")))
        server = {"BARNABAS_BOOTSTRAP_SERVER": cluster.bootstrap}
        result = barnabas("transactions", "list", "--duration-filter", "5", **server)
        assert result.stdout.splitlines() == [
            "TransactionalId  Coordinator  ProducerId  TransactionState",
            "a                1            1           Ongoing",
            "b                2            2           Empty",
        ]
        (first, _) = cluster.asked(ApiKey.LIST_TRANSACTIONS)
        assert (first.duration_filter, first.transactional_id_pattern) == (5, None)


def test_a_broker_that_does_not_know_a_filter(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.served[ApiKey.LIST_TRANSACTIONS] = cluster.served[ApiKey.LIST_TRANSACTIONS]._replace(high=0)
    cluster.on(ApiKey.LIST_TRANSACTIONS, listed())
    assert barnabas("transactions", "list").exit_code == 0
    assert barnabas("transactions", "list", "--duration-filter", "5").exit_code == 1
    assert barnabas("transactions", "list", "--transactional-id-pattern", "a").exit_code == 1


def test_a_transactional_id_is_described(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.DESCRIBE_TRANSACTIONS, described("a", 0, 1))
    result = barnabas("transactions", "describe", "--transactional-id", "a", "--json")
    found = json.loads(result.stdout)
    assert found.pop("durationMs") >= time.time() * 1000 - LONG_AGO_MS - 60_000
    assert found == {
        "type": "transaction",
        "transactionalId": "a",
        "coordinatorId": 1,
        "producerId": 7,
        "producerEpoch": 3,
        "state": "Ongoing",
        "timeoutMs": 60_000,
        "startTimeMs": LONG_AGO_MS,
        "partitions": ["t-0", "t-1"],
    }
    cluster.on(ApiKey.DESCRIBE_TRANSACTIONS, described("a", start_ms=-1))
    line = barnabas("transactions", "describe", "--transactional-id", "a").stdout.splitlines()[1]
    assert line.split()[-3:] == ["-", "-", "-"]


def test_an_unknown_transactional_id(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.on(ApiKey.DESCRIBE_TRANSACTIONS, described("a", code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND))
    for command in ("describe", "force-terminate"):
        result = barnabas("transactions", command, "--transactional-id", "a")
        assert result.exit_code == 1
        assert "TRANSACTIONAL_ID_NOT_FOUND" in result.stderr
    assert not cluster.asked(ApiKey.INIT_PRODUCER_ID)


def test_the_producers_of_a_partition(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.topics["t"] = 1
    cluster.on(ApiKey.DESCRIBE_PRODUCERS, producers([(7, 5), (8, -1)]))
    words = ("transactions", "describe-producers", "--topic", "t", "--partition", "0")
    assert barnabas(*words).stdout.splitlines()[1:] == [
        f"7           3              -1                      4             {LONG_AGO_MS}        5",
        f"8           3              -1                      4             {LONG_AGO_MS}        -",
    ]
    rows = [json.loads(line) for line in barnabas(*words, "--json").stdout.splitlines()]
    assert [(row["producerId"], row["startOffset"]) for row in rows] == [(7, 5), (8, None)]
    barnabas(*words, "--broker-id", "1")
    assert cluster.who(ApiKey.DESCRIBE_PRODUCERS) == [1, 1, 1]


def test_a_transaction_unknown_to_its_coordinator_hangs(barnabas: Barnabas, cluster: FakeCluster) -> None:
    """A producer without a transactional id, one with another transaction, one with a deleted id; no ongoing one."""
    cluster.topics["t"] = 2
    cluster.on(ApiKey.DESCRIBE_PRODUCERS, producers([(1, 5), (2, 6), (3, -1)], [(2, 9), (4, 8)]))
    cluster.on(ApiKey.LIST_TRANSACTIONS, listed(("b", 2, "Ongoing"), ("d", 4, "Empty")))
    gone = described("d", code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    cluster.on(
        ApiKey.DESCRIBE_TRANSACTIONS,
        lambda request, _: gone if request.transactional_ids == ["d"] else described("b", 1),
    )
    result = barnabas("transactions", "find-hanging", "--topic", "t", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["partition"], row["producerId"]) for row in rows] == [(0, 1), (0, 2), (1, 4)]
    (asked,) = cluster.asked(ApiKey.LIST_TRANSACTIONS)
    assert sorted(asked.producer_id_filters) == [1, 2, 4]


def test_a_recent_transaction_does_not_hang(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.topics["t"] = 1
    cluster.on(ApiKey.DESCRIBE_PRODUCERS, producers([(1, 5)]))
    far = str(time.time() // 60)[:-2]
    words = ("find-hanging", "--topic", "t", "--partition", "0", "--max-transaction-timeout", far)
    result = barnabas("transactions", *words)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    assert not cluster.asked(ApiKey.LIST_TRANSACTIONS)


def test_the_partitions_of_a_broker_are_searched(barnabas: Barnabas) -> None:
    with FakeCluster(2) as cluster:
        cluster.topics["t"] = 2
        cluster.on(ApiKey.DESCRIBE_PRODUCERS, producers([]))
        server = {"BARNABAS_BOOTSTRAP_SERVER": cluster.bootstrap}
        assert barnabas("transactions", "find-hanging", "--broker-id", "1", **server).exit_code == 0
        assert cluster.who(ApiKey.DESCRIBE_PRODUCERS) == [1]  # both partitions, though broker 2 leads one
        (asked,) = cluster.asked(ApiKey.DESCRIBE_PRODUCERS)
        assert asked.topics[0].partition_indexes == [0, 1]


def test_a_transaction_is_aborted_by_its_first_offset(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.topics["t"] = 1
    cluster.on(ApiKey.DESCRIBE_PRODUCERS, producers([(6, 4), (7, 5)]))
    cluster.on(ApiKey.WRITE_TXN_MARKERS, markers())
    words = ("transactions", "abort", "--topic", "t", "--partition", "0", "--start-offset")
    assert barnabas(*words, "5").exit_code == 0
    (request,) = cluster.asked(ApiKey.WRITE_TXN_MARKERS)
    (marker,) = request.markers
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 0)
    assert (marker.transaction_result, marker.topics[0].name, marker.topics[0].partition_indexes) == (
        False,
        "t",
        [0],
    )
    missed = barnabas(*words, "77")
    assert missed.exit_code == 1
    assert "77" in missed.stderr


def test_a_transaction_is_aborted_by_its_producer(barnabas: Barnabas, cluster: FakeCluster) -> None:
    cluster.topics["t"] = 1
    cluster.on(ApiKey.WRITE_TXN_MARKERS, markers(), markers(ErrorCode.INVALID_PRODUCER_EPOCH))
    words = ["transactions", "abort", "--topic", "t", "--partition", "0", "--producer-id", "0"]
    words += ["--producer-epoch", "0", "--coordinator-epoch", "-1"]
    assert barnabas(*words).exit_code == 0
    assert cluster.asked(ApiKey.WRITE_TXN_MARKERS)[0].markers[0].coordinator_epoch == 0
    refused = barnabas(*words)
    assert refused.exit_code == 1
    assert "INVALID_PRODUCER_EPOCH" in refused.stderr


def test_a_transactional_id_is_fenced(barnabas: Barnabas, cluster: FakeCluster) -> None:
    """Its coordinator is asked again while it ends the transaction."""
    cluster.on(ApiKey.DESCRIBE_TRANSACTIONS, described("a", 0))
    busy = InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
    cluster.on(ApiKey.INIT_PRODUCER_ID, busy, InitProducerIdResponse())
    assert barnabas("transactions", "force-terminate", "--transactional-id", "a").exit_code == 0
    first, second = cluster.asked(ApiKey.INIT_PRODUCER_ID)
    assert (
        (first.transactional_id, first.transaction_timeout_ms)
        == ("a", 60_000)
        == (
            second.transactional_id,
            second.transaction_timeout_ms,
        )
    )

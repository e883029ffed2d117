"""Producer ids and transactions over the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.controller.producer_ids import BLOCK_SIZE
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.acls import AclOperation, AclResourceType
from barnabas.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.protocol.messages.groups import FindCoordinatorRequest
from barnabas.protocol.messages.producers import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from barnabas.protocol.messages.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tests.broker.broker_fixture import CLOSED, WAITS, InProcessBroker, Wait
from tests.broker.guarded_broker import GuardedBroker
from tests.broker.held_runner import HeldRunner
from tests.support.difference import Like

IDEMPOTENT = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)


def transactional(name: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)


@pytest.mark.parametrize("version", range(6))
def test_each_producer_gets_its_own_id(broker: InProcessBroker, version: int) -> None:
    client = broker.client(version=version)
    for producer_id in range(3):
        assert client >> IDEMPOTENT << InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def test_after_a_crash_ids_continue_after_the_block(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path)
    assert broker.client(version=5) >> IDEMPOTENT << Like(producer_id=0)
    broker.kill()
    again = InProcessBroker(tmp_path)
    assert again.client(version=5) >> IDEMPOTENT << Like(producer_id=BLOCK_SIZE)
    again.kill()


def test_the_first_id_waits_for_the_flush(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client = broker.client(version=5) >> IDEMPOTENT << WAITS
    runner.release_all()
    assert client << Like(producer_id=0, producer_epoch=0)
    assert client >> IDEMPOTENT << Like(producer_id=1)
    broker.kill()


def test_a_failed_write_gives_a_retriable_error(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client = broker.client(version=5) >> IDEMPOTENT << WAITS
    runner.fail(OSError("no space left"))
    # Not COORDINATOR_NOT_AVAILABLE: Java's producer would look for the coordinator of an id that it does not have.
    assert client << InitProducerIdResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, producer_id=-1, producer_epoch=-1
    )
    assert broker.requests.apis["INIT_PRODUCER_ID"].errors == {"COORDINATOR_LOAD_IN_PROGRESS": 1}
    broker.kill()


def test_an_empty_transactional_id_is_rejected(broker: InProcessBroker) -> None:
    assert (
        broker.client(version=5)
        >> transactional("")
        << Like(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    )


# ---- transactions, through a whole broker

TX, TIMEOUT_MS = "tx", 60_000
SETTINGS = {"transaction.state.log.num.partitions": "3", "barnabas.profile": "dev"}
FENCED, OLD_FENCED = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH


def with_coordinator(tmp_path: Path, **settings: str) -> InProcessBroker:
    broker = InProcessBroker(
        tmp_path, SETTINGS | {key.replace("_", "."): value for key, value in settings.items()}
    )
    broker.create_topic("t", 2)
    find = FindCoordinatorRequest(key_type=1, coordinator_keys=[TX])
    broker.client(version=4).ask(find)
    return broker


@pytest.fixture
def transactions(tmp_path: Path) -> Iterator[InProcessBroker]:
    broker = with_coordinator(tmp_path)
    yield broker
    broker.kill()


def adding(epoch: int, *partitions: int, topic: str = "t") -> AddPartitionsToTxnRequest:
    """For versions of clients."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TX,
        v3_and_below_producer_id=0,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=list(partitions))
        ],
    )


def added(*codes: ErrorCode | int, topic: str = "t") -> Like:
    return Like(
        results_by_topic_v3_and_below=[
            Like(
                name=topic,
                results_by_partition=[
                    Like(partition_index=index, partition_error_code=code) for index, code in enumerate(codes)
                ],
            )
        ]
    )


def ending(epoch: int, *, committed: bool = True) -> EndTxnRequest:
    return EndTxnRequest(transactional_id=TX, producer_id=0, producer_epoch=epoch, committed=committed)


def state(broker: InProcessBroker) -> tuple[str, int]:
    answer = broker.client(version=0).ask(DescribeTransactionsRequest(transactional_ids=[TX]))
    assert isinstance(answer, DescribeTransactionsResponse)
    (described,) = answer.transaction_states
    return described.transaction_state, described.producer_epoch


@pytest.mark.parametrize(("version", "epoch"), [(4, 0), (5, 1)])
def test_a_transaction_from_begin_to_end(transactions: InProcessBroker, version: int, epoch: int) -> None:
    transactions.client(version=5) >> transactional(TX) << Like(error_code=0, producer_id=0, producer_epoch=0)
    transactions.client(version=3) >> adding(0, 0, 1) << added(0, 0)
    assert state(transactions) == ("Ongoing", 0)
    transactions.client(version=version) >> ending(0) << Like(error_code=0)
    transactions.timer.advance(0)
    assert state(transactions) == ("CompleteCommit", epoch)


@pytest.mark.parametrize(("version", "code"), [(0, OLD_FENCED), (1, OLD_FENCED), (2, FENCED), (3, FENCED)])
def test_zombies_get_an_error_of_their_version(
    transactions: InProcessBroker, version: int, code: ErrorCode
) -> None:
    init = transactions.client(version=5)
    assert init >> transactional(TX) << Like(error_code=0)
    assert init >> transactional(TX) << Like(producer_epoch=1)
    old = transactions.client(version=version)
    assert old >> adding(0, 0) << added(code)
    assert old >> ending(0) << Like(error_code=code)
    offsets = AddOffsetsToTxnRequest(transactional_id=TX, producer_id=0, producer_epoch=0, group_id="g")
    assert old >> offsets << Like(error_code=code)


@pytest.mark.parametrize(("version", "code"), [(3, OLD_FENCED), (4, FENCED)])
def test_a_zombie_cannot_bump_its_epoch(transactions: InProcessBroker, version: int, code: ErrorCode) -> None:
    init = transactions.client(version=5)
    assert init >> transactional(TX) << Like(error_code=0)
    assert init >> transactional(TX) << Like(producer_epoch=1)
    again = InitProducerIdRequest(
        transactional_id=TX, transaction_timeout_ms=TIMEOUT_MS, producer_id=0, producer_epoch=0
    )
    assert transactions.client(version=version) >> again << Like(error_code=code, producer_id=-1)


@pytest.mark.parametrize(("timeout_ms", "is_good"), [(0, False), (1, True), (30_000, True), (30_001, False)])
def test_transaction_timeouts_are_limited(tmp_path: Path, timeout_ms: int, is_good: bool) -> None:
    broker = with_coordinator(tmp_path, transaction_max_timeout_ms="30000")
    request = InitProducerIdRequest(transactional_id=TX, transaction_timeout_ms=timeout_ms)
    code = ErrorCode.NONE if is_good else ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert broker.client(version=5) >> request << Like(error_code=code)
    broker.kill()


def test_unknown_partitions_fail_the_others(transactions: InProcessBroker) -> None:
    assert transactions.client(version=5) >> transactional(TX) << Like(error_code=0)
    missing, untried = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.OPERATION_NOT_ATTEMPTED
    assert transactions.client(version=3) >> adding(0, 0, 1, 2) << added(untried, untried, missing)
    assert state(transactions) == ("Empty", 0)


def test_without_its_topic_there_is_no_coordinator(broker: InProcessBroker) -> None:
    nobody = Like(error_code=ErrorCode.NOT_COORDINATOR)
    assert broker.client(version=5) >> transactional(TX) << nobody
    assert broker.client(version=5) >> ending(0) << nobody
    described = DescribeTransactionsRequest(transactional_ids=[TX])
    assert broker.client(version=0) >> described << Like(transaction_states=[nobody])
    assert broker.client(version=2) >> ListTransactionsRequest() << Like(error_code=0, transaction_states=[])


def test_a_transaction_that_times_out_is_aborted_in_the_partition_too(
    transactions: InProcessBroker,
) -> None:
    assert transactions.client(version=5) >> transactional(TX) << Like(error_code=0)
    assert transactions.client(version=3) >> adding(0, 0) << added(0)
    log = transactions.replica_manager.partition("t", 0).log
    before = log.log_end_offset
    for _ in range(8):
        assert transactions.client(version=3) >> Wait(10)
    assert state(transactions) == ("CompleteAbort", 1)
    assert log.log_end_offset == before + 1
    assert transactions.client(version=4) >> ending(0) << Like(error_code=FENCED)


def test_after_a_kill_a_transaction_continues_and_times_out(tmp_path: Path) -> None:
    broker = with_coordinator(tmp_path)
    assert broker.client(version=5) >> transactional(TX) << Like(error_code=0)
    assert broker.client(version=3) >> adding(0, 0) << added(0)
    broker.kill()
    again = InProcessBroker(tmp_path, SETTINGS)
    again.timer.run_soon()
    assert state(again) == ("Ongoing", 0)
    for _ in range(8):
        assert again.client(version=3) >> Wait(10)
    assert state(again) == ("CompleteAbort", 1)
    again.kill()


def test_two_phase_commit_enabled(tmp_path: Path) -> None:
    asked = InitProducerIdRequest(transactional_id=TX, transaction_timeout_ms=1, enable2_pc=True)
    switched = {"unstable_api_versions_enable": "true", "transaction_two_phase_commit_enable": "true"}
    broker = with_coordinator(tmp_path, **switched)
    init = broker.client(version=6)
    assert init >> asked << Like(error_code=0, producer_id=0, ongoing_txn_producer_id=-1)
    described = DescribeTransactionsRequest(transactional_ids=[TX])
    no_end = Like(transaction_states=[Like(transaction_timeout_ms=2**31 - 1)])
    assert broker.client(version=0) >> described << no_end
    kept = InitProducerIdRequest(transactional_id=TX, transaction_timeout_ms=1, keep_prepared_txn=True)
    assert init >> kept << Like(error_code=ErrorCode.UNSUPPORTED_VERSION)
    broker.kill()


def test_two_phase_commit_disabled(tmp_path: Path) -> None:
    asked = InitProducerIdRequest(transactional_id=TX, transaction_timeout_ms=1, enable2_pc=True)
    broker = with_coordinator(tmp_path, unstable_api_versions_enable="true")
    refused = Like(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, producer_id=-1)
    assert broker.client(version=6) >> asked << refused
    broker.kill()


def test_unstable_versions_are_rejected_by_default(transactions: InProcessBroker) -> None:
    assert transactions.client(version=6) >> transactional(TX) << CLOSED


@pytest.mark.parametrize("is_offered", [True, False])
def test_unstable_versions_are_advertised_if_enabled(tmp_path: Path, is_offered: bool) -> None:
    broker = InProcessBroker(tmp_path, {"unstable.api.versions.enable": str(is_offered).lower()})
    answer = broker.client(version=0).ask(ApiVersionsRequest())
    assert isinstance(answer, ApiVersionsResponse)
    versions = {entry.api_key: entry.max_version for entry in answer.api_keys}
    assert versions[22] == (6 if is_offered else 5)
    broker.kill()


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ["a-1", "b-1", "b-2"]),
        ({"state_filters": ["Ongoing"]}, ["b-2"]),
        ({"state_filters": ["Nonsense"]}, []),
        ({"producer_id_filters": [0, 7]}, ["a-1"]),
        ({"duration_filter": 100}, ["a-1", "b-1"]),
        ({"transactional_id_pattern": "b-.*"}, ["b-1", "b-2"]),
        ({"transactional_id_pattern": "b-"}, []),
        ({"transactional_id_pattern": "[ab]-1", "producer_id_filters": [1]}, ["b-1"]),
    ],
)
def test_transactional_ids_are_listed(
    transactions: InProcessBroker, filters: dict[str, Any], names: list[str]
) -> None:
    for name in ("a-1", "b-1", "b-2"):
        assert transactions.client(version=5) >> transactional(name) << Like(error_code=0)
    begun = AddOffsetsToTxnRequest(transactional_id="b-2", producer_id=2, producer_epoch=0, group_id="g")
    assert transactions.client(version=3) >> begun << Like(error_code=0)
    answer = transactions.client(version=2).ask(ListTransactionsRequest(**filters))
    assert isinstance(answer, ListTransactionsResponse)
    assert sorted(listed.transactional_id for listed in answer.transaction_states) == names
    assert answer.unknown_state_filters == [
        name for name in filters.get("state_filters", []) if name == "Nonsense"
    ]


def test_an_invalid_pattern(transactions: InProcessBroker) -> None:
    request = ListTransactionsRequest(transactional_id_pattern="(")
    refused = Like(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION, transaction_states=[])
    assert transactions.client(version=2) >> request << refused


# ---- authorization


T, X, G = AclResourceType.TOPIC, AclResourceType.TRANSACTIONAL_ID, AclResourceType.GROUP
NO_ID, NO_CLUSTER = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
NO_TOPIC, NO_GROUP = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED


@pytest.fixture
def guarded_transactions(guarded: GuardedBroker) -> GuardedBroker:
    """With coordinators, a topic that may be written, and one that may not."""
    for key_type in (0, 1):
        guarded.admin(version=4).ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"]))
    for name in ("t", "hidden"):
        guarded.create_topic(name)
    guarded.allow(AclOperation.WRITE, T, "t")
    return guarded


def test_a_producer_id_is_for_who_may_write_something(guarded: GuardedBroker) -> None:
    client, asked = guarded.client(version=4), InitProducerIdRequest(transactional_id=None)
    denied = Like(error_code=NO_CLUSTER, producer_id=-1, producer_epoch=-1)
    assert client >> asked << denied
    guarded.allow(AclOperation.WRITE, T, "a topic that need not exist")
    assert client >> asked << Like(error_code=0)
    guarded.deny_again()
    assert client >> asked << denied
    guarded.allow(AclOperation.IDEMPOTENT_WRITE)
    assert client >> asked << Like(error_code=0)


def test_a_transactional_id_is_for_who_may_write_with_it(guarded_transactions: GuardedBroker) -> None:
    client = guarded_transactions.client(version=4)
    assert client >> transactional("x") << Like(error_code=NO_ID, producer_id=-1)
    guarded_transactions.allow(AclOperation.WRITE, X, "x")
    assert client >> transactional("x") << Like(error_code=0)


def test_two_phase_commit_needs_a_right_of_its_own(tmp_path: Path) -> None:
    settings = {"transaction.two.phase.commit.enable": "true", "unstable.api.versions.enable": "true"}
    running = GuardedBroker(tmp_path, settings)
    running.admin(version=4).ask(FindCoordinatorRequest(key_type=1, coordinator_keys=["x"]))
    running.allow(AclOperation.WRITE, X, "x")
    asked = InitProducerIdRequest(transactional_id="x", enable2_pc=True)
    assert running.client(version=6) >> asked << Like(error_code=NO_ID)
    running.allow(AclOperation.TWO_PHASE_COMMIT, X, "x")
    assert running.client(version=6) >> asked << Like(error_code=0)
    running.kill()


def adding_to(*topics: str) -> AddPartitionsToTxnRequest:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x",
        v3_and_below_producer_id=7,
        v3_and_below_topics=[topic(name=name, partitions=[0]) for name in topics],
    )


def added_to(**codes: ErrorCode) -> Like:
    return Like(
        results_by_topic_v3_and_below=[
            Like(name=name, results_by_partition=[Like(partition_error_code=code)])
            for name, code in codes.items()
        ]
    )


def test_one_denied_partition_fails_the_others(guarded_transactions: GuardedBroker) -> None:
    client = guarded_transactions.client(version=3)
    assert client >> adding_to("t", "hidden") << added_to(t=NO_ID, hidden=NO_ID)
    guarded_transactions.allow(AclOperation.WRITE, X, "x")
    not_attempted = ErrorCode.OPERATION_NOT_ATTEMPTED
    assert client >> adding_to("t", "hidden") << added_to(t=not_attempted, hidden=NO_TOPIC)
    guarded_transactions.allow(AclOperation.WRITE, T, "__consumer_offsets")
    assert (
        client
        >> adding_to("t", "__consumer_offsets")
        << added_to(t=not_attempted, __consumer_offsets=NO_TOPIC)
    )
    assert client >> adding_to("t") << added_to(t=ErrorCode.INVALID_PRODUCER_ID_MAPPING)


def test_the_request_of_brokers_is_for_brokers(guarded_transactions: GuardedBroker) -> None:
    client = guarded_transactions.client(version=5)
    asked = AddPartitionsToTxnRequest(transactions=[])
    assert client >> asked << Like(error_code=NO_CLUSTER, results_by_transaction=[])
    guarded_transactions.allow(AclOperation.CLUSTER_ACTION)
    assert client >> asked << Like(error_code=0)


def test_ends_and_offsets_need_the_id(guarded_transactions: GuardedBroker) -> None:
    client = guarded_transactions.client(version=3)
    offsets = AddOffsetsToTxnRequest(transactional_id="x", producer_id=7, group_id="g")
    end = EndTxnRequest(transactional_id="x", producer_id=7)
    assert client >> end << Like(error_code=NO_ID)
    assert client >> offsets << Like(error_code=NO_ID)
    guarded_transactions.allow(AclOperation.WRITE, X, "x")
    unknown = Like(error_code=ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    assert client >> end << unknown
    assert client >> offsets << Like(error_code=NO_GROUP)
    guarded_transactions.allow(AclOperation.READ, G, "g")
    assert client >> offsets << unknown


def test_transactions_are_shown_of_ids_and_topics_that_may_be_described(
    guarded_transactions: GuardedBroker,
) -> None:
    admin = guarded_transactions.admin(version=3)
    answer = admin.ask(transactional("x"))
    assert isinstance(answer, InitProducerIdResponse)
    asked = adding_to("t", "hidden")
    asked.v3_and_below_producer_id = answer.producer_id
    assert admin >> asked << added_to(t=ErrorCode.NONE, hidden=ErrorCode.NONE)
    client = guarded_transactions.client(version=0)
    describe = DescribeTransactionsRequest(transactional_ids=["x"])
    assert (
        client
        >> describe
        << Like(transaction_states=[Like(error_code=NO_ID, transaction_state="", topics=[])])
    )
    assert client >> ListTransactionsRequest() << Like(error_code=0, transaction_states=[])
    guarded_transactions.allow(AclOperation.DESCRIBE, X, "x")
    shown = Like(transaction_states=[Like(error_code=0, topics=[Like(topic="t")])])
    assert client >> describe << shown
    assert client >> ListTransactionsRequest() << Like(transaction_states=[Like(transactional_id="x")])

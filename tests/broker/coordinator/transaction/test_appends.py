"""TransactionalAppends: verification before the append, and the results and their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from barnabas.broker.coordinator.transaction.appends import (
    Results,
    TransactionalAppends,
    TransactionalProduce,
)
from barnabas.broker.coordinator.transaction.verification import AddPartitionsToTxnManager, VerificationProbe
from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendError, AppendResult, append_error_of
from barnabas.broker.waiting.blocking import Done, Work
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.records.control import end_transaction_marker
from barnabas.protocol.wire import ZERO_UUID
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import AppendOrigin
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.coordinator.transaction.txn_fakes import PRODUCER_ID, FakeTransactions, txn_batch
from tests.broker.held_runner import HeldRunner
from tests.broker.logs import START_MS, batch

OLDEST, ABORTABLE, ADDING = 3, 11, 12
RETRY_S, PATIENCE_S = 0.02, 0.1
"""add.partitions.to.txn.retry.backoff.ms and .max.ms"""


class SlowAtTimes(HeldRunner):
    """Holds work back while `slow`."""

    is_slow = False

    def submit(self, work: Work, done: Done) -> None:
        super().submit(work, done)
        if not self.is_slow:
            self.release_all()


class Harness:
    """A broker with two partitions of a topic, over a fake transaction coordinator."""

    def __init__(self, log_dir: Path, **settings: str) -> None:
        named = {key.replace("_", "."): value for key, value in settings.items()}
        self.runner = SlowAtTimes()
        self.broker = InProcessBroker(log_dir, named, runner=self.runner)
        self.broker.create_topic("t", partitions=2)
        self.replica_manager = self.broker.replica_manager
        self.replica_manager.verify_transactions(
            named.get("transaction.partition.verification.enable", "true") == "true"
        )
        self.coordinator = FakeTransactions()
        verifier = AddPartitionsToTxnManager(self.coordinator, VerificationProbe(), self.broker.timer.time)
        self.appends = TransactionalAppends(
            self.replica_manager, verifier, self.broker.config, self.broker.timer
        )

    def log(self, index: int = 0) -> UnifiedLog:
        return self.replica_manager.partition("t", index).log

    def produce(self, *records: bytes, version: int = ABORTABLE, acks: int = -1) -> Heard:
        """Sends one batch to each partition from the first on."""
        return self.produce_to(dict(enumerate(records)), version=version, acks=acks)

    def produce_to(self, records: Mapping[int, bytes], version: int = ABORTABLE, acks: int = -1) -> Heard:
        """Sends a batch to each of these partitions."""
        entries = [("t", index, ZERO_UUID, data, None) for index, data in records.items()]
        return Heard(self.appends.append(TransactionalProduce("tx", version, entries, acks, 1000)))

    def end(self, *, epoch: int = 0, commit: bool = True) -> None:
        """Writes the transaction's marker to the first partition."""
        records = end_transaction_marker(
            commit=commit,
            coordinator_epoch=0,
            producer_id=PRODUCER_ID,
            producer_epoch=epoch,
            timestamp=START_MS,
        )
        results = self.replica_manager.append_records(
            [("t", 0, ZERO_UUID, records, None)], -1, 1000, origin=AppendOrigin.COORDINATOR
        )
        assert isinstance(results, list)
        assert append_error_of(results[0]) is ErrorCode.NONE

    @property
    def asked(self) -> list[str]:
        return [what for what, *_ in self.coordinator.asked]

    @property
    def asked_for(self) -> list[object]:
        return [partitions for *_, partitions in self.coordinator.asked]


class Heard:
    """A response, or its absence."""

    def __init__(self, results: Results | Pending[Results]) -> None:
        self.results: Results | None = None
        if isinstance(results, Pending):
            results.add_done_callback(self._hear)
        else:
            self.results = results

    def _hear(self, results: Results) -> None:
        self.results = results

    def __getitem__(self, index: int) -> AppendResult:
        assert self.results is not None, "there is no answer yet"
        return self.results[index]

    @property
    def waits(self) -> bool:
        return self.results is None

    @property
    def codes(self) -> list[ErrorCode]:
        return [append_error_of(self[at]) for at in range(len(self.results or ()))]

    @property
    def offsets(self) -> list[int]:
        return [self[at].first_offset for at in range(len(self.results or ()))]  # type: ignore[union-attr]


NewHarness = Callable[..., Harness]


@pytest.fixture
def harness(new_harness: NewHarness) -> Harness:
    return new_harness()


@pytest.fixture
def new_harness(tmp_path: Path) -> Iterator[NewHarness]:
    made: list[Harness] = []

    def new(**settings: str) -> Harness:
        made.append(Harness(tmp_path, **settings))
        return made[-1]

    yield new
    for each in made:
        each.broker.kill()


# ---- verification


def test_only_the_first_batch_of_a_transaction_is_verified(harness: Harness) -> None:
    assert harness.produce(txn_batch("a")).offsets == [0]
    assert harness.produce(txn_batch("b", sequence=1)).offsets == [1]
    assert harness.coordinator.asked == [("verify", "tx", (PRODUCER_ID, 0), (("t", 0),))]
    harness.end()
    harness.produce(txn_batch("c", sequence=2))
    assert harness.asked == ["verify", "verify"]


def test_all_partitions_of_a_request_are_verified_together(harness: Harness) -> None:
    harness.produce(txn_batch("a"), txn_batch("b"))
    assert harness.asked_for == [(("t", 0), ("t", 1))]


def test_only_partitions_new_in_the_transaction_are_verified(harness: Harness) -> None:
    harness.produce(txn_batch("a"))
    harness.produce(txn_batch("b", sequence=1), txn_batch("b"))
    assert harness.asked_for == [(("t", 0),), (("t", 1),)]


def test_from_version_12_on_partitions_are_added_implicitly(harness: Harness) -> None:
    assert harness.produce(txn_batch("a"), version=ADDING).codes == [ErrorCode.NONE]
    assert harness.coordinator.asked == [("add", "tx", (PRODUCER_ID, 0), (("t", 0),))]


def test_without_verification_the_coordinator_is_not_asked(new_harness: NewHarness) -> None:
    harness = new_harness(transaction_partition_verification_enable="false")
    assert harness.produce(txn_batch("a")).codes == [ErrorCode.NONE]
    assert harness.asked == []
    harness.end()
    harness.produce(txn_batch("b", sequence=1), version=ADDING)
    assert harness.asked == ["add"]  # still added: the coordinator has to know the partition


def test_non_transactional_batches_are_appended_alongside(harness: Harness) -> None:
    harness.coordinator.says = {("t", 0): ErrorCode.INVALID_TXN_STATE}
    answer = harness.produce(txn_batch("a"), batch("b"))
    assert answer.codes == [ErrorCode.INVALID_TXN_STATE, ErrorCode.NONE]
    assert harness.asked_for == [(("t", 0),)]


def test_batches_of_two_producers_in_one_request_are_rejected(harness: Harness) -> None:
    for other in (txn_batch("b", producer_id=8), txn_batch("b", epoch=1)):
        with pytest.raises(ApiError) as refused:
            harness.produce(txn_batch("a"), other)
        assert refused.value.code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert harness.asked == []


def test_an_unknown_partition_is_not_verified(harness: Harness) -> None:
    answer = harness.produce(txn_batch("a"), txn_batch("a"), txn_batch("a"))
    assert answer.codes == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert harness.asked_for == [(("t", 0), ("t", 1))]


def test_a_partition_without_local_leader_is_not_verified(harness: Harness) -> None:
    harness.replica_manager.partition("t", 0).leader_id = 2
    answer = harness.produce(txn_batch("a"), txn_batch("a"))
    assert answer.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE]
    assert harness.asked_for == [(("t", 1),)]


def test_an_open_transaction_does_not_help_under_another_leader(harness: Harness) -> None:
    harness.produce(txn_batch("a"))
    harness.replica_manager.partition("t", 0).leader_id = 99
    answer = harness.produce(txn_batch("b", sequence=1))
    assert answer.codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert len(harness.asked) == 1


@pytest.mark.parametrize("version", [OLDEST, ABORTABLE, ADDING])
def test_a_fenced_producer_is_not_verified_and_blocks_no_other(harness: Harness, version: int) -> None:
    assert harness.produce(txn_batch("a", epoch=1), version=version).offsets == [0]
    asked = list(harness.asked)
    zombie = harness.produce(txn_batch("z"), version=version)
    assert zombie.codes == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert zombie[0].log_start_offset == -1
    assert harness.asked == asked
    assert harness.produce(txn_batch("b", sequence=1, epoch=1), version=version).offsets == [1]


def test_a_queued_request_of_a_fenced_producer_is_rejected(harness: Harness) -> None:
    harness.coordinator.holds = True
    answers = [
        harness.produce(txn_batch("a", epoch=1)),
        harness.produce(txn_batch("z")),
        harness.produce(txn_batch("b", sequence=1, epoch=1)),
    ]
    harness.coordinator.release()
    fenced = [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert [answer.codes for answer in answers] == [[ErrorCode.NONE], fenced, [ErrorCode.NONE]]
    assert harness.asked == ["verify"]


def test_a_fenced_producer_gets_an_error_for_each_partition(harness: Harness) -> None:
    """Where the log does not know the new epoch yet, the coordinator is asked as usual."""
    harness.produce(txn_batch("a", epoch=1))
    harness.coordinator.says = {("t", 1): ErrorCode.INVALID_PRODUCER_EPOCH}
    answer = harness.produce(txn_batch("z"), txn_batch("z"))
    assert answer.codes == [ErrorCode.INVALID_PRODUCER_EPOCH] * 2
    assert harness.asked_for[1:] == [(("t", 1),)]


# ---- responses

ANSWERS = [
    (ErrorCode.INVALID_TXN_STATE, OLDEST, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.TRANSACTION_ABORTABLE, 10, ErrorCode.INVALID_TXN_STATE),
    (ErrorCode.TRANSACTION_ABORTABLE, ABORTABLE, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.TRANSACTION_ABORTABLE, ADDING, ErrorCode.TRANSACTION_ABORTABLE),
    (ErrorCode.PRODUCER_FENCED, ABORTABLE, ErrorCode.INVALID_PRODUCER_EPOCH),
    (ErrorCode.INVALID_PRODUCER_ID_MAPPING, ADDING, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    (ErrorCode.CONCURRENT_TRANSACTIONS, ABORTABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ABORTABLE, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.COORDINATOR_NOT_AVAILABLE, ADDING, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.NOT_COORDINATOR, ADDING, ErrorCode.NOT_ENOUGH_REPLICAS),
    (ErrorCode.NETWORK_EXCEPTION, OLDEST, ErrorCode.NOT_ENOUGH_REPLICAS),
]


@pytest.mark.parametrize(("said", "version", "told"), ANSWERS)
def test_errors_of_the_coordinator_are_mapped_for_producers(
    harness: Harness, said: ErrorCode, version: int, told: ErrorCode
) -> None:
    harness.coordinator.says = {("t", 0): said}
    answer = harness.produce(txn_batch("a"), batch("b"), version=version)
    assert answer.codes == [told, ErrorCode.NONE]
    refused = answer[0]
    assert isinstance(refused, AppendError)
    assert (refused.log_start_offset, harness.log(0).log_end_offset, harness.log(1).log_end_offset) == (
        -1,
        0,
        1,
    )
    has_message = told in (ErrorCode.INVALID_TXN_STATE, ErrorCode.NOT_ENOUGH_REPLICAS)
    assert (refused.error_message is not None) == has_message


def test_a_marker_invalidates_a_pending_verification(harness: Harness) -> None:
    """The coordinator's answer about the transaction is outdated if its marker has been written meanwhile."""
    harness.coordinator.holds = True
    answer = harness.produce(txn_batch("a"))
    assert answer.waits
    harness.end(commit=False)
    harness.coordinator.release()
    assert answer.codes == [ErrorCode.INVALID_TXN_STATE]
    assert harness.log().log_end_offset == 1  # the marker


def test_a_topic_deleted_during_the_verification(harness: Harness) -> None:
    harness.coordinator.holds = True
    answer = harness.produce(txn_batch("a"))
    topic = harness.broker.broker.image.topics["t"]
    harness.replica_manager._remove(topic)
    harness.coordinator.release()
    assert answer.codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_disk_that_failed_during_the_verification(harness: Harness) -> None:
    harness.coordinator.holds = True
    answer = harness.produce(txn_batch("a"))
    harness.replica_manager.partition("t", 0).offline = True
    harness.coordinator.release()
    assert answer.codes == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_response_waits_for_the_flush_too(new_harness: NewHarness) -> None:
    harness = new_harness(log_flush_interval_messages="1")
    harness.coordinator.says = {("t", 1): ErrorCode.INVALID_TXN_STATE}
    harness.runner.is_slow = True
    answer = harness.produce(txn_batch("a"), txn_batch("a"))
    assert answer.waits
    harness.runner.release_all()
    assert answer.codes == [ErrorCode.NONE, ErrorCode.INVALID_TXN_STATE]


# ---- the end of the previous transaction


def test_a_partition_is_added_once_the_previous_transaction_has_ended(harness: Harness) -> None:
    harness.coordinator.says = {("t", 0): ErrorCode.CONCURRENT_TRANSACTIONS}
    answer = harness.produce(txn_batch("a"), version=ADDING)
    assert answer.waits
    harness.broker.timer.advance(RETRY_S)
    assert answer.waits
    assert harness.asked == ["add", "add"]
    harness.coordinator.says = {}
    harness.broker.timer.advance(RETRY_S)
    assert answer.codes == [ErrorCode.NONE]
    assert harness.asked == ["add", "add", "add"]


def test_retries_end(harness: Harness) -> None:
    harness.coordinator.says = {("t", 0): ErrorCode.CONCURRENT_TRANSACTIONS}
    answer = harness.produce(txn_batch("a"), version=ADDING)
    harness.broker.timer.advance(PATIENCE_S - 0.001)
    assert answer.waits
    harness.broker.timer.advance(2 * RETRY_S)
    assert answer.codes == [ErrorCode.CONCURRENT_TRANSACTIONS]


def test_without_retries_the_first_result_counts(new_harness: NewHarness) -> None:
    harness = new_harness(add_partitions_to_txn_retry_backoff_max_ms="0")
    harness.coordinator.says = {("t", 0): ErrorCode.CONCURRENT_TRANSACTIONS}
    assert harness.produce(txn_batch("a"), version=ADDING).codes == [ErrorCode.CONCURRENT_TRANSACTIONS]


def test_a_transaction_begun_meanwhile_needs_no_verification(harness: Harness) -> None:
    harness.coordinator.says = {("t", 0): ErrorCode.CONCURRENT_TRANSACTIONS}
    answer = harness.produce(txn_batch("b", sequence=1), version=ADDING)
    guard = harness.log().start_transaction_verification(PRODUCER_ID, 0, 0)
    harness.log().append_as_leader(txn_batch("a"), 0, verification_guard=guard)
    harness.broker.timer.advance(RETRY_S)
    assert answer.codes == [ErrorCode.NONE]
    assert harness.asked == ["add"]


# ---- the order of one producer's requests


def test_requests_during_a_verification_wait_in_order(harness: Harness) -> None:
    harness.coordinator.holds = True
    answers = [harness.produce(txn_batch("v", sequence=sequence)) for sequence in range(4)]
    assert harness.asked == ["verify"]
    assert all(answer.waits for answer in answers)
    harness.coordinator.release()
    assert [answer.offsets for answer in answers] == [[0], [1], [2], [3]]
    assert harness.asked == ["verify"]


def test_a_queued_request_may_need_its_own_verification(harness: Harness) -> None:
    harness.coordinator.holds = True
    first = harness.produce(txn_batch("a"))
    second = harness.produce(txn_batch("b", sequence=1), txn_batch("b"))
    third = harness.produce(txn_batch("c", sequence=2), txn_batch("c", sequence=1))
    harness.coordinator.release()
    assert first.offsets == [0]
    assert second.waits
    assert third.waits
    harness.coordinator.release()
    assert (second.offsets, third.offsets) == ([1, 0], [2, 1])
    assert harness.asked_for == [(("t", 0),), (("t", 1),)]


def test_requests_of_other_producers_do_not_wait(harness: Harness) -> None:
    harness.coordinator.holds = True
    mine = harness.produce(txn_batch("a"))
    harness.coordinator.holds = False
    harness.coordinator._held, held = [], harness.coordinator._held
    assert harness.produce(txn_batch("b", producer_id=8)).codes == [ErrorCode.NONE]
    assert mine.waits
    harness.coordinator._held = held
    harness.coordinator.release()
    assert mine.offsets == [1]


def test_after_a_failed_verification_the_next_request_is_verified(harness: Harness) -> None:
    harness.coordinator.holds = True
    harness.coordinator.says = {("t", 0): ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    first = harness.produce(txn_batch("a"))
    second = harness.produce(txn_batch("b", sequence=1))
    harness.coordinator.release()
    assert first.codes == [ErrorCode.NOT_ENOUGH_REPLICAS]
    harness.coordinator.says = {}
    harness.coordinator.release()
    assert second.codes == [
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    ]  # the rejected first batch must come before it
    harness.coordinator.holds = False
    assert harness.produce(txn_batch("a")).offsets == [0]
    assert harness.produce(txn_batch("b", sequence=1)).offsets == [1]

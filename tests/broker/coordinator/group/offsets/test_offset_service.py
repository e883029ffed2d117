"""OffsetService: passes requests to the right shard, and maps errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from barnabas.broker.coordinator.group.offsets.commit import OffsetCommit
from barnabas.broker.coordinator.group.offsets.offset_service import OffsetService
from barnabas.broker.coordinator.txn import TransactionalProducer
from barnabas.broker.pending import Pending
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from tests.broker.coordinator.group.offsets.offset_harness import commit_of, fetch_of, topic_of

PRODUCER = TransactionalProducer("x", 7, 0, supports_epoch_bump=False)


class RefusingRuntime:
    """A CoordinatorRuntime that rejects everything with one error; `asked` records the keys."""

    def __init__(self, code: ErrorCode) -> None:
        self.error = ApiError(code)
        self.asked: list[tuple[str, str]] = []

    def _refuse(self, how: str, key: str, failed: Callable[[ApiError], Any]) -> Pending[Any]:
        self.asked.append((how, key))
        pending: Pending[Any] = Pending()
        pending.complete(failed(self.error))
        return pending

    def write(self, key: str, operation: object, failed: Callable[[ApiError], Any]) -> Pending[Any]:
        return self._refuse("write", key, failed)

    def read(self, key: str, operation: object, failed: Callable[[ApiError], Any]) -> Pending[Any]:
        return self._refuse("read", key, failed)

    def write_in_transaction(
        self,
        key: str,
        producer: TransactionalProducer,
        operation: object,
        failed: Callable[[ApiError], Any],
    ) -> Pending[Any]:
        assert producer is PRODUCER
        return self._refuse("write in transaction", key, failed)


def service_over(runtime: RefusingRuntime) -> OffsetService:
    return OffsetService(runtime, BrokerConfig.of(None, overrides=[]))  # type: ignore[arg-type]


def result_of(pending: Pending[Any]) -> Any:
    found: list[Any] = []
    pending.add_done_callback(found.append)
    return found[0]


def two_partitions(**fields: Any) -> OffsetCommit:
    return commit_of(topic_of("t", {0: 1, 1: 2}), **fields)


def test_a_failed_commit_fails_for_each_partition() -> None:
    runtime = RefusingRuntime(ErrorCode.NOT_COORDINATOR)
    answer = result_of(service_over(runtime).commit(two_partitions()))
    assert (runtime.asked, answer) == ([("write", "g")], [ErrorCode.NOT_COORDINATOR] * 2)


def test_the_group_id_of_a_commit_may_be_empty_except_in_a_transaction() -> None:
    runtime = RefusingRuntime(ErrorCode.NOT_COORDINATOR)
    service = service_over(runtime)
    service.commit(two_partitions(group_id=""))
    refused = result_of(service.commit_in_transaction(PRODUCER, two_partitions(group_id="")))
    assert (runtime.asked, refused) == ([("write", "")], [ErrorCode.INVALID_GROUP_ID] * 2)


@pytest.mark.parametrize(
    ("version", "code"), [(3, ErrorCode.INVALID_TXN_STATE), (4, ErrorCode.TRANSACTION_ABORTABLE)]
)
def test_old_clients_get_no_abortable_transaction_error(version: int, code: ErrorCode) -> None:
    service = service_over(RefusingRuntime(ErrorCode.TRANSACTION_ABORTABLE))
    commit = two_partitions(api_version=version)
    assert result_of(service.commit_in_transaction(PRODUCER, commit)) == [code] * 2


def test_other_errors_of_transactions_are_returned_unchanged() -> None:
    service = service_over(RefusingRuntime(ErrorCode.INVALID_PRODUCER_EPOCH))
    answer = result_of(service.commit_in_transaction(PRODUCER, two_partitions(api_version=0)))
    assert answer == [ErrorCode.INVALID_PRODUCER_EPOCH] * 2


def test_fetches_and_deletions_fail_as_a_whole() -> None:
    runtime = RefusingRuntime(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    service = service_over(runtime)
    assert result_of(service.fetch(fetch_of())) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert result_of(service.delete("g", [], "somebody")) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert result_of(service.delete("", [], "somebody")) is ErrorCode.INVALID_GROUP_ID
    assert runtime.asked == [("read", "g"), ("write", "g")]

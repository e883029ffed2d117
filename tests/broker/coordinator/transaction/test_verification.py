"""AddPartitionsToTxnManager: its calls of the coordinator, the errors of producers, and the counts."""

from __future__ import annotations

import pytest

from barnabas.broker.coordinator.transaction.verification import AddPartitionsToTxnManager, VerificationProbe
from barnabas.broker.coordinator.txn import TransactionalProducer
from barnabas.protocol.errors import ErrorCode
from tests.broker.coordinator.transaction.test_remote_coordinators import HERE, NOWHERE, THERE, Asking
from tests.broker.coordinator.transaction.txn_fakes import FakeTransactions

KEYS = [("t", 0), ("t", 1)]


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.mark.parametrize(("bumps", "asked"), [(False, "verify"), (True, "add")])
def test_partitions_are_added_only_for_producers_that_support_it(bumps: bool, asked: str) -> None:
    coordinator = FakeTransactions()
    producer = TransactionalProducer("tx", 7, 0, bumps)
    heard: list[object] = []
    manager = AddPartitionsToTxnManager(coordinator, VerificationProbe(), Clock())
    manager.verify(producer, KEYS).add_done_callback(heard.append)
    assert coordinator.asked == [(asked, "tx", (7, 0), tuple(KEYS))]
    assert heard == [dict.fromkeys(KEYS, ErrorCode.NONE)]


def test_a_fenced_producer_gets_an_epoch_error() -> None:
    coordinator = FakeTransactions()
    coordinator.says = {KEYS[0]: ErrorCode.PRODUCER_FENCED, KEYS[1]: ErrorCode.TRANSACTION_ABORTABLE}
    heard: list[object] = []
    manager = AddPartitionsToTxnManager(coordinator, VerificationProbe(), Clock())
    manager.verify(TransactionalProducer("tx", 7, 0, False), KEYS).add_done_callback(heard.append)
    assert heard == [{KEYS[0]: ErrorCode.INVALID_PRODUCER_EPOCH, KEYS[1]: ErrorCode.TRANSACTION_ABORTABLE}]


def test_failures_and_durations_are_counted() -> None:
    coordinator, probe, clock = FakeTransactions(), VerificationProbe(), Clock()
    coordinator.holds = True
    coordinator.says = {KEYS[0]: ErrorCode.INVALID_TXN_STATE}
    AddPartitionsToTxnManager(coordinator, probe, clock).verify(
        TransactionalProducer("tx", 7, 0, False), KEYS
    )
    clock.seconds = 0.25
    coordinator.release()
    assert (probe.times.count, probe.failures, list(probe.times.values())) == (1, 1, [250.0])


def test_the_transactions_of_other_coordinators_are_asked_there() -> None:
    asking, coordinator, probe = Asking(), FakeTransactions(), VerificationProbe()
    manager = AddPartitionsToTxnManager(coordinator, probe, Clock(), asking.remote)
    heard: list[object] = []
    for name in (HERE, THERE, NOWHERE):
        manager.verify(TransactionalProducer(name, 7, 0, False), KEYS).add_done_callback(heard.append)
    assert [asked[1] for asked in coordinator.asked] == [HERE]
    assert asking.requests() == [[(THERE, 0)]]
    asking.respond({THERE: {KEYS[0]: ErrorCode.PRODUCER_FENCED, KEYS[1]: 0}})
    assert heard == [
        dict.fromkeys(KEYS, ErrorCode.NONE),
        dict.fromkeys(KEYS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        {KEYS[0]: ErrorCode.INVALID_PRODUCER_EPOCH, KEYS[1]: ErrorCode.NONE},
    ]
    assert (probe.failures, probe.times.count) == (3, 3)

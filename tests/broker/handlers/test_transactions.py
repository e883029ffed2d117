"""Producer ids and transactions, as clients see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.controller.producer_ids import BLOCK_SIZE
from protocol.errors import ErrorCode
from protocol.messages.transactions import InitProducerIdRequest, InitProducerIdResponse
from tests.broker.broker_fixture import WAITS, InProcessBroker
from tests.broker.held_runner import HeldRunner
from tests.support.difference import Like

IDEMPOTENT = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)


def transactional(name: str) -> InitProducerIdRequest:
    return InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)


@pytest.mark.parametrize("version", range(6))
def test_each_producer_gets_an_id_of_its_own(broker: InProcessBroker, version: int) -> None:
    client = broker.client(version=version)
    for producer_id in range(3):
        assert client >> IDEMPOTENT << InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)


def test_after_a_crash_ids_go_on_behind_the_block(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path)
    assert broker.client(version=5) >> IDEMPOTENT << Like(producer_id=0)
    broker.kill()
    again = InProcessBroker(tmp_path)
    assert again.client(version=5) >> IDEMPOTENT << Like(producer_id=BLOCK_SIZE)
    again.kill()


def test_the_first_id_waits_for_the_disk(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client = broker.client(version=5) >> IDEMPOTENT << WAITS
    runner.release_all()
    assert client << Like(producer_id=0, producer_epoch=0)
    assert client >> IDEMPOTENT << Like(producer_id=1)
    broker.kill()


def test_a_disk_that_refuses_means_try_again(tmp_path: Path) -> None:
    runner = HeldRunner()
    broker = InProcessBroker(tmp_path, runner=runner)
    client = broker.client(version=5) >> IDEMPOTENT << WAITS
    runner.fail(OSError("no space left"))
    assert client << InitProducerIdResponse(
        error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, producer_id=-1, producer_epoch=-1
    )
    assert broker.requests.apis["INIT_PRODUCER_ID"].errors == {"COORDINATOR_NOT_AVAILABLE": 1}
    broker.kill()


def test_a_transactional_id_has_a_letter_at_least(broker: InProcessBroker) -> None:
    assert (
        broker.client(version=5)
        >> transactional("")
        << Like(error_code=ErrorCode.INVALID_REQUEST, producer_id=-1, producer_epoch=-1)
    )

"""The sweeper of expired delegation tokens."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from barnabas.broker.controller.embedded import Decision
from barnabas.broker.controller.token_admin import MAX_REMOVALS
from barnabas.broker.controller.token_sweeper import TokenSweeper
from barnabas.protocol.messages.cluster_records import DelegationTokenRecord
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.held_runner import HeldRunner

INTERVAL_MS = 60_000


class Swept:
    """A broker whose tokens are swept each minute."""

    def __init__(self, broker: InProcessBroker) -> None:
        self.broker = broker
        self.sweeper = TokenSweeper(broker.controller, broker.timer, lambda: broker.env.ms, INTERVAL_MS)
        self.sweeper.start()

    def add(self, count: int, expiry_ms: int, first: int = 0) -> None:
        records = [
            DelegationTokenRecord(
                owner="User:a",
                requester="User:a",
                renewers=[],
                max_timestamp=2**62,
                expiration_timestamp=expiry_ms,
                token_id=f"t{number}",
            )
            for number in range(first, first + count)
        ]
        self.broker.controller.submit(lambda _: Decision(None, records), lambda error: None)

    @property
    def count(self) -> int:
        return len(self.broker.broker.image.tokens)


@pytest.fixture
def swept(broker: InProcessBroker) -> Swept:
    return Swept(broker)


def test_expired_tokens_go_at_each_interval(swept: Swept, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.controller")
    broker = swept.broker
    swept.add(2, broker.env.ms - 1)
    swept.add(1, broker.env.ms, first=2)
    broker.timer.advance(59.9)
    assert swept.count == 3
    broker.timer.advance(0.2)
    assert (swept.count, caplog.messages) == (1, ["removed 2 expired delegation tokens"])
    broker.env.ms += 1
    broker.timer.advance(60)
    assert swept.count == 0


def test_many_go_in_batches_one_after_the_other(swept: Swept) -> None:
    swept.add(2 * MAX_REMOVALS + 1, 0)
    sizes = []
    swept.broker.components.publishers.add(lambda image, delta: sizes.append(len(delta.token_changes)))
    swept.broker.timer.advance(60)
    assert (swept.count, sizes) == (0, [MAX_REMOVALS, MAX_REMOVALS, 1])


def test_a_sweeper_that_is_stopped_does_nothing_more(swept: Swept) -> None:
    swept.add(1, 0)
    swept.sweeper.stop()
    swept.sweeper.stop()
    swept.broker.timer.advance(1000)
    assert swept.count == 1


def test_stopped_while_its_records_are_written(tmp_path: Path) -> None:
    broker = InProcessBroker(tmp_path, runner=(runner := HeldRunner()))
    swept = Swept(broker)
    swept.add(MAX_REMOVALS, 0)
    runner.release()
    broker.timer.advance(60)
    swept.sweeper.stop()
    runner.release()
    before = broker.timer.scheduled
    broker.timer.advance(1000)
    assert (swept.count, broker.timer.scheduled) == (0, before)
    broker.kill()


def test_what_cannot_be_written_is_logged_and_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = InProcessBroker(tmp_path, runner=(runner := HeldRunner()))
    swept = Swept(broker)
    swept.add(1, 0)
    runner.release()
    broker.timer.advance(60)
    runner.fail(OSError("no room"))
    assert "could not be removed: no room" in caplog.text
    broker.timer.advance(60)
    runner.release()
    assert swept.count == 0
    broker.kill()

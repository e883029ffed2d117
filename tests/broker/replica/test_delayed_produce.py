"""What acknowledgements wait for, case by case as the docstring names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.replica.append import AppendError, AppendResult, append_error_of
from barnabas.broker.replica.delayed_produce import DelayedProduce, Unacknowledged
from barnabas.broker.replica.partition import ACKS_ALL, Partition
from barnabas.broker.waiting.purgatory import DelayedOperationPurgatory
from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ErrorCode
from tests.broker.fakes import ManualTimer
from tests.broker.logs import batch, log, partition_image

HERE, ELSEWHERE = 1, 2
KEY = ("t", 0)
TWO = partition_image(replicas=(HERE, ELSEWHERE))


class Waiting:
    """A partition, a purgatory, and how often somebody was answered."""

    def __init__(self, directory: Path, image: PartitionImage, config: LogConfig | None = None) -> None:
        self.partition = Partition("t", b"t" * 16, image, log(directory, config=config), HERE)
        self.timer = ManualTimer()
        self.purgatory = DelayedOperationPurgatory("test", self.timer)
        self.answers = 0
        self.results: list[AppendResult] = []

    def answered(self) -> None:
        self.answers += 1

    @property
    def error(self) -> ErrorCode:
        """What became of the append."""
        return append_error_of(self.results[0])

    def look(self) -> int:
        """Something has happened to the partition."""
        self.purgatory.check_and_complete(KEY)
        return self.answers

    def produce(self, *values: str, acks: int = ACKS_ALL, needs_flush: bool = False) -> None:
        """Appends, and has the acknowledgement wait 500 ms at most."""
        info = self.partition.append_as_leader(batch(*values), acks)
        self.results.append(info)
        waiting = [Unacknowledged(self.partition, 0, info.last_offset + 1, needs_flush)]
        operation = DelayedProduce(500, waiting, self.results, acks)
        operation.pending.add_done_callback(lambda results: self.answered())
        self.purgatory.try_complete_else_watch(operation, [KEY])


@pytest.fixture
def led(tmp_path: Path) -> Waiting:
    """A partition with a follower in its ISR."""
    return Waiting(tmp_path, TWO)


@pytest.fixture
def alone(tmp_path: Path) -> Waiting:
    """A partition with this replica only."""
    return Waiting(tmp_path, partition_image())


def test_acks_of_all_wait_for_the_high_watermark(led: Waiting) -> None:
    led.produce("a", "b")
    assert led.answers == 0
    led.partition.follower_fetched(ELSEWHERE, 1, 0)
    assert led.look() == 0  # case B
    led.partition.follower_fetched(ELSEWHERE, 2, 0)
    assert led.look() == 1
    assert led.error is ErrorCode.NONE


def test_what_is_replicated_already_does_not_wait(alone: Waiting) -> None:
    alone.produce("a")
    assert alone.answers == 1


@pytest.mark.parametrize("acks", [1, ACKS_ALL])
def test_a_flush_policy_waits_for_the_recovery_point(alone: Waiting, acks: int) -> None:
    alone.produce("a", acks=acks, needs_flush=True)
    assert alone.look() == 0  # case C
    alone.partition.log.flush()
    assert alone.look() == 1
    assert alone.error is ErrorCode.NONE


def test_acks_of_one_do_not_wait_for_replicas(led: Waiting) -> None:
    led.produce("a", acks=1, needs_flush=True)
    led.partition.log.flush()
    assert led.look() == 1
    assert led.partition.log.high_watermark == 0


def test_both_are_waited_for_where_both_were_asked_for(led: Waiting) -> None:
    led.produce("a", needs_flush=True)
    led.partition.follower_fetched(ELSEWHERE, 1, 0)
    assert led.look() == 0
    led.partition.log.flush()
    assert led.look() == 1


def test_a_partition_that_another_leads_answers_so(led: Waiting) -> None:
    led.produce("a")
    led.partition.update(partition_image(replicas=(HERE, ELSEWHERE), leader=ELSEWHERE, leader_epoch=1))
    assert led.look() == 1  # case A
    assert led.error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_disk_that_failed_answers_so(alone: Waiting) -> None:
    alone.produce("a", needs_flush=True)
    alone.partition.offline = True
    assert alone.look() == 1
    assert alone.error is ErrorCode.KAFKA_STORAGE_ERROR


def test_time_that_is_over_is_an_error_of_those_that_still_waited(led: Waiting) -> None:
    led.produce("a")
    led.timer.advance(0.5)
    assert led.answers == 1
    assert led.error is ErrorCode.REQUEST_TIMED_OUT
    (error,) = led.results
    assert isinstance(error, AppendError)
    assert error.error_message


def test_an_isr_that_is_too_small_after_the_append_is_an_error(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, TWO, LogConfig(min_insync_replicas=2))
    waiting.produce("a", needs_flush=True)
    waiting.partition.follower_fetched(ELSEWHERE, 1, 0)
    assert waiting.look() == 0
    waiting.partition.update(partition_image(replicas=(HERE, ELSEWHERE), isr=(HERE,), partition_epoch=1))
    assert waiting.look() == 1  # case B
    assert waiting.error is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


def test_an_append_below_min_isr_waits_for_the_high_watermark_that_stands_still(tmp_path: Path) -> None:
    waiting = Waiting(tmp_path, TWO, LogConfig(min_insync_replicas=2))
    waiting.produce("a")
    waiting.partition.update(partition_image(replicas=(HERE, ELSEWHERE), isr=(HERE,), partition_epoch=1))
    assert waiting.look() == 0
    waiting.timer.advance(0.5)
    assert waiting.error is ErrorCode.REQUEST_TIMED_OUT

"""What deletions of records wait for, case by case as the docstring names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.broker.replica.delayed_delete_records import DelayedDeleteRecords, DeletionResult
from barnabas.broker.replica.partition import Partition
from barnabas.broker.waiting.purgatory import DelayedOperationPurgatory
from barnabas.protocol.errors import ErrorCode
from barnabas.storage.offsets import LogStartOffsetIncrementReason
from tests.broker.fakes import ManualTimer
from tests.broker.logs import batch, log, partition_image

HERE, ELSEWHERE = 1, 2
KEY = ("t", 0)
TIMEOUT_MS = 500


class DeletionHarness:
    """A replicated partition with two records, of which the first is deleted here and not yet at the follower."""

    def __init__(self, directory: Path) -> None:
        image = partition_image(replicas=(HERE, ELSEWHERE))
        self.partition = Partition("t", b"t" * 16, image, log(directory), HERE)
        self.timer = ManualTimer()
        self.purgatory = DelayedOperationPurgatory("test", self.timer)
        self.responses: list[list[DeletionResult]] = []
        self.partition.append_as_leader(batch("a", "b"), 1)
        self.follower_fetches(log_start_offset=0)
        self.partition.log.maybe_increment_log_start_offset(
            1, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION
        )
        self.result = DeletionResult("t", 0)
        self.result.required_offset = 1
        operation = DelayedDeleteRecords(TIMEOUT_MS, [(self.partition, self.result)], [self.result])
        operation.pending.add_done_callback(self.responses.append)
        self.purgatory.try_complete_else_watch(operation, [KEY])

    def follower_fetches(self, log_start_offset: int) -> None:
        self.partition.follower_fetched(ELSEWHERE, 2, log_start_offset)


@pytest.fixture
def deletion(tmp_path: Path) -> DeletionHarness:
    return DeletionHarness(tmp_path)


def test_a_deletion_waits_until_each_replica_has_deleted(deletion: DeletionHarness) -> None:
    deletion.purgatory.check_and_complete(KEY)
    assert not deletion.responses
    deletion.follower_fetches(log_start_offset=1)
    deletion.purgatory.check_and_complete(KEY)  # case B
    assert deletion.responses == [[deletion.result]]
    assert (deletion.result.error, deletion.result.low_watermark) == (ErrorCode.NONE, 1)


def test_a_deletion_fails_when_another_broker_leads(deletion: DeletionHarness) -> None:
    deletion.partition.update(partition_image(replicas=(HERE, ELSEWHERE), leader=ELSEWHERE, leader_epoch=1))
    deletion.purgatory.check_and_complete(KEY)  # case A
    assert deletion.responses == [[deletion.result]]
    assert (deletion.result.error, deletion.result.low_watermark) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_deletion_that_times_out_has_the_low_watermark_it_reached(deletion: DeletionHarness) -> None:
    deletion.timer.advance(TIMEOUT_MS / 1000)
    assert deletion.responses == [[deletion.result]]
    assert (deletion.result.error, deletion.result.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)

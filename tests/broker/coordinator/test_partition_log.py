"""ReplicaLogs: appends to, checks and reads of a partition for a coordinator."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.coordinator.errors import as_coordinator
from barnabas.broker.coordinator.partition_log import ReplicaLogs
from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendResult, append_error_of
from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import PartitionChangeRecord
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.control import end_transaction_marker
from barnabas.protocol.records.entries import batches
from barnabas.storage.errors import OutOfResourcesError
from tests.broker.broker_fixture import InProcessBroker
from tests.broker.logs import batch, partition_image
from tests.broker.replica_node import BreakableEnv, Node, T


def logs_of(tmp_path: Path, max_message_bytes: str = "1000000") -> tuple[InProcessBroker, ReplicaLogs]:
    broker = InProcessBroker(tmp_path)
    broker.create_topic("state", max_message_bytes=max_message_bytes)
    return broker, ReplicaLogs("state", broker.replica_manager)


def append(logs: ReplicaLogs, data: bytes) -> AppendResult:
    answer = logs.append(0, data)
    assert not isinstance(answer, Pending)
    return answer


def test_a_log_reports_its_end_and_its_limits(tmp_path: Path) -> None:
    _, logs = logs_of(tmp_path, max_message_bytes="5000")
    assert logs.check(0) == (0, 5000)
    assert append_error_of(append(logs, batch("a", "b"))) is ErrorCode.NONE
    assert logs.check(0) == (2, 5000)


def test_an_absent_partition_or_one_without_leadership_is_reported(tmp_path: Path) -> None:
    broker, logs = logs_of(tmp_path)
    with pytest.raises(ApiError) as caught:
        logs.check(1)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    partition = broker.replica_manager.partition("state", 0)
    partition.leader_id = 2
    for ask in (
        logs.check,
        logs.contents,
        lambda index: logs.start_verification(index, 1, 0, supports_epoch_bump=True),
    ):
        with pytest.raises(ApiError) as caught:
            ask(0)
        assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    partition.leader_id, partition.offline = 1, True
    with pytest.raises(ApiError) as caught:
        logs.check(0)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_too_few_in_sync_replicas_are_detected_before_the_append(tmp_path: Path) -> None:
    broker, logs = logs_of(tmp_path)
    broker.replica_manager.partition("state", 0).isr = ()
    with pytest.raises(ApiError) as caught:
        logs.check(0)
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


def test_reserved_space_is_for_necessary_records(tmp_path: Path) -> None:
    broker, logs = logs_of(tmp_path)
    broker.log_manager.dirs[0].space.is_full = True
    logs.check(0)
    with pytest.raises(ApiError) as caught:
        logs.check(0, is_needed=False)
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert append_error_of(append(logs, batch("a"))) is ErrorCode.NONE


def test_a_log_yields_its_records_segment_by_segment(tmp_path: Path) -> None:
    broker, logs = logs_of(tmp_path)
    assert logs.contents(0) == []
    log = broker.replica_manager.partition("state", 0).log
    for number in range(6):
        append(logs, batch(f"{number}", "x"))
        if number % 2:
            log.roll()
    pieces = logs.contents(0)
    assert len(pieces) == 3
    assert [found.base_offset for piece in pieces for found in batches(piece.read())] == [0, 2, 4, 6, 8, 10]
    log.offsets.log_start_offset = 5
    pieces = logs.contents(0)
    assert [found.base_offset for piece in pieces for found in batches(piece.read())] == [4, 6, 8, 10]


@pytest.mark.parametrize(("code", "raised"), [(errno.EIO, ApiError), (errno.EMFILE, OutOfResourcesError)])
def test_an_unreadable_log_takes_its_directory_offline_if_the_disk_failed(
    tmp_path: Path, code: int, raised: type[Exception]
) -> None:
    env = BreakableEnv()
    broker = InProcessBroker(tmp_path, env=env)
    broker.create_topic("state")
    logs = ReplicaLogs("state", broker.replica_manager)
    append(logs, batch("a"))
    broker.replica_manager.partition("state", 0).log.release()
    env.errno = code
    env.broken.add("open")
    with pytest.raises(raised):
        logs.contents(0)
    assert broker.replica_manager.is_offline("state", 0) is (code == errno.EIO)
    env.broken.clear()
    broker.kill()


def test_a_transactional_batch_is_checked_without_being_written(tmp_path: Path) -> None:
    broker, logs = logs_of(tmp_path)
    data = batch("a", producer_id=5, producer_epoch=3)
    logs.check_batch(0, data, None)
    append(logs, data)
    with pytest.raises(ApiError) as caught:
        logs.check_batch(0, batch("a", producer_id=5, producer_epoch=2), None)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.replica_manager.partition("state", 0).log.log_end_offset == 1


def test_a_marker_of_an_older_coordinator_is_rejected(tmp_path: Path) -> None:
    broker, logs = logs_of(tmp_path)

    def marker(epoch: int) -> bytes:
        return end_transaction_marker(
            commit=True, coordinator_epoch=epoch, producer_id=5, producer_epoch=0, timestamp=0
        )

    assert append_error_of(append(logs, marker(2))) is ErrorCode.NONE
    assert append_error_of(append(logs, marker(1))) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert RecordBatch(marker(2)).is_control
    assert broker.replica_manager.partition("state", 0).log.log_end_offset == 1


def test_a_verification_begins_once_for_a_transaction(tmp_path: Path) -> None:
    _, logs = logs_of(tmp_path)
    guard = logs.start_verification(0, 5, 0, supports_epoch_bump=False)
    assert guard is not None
    assert logs.start_verification(0, 5, 0, supports_epoch_bump=False) is guard


def test_an_old_epoch_is_not_verified(tmp_path: Path) -> None:
    broker, logs = logs_of(tmp_path)
    marker = end_transaction_marker(
        commit=False, coordinator_epoch=0, producer_id=5, producer_epoch=1, timestamp=0
    )
    append(logs, marker)
    with pytest.raises(ApiError) as caught:
        logs.start_verification(0, 5, 0, supports_epoch_bump=False)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (
        broker.replica_manager.partition("state", 0).log.producer_state_manager.verifications.get(5) is None
    )


# ---- several replicas


class Replicated:
    """A partition with a follower in the ISR that never fetches: the high watermark moves when it leaves the ISR."""

    def __init__(self, log_dir: Path, config: LogConfig | None = None) -> None:
        self.node = Node(log_dir, config=config)
        self.node.create("state", T, partition_image(replicas=(1, 2)))
        self.logs = ReplicaLogs("state", self.node.manager)

    def append(self, *values: str) -> list[AppendResult]:
        """The result, when it is there."""
        found: list[AppendResult] = []
        answer = self.logs.append(0, batch(*values))
        if isinstance(answer, Pending):
            answer.add_done_callback(found.append)
        else:
            found.append(answer)
        return found

    def change(self, **changes: Any) -> None:
        self.node.commit(PartitionChangeRecord(partition_id=0, topic_id=T, **changes))


def test_an_append_is_committed_when_the_high_watermark_passes_it(tmp_path: Path) -> None:
    replicated = Replicated(tmp_path)
    first, second = replicated.append("a", "b"), replicated.append("c")
    assert (first, second, replicated.node.log("state")) == ([], [], (0, 3))
    replicated.change(isr=[1])
    assert [append_error_of(only) for only in (*first, *second)] == [ErrorCode.NONE] * 2
    third = replicated.append("d")
    assert [append_error_of(only) for only in third] == [ErrorCode.NONE]


def test_a_leader_that_resigns_neither_commits_nor_fails_what_it_has_appended(tmp_path: Path) -> None:
    replicated = Replicated(tmp_path)
    told = replicated.append("a")
    replicated.change(leader=2)
    assert (told, replicated.node.manager.produce_purgatory.watched) == ([], 0)
    replicated.change(leader=1, isr=[1])
    assert told == []


def test_a_failed_disk_neither_commits_nor_fails_what_was_appended(tmp_path: Path) -> None:
    replicated = Replicated(tmp_path)
    told = replicated.append("a")
    replicated.node.manager.log_dir_failed(str(tmp_path))
    assert (told, replicated.node.manager.produce_purgatory.watched) == ([], 0)


def test_a_flushed_append_waits_for_the_high_watermark_too(tmp_path: Path) -> None:
    replicated = Replicated(tmp_path, LogConfig(flush_messages=1))
    told = replicated.append("a")
    assert told == []
    replicated.node.disk.release_all()
    assert told == []
    replicated.change(isr=[1])
    assert [append_error_of(only) for only in told] == [ErrorCode.NONE]
    told = replicated.append("b")
    assert told == []
    replicated.node.disk.release_all()
    assert [append_error_of(only) for only in told] == [ErrorCode.NONE]


def test_a_leader_that_resigns_before_the_flush_is_silent(tmp_path: Path) -> None:
    replicated = Replicated(tmp_path, LogConfig(flush_messages=1))
    told = replicated.append("a")
    replicated.change(leader=2)
    replicated.node.disk.release_all()
    assert told == []


def test_records_above_the_high_watermark_are_reported(tmp_path: Path) -> None:
    replicated = Replicated(tmp_path)
    assert replicated.logs.uncommitted(0) is None
    replicated.append("a")
    behind = replicated.logs.uncommitted(0)
    told: list[object] = []
    assert behind is not None
    behind.add_done_callback(told.append)
    assert told == []
    replicated.change(isr=[1])
    assert told == [None]
    assert replicated.logs.uncommitted(0) is None
    replicated.change(leader=2)
    with pytest.raises(ApiError) as caught:
        replicated.logs.uncommitted(0)
    assert caught.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("code", list(ErrorCode))
def test_errors_of_an_append_are_mapped_to_those_of_coordinators(code: ErrorCode) -> None:
    told = {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
        ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
        ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
    assert as_coordinator(ApiError(code, "why")).code is told.get(code, code)
    assert as_coordinator(ApiError(code, "why")).message == "why"

"""Many partitions: they follow the metadata, and appends to several are answered together."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker.fetch.partition import size_of
from barnabas.broker.kafka_apis.handlers.fetch import READ_COMMITTED
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.pending import completed
from barnabas.broker.replica.append import AppendError, append_error_of
from barnabas.broker.replica.moves.alter_log_dirs import ReplicaAlterLogDirsManager
from barnabas.broker.replica.moves.replication_quota import ReplicationQuota
from barnabas.broker.replica.partition import ACKS_ALL, Partition
from barnabas.config.log_config import LogConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.topic_records import PartitionChangeRecord, RemoveTopicRecord
from barnabas.protocol.records.builder import build_batch
from barnabas.protocol.records.control import end_transaction_marker
from barnabas.protocol.records.errors import InvalidRecordError
from barnabas.protocol.wire import ZERO_UUID
from barnabas.storage.errors import DiskFullError, KafkaStorageError
from barnabas.storage.offsets import AppendOrigin, FetchIsolation, LogAppendInfo
from tests.broker.cluster_images import fencing, registration
from tests.broker.held_runner import HeldRunner
from tests.broker.logs import START_MS, batch, partition_image
from tests.broker.replica.isr_harness import Cluster, FakeFetchers, truncating_follower
from tests.broker.replica_node import (
    BOTH,
    ELSEWHERE,
    HERE,
    Node,
    T,
    U,
    creation,
    errors,
    pending,
    result,
    wanted,
)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


# ---- following the metadata


def test_a_new_topic_gets_a_log_for_each_local_replica(node: Node, tmp_path: Path) -> None:
    elsewhere = partition_image(partition=1, replicas=(ELSEWHERE,), leader=ELSEWHERE)
    node.create("t", T, partition_image(), elsewhere, partition_image(partition=2))
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["t-0", "t-2"]
    assert [str(partition) for partition in node.manager.partitions()] == ["t-0", "t-2"]
    assert node.manager.partition("t", 0, T).log.topic_id == T
    assert [node.manager.is_offline("t", index) for index in range(3)] == [False, True, False]


def test_the_loop_may_run_while_the_partitions_of_the_start_are_made(node: Node) -> None:
    node.manager.slice_size = 2
    elsewhere = [
        partition_image(partition=index, replicas=(ELSEWHERE,), leader=ELSEWHERE) for index in range(1, 4)
    ]
    image, _ = replayed(
        node.image, [*creation("t", T, partition_image(), *elsewhere), *creation("u", U, partition_image())]
    )
    slices = node.manager.begin(image)
    next(slices)
    assert [str(partition) for partition in node.manager.partitions()] == ["t-0"]
    next(slices)
    assert len(list(slices)) == 0
    assert [str(partition) for partition in node.manager.partitions()] == ["t-0", "u-0"]


def test_changes_without_disk_work_are_not_prepared(node: Node) -> None:
    node.create()
    change = PartitionChangeRecord(partition_id=0, topic_id=T, leader=HERE)
    image, delta = replayed(node.image, [change])
    assert node.manager.prepare(image, delta) is None


def test_a_deleted_topic_loses_its_logs(node: Node, tmp_path: Path) -> None:
    node.create()
    node.append(("t", 0, batch("a")))
    node.delete()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("t-0.")]
    assert not (tmp_path / "t-0").exists()
    with pytest.raises(ApiError) as caught:
        node.manager.partition("t", 0)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.probe.lines[-1] == "t deleted"


@pytest.mark.parametrize("prepared", [True, False])
def test_a_reused_name_is_another_topic(node: Node, *, prepared: bool) -> None:
    node.create("t", T)
    node.append(("t", 0, batch("a")))
    node.commit(RemoveTopicRecord(topic_id=T), prepared=prepared)
    node.commit(*creation("t", U), prepared=prepared)
    assert node.log() == (0, 0)
    assert node.manager.partition("t", 0, U).log.topic_id == U
    with pytest.raises(ApiError) as caught:
        node.manager.partition("t", 0, T)
    assert caught.value.code is ErrorCode.INCONSISTENT_TOPIC_ID


def test_an_unknown_topic_id_has_its_own_error(node: Node) -> None:
    with pytest.raises(ApiError) as caught:
        node.manager.partition(None, 0, T)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_ID


def test_a_disk_error_during_the_creation_of_a_log_takes_its_directory_offline(node: Node) -> None:
    node.env.broken.add("mkdir")
    node.commit(*creation("u", U), prepared=False)
    assert len(node.failed_dirs) == 1
    assert node.manager.is_offline("u", 0)
    node.env.broken.clear()
    node.elect(U, HERE)
    assert errors(node.append(("u", 0, batch("a")))) == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_partition_without_a_log_is_offline_until_it_gets_one(node: Node) -> None:
    node.env.errno = errno.ENOSPC  # any other error would take the whole log directory offline
    node.env.broken.add("mkdir")
    with pytest.raises(OSError, match="mkdir"):
        node.create()
    node.commit(*creation("u", U), prepared=False)
    assert node.manager.is_offline("u", 0)
    assert errors(node.append(("u", 0, batch("a")))) == [ErrorCode.KAFKA_STORAGE_ERROR]

    node.env.broken.clear()
    node.elect(U, HERE)
    assert errors(node.append(("u", 0, batch("a")))) == [ErrorCode.NONE]


def test_a_topic_without_a_log_can_be_deleted(node: Node) -> None:
    node.env.broken.add("mkdir")
    node.commit(*creation("t", T), prepared=False)
    node.delete()
    with pytest.raises(ApiError) as caught:
        node.manager.partition("t", 0)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_files_that_cannot_be_removed_do_not_keep_the_topic(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.create()
    node.env.broken.add("rename")
    node.delete()
    assert [*node.manager.partitions()] == []
    assert "still there" in caplog.text


def test_a_failed_checkpoint_leaves_the_new_partition_offline(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    """The checkpoints contain the former topic of the name, and cannot be rewritten."""
    node.create()
    node.log_manager.dirs.checkpoint_all()
    node.delete()
    node.env.broken.add("rename")
    node.create("t", U)
    assert "cannot be planned" in caplog.text
    assert node.manager.is_offline("t", 0)
    node.env.broken.clear()
    node.elect(U, HERE)
    assert errors(node.append(("t", 0, batch("a")))) == [ErrorCode.NONE]


def test_a_topic_may_be_created_and_deleted_in_one_step(node: Node, tmp_path: Path) -> None:
    node.create()
    node.commit(RemoveTopicRecord(topic_id=T), *creation("u", U))
    assert [str(partition) for partition in node.manager.partitions()] == ["u-0"]
    assert not (tmp_path / "t-0").exists()


# ---- appending


def test_every_partition_has_its_own_result(node: Node) -> None:
    node.create("t", T, partition_image(), partition_image(partition=1))
    appended, failed, last = result(
        node.append(("t", 1, batch("a", "b")), ("u", 0, batch("c")), ("t", 0, batch("d")))
    )
    assert isinstance(appended, LogAppendInfo)
    assert isinstance(last, LogAppendInfo)
    assert (appended.last_offset, last.last_offset) == (1, 0)
    assert append_error_of(failed) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert node.probe.lines == ["t +2", "u UNKNOWN_TOPIC_OR_PARTITION", "t +1"]


def test_an_unknown_id_has_its_error(node: Node) -> None:
    assert errors(node.append((None, 0, batch("a")), topic_id=T)) == [ErrorCode.UNKNOWN_TOPIC_ID]


def test_a_batch_rejected_before_is_not_appended(node: Node) -> None:
    node.create()
    refusal = InvalidRecordError("no", [(0, "not this one")])
    (answer,) = result(node.append(("t", 0, batch("a")), refusal=refusal))
    assert isinstance(answer, AppendError)
    assert (answer.error, answer.error_message) == (ErrorCode.INVALID_RECORD, "no")
    assert answer.record_errors == [(0, "not this one")]
    assert answer.log_start_offset == -1
    assert node.log() == (0, 0)
    assert node.probe.lines == ["t INVALID_RECORD", "t InvalidRecordError"]


def test_an_unknown_partition_takes_precedence_over_invalid_records(node: Node) -> None:
    refusal = InvalidRecordError("no")
    unknown = node.append(("t", 0, batch("a")), refusal=refusal)
    assert errors(unknown) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


@pytest.mark.parametrize(
    ("records", "code", "log_start_offset"),
    [
        (batch("x" * 200), ErrorCode.MESSAGE_TOO_LARGE, -1),
        (bytes(61), ErrorCode.CORRUPT_MESSAGE, -1),
        (batch("a", timestamp=5), ErrorCode.INVALID_TIMESTAMP, 0),
    ],
)
def test_a_rejected_append_has_a_message(
    tmp_path: Path, records: bytes, code: ErrorCode, log_start_offset: int
) -> None:
    node = Node(tmp_path, config=LogConfig(max_message_bytes=200, message_timestamp_before_max_ms=1000))
    node.create()
    (answer,) = result(node.append(("t", 0, records)))
    assert isinstance(answer, AppendError)
    assert (answer.error, answer.log_start_offset) == (code, log_start_offset)
    assert answer.error_message
    assert node.probe.lines == [f"t {code.name}"]


def test_a_failed_write_is_reported(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.create()
    (directory,) = node.log_manager.dirs
    node.env.broken.add("write")
    assert errors(node.append(("t", 0, batch("a")))) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert "append to t-0 failed, its log directory is taken offline" in caplog.text
    assert node.failed_dirs == [directory.path]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EMFILE])
def test_a_full_disk_takes_no_directory_offline(
    node: Node, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    node.create()
    node.env.errno = code
    node.env.broken.add("write")
    wanted_code = ErrorCode.KAFKA_STORAGE_ERROR if code == errno.EMFILE else ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        (answer,) = result(node.append(("t", 0, batch("a"))))
        assert isinstance(answer, AppendError)
        assert answer.error is wanted_code
        assert answer.error_message
        assert os.strerror(code) in answer.error_message
    assert node.failed_dirs == []
    assert not caplog.messages  # one line at the change of state, by the guard; none for each request
    node.env.broken.clear()
    assert errors(node.append(("t", 0, batch("a")))) == [ErrorCode.NONE]
    assert node.log() == (1, 1)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC])
def test_a_read_without_process_resources_takes_no_directory_offline(node: Node, code: int) -> None:
    """A segment that is closed has to be opened, by a broker that has reached its limit of open files."""
    node.create()
    node.append(("t", 0, batch("a")))
    node.manager.partition("t", 0).log.release()
    node.env.errno = code
    node.env.broken.add("open")
    (data,) = result(node.fetch(wanted()))
    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.failed_dirs == []
    node.env.broken.clear()
    (data,) = result(node.fetch(wanted()))
    assert (data.error_code, size_of(data) > 0) == (ErrorCode.NONE, True)


def test_a_read_error_takes_the_directory_offline(node: Node, tmp_path: Path) -> None:
    node.create()
    node.append(("t", 0, batch("a")))
    node.manager.partition("t", 0).log.release()
    node.env.broken.add("open")
    (data,) = result(node.fetch(wanted()))
    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert node.failed_dirs == [str(tmp_path)]


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO])
def test_a_failed_lookup_fails_the_waiting_fetch_and_not_the_append(node: Node, code: int) -> None:
    """The start of the next open transaction has to be looked up in a segment that is closed."""
    node.create()
    transactions = [
        build_batch(
            [(None, b"a", START_MS, ())],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        for producer_id in (5, 6)
    ]
    for records in transactions:
        assert errors(node.append(("t", 0, records))) == [ErrorCode.NONE]
    log = node.manager.partition("t", 0).log
    log.roll()
    node.append(("t", 0, batch("b")))
    answer = node.fetch(wanted(), isolation_level=READ_COMMITTED)
    assert not answer.done
    log.segments[0].release()
    node.env.errno = code
    node.env.broken.add("open")
    marker = end_transaction_marker(
        commit=True, coordinator_epoch=0, producer_id=5, producer_epoch=0, timestamp=START_MS
    )
    written = node.manager.append_records(
        [("t", 0, ZERO_UUID, marker, None)], ACKS_ALL, 500, origin=AppendOrigin.COORDINATOR
    )
    assert errors(pending(written)) == [ErrorCode.NONE]
    (data,) = result(answer)
    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert bool(node.failed_dirs) is (code == errno.EIO)


def test_produces_are_rejected_below_the_space_limit_and_accepted_above(tmp_path: Path) -> None:
    node = Node(tmp_path, min_free_bytes=10_000)
    node.env.space = (100_000, 9_999)
    node.create()
    space = node.log_manager.dirs[0].space
    space.check()
    (answer,) = result(node.append(("t", 0, batch("a"))))
    assert isinstance(answer, AppendError)
    assert answer.error is ErrorCode.NOT_ENOUGH_REPLICAS
    assert "9999 bytes are free, 10000 are required" in (answer.error_message or "")
    assert node.probe.lines == ["t NOT_ENOUGH_REPLICAS"]
    no_space = node.manager.no_space_error()
    assert no_space is not None
    assert no_space.code is ErrorCode.KAFKA_STORAGE_ERROR
    node.env.space = (100_000, 20_000)
    space.check()
    assert node.manager.no_space_error() is None
    assert errors(node.append(("t", 0, batch("a")))) == [ErrorCode.NONE]


def test_new_partitions_are_placed_where_there_is_space(tmp_path: Path) -> None:
    node = Node(tmp_path / "a", tmp_path / "b", min_free_bytes=10_000)
    full, roomy = node.log_manager.dirs
    full.space.apply((100_000, 5_000))
    node.create("t", T, partition_image(), partition_image(partition=1))
    assert (len(full.logs), len(roomy.logs)) == (0, 2)
    node.env.space = (100_000, 5_000)
    assert node.manager.no_space_error() is not None  # measured by this call


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE])
def test_epochs_that_a_full_disk_rejected_are_written_once_there_is_space(
    tmp_path: Path, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    """The batches are synced, but the recovery point must not pass an epoch that is not on disk."""
    node = Node(tmp_path, config=LogConfig(flush_messages=1))
    node.create()
    answer = node.append(("t", 0, batch("a")))
    node.env.errno = code
    node.env.broken.add("write")
    node.disk.release()
    assert not answer.done
    assert "flush of t-0 has to wait" in caplog.text
    assert node.failed_dirs == []
    node.env.broken.clear()
    node.manager.flusher.flush(node.manager.partition("t", 0).log)
    node.disk.release_all()
    assert errors(answer) == [ErrorCode.NONE]


def test_acks_all_waits_for_the_isr(node: Node) -> None:
    node.create("t", T, BOTH)
    node.create("u", U)
    both = node.append(("t", 0, batch("a")), ("u", 0, batch("b")))
    assert not both.done
    node.fetch(wanted("t", offset=1), replica_id=ELSEWHERE, max_wait_ms=0)
    assert errors(both) == [ErrorCode.NONE, ErrorCode.NONE]


@pytest.mark.parametrize("acks", [0, 1])
def test_other_acks_do_not_wait(node: Node, acks: int) -> None:
    node.create("t", T, BOTH)
    assert errors(node.append(("t", 0, batch("a")), acks=acks)) == [ErrorCode.NONE]
    assert node.log() == (0, 1)


def test_a_waiting_produce_times_out(node: Node) -> None:
    node.create("t", T, BOTH)
    node.create("u", U)
    both = node.append(("t", 0, batch("a")), ("u", 0, batch("b")))
    node.timer.advance(0.5)
    assert errors(both) == [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NONE]


def test_waiting_produces_end_with_the_leadership_and_with_the_topic(node: Node) -> None:
    node.create("t", T, BOTH)
    node.create("u", U, BOTH)
    moved = node.append(("t", 0, batch("a")))
    deleted = node.append(("u", 0, batch("a")))
    node.elect(T, ELSEWHERE)
    node.delete(U)
    assert errors(moved) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert errors(deleted) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


# ---- durability


@pytest.fixture
def durable(tmp_path: Path) -> Node:
    """A node that syncs every record before it acknowledges it."""
    node = Node(tmp_path / "one", tmp_path / "two", config=LogConfig(flush_messages=1))
    node.create("t", T, partition_image(), partition_image(partition=1), partition_image(partition=2))
    return node


@pytest.mark.parametrize("acks", [1, ACKS_ALL])
def test_with_a_flush_policy_responses_wait_for_the_disk(durable: Node, acks: int) -> None:
    first = durable.append(("t", 0, batch("a")), acks=acks)
    second = durable.append(("t", 0, batch("b")), acks=acks)
    assert (first.done, durable.disk.held) == (False, 1)
    durable.disk.release()
    assert (errors(first), second.done) == ([ErrorCode.NONE], False)
    durable.disk.release()
    assert errors(second) == [ErrorCode.NONE]


def test_with_acks_0_the_disk_is_synced_without_a_wait(durable: Node) -> None:
    assert errors(durable.append(("t", 0, batch("a")), acks=0)) == [ErrorCode.NONE]
    assert durable.disk.held == 1


def test_no_request_waits_for_the_sync_after_a_roll(tmp_path: Path) -> None:
    node = Node(tmp_path, config=LogConfig(segment_bytes=1024 * 1024))
    node.create()
    node.append(("t", 0, batch("a")))
    node.manager.partition("t", 0).log.roll()
    assert errors(node.append(("t", 0, batch("b")))) == [ErrorCode.NONE]
    assert node.disk.held == 1


def test_a_duplicate_is_acknowledged_once_the_first_copy_is_durable(node: Node) -> None:
    node.create()
    once = batch("a", producer_id=7, producer_epoch=0, base_sequence=0)
    node.append(("t", 0, once))
    node.manager.flusher.flush(node.manager.partition("t", 0).log)
    again = node.append(("t", 0, once))
    assert not again.done
    node.disk.release()
    (answer,) = result(again)
    assert isinstance(answer, LogAppendInfo)
    assert answer.first_offset == 0
    assert node.probe.lines == ["t +1"]  # it counts once


def test_a_failed_sync_takes_only_its_directory_offline(durable: Node) -> None:
    waiting = durable.append(("t", 0, batch("a")))
    durable.env.broken.add("sync")
    durable.disk.release()
    assert errors(waiting) == [ErrorCode.KAFKA_STORAGE_ERROR]
    (failed,) = durable.failed_dirs
    assert set(durable.manager.log_manager.dirs.offline) == {failed}
    offline = [durable.manager.is_offline("t", index) for index in range(3)]
    assert offline == [
        durable.manager.partition("t", index).log.directory.startswith(failed) for index in range(3)
    ]
    assert sorted(set(offline)) == [False, True]


def test_waiting_produces_on_other_partitions_of_a_failed_directory_fail(durable: Node) -> None:
    by_directory: dict[str, list[int]] = {}
    for partition in durable.manager.partitions():
        by_directory.setdefault(partition.log.directory.rpartition("/")[0], []).append(partition.index)
    directory, (first, second) = next(item for item in by_directory.items() if len(item[1]) == 2)
    waiting = durable.append(("t", first, batch("a")))
    reading = durable.fetch(wanted("t", second))
    durable.manager.log_dir_failed(directory)
    assert errors(waiting) == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert [each.error_code for each in result(reading)] == [ErrorCode.KAFKA_STORAGE_ERROR]


def test_a_topic_deleted_during_its_sync_is_no_disk_failure(durable: Node) -> None:
    waiting = durable.append(("t", 0, batch("a")))
    durable.delete()
    durable.disk.release_all()
    assert errors(waiting) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert durable.failed_dirs == []


# ---- deleting records


def test_a_deletion_waits_for_the_replicas(node: Node) -> None:
    node.create("t", T, BOTH)
    node.create("u", U)
    node.append(("t", 0, batch("a", "b")), ("u", 0, batch("c")))
    node.fetch(wanted("t", offset=2), replica_id=ELSEWHERE, max_wait_ms=0)
    answer = pending(node.manager.delete_records({("t", 0): 1, ("u", 0): 1}, 500))
    assert not answer.done
    node.fetch(wanted("t", offset=2, log_start_offset=0), replica_id=ELSEWHERE, max_wait_ms=0)
    assert not answer.done
    node.fetch(wanted("t", offset=2, log_start_offset=1), replica_id=ELSEWHERE, max_wait_ms=0)
    assert [(it.topic, it.error, it.low_watermark) for it in result(answer)] == [
        ("t", ErrorCode.NONE, 1),
        ("u", ErrorCode.NONE, 1),
    ]


def test_a_deletion_times_out(node: Node) -> None:
    node.create("t", T, BOTH)
    node.append(("t", 0, batch("a")))
    node.fetch(wanted("t", offset=1, log_start_offset=0), replica_id=ELSEWHERE, max_wait_ms=0)
    answer = pending(node.manager.delete_records({("t", 0): -1}, 500))
    node.timer.advance(0.4)
    assert not answer.done
    node.timer.advance(0.2)
    (deleted,) = result(answer)
    assert (deleted.error, deleted.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)


@pytest.mark.parametrize(
    ("happens", "code"),
    [
        (lambda node: node.elect(T, ELSEWHERE), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (lambda node: node.delete(), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (
            lambda node: node.manager.log_dir_failed(node.log_manager.dirs[0].path),
            ErrorCode.KAFKA_STORAGE_ERROR,
        ),
    ],
    ids=["another leads", "deleted", "offline"],
)
def test_a_deletion_ends_with_the_partition(
    node: Node, happens: Callable[[Node], None], code: ErrorCode
) -> None:
    node.create("t", T, BOTH)
    node.append(("t", 0, batch("a")))
    node.fetch(wanted("t", offset=1), replica_id=ELSEWHERE, max_wait_ms=0)
    answer = pending(node.manager.delete_records({("t", 0): 1}, 500))
    happens(node)
    (deleted,) = result(answer)
    assert (deleted.error, deleted.low_watermark) == (code, -1)


# ---- group commit


def syncs(node: Node) -> list[str]:
    """The partitions whose segments were synced, in order."""
    return [path.split("/")[-2] for path in node.env.synced if path.endswith(".log")]


def test_many_requests_on_one_partition_share_an_fsync(durable: Node) -> None:
    first = durable.append(("t", 0, batch("a")))
    others = [durable.append(("t", 0, batch("b"))) for _ in range(20)]
    assert syncs(durable) == []  # the loop has not touched the disk
    assert durable.disk.held == 1
    durable.disk.release()
    assert first.done
    assert not any(answer.done for answer in others)  # they came after that round had begun
    durable.disk.release()
    assert all(errors(answer) == [ErrorCode.NONE] for answer in others)
    assert syncs(durable) == ["t-0", "t-0"]
    assert durable.disk.held == 0


def test_each_of_many_partitions_has_one_fsync_in_a_round(tmp_path: Path) -> None:
    durable = Node(tmp_path, config=LogConfig(flush_messages=1))
    count = 20
    durable.create("t", T, *(partition_image(partition=index) for index in range(count)))
    answers = [durable.append(*(("t", index, batch("a")) for index in range(count))) for _ in range(10)]
    assert syncs(durable) == []
    for _ in range(count):
        durable.disk.release()
    assert sorted(syncs(durable)) == sorted(f"t-{index}" for index in range(count))
    assert [answer.done for answer in answers] == [True] + [False] * 9
    durable.disk.release_all()
    assert all(set(errors(answer)) == {ErrorCode.NONE} for answer in answers)
    assert len(syncs(durable)) == 2 * count  # ten requests for each partition, and two syncs


# ---- in a cluster


KEY = ("t", 0)
EPOCH = 5
THIRD = 3
LED = partition_image(replicas=(HERE, ELSEWHERE), leader_epoch=EPOCH)
FOLLOWED = partition_image(replicas=(HERE, ELSEWHERE), leader=ELSEWHERE, leader_epoch=EPOCH)


@pytest.fixture
def fetchers() -> FakeFetchers:
    return FakeFetchers()


@pytest.fixture
def member(tmp_path: Path, fetchers: FakeFetchers) -> Node:
    """A broker of a cluster of three."""
    made = Node(tmp_path, context=Cluster().context)
    assert made.manager.roles is not None
    made.manager.roles.fetchers = fetchers
    made.commit(registration(HERE), registration(ELSEWHERE), registration(THIRD))
    fetchers.lines.clear()
    return made


@pytest.fixture
def follower(tmp_path: Path) -> Node:
    return truncating_follower(tmp_path)


def the_partition(node: Node) -> Partition:
    found = node.manager.find(*KEY)
    assert found is not None
    return found


def change(node: Node, **changed: Any) -> None:
    node.commit(PartitionChangeRecord(partition_id=0, topic_id=T, **changed))


def test_a_replica_that_moved_away_is_stopped_and_deleted(member: Node, fetchers: FakeFetchers) -> None:
    member.create("t", T, LED)
    waiting = member.append(("t", 0, batch("a")))
    poll = member.fetch(wanted(offset=0))
    change(member, leader=ELSEWHERE, replicas=[ELSEWHERE, THIRD], isr=[ELSEWHERE])
    assert errors(waiting) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert result(poll)[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (member.manager.find(*KEY), member.log_manager.get_log(*KEY)) == (None, None)
    assert "remove t-0" in fetchers.lines
    change(member, replicas=[ELSEWHERE, HERE])
    assert the_partition(member).log_end_offset == 0
    assert fetchers.fetched == {KEY: (ELSEWHERE, EPOCH + 1, 0)}


def test_partitions_of_others_are_led_elsewhere_and_unknown_ones_unknown(member: Node) -> None:
    member.create("t", T, partition_image(replicas=(ELSEWHERE,), leader=ELSEWHERE))
    for index, code in ((0, ErrorCode.NOT_LEADER_OR_FOLLOWER), (1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)):
        with pytest.raises(ApiError) as caught:
            member.manager.partition("t", index)
        assert caught.value.code is code
    member.commit(RemoveTopicRecord(topic_id=T))
    with pytest.raises(ApiError) as caught:
        member.manager.partition("t", 0)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_disk_that_failed_ends_the_fetching(member: Node, fetchers: FakeFetchers) -> None:
    member.create("t", T, FOLLOWED)
    member.manager.log_dir_failed(member.log_manager.dirs[0].path)
    assert fetchers.fetched == {}
    member.elect(T, THIRD)
    assert fetchers.fetched == {}


def test_dead_brokers_are_not_waited_for(member: Node) -> None:
    member.create("t", T, LED)
    member.append(("t", 0, batch("a")), acks=1)
    member.fetch(wanted(offset=1, log_start_offset=0), replica_id=ELSEWHERE, max_wait_ms=0)
    deletion = pending(member.manager.delete_records({KEY: 1}, 500))
    assert not deletion.done
    member.commit(fencing(ELSEWHERE, fenced=True))
    assert [(one.error, one.low_watermark) for one in result(deletion)] == [(ErrorCode.NONE, 1)]


def test_what_a_follower_appends_is_flushed_by_its_own_policy(tmp_path: Path) -> None:
    node = Node(tmp_path, config=LogConfig(flush_messages=1), context=Cluster().context)
    node.commit(registration(HERE), registration(ELSEWHERE))
    leader = Node(tmp_path / "leader")
    leader.create("t", T, partition_image(leader_epoch=EPOCH))
    leader.append(("t", 0, batch("a")))
    log = leader.manager.partition("t", 0).log
    records = log.read(0, 1000, FetchIsolation.LOG_END, min_one_message=True).records.read()
    node.create("t", T, FOLLOWED)
    follower = the_partition(node)
    info = follower.append_as_follower(records, EPOCH)
    node.manager.follower_appended(follower, info, len(records))
    assert node.disk.held == 1
    node.disk.release_all()
    assert follower.log.recovery_point == 1


@pytest.mark.parametrize("is_added", [False, True])
def test_what_a_follower_appends_counts_and_that_of_a_reassignment_twice(
    tmp_path: Path, is_added: bool
) -> None:
    context = Cluster().context
    node = Node(tmp_path, context=context)
    node.commit(registration(HERE), registration(ELSEWHERE))
    node.create("t", T, FOLLOWED)
    if is_added:
        node.commit(PartitionChangeRecord(partition_id=0, topic_id=T, adding_replicas=[HERE]))
    info = the_partition(node).append_as_follower(batch("a"), EPOCH)
    node.manager.follower_appended(the_partition(node), info, 100)
    assert (context.traffic.bytes_in, context.traffic.reassignment_bytes_in) == (100, 100 * is_added)


@pytest.mark.parametrize(
    ("error", "is_of_disk"),
    [(KafkaStorageError("broken"), True), (DiskFullError("full"), False), (ValueError("a bug"), False)],
)
def test_a_follower_that_fails_on_its_disk_takes_the_directory_offline(
    member: Node, error: Exception, is_of_disk: bool
) -> None:
    member.create("t", T, FOLLOWED)
    member.manager.follower_failed(the_partition(member), error)
    assert bool(member.failed_dirs) is is_of_disk


def test_a_change_of_the_role_waits_for_the_end_of_a_truncation(follower: Node) -> None:
    partition = the_partition(follower)
    partition.truncate_to(1)
    follower.elect(T, ELSEWHERE)
    follower.elect(T, HERE)
    assert (partition.leader_id, partition.leader_epoch) == (ELSEWHERE, EPOCH + 1)
    follower.disk.release_all()
    assert (partition.leader_id, partition.leader_epoch) == (HERE, EPOCH + 3)
    assert partition.epoch_start == 1


def test_a_replica_that_is_removed_during_a_truncation_goes_after_it(follower: Node) -> None:
    the_partition(follower).truncate_to(1)
    follower.commit(PartitionChangeRecord(partition_id=0, topic_id=T, replicas=[ELSEWHERE], isr=[ELSEWHERE]))
    assert follower.manager.find("t", 0) is not None
    follower.disk.release_all()
    assert follower.manager.find("t", 0) is None
    assert follower.log_manager.get_log("t", 0) is None


def test_a_topic_that_is_deleted_during_a_truncation_is_gone_after_it(follower: Node) -> None:
    partition = the_partition(follower)
    partition.truncate_to(1)
    follower.commit(RemoveTopicRecord(topic_id=T))
    follower.disk.release_all()
    assert follower.manager.find("t", 0) is None
    assert follower.log_manager.get_log("t", 0) is None
    assert follower.failed_dirs == []


def test_a_truncated_log_that_moves_to_another_directory_is_copied_anew(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
    node = truncating_follower(first, second)
    fresh = iter("AB")
    node.log_manager.dirs.format("cluster", HERE, lambda: f"{'A' * 20}{next(fresh)}A")
    copying = HeldRunner()
    moves = node.manager.moves = ReplicaAlterLogDirsManager(
        node.manager,
        threads=1,
        runner=copying,
        timer=node.timer,
        quota=ReplicationQuota(lambda: 1 << 62, samples=2, window_s=1.0, clock=node.timer.time),
        report=lambda _partition, _directory: completed(True),
        backoff_s=lambda: 1.0,
    )
    partition = the_partition(node)
    node.disk.release_all()
    source = partition.log.log_dir
    target = next(one for one in node.log_manager.dirs if one.path != source)
    moves.begin(partition, target)
    copying.release()
    partition.truncate_to(1)
    assert moves.moves == []
    node.disk.release_all()
    copying.release()  # what was copied when the truncation came
    assert [str(move.target.path) for move in moves.moves] == [target.path]
    copying.release_all()
    assert (partition.log.log_dir, partition.log_end_offset) == (target.path, 1)
    assert node.failed_dirs == []


def test_consumers_that_read_from_a_follower_wait_for_its_high_watermark(member: Node) -> None:
    member.create("t", T, FOLLOWED)
    member.manager.maybe_shrink_isrs()
    partition = the_partition(member)
    records = batch("a")
    partition.append_as_follower(records, EPOCH)
    member.manager.follower_offsets_moved(partition)
    assert partition.log.high_watermark == 0
    assert partition.update_follower_high_watermark(1)
    member.manager.follower_offsets_moved(partition)
    assert partition.log.high_watermark == 1

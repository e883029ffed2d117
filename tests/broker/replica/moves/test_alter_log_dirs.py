"""Replicas that move between log directories: every order of events, and every failure and power cut on the way."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from barnabas.broker.replica.moves import alter_log_dirs
from barnabas.broker.replica.moves.log_dir_move import MovePhase
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.offsets import LogStartOffsetIncrementReason
from tests.broker.replica.moves.moving_node import KEY, MovingNode
from tests.storage.fault_env import Fault, FaultEnv, PowerCut, nth, power_cut
from tests.storage.helpers import make_batch, read_values, small_config


@pytest.fixture(autouse=True)
def _in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small steps, each of which the test lets happen, unless there is next to nothing to copy."""
    monkeypatch.setattr(alter_log_dirs, "INLINE_BYTES", 300)
    monkeypatch.setattr(alter_log_dirs, "FLUSH_BYTES", 2_000)


@pytest.fixture
def node() -> MovingNode:
    node = MovingNode(FaultEnv())
    node.start()
    return node


def futures(env: FaultEnv) -> list[str]:
    return [
        f"{path}/{name}"
        for path in ("/a", "/b", "/c")
        for name in env.listdir(path)
        if name.endswith("-future")
    ]


# ---- the way that it goes


def test_a_replica_moves(node: MovingNode) -> None:
    node.append(30)
    assert node.place == "/a"
    begun = node.move("/b")
    answers: list[ErrorCode] = []
    begun.add_done_callback(answers.append)
    assert answers == []
    node.step()
    assert answers == [ErrorCode.NONE]
    assert node.place == "/a"
    assert len(futures(node.env)) == 1
    node.finish()
    assert node.place == "/b"
    assert node.moves.moves == []
    assert futures(node.env) == []
    node.append(3)
    node.check()
    assert node.log.log_end_offset == 33
    assert node.assigned_id() == node.dir("/b").directory_id
    assert KEY not in node.cleaner._states


def test_a_move_begins_where_a_compaction_cannot_be_called_off(node: MovingNode) -> None:
    def stop() -> None:
        raise KafkaStorageError("a swap cannot be taken back")

    _compact_for_ever(node, stop)
    node.move("/b")
    node.finish()
    assert (node.place, node.moves.moves) == ("/b", [])


def test_a_move_ends_where_a_compaction_that_it_calls_off_takes_the_disk_offline(node: MovingNode) -> None:
    def stop() -> None:
        node.log_dir_failed("/a")
        raise KafkaStorageError("a swap cannot be taken back")

    _compact_for_ever(node, stop)
    answers: list[ErrorCode] = []
    node.move("/b").add_done_callback(answers.append)
    node.finish()
    assert answers == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert node.moves.moves == []
    assert futures(node.env) == []


def _compact_for_ever(node: MovingNode, stop: Callable[[], None]) -> None:
    node.append(30)
    node.cleaner._state(KEY).is_running = True
    node.cleaner.on_abort(KEY, stop)


def test_an_empty_replica_moves(node: MovingNode) -> None:
    node.move("/b")
    node.finish()
    assert node.place == "/b"
    node.append(1)
    node.check()


def test_what_is_appended_meanwhile_moves_too(node: MovingNode) -> None:
    node.append(30)
    node.move("/b")
    while node.step():
        node.append(1)
    assert node.place == "/b"
    node.check()


def test_acknowledgements_wait_while_the_logs_change_places(node: MovingNode) -> None:
    """From the flush of the future log on nothing is synced in the old one, which may not count after a crash."""
    node.append(5)
    node.move("/b")
    while node.phase is not MovePhase.MIRROR:
        node.step()
    node.append(2)
    assert max(node.acknowledged) == 4
    future = node.log_manager.get_future_log(*KEY)
    assert future is not None
    assert future.log_end_offset == 7  # in the same step
    node.finish()
    assert node.place == "/b"
    assert max(node.acknowledged) == 6


def test_records_that_are_deleted_meanwhile_stay_deleted(node: MovingNode) -> None:
    node.append(40)
    node.move("/b")
    node.step()
    node.partition.delete_records_on_leader(25)
    node.log.delete_old_segments()
    node.finish()
    assert (node.place, node.log.log_start_offset) == ("/b", 25)
    node.check()


def test_a_log_that_does_not_begin_at_its_first_batch(node: MovingNode) -> None:
    node.partition.append_as_leader(make_batch(*(b"%08d" % offset for offset in range(4))), -1)
    node.append(3)
    node.partition.delete_records_on_leader(2)
    node.move("/b")
    node.finish()
    assert (node.place, node.log.log_start_offset, node.log.segments[0].base_offset) == ("/b", 2, 0)
    assert sorted(read_values(node.log)) == [2, 3, 4, 5, 6] or sorted(read_values(node.log)) == list(range(7))


def test_a_log_from_which_everything_was_deleted(node: MovingNode) -> None:
    node.append(20)
    node.partition.delete_records_on_leader(20)
    node.move("/b")
    node.finish()
    assert (node.place, node.log.log_start_offset, node.log.log_end_offset) == ("/b", 20, 20)
    node.append(1)
    assert node.log.log_end_offset == 21


def test_a_log_that_was_cut_meanwhile(node: MovingNode) -> None:
    node.append(40)
    node.move("/b")
    for _ in range(2):
        node.step()
    node.log_manager.truncate_to(node.log, 10)
    node.acknowledged = {offset: value for offset, value in node.acknowledged.items() if offset < 10}
    node.partition.leader_epoch = 1
    node.append(4)
    node.finish()
    assert (node.place, node.log.log_end_offset) == ("/b", 14)
    node.check()
    assert node.log.leader_epoch_cache.entries == [(0, 0), (1, 10)]


def test_segments_that_a_future_log_had_to_give_up_are_removed_when_it_has_moved(node: MovingNode) -> None:
    """The directory has another name when their file.delete.delay.ms is over."""
    node.append(40)
    node.move("/b")
    for _ in range(3):
        node.step()
    node.partition.delete_records_on_leader(39)
    node.log.delete_old_segments()
    node.finish()
    assert node.place == "/b"
    assert any(name.endswith(".deleted") for name in node.env.listdir("/b/t-0"))
    for deletion in node.log_manager.take_due_deletions(node.env.time_ms + 120_000):
        deletion.run()
    assert not [name for name in node.env.listdir("/b/t-0") if name.endswith(".deleted")]


def test_epochs_without_records_and_producers_without_batches_move_too(node: MovingNode) -> None:
    log = node.log
    node.partition.append_as_leader(make_batch(b"%08d" % 0, producer=(7, 0, 0)), -1)
    node.append(20)
    log.maybe_increment_log_start_offset(15, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    log.delete_old_segments()
    log.assign_epoch_start_offset(3, log.log_end_offset)
    node.partition.append_as_leader(make_batch(b"%08d" % 21, producer=(9, 0, 0), transactional=True), -1)
    node.move("/b")
    node.finish()
    assert node.place == "/b"
    moved = node.log
    assert moved.leader_epoch_cache.entries == log.leader_epoch_cache.entries
    assert set(moved.producer_state_manager.producers) == {7, 9}
    assert moved.last_stable_offset == 21
    assert moved.append_as_leader(make_batch(b"%08d" % 0, producer=(7, 0, 0)), 0).duplicate


def test_a_move_back_after_a_move(node: MovingNode) -> None:
    node.append(12)
    for path in ("/b", "/c", "/a", "/b"):
        node.move(path)
        node.finish()
        assert node.place == path
        node.append(2)
    node.check()
    assert node.log.log_end_offset == 20


def test_a_second_wish_for_the_same_directory_is_the_same_move(node: MovingNode) -> None:
    node.append(2)
    assert node.move("/b") is node.move("/b")
    node.finish()
    assert node.place == "/b"


# ---- calling it off


@pytest.mark.parametrize("steps", range(6))
def test_a_move_that_is_called_off(node: MovingNode, steps: int) -> None:
    node.append(20)
    node.move("/b")
    for _ in range(steps):
        node.step()
    if not node.moves.moves:
        return
    gone = node.moves.cancel(KEY)
    node.finish()
    assert gone.done
    assert node.place == "/a"
    assert node.assigned_id() == node.dir("/a").directory_id
    assert futures(node.env) == []
    assert KEY not in node.cleaner._states
    node.append(2)
    node.check()
    node.move("/b")
    node.finish()
    assert node.place == "/b"
    node.check()


def test_a_stop_in_the_middle_and_the_next_start(node: MovingNode) -> None:
    node.append(30)
    node.move("/b")
    node.step()
    node.step()
    node.log_manager.shutdown()
    node.env.crash()
    node.start()
    assert node.place == "/a"
    assert len(node.moves.moves) == 1
    node.finish()
    assert node.place == "/b"
    node.check()


async def test_a_stop_while_the_metadata_are_told(node: MovingNode) -> None:
    """They may name the new directory after it, so whatever is appended until the end has to be there too."""
    node.append(5)
    node.holds_metadata = True
    node.move("/b")
    node.finish()
    assert node.phase is MovePhase.COMMIT
    stopping = asyncio.ensure_future(node.moves.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    node.append(2)
    future = node.log_manager.get_future_log(*KEY)
    assert future is not None
    assert future.log_end_offset == 7
    node.held_reports[0].complete(True)
    await stopping
    assert node.place == "/b"
    node.check()


async def test_a_stop_while_a_thread_copies(node: MovingNode) -> None:
    node.append(30)
    node.move("/b")
    node.step()
    stopping = asyncio.ensure_future(node.moves.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    node.step()
    await stopping
    assert (node.place, node.step()) == ("/a", False)


# ---- what fails


def test_a_directory_that_fails_in_the_beginning(node: MovingNode) -> None:
    node.append(5)
    begun = node.move("/b")
    node.env.inject(nth(0))
    answers: list[ErrorCode] = []
    begun.add_done_callback(answers.append)
    node.finish()
    assert answers == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert node.failed_dirs == ["/b"]
    node.append(1)
    node.check()


def test_the_new_directory_fails_on_the_way(node: MovingNode) -> None:
    node.append(30)
    node.move("/b")
    node.step()
    node.env.inject(
        lambda _number, kind, path: Fault() if path.startswith("/b/t-0") and kind == "pwritev" else None
    )
    node.finish()
    node.env.inject(None)
    assert node.failed_dirs == ["/b"]
    assert (node.place, node.moves.moves) == ("/a", [])
    node.append(2)
    node.check()


def test_the_old_directory_fails_on_the_way(node: MovingNode) -> None:
    node.append(30)
    node.move("/b")
    node.step()
    node.log_dir_failed("/a")
    node.finish()
    assert node.partition.offline
    assert node.moves.moves == []
    assert len(futures(node.env)) == 1  # the next start goes on
    node.env.kill()
    node.start()
    node.finish()
    assert node.place == "/b"
    node.check()


def test_a_full_disk_is_waited_for(node: MovingNode, caplog: pytest.LogCaptureFixture) -> None:
    node.append(30)
    node.move("/b")
    node.step()
    full = Fault(errno.ENOSPC)
    node.env.inject(
        lambda _number, kind, path: full if path.startswith("/b/t-0") and kind == "pwritev" else None
    )
    node.finish()
    assert (node.failed_dirs, node.place) == ([], "/a")
    assert node.moves.moves[0].is_failing
    assert "has to wait" in caplog.text
    node.env.inject(None)
    node.timer.advance(1.5)
    node.finish()
    assert node.place == "/b"
    node.check()


def test_descriptors_for_checkpoints_are_waited_for(node: MovingNode) -> None:
    node.append(30)
    node.move("/b")
    node.step()
    none_left = Fault(errno.EMFILE)
    node.env.inject(
        lambda _number, kind, path: none_left if kind == "open" and "checkpoint" in path else None
    )
    node.finish()
    assert (node.failed_dirs, node.place) == ([], "/a")
    node.env.inject(None)
    node.timer.advance(1.5)
    node.finish()
    assert node.place == "/b"
    node.check()


def test_a_mirror_that_breaks_does_not_touch_the_append(node: MovingNode) -> None:
    node.append(5)
    node.move("/b")
    while node.phase is not MovePhase.MIRROR:
        node.step()
    full = Fault(errno.ENOSPC)
    node.env.inject(
        lambda _number, kind, path: full if path.startswith("/b/t-0") and kind == "pwritev" else None
    )
    node.append(3)
    assert [move.phase for move in node.moves.moves] == [MovePhase.COPY]
    node.env.inject(None)
    assert max(node.acknowledged) == 7
    node.timer.advance(1.5)
    node.finish()
    assert node.place == "/b"
    node.check()


def test_metadata_that_cannot_be_changed(node: MovingNode) -> None:
    node.append(5)
    node.move("/b")
    node.env.inject(lambda _number, _kind, path: Fault() if path.startswith("/meta") else None)
    node.finish()
    assert node.place == "/a"
    node.append(1)
    assert max(node.acknowledged) == 5
    node.env.inject(None)
    node.timer.advance(1.5)
    node.finish()
    assert node.place == "/b"
    node.check()


@pytest.mark.parametrize("path", ["/a", "/b"])
def test_a_name_that_cannot_be_changed(node: MovingNode, path: str) -> None:
    """In the last step; the partition goes on, or its directory has failed, and the next start finds it whole."""
    node.append(5)
    node.move("/b")
    node.env.inject(
        lambda _number, kind, at: Fault() if kind == "rename" and at.startswith(f"{path}/t-0") else None
    )
    node.finish()
    node.env.inject(None)
    assert node.failed_dirs == [path]
    assert node.partition.offline is (path == "/a")
    node.env.kill()
    node.start()
    node.finish()
    node.append(1)
    node.check()


def test_a_damaged_log_does_not_move_and_goes_on(node: MovingNode, caplog: pytest.LogCaptureFixture) -> None:
    node.append(8)
    segment = node.log.segments[0]
    data = bytearray(node.env.file(segment.path).data)
    data[80] ^= 0xFF
    node.env.write_file(segment.path, bytes(data))
    node.move("/b")
    node.finish()
    assert "has to wait" in caplog.text
    assert (node.place, node.failed_dirs) == ("/a", [])
    node.append(1)


def test_damage_at_the_log_start_of_a_log_that_moves_is_nothing_of_the_new_directory(
    node: MovingNode, caplog: pytest.LogCaptureFixture
) -> None:
    """The index is at odds with the batch then, and cannot be built anew."""
    node.append(8)
    node.move("/b")
    node.step()
    segment = node.log.segments[0]
    offset, position = segment.offset_index.entry(1)
    data = bytearray(node.env.file(segment.path).data)
    data[position + 8 : position + 12] = bytes(4)
    node.env.write_file(segment.path, bytes(data))
    node.partition.delete_records_on_leader(offset)
    for _ in range(3):
        node.finish()
        node.timer.advance(1.0)
    assert "has to wait" in caplog.text
    assert (node.place, node.failed_dirs) == ("/a", [])


# ---- throttled


def test_the_rate_is_kept(node: MovingNode) -> None:
    node.env.kill()
    node.start(limit_bytes_per_second=2_000)
    node.append(60, size=200)
    size = node.log.size
    node.move("/b")
    node.finish()
    (move,) = node.moves.moves
    first = move.copied_bytes
    assert 0 < first < size
    began_s = node.timer.time()
    while node.moves.moves:
        assert node.timer.time() < began_s + 60
        node.timer.advance(0.25)
        node.finish()
    assert node.timer.time() - began_s >= (size - first) / 2_000 / 2
    node.check()


def test_a_rate_that_changes_holds_at_once(node: MovingNode) -> None:
    node.env.kill()
    node.start(limit_bytes_per_second=100)
    node.append(60, size=200)
    node.move("/b")
    node.finish()
    assert len(node.moves.moves) == 1
    node.limit_bytes_per_second = 1 << 40
    node.moves.reconfigure()
    node.finish()
    assert node.place == "/b"


# ---- crashes

STRIDE = int(os.environ.get("BARNABAS_FAULT_STRIDE") or 11)
"""A life is struck at every so many operations: which, moves with each change of the code. 1: at each."""


def life(node: MovingNode) -> None:
    """A move with something to do at each step of it."""
    node.append(14)
    node.move("/b")
    while node.step():
        node.append(1)
        if node.log.log_end_offset == 18:
            node.partition.delete_records_on_leader(3)
    node.append(2)
    node.move("/c")
    node.step()
    node.step()
    node.moves.cancel(KEY)
    node.finish()
    node.append(1)


def operations_of_a_life() -> int:
    """How many operations of the disk there are in a life, which goes well."""
    env = FaultEnv()
    node = MovingNode(env)
    node.start()
    env.inject(None)
    life(node)
    count = env.operations
    node.check()
    assert node.place == "/b"
    return count


@pytest.mark.parametrize("ending", ["kill", "power cut", "power cut in doubt"])
def test_a_crash_at_every_operation(ending: str) -> None:
    for operation in range(0, operations_of_a_life(), STRIDE):
        env = FaultEnv()
        node = MovingNode(env)
        node.start()
        env.inject(power_cut(operation))
        with pytest.raises(PowerCut):
            life(node)
        env.inject(None)
        rng = Random(operation) if ending == "power cut in doubt" else None
        node.restart_after(rng, power_is_cut=ending != "kill")
        node.check()
        if ending == "kill":
            assert node.log.log_end_offset >= node.sent, f"operation {operation}: what was appended is gone"
        node.append(2)
        node.finish()
        node.append(1)
        node.check()
        assert node.assigned_id() == node.directory_of(node.log).directory_id
        node.log_manager.shutdown()
        env.crash()
        node.start()
        node.check()


def test_an_error_of_the_disk_at_every_operation() -> None:
    for operation in range(0, operations_of_a_life(), STRIDE):
        env = FaultEnv()
        node = MovingNode(env)
        node.start()
        env.inject(nth(operation))
        with suppress(ApiError, KafkaStorageError, OSError):
            life(node)
        env.inject(None)
        node.restart_after(None, power_is_cut=False)
        node.check()
        node.append(1)
        node.finish()
        node.check()


def test_small_segments_of_another_configuration() -> None:
    node = MovingNode(FaultEnv())
    node.start()
    node.append(6, size=900)
    node.config = small_config(flush_messages=1, segment_bytes=500)
    node.log.update_config(node.config)
    node.move("/b")
    node.finish()
    assert node.place == "/b"
    assert node.log.segment_count >= 6  # each batch is larger than a segment may be
    node.check()

"""Disk space: the guard's states, a log on a full disk, and a real disk that is full."""

import errno
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.storage.env import RealEnv
from barnabas.storage.errors import DiskFullError, KafkaStorageError
from barnabas.storage.log.disk_space import (
    AUTOMATIC,
    MAX_AUTOMATIC_BYTES,
    RESERVE_BYTES,
    RESERVE_FILE,
    RETRY_MS,
    DiskSpace,
)
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import AppendOrigin, LogStartOffsetIncrementReason
from tests.storage.fault_env import DISK_BLOCK_BYTES, UNLIMITED, Fault, FaultEnv
from tests.storage.helpers import (
    TOPIC_ID,
    append,
    end_txn,
    fill,
    make_batch,
    names,
    new_log,
    read_values,
    small_config,
)


class Disk(FaultEnv):
    """A disk that reports the given space, and counts the queries."""

    def __init__(self, total: int, free: int) -> None:
        super().__init__()
        self.total, self.free, self.asked = total, free, 0

    def disk_space(self, path: str) -> tuple[int, int]:
        self.asked += 1
        return self.total, self.free


def test_the_limit_is_configured_or_a_twentieth() -> None:
    for setting, total, limit in [
        (5000, 100_000, 5000),
        (AUTOMATIC, 100_000, 5000),
        (AUTOMATIC, 1 << 50, MAX_AUTOMATIC_BYTES),
        (0, 100_000, 0),
    ]:
        space = DiskSpace(Disk(total, 50_000), "/d", setting)
        space.check()
        assert (space.limit_bytes, space.free_bytes, space.is_full) == (limit, 50_000, limit > 50_000)


def test_each_change_of_state_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    env = Disk(100_000, 5000)
    space = DiskSpace(env, "/d", 5000)
    for free, is_full in [(5000, False), (4999, True), (3, True), (5624, True), (5625, False), (5000, False)]:
        env.free = free
        space.check()
        space.check()
        assert space.is_full == is_full
    assert [record.levelno for record in caplog.records] == [logging.ERROR, logging.WARNING]
    assert "/d is full" in caplog.messages[0]
    assert "4999 bytes are free, 5000 are required" in caplog.messages[0]
    assert "/d has room again, 5625 bytes" in caplog.messages[1]


def test_appends_are_counted_and_measured_only_near_the_limit() -> None:
    env = Disk(1 << 30, 1_000_000)
    space = DiskSpace(env, "/d", 16_000)
    space.check()
    for _ in range(984):
        space.take(1000)
        env.free -= 1000
    assert (env.asked, space.free_bytes, space.is_full) == (1, 16_000, False)
    env.free = 16_500  # other processes freed a little
    space.take(1)
    assert (env.asked, space.is_full) == (2, False)
    space.take(900)  # a sixteenth of the limit needs no new measurement
    assert env.asked == 2
    env.free = 15_000
    space.take(200)
    assert (env.asked, space.is_full) == (3, True)


def test_a_write_that_found_no_space_rejects_producers_for_a_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A quota, or the last inode: the measured space does not show it."""
    env = Disk(1 << 30, 1 << 29)
    space = DiskSpace(env, "/d", 5000)
    space.ran_out()
    states = [space.is_full]
    for ms in (RETRY_MS - 1, 1):
        env.time_ms += ms
        space.check()
        states.append(space.is_full)
    assert states == [True, True, False]
    assert len(caplog.messages) == 2


def test_without_a_guard_nothing_is_rejected() -> None:
    env = Disk(1 << 30, 0)
    space = DiskSpace(env, "/d", 0)
    space.check()
    space.take(1 << 40)
    space.ran_out()
    assert not space.is_full
    assert not space.wants_reserve


def test_a_failed_measurement_changes_nothing() -> None:
    env = FaultEnv()
    env.mkdir("/d")
    space = DiskSpace(env, "/d", 5000)
    space.check()
    env.inject(lambda *_: Fault(errno.EIO))
    space.check()
    assert (space.is_full, space.free_bytes) == (False, UNLIMITED)


def test_the_reserve_is_written_with_plenty_of_room_and_released_with_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    env = FaultEnv()
    env.mkdir("/d")
    env.disk_bytes = 100 * RESERVE_BYTES
    space = DiskSpace(env, "/d", 2 * RESERVE_BYTES)
    space.check()
    wants = [space.wants_reserve]
    space.make_reserve()
    wants.append(space.wants_reserve)
    assert wants == [True, False]
    assert env.size(f"/d/{RESERVE_FILE}") == RESERVE_BYTES
    again = DiskSpace(env, "/d", 2 * RESERVE_BYTES)
    again.find_reserve()
    assert again.has_reserve
    env.disk_bytes = 2 * RESERVE_BYTES
    again.check()
    needs = [again.needs_reserve]
    env.disk_bytes = RESERVE_BYTES + DISK_BLOCK_BYTES
    again.check()
    needs.append(again.needs_reserve)
    assert needs == [False, True]  # at first some space is left
    again.release_reserve()
    assert not env.exists(f"/d/{RESERVE_FILE}")
    assert "reserve of 1048576 bytes is released" in caplog.text
    env.disk_bytes = DISK_BLOCK_BYTES
    with pytest.raises(OSError, match="full"):
        again.make_reserve()
    assert not env.exists(f"/d/{RESERVE_FILE}")


# -- a log on a full disk --


def free_blocks(env: FaultEnv, blocks: int) -> None:
    """Leave so many blocks free."""
    env.disk_bytes = UNLIMITED
    total, free = env.disk_space("/")
    env.disk_bytes = total - free + blocks * DISK_BLOCK_BYTES


def test_an_append_without_disk_space_is_undone() -> None:
    env = FaultEnv()
    log = new_log(env)
    fill(log, 12)
    before, files = read_values(log), names(env)
    for blocks in (0, 1, 2):
        free_blocks(env, blocks)
        with pytest.raises(DiskFullError, match="full"):
            fill(log, 40, size=200)
        assert not log.is_failed
        end = log.log_end_offset
        assert {offset: value for offset, value in read_values(log).items() if offset < 12} == before
        assert log.size == sum(env.size(f"/logs/t-0/{name}") for name in names(env) if name.endswith(".log"))
        env.disk_bytes = UNLIMITED
        assert append(log, b"again") == end
    assert set(files) <= set(names(env))


def test_a_full_disk_at_any_write_of_an_append() -> None:
    operation, went_through = 0, False
    while not went_through:
        env = FaultEnv()
        log = new_log(env)
        fill(log, 5)
        writes = 0

        def plan(_number: int, kind: str, _path: str, operation: int = operation) -> Fault | None:
            nonlocal writes
            if kind not in ("pwritev", "open", "truncate"):
                return None
            writes += 1
            return Fault(errno.ENOSPC, half=True) if writes == operation + 1 else None

        env.inject(plan)
        acknowledged = set(range(5))
        for number in range(8):
            try:
                acknowledged.add(append(log, b"%d" % number + bytes(300)))
            except DiskFullError:
                continue
        went_through = writes <= operation
        assert not log.is_failed
        env.inject(None)
        assert acknowledged == set(read_values(log))
        env.kill()
        assert acknowledged == set(read_values(new_log(env)))
        operation += 1


def test_retention_and_deletions_go_on_on_a_full_disk() -> None:
    env = FaultEnv()
    log = new_log(env, small_config(retention_ms=1000))
    fill(log, 20)
    free_blocks(env, 0)
    start = log.log_end_offset - 3
    assert log.maybe_increment_log_start_offset(start, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    assert log.delete_old_segments() > 0
    assert not log.is_failed
    env.time_ms += 5000
    env.inject(lambda _n, kind, _p: Fault(errno.ENOSPC) if kind in ("rename", "open") else None)
    log.delete_old_segments()  # all segments are due, and there is no room for the new segment that their removal needs
    env.inject(None)
    assert not log.is_failed
    assert log.segment_count == 1
    assert log.delete_old_segments() == 1


def test_a_flush_without_room_for_the_epochs_is_repeated() -> None:
    env = FaultEnv()
    log = new_log(env)
    append(log, b"a", epoch=3)
    free_blocks(env, 0)
    with pytest.raises(DiskFullError):
        log.flush()
    assert not log.is_failed
    assert log.recovery_point == 0
    env.disk_bytes = UNLIMITED
    log.flush()
    assert log.recovery_point == 1
    assert env.read_file("/logs/t-0/leader-epoch-checkpoint") == b"0\n1\n3 0\n"


def test_an_aborted_transaction_without_room_in_its_index_is_kept_in_memory() -> None:
    env = FaultEnv()
    log = new_log(env)

    def transaction(producer_id: int) -> None:
        batch = make_batch(b"x", producer=(producer_id, 0, 0), transactional=True)
        log.append_as_leader(batch, 0)
        log.append_as_leader(end_txn(producer_id, 0, commit=False), 0, AppendOrigin.COORDINATOR)

    env.inject(
        lambda _n, kind, path: Fault(errno.ENOSPC) if kind == "open" and path.endswith(".txnindex") else None
    )
    transaction(1)
    transaction(2)
    log.roll()
    index = log.segments[0].txn_index
    assert [entry.producer_id for entry in index.transactions] == [1, 2]
    with pytest.raises(DiskFullError):
        log.flush()
    assert not log.is_failed
    env.inject(None)
    log.flush()
    assert env.size("/logs/t-0/00000000000000000000.txnindex") == 2 * 34


@pytest.mark.parametrize("blocks", [0, 1, 3])
@pytest.mark.parametrize("guard", [0, 4 * DISK_BLOCK_BYTES])
def test_a_directory_is_opened_on_a_full_disk(blocks: int, guard: int) -> None:
    """Also after a kill, when every index would be rebuilt."""
    env = FaultEnv()
    env.mkdir("/logs")

    def opened() -> tuple[LogManager, UnifiedLog]:
        manager = LogManager(env, ["/logs"], lambda _topic: small_config(), min_free_bytes=guard)
        manager.dirs.lock()
        manager.load_logs()
        return manager, manager.get_or_create_log("t", 0, TOPIC_ID)

    manager, log = opened()
    fill(log, 30)
    log.append_as_leader(make_batch(b"p", producer=(5, 0, 0)), 0)
    expected = read_values(log)
    env.kill()
    free_blocks(env, blocks)
    for _ in range(2):
        manager, log = opened()
        assert read_values(log) == expected
        assert log.fetch_offset_by_timestamp(0) is not None
        with pytest.raises(KafkaStorageError):
            fill(log, 20, size=200)
        expected = read_values(log)
        manager.shutdown()
        env.kill()
    env.disk_bytes = UNLIMITED
    manager, log = opened()
    assert read_values(log) == expected
    assert append(log, b"room again") == len(expected)
    manager.shutdown()
    assert env.exists("/logs/.kafka_cleanshutdown")


def test_a_client_is_rejected_and_a_coordinator_is_not() -> None:
    env = FaultEnv()
    log = new_log(env)
    log.append_as_leader(make_batch(b"once", producer=(1, 0, 0)), 0)
    log.disk_space = space = DiskSpace(env, "/logs", 5000)
    env.disk_bytes = 5000
    space.check()
    with pytest.raises(DiskFullError, match="Nothing was written"):
        append(log, b"x")
    assert log.append_as_leader(make_batch(b"once", producer=(1, 0, 0)), 0).duplicate  # it exists already
    log.append_as_leader(make_batch(b"own"), 0, AppendOrigin.COORDINATOR)
    assert (log.log_end_offset, space.rejections) == (2, 1)


# -- a real disk --

FULL_DISK_LIFE = """
import errno, os, sys
from barnabas.storage.env import RealEnv
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.manager.log_manager import LogManager
from tests.storage.helpers import TOPIC_ID, append, read_values, small_config

root = sys.argv[1]

def opened():
    config = small_config(segment_bytes=200_000, segment_index_bytes=1 << 20, index_interval_bytes=64)
    manager = LogManager(RealEnv(), [root], lambda _topic: config)
    manager.dirs.lock()
    manager.load_logs()
    return manager, [manager.get_or_create_log(f"t{number}", 0, TOPIC_ID) for number in range(4)]

def fill_up():
    with open(root + "/ballast", "ab", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            while True:
                try:
                    file.write(bytes(size))
                except OSError as error:
                    assert error.errno == errno.ENOSPC, error
                    break

def append_until_full(logs):
    for log in logs:
        try:
            for _ in range(20_000):
                append(log, bytes(100))
        except KafkaStorageError as error:
            assert not log.is_failed, error

def check(logs):
    for log in logs:
        values = read_values(log)
        assert sorted(values) == list(range(log.log_end_offset)), log
        log.fetch_offset_by_timestamp(1)

manager, logs = opened()
for log in logs:
    for _ in range(300):
        append(log, bytes(100))
fill_up()
append_until_full(logs)
check(logs)
ends = [log.log_end_offset for log in logs]
manager.abandon()            # as if it were killed: everything is recovered, on a disk without a byte
for name in os.listdir(root):
    directory = os.path.join(root, name)
    if os.path.isdir(directory):
        for index in os.listdir(directory):
            if index.endswith("index") and name == "t0-0":
                os.remove(os.path.join(directory, index))
fill_up()
manager, logs = opened()
assert [log.log_end_offset for log in logs] == ends
check(logs)
append_until_full(logs)
manager.shutdown()
fill_up()
manager, logs = opened()
check(logs)
os.remove(root + "/ballast")
for log in logs:
    append(log, b"room again")
manager.shutdown()
manager, logs = opened()
check(logs)
print("alive")
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MiB; only root may mount one."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {done.stderr.strip()}")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


def test_a_real_disk_that_is_full_does_not_end_the_process(small_disk: Path) -> None:
    """In a process of its own: it must not end by SIGBUS, which cannot be caught."""
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK_LIFE, str(small_disk)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert (done.returncode, done.stdout.strip()) == (0, "alive"), done.stderr


def test_free_space_is_that_of_the_system(small_disk: Path) -> None:
    env = RealEnv()
    assert env.disk_space(str(small_disk)) == (2 << 20, 2 << 20)
    (small_disk / "x").write_bytes(bytes(4096))
    assert env.disk_space(str(small_disk)) == (2 << 20, (2 << 20) - 4096)

"""Several log directories: their states, the placement of logs, and the failure of one."""

import errno
import logging
from collections.abc import Callable
from typing import Any

import pytest

from barnabas.storage.errors import InconsistentMetadataError, KafkaStorageError, NoLogDirError
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.loading import PartitionDirName, odd_dir_name, parse_partition_dir
from barnabas.storage.manager.log_manager import LogManager
from tests.storage.fault_env import Fault, FaultEnv
from tests.storage.helpers import TOPIC_ID, append, fill, read_values, small_config

A_ID = bytes(15) + b"\x0a"
B_ID = bytes(15) + b"\x0b"
IDS = {"/a": "AAAAAAAAAAAAAAAAAAAACg", "/b": "AAAAAAAAAAAAAAAAAAAACw", "/c": "AAAAAAAAAAAAAAAAAAAADA"}


def new_manager(env: FaultEnv, *dirs: str, **settings: Any) -> LogManager:
    """A manager ready to load its logs."""
    manager = LogManager(env, dirs or ["/a", "/b"], lambda _topic: small_config(), **settings)
    manager.dirs.lock()
    manager.dirs.load_meta_properties()
    fresh = iter([IDS[one.path] for one in manager.dirs if one.meta_properties is None])
    manager.dirs.format("cluster", 1, lambda: next(fresh))
    return manager


def opened(env: FaultEnv, *dirs: str, **settings: Any) -> LogManager:
    manager = new_manager(env, *dirs, **settings)
    manager.load_logs()
    return manager


def refusing(path: str, *kinds: str, error: int = errno.EIO) -> Callable[[int, str, str], Fault | None]:
    """Fail every operation (or those named) on files in `path`."""

    def plan(_number: int, kind: str, at: str) -> Fault | None:
        return Fault(error) if at.startswith(path) and (not kinds or kind in kinds) else None

    return plan


@pytest.fixture
def env() -> FaultEnv:
    return FaultEnv()


# -- at the start --


def test_a_directory_that_cannot_be_created_or_locked_is_offline(
    env: FaultEnv, caplog: pytest.LogCaptureFixture
) -> None:
    env.inject(refusing("/a"))
    manager = opened(env)
    assert [one.path for one in manager.dirs] == ["/b"]
    assert "injected" in manager.dirs.offline["/a"]
    assert any("/a has failed" in message for message in caplog.messages)
    assert append(manager.get_or_create_log("t", 0, TOPIC_ID), b"x") == 0


def test_a_file_in_place_of_a_log_directory(env: FaultEnv) -> None:
    env.mkdir("/b")
    env.write_file("/a", b"no directory")
    assert set(opened(env).dirs.offline) == {"/a"}


def test_a_start_without_an_online_directory_fails(env: FaultEnv) -> None:
    env.inject(refusing("/"))
    with pytest.raises(NoLogDirError, match=r"/a: .*; /b: "):
        new_manager(env)


def test_invalid_meta_properties_take_one_directory_offline(env: FaultEnv) -> None:
    opened(env).shutdown()
    env.write_file("/a/meta.properties", b"version=77\nnode.id=1\n")
    manager = opened(env)
    assert set(manager.dirs.offline) == {"/a"}
    assert "version" in manager.dirs.offline["/a"]
    env.write_file("/b/meta.properties", b"node.id=one\n")
    manager.abandon()
    with pytest.raises(NoLogDirError):
        new_manager(env)


def test_meta_properties_from_before_directories_had_ids(env: FaultEnv) -> None:
    env.mkdir("/a")
    env.write_file("/a/meta.properties", b"version=1\nnode.id=1\ncluster.id=cluster\nodd=kept\n")
    manager = LogManager(env, ["/a"], lambda _topic: small_config())
    manager.dirs.lock()
    assert manager.dirs.load_meta_properties() is not None
    assert [one.directory_id for one in manager.dirs] == [None]
    manager.dirs.format("cluster", 1, lambda: IDS["/a"])
    assert [one.directory_id for one in manager.dirs] == [A_ID]
    assert b"odd=kept" in env.read_file("/a/meta.properties")


def test_a_copied_directory_is_rejected(env: FaultEnv) -> None:
    opened(env).shutdown()
    env.write_file("/b/meta.properties", env.read_file("/a/meta.properties"))
    with pytest.raises(InconsistentMetadataError, match=r"same directory\.id"):
        new_manager(env)


@pytest.mark.parametrize("kind", ["listdir", "pread", "open", "read_file"])
def test_a_log_that_cannot_be_loaded_takes_its_directory_offline(env: FaultEnv, kind: str) -> None:
    manager = opened(env)
    logs = [manager.get_or_create_log("t", partition, TOPIC_ID) for partition in range(4)]
    for log in logs:
        fill(log, 3)
    where = manager.directory_of(logs[0]).path
    manager.shutdown()
    env.kill()
    manager = new_manager(env)
    env.inject(refusing(f"{where}/t-0", kind))
    manager.load_logs()
    env.inject(None)
    assert set(manager.dirs.offline) == {where}
    assert len(manager) == 2
    assert not any(log.directory.startswith(f"{where}/") for log in manager.all_logs())
    manager.shutdown()
    env.kill()
    again = opened(env)  # with the disk in order again
    assert {log.name: log.log_end_offset for log in again.all_logs()} == {
        f"t-{number}": 3 for number in range(4)
    }


# -- while it runs --


def test_a_failed_directory_takes_its_logs_offline(env: FaultEnv) -> None:
    heard: list[str] = []
    manager = opened(env)
    manager.on_log_dir_failed = heard.append
    logs = [manager.get_or_create_log("t", partition, TOPIC_ID) for partition in range(4)]
    manager.log_dir_failed("/a", "it clicks")
    manager.log_dir_failed("/a", "twice")
    assert heard == ["/a"]
    assert manager.dirs.offline == {"/a": "it clicks"}
    assert sum(log.is_failed for log in logs) == 2
    assert len(manager) == 2
    for partition in range(4, 7):
        log = manager.get_or_create_log("t", partition, TOPIC_ID)
        assert manager.directory_of(log).path == "/b"
    assert len(manager.dirs.recovery_point_jobs()) == 1
    assert not manager.delete_log("t", int(next(log.name for log in logs if log.is_failed)[-1]))


def test_a_failed_directory_gets_no_marker_and_the_others_do(env: FaultEnv) -> None:
    manager = opened(env)
    for partition in range(2):
        append(manager.get_or_create_log("t", partition, TOPIC_ID), b"x")
    before = env.read_file("/a/recovery-point-offset-checkpoint")
    manager.log_dir_failed("/a", "it clicks")
    manager.shutdown()
    assert not env.exists("/a/.kafka_cleanshutdown")
    assert env.read_file("/a/recovery-point-offset-checkpoint") == before
    assert env.exists("/b/.kafka_cleanshutdown")
    env.kill()
    again = opened(env)
    assert sorted(log.name for log in again.all_logs()) == ["t-0", "t-1"]
    assert all(log.log_end_offset == 1 for log in again.all_logs())


def test_a_retention_that_fails_takes_the_directory_offline(env: FaultEnv) -> None:
    manager = LogManager(env, ["/a", "/b"], lambda _topic: small_config(retention_bytes=0))
    manager.dirs.lock()
    manager.load_logs()
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill(log, 12)
    where = manager.directory_of(log).path
    env.inject(refusing(where, "rename"))
    assert manager.cleanup_logs() == 0
    assert set(manager.dirs.offline) == {where}


# -- logs that are not created again --


def test_a_log_that_may_be_in_a_failed_directory_is_not_recreated(env: FaultEnv) -> None:
    manager = opened(env)
    for partition in range(2):
        append(manager.get_or_create_log("t", partition, TOPIC_ID), b"x")
    in_a = next(log for log in manager.all_logs() if manager.directory_of(log).path == "/a").partition
    manager.shutdown()
    env.kill()
    env.inject(refusing("/a"))
    manager = opened(env)
    b_id = manager.dirs[0].directory_id
    assert b_id is not None
    for directory_id in (A_ID, bytes(16)):
        with pytest.raises(KafkaStorageError, match="not created again"):
            manager.get_or_create_log("t", in_a, TOPIC_ID, directory_id=directory_id, is_new=False)
    with pytest.raises(
        KafkaStorageError, match="not created again"
    ):  # a new log whose directory has just failed
        manager.get_or_create_log("u", 0, TOPIC_ID, directory_id=A_ID)
    manager.get_or_create_log("u", 1, TOPIC_ID, directory_id=b_id, is_new=False)
    manager.get_or_create_log("u", 2, TOPIC_ID)
    manager.shutdown()
    env.kill()
    manager = opened(env)
    log = manager.get_log("t", in_a)
    assert log is not None
    assert read_values(log) == {0: b"x"}


def test_with_all_directories_online_a_lost_log_is_recreated(env: FaultEnv) -> None:
    """Its disk was exchanged: no directory is offline, so there is nothing to wait for. As in Kafka."""
    manager = opened(env)
    log = manager.get_or_create_log("t", 0, TOPIC_ID, directory_id=bytes(15) + b"\xee", is_new=False)
    assert log.log_end_offset == 0


def test_a_new_log_is_in_its_assigned_directory(env: FaultEnv) -> None:
    manager = opened(env)
    for partition in range(3):
        log = manager.get_or_create_log("t", partition, TOPIC_ID, directory_id=A_ID)
        assert manager.directory_of(log).path == "/a"
    job = manager.prepare_logs([("t", 9, TOPIC_ID)], {("t", 9): A_ID})
    job.run()
    assert env.exists("/a/t-9/partition.metadata")
    assert manager.directory_of(manager.get_or_create_log("t", 9, TOPIC_ID)).path == "/a"


def test_a_log_planned_in_a_failed_directory_is_placed_elsewhere(env: FaultEnv) -> None:
    manager = opened(env)
    manager.prepare_logs([("t", 0, TOPIC_ID)], {("t", 0): A_ID}).run()
    manager.log_dir_failed("/a", "it clicks")
    assert manager.directory_of(manager.get_or_create_log("t", 0, TOPIC_ID)).path == "/b"


def test_new_logs_are_distributed_evenly(env: FaultEnv) -> None:
    manager = opened(env, "/a", "/b", "/c")
    manager.get_or_create_log("t", 0, TOPIC_ID, directory_id=A_ID)
    chosen = [directory.path for directory in manager.dirs.choose(5)]
    assert sorted(chosen) == ["/a", "/b", "/b", "/c", "/c"]
    for path in ("/a", "/b", "/c"):
        manager.log_dir_failed(path, "gone")
    with pytest.raises(KafkaStorageError, match="every log directory"):
        manager.dirs.choose(1)


# -- one partition in two directories --


def twice(env: FaultEnv) -> None:
    """t-0 in /a with one record, and in /b with two."""
    for path, count in (("/a", 1), ("/b", 2)):
        manager = opened(env, path)
        fill(manager.get_or_create_log("t", 0, TOPIC_ID), count)
        manager.shutdown()
        env.kill()


def test_the_assigned_directory_decides_between_two_copies_of_a_partition(
    env: FaultEnv, caplog: pytest.LogCaptureFixture
) -> None:
    twice(env)
    manager = opened(env, assigned_dir=lambda _topic, _partition: A_ID)
    log = manager.get_log("t", 0)
    assert log is not None
    assert (log.directory, log.log_end_offset) == ("/a/t-0", 1)
    assert [name for name in env.listdir("/b") if name.endswith("-stray")]
    assert any("marked as stray" in message for message in caplog.messages)
    manager.shutdown()
    env.crash()
    assert len(opened(env)) == 1  # permanently


def test_two_copies_of_a_partition_without_an_assigned_directory_are_an_error(env: FaultEnv) -> None:
    twice(env)
    with pytest.raises(InconsistentMetadataError, match="/a/t-0 and /b/t-0 are logs of the same partition"):
        opened(env)


# -- moving --


def test_a_future_log_is_separate_until_it_replaces_the_current_log(env: FaultEnv) -> None:
    manager = opened(env)
    log = manager.get_or_create_log("t", 0, TOPIC_ID, directory_id=A_ID)
    fill(log, 12)
    with pytest.raises(ValueError, match="already"):
        manager.future.prepare(log, "/a")
    with pytest.raises(KafkaStorageError, match="/z"):
        manager.future.prepare(log, "/z")
    future = begun(manager, log, "/b")
    assert future.directory.startswith("/b/t-0.")
    assert future.directory.endswith("-future")
    assert (len(manager), manager.get_log("t", 0), manager.get_future_log("t", 0)) == (1, log, future)
    manager.future.catch_up(log, future)
    manager.shutdown()
    env.crash()

    manager = opened(env)  # loaded as a future log again
    assert len(manager) == 1
    assert [one.log_end_offset for one in manager.future_logs()] == [12]
    moved = manager.future.replace_current("t", 0)
    assert (moved.directory, moved.log_end_offset) == ("/b/t-0", 12)
    assert manager.get_log("t", 0) is moved
    assert manager.get_future_log("t", 0) is None
    assert manager.places() == {("t", 0): B_ID}
    assert [name for name in env.listdir("/a") if name.endswith("-delete")]
    assert append(moved, b"goes on") == 12
    with pytest.raises(KafkaStorageError, match="future"):
        manager.future.replace_current("t", 0)
    for job in manager.future.sync_jobs(manager.dirs):
        job()
    manager.shutdown()
    env.crash()
    again = opened(env).get_log("t", 0)
    assert again is not None
    assert (again.directory, again.log_end_offset) == ("/b/t-0", 13)


def begun(manager: LogManager, log: UnifiedLog, log_dir: str) -> UnifiedLog:
    new = manager.future.prepare(log, log_dir)
    new.run()
    return manager.future.open(new)


# -- names --


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("t-0", ("t", 0, "")),
        ("a-b-12", ("a-b", 12, "")),
        ("a.b-1", ("a.b", 1, "")),
        (f"t-0.{'c' * 32}-delete", ("t", 0, "-delete")),
        (f"a-b-3.{'c' * 32}-future", ("a-b", 3, "-future")),
        (f"a.b-3.{'c' * 32}-stray", ("a.b", 3, "-stray")),
        ("lost+found", None),
        ("t", None),
        ("t-", None),
        ("-1", None),
        ("t-x", None),
        ("t-0-delete", None),
        ("t-0.c", None),
    ],
)
def test_names_of_partition_directories(name: str, parsed: tuple[str, int, str] | None) -> None:
    assert parse_partition_dir(name) == (PartitionDirName(*parsed) if parsed else None)


def test_unusual_names_are_read_back() -> None:
    for suffix in ("-delete", "-future", "-stray"):
        name = odd_dir_name("x.y-z", 7, suffix, bytes(16))
        assert parse_partition_dir(name) == ("x.y-z", 7, suffix)
        assert len(odd_dir_name("x" * 249, 7, suffix, bytes(16))) == 255


def test_an_empty_directory_with_a_partitions_name_is_an_empty_log(env: FaultEnv) -> None:
    for clean in (True, False):
        env.mkdir("/a/t-0")
        if clean:
            env.write_file("/a/.kafka_cleanshutdown", b"")
        log = opened(env, "/a").get_log("t", 0)
        assert log is not None
        assert (log.log_start_offset, log.log_end_offset) == (0, 0)
        env.kill()


# -- loading in other threads --


def test_load_tasks_may_end_in_any_order(env: FaultEnv, caplog: pytest.LogCaptureFixture) -> None:
    manager = opened(env)
    for partition in range(6):
        fill(manager.get_or_create_log("t", partition, TOPIC_ID), partition)
    env.kill()
    manager = new_manager(env)
    sizes: list[tuple[int, int]] = []

    def backwards(tasks: Any) -> Any:
        for task in reversed(tasks):
            sizes.append((task.name.partition, task.bytes_to_read))
            task.run()
            assert task.bytes_read == task.bytes_to_read
            yield task

    with caplog.at_level(logging.ERROR):
        manager.load_logs(run_tasks=backwards)
    assert {log.partition: log.log_end_offset for log in manager.all_logs()} == {n: n for n in range(6)}
    assert {partition for partition, size in sizes if size} == set(range(1, 6))
    assert not caplog.messages


def test_only_recovery_beyond_the_recovery_point_is_reported(env: FaultEnv) -> None:
    manager = opened(env, "/a")
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill(log, 12)
    log.flush()
    manager.dirs.checkpoint_all()
    active = log.segments[-1].size
    env.kill()
    manager = new_manager(env, "/a")
    announced: list[int] = []

    def watched(tasks: Any) -> Any:
        for task in tasks:
            announced.append(task.bytes_to_read)
            task.run()
            yield task

    manager.load_logs(run_tasks=watched)
    assert announced == [active]


# -- the markers of a clean stop --


def stopped(env: FaultEnv, epochs: dict[str, int]) -> None:
    """Directories that were stopped cleanly, each by a broker of that epoch."""
    for path, epoch in epochs.items():
        manager = new_manager(env, path)
        manager.load_logs()
        manager.shutdown(epoch)


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ({"/a": 5, "/b": 5}, 5),
        ({"/a": 5, "/b": 6}, -1),
        ({"/a": 5}, -1),
        ({}, -1),
        ({"/a": -1, "/b": -1}, -1),
    ],
)
def test_the_epoch_of_a_clean_stop_counts_where_all_directories_name_it(
    env: FaultEnv, epochs: dict[str, int], expected: int
) -> None:
    stopped(env, epochs)
    manager = new_manager(env)
    assert manager.dirs.clean_shutdown_epoch() == expected
    manager.load_logs()
    env.crash()
    assert not any(env.exists(f"{path}/.kafka_cleanshutdown") for path in ("/a", "/b"))


def test_the_epoch_of_a_clean_stop_does_not_count_without_a_directory(env: FaultEnv) -> None:
    stopped(env, {"/a": 5, "/b": 5})
    env.inject(refusing("/b"))
    manager = new_manager(env)
    assert list(manager.dirs.offline) == ["/b"]
    assert manager.dirs.clean_shutdown_epoch() == -1


def test_a_directory_whose_marker_cannot_be_removed_goes_offline(env: FaultEnv) -> None:
    stopped(env, {"/a": 5, "/b": 5})
    manager = new_manager(env)
    assert manager.dirs.clean_shutdown_epoch() == 5
    env.inject(refusing("/b/.kafka_cleanshutdown", "remove"))
    manager.load_logs()
    assert list(manager.dirs.offline) == ["/b"]


def test_logs_load_as_stopped_cleanly_after_the_marker_was_read(env: FaultEnv) -> None:
    stopped(env, {"/a": 5})
    manager = new_manager(env, "/a")
    assert manager.dirs.clean_shutdown_epoch() == 5
    manager.load_logs()
    assert manager.dirs[0].had_clean_shutdown
    manager.shutdown(6)
    again = new_manager(env, "/a")
    assert again.dirs.clean_shutdown_epoch() == 6


def test_a_stop_before_the_logs_are_loaded_leaves_the_one_before_as_it_was(env: FaultEnv) -> None:
    stopped(env, {"/a": 5})
    before = {name: env.read_file(f"/a/{name}") for name in env.listdir("/a")}
    manager = new_manager(env, "/a")
    assert manager.dirs.clean_shutdown_epoch() == 5
    manager.shutdown(6)
    assert {name: env.read_file(f"/a/{name}") for name in env.listdir("/a")} == before
    assert new_manager(env, "/a").dirs.clean_shutdown_epoch() == 5

"""LogManager and its directories: identity, locks, loading, creating, deleting, checkpoints, stops."""

import errno
import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from barnabas.config.log_config import LogConfig
from barnabas.protocol.wire import uuid_to_string
from barnabas.storage.env import RealEnv
from barnabas.storage.errors import (
    DiskFullError,
    InconsistentMetadataError,
    InconsistentTopicIdError,
    KafkaStorageError,
    LogDirLockedError,
)
from barnabas.storage.log.checkpoints import OffsetCheckpointFile
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import LogStartOffsetIncrementReason
from tests.storage.fault_env import Fault, FaultEnv, nth
from tests.storage.helpers import TOPIC_ID, append, fill, make_batch, read_values, small_config
from tests.support.chance import seeds

DELETED = LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION
CHECKPOINTS = {
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
}


@pytest.fixture
def env() -> FaultEnv:
    return FaultEnv()


def new_manager(env: FaultEnv, *dirs: str, config: LogConfig | None = None, **settings: Any) -> LogManager:
    manager = LogManager(env, dirs or ["/a"], lambda _topic: config or small_config(), **settings)
    manager.dirs.lock()
    manager.dirs.load_meta_properties()
    manager.load_logs()
    return manager


def checkpoint(env: FaultEnv, name: str, directory: str = "/a") -> dict[tuple[str, int], int]:
    return OffsetCheckpointFile(env, f"{directory}/{name}-checkpoint").read()


# -- directories --


def test_a_new_directory_is_created_as_by_kafka(env: FaultEnv) -> None:
    manager = LogManager(env, ["/a/b/"], lambda _topic: small_config())
    manager.dirs.lock()
    assert manager.dirs.load_meta_properties() is None
    manager.dirs.format("cluster", 1, lambda: "dir-id")
    manager.load_logs()
    assert set(env.listdir("/a/b")) == {".lock", "meta.properties", *CHECKPOINTS}
    env.crash()
    again = LogManager(env, ["/a/b"], lambda _topic: small_config())
    again.dirs.lock()
    properties = again.dirs.load_meta_properties()
    assert properties is not None
    assert (properties.cluster_id, properties.node_id, properties.directory_id) == ("cluster", 1, "dir-id")


def test_two_brokers_cannot_share_a_directory(env: FaultEnv) -> None:
    manager = new_manager(env)
    with pytest.raises(LogDirLockedError, match="/a"):
        new_manager(env)
    manager.shutdown()
    new_manager(env).abandon()
    new_manager(env).shutdown()


def test_directories_must_have_the_same_cluster_and_node(env: FaultEnv) -> None:
    manager = LogManager(env, ["/a", "/b"], lambda _topic: small_config())
    manager.dirs.lock()
    env.write_file("/a/meta.properties", b"version=1\nnode.id=1\ncluster.id=x\ndirectory.id=d1\n")
    found = manager.dirs.load_meta_properties()
    assert found is not None
    manager.dirs.format(found.cluster_id, found.node_id, lambda: "d2")
    assert [
        directory.meta_properties.directory_id for directory in manager.dirs if directory.meta_properties
    ] == [
        "d1",
        "d2",
    ]
    env.write_file("/b/meta.properties", b"version=1\nnode.id=2\ncluster.id=x\ndirectory.id=d1\n")
    with pytest.raises(InconsistentMetadataError, match="different brokers"):
        manager.dirs.load_meta_properties()


def test_a_new_log_is_in_the_directory_with_the_fewest(env: FaultEnv) -> None:
    manager = new_manager(env, "/a", "/b")
    for partition in range(4):
        manager.get_or_create_log("t", partition, TOPIC_ID)
    assert [len(directory.logs) for directory in manager.dirs] == [2, 2]
    assert len(manager) == 4
    manager.shutdown()
    env.kill()
    again = new_manager(env, "/a", "/b")
    assert sorted(log.name for log in again.all_logs()) == ["t-0", "t-1", "t-2", "t-3"]
    assert {again.directory_of(log).path for log in again.all_logs()} == {"/a", "/b"}


def test_one_partition_in_two_directories_is_an_error(env: FaultEnv) -> None:
    for path in ("/a/t-0", "/b/t-0"):
        env.mkdir(path)
    with pytest.raises(InconsistentMetadataError, match="same partition"):
        new_manager(env, "/a", "/b")


def test_foreign_directories_are_kept(env: FaultEnv, caplog: pytest.LogCaptureFixture) -> None:
    foreign = ["lost+found", "backup", "t-x", f"t-1.{'b' * 32}-stray"]
    for name in [*foreign, "__cluster_metadata-0", "t-0"]:
        env.mkdir(f"/a/{name}")
    with caplog.at_level(logging.WARNING, "barnabas.storage"):
        manager = new_manager(env)
    assert [log.name for log in manager.all_logs()] == ["t-0"]
    for name in foreign:
        assert env.listdir(f"/a/{name}") == []
        assert any(name in message for message in caplog.messages)
    assert env.listdir("/a/__cluster_metadata-0") == []


def test_files_in_a_log_directory_are_ignored(env: FaultEnv, caplog: pytest.LogCaptureFixture) -> None:
    env.mkdir("/a")
    env.write_file("/a/t-0", b"hands off")
    with caplog.at_level(logging.WARNING, "barnabas.storage"):
        manager = new_manager(env)
    assert len(manager) == 0
    assert not caplog.messages
    assert env.read_file("/a/t-0") == b"hands off"


def test_an_interrupted_deletion_is_completed(env: FaultEnv) -> None:
    doomed = f"/a/t-0.{'c' * 32}-delete"
    env.mkdir(doomed)
    env.write_file(f"{doomed}/x", b"")
    manager = new_manager(env, config=small_config(file_delete_delay_ms=1000))
    assert manager.take_due_deletions(env.time_ms + 999) == []
    (deletion,) = manager.take_due_deletions(env.time_ms + 1000)
    assert doomed in repr(deletion)
    deletion.run()
    assert not env.exists(doomed)


def test_progress_is_reported(env: FaultEnv) -> None:
    for partition in range(3):
        env.mkdir(f"/a/t-{partition}")
    manager = LogManager(env, ["/a"], lambda _topic: small_config())
    manager.dirs.lock()
    heard: list[str] = []
    manager.load_logs(lambda log: heard.append(log.name))
    assert heard == ["t-0", "t-1", "t-2"]


# -- creating and deleting --


def test_a_log_is_created_once(env: FaultEnv) -> None:
    manager = new_manager(env)
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    assert manager.get_or_create_log("t", 0, TOPIC_ID) is log
    assert manager.get_log("t", 0) is log
    assert manager.get_log("t", 1) is None
    with pytest.raises(InconsistentTopicIdError):
        manager.get_or_create_log("t", 0, bytes(16))
    env.crash()
    found = new_manager(env).get_log("t", 0)
    assert found is not None
    assert found.topic_id == TOPIC_ID


def test_a_log_that_cannot_be_created_is_a_storage_error(env: FaultEnv) -> None:
    """As in Kafka, the whole log directory fails, because the rest of it cannot be trusted either."""
    manager = new_manager(env, "/a", "/b")
    env.inject(nth(3))
    with pytest.raises(KafkaStorageError, match="t-0"):
        manager.get_or_create_log("t", 0, TOPIC_ID)
    env.inject(None)
    assert list(manager.dirs.offline) == ["/a"]
    assert manager.get_or_create_log("u", 0, TOPIC_ID).directory == "/b/u-0"


def test_a_full_disk_at_the_creation_of_a_log_stays_online(env: FaultEnv) -> None:
    manager = new_manager(env)
    env.inject(nth(3, Fault(errno.ENOSPC)))
    with pytest.raises(DiskFullError, match="t-0"):
        manager.get_or_create_log("t", 0, TOPIC_ID)
    env.inject(None)
    append(manager.get_or_create_log("t", 0, TOPIC_ID), b"x")


def test_directories_prepared_in_a_thread_are_used(env: FaultEnv) -> None:
    manager = new_manager(env, "/a", "/b")
    manager.get_or_create_log("there", 0, TOPIC_ID)
    manager.prepare_logs(
        [("there", 0, TOPIC_ID), *(("t", partition, TOPIC_ID) for partition in range(3))]
    ).run()
    env.crash()
    manager = new_manager(env, "/a", "/b")
    assert sorted(log.name for log in manager.all_logs()) == ["t-0", "t-1", "t-2", "there-0"]
    assert [len(directory.logs) for directory in manager.dirs] == [2, 2]
    manager.prepare_logs([("u", 0, TOPIC_ID)]).run()
    env.inject(None)
    log = manager.get_or_create_log("u", 0, TOPIC_ID)
    assert log.topic_id == TOPIC_ID
    assert append(log, b"x") == 0


@pytest.mark.parametrize("seed", seeds(8))
def test_the_topic_id_of_a_flushed_log_survives_a_power_cut(env: FaultEnv, seed: int) -> None:
    manager = new_manager(env)
    manager.prepare_logs([("t", partition, TOPIC_ID) for partition in range(2)]).run()
    flushed, idle = (manager.get_or_create_log("t", partition, TOPIC_ID) for partition in range(2))
    append(flushed, b"x")
    flushed.flush()
    env.crash(Random(seed))
    manager = new_manager(env)
    log = manager.get_log("t", 0)
    assert log is not None
    assert (log.topic_id, read_values(log)) == (TOPIC_ID, {0: b"x"})
    other = manager.get_log("t", idle.partition)
    assert other is not None
    assert other.topic_id in (None, TOPIC_ID)  # no client has an acknowledgement for its records
    assert append(manager.get_or_create_log("t", 1, TOPIC_ID), b"y") == 0


@pytest.mark.parametrize("seed", seeds(8))
def test_a_synced_deletion_survives_a_power_cut(env: FaultEnv, seed: int) -> None:
    """Otherwise the rest of the old log could become part of the next topic of that name."""
    manager = new_manager(env)
    manager.prepare_logs([("t", 0, TOPIC_ID)]).run()
    append(manager.get_or_create_log("t", 0, TOPIC_ID), b"old")
    manager.delete_log("t", 0)
    manager.dirs.sync()
    manager.prepare_logs([("t", 0, bytes(15) + b"\1")])  # and then a power cut, before the log is created
    env.crash(Random(seed))
    manager = new_manager(env)
    assert manager.get_log("t", 0) is None


def test_deleting_renames_now_and_removes_later(env: FaultEnv) -> None:
    manager = new_manager(env, config=small_config(file_delete_delay_ms=1000))
    fill(manager.get_or_create_log("t", 0, TOPIC_ID), 12)
    log = manager.get_log("t", 0)
    assert manager.delete_log("t", 0)
    assert not manager.delete_log("t", 0)
    assert log is not None
    with pytest.raises(KafkaStorageError, match="deleted"):
        append(log, b"too late")
    (renamed,) = [name for name in env.listdir("/a") if name.endswith("-delete")]
    assert renamed.startswith("t-0.")
    assert len(renamed) == len("t-0.") + 32 + len("-delete")
    assert manager.take_due_deletions(env.time_ms + 999) == []
    assert append(manager.get_or_create_log("t", 0, bytes(15) + b"\1"), b"new") == 0
    for deletion in manager.take_due_deletions(env.time_ms + 1000):
        deletion.run()
    assert not env.exists(f"/a/{renamed}")
    assert env.exists("/a/t-0")


OTHER_ID = bytes(15) + b"\1"


@pytest.mark.parametrize(
    "content", [None, b"", b"version: 0\ntopic_id: " + uuid_to_string(TOPIC_ID).encode()]
)
def test_the_directory_of_a_log_that_was_not_created_is_removed(env: FaultEnv, content: bytes | None) -> None:
    manager = new_manager(env, "/a", "/b")
    env.mkdir("/b/t-0")
    if content is not None:
        env.write_file("/b/t-0/partition.metadata", content)
    manager.discard_unfinished("t", 0, TOPIC_ID)
    assert not env.exists("/b/t-0")
    for deletion in manager.take_due_deletions(env.time_ms):
        deletion.run()
    assert [name for name in env.listdir("/b") if name.startswith("t-0")] == []


def test_a_log_without_a_written_topic_id_is_removed_too(env: FaultEnv) -> None:
    manager = new_manager(env)
    env.inject(
        lambda _, kind, path: (
            Fault(errno.ENOSPC) if kind == "pwritev" and "partition.metadata" in path else None
        )
    )
    with pytest.raises(DiskFullError):
        manager.get_or_create_log("t", 0, TOPIC_ID)
    env.inject(None)
    manager.discard_unfinished("t", 0, TOPIC_ID)
    assert manager.get_log("t", 0) is None
    assert not env.exists("/a/t-0")


def test_a_log_of_another_topic_id_is_kept(env: FaultEnv) -> None:
    manager = new_manager(env)
    manager.get_or_create_log("t", 0, OTHER_ID)
    manager.discard_unfinished("t", 0, TOPIC_ID)
    assert manager.get_log("t", 0) is not None
    env.mkdir("/a/t-1")
    env.write_file("/a/t-1/partition.metadata", b"version: 0\ntopic_id: " + uuid_to_string(OTHER_ID).encode())
    manager.discard_unfinished("t", 1, TOPIC_ID)
    assert env.exists("/a/t-1")
    manager.discard_unfinished("t", 2, TOPIC_ID)


def test_a_flush_of_a_deleted_log_does_not_affect_its_successor(env: FaultEnv) -> None:
    """The fsync runs in its thread while the topic is deleted and recreated."""
    manager = new_manager(env)
    old = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill(old, 3, epoch=7)
    job = old.prepare_flush()
    manager.delete_log("t", 0)
    fill(manager.get_or_create_log("t", 0, bytes(15) + b"\1"), 1)
    job.run()
    old.complete_flush(job)
    assert "leader-epoch-checkpoint" not in env.listdir("/a/t-0")


def test_long_names_are_shortened_in_the_directory_of_a_deletion(env: FaultEnv) -> None:
    manager = new_manager(env)
    manager.get_or_create_log("x" * 249, 0, TOPIC_ID)
    manager.delete_log("x" * 249, 0)
    (renamed,) = [name for name in env.listdir("/a") if name.endswith("-delete")]
    assert len(renamed) == 255


def test_stray_logs_are_renamed_and_kept(env: FaultEnv) -> None:
    manager = new_manager(env)
    append(manager.get_or_create_log("t", 0, TOPIC_ID), b"x")
    assert manager.mark_stray("t", 0)
    assert not manager.mark_stray("t", 0)
    env.time_ms += 1 << 40
    assert manager.take_due_deletions() == []
    assert [name for name in env.listdir("/a") if name.endswith("-stray")]
    assert len(manager) == 0


def test_a_failed_rename_keeps_the_log(env: FaultEnv) -> None:
    manager = new_manager(env)
    append(manager.get_or_create_log("t", 0, TOPIC_ID), b"x")
    env.inject(lambda _number, kind, _path: Fault() if kind == "rename" else None)
    with pytest.raises(KafkaStorageError):
        manager.delete_log("t", 0)
    env.inject(None)
    log = manager.get_log("t", 0)
    assert log is not None
    assert append(log, b"y") == 1


def test_a_new_incarnation_does_not_inherit_checkpoints(env: FaultEnv) -> None:
    """With the old recovery point, recovery would not check the new log's first records."""
    manager = new_manager(env)
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill(log, 12)
    log.flush()
    log.maybe_increment_log_start_offset(7, DELETED)
    manager.dirs.checkpoint_all()
    late = manager.dirs.recovery_point_jobs()
    manager.delete_log("t", 0)
    fill(manager.get_or_create_log("t", 0, bytes(15) + b"\1"), 3)
    for job in late:
        job()
    assert checkpoint(env, "recovery-point-offset") == {}
    assert checkpoint(env, "log-start-offset") == {}
    env.kill()
    log = new_manager(env).get_or_create_log("t", 0)
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)


# -- checkpoints --


def test_checkpoints_have_the_contents_of_kafkas(env: FaultEnv) -> None:
    manager = new_manager(env)
    first, second = (manager.get_or_create_log(topic, 0, TOPIC_ID) for topic in "tu")
    fill(first, 12)
    fill(second, 3)
    first.flush()
    first.maybe_increment_log_start_offset(7, DELETED)
    second.update_high_watermark(2)
    for job in (
        *manager.dirs.recovery_point_jobs(),
        *manager.dirs.log_start_offset_jobs(),
        *manager.dirs.high_watermark_jobs(),
    ):
        job()
    assert checkpoint(env, "recovery-point-offset") == {("t", 0): 12, ("u", 0): 0}
    assert checkpoint(env, "log-start-offset") == {("t", 0): 7}
    assert checkpoint(env, "replication-offset") == {("t", 0): 12, ("u", 0): 2}
    first.delete_old_segments()
    first.maybe_increment_log_start_offset(10, DELETED)
    first.delete_old_segments()
    manager.dirs.checkpoint_all()
    # A crash may restore the segments before it.
    assert checkpoint(env, "log-start-offset") == {("t", 0): 10}


def test_checkpoints_are_read_at_the_next_start(env: FaultEnv) -> None:
    manager = new_manager(env)
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill(log, 12)
    log.maybe_increment_log_start_offset(7, DELETED)
    log.update_high_watermark(9)
    manager.dirs.checkpoint_all()
    env.kill()
    log = new_manager(env).get_or_create_log("t", 0)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (7, 9, 12)


def test_checkpoints_beyond_the_log_are_corrected(env: FaultEnv) -> None:
    manager = new_manager(env)
    fill(manager.get_or_create_log("t", 0, TOPIC_ID), 3)
    env.kill()
    for name, offset in (("recovery-point-offset", 50), ("replication-offset", 60)):
        OffsetCheckpointFile(env, f"/a/{name}-checkpoint").write({("t", 0): offset, ("gone", 3): 7})
    log = new_manager(env).get_or_create_log("t", 0)
    assert (log.recovery_point, log.high_watermark, log.log_end_offset) == (3, 3, 3)


@pytest.mark.parametrize("name", sorted(CHECKPOINTS))
def test_a_damaged_checkpoint_is_ignored(env: FaultEnv, name: str, caplog: pytest.LogCaptureFixture) -> None:
    manager = new_manager(env)
    fill(manager.get_or_create_log("t", 0, TOPIC_ID), 3)
    manager.shutdown()
    env.kill()
    env.write_file(f"/a/{name}", b"\xff damaged")
    log = new_manager(env).get_or_create_log("t", 0)
    assert len(read_values(log)) == 3
    assert name in caplog.text


# -- stops --


def test_a_clean_stop_and_a_start(env: FaultEnv) -> None:
    manager = new_manager(env)
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill(log, 12)
    log.append_as_leader(make_batch(b"x", producer=(7, 0, 0)), 0)
    manager.shutdown(broker_epoch=42)
    assert env.read_file("/a/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    assert env.maps == 0
    env.crash()
    manager = new_manager(env)
    assert not env.exists("/a/.kafka_cleanshutdown")
    assert manager.dirs[0].had_clean_shutdown
    log = manager.get_or_create_log("t", 0)
    assert (log.log_end_offset, log.recovery_point) == (13, 13)
    assert log.append_as_leader(make_batch(b"x", producer=(7, 0, 0)), 0).duplicate
    env.crash()
    assert not new_manager(env).dirs[0].had_clean_shutdown


def test_a_failed_stop_leaves_no_clean_shutdown_file(env: FaultEnv, caplog: pytest.LogCaptureFixture) -> None:
    manager = new_manager(env, "/a", "/b")
    for topic in ("t", "u"):
        append(manager.get_or_create_log(topic, 0, TOPIC_ID), b"x")
    env.inject(lambda _number, kind, path: Fault() if kind == "sync" and path.startswith("/a/") else None)
    manager.shutdown()
    assert not env.exists("/a/.kafka_cleanshutdown")
    assert env.exists("/b/.kafka_cleanshutdown")
    assert "t-0 was not closed cleanly" in caplog.text
    env.kill()
    assert len(new_manager(env, "/a", "/b")) == 2


def test_a_failed_log_makes_the_stop_unclean(env: FaultEnv) -> None:
    manager = new_manager(env)
    manager.get_or_create_log("t", 0, TOPIC_ID).fail("for the test")
    manager.shutdown()
    assert not env.exists("/a/.kafka_cleanshutdown")


# -- scheduled work --


def test_retention_over_all_logs(env: FaultEnv, caplog: pytest.LogCaptureFixture) -> None:
    manager = new_manager(env, config=small_config(retention_bytes=0))
    logs = [manager.get_or_create_log(topic, 0, TOPIC_ID) for topic in ("t", "u", "v")]
    for log in logs:
        fill(log, 12)
    logs[2].fail("for the test")
    env.inject(lambda _number, kind, path: Fault() if kind == "rename" and "/u-0/" in path else None)
    assert manager.cleanup_logs() == 3
    env.inject(None)
    assert logs[0].size == 0
    assert logs[1].is_failed
    assert "u-0: retention" in caplog.text


def test_a_log_that_is_being_truncated_is_left_alone(env: FaultEnv) -> None:
    manager = new_manager(env, config=small_config(retention_bytes=0, flush_ms=1000))
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill(log, 12)
    env.time_ms += 1000
    manager.close_for_truncation(log)
    assert (manager.cleanup_logs(), manager.logs_to_flush(), manager.remove_expired_producers()) == (0, [], 0)
    manager.reopen_after_truncation(log)
    assert manager.logs_to_flush() == [log]
    assert manager.cleanup_logs() == 3


def test_retention_without_descriptors_waits_for_the_next_round(env: FaultEnv) -> None:
    config = small_config(retention_ms=1000)
    manager = new_manager(env, config=config)
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill(log, 12)
    manager.shutdown()
    manager = new_manager(env, config=config)
    env.time_ms += 2000
    env.inject(lambda _number, kind, _path: Fault(errno.EMFILE) if kind == "open" else None)
    assert manager.cleanup_logs() == 0
    env.inject(None)
    assert not manager.dirs.offline
    assert manager.cleanup_logs() == 3


@pytest.mark.parametrize("first", range(4))
def test_retention_without_descriptors_is_repeated(
    env: FaultEnv, first: int, caplog: pytest.LogCaptureFixture
) -> None:
    """After a start it has to open segments, and it creates a new one when the active one is due."""
    config = small_config(retention_ms=1000)
    manager = new_manager(env, config=config)
    fill(manager.get_or_create_log("t", 0, TOPIC_ID), 12)
    manager.shutdown()
    manager = new_manager(env, config=config)
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    env.time_ms += 3_600_000
    left = first

    def no_descriptor(_number: int, kind: str, _path: str) -> Fault | None:
        nonlocal left
        left -= kind in {"open", "map"}
        return Fault(errno.EMFILE) if left < 0 and kind in {"open", "map"} else None

    env.inject(no_descriptor)
    assert manager.cleanup_logs() == 0
    env.inject(None)
    assert not log.is_failed
    assert not manager.dirs.offline
    assert "t-0" in caplog.text
    assert manager.cleanup_logs() > 0
    assert log.size == 0


def test_logs_that_are_due_for_a_flush(env: FaultEnv) -> None:
    manager = new_manager(env, config=small_config(flush_ms=1000))
    logs = [manager.get_or_create_log(topic, 0, TOPIC_ID) for topic in ("t", "u")]
    append(logs[0], b"x")
    assert manager.logs_to_flush() == []
    env.time_ms += 1000
    assert manager.logs_to_flush() == [logs[0]]
    logs[1].roll()
    fill(logs[1], 6)
    assert manager.logs_to_flush() == logs


def test_configuration_changes_reach_the_logs(env: FaultEnv) -> None:
    manager = new_manager(env)
    logs = [manager.get_or_create_log("t", partition, TOPIC_ID) for partition in range(2)]
    manager.get_or_create_log("u", 0, TOPIC_ID)
    manager.update_configs(lambda log: small_config(max_message_bytes=77) if log.topic == "t" else log.config)
    assert [log.config.max_message_bytes for log in logs] == [77, 77]


def test_the_expiration_time_of_producers_can_change(env: FaultEnv) -> None:
    manager = new_manager(env, producer_id_expiration_ms=1000)
    manager.get_or_create_log("t", 0, TOPIC_ID).append_as_leader(make_batch(b"x", producer=(7, 0, 0)), 0)
    manager.expire_producers_after(5000)
    manager.get_or_create_log("t", 1, TOPIC_ID).append_as_leader(make_batch(b"x", producer=(7, 0, 0)), 0)
    env.time_ms += 4999
    assert manager.remove_expired_producers() == 0
    env.time_ms += 1
    assert manager.remove_expired_producers() == 2


def test_silent_producers_of_all_logs_expire(env: FaultEnv) -> None:
    manager = new_manager(env, producer_id_expiration_ms=1000)
    for topic in ("t", "u"):
        manager.get_or_create_log(topic, 0, TOPIC_ID).append_as_leader(
            make_batch(b"x", producer=(7, 0, 0)), 0
        )
    assert manager.remove_expired_producers() == 0
    env.time_ms += 1000
    assert manager.remove_expired_producers() == 2


def test_open_files_are_bounded(env: FaultEnv) -> None:
    manager = new_manager(env, max_open_segments=2)
    logs = [manager.get_or_create_log("t", partition, TOPIC_ID) for partition in range(5)]
    for _ in range(3):
        for log in logs:
            fill(log, 1)
            assert sum(segment.is_open for each in logs for segment in each.segments) <= 2
    assert [len(read_values(log)) for log in logs] == [3] * 5
    assert env.maps <= 4


def test_logs_loaded_concurrently_share_no_open_files(env: FaultEnv) -> None:
    """Otherwise a thread would close files that another one uses, which ends the process."""
    manager = new_manager(env)
    fill(manager.get_or_create_log("t", 0, TOPIC_ID), 12)
    env.kill()
    shared: list[int] = []
    manager = LogManager(env, ["/a"], lambda _topic: small_config())
    env.inject(lambda _number, _kind, _path: shared.append(len(manager.open_segments)))
    manager.dirs.lock()
    manager.load_logs()
    env.inject(None)
    assert set(shared) == {0}
    log = manager.get_log("t", 0)
    assert log is not None
    read_values(log)
    assert len(manager.open_segments) == 3, "from then on they count together"


def test_logs_closed_concurrently_do_not_close_files_of_each_other(env: FaultEnv) -> None:
    manager = new_manager(env, max_open_segments=1)
    first, second = (manager.get_or_create_log(topic, 0, TOPIC_ID) for topic in ("t", "u"))
    fill(first, 2)
    fill(second, 2)

    def run_all(work: Sequence[Callable[[], None]]) -> None:
        assert second.segments[0].is_open
        work[0]()
        assert second.segments[0].is_open, "its own thread may be at it"
        work[1]()

    manager.shutdown(run_all=run_all)
    assert env.exists("/a/.kafka_cleanshutdown")


def test_truncation_is_on_disk_before_the_next_append(env: FaultEnv) -> None:
    manager = new_manager(env)
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill(log, 12)
    log.flush()
    manager.dirs.checkpoint_all()
    assert manager.truncate_to(log, 4)
    assert checkpoint(env, "recovery-point-offset") == {("t", 0): 4}
    assert not manager.truncate_to(log, 4)
    manager.truncate_fully_and_start_at(log, 20)
    assert checkpoint(env, "replication-offset") == {("t", 0): 20}


def test_truncation_below_the_log_start_offset_moves_its_checkpoint(env: FaultEnv) -> None:
    """Otherwise a start after a crash would treat records appended since as deleted."""
    manager = new_manager(env)
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill(log, 12)
    log.update_high_watermark(12)
    log.maybe_increment_log_start_offset(11, DELETED)
    manager.dirs.checkpoint_all()
    assert checkpoint(env, "log-start-offset") == {("t", 0): 11}
    assert manager.truncate_to(log, 2)
    assert checkpoint(env, "log-start-offset").get(("t", 0), 0) == log.log_start_offset <= 2
    fill(log, 2)
    env.kill()
    manager = LogManager(env, ["/a"], lambda _topic: small_config())
    manager.dirs.lock()
    manager.load_logs()
    restarted = manager.get_log("t", 0)
    assert restarted is not None
    assert (restarted.log_start_offset, restarted.log_end_offset) == (
        log.log_start_offset,
        log.log_end_offset,
    )


def test_a_kill_within_a_truncation_leaves_no_recovery_point_beyond_the_end(env: FaultEnv) -> None:
    """Otherwise records appended after the start would count as synced at the start after the next crash."""
    manager = new_manager(env)
    log = manager.get_or_create_log("t", 0, TOPIC_ID)
    fill(log, 12)
    log.flush()
    manager.dirs.checkpoint_all()
    log.truncate_to(4)
    env.kill()
    again = new_manager(env).get_log("t", 0)
    assert again is not None
    assert checkpoint(env, "recovery-point-offset") == {("t", 0): again.log_end_offset} == {("t", 0): 4}


def test_a_start_writes_no_recovery_point_that_is_right(env: FaultEnv) -> None:
    manager = new_manager(env)
    fill(manager.get_or_create_log("t", 0, TOPIC_ID), 12)
    manager.dirs.checkpoint_all()
    env.kill()
    operations: list[tuple[str, str]] = []
    env.inject(lambda _number, kind, path: operations.append((kind, path)))
    new_manager(env)
    assert ("read_file", "/a/recovery-point-offset-checkpoint") in operations
    assert not [path for kind, path in operations if kind == "rename" and "recovery-point" in path]


def open_below(directory: Path) -> int:
    """How many descriptors of this process are of files in that directory."""
    links = []
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            links.append(os.readlink(f"/proc/self/fd/{name}"))
    return sum(link.startswith(f"{directory}/") for link in links)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors as Linux shows them")
def test_descriptors_and_maps_are_bounded_with_many_partitions(tmp_path: Path) -> None:
    """100 partitions of several segments, all written to and read: open files stay within the limit."""
    limit = 8
    most = 0

    def look() -> None:
        nonlocal most
        most = max(most, open_below(tmp_path))

    env = RealEnv()
    manager = LogManager(env, [str(tmp_path)], lambda _topic: small_config(), max_open_segments=limit)
    manager.dirs.lock()
    manager.load_logs()
    for partition in range(100):
        fill(manager.get_or_create_log("t", partition, TOPIC_ID), 7)
        if partition % 10 == 0:
            look()
    for log in manager.all_logs():
        assert len(read_values(log)) == 7
    look()
    manager.shutdown()
    manager = LogManager(env, [str(tmp_path)], lambda _topic: small_config(), max_open_segments=limit)
    manager.dirs.lock()
    manager.load_logs()
    # The lock; no file of a log is open before its first use.
    assert open_below(tmp_path) <= 2
    for log in manager.all_logs():
        assert append(log, b"x") == 7
        assert log.fetch_offset_by_timestamp(0) is not None
        if log.partition % 10 == 0:
            look()
    assert most <= 4 * limit + 10
    manager.abandon()

"""RaftSnapshots: when a snapshot is due, the retention of snapshots, and the log start offset."""

from __future__ import annotations

from contextlib import closing

import pytest

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.raft_snapshots import RaftLogSettings
from barnabas.broker.metadata.snapshot_files import SnapshotId, write_snapshot
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import Setting, Source
from barnabas.protocol.messages.cluster_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from barnabas.protocol.messages.topic_records import RemoveTopicRecord, TopicRecord
from tests.broker.metadata.raft_logs import (
    DIRECTORY,
    Node,
    config,
    configs,
    load,
    new_env,
    open_raft_log,
    state,
)
from tests.storage.fault_env import FaultEnv

HOUR_MS = 3_600_000


def checkpoints(env: FaultEnv) -> list[str]:
    return sorted(name[14:] for name in env.listdir(DIRECTORY) if ".checkpoint" in name)


def _config(values: dict[str, str]) -> BrokerConfig:
    return BrokerConfig(
        [Setting(key, value, Source.FILE, "server.properties") for key, value in values.items()]
    )


def test_the_settings_come_from_the_broker() -> None:
    values = {
        "metadata.log.segment.bytes": "10000000",
        "metadata.log.segment.ms": "1",
        "metadata.max.retention.bytes": "2",
        "metadata.max.retention.ms": "3",
        "metadata.log.max.record.bytes.between.snapshots": "4",
        "metadata.log.max.snapshot.interval.ms": "5",
        "internal.metadata.max.batch.size.in.bytes": "6",
        "internal.metadata.delete.delay.millis": "7",
    }
    settings = RaftLogSettings.of(_config(values))
    assert settings == RaftLogSettings(10_000_000, 1, 6, 2, 3, 4, 5, 7)
    small = RaftLogSettings.of(_config({**values, "internal.metadata.log.segment.bytes": "8"}))
    assert small.segment_bytes == 8
    assert small.log_config.segment_bytes == 8
    assert RaftLogSettings.of(_config({})) == RaftLogSettings()


# -- cadence --


def test_a_snapshot_is_due_after_so_many_bytes() -> None:
    node = Node(new_env(), snapshot_bytes=1000)
    assert not node.log.raft.snapshot_is_due(node.image)
    node.set("a", "x" * 1000)
    assert node.log.raft.maybe_snapshot(node.image)
    node.set("b", "x" * 100)
    assert not node.log.raft.maybe_snapshot(node.image)
    assert checkpoints(node.env) == ["000003-0000000001.checkpoint"]


def test_bytes_read_at_the_start_count() -> None:
    env = new_env()
    node = Node(env)
    node.set("a", "x" * 1000)
    node = Node(env, snapshot_bytes=1000)
    assert node.log.raft.snapshot_is_due(node.image)


def test_a_snapshot_is_due_after_an_hour_with_changes() -> None:
    node = Node(new_env())
    assert not node.log.raft.maybe_snapshot(node.image)
    node.env.time_ms += HOUR_MS
    assert node.log.raft.maybe_snapshot(node.image)
    node.env.time_ms += HOUR_MS
    assert not node.log.raft.maybe_snapshot(node.image)
    node.set("a", "1")
    assert node.log.raft.maybe_snapshot(node.image)


def test_an_interval_of_0_leaves_only_the_byte_limit() -> None:
    node = Node(new_env(), snapshot_interval_ms=0)
    node.env.time_ms += 1000 * HOUR_MS
    assert not node.log.raft.snapshot_is_due(node.image)


def test_records_that_kafka_would_misread_require_a_snapshot() -> None:
    node = Node(new_env())
    topic = TopicRecord(name="t", topic_id=b"topic of 16 byte")
    node.append([topic], [RemoveTopicRecord(topic_id=topic.topic_id)])
    assert not node.log.raft.snapshot_is_due(node.image)  # this broker removed the settings first
    node = Node(node.env)
    assert node.log.raft.maybe_snapshot(node.image)
    assert not node.log.raft.snapshot_is_due(node.image)
    user = UserScramCredentialRecord(name="u", mechanism=1, iterations=4096)
    node.append([user], [RemoveUserScramCredentialRecord(name="u", mechanism=1)])
    assert node.log.raft.maybe_snapshot(node.image)
    assert not Node(node.env).log.raft.snapshot_is_due(node.image)


def test_a_snapshot_has_the_timestamp_of_its_last_record() -> None:
    from barnabas.broker.metadata.snapshot_files import read_timestamp_ms

    node = Node(new_env())
    node.set("a", "1")
    appended_ms = node.env.time_ms
    node.env.time_ms += 5000
    image = node.image
    node.set("b", "1")
    assert node.log.raft.write_snapshot(image)
    assert read_timestamp_ms(node.env, f"{DIRECTORY}/{SnapshotId(3, 1).file_name}") == appended_ms


def test_a_snapshot_of_the_same_offset_is_written_once() -> None:
    node = Node(new_env())
    assert node.snapshot()
    assert not node.snapshot()


# -- retention --


def test_the_oldest_snapshots_are_deleted_while_log_and_snapshots_are_too_large() -> None:
    settings = {
        "segment_bytes": 1500,
        "max_batch_bytes": 1500,
        "retention_bytes": 6000,
        "delete_delay_ms": 60_000,
    }
    node = Node(new_env(), **settings)
    for number in range(6):
        node.set("a", "x" * 1000)
        assert node.snapshot(), number
    kept = [node.env.size(f"{DIRECTORY}/{snapshot.file_name}") for snapshot in node.log.raft.snapshots.ids]
    assert len(kept) > 1
    assert sum(kept) + node.log.raft.log.size <= 6000 < sum(kept) + node.log.raft.log.size + 2 * kept[0]
    assert node.log.raft.log.log_start_offset == node.log.raft.snapshots.ids[0].end_offset
    assert node.log.raft.log.segments[0].base_offset <= node.log.raft.log.log_start_offset
    assert sum(name.endswith(".deleted") for name in node.env.listdir(DIRECTORY)) > 4
    node.env.time_ms += 60_000
    node.log.raft.run_deletions()
    assert not any(name.endswith(".deleted") for name in node.env.listdir(DIRECTORY))
    again = Node(node.env, **settings)
    assert state(again.image) == state(node.image)


def test_the_latest_snapshot_is_never_deleted() -> None:
    node = Node(new_env(), retention_bytes=0, retention_ms=0)
    node.snapshot()
    node.env.time_ms += HOUR_MS
    assert node.log.raft.snapshots.clean() == 0
    assert len(node.log.raft.snapshots.ids) == 1
    assert node.log.raft.log.log_start_offset == 0


def test_expired_snapshots_are_deleted_and_the_log_begins_at_the_next() -> None:
    node = Node(new_env(), retention_ms=HOUR_MS)
    node.snapshot()
    for _ in range(3):
        node.env.time_ms += HOUR_MS // 2 + 1
        node.set("a", str(node.env.time_ms))
        node.snapshot()
    assert [snapshot.end_offset for snapshot in node.log.raft.snapshots.ids] == [4, 5]
    assert node.log.raft.log.log_start_offset == 4


def test_the_log_before_a_torn_snapshot_is_kept() -> None:
    node = Node(new_env(), retention_bytes=-1)
    for number in range(3):
        node.set("a", str(number))
        node.snapshot()
    first, torn, last = node.log.raft.snapshots.ids
    for snapshot_id in (first, torn):
        path = f"{DIRECTORY}/{snapshot_id.file_name}"
        node.env.write_file(path, node.env.read_file(path)[:20])
    node = Node(node.env, retention_bytes=0)
    assert node.log.raft.snapshots.clean() == 2
    assert node.log.raft.snapshots.ids == [last]
    node = Node(node.env, retention_bytes=-1)
    node.set("a", "more")
    node.snapshot()
    path = f"{DIRECTORY}/{node.log.raft.snapshots.ids[-1].file_name}"
    node.env.write_file(path, node.env.read_file(path)[:20])
    node = Node(node.env, retention_ms=0)
    node.env.time_ms += HOUR_MS
    assert node.log.raft.snapshots.clean() == 0
    assert node.log.raft.snapshots.ids[0] == last
    assert configs(node.image) == {"a": "more"}


def test_without_limits_nothing_is_deleted() -> None:
    node = Node(new_env(), retention_ms=-1, retention_bytes=-1)
    for _ in range(3):
        node.env.time_ms += 1000 * HOUR_MS
        node.set("a", "1")
        node.snapshot()
    assert len(node.log.raft.snapshots.ids) == 3
    assert node.log.raft.log.log_start_offset == 0


# -- opening --


def test_temporary_files_are_removed_at_the_start() -> None:
    node = Node(new_env())
    node.snapshot()
    for name in (
        "00000000000000000007-0000000001-ab.checkpoint.part",
        f"{SnapshotId(1, 1).file_name}.deleted",
    ):
        node.env.write_file(f"{DIRECTORY}/{name}", b"x")
    node = Node(node.env)
    assert checkpoints(node.env) == ["000002-0000000001.checkpoint"]


def test_a_log_without_its_beginning_is_rejected() -> None:
    node = Node(new_env(), segment_bytes=300, max_batch_bytes=300, retention_bytes=0)
    for _ in range(2):
        node.set("a", "x" * 200)
        node.snapshot()
    node.set("b", "1")
    (left,) = node.log.raft.snapshots.ids
    assert node.log.raft.log.segments[0].base_offset > 0
    node.env.remove(f"{DIRECTORY}/{left.file_name}")
    with pytest.raises(MetadataLogError, match="the snapshot of what is before is missing"):
        open_raft_log(node.env)


def test_a_torn_snapshot_is_skipped_if_the_log_is_complete() -> None:
    node = Node(new_env())
    node.set("a", "1")
    node.snapshot()
    node.set("b", "2")
    node.snapshot()
    for snapshot_id in reversed(node.log.raft.snapshots.ids):
        path = f"{DIRECTORY}/{snapshot_id.file_name}"
        node.env.write_file(path, node.env.read_file(path)[:-1])
        assert configs(load(open_raft_log(node.env))) == {"a": "1", "b": "2"}


def test_a_torn_snapshot_at_the_log_start_is_an_error() -> None:
    node = Node(new_env(), segment_bytes=300, max_batch_bytes=300, retention_bytes=0)
    for _ in range(2):
        node.set("a", "x" * 200)
        node.snapshot()
    path = f"{DIRECTORY}/{node.log.raft.snapshots.ids[0].file_name}"
    node.env.write_file(path, node.env.read_file(path)[:-1])
    log = open_raft_log(node.env)
    with pytest.raises(MetadataLogError, match="no whole snapshot"):
        load(log)


def test_a_snapshot_beyond_the_log_end_replaces_the_log() -> None:
    """The state of a follower that fetched one from its leader, and stopped before it truncated its own log."""
    node = Node(new_env())
    node.set("a", "1")
    node.log.raft.close()
    write_snapshot(
        node.env, DIRECTORY, SnapshotId(100, 7), [config("b", "2")], metadata_version=30, timestamp_ms=5
    )
    log = open_raft_log(node.env)
    assert (log.raft.log.log_start_offset, log.end_offset) == (100, 100)
    image = load(log)
    assert configs(image) == {"b": "2"}
    assert (image.offset, image.epoch) == (99, 7)
    assert log.become_leader() == 8


def test_a_snapshot_of_another_node_takes_the_place_of_the_log_and_of_those_before() -> None:
    env = new_env()
    node = Node(env, delete_delay_ms=0)
    node.set("a", "1")
    node.snapshot()
    raft = node.log.raft
    foreign = SnapshotId(node.log.end_offset + 10, 7)
    write_snapshot(env, DIRECTORY, foreign, [config("b", "2")], metadata_version=30, timestamp_ms=1)
    raft.snapshots.install(foreign)
    assert raft.snapshots.ids == [foreign]
    assert (raft.log.log_start_offset, raft.log.log_end_offset) == (foreign.end_offset, foreign.end_offset)
    assert raft.snapshots.latest_whole()[0] == foreign


def test_a_snapshot_that_cannot_be_read_does_not_let_the_log_before_it_go() -> None:
    env = new_env()
    node = Node(env, retention_bytes=-1)
    for value in range(2):
        node.set("a", str(value))
        node.snapshot()
    raft = node.log.raft
    raft.close()
    for snapshot_id in raft.snapshots.ids:
        with closing(env.open(raft.snapshots.path(snapshot_id))) as file:
            file.truncate(10)
    again = open_raft_log(env, retention_bytes=1)
    assert again.raft.snapshots.clean() == 0
    assert len(again.raft.snapshots.ids) == 2

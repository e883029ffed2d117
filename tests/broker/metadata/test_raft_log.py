"""RaftLog: the reading of a log in pieces; the rest is in the tests of the two classes that append to it."""

from __future__ import annotations

import pytest

from barnabas.broker.metadata.raft_log import RaftLog
from barnabas.broker.metadata.raft_snapshots import DEFAULT_SETTINGS
from barnabas.broker.metadata.snapshot_files import Control, SnapshotId
from barnabas.protocol.messages.cluster_records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from barnabas.protocol.messages.control_records import VotersRecord
from tests.broker.metadata.raft_logs import LOG_DIR, Node, configs, load, new_env
from tests.broker.metadata.test_observer_raft_log import install, opened, setting, snapshot


def test_the_newest_epoch_is_that_of_the_state_the_log_or_a_snapshot() -> None:
    env = new_env()
    node = Node(env)
    node.set("a", "1")
    node.log.raft.close()
    raft = RaftLog(env, LOG_DIR, DEFAULT_SETTINGS)
    assert raft.latest_epoch == raft.log.latest_epoch == 1
    raft.write_state(raft.state._replace(leader_epoch=5))
    assert raft.latest_epoch == 5
    raft.close()
    assert RaftLog(env, LOG_DIR, DEFAULT_SETTINGS).latest_epoch == 5


def test_the_last_epoch_is_that_of_the_log_or_of_the_snapshot_that_it_begins_at() -> None:
    log = opened(new_env())
    assert log.raft.last_epoch == 0
    install(log, *snapshot([], 10, 4))
    assert log.raft.last_epoch == 4
    log.append(setting(10, 5), 5)
    assert log.raft.last_epoch == 5


def test_the_voters_are_counted_by_the_log_or_by_the_state() -> None:
    log = opened(new_env())
    assert log.raft.voter_count == 0
    log.raft.write_state(log.raft.state._replace(voters=(3000, 3001, 3002)))
    assert log.raft.voter_count == 3
    voters = VotersRecord(version=0, voters=[VotersRecord.Voter(voter_id=3000)])
    install(log, *snapshot([], 10, 4, Control(1, voters)))
    log.raft.load_snapshot()
    assert log.raft.voter_count == 1


def test_reading_in_steps_gives_what_loading_gives() -> None:
    env = new_env()
    node = Node(env)
    loaded = list(node.log.raft.load())
    offset = node.log.end_offset
    for value in range(20):
        node.set(f"key {value % 3}", str(value))
        loaded += node.log.raft.read(offset)
        offset = node.log.end_offset
    records = [record for batch in loaded for record in batch.records]
    assert records == [record for batch in node.log.raft.load() for record in batch.records]
    assert len(records) == 21


def test_a_snapshot_is_read_first_and_then_the_log_behind_it() -> None:
    env = new_env()
    node = Node(env)
    node.set("a", "1")
    assert node.snapshot()
    node.set("b", "2")
    node.log.raft.close()
    again = Node(env)
    assert configs(again.image) == {"a": "1", "b": "2"}
    raft = again.log.raft
    snapshot_id, batch = raft.load_snapshot()
    assert raft.snapshots.ids == [snapshot_id]
    assert batch is not None
    assert (batch.last_offset, batch.epoch) == (snapshot_id.end_offset - 1, snapshot_id.epoch)
    assert raft.metadata_version == 30


def test_without_a_snapshot_the_log_is_read_from_its_start() -> None:
    raft = Node(new_env()).log.raft
    assert raft.load_snapshot() == (SnapshotId(0, 0), None)


def test_records_that_apache_kafka_misreads_demand_a_snapshot() -> None:
    env = new_env()
    node = Node(env)
    node.append([UserScramCredentialRecord(name="u", mechanism=1)])
    assert not node.log.raft.snapshot_is_due(node.image)
    node.append([RemoveUserScramCredentialRecord(name="u", mechanism=1)])
    assert node.log.raft.snapshot_is_due(node.image)
    node.log.raft.close()
    again = Node(env)
    assert again.log.raft.maybe_snapshot(again.image)
    assert not again.log.raft.maybe_snapshot(again.image)


def test_a_log_with_a_hole_cannot_be_read() -> None:
    env = new_env()
    node = Node(env)
    node.set("a", "1")
    raft = node.log.raft
    raft.log.truncate_fully_and_start_at(9)
    raft.log.update_high_watermark(9)
    assert list(raft.read(9)) == []
    with pytest.raises(Exception, match="offset"):
        list(raft.read(2))


def test_a_failure_of_the_disk_is_reported() -> None:
    node = Node(new_env())
    raft = node.log.raft
    reported: list[bool] = []
    raft.on_failure = lambda: reported.append(True)
    raft.notify_failure()
    assert reported == []
    raft.log.fail("a test")
    raft.notify_failure()
    assert (reported, raft.is_failed) == ([True], True)


def test_deletions_run_when_their_delay_is_over() -> None:
    env = new_env()
    node = Node(env, retention_bytes=1, delete_delay_ms=1000)
    for value in range(3):
        node.set("a", str(value))
        node.snapshot()
    raft = node.log.raft
    deleted = [name for name in env.listdir(raft.directory) if name.endswith(".deleted")]
    assert deleted
    raft.run_deletions()
    env.time_ms += 1001
    raft.run_deletions()
    assert not [name for name in env.listdir(raft.directory) if name.endswith(".deleted")]
    assert load(node.log).offset == node.image.offset

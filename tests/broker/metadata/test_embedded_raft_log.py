"""EmbeddedRaftLog: epochs, batches, transactions, and the logs of other nodes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.broker.metadata.embedded_raft_log import EmbeddedRaftLog
from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.quorum_state import QuorumState, QuorumStateFile
from barnabas.broker.metadata.raft_log import METADATA_TOPIC_ID
from barnabas.broker.metadata.records import unframe
from barnabas.broker.metadata.snapshot_files import Control, SnapshotId, read_control, write_snapshot
from barnabas.protocol.messages.control_records import KRaftVersionRecord, LeaderChangeMessage, VotersRecord
from barnabas.protocol.messages.topic_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    PartitionRecord,
)
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.protocol.schema import Message
from barnabas.storage.errors import RecordBatchTooLargeError
from barnabas.storage.offsets import FetchIsolation
from tests.broker.metadata.raft_logs import (
    DIRECTORY,
    DIRECTORY_ID,
    LOG_DIR,
    NODE_ID,
    Node,
    config,
    configs,
    load,
    new_env,
    open_raft_log,
    state,
)
from tests.storage.fault_env import FaultEnv

VOTER = VotersRecord.Voter(
    voter_id=NODE_ID,
    voter_directory_id=DIRECTORY_ID,
    endpoints=[VotersRecord.Endpoint(name="CONTROLLER", host="localhost", port=9093)],
    kraft_version_feature=VotersRecord.KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
)
DYNAMIC = Control(1, VotersRecord(version=0, voters=[VOTER]))


def log_batches(log: EmbeddedRaftLog) -> list[RecordBatch]:
    info = log.raft.log.read(
        log.raft.log.log_start_offset, 1 << 20, FetchIsolation.HIGH_WATERMARK, min_one_message=True
    )
    return [batch for batch in batches(info.records.read()) if isinstance(batch, RecordBatch)]


def control_messages(batch: RecordBatch) -> list[Message | None]:
    return [read_control(record) for record in batch.records()]


def format_dynamic(env: FaultEnv, control: Control = DYNAMIC) -> None:
    """The files of `kafka-storage format --standalone` in the metadata log's directory."""
    env.mkdir(DIRECTORY)
    write_snapshot(env, DIRECTORY, SnapshotId(0, 0), [], metadata_version=30, timestamp_ms=1, control=control)


def test_it_implements_metadata_log() -> None:
    log = open_raft_log(new_env())
    assert list(log.load()) == []


def test_a_new_log_begins_with_the_leader_and_the_id_of_the_metadata_topic() -> None:
    env = new_env()
    log = open_raft_log(env)
    assert list(log.load()) == []
    assert log.become_leader() == 1
    me = LeaderChangeMessage.Voter(voter_id=1)
    change = LeaderChangeMessage(version=0, leader_id=1, voters=[me], granting_voters=[me])
    assert control_messages(log_batches(log)[0]) == [change]
    assert log.end_offset == 1
    assert env.read_file(f"{DIRECTORY}/partition.metadata") == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
    assert METADATA_TOPIC_ID.hex() == "00000000000000000000000000000001"
    assert QuorumStateFile(env, DIRECTORY).read() == QuorumState(1, 1, voters=(1,))


def test_a_log_has_no_epoch_until_it_has_a_leader() -> None:
    env = new_env()
    format_dynamic(env)
    assert open_raft_log(env).leader_epoch == 0
    Node(env)
    assert open_raft_log(env).leader_epoch > 0


def test_each_start_opens_an_epoch() -> None:
    env = new_env()
    for epoch in (1, 2, 3):
        node = Node(env)
        node.set(f"epoch {epoch}", "yes")
        assert node.log.leader_epoch == epoch
        assert log_batches(node.log)[-1].partition_leader_epoch == epoch
        node.log.raft.close()
    assert env.read_file(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n3\n1 0\n2 3\n3 5\n"
    assert load(open_raft_log(env)).epoch == 3


def test_the_epoch_exceeds_that_of_batches_and_snapshots_even_without_quorum_state() -> None:
    env = new_env()
    for _ in range(3):
        Node(env)
    env.remove(f"{DIRECTORY}/quorum-state")
    assert Node(env).log.leader_epoch == 4


def test_an_election_without_records_counts() -> None:
    env = new_env()
    Node(env)
    QuorumStateFile(env, DIRECTORY).write(QuorumState(leader_epoch=9, voted_id=1, voters=(1,)))
    assert Node(env).log.leader_epoch == 10


def test_each_list_of_records_is_a_batch() -> None:
    node = Node(new_env())
    end_offset = node.append([config("a", "1"), config("b", "2")], [config("c", "3")])
    assert end_offset == node.log.end_offset == 5
    assert [(batch.base_offset, batch.record_count) for batch in log_batches(node.log)] == [
        (0, 1),
        (1, 1),
        (2, 2),
        (4, 1),
    ]
    assert {batch.max_timestamp for batch in log_batches(node.log)} == {node.env.time_ms}


def test_records_are_written_in_the_version_of_the_metadata_version_in_force() -> None:
    node = Node(new_env(), metadata_version=7)
    record = PartitionRecord(topic_id=DIRECTORY_ID, directories=[DIRECTORY_ID])
    for level, version in ((None, 0), (17, 1), (30, 2)):
        if level is not None:
            node.append([FeatureLevelRecord(name="metadata.version", feature_level=level)])
        node.log.append([[record]])
        (value,) = (one.value for one in log_batches(node.log)[-1].records())
        assert value is not None
        assert value[:3] == bytes((1, 3, version))


def test_the_metadata_version_is_read_from_the_log() -> None:
    env = new_env()
    Node(env, metadata_version=17)
    log = open_raft_log(env)
    assert log.raft.metadata_version == 0
    load(log)
    assert log.raft.metadata_version == 17


def test_an_oversized_batch_is_rejected_with_all_others_of_its_append() -> None:
    node = Node(new_env(), max_batch_bytes=1000)
    before = node.log.end_offset
    with pytest.raises(RecordBatchTooLargeError, match="1000 is the most"):
        node.append([config("small", "1")], [config("large", "x" * 1000)])
    assert node.log.end_offset == before
    node.set("next", "1")
    assert configs(load(open_raft_log(node.env))) == {"next": "1"}


def test_more_than_a_segment_holds_is_split() -> None:
    node = Node(new_env(), segment_bytes=400, max_batch_bytes=400)
    node.append(*[[config(f"key {number}", "v" * 200)] for number in range(9)])
    assert len(node.log.raft.log.segments) > 4
    assert state(load(open_raft_log(node.env))) == state(node.image)


def test_the_log_is_truncated_at_the_first_incomplete_batch() -> None:
    env = new_env()
    node = Node(env)
    node.set("kept", "1")
    node.log.raft.close()
    path = f"{DIRECTORY}/{0:020d}.log"
    env.write_file(path, env.read_file(path) + b"half of a batch")
    assert configs(Node(env).image) == {"kept": "1"}


# -- metadata transactions --


def test_an_open_transaction_is_aborted_by_the_next_leader() -> None:
    env = new_env()
    node = Node(env)
    node.log.append([[BeginTransactionRecord(name="large")], [config("a", "1")]])
    node.log.raft.close()
    node = Node(env)
    assert configs(node.image) == {}
    assert isinstance(_records(node.log)[-1], AbortTransactionRecord)
    node.set("b", "2")
    log = open_raft_log(env)
    assert configs(load(log)) == {"b": "2"}
    assert AbortTransactionRecord in {type(one) for one in _records(log)}


def test_a_completed_transaction_survives_a_restart() -> None:
    node = Node(new_env())
    node.log.append([[BeginTransactionRecord()], [config("a", "1")], [EndTransactionRecord()]])
    assert configs(load(open_raft_log(node.env))) == {"a": "1"}


def _records(log: EmbeddedRaftLog) -> list[Message]:
    return [
        unframe(record.value)
        for batch in log_batches(log)
        if not batch.is_control
        for record in batch.records()
    ]


# -- voters --


def test_with_kraft_version_1_the_first_epoch_names_the_voters() -> None:
    env = new_env()
    format_dynamic(env)
    log = open_raft_log(env)
    assert list(log.load()) == []
    assert log.raft.control == DYNAMIC
    log.become_leader()
    change, version, voters = control_messages(log_batches(log)[0])
    assert isinstance(change, LeaderChangeMessage)
    assert version == KRaftVersionRecord(version=0, kraft_version=1)
    assert voters == DYNAMIC.voters
    assert QuorumStateFile(env, DIRECTORY).read() == QuorumState(1, 1)


def test_later_epochs_do_not_name_the_voters_again() -> None:
    env = new_env()
    format_dynamic(env)
    Node(env)
    node = Node(env)
    assert node.log.raft.control == DYNAMIC
    assert [batch.record_count for batch in log_batches(node.log)] == [3, 1, 1]


def test_each_snapshot_has_the_voters() -> None:
    env = new_env()
    format_dynamic(env)
    node = Node(env)
    assert node.snapshot()
    log = open_raft_log(env)
    load(log)
    assert log.raft.control == DYNAMIC


def test_the_upgrade_to_kraft_version_1() -> None:
    env = new_env()
    node = Node(env)
    assert DYNAMIC.voters is not None
    node.log.change_quorum(1, DYNAMIC.voters)
    assert QuorumStateFile(env, DIRECTORY).read() == QuorumState(1, 1)
    node = Node(env)
    assert node.log.raft.control == DYNAMIC
    assert QuorumStateFile(env, DIRECTORY).read() == QuorumState(2, 1)


@pytest.mark.parametrize("voters", [(2,), (1, 2, 3)])
def test_a_log_of_other_static_voters_is_rejected(voters: tuple[int, ...]) -> None:
    env = new_env()
    env.mkdir(DIRECTORY)
    QuorumStateFile(env, DIRECTORY).write(QuorumState(1, 2, voters=voters))
    with pytest.raises(MetadataLogError, match="cannot lead it alone"):
        open_raft_log(env)


def test_a_log_of_other_dynamic_voters_is_rejected() -> None:
    env = new_env()
    others = VotersRecord(version=0, voters=[VOTER, VotersRecord.Voter(voter_id=2)])
    format_dynamic(env, Control(1, others))
    with pytest.raises(MetadataLogError, match=r"controllers \[1, 2\]; node 1 cannot lead it alone"):
        load(open_raft_log(env))


def test_a_voter_is_identified_by_its_directory() -> None:
    env = new_env()
    format_dynamic(env)
    log = EmbeddedRaftLog.open(env, LOG_DIR, NODE_ID, b"another directry")
    with pytest.raises(MetadataLogError, match="another directory"):
        load(log)


# -- any records --

SMALL = st.lists(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.none() | st.sampled_from("xyz")), min_size=1, max_size=4
    ),
    max_size=4,
)
STEPS = st.lists(
    st.tuples(st.just("append"), SMALL)
    | st.tuples(st.sampled_from(["snapshot", "restart", "crash", "clean"])),
    max_size=20,
)


@settings(deadline=None)
@given(STEPS)
def test_a_restart_restores_any_records_and_snapshots(
    steps: list[tuple[object, ...]],
) -> None:
    sizes = {"segment_bytes": 300, "max_batch_bytes": 300, "retention_bytes": 1000}
    node = Node(new_env(), **sizes)
    for step in [*steps, ("restart",)]:
        match step:
            case ("append", list(batches)):
                if batches:
                    node.append(*[[config(name, value) for name, value in batch] for batch in batches])
            case ("snapshot",):
                node.snapshot()
            case ("clean",):
                node.env.time_ms += 100_000
                node.log.raft.snapshots.clean()
                node.log.raft.run_deletions()
            case (end,):
                if end == "crash":
                    node.env.crash()
                else:
                    node.log.raft.close()
                    node.env.kill()
                before, node = node, Node(node.env, **sizes)
                assert state(node.image) == state(before.image)
                assert node.image.offset >= before.image.offset

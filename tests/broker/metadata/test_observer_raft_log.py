"""ObserverRaftLog: appends of a leader, the high watermark, truncation, and snapshots in place of the log."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

import pytest

from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.observer_raft_log import ObserverRaftLog
from barnabas.broker.metadata.quorum_state import QuorumState
from barnabas.broker.metadata.raft_log import RaftLog
from barnabas.broker.metadata.raft_snapshots import DEFAULT_SETTINGS, RaftLogSettings
from barnabas.broker.metadata.records import frame
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.snapshot_files import (
    STATIC_VOTERS,
    Control,
    SnapshotId,
    quorum_records,
    snapshot_batches,
)
from barnabas.protocol.messages.control_records import VotersRecord
from barnabas.protocol.messages.topic_records import BeginTransactionRecord, EndTransactionRecord
from barnabas.protocol.records.batch import CorruptRecordError, build_batch
from barnabas.protocol.schema import Message
from tests.broker.metadata.raft_logs import (
    DIRECTORY,
    DIRECTORY_ID,
    LOG_DIR,
    Node,
    config,
    configs,
    new_env,
    state,
)
from tests.storage.fault_env import FaultEnv

NODE_ID = 7
METADATA_VERSION = 30


def batch(offset: int, epoch: int, *records: Message) -> bytes:
    """A batch of a leader."""
    rows = [(None, frame(record, METADATA_VERSION), 1, ()) for record in records]
    return build_batch(rows, base_offset=offset, partition_leader_epoch=epoch)


def setting(offset: int, epoch: int) -> bytes:
    """A batch of one setting, which is named after its offset and epoch."""
    return batch(offset, epoch, config(f"{offset}", f"of epoch {epoch}"))


def opened(env: FaultEnv) -> ObserverRaftLog:
    return ObserverRaftLog(RaftLog(env, LOG_DIR, DEFAULT_SETTINGS), env, NODE_ID, DIRECTORY_ID)


def filled(*epochs: int) -> ObserverRaftLog:
    """A log with one batch of each of these epochs."""
    log = opened(new_env())
    for offset, epoch in enumerate(epochs):
        log.append(setting(offset, epoch), epoch)
    return log


def committed(log: ObserverRaftLog) -> MetadataImage:
    """The image of what is committed."""
    image = MetadataImage.empty()
    for part in log.raft.load():
        image, _ = replayed(image, part.records, offset=part.last_offset, epoch=part.epoch)
    return image


def snapshot(
    records: Sequence[Message], end_offset: int, epoch: int, control: Control = STATIC_VOTERS
) -> tuple[SnapshotId, bytes]:
    parts = snapshot_batches(
        (frame(record, METADATA_VERSION) for record in records),
        epoch=epoch,
        timestamp_ms=1,
        now_ms=2,
        control=control,
    )
    return SnapshotId(end_offset, epoch), b"".join(parts)


def install(log: ObserverRaftLog, snapshot_id: SnapshotId, data: bytes, piece: int = 100) -> None:
    download = log.begin_snapshot(snapshot_id)
    for at in range(0, len(data), piece):
        assert download.position == at
        download.append(data[at : at + piece])
    log.install_snapshot(download)


def test_an_empty_log_begins_at_offset_0_of_epoch_0() -> None:
    log = opened(new_env())
    assert (log.end_offset, log.last_epoch, log.raft.high_watermark) == (0, 0, 0)
    assert committed(log).offset == -1


def test_only_what_is_below_the_high_watermark_is_read() -> None:
    log = filled(1, 1, 2)
    assert (log.end_offset, log.last_epoch) == (3, 2)
    assert configs(committed(log)) == {}
    assert log.update_high_watermark(2)
    image = committed(log)
    assert configs(image) == {"0": "of epoch 1", "1": "of epoch 1"}
    assert (image.offset, image.epoch) == (1, 1)


def test_the_high_watermark_never_falls_and_never_exceeds_the_log() -> None:
    log = filled(1, 1)
    assert log.update_high_watermark(5)
    assert log.raft.high_watermark == 2
    assert not log.update_high_watermark(1)
    assert log.raft.high_watermark == 2


def test_reading_continues_where_it_stopped_and_holds_open_transactions_back() -> None:
    log = opened(new_env())
    parts = (
        [config("a", "1")],
        [config("b", "1"), BeginTransactionRecord(), config("c", "1")],
        [config("d", "1"), EndTransactionRecord(), config("e", "1")],
        [config("f", "1")],
    )
    offset, found = 0, list[list[str]]()
    assert list(log.raft.load()) == []
    for records in parts:
        log.append(batch(log.end_offset, 1, *records), 1)
        log.update_high_watermark(log.end_offset)
        read = list(log.raft.read(offset))
        offset = log.end_offset
        found.append([record.name for part in read for record in part.records])  # type: ignore[attr-defined]
    assert found == [["a"], [], ["b", "c", "d", "e"], ["f"]]


def test_batches_of_a_later_epoch_than_the_leader_has_told_are_left_out() -> None:
    log = opened(new_env())
    log.append(setting(0, 1) + setting(1, 2), 1)
    assert (log.end_offset, log.last_epoch) == (1, 1)


@pytest.mark.parametrize("offset", [0, 3], ids=["before the end", "after a gap"])
def test_a_batch_that_does_not_follow_the_log_is_rejected(offset: int) -> None:
    log = filled(1, 1)
    with pytest.raises(CorruptRecordError, match=f"a batch at {offset} for a log that ends at 2"):
        log.append(setting(offset, 1), 1)
    assert log.end_offset == 2


def test_a_damaged_batch_is_rejected() -> None:
    log = filled(1)
    data = bytearray(setting(1, 1))
    data[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        log.append(bytes(data), 1)
    assert log.end_offset == 1


def test_no_records_are_no_append() -> None:
    log = filled(1)
    log.append(b"", 1)
    assert log.end_offset == 1


@pytest.mark.parametrize(
    ("epochs", "diverging", "end"),
    [
        ((1, 1, 2, 2), (2, 3), 3),  # the leader has less of our last epoch
        ((1, 1, 2, 2), (1, 2), 2),  # ... nothing of it
        ((1, 1, 2, 2), (1, 1), 1),  # ... and less of the one before
        ((1, 1, 2, 2), (1, 9), 2),  # ... and more of the one before
        ((1, 1, 3, 3), (2, 7), 2),  # an epoch that we do not know: the end of the one before
        ((1, 1, 3, 3), (2, 2), 2),
        ((2, 2), (1, 5), 0),  # an epoch before all that we have
    ],
)
def test_the_log_is_truncated_where_it_diverges(
    epochs: Sequence[int], diverging: tuple[int, int], end: int
) -> None:
    log = filled(*epochs)
    log.truncate(*diverging)
    assert log.end_offset == end
    log.append(setting(end, 9), 9)
    assert log.last_epoch == 9


def test_a_divergence_below_the_high_watermark_is_fatal() -> None:
    log = filled(1, 1, 2)
    log.update_high_watermark(2)
    with pytest.raises(MetadataLogError, match=r"ends at 1, and .* is committed up to 2"):
        log.truncate(1, 1)
    assert log.end_offset == 3


def test_the_tail_may_be_lost_in_a_crash_and_the_log_is_whole_after_it() -> None:
    env = new_env()
    log = opened(env)
    for offset in range(3):
        log.append(setting(offset, 1), 1)
    log.update_high_watermark(3)
    env.crash()
    again = opened(env)
    assert again.end_offset <= 3
    assert again.raft.high_watermark == 0, "nobody has told it"
    for offset in range(again.end_offset, 3):
        again.append(setting(offset, 1), 1)
    again.update_high_watermark(3)
    assert len(configs(committed(again))) == 3


@pytest.mark.parametrize("snapshot_end", [None, 1, 3])
def test_a_log_that_lost_a_segment_ends_before_it(snapshot_end: int | None) -> None:
    """What a power cut may leave: later segments reached the disk, an earlier one did not."""
    env = new_env()
    small = RaftLogSettings(segment_bytes=200, max_batch_bytes=200)
    log = ObserverRaftLog(RaftLog(env, LOG_DIR, small), env, NODE_ID, DIRECTORY_ID)
    for offset in range(6):
        log.append(setting(offset, 1), 1)
    if snapshot_end is not None:
        log.update_high_watermark(snapshot_end)
        log.raft.write_snapshot(committed(log))
    log.raft.close()
    base_offsets = [segment.base_offset for segment in log.raft.log.segments]
    assert len(base_offsets) > 2
    lost = base_offsets[1]
    with closing(env.open(f"{DIRECTORY}/{lost:020d}.log")) as file:
        file.truncate(0)
    again = ObserverRaftLog(RaftLog(env, LOG_DIR, small), env, NODE_ID, DIRECTORY_ID)
    assert again.end_offset == max(lost, snapshot_end or 0)
    assert again.raft.high_watermark == (snapshot_end or 0)
    again.append(setting(again.end_offset, 2), 2)


@pytest.mark.parametrize("before", [0, 2, 5])
def test_a_snapshot_replaces_the_log(before: int) -> None:
    env = new_env()
    log = opened(env)
    for offset in range(before):
        log.append(setting(offset, 1), 1)
    install(log, *snapshot([config("from", "a snapshot")], 10, 4))
    assert (log.end_offset, log.last_epoch, log.raft.high_watermark) == (10, 4, 10)
    image = committed(log)
    assert (configs(image), image.offset, image.epoch) == ({"from": "a snapshot"}, 9, 4)
    log.append(setting(10, 5), 5)
    log.update_high_watermark(11)
    expected = {"from": "a snapshot", "10": "of epoch 5"}
    assert configs(committed(log)) == expected
    log.raft.log.flush()
    env.crash()
    again = opened(env)
    assert (again.end_offset, again.raft.high_watermark) == (11, 10)
    again.update_high_watermark(11)
    assert configs(committed(again)) == expected


def test_a_later_snapshot_replaces_an_earlier_one() -> None:
    env = new_env()
    log = opened(env)
    install(log, *snapshot([config("a", "1")], 10, 4))
    install(log, *snapshot([config("a", "2")], 20, 5))
    assert log.raft.snapshots.ids == [SnapshotId(20, 5)]
    assert configs(committed(log)) == {"a": "2"}


def test_the_snapshot_names_the_voters() -> None:
    voters = VotersRecord(version=0, voters=[VotersRecord.Voter(voter_id=3000)])
    log = opened(new_env())
    install(log, *snapshot([], 10, 4, Control(1, voters)))
    committed(log)
    assert log.raft.control == Control(1, voters)
    log.check_voters()


def test_a_snapshot_that_is_not_whole_changes_nothing() -> None:
    env = new_env()
    log = opened(env)
    log.append(setting(0, 1), 1)
    snapshot_id, data = snapshot([config("a", "1")], 10, 4)
    with pytest.raises(MetadataLogError, match="is no whole snapshot"):
        install(log, snapshot_id, data[:-10])
    assert log.end_offset == 1
    assert opened(env).raft.snapshots.ids == []


def test_an_abandoned_download_leaves_no_file() -> None:
    env = new_env()
    log = opened(env)
    before = sorted(env.listdir(DIRECTORY))
    download = log.begin_snapshot(SnapshotId(10, 4))
    download.append(b"half")
    assert sorted(env.listdir(DIRECTORY)) != before
    download.abandon()
    assert sorted(env.listdir(DIRECTORY)) == before


def test_the_log_of_an_embedded_controller_is_refused() -> None:
    env = new_env()
    Node(env).log.raft.close()
    raft = RaftLog(env, LOG_DIR, DEFAULT_SETTINGS)
    with pytest.raises(MetadataLogError, match="node 1 is a voter"):
        ObserverRaftLog(raft, env, 1, DIRECTORY_ID)


def test_a_log_that_names_this_node_as_a_voter_is_refused() -> None:
    log = opened(new_env())
    voters = VotersRecord(version=0, voters=[VotersRecord.Voter(voter_id=NODE_ID)])
    install(log, *snapshot([], 10, 4, Control(1, voters)))
    committed(log)
    with pytest.raises(MetadataLogError, match="node 7 is a voter"):
        log.check_voters()


def test_the_state_of_an_observer_outlives_a_restart() -> None:
    env = new_env()
    log = opened(env)
    log.raft.write_state(QuorumState(leader_epoch=6, leader_id=3000, voters=(3000, 3001)))
    env.crash()
    assert opened(env).raft.latest_epoch == 6


def test_a_snapshot_written_here_is_read_again() -> None:
    env = new_env()
    log = opened(env)
    for offset in range(3):
        log.append(setting(offset, 1), 1)
    log.update_high_watermark(3)
    image = committed(log)
    assert log.raft.write_snapshot(image)
    env.crash()
    again = opened(env)
    assert again.raft.high_watermark == 3
    assert state(committed(again)) == state(image)
    assert quorum_records(again.raft.control) == []

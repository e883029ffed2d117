"""Snapshot files: their batches and names, and damaged ones."""

from __future__ import annotations

from itertools import count

import pytest

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.snapshot_files import (
    Control,
    SnapshotDownload,
    SnapshotId,
    is_leftover,
    read_snapshot,
    read_timestamp_ms,
    write_snapshot,
)
from barnabas.protocol.messages.control_records import VotersRecord
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from tests.broker.metadata.raft_logs import LOG_DIR, config, new_env
from tests.storage.fault_env import FaultEnv, nth

ID = SnapshotId(4711, 3)
PATH = f"{LOG_DIR}/00000000000000004711-0000000003.checkpoint"
RECORDS = [config(f"key {number}", "value") for number in range(10)]
DYNAMIC = Control(1, VotersRecord(version=0, voters=[VotersRecord.Voter(voter_id=1)]))


def write(env: FaultEnv, control: Control = DYNAMIC, max_batch_bytes: int = 1 << 20) -> int:
    return write_snapshot(
        env,
        LOG_DIR,
        ID,
        RECORDS,
        metadata_version=30,
        timestamp_ms=1234,
        control=control,
        max_batch_bytes=max_batch_bytes,
    )


def written(env: FaultEnv) -> list[RecordBatch]:
    return [batch for batch in batches(env.read_file(PATH)) if isinstance(batch, RecordBatch)]


def test_written_records_are_read_back() -> None:
    env = new_env()
    assert write(env) == env.size(PATH)
    assert read_snapshot(env, PATH) == (1234, DYNAMIC, RECORDS)
    assert read_timestamp_ms(env, PATH) == 1234
    assert env.listdir(LOG_DIR) == ["00000000000000004711-0000000003.checkpoint"]


def test_it_begins_with_a_header_and_ends_with_a_footer_in_its_own_epoch() -> None:
    env = new_env()
    write(env)
    header, records, footer = written(env)
    assert [(batch.base_offset, batch.record_count) for batch in (header, records, footer)] == [
        (0, 3),
        (3, 10),
        (13, 1),
    ]
    assert [batch.is_control for batch in (header, records, footer)] == [True, False, True]
    assert {batch.partition_leader_epoch for batch in written(env)} == {3}


def test_with_static_voters_there_is_no_control_record_but_the_header() -> None:
    env = new_env()
    write(env, Control())
    assert written(env)[0].record_count == 1
    assert read_snapshot(env, PATH).control == Control()


def test_batches_have_a_maximum_size() -> None:
    env = new_env()
    write(env, max_batch_bytes=200)
    sizes = [batch.size_in_bytes for batch in written(env)[1:-1]]
    assert len(sizes) > 2
    assert max(sizes) <= 200 + 61
    assert read_snapshot(env, PATH).records == RECORDS


def test_a_written_snapshot_is_durable() -> None:
    env = new_env()
    write(env)
    env.crash()
    assert read_snapshot(env, PATH).records == RECORDS


def test_a_failed_write_leaves_no_snapshot() -> None:
    for operation in count():
        env = new_env()
        env.inject(nth(operation))
        try:
            write(env)
        except OSError:
            env.inject(None)
        else:
            return
        names = env.listdir(LOG_DIR)
        assert all(is_leftover(name) or SnapshotId.of(name) == ID for name in names)
        if SnapshotId(4711, 3).file_name in names:
            assert read_snapshot(env, PATH).records == RECORDS


def test_every_truncation_and_every_changed_byte_is_detected() -> None:
    env = new_env()
    write(env)
    data = env.read_file(PATH)
    for position in range(0, len(data), 7):
        env.write_file(PATH, data[:position])
        with pytest.raises(MetadataLogError, match="no whole snapshot"):
            read_snapshot(env, PATH)
    for position in range(17, len(data), 11):
        env.write_file(PATH, data[:position] + bytes((data[position] ^ 0x55,)) + data[position + 1 :])
        try:
            found = read_snapshot(env, PATH)
        except MetadataLogError:
            continue
        assert found.records == RECORDS  # offsets and epochs lie outside the checksums


@pytest.mark.parametrize("rest", [b"x", bytes(100)])
def test_nothing_follows_the_footer(rest: bytes) -> None:
    env = new_env()
    write(env)
    env.write_file(PATH, env.read_file(PATH) + rest)
    with pytest.raises(MetadataLogError, match="no whole snapshot"):
        read_snapshot(env, PATH)


def test_a_file_without_a_header_has_no_timestamp() -> None:
    env = new_env()
    env.write_file(PATH, b"")
    with pytest.raises(MetadataLogError, match="header"):
        read_timestamp_ms(env, PATH)


@pytest.mark.parametrize(
    ("name", "snapshot_id", "leftover"),
    [
        ("00000000000000000054-0000000001.checkpoint", SnapshotId(54, 1), False),
        ("00000000000000000054-0000000001.checkpoint.deleted", None, True),
        ("00000000000000000054-0000000001-3245.checkpoint.part", None, True),
        ("bootstrap.checkpoint", None, False),
        ("00000000000000000054.snapshot", None, False),
        ("54-1.checkpoint", None, False),
    ],
)
def test_file_names(name: str, snapshot_id: SnapshotId | None, leftover: bool) -> None:
    assert SnapshotId.of(name) == snapshot_id
    assert is_leftover(name) == leftover


def test_snapshots_are_ordered_as_in_kafka() -> None:
    assert SnapshotId(54, 1) < SnapshotId(54, 2) < SnapshotId(89, 1)


def test_a_snapshot_is_downloaded_in_pieces() -> None:
    source, env = new_env(), new_env()
    write(source)
    data = source.read_file(PATH)
    download = SnapshotDownload(env, LOG_DIR, ID)
    for at in range(0, len(data), 100):
        assert download.position == at
        download.append(data[at : at + 100])
    (part,) = env.listdir(LOG_DIR)
    assert is_leftover(part)
    download.finish()
    assert env.listdir(LOG_DIR) == ["00000000000000004711-0000000003.checkpoint"]
    env.crash()
    assert read_snapshot(env, PATH) == (1234, DYNAMIC, RECORDS)


def test_a_download_that_is_not_whole_does_not_get_the_name() -> None:
    env = new_env()
    download = SnapshotDownload(env, LOG_DIR, ID)
    download.append(b"half a snapshot")
    with pytest.raises(MetadataLogError, match="is no whole snapshot"):
        download.finish()
    assert all(is_leftover(name) for name in env.listdir(LOG_DIR))


def test_an_abandoned_download_is_removed() -> None:
    env = new_env()
    download = SnapshotDownload(env, LOG_DIR, ID)
    download.append(b"half a snapshot")
    download.abandon()
    assert env.listdir(LOG_DIR) == []

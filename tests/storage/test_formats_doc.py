"""The examples in docs/formats.md are what the code writes."""

import re
from pathlib import Path

import pytest

from barnabas.broker.coordinator.records import TRANSACTION_RECORDS, RecordSerde
from barnabas.broker.coordinator.transaction.metadata import TransactionMetadata
from barnabas.broker.coordinator.transaction.records import TransactionRecord
from barnabas.broker.metadata.quorum_state import QuorumState, QuorumStateFile
from barnabas.broker.metadata.records import frame
from barnabas.broker.metadata.snapshot_files import SnapshotId, control_batch, write_snapshot
from barnabas.protocol.messages.control_records import LeaderChangeMessage
from barnabas.protocol.messages.topic_records import FeatureLevelRecord, TopicRecord
from barnabas.protocol.records.batch import RecordBatch, build_batch
from barnabas.protocol.records.control import ControlRecordType
from barnabas.protocol.records.entries import batches
from barnabas.storage.log.checkpoints import (
    CleanShutdownFile,
    LeaderEpochCheckpointFile,
    MetaProperties,
    OffsetCheckpointFile,
    PartitionMetadataFile,
)
from barnabas.storage.log.producer_snapshots import ProducerSnapshotFiles, SnapshotEntry
from barnabas.storage.segment.index import OffsetIndex, TimeIndex
from barnabas.storage.segment.txn_index import AbortedTxn, TransactionIndex
from tests.protocol.records.message_sets import message
from tests.protocol.records.raw_batches import empty_batch
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import end_txn

DOCUMENT = Path(__file__).parents[2] / "docs" / "formats.md"
BLOCK = re.compile(r"^```(hex|text) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = {name: (kind, body) for kind, name, body in BLOCK.findall(DOCUMENT.read_text())}
STAMP = 1795253645794
BASE = 4940


def offset_checkpoint(env: FaultEnv) -> bytes:
    OffsetCheckpointFile(env, "/d/f").write({("orders", 0): 10310, ("orders", 1): 9690})
    return env.read_file("/d/f")


def cleaner_offset_checkpoint(env: FaultEnv) -> bytes:
    OffsetCheckpointFile(env, "/d/f").write({("orders", 0): 4940})
    return env.read_file("/d/f")


def leader_epochs(env: FaultEnv) -> bytes:
    LeaderEpochCheckpointFile(env, "/d/f").write([(0, 0), (3, 1500)])
    return env.read_file("/d/f")


def partition_metadata(env: FaultEnv) -> bytes:
    PartitionMetadataFile(env, "/d/f").write(bytes.fromhex("2d6d34628c9d41db1dcabadf12389d11"))
    return env.read_file("/d/f")


def meta_properties(env: FaultEnv) -> bytes:
    env.time_ms = 1_795_253_645_000
    MetaProperties("V8fuWNeJMPAdsUHP31AizQ", 1, "qzLvuX_YJuUwQMtNPUxuzA").write(env, "/d")
    return env.read_file("/d/meta.properties")


def clean_shutdown(env: FaultEnv) -> bytes:
    CleanShutdownFile(env, "/d").write(11)
    return env.read_file("/d/.kafka_cleanshutdown")


def record_batch(_env: FaultEnv) -> bytes:
    return build_batch(
        [(b"k", b"hello", STAMP, [("h", b"1")])],
        base_offset=7,
        partition_leader_epoch=3,
        producer_id=1000,
        producer_epoch=0,
        base_sequence=5,
    )


def abort_marker(_env: FaultEnv) -> bytes:
    return end_txn(1000, 0, commit=False, coordinator_epoch=2, timestamp=STAMP)


def delete_horizon(_env: FaultEnv) -> bytes:
    return build_batch(
        [(b"k", None, STAMP, [])],
        base_offset=12,
        partition_leader_epoch=3,
        delete_horizon_ms=STAMP + 86_400_000,
        last_offset_delta=3,
    )


def empty_batch_example(_env: FaultEnv) -> bytes:
    return empty_batch(
        base_offset=20,
        last_offset=24,
        timestamp=STAMP,
        producer_id=1000,
        producer_epoch=0,
        base_sequence=6,
        partition_leader_epoch=3,
    )


def message_v0(_env: FaultEnv) -> bytes:
    return message(b"k", b"v", magic=0, offset=3)


def message_v1(_env: FaultEnv) -> bytes:
    return message(b"k", b"v", magic=1, offset=3, timestamp=STAMP)


def offset_index(env: FaultEnv) -> bytes:
    index = OffsetIndex(env, "/d/i", BASE, 100)
    index.append(4996, 8064)
    index.append(5034, 16128)
    index.trim_to_valid_size()
    return env.read_file("/d/i")


def time_index(env: FaultEnv) -> bytes:
    index = TimeIndex(env, "/d/i", BASE, 100)
    index.maybe_append(1795253663202, 4996)
    index.maybe_append(1795253663204, 5034)
    index.trim_to_valid_size()
    return env.read_file("/d/i")


def txn_index(env: FaultEnv) -> bytes:
    TransactionIndex(env, "/d/i", 0).append(AbortedTxn(1000, 10, 20, 21))
    return env.read_file("/d/i")


def snapshot(env: FaultEnv) -> bytes:
    entry = SnapshotEntry(0, 0, 4939, 4939, 18, 0x1A1FD74F617, -1, -1)
    return env.read_file(ProducerSnapshotFiles(env, "/d", []).write(BASE, [entry], sync=True))


def metadata_record(_env: FaultEnv) -> bytes:
    return frame(TopicRecord(name="t", topic_id=bytes(range(16))), 30)


def leader_change(_env: FaultEnv) -> bytes:
    me = LeaderChangeMessage.Voter(voter_id=1)
    change = LeaderChangeMessage(leader_id=1, voters=[me], granting_voters=[me])
    return control_batch([(ControlRecordType.LEADER_CHANGE, change)], base_offset=0, epoch=1, now_ms=STAMP)


def metadata_snapshot(env: FaultEnv) -> bytes:
    env.time_ms = STAMP
    level = FeatureLevelRecord(name="metadata.version", feature_level=30)
    snapshot_id = SnapshotId(12, 1)
    write_snapshot(env, "/d", snapshot_id, [level], metadata_version=30, timestamp_ms=STAMP - 1000)
    return env.read_file(f"/d/{snapshot_id.file_name}")


def quorum_state_0(env: FaultEnv) -> bytes:
    QuorumStateFile(env, "/d").write(QuorumState(leader_epoch=2, leader_id=1, voters=(1,)))
    return env.read_file("/d/quorum-state")


def quorum_state_1(env: FaultEnv) -> bytes:
    QuorumStateFile(env, "/d").write(QuorumState(leader_epoch=2, leader_id=1))
    return env.read_file("/d/quorum-state")


def _transaction() -> tuple[bytes, bytes | None]:
    begun = TransactionMetadata("tx", 1000, 60_000, STAMP, producer_epoch=3).with_partitions(
        [("orders", 0), ("orders", 1)], STAMP, client_version=2
    )
    return RecordSerde(TRANSACTION_RECORDS).encode(TransactionRecord(begun, 2))


def transaction_key(env: FaultEnv) -> bytes:
    return _transaction()[0]


def transaction_value(env: FaultEnv) -> bytes:
    return _transaction()[1] or b""


WRITERS = {
    writer.__name__.removesuffix("_example").replace("_", "-"): writer
    for writer in (
        offset_checkpoint,
        cleaner_offset_checkpoint,
        leader_epochs,
        partition_metadata,
        meta_properties,
        clean_shutdown,
        record_batch,
        abort_marker,
        transaction_key,
        transaction_value,
        delete_horizon,
        empty_batch_example,
        message_v0,
        message_v1,
        offset_index,
        time_index,
        txn_index,
        snapshot,
        metadata_record,
        leader_change,
        metadata_snapshot,
        quorum_state_0,
        quorum_state_1,
    )
}


def test_every_example_has_a_writer() -> None:
    assert set(BLOCKS) == set(WRITERS)


@pytest.mark.parametrize("name", sorted(WRITERS))
def test_each_example_is_what_the_code_writes(name: str) -> None:
    env = FaultEnv()
    env.mkdir("/d")
    written = WRITERS[name](env)
    kind, body = BLOCKS[name]
    if kind == "hex":
        assert written.hex() == "".join(body.split())
    else:
        assert written.decode().rstrip("\n") == body.rstrip("\n")


def test_the_batch_is_as_the_text_describes() -> None:
    batch = RecordBatch(bytes.fromhex("".join(BLOCKS["record-batch"][1].split())))
    batch.ensure_valid()
    (record,) = batch.records()
    assert (record.offset, record.key, record.value, record.headers) == (7, b"k", b"hello", [("h", b"1")])
    assert (batch.partition_leader_epoch, batch.producer_id, batch.base_sequence) == (3, 1000, 5)


def block(name: str) -> bytes:
    return bytes.fromhex("".join(BLOCKS[name][1].split()))


@pytest.mark.parametrize("name", ["message-v0", "message-v1"])
def test_the_messages_are_as_the_text_describes(name: str) -> None:
    (entry,) = batches(block(name))
    entry.ensure_valid()
    (record,) = entry.records()
    assert (record.offset, record.key, record.value) == (3, b"k", b"v")
    assert record.timestamp == (STAMP if name == "message-v1" else -1)


def test_the_delete_horizon_is_as_the_text_describes() -> None:
    batch = RecordBatch(block("delete-horizon"))
    batch.ensure_valid()
    (record,) = batch.records()
    assert (record.offset, record.timestamp, record.value) == (12, STAMP, None)
    assert (batch.delete_horizon_ms, batch.last_offset) == (1795340045794, 15)


def test_the_empty_batch_is_as_the_text_describes() -> None:
    batch = RecordBatch(block("empty-batch"))
    batch.ensure_valid()
    assert list(batch.records()) == []
    assert (batch.base_offset, batch.last_offset, batch.base_sequence, batch.last_sequence) == (20, 24, 6, 10)


def test_the_line_of_a_dump_is_what_dump_log_prints(tmp_path: Path) -> None:
    """The batch of the page's first example."""
    from click.testing import CliRunner

    from barnabas.cli.main import main

    log = tmp_path / "00000000000000000007.log"
    log.write_bytes(block("record-batch"))
    printed = CliRunner().invoke(main, ["dump-log", str(log), "--print-data-log"]).stdout.splitlines()
    documented = [
        line for line in DOCUMENT.read_text().splitlines() if line.startswith(("baseOffset: ", "| offset: "))
    ]
    assert len(documented) == 2
    assert printed[2].startswith(documented[0].removesuffix("..."))
    assert printed[3] == documented[1]

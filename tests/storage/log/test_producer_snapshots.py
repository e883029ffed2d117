"""Producer snapshots: Kafka's bytes, read back, rejected when damaged."""

import pytest

from barnabas.protocol.codec import decode
from barnabas.protocol.messages.files import ProducerSnapshot
from barnabas.storage.errors import CorruptSnapshotError
from barnabas.storage.log.producer_snapshots import ProducerSnapshotFiles, SnapshotEntry
from tests.storage.fault_env import FaultEnv

# Written by Apache Kafka 4.3.1 for one idempotent producer, at offset 4940.
KAFKAS = bytes.fromhex(
    "0001fc5211980000000100000000000000000000"
    "0000134b000000000000134b000000120000"
    "01a1fd74f617ffffffffffffffffffffffff"
)
ENTRY = SnapshotEntry(0, 0, 4939, 4939, 18, 0x1A1FD74F617, -1, -1)


@pytest.fixture
def env() -> FaultEnv:
    env = FaultEnv()
    env.mkdir("/d")
    return env


def test_bytes_are_kafkas(env: FaultEnv) -> None:
    files = ProducerSnapshotFiles(env, "/d", [])
    path = files.write(4940, [ENTRY], sync=True)
    assert path == "/d/00000000000000004940.snapshot"
    assert env.read_file(path) == KAFKAS
    assert files.read(4940) == [ENTRY]


def test_layout_is_that_of_the_message_producer_snapshot(env: FaultEnv) -> None:
    other = SnapshotEntry(1 << 40, 7, 5, 1 << 50, 2, 1 << 41, 3, 1 << 49)
    data = env.read_file(ProducerSnapshotFiles(env, "/d", []).write(4940, [ENTRY, other], sync=True))
    snapshot = decode(ProducerSnapshot, 1, data[2:])
    rows = [
        (
            entry.producer_id,
            entry.epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        for entry in snapshot.producer_entries
    ]
    assert rows == [ENTRY, other]


def test_a_log_without_producers_has_ten_bytes(env: FaultEnv) -> None:
    files = ProducerSnapshotFiles(env, "/d", [])
    assert env.size(files.write(7, [], sync=False)) == 10
    assert files.read(7) == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        KAFKAS[:9],
        KAFKAS[:-1],
        KAFKAS + b"\0",
        b"\0\2" + KAFKAS[2:],
        KAFKAS[:20] + b"\1" + KAFKAS[21:],
        bytes(56),
    ],
)
def test_a_damaged_snapshot_is_rejected(env: FaultEnv, data: bytes) -> None:
    env.write_file("/d/00000000000000000005.snapshot", data)
    with pytest.raises(CorruptSnapshotError, match=r"5\.snapshot"):
        ProducerSnapshotFiles(env, "/d", env.listdir("/d")).read(5)


def test_a_missing_snapshot_is_rejected_like_a_damaged_one(env: FaultEnv) -> None:
    with pytest.raises(CorruptSnapshotError):
        ProducerSnapshotFiles(env, "/d", ["00000000000000000005.snapshot"]).read(5)


def some(env: FaultEnv, *offsets: int) -> ProducerSnapshotFiles:
    files = ProducerSnapshotFiles(env, "/d", ["x.snapshot", "00000000000000000000.log"])
    for offset in offsets:
        files.write(offset, [], sync=False)
    assert files.offsets == sorted(offsets)
    return ProducerSnapshotFiles(env, "/d", env.listdir("/d"))


def test_snapshots_outside_the_log_are_removed(env: FaultEnv) -> None:
    files = some(env, 30, 10, 20, 40)
    files.remove_outside(20, 30)
    assert files.offsets == [20, 30]
    assert len(env.listdir("/d")) == 2
    assert files.latest_offset == 30


@pytest.mark.parametrize(
    ("bases", "left"), [({0, 20}, [20, 40]), ({0, 50}, []), ({0, 40}, [40]), (set(), [40])]
)
def test_snapshots_of_no_segment_are_removed_except_the_last(
    env: FaultEnv, bases: set[int], left: list[int]
) -> None:
    files = some(env, 10, 20, 40)
    files.remove_stray(bases)
    assert files.offsets == left


def test_a_snapshot_is_removed_with_its_segment(env: FaultEnv) -> None:
    files = some(env, 10)
    assert files.detach(11, ".deleted") is None
    assert files.detach(10, ".deleted") == "/d/00000000000000000010.snapshot.deleted"
    assert files.latest_offset is None
    assert env.listdir("/d") == ["00000000000000000010.snapshot.deleted"]
    files.remove(10)


def test_a_second_write_replaces_the_snapshot(env: FaultEnv) -> None:
    files = some(env, 10)
    files.write(10, [ENTRY], sync=False)
    files.write(10, [], sync=False)
    assert files.offsets == [10]
    assert files.read(10) == []

"""Checkpoints and other text files: byte for byte as Kafka's, read back, rejected when they are invalid."""

from contextlib import suppress

import pytest

from barnabas.storage.errors import CorruptCheckpointError, InconsistentMetadataError
from barnabas.storage.log.checkpoints import (
    CleanShutdownFile,
    LeaderEpochCheckpointFile,
    MetaProperties,
    OffsetCheckpointFile,
    PartitionMetadataFile,
)
from tests.storage.fault_env import FaultEnv, PowerCut, power_cut

TOPIC_ID = bytes.fromhex("2d6d34628c9d41db1dcabadf12389d11")


@pytest.fixture
def env() -> FaultEnv:
    env = FaultEnv()
    env.mkdir("/d")
    return env


def test_offset_checkpoint_is_kafkas(env: FaultEnv) -> None:
    checkpoint = OffsetCheckpointFile(env, "/d/recovery-point-offset-checkpoint")
    checkpoint.write({("t1", 1): 9690, ("t1", 0): 10310})
    assert env.read_file(checkpoint.path) == b"0\n2\nt1 1 9690\nt1 0 10310\n"
    assert checkpoint.read() == {("t1", 1): 9690, ("t1", 0): 10310}
    checkpoint.write({})
    assert env.read_file(checkpoint.path) == b"0\n0\n"
    assert checkpoint.read() == {}


@pytest.mark.parametrize("data", [b"", None])
def test_an_offset_checkpoint_may_be_empty_or_missing(env: FaultEnv, data: bytes | None) -> None:
    if data is not None:
        env.write_file("/d/c", data)
    assert OffsetCheckpointFile(env, "/d/c").read() == {}


@pytest.mark.parametrize(
    "data",
    [
        b"x",
        b"0",
        b"0\nx",
        b"1\n0\n",
        b"0\n2\nt 0 1\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt 0 x\n",
        b"\xff\xfe",
        b"\0\0\0\0",
    ],
)
def test_a_corrupt_offset_checkpoint_is_rejected(env: FaultEnv, data: bytes) -> None:
    env.write_file("/d/c", data)
    with pytest.raises(CorruptCheckpointError, match="/d/c"):
        OffsetCheckpointFile(env, "/d/c").read()


def test_the_same_offsets_are_not_written_twice(env: FaultEnv) -> None:
    checkpoint = OffsetCheckpointFile(env, "/d/c")
    checkpoint.write({("t", 0): 1})
    env.inject(None)
    checkpoint.write({("t", 0): 1})
    assert env.operations == 0


def test_a_failed_write_is_repeated(env: FaultEnv) -> None:
    from tests.storage.fault_env import nth

    checkpoint = OffsetCheckpointFile(env, "/d/c")
    env.inject(nth(2))
    with pytest.raises(OSError, match="injected"):
        checkpoint.write({("t", 0): 1})
    checkpoint.write({("t", 0): 1})
    assert checkpoint.read() == {("t", 0): 1}


def test_an_older_job_does_not_overwrite_a_newer_one(env: FaultEnv) -> None:
    checkpoint = OffsetCheckpointFile(env, "/d/c")
    older = checkpoint.prepare({("t", 0): 1, ("gone", 0): 7})
    newer = checkpoint.prepare({("t", 0): 2})
    newer()
    older()
    assert checkpoint.read() == {("t", 0): 2}


def test_leader_epoch_checkpoint_is_kafkas(env: FaultEnv) -> None:
    checkpoint = LeaderEpochCheckpointFile(env, "/d/leader-epoch-checkpoint")
    assert checkpoint.read() == []
    checkpoint.write([(0, 0), (3, 1500)])
    assert env.read_file(checkpoint.path) == b"0\n2\n0 0\n3 1500\n"
    assert checkpoint.read() == [(0, 0), (3, 1500)]


@pytest.mark.parametrize("data", [b"0\n1\n1\n", b"0\n1\na b\n", b"0\n2\n3 0\n1 5\n", b"nonsense"])
def test_a_corrupt_leader_epoch_checkpoint_is_rejected(env: FaultEnv, data: bytes) -> None:
    env.write_file("/d/c", data)
    with pytest.raises(CorruptCheckpointError):
        LeaderEpochCheckpointFile(env, "/d/c").read()


def test_partition_metadata_is_kafkas(env: FaultEnv) -> None:
    file = PartitionMetadataFile(env, "/d/partition.metadata")
    assert file.read() is None
    file.write(TOPIC_ID)
    assert env.read_file(file.path) == b"version: 0\ntopic_id: LW00YoydQdsdyrrfEjidEQ"
    assert file.read() == TOPIC_ID


def test_a_process_that_is_killed_leaves_partition_metadata_whole_or_not_at_all() -> None:
    for operation in range(6):
        env = FaultEnv()
        env.mkdir("/d")
        file = PartitionMetadataFile(env, "/d/partition.metadata")
        env.inject(power_cut(operation))
        with suppress(PowerCut):
            file.write_unsynced(b"i" * 16)
        env.kill()
        assert PartitionMetadataFile(env, "/d/partition.metadata").read() in (None, b"i" * 16)


@pytest.mark.parametrize(
    "data", [b"", b"version: 1\ntopic_id: LW00YoydQdsdyrrfEjidEQ", b"version: 0\ntopic_id: !"]
)
def test_a_corrupt_partition_metadata_is_rejected(env: FaultEnv, data: bytes) -> None:
    env.write_file("/d/p", data)
    with pytest.raises(CorruptCheckpointError):
        PartitionMetadataFile(env, "/d/p").read()


def test_meta_properties_are_kafkas(env: FaultEnv) -> None:
    assert MetaProperties.read(env, "/d") is None
    env.time_ms = 1_795_253_645_000
    MetaProperties("V8fuWNeJMPAdsUHP31AizQ", 1, "qzLvuX_YJuUwQMtNPUxuzA").write(env, "/d")
    assert env.read_file("/d/meta.properties").decode() == (
        "#\n#Sat Nov 21 09:34:05 UTC 2026\nnode.id=1\ndirectory.id=qzLvuX_YJuUwQMtNPUxuzA\nversion=1\n"
        "cluster.id=V8fuWNeJMPAdsUHP31AizQ\n"
    )
    found = MetaProperties.read(env, "/d")
    assert found is not None
    assert (found.cluster_id, found.node_id, found.directory_id) == (
        "V8fuWNeJMPAdsUHP31AizQ",
        1,
        "qzLvuX_YJuUwQMtNPUxuzA",
    )


def test_meta_properties_keep_unknown_keys(env: FaultEnv) -> None:
    env.write_file("/d/meta.properties", b"! old\nbroker.id = 7\nversion=0\ncluster.id=abc\nfuture.key=x=y\n")
    found = MetaProperties.read(env, "/d")
    assert found is not None
    assert (found.cluster_id, found.node_id, found.directory_id, found.others) == (
        "abc",
        7,
        "",
        {"future.key": "x=y"},
    )
    found.write(env, "/d")
    assert b"future.key=x\\=y\n" in env.read_file("/d/meta.properties")


def test_meta_properties_are_escaped_as_java_does(env: FaultEnv) -> None:
    """Kafka accepts a cluster id with base64 padding, and writes its `=` escaped."""
    written = b"node.id=2147483647\nversion=1\ncluster.id=MkU3OEVBNTcwNTJENDM2QQ\\=\\=\no\\ k=\\u00E9\\uD83D\\uDE00\n"
    env.write_file("/d/meta.properties", written)
    found = MetaProperties.read(env, "/d")
    assert found is not None
    assert (found.cluster_id, found.others) == ("MkU3OEVBNTcwNTJENDM2QQ==", {"o k": "\xe9\U0001f600"})
    found.write(env, "/d")
    lines = env.read_file("/d/meta.properties").splitlines()
    assert b"cluster.id=MkU3OEVBNTcwNTJENDM2QQ\\=\\=" in lines
    assert b"o\\ k=\\u00E9\\uD83D\\uDE00" in lines


@pytest.mark.parametrize(
    "data",
    [
        b"version=2\nnode.id=1\ncluster.id=abc\n",
        b"version=1\nnode.id=one\ncluster.id=abc\n",
        b"version=1\nnode.id=--1\ncluster.id=abc\n",
        b"version=1\nnode.id=2147483648\ncluster.id=abc\n",
        b"version=1\nnode.id=-1\ncluster.id=abc\n",
        b"version=1\nnode.id=1\n",
        b"version=1\ncluster.id=abc\n",
        b"version=1\nnode.id=1\ncluster.id=\\u12\n",
        b"",
    ],
)
def test_invalid_meta_properties_are_rejected(env: FaultEnv, data: bytes) -> None:
    env.write_file("/d/meta.properties", data)
    with pytest.raises(InconsistentMetadataError):
        MetaProperties.read(env, "/d")


def test_the_clean_shutdown_file_is_kafkas(env: FaultEnv) -> None:
    marker = CleanShutdownFile(env, "/d")
    assert not marker.exists()
    marker.write(11)
    assert env.read_file("/d/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":11}'
    assert marker.exists()
    assert marker.read_epoch() == 11
    marker.remove()
    marker.remove()
    env.crash()
    assert not marker.exists()


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"brokerEpoch":"x"}'])
def test_a_clean_shutdown_file_without_an_epoch_counts(env: FaultEnv, data: bytes) -> None:
    env.write_file("/d/.kafka_cleanshutdown", data)
    marker = CleanShutdownFile(env, "/d")
    assert marker.exists()
    assert marker.read_epoch() == -1

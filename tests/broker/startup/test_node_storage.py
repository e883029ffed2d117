"""The start of a broker on the directories that it finds."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

import pytest

from barnabas.broker.controller.producer_ids import BLOCK_SIZE
from barnabas.broker.metadata.image import BROKER_RESOURCE
from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.startup.node_storage import NodeStorage
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.layers import InvalidConfigError
from barnabas.protocol.messages.topic_records import FeatureLevelRecord, PartitionRecord, TopicRecord
from barnabas.protocol.records.batch import build_batch
from barnabas.storage.env import RealEnv
from barnabas.storage.errors import InconsistentMetadataError, LogDirLockedError

TOPIC_ID = bytes(range(16))
NOW_MS = RealEnv().now_ms()


def opened(directory: Path, *settings: str) -> NodeStorage:
    config = BrokerConfig.of(None, overrides=[f"log.dirs={directory}", *settings])
    return NodeStorage(config, RealEnv())


def having_topic(storage: NodeStorage, name: str = "t", partitions: int = 2) -> None:
    partition_records = [
        PartitionRecord(
            partition_id=index,
            topic_id=TOPIC_ID,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        )
        for index in range(partitions)
    ]
    storage.commit([[TopicRecord(name=name, topic_id=TOPIC_ID), *partition_records]])
    for index in range(partitions):
        log = storage.log_manager.get_or_create_log(name, index, TOPIC_ID)
        log.append_as_leader(
            build_batch([(b"k", b"v", NOW_MS, ())], producer_id=4711, producer_epoch=0, base_sequence=0),
            0,
        )
        log.update_high_watermark(log.log_end_offset)


def killed(storage: NodeStorage) -> None:
    storage.abandon()
    storage.store.raft.close()


def test_an_empty_directory_is_formatted_and_keeps_its_id(tmp_path: Path) -> None:
    first = opened(tmp_path / "data")
    assert first.node_id == 1
    assert len(first.cluster_id) == 22
    assert not first.image.topics
    first.close()
    again = opened(tmp_path / "data")
    assert (again.cluster_id, again.node_id) == (first.cluster_id, 1)
    assert not again.was_recovered
    again.close()


def test_a_second_broker_cannot_use_the_directory(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(LogDirLockedError, match="another process"):
        opened(tmp_path)
    first.close()


def test_a_mismatched_node_id_is_rejected_with_a_remedy(tmp_path: Path) -> None:
    opened(tmp_path, "node.id=3").close()
    with pytest.raises(InvalidConfigError, match="must be 3, or unset"):
        opened(tmp_path, "node.id=4")


def test_a_clean_stop_keeps_the_state(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    having_topic(storage)
    storage.close()
    again = opened(tmp_path)
    topic = again.image.topics["t"]
    assert not again.was_recovered
    assert [(p.leader, p.leader_epoch) for p in topic.partitions.values()] == [(1, 2), (1, 2)]
    log = again.log_manager.get_log("t", 1)
    assert log is not None
    assert (log.log_end_offset, log.high_watermark, log.topic_id) == (1, 1, TOPIC_ID)
    assert set(again.image.topics) == {"t"}
    again.close()


def test_after_a_kill_there_is_a_new_leader_epoch(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    having_topic(storage)
    killed(storage)
    again = opened(tmp_path)
    assert again.was_recovered
    assert [p.leader_epoch for p in again.image.topics["t"].partitions.values()] == [1, 1]
    killed(again)
    third = opened(tmp_path)
    assert [p.leader_epoch for p in third.image.topics["t"].partitions.values()] == [2, 2]
    third.close()


def test_logs_without_a_topic_are_set_aside(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    having_topic(storage)
    storage.log_manager.get_or_create_log("stray", 0, bytes(15) + b"\x01")
    storage.close()
    again = opened(tmp_path)
    assert again.log_manager.get_log("stray", 0) is None
    assert [
        path
        for path in tmp_path.iterdir()
        if path.name.startswith("stray-0.") and path.name.endswith("-stray")
    ]
    assert again.log_manager.get_log("t", 0) is not None
    again.close()


def test_a_directory_of_another_broker_is_adopted(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    having_topic(storage, partitions=3)
    storage.close()
    rmtree(tmp_path / "__cluster_metadata-0")
    again = opened(tmp_path)
    topic = again.image.topics["t"]
    assert topic.topic_id == TOPIC_ID
    assert list(topic.partitions) == [0, 1, 2]
    assert again.image.next_producer_id > 4711
    assert again.image.next_producer_id % BLOCK_SIZE == 0
    again.close()
    last = opened(tmp_path)
    assert last.image.topics.keys() == {"t"}
    last.close()


def test_the_metadata_log_may_be_in_any_directory(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    storage = opened(first, f"log.dirs={first},{second}")
    having_topic(storage)
    storage.close()
    again = opened(first, f"log.dirs={second},{first}")
    assert again.image.topics.keys() == {"t"}
    again.close()


# ---- the identity of a directory, and its contents


def test_a_mismatched_cluster_id_is_rejected(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.close()
    settings = [f"log.dirs={tmp_path}"]
    other = BrokerConfig.of(None, environ={"CLUSTER_ID": "MkU3OEVBNTcwNTJENDM2Qg"}, overrides=settings)
    with pytest.raises(
        InconsistentMetadataError, match=f"Expected MkU3OEVBNTcwNTJENDM2Qg, but read {first.cluster_id}"
    ):
        NodeStorage(other, RealEnv())
    same = BrokerConfig.of(None, environ={"CLUSTER_ID": first.cluster_id}, overrides=settings)
    NodeStorage(same, RealEnv()).close()


def test_a_new_directory_has_its_ids_and_first_records(tmp_path: Path) -> None:
    storage = opened(tmp_path, "min.insync.replicas=1")
    assert (tmp_path / "bootstrap.checkpoint").exists()
    features = storage.image.features
    assert (features["metadata.version"], features["eligible.leader.replicas.version"]) == (30, 1)
    assert storage.image.configs[BROKER_RESOURCE, ""] == {"min.insync.replicas": "1"}
    me = storage.image.brokers[1]
    assert (me.fenced, me.epoch, me.incarnation_id) == (False, storage.broker_epoch, storage.incarnation_id)
    assert me.log_dirs == (storage.log_manager.dirs[0].directory_id,)
    assert 1 in storage.image.controllers
    storage.close()
    assert f'"brokerEpoch":{storage.broker_epoch}' in (tmp_path / ".kafka_cleanshutdown").read_text()


def test_each_start_has_a_new_incarnation_id_and_epoch(tmp_path: Path) -> None:
    first = opened(tmp_path)
    first.close()
    second = opened(tmp_path)
    assert second.store.leader_epoch == first.store.leader_epoch + 1
    assert second.broker_epoch > first.broker_epoch
    assert second.incarnation_id != first.incarnation_id
    second.close()


def test_a_clean_stop_is_recorded_in_the_metadata_unless_disabled(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    storage.close()
    assert storage.image.brokers[1].fenced
    again = opened(tmp_path, "controlled.shutdown.enable=false")
    again.close()
    assert not again.image.brokers[1].fenced


def test_metadata_from_before_the_first_release_is_rejected(tmp_path: Path) -> None:
    opened(tmp_path).close()
    rmtree(tmp_path / "__cluster_metadata-0")
    (tmp_path / "barnabas.metadata").write_bytes(b"")
    with pytest.raises(MetadataLogError, match=r"barnabas\.metadata.* before the first release"):
        opened(tmp_path)


def test_the_metadata_may_have_its_own_directory(tmp_path: Path) -> None:
    data, metadata = tmp_path / "data", tmp_path / "metadata"
    storage = opened(data, f"metadata.log.dir={metadata}")
    having_topic(storage)
    assert storage.metadata_dir == str(metadata)
    assert (metadata / "meta.properties").exists()
    with pytest.raises(LogDirLockedError):
        opened(tmp_path / "elsewhere", f"metadata.log.dir={metadata}")
    storage.close()
    again = opened(data, f"metadata.log.dir={metadata}")
    assert again.image.topics.keys() == {"t"}
    assert not (data / "__cluster_metadata-0").exists()
    again.close()


def test_new_directories_get_the_ids_of_the_metadata_directory(tmp_path: Path) -> None:
    data, metadata = tmp_path / "data", tmp_path / "metadata"
    first = opened(data, f"metadata.log.dir={metadata}", "node.id=5")
    first.close()
    rmtree(data)
    again = opened(data, f"metadata.log.dir={metadata}")
    assert (again.cluster_id, again.node_id) == (first.cluster_id, 5)
    again.close()


def test_metadata_of_another_cluster_is_rejected(tmp_path: Path) -> None:
    opened(tmp_path / "a").close()
    opened(tmp_path / "b").close()
    with pytest.raises(InconsistentMetadataError, match="belongs to cluster"):
        opened(tmp_path / "a", f"metadata.log.dir={tmp_path / 'b'}")


def test_a_level_that_is_too_new_is_rejected_and_nothing_is_written(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    storage.commit([[FeatureLevelRecord(name="metadata.version", feature_level=31)]])
    killed(storage)
    log = tmp_path / "__cluster_metadata-0" / "00000000000000000000.log"
    before = log.read_bytes()
    with pytest.raises(MetadataLogError, match=r"level 31 \(4\.4-IV0\).* to 30 \(4\.3-IV0\)"):
        opened(tmp_path)
    assert log.read_bytes() == before
    opened(tmp_path, "unstable.feature.versions.enable=true").close()


def test_a_quorum_without_configured_voters_is_recorded_in_the_log(tmp_path: Path) -> None:
    settings = [
        "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names=CONTROLLER",
    ]
    dynamic = opened(tmp_path / "a", *settings, "controller.quorum.bootstrap.servers=127.0.0.1:9093")
    assert dynamic.quorum.kraft_version == 1
    dynamic.close()
    static = opened(tmp_path / "b", *settings, "controller.quorum.voters=1@127.0.0.1:9093")
    assert static.quorum.kraft_version == 0
    static.close()

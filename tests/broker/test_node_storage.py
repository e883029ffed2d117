"""What a broker makes of the directories that it finds."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree

import pytest

from broker.node_storage import NodeStorage
from broker.producer_ids import BLOCK_SIZE
from config.broker_config import BrokerConfig
from config.layers import InvalidConfigError
from protocol.messages.topic_records import PartitionRecord, TopicRecord
from protocol.records.batch import build_batch
from storage.env import RealEnv
from storage.errors import LogDirLockedError

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
    storage.store.close()


def test_an_empty_directory_is_formatted_and_keeps_its_identity(tmp_path: Path) -> None:
    first = opened(tmp_path / "data")
    assert first.node_id == 1
    assert len(first.cluster_id) == 22
    assert not first.image.topics
    first.close()
    again = opened(tmp_path / "data")
    assert (again.cluster_id, again.node_id) == (first.cluster_id, 1)
    assert not again.was_recovered
    again.close()


def test_a_second_broker_is_kept_out(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(LogDirLockedError, match="another process"):
        opened(tmp_path)
    first.close()


def test_a_node_id_that_is_not_the_directorys_is_refused_with_the_remedy(tmp_path: Path) -> None:
    opened(tmp_path, "node.id=3").close()
    with pytest.raises(InvalidConfigError, match="must be 3, or unset"):
        opened(tmp_path, "node.id=4")


def test_after_a_clean_stop_everything_is_as_it_was(tmp_path: Path) -> None:
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


def test_after_a_kill_a_new_leader_epoch_tells_readers(tmp_path: Path) -> None:
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


def test_logs_of_no_topic_are_put_aside_and_kept(tmp_path: Path) -> None:
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


def test_the_metadata_log_is_found_in_whichever_directory_it_is(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    storage = opened(first, f"log.dirs={first},{second}")
    having_topic(storage)
    storage.close()
    again = opened(first, f"log.dirs={second},{first}")
    assert again.image.topics.keys() == {"t"}
    again.close()

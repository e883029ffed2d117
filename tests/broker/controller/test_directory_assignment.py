"""DirectoryAssignment: log directories of partitions in the metadata, assigned and corrected at a start."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from barnabas.broker.controller.directory_assignment import DirectoryAssignment
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.topics import PartitionImage
from barnabas.broker.startup.node_storage import NodeStorage
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.messages.topic_records import PartitionRecord, TopicRecord
from barnabas.protocol.wire import ZERO_UUID
from barnabas.storage.env import RealEnv
from barnabas.storage.errors import NoLogDirError

TOPIC_ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))


def opened(place: Path, count: int = 2) -> NodeStorage:
    paths = ",".join(str(place / name) for name in "abc"[:count])
    return NodeStorage(BrokerConfig.of(None, overrides=[f"log.dirs={paths}"]), RealEnv())


def record(index: int, *, replicas: tuple[int, ...] = (1,)) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=TOPIC_ID,
        replicas=list(replicas),
        isr=list(replicas),
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
    )


def assignment(storage: NodeStorage) -> DirectoryAssignment:
    return DirectoryAssignment(storage.node_id, storage.log_manager, lambda: storage.image)


def with_topic(storage: NodeStorage, partitions: int = 4) -> dict[int, str]:
    """Creates a topic as the controller and the ReplicaManager do; returns the directory of each partition."""
    records = [TopicRecord(name="t", topic_id=TOPIC_ID), *(record(index) for index in range(partitions))]
    assignment(storage).assign(records)
    storage.store.append([records])
    storage.image, _ = replayed(storage.image, records)
    where = {}
    for index, partition in storage.image.topics["t"].partitions.items():
        directory_id = partition.directory_of(storage.node_id)
        log = storage.log_manager.get_or_create_log("t", index, TOPIC_ID, directory_id=directory_id)
        where[index] = storage.log_manager.directory_of(log).path
    return where


def directory_of(storage: NodeStorage, index: int) -> bytes:
    return storage.image.topics["t"].partitions[index].directory_of(storage.node_id)


def test_new_partitions_are_spread_over_directories_and_recorded(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    where = with_topic(storage)
    assert sorted(where.values()) == [str(tmp_path / name) for name in "aabb"]
    ids = {one.path: one.directory_id for one in storage.log_manager.dirs}
    assert {index: ids[path] for index, path in where.items()} == {
        index: directory_of(storage, index) for index in where
    }
    storage.close()
    again = opened(tmp_path)
    assert all(directory_of(again, index) == ids[path] for index, path in where.items())
    epochs = [p.partition_epoch for p in again.image.topics["t"].partitions.values()]
    assert epochs == [2] * 4  # the stop and the start, and nothing to correct
    again.close()


def test_assignments_count_before_their_logs_are_created(tmp_path: Path) -> None:
    """Several topics are created at once: all are assigned before the logs of the first exist."""
    storage = opened(tmp_path)
    deciding = assignment(storage)
    ids = {one.directory_id: one.path[-1] for one in storage.log_manager.dirs}
    where = []
    records = []
    for number in range(6):
        new = record(0)
        new.topic_id = bytes([number + 1]) * 16
        deciding.assign([TopicRecord(name=f"t{number}", topic_id=new.topic_id), new])
        where.append(ids[new.directories[0]])
        records += [TopicRecord(name=f"t{number}", topic_id=new.topic_id), new]
    assert sorted(where) == list("aaabbb")
    image, delta = replayed(storage.image, records)
    deciding.apply(image, delta)
    again = record(0)
    again.topic_id = b"x" * 16
    deciding.assign([again])
    assert ids[again.directories[0]] == "a"  # nothing is pending any more, and no log was created
    storage.close()


def test_an_assignment_that_the_metadata_log_rejected_does_not_count(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    deciding = assignment(storage)
    ids = {one.directory_id: one.path[-1] for one in storage.log_manager.dirs}
    deciding.assign([TopicRecord(name="refused", topic_id=OTHER_ID), record(0)])
    image, delta = replayed(storage.image, [])
    deciding.apply(image, delta)
    new = record(0)
    deciding.assign([TopicRecord(name="t", topic_id=TOPIC_ID), new])
    assert ids[new.directories[0]] == "a"
    storage.close()


def test_only_replicas_of_this_node_are_assigned(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    ours, others = record(0, replicas=(2, 1)), record(1, replicas=(2,))
    assignment(storage).assign([TopicRecord(name="t", topic_id=TOPIC_ID), ours, others])
    assert ours.directories[0] == ZERO_UUID
    assert storage.log_manager.dirs.with_id(ours.directories[1]) is not None
    assert others.directories == []
    storage.close()


def test_without_a_directory_nothing_is_assigned(tmp_path: Path) -> None:
    storage = opened(tmp_path, 1)
    storage.log_manager.log_dir_failed(str(tmp_path / "a"), "gone")
    new = record(0)
    assignment(storage).assign([new])
    assert new.directories == []
    storage.store.raft.close()


def test_a_log_that_was_copied_to_another_directory_is_recorded(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    where = with_topic(storage)
    storage.close()
    moved = next(index for index, path in where.items() if path.endswith("/a"))
    (tmp_path / "a" / f"t-{moved}").rename(tmp_path / "b" / f"t-{moved}")
    again = opened(tmp_path)
    (target,) = [one for one in again.log_manager.dirs if one.path.endswith("/b")]
    assert directory_of(again, moved) == target.directory_id
    assert again.image.topics["t"].partitions[moved].leader_epoch == 2  # the stop, the start
    again.close()


def test_metadata_without_directory_ids_is_completed(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    storage.store.append([[TopicRecord(name="t", topic_id=TOPIC_ID), record(0)]])
    storage.log_manager.get_or_create_log("t", 0, TOPIC_ID)
    storage.close()
    again = opened(tmp_path)
    assert again.log_manager.dirs.with_id(directory_of(again, 0)) is not None
    again.close()


def test_a_decided_move_is_completed_at_the_start(tmp_path: Path) -> None:
    storage = opened(tmp_path)
    with_topic(storage, 1)
    log = storage.log_manager.get_log("t", 0)
    assert log is not None
    source = storage.log_manager.directory_of(log)
    (target,) = [one for one in storage.log_manager.dirs if one is not source]
    new = storage.log_manager.future.prepare(log, target.path)
    new.run()
    storage.log_manager.future.open(new)
    partition = storage.image.topics["t"].partitions[0]
    assert target.directory_id is not None
    decided = partition.record(TOPIC_ID)
    decided.directories = partition.with_directory(1, target.directory_id)
    storage.store.append([[decided]])
    storage.close()
    again = opened(tmp_path)
    moved = again.log_manager.get_log("t", 0)
    assert moved is not None
    assert moved.directory == f"{target.path}/t-0"
    assert list(again.log_manager.future_logs()) == []
    again.close()


def test_a_start_without_the_metadata_fails_while_a_directory_is_offline(tmp_path: Path) -> None:
    """The metadata may be in it."""
    opened(tmp_path, 2).close()
    (tmp_path / "a").rename(tmp_path / "away")
    (tmp_path / "a").write_text("no directory")
    with pytest.raises(NoLogDirError, match="the metadata are in none"):
        opened(tmp_path, 2)


def test_a_first_start_requires_the_first_directory(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no directory")
    with pytest.raises(NoLogDirError):
        opened(tmp_path, 2)
    (tmp_path / "a").unlink()
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "b").write_text("no directory")
    storage = opened(tmp_path, 2)
    assert storage.metadata_dir == str(tmp_path / "a")
    storage.close()


def test_directories_of_an_image() -> None:
    image = PartitionImage(
        0, replicas=(3, 1), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0, directories=(OTHER_ID,)
    )
    assert (
        image.directory_of(1) == ZERO_UUID
    )  # without one directory for each replica the directory is unknown
    assert image.with_directory(1, TOPIC_ID) == [ZERO_UUID, TOPIC_ID]
    assert image.directory_of(7) == ZERO_UUID

"""The phases of a start on log directories, each by itself."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from barnabas.broker.metadata.image import MetadataImage
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.startup.node_directories import NodeDirectories
from barnabas.broker.startup.node_identity import Identity
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.messages.topic_records import PartitionRecord, TopicRecord
from barnabas.protocol.records.batch import build_batch
from barnabas.protocol.wire import Uuid
from barnabas.storage.env import RealEnv
from barnabas.storage.errors import LogDirLockedError
from barnabas.storage.manager.log_dir import LogDir

TOPIC_ID = bytes(range(16))
NOW_MS = RealEnv().now_ms()


class Phases:
    """Directories whose metadata the test decides."""

    def __init__(self, *paths: Path) -> None:
        self.image = MetadataImage.empty()
        config = BrokerConfig.of(None, overrides=[f"log.dirs={','.join(map(str, paths))}", "node.id=3"])
        self.directories = NodeDirectories(config, RealEnv(), lambda: self.image)
        self.log_manager = self.directories.log_manager

    def learn(self, *partitions: int, node: int = 3, directory: Uuid | None = None) -> None:
        """The metadata of a topic "t" with these partitions on one node, by default assigned to no directory."""
        directories = [] if directory is None else [directory]
        records = [
            TopicRecord(name="t", topic_id=TOPIC_ID),
            *(
                PartitionRecord(
                    partition_id=index,
                    topic_id=TOPIC_ID,
                    replicas=[node],
                    isr=[node],
                    leader=node,
                    directories=directories,
                )
                for index in partitions
            ),
        ]
        self.image, _ = replayed(self.image, records, offset=10, epoch=1)

    def write(self, partition: int) -> None:
        log = self.log_manager.get_or_create_log("t", partition, TOPIC_ID)
        log.append_as_leader(build_batch([(b"k", b"v", NOW_MS, ())]), 0)

    def settle(self) -> tuple[Identity, LogDir]:
        self.directories.lock()
        return self.directories.settle()

    def stopped_with(self, *partitions: int, broker_epoch: int = 8) -> None:
        """A node that came up, wrote to these partitions and stopped."""
        self.settle()
        self.directories.load_logs()
        for partition in partitions:
            self.write(partition)
        self.directories.close(broker_epoch)


def test_settling_locks_and_formats_and_opens_nothing(tmp_path: Path) -> None:
    phases = Phases(tmp_path / "a", tmp_path / "b")
    identity, metadata_dir = phases.settle()
    assert (identity.node_id, identity.was_formatted) == (3, False)
    assert metadata_dir.path == str(tmp_path / "a")
    assert sorted(path.name for path in (tmp_path / "b").iterdir()) == [
        ".lock",
        "bootstrap.checkpoint",
        "meta.properties",
    ]
    with pytest.raises(LogDirLockedError):
        Phases(tmp_path / "a").settle()
    phases.directories.abandon()
    again, _ = Phases(tmp_path / "a", tmp_path / "b").settle()
    assert again == identity._replace(was_formatted=True)


def test_the_epoch_of_a_clean_stop_is_read_between_settling_and_loading(tmp_path: Path) -> None:
    Phases(tmp_path).stopped_with(0, broker_epoch=8)
    phases = Phases(tmp_path)
    phases.settle()
    assert phases.log_manager.dirs.clean_shutdown_epoch() == 8
    phases.learn(0)
    assert not phases.directories.load_logs()
    phases.directories.abandon()


@pytest.mark.parametrize("loads", [True, False])
def test_an_abandoned_start_that_opened_logs_is_followed_by_a_recovery(
    tmp_path: Path, *, loads: bool
) -> None:
    Phases(tmp_path).stopped_with(0)
    crashed = Phases(tmp_path)
    crashed.settle()
    assert crashed.log_manager.dirs.clean_shutdown_epoch() == 8
    if loads:
        crashed.directories.load_logs()
    crashed.directories.abandon()
    phases = Phases(tmp_path)
    phases.settle()
    assert phases.log_manager.dirs.clean_shutdown_epoch() == (-1 if loads else 8)
    assert phases.directories.load_logs() is loads
    phases.directories.abandon()


def test_logs_that_the_image_does_not_know_are_put_aside_when_the_phase_comes(tmp_path: Path) -> None:
    Phases(tmp_path).stopped_with(0, 1)
    phases = Phases(tmp_path)
    phases.settle()
    phases.directories.load_logs()
    phases.learn(1)
    assert {log.partition for log in phases.log_manager.all_logs()} == {0, 1}
    phases.directories.finish()
    assert {log.partition for log in phases.log_manager.all_logs()} == {1}
    assert len(list(tmp_path.glob("t-0.*-stray"))) == 1
    phases.directories.abandon()


@pytest.mark.parametrize("is_member", [True, False])
def test_a_log_whose_replicas_are_on_other_brokers_is_put_aside_for_a_member_alone(
    tmp_path: Path, *, is_member: bool
) -> None:
    Phases(tmp_path).stopped_with(0)
    phases = Phases(tmp_path)
    phases.settle()
    phases.directories.load_logs()
    phases.learn(0, node=4)
    phases.directories.finish(is_member=is_member)
    assert len(list(phases.log_manager.all_logs())) == (0 if is_member else 1)
    assert len(list(tmp_path.glob("t-0.*-stray"))) == (1 if is_member else 0)
    phases.directories.abandon()


def test_locking_finds_the_identity_and_settles_nothing(tmp_path: Path) -> None:
    phases = Phases(tmp_path)
    assert phases.directories.lock() is None
    assert not (tmp_path / "meta.properties").exists()
    with pytest.raises(LogDirLockedError):
        Phases(tmp_path).directories.lock()
    identity, _ = phases.directories.settle("the id of the cluster")
    assert identity == Identity("the id of the cluster", 3, was_formatted=False)
    phases.directories.abandon()
    again = Phases(tmp_path)
    found = again.directories.lock()
    assert found is not None
    assert (found.cluster_id, found.node_id) == ("the id of the cluster", 3)
    identity, _ = again.directories.settle("another id")
    assert identity == Identity("the id of the cluster", 3, was_formatted=True), "it is for new directories"
    again.directories.abandon()


def test_each_new_identity_is_another(tmp_path: Path) -> None:
    ids = set()
    for name in "ab":
        phases = Phases(tmp_path / name)
        ids.add(phases.settle()[0].cluster_id)
        phases.directories.abandon()
    assert len(ids) == 2


def test_a_move_that_the_metadata_have_decided_is_finished(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    moving = Phases(a, b)
    moving.settle()
    moving.directories.load_logs()
    moving.write(0)
    (log,) = moving.log_manager.all_logs()
    source = moving.log_manager.directory_of(log)
    (target,) = (one for one in moving.log_manager.dirs if one is not source)
    new = moving.log_manager.future.prepare(log, target.path)
    new.run()
    moving.log_manager.future.open(new)
    moving.directories.close(8)
    phases = Phases(a, b)
    phases.settle()
    phases.directories.load_logs()
    phases.learn(0, directory=target.directory_id)
    phases.directories.finish()
    (log,) = phases.log_manager.all_logs()
    assert phases.log_manager.directory_of(log).path == target.path
    assert log.log_end_offset == 1, "what the move had not copied"
    phases.directories.abandon()


def test_what_a_recovery_cuts_off_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    crashed = Phases(tmp_path)
    crashed.settle()
    crashed.directories.load_logs()
    crashed.write(0)
    crashed.directories.abandon()
    with (tmp_path / "t-0" / "00000000000000000000.log").open("ab") as file:
        file.write(b"half a batch")
    phases = Phases(tmp_path)
    phases.settle()
    with caplog.at_level(logging.WARNING, "barnabas.startup"):
        assert phases.directories.load_logs()
    assert "t-0: cut off 12 bytes that were never acknowledged" in caplog.messages
    phases.directories.abandon()

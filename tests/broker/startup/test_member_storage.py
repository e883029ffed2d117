"""The disk of a member of a cluster, step by step: what each finds, and what it leaves for the next start."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from barnabas.broker.metadata.log import MetadataLogError
from barnabas.broker.metadata.quorum_state import QuorumState
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.metadata.snapshot_files import Control
from barnabas.broker.startup.member_storage import NO_BROKER_EPOCH, MemberStorage
from barnabas.config.layers import InvalidConfigError
from barnabas.protocol.messages.control_records import VotersRecord
from barnabas.protocol.messages.topic_records import ConfigRecord
from barnabas.protocol.schema import Message
from barnabas.storage.env import Env, RealEnv, RealFile
from barnabas.storage.errors import InconsistentMetadataError, LogDirLockedError, NoLogDirError
from barnabas.storage.log.checkpoints import CleanShutdownFile, MetaProperties
from tests.broker.cluster_images import topic_id, topic_records
from tests.broker.logs import batch
from tests.broker.replica_node import BreakableEnv
from tests.broker.running_server import config_of
from tests.broker.startup.fake_controller import CLUSTER_ID, MEMBER_ID

MARKER = ".kafka_cleanshutdown"
TOPIC_RESOURCE = 2


class Disk(MemberStorage):
    """The storage of broker 7 over some directories; the test decides the metadata."""

    def __init__(
        self, *paths: Path, env: Env | None = None, cluster_id: str | None = None, **settings: str
    ) -> None:
        """`cluster_id` is what the environment names, as Apache Kafka's images have it."""
        usual = {
            "process_roles": "broker",
            "node_id": str(MEMBER_ID),
            "controller_quorum_bootstrap_servers": "c1.test:9093",
            "controller_listener_names": "CONTROLLER",
        }
        config = config_of(",".join(map(str, paths)), **(usual | settings))
        config.cluster_id = cluster_id
        super().__init__(config, env or RealEnv())

    def opened(self, cluster_id: str | None = CLUSTER_ID) -> Disk:
        self.lock()
        self.open(cluster_id)
        return self

    def learn(self, *records: Message) -> None:
        self.image, _ = replayed(self.image, records, offset=10, epoch=1)

    def loaded(self, *topics: str) -> Disk:
        """All logs are open; the metadata have these topics, with one partition here."""
        self.opened()
        for name in topics:
            self.learn(*topic_records(name, [MEMBER_ID]))
        self.load_logs()
        return self

    def write(self, topic: str) -> None:
        log = self.log_manager.get_or_create_log(topic, 0, topic_id(topic))
        log.append_as_leader(batch("a"), 0)

    def logs(self) -> set[str]:
        return {log.topic for log in self.log_manager.all_logs()}


def stopped(*paths: Path, broker_epoch: int = 40, topics: tuple[str, ...] = ()) -> None:
    """A broker that ran with these topics, and stopped in order."""
    disk = Disk(*paths).loaded(*topics)
    for topic in topics:
        disk.write(topic)
    disk.broker_epoch = broker_epoch
    disk.close()


# -- identity --


def test_new_directories_have_no_identity_and_get_that_of_the_cluster(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "a", tmp_path / "b")
    assert not disk.lock()
    disk.open("another id than any other")
    assert (disk.cluster_id, disk.node_id) == ("another id than any other", MEMBER_ID)
    assert disk.metadata_dir == str(tmp_path / "a")
    assert disk.previous_broker_epoch == NO_BROKER_EPOCH
    assert list(disk.directory_ids) == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert len(set(disk.directory_ids.values())) == 2
    for name, directory_id in disk.directory_ids.items():
        properties = MetaProperties.read(RealEnv(), name)
        assert properties is not None
        assert (properties.cluster_id, properties.node_id) == ("another id than any other", MEMBER_ID)
        assert directory_id
    disk.abandon()


def test_the_configured_cluster_id_is_that_of_new_directories(tmp_path: Path) -> None:
    disk = Disk(tmp_path, cluster_id=CLUSTER_ID)
    disk.opened(None)
    assert disk.cluster_id == CLUSTER_ID
    disk.abandon()


def test_directories_keep_their_identity(tmp_path: Path) -> None:
    first = Disk(tmp_path).opened()
    ids = first.directory_ids
    first.abandon()
    again = Disk(tmp_path)
    assert again.lock()
    again.open(None)
    assert (again.cluster_id, again.directory_ids) == (CLUSTER_ID, ids)
    again.abandon()


def test_a_new_directory_beside_the_others_gets_their_identity_and_an_id_of_its_own(tmp_path: Path) -> None:
    stopped(tmp_path / "a")
    disk = Disk(tmp_path / "a", tmp_path / "b").opened(None)
    assert disk.cluster_id == CLUSTER_ID
    assert len(set(disk.directory_ids.values())) == 2
    assert disk.previous_broker_epoch == NO_BROKER_EPOCH, "not all directories were there at the stop"
    disk.abandon()


def test_the_directories_of_another_cluster_are_refused(tmp_path: Path) -> None:
    stopped(tmp_path)
    disk = Disk(tmp_path, cluster_id="anothercluster")
    disk.lock()
    with pytest.raises(InconsistentMetadataError, match=r"Expected anothercluster, but read the-cluster"):
        disk.open(None)
    disk.abandon()
    assert (tmp_path / MARKER).exists(), "nothing was taken from them"


def test_the_directories_of_another_node_are_refused(tmp_path: Path) -> None:
    stopped(tmp_path)
    disk = Disk(tmp_path, node_id="8")
    disk.lock()
    with pytest.raises(InvalidConfigError):
        disk.open(None)
    disk.abandon()


def test_the_directories_belong_to_one_process(tmp_path: Path) -> None:
    disk = Disk(tmp_path).opened()
    with pytest.raises(LogDirLockedError):
        Disk(tmp_path).lock()
    disk.abandon()
    Disk(tmp_path).opened().abandon()


# -- the marker of a clean stop --


def test_a_clean_stop_names_the_broker_epoch_for_the_next_start_alone(tmp_path: Path) -> None:
    paths = tmp_path / "a", tmp_path / "b"
    stopped(*paths, broker_epoch=40)
    assert all(CleanShutdownFile(RealEnv(), str(path)).read_epoch() == 40 for path in paths)
    disk = Disk(*paths).opened()
    assert disk.previous_broker_epoch == 40
    disk.abandon()
    again = Disk(*paths).opened()
    assert again.previous_broker_epoch == 40, "no log was opened"
    again.load_logs()
    assert not any((path / MARKER).exists() for path in paths)
    again.abandon()
    last = Disk(*paths).opened()
    assert last.previous_broker_epoch == NO_BROKER_EPOCH
    last.abandon()


def test_directories_that_name_different_epochs_name_none(tmp_path: Path) -> None:
    stopped(tmp_path / "a", broker_epoch=40)
    stopped(tmp_path / "b", broker_epoch=41)
    disk = Disk(tmp_path / "a", tmp_path / "b").opened()
    assert disk.previous_broker_epoch == NO_BROKER_EPOCH
    disk.abandon()


def test_with_a_directory_offline_the_epoch_is_not_repeated(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    stopped(a, b)
    (b / "meta.properties").write_text("node.id=nonsense")
    disk = Disk(a, b).opened()
    assert list(disk.directory_ids) == [str(a)]
    assert disk.previous_broker_epoch == NO_BROKER_EPOCH
    assert disk.failed_dirs() == [], "it was not online at the start, and is not in the registration"
    disk.abandon()


def test_an_abandoned_start_writes_nothing(tmp_path: Path) -> None:
    stopped(tmp_path, topics=("t",))
    Disk(tmp_path).loaded("t").abandon()
    assert not (tmp_path / MARKER).exists()


# -- the metadata log --


def test_the_copy_of_the_metadata_log_stays(tmp_path: Path) -> None:
    disk = Disk(tmp_path).opened()
    disk.raft.write_state(QuorumState(leader_epoch=6, leader_id=3000, voters=None))
    assert disk.log.node_id == MEMBER_ID
    assert disk.log.directory_id == disk.directory_ids[str(tmp_path)]
    disk.abandon()
    again = Disk(tmp_path).opened()
    assert again.raft.latest_epoch == 6
    again.abandon()


def test_the_metadata_may_have_a_directory_of_their_own(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "logs", metadata_log_dir=str(tmp_path / "metadata")).opened()
    assert disk.metadata_dir == str(tmp_path / "metadata")
    assert disk.raft.directory == f"{tmp_path}/metadata/__cluster_metadata-0"
    assert list(disk.directory_ids) == [str(tmp_path / "logs")], "no replica will be in it"
    disk.abandon()


@pytest.mark.parametrize("state", [QuorumState(voters=(MEMBER_ID,)), QuorumState(1, leader_id=MEMBER_ID)])
def test_the_directories_of_a_controller_are_refused(tmp_path: Path, state: QuorumState) -> None:
    disk = Disk(tmp_path).opened()
    disk.raft.write_state(state)
    disk.abandon()
    again = Disk(tmp_path)
    again.lock()
    with pytest.raises(MetadataLogError, match="node 7 is a voter"):
        again.open(None)
    again.abandon()


def test_metadata_that_name_this_node_as_a_voter_are_refused_before_logs_are_opened(tmp_path: Path) -> None:
    stopped(tmp_path, topics=("t",))
    disk = Disk(tmp_path).opened()
    disk.raft.control = Control(1, VotersRecord(version=0, voters=[VotersRecord.Voter(voter_id=MEMBER_ID)]))
    with pytest.raises(MetadataLogError, match="node 7 is a voter"):
        disk.load_logs()
    assert disk.logs() == set()
    disk.abandon()


class MetadataDisk(BreakableEnv):
    """A disk on which the files of the metadata log fail as the test says, and no others."""

    def open(self, path: str, *, create: bool = False, write: bool = True) -> RealFile:
        if "__cluster_metadata" in path:
            return super().open(path, create=create, write=write)
        return RealEnv.open(self, path, create=create, write=write)


def test_a_metadata_log_that_cannot_be_closed_does_not_keep_the_logs_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = MetadataDisk()
    disk = Disk(tmp_path, env=env).loaded("t")
    disk.write("t")
    disk.broker_epoch = 40
    disk.raft.log.append_as_leader(batch("unsynced"), 1)
    env.broken.add("sync")
    with caplog.at_level(logging.WARNING):
        disk.close()
    assert "the metadata log was not closed in order" in caplog.text
    assert CleanShutdownFile(RealEnv(), str(tmp_path)).read_epoch() == 40
    Disk(tmp_path).opened().abandon()


# -- the logs --


def test_logs_have_the_settings_of_the_image(tmp_path: Path) -> None:
    stopped(tmp_path, topics=("t",))
    disk = Disk(tmp_path).opened()
    disk.learn(
        *topic_records("t", [MEMBER_ID]),
        ConfigRecord(
            resource_type=TOPIC_RESOURCE, resource_name="t", name="max.message.bytes", value="12345"
        ),
    )
    disk.load_logs()
    (log,) = disk.log_manager.all_logs()
    assert (log.config.max_message_bytes, log.log_end_offset) == (12345, 1)
    disk.abandon()


def test_a_log_whose_replicas_are_on_other_brokers_by_now_is_put_aside(tmp_path: Path) -> None:
    stopped(tmp_path, topics=("moved", "deleted", "stays"))
    disk = Disk(tmp_path).opened()
    disk.learn(*topic_records("moved", [8], replicas=[8, 9]), *topic_records("stays", [8], replicas=[8, 7]))
    disk.load_logs()
    assert disk.logs() == {"stays"}
    kept = {path.name.partition(".")[0] for path in tmp_path.glob("*-stray")}
    assert kept == {"moved-0", "deleted-0"}
    disk.abandon()


@pytest.mark.parametrize(("leader", "end"), [(8, 0), (MEMBER_ID, 2)])
def test_a_follower_does_not_go_on_behind_what_a_power_cut_took(
    tmp_path: Path, leader: int, end: int
) -> None:
    disk = Disk(tmp_path).loaded("t")
    disk.write("t")
    [log] = disk.log_manager.all_logs()
    log.roll()
    disk.write("t")
    disk.abandon()
    (tmp_path / "t-0" / "00000000000000000000.log").write_bytes(b"")
    disk = Disk(tmp_path).opened()
    disk.learn(*topic_records("t", [leader], replicas=[8, MEMBER_ID]))
    disk.load_logs()
    [log] = disk.log_manager.all_logs()
    assert log.log_end_offset == end
    disk.abandon()


def test_a_directory_that_fails_after_the_start_is_known(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    disk = Disk(a, b).opened()
    assert disk.failed_dirs() == []
    disk.log_manager.log_dir_failed(str(b), "broken")
    assert disk.failed_dirs() == [str(b)]
    disk.abandon()


@pytest.mark.parametrize("failing", ["a", "b"])
def test_a_directory_that_fails_while_logs_are_opened_ends_the_start_if_it_has_the_metadata(
    tmp_path: Path, failing: str
) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    disk = Disk(a, b).opened()
    (tmp_path / failing / "t-0" / "00000000000000000000.log").mkdir(parents=True)
    if failing == "a":
        with pytest.raises(NoLogDirError, match=r"/a, the log directory that holds the metadata, has failed"):
            disk.load_logs()
    else:
        disk.load_logs()
        assert disk.failed_dirs() == [str(b)]
    disk.abandon()


def test_without_a_directory_there_is_no_start(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("node.id=nonsense")
    disk = Disk(tmp_path)
    with pytest.raises(NoLogDirError):
        disk.lock()
    disk.abandon()

"""OwnControl: the parts of a broker that is alone, and decides its metadata itself."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.broker.metadata.cluster_answers import BrokerNode
from barnabas.broker.metadata.quorum_view import QuorumView
from barnabas.broker.startup.control import OwnControl
from barnabas.broker.startup.node_storage import NodeStorage
from barnabas.broker.waiting.blocking import InlineRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.log import CORDONED_LOG_DIRS
from barnabas.config.layers import Setting, Source
from barnabas.protocol.wire import Uuid
from tests.broker.broker_fixture import NODE_ID, InProcessBroker
from tests.broker.cluster_images import connection
from tests.storage.fault_env import Fault, FaultEnv


def control_of(broker: InProcessBroker) -> OwnControl:
    control = broker.components.control
    assert isinstance(control, OwnControl)
    return control


@contextmanager
def running(*paths: Path, **settings: str) -> Iterator[InProcessBroker]:
    """A broker over these directories; keys with underscores for dots."""
    values = {key.replace("_", "."): value for key, value in settings.items()}
    directories = ",".join(map(str, paths))
    broker = InProcessBroker(paths[0], {"log.dirs": directories, **values})
    yield broker
    broker.kill()


def test_a_node_that_is_alone_has_nothing_for_other_brokers(broker: InProcessBroker) -> None:
    control = control_of(broker)
    assert control.leader_context is None
    assert control.replica_selector is None
    assert control.inter_broker is None
    assert control.topic_creation is None
    assert control.forwarder is None
    assert control.listener_count == 1


def test_it_leads_its_metadata_itself(broker: InProcessBroker) -> None:
    control = control_of(broker)
    assert control.leader == QuorumView(broker.storage.store.leader_epoch, NODE_ID)
    assert control.quorum is broker.storage.quorum
    assert control.controller is broker.components.controller


def test_it_gives_producer_ids(broker: InProcessBroker) -> None:
    found: list[int | None] = []
    control_of(broker).producer_ids.generate().add_done_callback(found.append)
    assert found == [0]


@pytest.mark.parametrize(
    ("settings", "node"),
    [
        ({}, BrokerNode(NODE_ID, "192.0.2.1", 9092, None)),
        (
            {"advertised_listeners": "PLAINTEXT://kafka.test:19092", "broker_rack": "r1"},
            BrokerNode(NODE_ID, "kafka.test", 19092, "r1"),
        ),
    ],
    ids=["dialled", "advertised"],
)
def test_clients_get_the_address_that_is_advertised_or_the_one_that_they_dialled(
    tmp_path: Path, settings: dict[str, str], node: BrokerNode
) -> None:
    with running(tmp_path, **settings) as broker:
        image = broker.components.image
        assert control_of(broker).cluster.brokers(image, connection("PLAINTEXT")) == [node]


def test_the_directory_of_a_replica_is_written_into_the_metadata(tmp_path: Path) -> None:
    with running(tmp_path / "a", tmp_path / "b") as broker:
        broker.create_topic("t")
        partition = broker.replica_manager.partition("t", 0)
        one, other = broker.log_manager.dirs
        target = other if broker.log_manager.directory_of(partition.log) is one else one
        assert target.directory_id is not None
        recorded: list[bool] = []
        pending = control_of(broker).report_directory(partition, target.directory_id)
        pending.add_done_callback(recorded.append)
        assert recorded == [True]
        image = broker.components.image.topics["t"].partitions[0]
        assert image.directory_of(NODE_ID) == target.directory_id


def cordon(config: BrokerConfig, path: str) -> None:
    setting = Setting(CORDONED_LOG_DIRS.name, path, Source.DYNAMIC_BROKER, "the test")
    config.adopt(config.overlaid([setting]))


def registered_cordons(broker: InProcessBroker) -> tuple[Uuid, ...] | None:
    return broker.components.image.brokers[NODE_ID].cordoned_log_dirs


def test_cordons_are_registered_when_the_configuration_changes(tmp_path: Path) -> None:
    with running(tmp_path / "a", tmp_path / "b") as broker:
        control = control_of(broker)
        cordon(broker.config, f"{tmp_path}/b")
        control.reconfigure()
        assert registered_cordons(broker) == (broker.log_manager.dirs[1].directory_id,)
        assert broker.log_manager.dirs.cordoned == {f"{tmp_path}/b"}


def test_its_parts_follow_the_metadata(broker: InProcessBroker) -> None:
    control = control_of(broker)
    assert list(control.publishers) == [control.directory_assignment.apply, control.cordoned_dirs.apply]
    broker.create_topic("t", partitions=2)
    (directory,) = broker.log_manager.dirs
    partitions = broker.components.image.topics["t"].partitions.values()
    assert {one.directory_of(NODE_ID) for one in partitions} == {directory.directory_id}


def no_room(_number: int, kind: str, path: str) -> Fault | None:
    """There is none for the metadata log."""
    return Fault(errno.ENOSPC, half=True) if kind == "pwritev" and "__cluster_metadata" in path else None


def test_before_old_metadata_are_deleted_what_waits_for_room_is_written() -> None:
    env = FaultEnv(seed=1)
    config = BrokerConfig.of(None, overrides=["log.dirs=/logs", f"node.id={NODE_ID}"])
    NodeStorage(config, env).close()
    env.inject(no_room)
    storage = NodeStorage(config, env)
    control = OwnControl(config, storage, InlineRunner())
    assert storage.raft.log.log_end_offset < storage.store.end_offset, "the registration waits"
    env.inject(None)
    control.before_cleaning()
    assert storage.raft.log.log_end_offset == storage.store.end_offset
    storage.close()

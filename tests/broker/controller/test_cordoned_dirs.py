"""Cordoned log directories: which ones the configuration names, and what the metadata say of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.broker.controller.cordoned_dirs import CordonedLogDirs, Cordons
from barnabas.broker.metadata.replay import replayed
from barnabas.broker.pending import Pending
from barnabas.config.broker_config import BrokerConfig
from barnabas.config.catalogue.log import CORDONED_LOG_DIRS
from barnabas.config.layers import Setting, Source
from barnabas.protocol.messages.topic_records import FeatureLevelRecord
from barnabas.protocol.wire import Uuid
from barnabas.storage.manager.log_manager import LogManager
from tests.broker.broker_fixture import NODE_ID, InProcessBroker
from tests.broker.held_runner import HeldRunner


@contextmanager
def running(tmp_path: Path, runner: HeldRunner | None = None) -> Iterator[InProcessBroker]:
    """A broker with the directories a, b and c."""
    paths = ",".join(f"{tmp_path}/{name}" for name in "abc")
    broker = InProcessBroker(tmp_path / "a", {"log.dirs": paths}, runner=runner)
    yield broker
    broker.kill()


def cordon(config: BrokerConfig, *paths: str) -> None:
    setting = Setting(CORDONED_LOG_DIRS.name, ",".join(paths), Source.DYNAMIC_BROKER, "the test")
    config.adopt(config.overlaid([setting]))


def ids(log_manager: LogManager, *names: str) -> list[Uuid]:
    """The ids of the directories with these names."""
    return [one.directory_id or b"" for one in log_manager.dirs if Path(one.path).name in names]


def registered(broker: InProcessBroker) -> set[Uuid]:
    return set(broker.components.image.brokers[NODE_ID].cordoned_log_dirs or ())


# -- Cordons --


@pytest.mark.parametrize(
    ("paths", "named"),
    [((), ""), (("{}/b",), "b"), (("{}/b", "{}/c"), "bc"), (("*",), "abc")],
)
def test_those_that_the_configuration_names_are_cordoned(
    tmp_path: Path, paths: tuple[str, ...], named: str
) -> None:
    with running(tmp_path) as broker:
        cordons = Cordons(broker.config, broker.log_manager)
        cordon(broker.config, *(path.format(tmp_path) for path in paths))
        cordons.reconfigure()
        assert cordons.ids == ids(broker.log_manager, *named)
        assert broker.log_manager.dirs.cordoned == {f"{tmp_path}/{name}" for name in named}


def test_cordons_are_lifted(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        cordons = Cordons(broker.config, broker.log_manager)
        cordon(broker.config, "*")
        cordons.reconfigure()
        cordon(broker.config, f"{tmp_path}/a")
        cordons.reconfigure()
        assert cordons.ids == ids(broker.log_manager, "a")


def test_a_directory_that_has_failed_is_cordoned_and_not_named(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        cordons = Cordons(broker.config, broker.log_manager)
        broker.replica_manager.log_dir_failed(f"{tmp_path}/b")
        cordon(broker.config, "*")
        cordons.reconfigure()
        assert cordons.ids == ids(broker.log_manager, "a", "c")
        assert f"{tmp_path}/b" in broker.log_manager.dirs.cordoned


def test_a_change_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with running(tmp_path) as broker:
        cordons = Cordons(broker.config, broker.log_manager)
        with caplog.at_level(logging.INFO, "barnabas.replica_manager"):
            for paths in ([], [f"{tmp_path}/b"], [f"{tmp_path}/b"], []):
                cordon(broker.config, *paths)
                cordons.reconfigure()
        assert caplog.messages == [
            f"cordoned log directories, which get no new partitions: ['{tmp_path}/b']",
            "cordoned log directories, which get no new partitions: none",
        ]


# -- CordonedLogDirs --


def test_a_node_that_is_alone_registers_them(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        cordon(broker.config, f"{tmp_path}/b")
        broker.cordoned_dirs.reconfigure()
        assert registered(broker) == set(ids(broker.log_manager, "b"))
        offset = broker.components.image.offset
        broker.cordoned_dirs.reconfigure()
        assert broker.components.image.offset == offset, "they are registered already"
        cordon(broker.config)
        broker.cordoned_dirs.reconfigure()
        assert registered(broker) == set()


def test_below_its_level_nothing_is_registered_until_that_is_reached(tmp_path: Path) -> None:
    with running(tmp_path) as broker:
        image = broker.components.image
        below, delta = replayed(image, [FeatureLevelRecord(name="metadata.version", feature_level=29)])
        controller = OneChange(broker)
        controller.image = below
        dirs = CordonedLogDirs(broker.config, broker.log_manager, controller, NODE_ID)  # type: ignore[arg-type]
        cordon(broker.config, "*")
        dirs.reconfigure()
        dirs.apply(below, delta)
        assert controller.count == 0
        reached, delta = replayed(below, [FeatureLevelRecord(name="metadata.version", feature_level=30)])
        controller.image = reached
        dirs.apply(reached, delta)
        assert controller.count == 1


class OneChange:
    """A controller that leaves changes undecided until the test completes them."""

    def __init__(self, broker: InProcessBroker) -> None:
        self.image = broker.components.image
        self.count = 0
        self.pending: Pending[None] = Pending()

    def submit(self, decide: object, failed: object) -> Pending[None]:
        self.count += 1
        self.pending = Pending()
        return self.pending


@pytest.mark.parametrize("succeeds", [True, False])
def test_what_changed_during_a_report_is_reported_after_it_unless_it_failed(
    tmp_path: Path, *, succeeds: bool
) -> None:
    with running(tmp_path) as broker:
        controller = OneChange(broker)
        dirs = CordonedLogDirs(broker.config, broker.log_manager, controller, NODE_ID)  # type: ignore[arg-type]
        cordon(broker.config, f"{tmp_path}/a")
        dirs.reconfigure()
        cordon(broker.config, f"{tmp_path}/b")
        dirs.reconfigure()
        assert controller.count == 1
        if succeeds:
            image = controller.image
            controller.image, _ = replayed(image, [], offset=image.offset + 1, epoch=image.epoch)
        controller.pending.complete(None)
        assert controller.count == (2 if succeeds else 1)


def test_a_report_that_fails_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    runner = HeldRunner()
    with running(tmp_path, runner) as broker:
        cordon(broker.config, "*")
        broker.cordoned_dirs.reconfigure()
        runner.fail(OSError("the disk"))
        assert "the cordoned log directories could not be registered: the disk" in caplog.messages
        assert registered(broker) == set()

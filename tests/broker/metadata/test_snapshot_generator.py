"""SnapshotGenerator: when it writes and deletes, with a clock and a disk of the test."""

from __future__ import annotations

from barnabas.broker.metadata.image import MetadataDelta
from barnabas.broker.metadata.snapshot_generator import SnapshotGenerator
from tests.broker.fakes import ManualTimer
from tests.broker.held_runner import HeldRunner
from tests.broker.metadata.raft_logs import DIRECTORY, Node, new_env

HOUR_MS = 3_600_000


class House:
    def __init__(self, **settings: int) -> None:
        self.node = Node(new_env(), **settings)
        self.runner = HeldRunner()
        self.timer = ManualTimer()
        self.generator = SnapshotGenerator(self.node.log, self.runner, self.timer, self.node.image)
        self.generator.start()

    def change(self, value: str) -> None:
        self.node.set("a", value)
        self.generator.apply(self.node.image, MetadataDelta())

    def wait(self, ms: int) -> None:
        self.node.env.time_ms += ms
        self.timer.advance(ms / 1000)

    @property
    def snapshots(self) -> list[int]:
        return [snapshot.end_offset for snapshot in self.node.log.snapshots.ids]


def test_enough_bytes_have_a_snapshot_written_in_the_background() -> None:
    house = House(snapshot_bytes=1000)
    house.change("x")
    assert house.runner.held == 0
    house.change("x" * 1000)
    assert house.runner.held == 1
    image = house.node.image
    house.node.set("b", "meanwhile")
    house.runner.release()
    assert house.snapshots == [image.offset + 1]


def test_one_that_is_wanted_at_the_start_is_written_then() -> None:
    house = House()
    house.generator.stop()
    house.node.log.snapshots.demand(house.node.log.end_offset)
    SnapshotGenerator(house.node.log, house.runner, house.timer, house.node.image).start()
    house.runner.release()
    assert house.snapshots == [house.node.image.offset + 1]


def test_one_is_written_at_a_time() -> None:
    house = House(snapshot_bytes=1000)
    house.change("x" * 1000)
    house.change("y" * 1000)
    assert house.runner.held == 1
    house.runner.release()
    house.change("z" * 1000)
    house.runner.release_all()
    assert len(house.snapshots) == 2


def test_an_idle_log_gets_one_after_the_interval() -> None:
    house = House()
    house.wait(HOUR_MS - 1)
    house.runner.release_all()
    assert house.snapshots == []
    house.wait(60_000)
    house.runner.release_all()
    assert house.snapshots == [2]
    house.wait(HOUR_MS)
    house.runner.release_all()
    assert house.snapshots == [2]


def test_a_short_interval_is_kept_to() -> None:
    house = House(snapshot_interval_ms=1000)
    house.wait(1000)
    house.runner.release_all()
    assert house.snapshots == [2]


def test_each_minute_old_ones_go() -> None:
    house = House(retention_ms=1000, delete_delay_ms=1000, snapshot_bytes=1000)
    for value in "xy":
        house.change(value * 1000)
        house.runner.release_all()
    house.wait(60_000)
    house.runner.release_all()
    assert len(house.snapshots) == 1
    house.wait(60_000)
    house.runner.release_all()
    assert not any(name.endswith(".deleted") for name in house.node.env.listdir(DIRECTORY))


def test_what_has_gone_is_removed_though_each_round_brings_a_snapshot() -> None:
    house = House(retention_ms=0, delete_delay_ms=0, snapshot_interval_ms=1000)
    for value in "abcd":
        house.node.set("a", value)
        house.generator.apply(house.node.image, MetadataDelta())
        house.wait(1000)
        house.runner.release_all()
    assert len(house.snapshots) <= 2
    assert not any(name.endswith(".checkpoint.deleted") for name in house.node.env.listdir(DIRECTORY))


def test_a_failure_is_told_and_the_next_one_is_tried() -> None:
    house = House(snapshot_bytes=1000)
    house.change("x" * 1000)
    house.runner.fail(OSError(5, "the disk"))
    house.change("y" * 1000)
    house.runner.release_all()
    assert len(house.snapshots) == 1


def test_after_the_stop_nothing_begins() -> None:
    house = House(snapshot_bytes=1000)
    house.generator.stop()
    house.change("x" * 1000)
    house.wait(2 * HOUR_MS)
    assert house.runner.held == 0
    assert house.timer.scheduled == 0

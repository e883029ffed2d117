"""SnapshotGenerator: when it writes and deletes, with a manual clock and disk."""

from __future__ import annotations

from barnabas.broker.metadata.image import MetadataDelta
from barnabas.broker.metadata.snapshot_generator import SnapshotGenerator
from tests.broker.fakes import ManualTimer
from tests.broker.held_runner import HeldRunner
from tests.broker.metadata.raft_logs import DIRECTORY, Node, new_env

HOUR_MS = 3_600_000


class Harness:
    def __init__(self, **settings: int) -> None:
        self.node = Node(new_env(), **settings)
        self.runner = HeldRunner()
        self.timer = ManualTimer()
        self.generator = SnapshotGenerator(
            self.node.log.raft,
            self.runner,
            self.timer,
            self.node.image,
            self.node.log.write_waiting,
        )
        self.generator.start()

    def change(self, value: str) -> None:
        self.node.set("a", value)
        self.generator.apply(self.node.image, MetadataDelta())

    def wait(self, ms: int) -> None:
        self.node.env.time_ms += ms
        self.timer.advance(ms / 1000)

    @property
    def snapshots(self) -> list[int]:
        return [snapshot.end_offset for snapshot in self.node.log.raft.snapshots.ids]


def test_after_enough_bytes_a_snapshot_is_written_in_the_background() -> None:
    harness = Harness(snapshot_bytes=1000)
    harness.change("x")
    assert harness.runner.held == 0
    harness.change("x" * 1000)
    assert harness.runner.held == 1
    image = harness.node.image
    harness.node.set("b", "meanwhile")
    harness.runner.release()
    assert harness.snapshots == [image.offset + 1]


def test_a_snapshot_required_at_the_start_is_written_then() -> None:
    harness = Harness()
    harness.generator.stop()
    harness.node.log.raft.snapshots.demand(harness.node.log.end_offset)
    SnapshotGenerator(harness.node.log.raft, harness.runner, harness.timer, harness.node.image).start()
    harness.runner.release()
    assert harness.snapshots == [harness.node.image.offset + 1]


def test_one_snapshot_is_written_at_a_time() -> None:
    harness = Harness(snapshot_bytes=1000)
    harness.change("x" * 1000)
    harness.change("y" * 1000)
    assert harness.runner.held == 1
    harness.runner.release()
    harness.change("z" * 1000)
    harness.runner.release_all()
    assert len(harness.snapshots) == 2


def test_an_idle_log_gets_a_snapshot_after_the_interval() -> None:
    harness = Harness()
    harness.wait(HOUR_MS - 1)
    harness.runner.release_all()
    assert harness.snapshots == []
    harness.wait(60_000)
    harness.runner.release_all()
    assert harness.snapshots == [2]
    harness.wait(HOUR_MS)
    harness.runner.release_all()
    assert harness.snapshots == [2]


def test_a_short_interval_is_respected() -> None:
    harness = Harness(snapshot_interval_ms=1000)
    harness.wait(1000)
    harness.runner.release_all()
    assert harness.snapshots == [2]


def test_old_snapshots_are_deleted_every_minute() -> None:
    harness = Harness(retention_ms=1000, delete_delay_ms=1000, snapshot_bytes=1000)
    for value in "xy":
        harness.change(value * 1000)
        harness.runner.release_all()
    harness.wait(60_000)
    harness.runner.release_all()
    assert len(harness.snapshots) == 1
    harness.wait(60_000)
    harness.runner.release_all()
    assert not any(name.endswith(".deleted") for name in harness.node.env.listdir(DIRECTORY))


def test_deleted_files_are_removed_even_if_each_round_writes_a_snapshot() -> None:
    harness = Harness(retention_ms=0, delete_delay_ms=0, snapshot_interval_ms=1000)
    for value in "abcd":
        harness.node.set("a", value)
        harness.generator.apply(harness.node.image, MetadataDelta())
        harness.wait(1000)
        harness.runner.release_all()
    assert len(harness.snapshots) <= 2
    assert not any(name.endswith(".checkpoint.deleted") for name in harness.node.env.listdir(DIRECTORY))


def test_a_failure_is_logged_and_the_next_snapshot_is_tried() -> None:
    harness = Harness(snapshot_bytes=1000)
    harness.change("x" * 1000)
    harness.runner.fail(OSError(5, "the disk"))
    harness.change("y" * 1000)
    harness.runner.release_all()
    assert len(harness.snapshots) == 1


def test_after_the_stop_no_snapshot_begins() -> None:
    harness = Harness(snapshot_bytes=1000)
    harness.generator.stop()
    harness.change("x" * 1000)
    harness.wait(2 * HOUR_MS)
    assert harness.runner.held == 0
    assert harness.timer.scheduled == 0

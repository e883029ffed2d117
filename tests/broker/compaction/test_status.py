"""What users may ask of compaction, and what they are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.compaction.status import Compaction, CompactionRefusedError, Refusal
from barnabas.storage.worker_messages import Failed, FailureKind
from tests.broker.compaction.cleaner_harness import CleanerHouse


class Asked(CleanerHouse):
    """A house whose cleaner can be asked."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None, **configs: str) -> None:
        super().__init__(directory, settings, starts=True, env=None, **configs)
        self.compaction = Compaction(
            self.cleaner, self.broker.log_manager, lambda: self.broker.controller.image
        )

    def states(self) -> list[tuple[str, int]]:
        partitions = self.compaction.state("t")["partitions"]
        return [(partition["state"], partition["percent"]) for partition in partitions]

    def refusal(self, topic: str) -> Refusal:
        with pytest.raises(CompactionRefusedError) as refused:
            self.compaction.request(topic)
        assert str(refused.value)
        return refused.value.refusal


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Asked]:
    house = Asked(tmp_path, min_cleanable_dirty_ratio="1.0")
    yield house
    house.broker.kill()


def test_from_the_request_to_the_end(house: Asked) -> None:
    house.fill(22)
    assert house.states() == [("idle", 100)]
    assert house.compaction.request("t")["partitions"][0]["state"] == "queued"
    house.advance(0)
    assert house.states() == [("starting", 0)]
    house.runner.release_all()
    house.workers.last.on_progress(0.257)
    assert house.states() == [("cleaning", 25)]
    overview = house.compaction.overview()
    assert overview["enabled"]
    assert [(it["topic"], it["partition"], it["percent"]) for it in overview["running"]] == [("t", 0, 25)]
    house.workers.last.finish()
    assert house.states()[0][0] == "swapping in"
    house.settle()
    assert house.states() == [("idle", 100)]
    partition = house.compaction.state("t")["partitions"][0]
    assert partition == {
        "partition": 0,
        "state": "idle",
        "percent": 100,
        "compacted_to": 22,
        "log_end_offset": 22,
        "bytes": house.log.size,
    }
    assert house.offsets() == [18, 19, 20, 21], "what was in the active segment was compacted too"


def test_every_partition_of_the_topic(tmp_path: Path) -> None:
    house = Asked(tmp_path)
    house.broker.create_topic("p", 3, cleanup_policy="compact")
    assert [it["partition"] for it in house.compaction.request("p")["partitions"]] == [0, 1, 2]
    house.broker.kill()


def test_a_failure_is_told_and_forgotten_with_the_next_request(house: Asked) -> None:
    house.fill(22)
    house.compaction.request("t")
    house.advance(0)
    house.runner.release_all()
    house.workers.last.answer(Failed(FailureKind.JOB, "rot", ""))
    house.settle()
    partition = house.compaction.state("t")["partitions"][0]
    assert (partition["state"], partition["error"]) == ("uncleanable", "rot")
    assert house.compaction.overview()["uncleanable"] == [{"topic": "t", "partition": 0}]
    partition = house.compaction.request("t")["partitions"][0]
    assert partition["state"] == "queued"
    assert "error" not in partition


def test_a_partition_that_is_offline(house: Asked) -> None:
    house.log.fail("a test says so")
    assert house.states() == [("offline", 0)]
    assert house.refusal("t") is Refusal.OFFLINE


def test_topics_that_are_not_compacted(house: Asked) -> None:
    house.broker.create_topic("d", cleanup_policy="delete")
    assert house.refusal("d") is Refusal.NOT_COMPACTED
    assert house.refusal("nothing") is Refusal.UNKNOWN_TOPIC
    with pytest.raises(CompactionRefusedError):
        house.compaction.state("nothing")


def test_with_the_cleaner_turned_off(tmp_path: Path) -> None:
    house = Asked(tmp_path, {"log.cleaner.enable": "false"})
    assert house.refusal("t") is Refusal.TURNED_OFF
    assert not house.compaction.overview()["enabled"]
    house.broker.kill()

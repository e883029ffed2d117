"""What users may ask of compaction, and what they are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.compaction.status import Compaction, CompactionRejectedError, RejectionReason
from barnabas.storage.worker_messages import Failed, FailureKind
from tests.broker.compaction.cleaner_harness import CleanerHarness


class Asked(CleanerHarness):
    """A harness whose cleaner can be asked."""

    def __init__(self, directory: Path, settings: dict[str, str] | None = None, **configs: str) -> None:
        super().__init__(directory, settings, starts=True, env=None, **configs)
        self.compaction = Compaction(
            self.cleaner, self.broker.log_manager, lambda: self.broker.controller.image
        )

    def states(self) -> list[tuple[str, int]]:
        partitions = self.compaction.state("t")["partitions"]
        return [(partition["state"], partition["percent"]) for partition in partitions]

    def rejection(self, topic: str) -> RejectionReason:
        with pytest.raises(CompactionRejectedError) as rejected:
            self.compaction.request(topic)
        assert str(rejected.value)
        return rejected.value.reason


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Asked]:
    harness = Asked(tmp_path, min_cleanable_dirty_ratio="1.0")
    yield harness
    harness.broker.kill()


def test_from_the_request_to_the_end(harness: Asked) -> None:
    harness.fill(22)
    assert harness.states() == [("idle", 100)]
    assert harness.compaction.request("t")["partitions"][0]["state"] == "queued"
    harness.advance(0)
    assert harness.states() == [("starting", 0)]
    harness.runner.release_all()
    harness.workers.last.on_progress(0.257)
    assert harness.states() == [("cleaning", 25)]
    overview = harness.compaction.overview()
    assert overview["enabled"]
    assert [(it["topic"], it["partition"], it["percent"]) for it in overview["running"]] == [("t", 0, 25)]
    harness.workers.last.finish()
    assert harness.states()[0][0] == "swapping in"
    harness.settle()
    assert harness.states() == [("idle", 100)]
    partition = harness.compaction.state("t")["partitions"][0]
    assert partition == {
        "partition": 0,
        "state": "idle",
        "percent": 100,
        "compacted_to": 22,
        "log_end_offset": 22,
        "bytes": harness.log.size,
    }
    assert harness.offsets() == [18, 19, 20, 21], "what was in the active segment was compacted too"


def test_every_partition_of_the_topic(tmp_path: Path) -> None:
    harness = Asked(tmp_path)
    harness.broker.create_topic("p", 3, cleanup_policy="compact")
    assert [it["partition"] for it in harness.compaction.request("p")["partitions"]] == [0, 1, 2]
    harness.broker.kill()


def test_a_failure_is_told_and_forgotten_with_the_next_request(harness: Asked) -> None:
    harness.fill(22)
    harness.compaction.request("t")
    harness.advance(0)
    harness.runner.release_all()
    harness.workers.last.answer(Failed(FailureKind.JOB, "rot", ""))
    harness.settle()
    partition = harness.compaction.state("t")["partitions"][0]
    assert (partition["state"], partition["error"]) == ("uncleanable", "rot")
    assert harness.compaction.overview()["uncleanable"] == [{"topic": "t", "partition": 0}]
    partition = harness.compaction.request("t")["partitions"][0]
    assert partition["state"] == "queued"
    assert "error" not in partition


def test_a_partition_that_is_offline(harness: Asked) -> None:
    harness.log.fail("a test says so")
    assert harness.states() == [("offline", 0)]
    assert harness.rejection("t") is RejectionReason.OFFLINE


def test_topics_that_are_not_compacted(harness: Asked) -> None:
    harness.broker.create_topic("d", cleanup_policy="delete")
    assert harness.rejection("d") is RejectionReason.NOT_COMPACTED
    assert harness.rejection("nothing") is RejectionReason.UNKNOWN_TOPIC
    with pytest.raises(CompactionRejectedError):
        harness.compaction.state("nothing")


def test_with_the_cleaner_turned_off(tmp_path: Path) -> None:
    harness = Asked(tmp_path, {"log.cleaner.enable": "false"})
    assert harness.rejection("t") is RejectionReason.TURNED_OFF
    assert not harness.compaction.overview()["enabled"]
    harness.broker.kill()

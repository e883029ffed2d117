"""What the cleaner's metrics say of cleanings that go on, went well, and failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.compaction.reports import LastCleanings
from barnabas.broker.metrics.cleaner_metrics import add_cleaner
from barnabas.broker.metrics.families import FAMILIES
from barnabas.broker.metrics.prometheus import Metrics
from barnabas.storage.log.cleaning_plan import CleaningStats
from barnabas.storage.worker_messages import Failed, FailureKind
from tests.broker.compaction.cleaner_harness import CleanerHarness
from tests.broker.metrics.snapshots import snapshot_at_once

MANAGER = "kafka_log_logcleanermanager"
CLEANER = "kafka_log_logcleaner"


class Seen(CleanerHarness):
    """A house whose metrics are looked at."""

    def __init__(self, directory: Path, **configs: str) -> None:
        super().__init__(directory, None, starts=True, env=None, **configs)
        self._metrics = Metrics()
        add_cleaner(self._metrics, self.cleaner, self.broker.log_manager, self.broker.env.now_ms)

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        (samples,) = [it for family, it in snapshot_at_once(self._metrics) if family.name == name]
        return dict(samples)

    def value(self, name: str) -> float:
        return self.values(name)[()]

    @property
    def names(self) -> set[str]:
        return {family.name for family, _ in snapshot_at_once(self._metrics)}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Seen]:
    house = Seen(tmp_path)
    yield house
    house.broker.kill()


def test_every_declared_metric_of_the_cleaner_has_a_source(house: Seen) -> None:
    assert house.names == {name for name in FAMILIES if name.startswith((CLEANER, "barnabas_compaction"))}


def test_while_it_goes_on_and_afterwards(house: Seen) -> None:
    worker = house.begin()
    worker.on_progress(0.5)
    assert house.values("barnabas_compaction_progress_ratio") == {("t", "0"): 0.5}
    assert house.value(f"{MANAGER}_max_dirty_percent") == 100
    worker.finish()
    house.settle()
    assert house.values("barnabas_compaction_progress_ratio") == {}
    assert house.value("barnabas_compaction_finished_total") == 1
    assert 0 < house.value(f"{CLEANER}_cleaner_recopy_percent") < 50
    assert house.value(f"{MANAGER}_max_dirty_percent") == 0


def test_how_long_ago_it_looked(house: Seen) -> None:
    house.advance()
    house.broker.env.ms += 1234
    assert house.value(f"{MANAGER}_time_since_last_run_ms") == 1234


def test_a_log_that_is_late(tmp_path: Path) -> None:
    house = Seen(tmp_path, min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms="10000")
    house.fill(22)
    house.advance()
    assert house.value(f"{CLEANER}_max_compaction_delay_secs") == 5
    house.broker.kill()


def test_uncleanable_partitions_by_directory(house: Seen) -> None:
    house.begin().answer(Failed(FailureKind.JOB, "rot", ""))
    house.settle()
    directory = (str(house.directory),)
    assert house.values(f"{MANAGER}_uncleanable_partitions_count") == {directory: 1}
    (size,) = house.values(f"{MANAGER}_uncleanable_bytes").values()
    assert size == sum(segment.size for segment in house.log.segments[:-1])


def test_workers_that_died(house: Seen) -> None:
    house.begin().die()
    house.settle()
    assert house.value(f"{CLEANER}_deadthreadcount") == 1


def test_the_last_of_each_place_counts() -> None:
    last = LastCleanings()
    assert (last.recopy_percent, last.max_clean_time_secs, last.max_buffer_utilization_percent) == (0, 0, 0)
    for slot, stats in (
        (0, CleaningStats(bytes_read=1, bytes_written=1, buffer_utilization=0.9, index_seconds=100.0)),
        (0, CleaningStats(bytes_read=100, bytes_written=50, buffer_utilization=0.2, clean_seconds=3.7)),
        (1, CleaningStats(bytes_read=300, bytes_written=50, buffer_utilization=0.314, index_seconds=1.0)),
    ):
        last.succeeded(slot, ("t", 0), stats)
    assert (last.recopy_percent, last.max_clean_time_secs, last.max_buffer_utilization_percent) == (25, 3, 31)
    assert last.cleanings == 3

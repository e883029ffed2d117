"""Tests the reads that the benchmark of scans counts for a query."""

from pathlib import Path

from barnabas.storage.manager.log_manager import LogManager
from bench.scan_week import ANYTHING, BOUNDS, DISORDER, HOUR_MS, PARTITIONS, START_MS, TOPIC, WITHIN, touched
from tests.pipeline.log_reading.busy_log import UnsyncedEnv
from tests.storage.helpers import TOPIC_ID, make_batch, small_config


def test_an_hour_of_a_week(tmp_path: Path) -> None:
    """The earlier and the more precisely the end of the hour is known, the less of the rest is read."""
    manager = LogManager(UnsyncedEnv(), [str(tmp_path)], lambda _topic: small_config(retention_ms=-1))
    manager.dirs.lock()
    manager.load_logs()
    for partition in range(PARTITIONS):
        log = manager.get_or_create_log(TOPIC, partition, TOPIC_ID)
        for hour in range(7 * 24):
            log.append_as_leader(make_batch(b"x" * 300, timestamp=START_MS + hour * HOUR_MS), 0)
    given = {"path": str(tmp_path), "subscribe": TOPIC}
    by_bounds = touched({**given, **BOUNDS}, ANYTHING)
    by_filter = touched({**given, **DISORDER}, WITHIN)
    by_half_a_filter = touched(given, WITHIN)
    everything = touched(given, ANYTHING)
    assert 0 < by_bounds.segments <= 2 * PARTITIONS
    assert 0 < by_filter.segments <= 3 * PARTITIONS
    assert by_filter.segments < by_half_a_filter.segments <= everything.all_segments * 2 // 3
    assert everything.segments == everything.all_segments > 80
    assert everything.all_bytes <= everything.read_bytes
    assert by_bounds.read_bytes < by_half_a_filter.read_bytes < everything.read_bytes

"""Tests the stream's reader by itself, called as by Spark."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.pipeline.log_reading.errors import DataLossError
from barnabas.pipeline.spark.options import parse_options
from tests.pipeline.log_reading.reading import rows_in
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import make_batch, new_log

pytestmark = pytest.mark.spark


def reader_of(env: FaultEnv, **options: str) -> Any:
    from barnabas.pipeline.spark.streaming import BarnabasStreamReader

    return BarnabasStreamReader(parse_options({"path": "/logs", **options}, is_stream=True), env)


def at(offset: int) -> dict[str, Any]:
    return {"t": {"0": offset}}


def test_a_micro_batch_waits_for_enough_but_not_for_ever() -> None:
    env = FaultEnv()
    log = new_log(env)
    log.append_as_leader(make_batch(b"a", b"b"), 0)
    reader = reader_of(env, minOffsetsPerTrigger="5", maxTriggerDelay="10s", maxOffsetsPerTrigger="8")
    limit = reader.getDefaultReadLimit()
    assert reader.latestOffset(at(0), limit) == at(2), "the first has waited long enough"
    log.append_as_leader(make_batch(b"c", b"d"), 0)
    assert reader.latestOffset(at(2), limit) == at(2)
    log.append_as_leader(make_batch(*[b"e"] * 10), 0)
    assert reader.latestOffset(at(2), limit) == at(10)
    assert reader.latestOffset(at(10), limit) == at(10)
    env.time_ms += 10_000
    assert reader.latestOffset(at(10), limit) == at(14)


def test_available_now_does_not_wait() -> None:
    env = FaultEnv()
    log = new_log(env)
    log.append_as_leader(make_batch(b"a", b"b"), 0)
    reader = reader_of(env, minOffsetsPerTrigger="5")
    reader.prepareForTriggerAvailableNow()
    log.append_as_leader(make_batch(b"c"), 0)
    limit = reader.getDefaultReadLimit()
    for _ in range(2):
        assert reader.latestOffset(at(0), limit) == at(2)


def test_a_micro_batch_is_cut_into_as_many_tasks_as_are_asked_for() -> None:
    env = FaultEnv()
    log = new_log(env)
    for _ in range(400):
        log.append_as_leader(make_batch(b"v" * 800), 0)
    assert len(reader_of(env).partitions(at(0), at(400))) == 1
    tasks = reader_of(env, minPartitions="4").partitions(at(0), at(400))
    assert len(tasks) >= 4
    ranges = [piece for task in tasks for piece in task.ranges]
    assert [row["offset"] for row in rows_in(env, ranges)] == list(range(400))


def test_a_partition_that_has_no_segment_yet_is_read_from_its_start_later() -> None:
    env = FaultEnv()
    new_log(env).append_as_leader(make_batch(b"a"), 0)
    env.mkdir("/logs/t-1")
    assert reader_of(env).initialOffset() == at(1), "a stream starts at the end, and of t-1 it knows nothing"


def test_a_partition_deleted_before_its_first_micro_batch_is_reported_as_lost() -> None:
    env = FaultEnv()
    new_log(env).append_as_leader(make_batch(b"a"), 0)
    env.mkdir("/logs/t-1")
    end = {"t": {"0": 1, "1": 3}}
    with pytest.raises(DataLossError, match="offsets 0 to 2 of t-1 are gone: the partition is gone"):
        reader_of(env).partitions(at(1), end)
    assert reader_of(env, failOnDataLoss="false").partitions(at(1), end) == []

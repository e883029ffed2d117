"""The stream's reader by itself, as Spark would call it."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.spark.options import parse_options
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import make_batch, new_log

pytestmark = pytest.mark.spark


def reader_of(env: FaultEnv, **options: str) -> Any:
    from pipeline.spark.streaming import BarnabasStreamReader

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


def test_what_is_available_now_waits_for_nothing() -> None:
    env = FaultEnv()
    log = new_log(env)
    log.append_as_leader(make_batch(b"a", b"b"), 0)
    reader = reader_of(env, minOffsetsPerTrigger="5")
    reader.prepareForTriggerAvailableNow()
    log.append_as_leader(make_batch(b"c"), 0)
    limit = reader.getDefaultReadLimit()
    for _ in range(2):
        assert reader.latestOffset(at(0), limit) == at(2)

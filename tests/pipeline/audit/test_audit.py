"""Tests that an audit finds each damage and nothing else, with every engine."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.pipeline.audit import rows
from barnabas.pipeline.audit.audit import AuditResult, audit
from barnabas.pipeline.audit.engines import LocalEngine
from barnabas.pipeline.audit.partition import PartitionReport, combined
from barnabas.pipeline.audit.plan import AuditOptions, PartitionPlan, SegmentTask
from barnabas.pipeline.audit.spark_engine import _examining, _judging, packed
from barnabas.protocol.records.batch import CorruptRecordError
from barnabas.storage.env import Env, RealEnv
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import LogStartOffsetIncrementReason
from barnabas.storage.verify.directory import NotALogDirectoryError, Verification
from barnabas.storage.verify.verifier import Check, Severity, Situation
from tests.pipeline.audit.damages import DAMAGES
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import T0, TOPIC_ID, make_batch, small_config
from tests.storage.verify.verified import LOG_DIR, TOPIC, written

OPTIONS = AuditOptions(is_deep=True, counts_keys=True, now_ms=T0 + 60_000)


def audited(env: Env, *paths: str, options: AuditOptions = OPTIONS) -> AuditResult:
    return audit(env, paths or (LOG_DIR,), options, LocalEngine(env))


def test_nothing_wrong() -> None:
    env = FaultEnv()
    written(env)
    read: list[int] = []
    result = audit(env, [LOG_DIR], OPTIONS, LocalEngine(env, read.append))
    assert result.findings == []
    assert [(row["topic"], row["partition"]) for row in result.partitions] == [("orders", 0), ("plain", 3)]
    assert sum(read) == result.counts["bytes"] == sum(row["bytes"] for row in result.segments)
    orders = result.partitions[0]
    segments = [row for row in result.segments if row["topic"] == "orders"]
    assert [row["is_active"] for row in segments] == [False] * (len(segments) - 1) + [True]
    assert orders["segments"] == len(segments)
    assert orders["end_offset"] == segments[-1]["next_offset"]
    assert orders["distinct_keys"] == 1
    assert (orders["kept_records"], orders["aborted_records"]) == (1, 3)
    assert orders["saved_bytes"] == orders["compactable_bytes"] - orders["kept_bytes"] > 0
    assert segments[-1]["saved_bytes"] is None, "the active segment is not compacted"
    assert dict(orders["codec_bytes"])["zstd"] > 0
    assert sum(dict(orders["codec_bytes"]).values()) == orders["bytes"]


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(DAMAGES)), st.integers(0, 1000))
def test_each_damage_is_the_only_finding(name: str, choice: int) -> None:
    env = FaultEnv()
    written(env)
    damage = DAMAGES[name]
    path = damage.do(env, choice)
    result = audited(env)
    found = [row for row in result.findings if row["severity"] != "note"]
    checks = {row["check"] for row in found}
    assert damage.noticed <= checks <= damage.noticed | damage.also, found
    assert path in {row["path"] for row in found}
    assert all((row["log_dir"], row["topic"], row["partition"]) == (LOG_DIR, "orders", 0) for row in found)
    assert result.partitions[0]["errors"] == result.tally()[Severity.ERROR]
    assert (result.partitions[1]["errors"], result.partitions[1]["warnings"]) == (0, 0)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(DAMAGES)), st.integers(0, 1000)), max_size=4))
def test_an_audit_has_the_findings_of_log_verify(damages: list[tuple[str, int]]) -> None:
    env = FaultEnv()
    written(env)
    for name, choice in damages:
        try:
            DAMAGES[name].do(env, choice)
        except (ZeroDivisionError, ValueError, IndexError, CorruptRecordError):
            continue  # an earlier damage has removed it
    expected = [(one.severity, one.path, one.problem, one.offset) for one in Verification(env).run([LOG_DIR])]
    found = [
        (row["severity"], row["path"], row["problem"], row["offset"])
        for row in audited(env).findings
        if row["check"] != Check.TIMESTAMPS
    ]
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def gapped(env: Env, *batches: bytes) -> None:
    """A log with these batches, appended as by a follower, without validation."""
    manager = LogManager(env, [LOG_DIR], lambda _topic: small_config())
    manager.dirs.lock()
    manager.load_logs()
    log = manager.get_or_create_log("orders", 0, TOPIC_ID)
    for batch in batches:
        log.append_as_follower(batch, 0)
    log.update_high_watermark(log.log_end_offset)
    manager.shutdown()


@pytest.mark.parametrize("gap_at", range(1, 6))
def test_a_gap_in_sequences_is_found_across_segments(gap_at: int) -> None:
    env = FaultEnv()
    sequences = [at + (at >= gap_at) for at in range(6)]
    gapped(
        env,
        *(
            make_batch(b"v" * 800, base_offset=at, epoch=0, producer=(7, 0, sequence))
            for at, sequence in enumerate(sequences)
        ),
    )
    result = audited(env, TOPIC)
    assert len(result.segments) >= 5
    (found,) = result.findings
    assert (found["check"], found["severity"], found["offset"]) == ("sequences", "error", gap_at)
    assert found["path"] == next(
        row["path"] for row in result.segments if row["base_offset"] <= gap_at < row["next_offset"]
    )


def test_implausible_timestamps_are_warnings() -> None:
    env = FaultEnv()
    gapped(env, make_batch(b"v", base_offset=0, epoch=0, timestamp=T0 * 1000))
    (found,) = audited(env, TOPIC).findings
    assert (found["check"], found["severity"], found["offset"]) == ("timestamps", "warning", 0)


def test_without_keys_compaction_is_not_reported() -> None:
    env = FaultEnv()
    written(env)
    result = audited(env, options=OPTIONS._replace(counts_keys=False))
    assert {row["distinct_keys"] for row in result.partitions} == {None}
    assert {row["saved_bytes"] for row in result.segments} == {None}


def test_many_directories_at_once() -> None:
    env = FaultEnv()
    written(env, "/a")
    written(env, "/b")
    path = DAMAGES["crc_of_a_batch"].do(env, 0)
    result = audited(env, "/a", "/b")
    assert {(row["log_dir"], row["topic"]) for row in result.partitions} == {
        ("/a", "orders"),
        ("/a", "plain"),
        ("/b", "orders"),
        ("/b", "plain"),
    }
    by_check = {row["check"]: row for row in result.findings}
    assert by_check["crc"]["path"] == path
    # Two copies of one directory: the same partitions twice, and the same id.
    assert {row["check"] for row in result.findings} == {"crc", "names", "identity"}


def test_what_is_no_log_directory() -> None:
    env = FaultEnv()
    env.mkdir("/nothing")
    with pytest.raises(NotALogDirectoryError, match="/nothing"):
        audited(env, "/nothing")


def test_rows_fit_their_tables() -> None:
    env = FaultEnv()
    written(env)
    DAMAGES["crc_of_a_batch"].do(env, 0)
    result = audited(env)
    for found, schema in (
        (result.findings, rows.FINDINGS),
        (result.segments, rows.SEGMENTS),
        (result.partitions, rows.PARTITIONS),
    ):
        assert found
        assert all(set(row) == set(schema.names) for row in found)
        assert pa.Table.from_pylist(found, schema).num_rows == len(found)


class TravellingEngine:
    """Runs the functions of spark_engine as Spark does: pickles everything, and changes the order."""

    def run(self, plans: Sequence[PartitionPlan], options: AuditOptions) -> list[PartitionReport]:
        tasks = [task for plan in plans for task in plan.tasks]
        groups: dict[tuple[int, int], list[object]] = {(plan.number, -1): [_sent(plan)] for plan in plans}
        for key, each in _examining(options)(_sent(task) for task in reversed(tasks)):
            groups.setdefault(key, []).append(_sent(each))
        judged = [_sent(_judging(options)(group)) for group in groups.items()]
        return combined(
            [each for (_, part), each in judged if part == -1],
            [(number, each) for (number, part), each in judged if part != -1],
        )


def _sent(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("damaged", [False, True])
def test_tasks_and_reports_survive_pickling_between_processes(tmp_path: Path, damaged: bool) -> None:
    """Tasks, looks, keys and reports are plain data: pickled between processes they have the same results."""
    env, path = RealEnv(), str(tmp_path / "a")
    written(env, path)
    if damaged:
        log = sorted(tmp_path.glob("a/orders-0/*.log"))[1]
        data = bytearray(log.read_bytes())
        data[70] ^= 1
        log.write_bytes(data)
    here = audit(env, [path], OPTIONS, LocalEngine(env))
    assert audit(env, [path], OPTIONS, TravellingEngine()) == here
    assert bool(here.findings) is damaged


def test_small_segments_share_a_task_of_spark() -> None:
    def task(size: int) -> SegmentTask:
        return SegmentTask(0, "/a/t-0", size, size, False, 1, Situation())

    tasks = [task(size) for size in (5, 900, 10, 100, 20, 0, 0)]
    assert [[each.size for each in group] for group in packed(tasks, 2, 120)] == [
        [900],
        [100, 20],
        [10, 5, 0, 0],
    ]
    assert sorted(len(group) for group in packed([task(10)] * 8, 4, 1 << 20)) == [2, 2, 2, 2]
    assert packed([], 4, 100) == []


class Meddled:
    """An engine that runs a change after the plan has been made."""

    def __init__(self, env: Env, meanwhile: Callable[[], None]) -> None:
        self._engine = LocalEngine(env)
        self._meanwhile = meanwhile

    def run(self, plans: Sequence[PartitionPlan], options: AuditOptions) -> list[PartitionReport]:
        self._meanwhile()
        return self._engine.run(plans, options)


def test_changes_by_a_running_broker_are_not_damage() -> None:
    """It appends, rolls, deletes its oldest segments, and deletes a topic."""
    env = FaultEnv()
    manager = written(env, stop=False)
    log = manager.get_or_create_log("orders", 0, TOPIC_ID)

    def meanwhile() -> None:
        for number in range(30):
            log.append_as_leader(make_batch(b"later" * 40, producer=(8, 0, 6 + number)), 5)
        log.update_high_watermark(log.log_end_offset)
        log.maybe_increment_log_start_offset(20, LogStartOffsetIncrementReason.SEGMENT_DELETION)
        assert log.delete_old_segments() > 0
        assert manager.delete_log("plain", 3)

    result = audit(env, [LOG_DIR], OPTIONS, Meddled(env, meanwhile))
    assert [row for row in result.findings if row["severity"] != "note"] == []
    assert [row["topic"] for row in result.partitions if row["records"]] == ["orders"]
    manager.abandon()


def test_damage_is_reported_beside_a_running_broker() -> None:
    env = FaultEnv()
    manager = written(env, stop=False)
    log = manager.get_or_create_log("orders", 0, TOPIC_ID)
    path = DAMAGES["crc_of_a_batch"].do(env, 1)

    def meanwhile() -> None:
        for number in range(30):
            log.append_as_leader(make_batch(b"later" * 40, producer=(8, 0, 6 + number)), 5)

    log.flush()
    result = audit(env, [LOG_DIR], OPTIONS, Meddled(env, meanwhile))
    assert path in {row["path"] for row in result.findings if row["check"] == "crc"}
    manager.abandon()

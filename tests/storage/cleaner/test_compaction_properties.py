"""Compaction of any log: keys keep their last values, offsets stay, aborted data never show, producers stay known."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.protocol.records.batch import CompressionType, build_batch
from barnabas.storage.cleaner.cleaner import clean
from barnabas.storage.env import RealEnv
from barnabas.storage.errors import StorageError
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.loader import open_log
from barnabas.storage.offsets import AppendOrigin
from tests.storage.cleaning import (
    committed_records,
    last_values,
    plan_for,
    running,
    stored_batches,
    stored_records,
    swap_in,
)
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import DIRECTORY, T0, end_txn, new_log, small_config
from tests.support.loops import FORMS

RETENTION_MS = 100_000
EXAMPLES = int(os.environ.get("BARNABAS_COMPACTION_EXAMPLES", "80"))
PRODUCERS = (-1, 1, 2, 20, 21)  # none, idempotent, transactional
KEYS = st.none() | st.sampled_from([b"%d" % number for number in range(8)])
ROW = st.tuples(KEYS, st.none() | st.binary(max_size=40), st.integers(0, 50))
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "append", "append", "append", "end", "fence", "roll"]),
        st.sampled_from(PRODUCERS),
        st.lists(ROW, min_size=1, max_size=5),
        st.sampled_from(list(CompressionType)),
        st.booleans(),
    ),
    max_size=40,
)
ROUNDS = st.lists(
    st.tuples(
        st.sampled_from([0, RETENTION_MS // 2, 2 * RETENTION_MS]),  # ms between cleanings
        st.booleans(),  # with a map that is too small for all keys at once
        st.booleans(),  # later cleanings start after the cleaned part
    ),
    min_size=1,
    max_size=4,
)


class Writer:
    """Applies steps to a log; a rejected step leaves it unchanged."""

    def __init__(self, env: FaultEnv) -> None:
        self.log: UnifiedLog = new_log(env, small_config(segment_bytes=600))
        self.epochs = dict.fromkeys(PRODUCERS, 0)
        self.sequences = dict.fromkeys(PRODUCERS, 0)

    def step(self, kind: str, producer: int, rows: list[Any], codec: CompressionType, commit: bool) -> None:
        if kind == "roll":
            self.log.roll()
        elif kind == "append":
            self._append(producer, rows, codec)
        elif producer >= 20:
            if kind == "fence":  # as a coordinator does: the marker has the next epoch
                self.epochs[producer] += 1
                self.sequences[producer] = 0
            self._end(producer, commit=commit)

    def _append(self, producer: int, rows: list[Any], codec: CompressionType) -> None:
        identity = (
            (producer, self.epochs[producer], self.sequences[producer]) if producer >= 0 else (-1, -1, -1)
        )
        batch = build_batch(
            [(key, value, T0 + time, []) for key, value, time in rows],
            compression=codec,
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=identity[2],
            is_transactional=producer >= 20,
        )
        self.log.append_as_leader(batch, 0)
        self.sequences[producer] += len(rows)

    def _end(self, producer: int, *, commit: bool) -> None:
        marker = end_txn(producer, self.epochs[producer], commit=commit)
        self.log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR)

    def finish(self) -> None:
        """Ends all transactions, rolls and closes."""
        for producer in PRODUCERS:
            state = self.log.producer_state_manager.producers.get(producer)
            if state is not None and state.current_txn_first_offset >= 0:
                self._end(producer, commit=False)
        self.log.update_high_watermark(self.log.log_end_offset)
        self.log.roll()
        self.log.close()


def producers_of(env: FaultEnv) -> dict[int, tuple[int, int, int]]:
    """State of each producer by the batches alone, without a snapshot: epoch, last sequence, transaction."""
    for name in env.listdir(DIRECTORY):
        if name.endswith(".snapshot"):
            env.remove(f"{DIRECTORY}/{name}")
    log = open_log(
        env, DIRECTORY, "t", 0, small_config(), is_clean=False, log_start_offset=0, recovery_point=0
    )
    known = {
        producer_id: (entry.producer_epoch, entry.last_sequence, entry.current_txn_first_offset)
        for producer_id, entry in log.producer_state_manager.producers.items()
    }
    log.close()
    return known


def contents(records: dict[int, Any]) -> dict[int, tuple[Any, ...]]:
    return {
        offset: (record.key, record.value, record.timestamp, record.sequence)
        for offset, record in records.items()
    }


def check(form: str, steps: list[Any], rounds: list[Any]) -> None:
    env = FaultEnv()
    writer = Writer(env)
    for step in steps:
        try:
            writer.step(*step)
        except StorageError:
            continue  # for example, a transaction that is not open
    writer.finish()
    producers = producers_of(env)
    all_before = contents(stored_records(env, DIRECTORY))
    before = committed_records(env, DIRECTORY)
    plan = plan_for(env, writer.log, delete_retention_ms=RETENTION_MS)
    now_ms, first_dirty_offset = plan.now_ms, 0
    for later_ms, is_small, goes_on in rounds:
        now_ms += later_ms
        plan = plan._replace(
            segments=plan_for(env, writer.log).segments,
            now_ms=now_ms,
            first_dirty_offset=first_dirty_offset if goes_on else 0,
            dedupe_buffer_bytes=24 * 5 if is_small else 1 << 14,
        )
        result = clean(env, plan)
        swap_in(env, DIRECTORY, result)
        first_dirty_offset = result.next_first_dirty_offset
        after = committed_records(env, DIRECTORY)
        assert last_values(after) == last_values(before)
        assert contents(after).items() <= contents(before).items()
        assert contents(stored_records(env, DIRECTORY)).items() <= all_before.items()
        assert all_offsets_grow(env)
    assert producers_of(env) == producers
    check_convergence(env, plan._replace(first_dirty_offset=0, dedupe_buffer_bytes=1 << 14), writer.log)


def all_offsets_grow(env: FaultEnv) -> bool:
    next_offset = 0
    for batch in stored_batches(env, DIRECTORY):
        if batch.base_offset < next_offset:
            return False
        next_offset = batch.last_offset + 1
    return True


def check_convergence(env: FaultEnv, plan: Any, log: UnifiedLog) -> None:
    """After enough time and cleanings each key has at most one record, and no tombstone is left."""
    expected = last_values(committed_records(env, DIRECTORY))
    plan = plan._replace(segment_bytes=1 << 20)
    last: dict[str, bytes] = {}
    for number in range(1, 8):
        plan = plan._replace(
            segments=plan_for(env, log).segments, now_ms=plan.now_ms + 2 * number * RETENTION_MS
        )
        swap_in(env, DIRECTORY, clean(env, plan))
        files = {
            name: bytes(env.file(f"{DIRECTORY}/{name}").data)
            for name in env.listdir(DIRECTORY)
            if name.endswith((".log", ".txnindex"))
        }
        if files == last:
            break
        last = files
    else:
        raise AssertionError("cleaning goes on changing the log")
    records = committed_records(env, DIRECTORY)
    assert last_values(records) == expected
    assert len(records) == len(expected)


@settings(max_examples=EXAMPLES, deadline=None)
@given(form=st.sampled_from(FORMS), steps=STEPS, rounds=ROUNDS)
def test_compaction_of_any_log_in_memory(form: str, steps: list[Any], rounds: list[Any]) -> None:
    with running(form):
        check(form, steps, rounds)


def test_compaction_of_any_log_in_real_files(tmp_path: Any) -> None:
    """The same through the operating system, with real modification times and sparse files."""
    env = RealEnv()
    directory = tmp_path / "t-0"
    directory.mkdir()
    config = small_config(segment_bytes=2000)
    log = open_log(env, str(directory), "t", 0, config, is_clean=False, log_start_offset=0, recovery_point=0)
    for number in range(200):
        key = b"%d" % (number % 20)
        log.append_as_leader(build_batch([(key, b"%d" % number, T0 + number, [])]), 0)
    log.update_high_watermark(log.log_end_offset)
    log.roll()
    log.close()
    before = last_values(committed_records(env, str(directory)))
    for _ in range(2):
        swap_in(env, str(directory), clean(env, plan_for(env, log)))
    assert last_values(committed_records(env, str(directory))) == before
    assert len(stored_records(env, str(directory))) == 20
    assert not list(directory.glob("*.cleaned"))
    log = open_log(env, str(directory), "t", 0, config, is_clean=True, log_start_offset=0, recovery_point=200)
    assert log.log_end_offset == 200
    log.close()

"""Random life of one log against a model that is a dictionary, crashes of process and machine included.

What must hold after any sequence of steps: the log holds exactly the records that the model does, reads from any
offset and by any timestamp find what the model finds, what was flushed survives a crash of the machine, what was
appended survives a crash of the process, and nothing is ever there that was not appended.
"""

from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from storage.errors import OffsetOutOfRangeError, OutOfOrderSequenceError
from storage.log_manager import LogManager
from storage.offsets import FetchIsolation, LogStartOffsetIncrementReason
from storage.unified_log import UnifiedLog
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import TOPIC_ID, make_batch, read_values, small_config

PRODUCERS = (7, 8)


class LogMachine(RuleBasedStateMachine):
    """One partition in a LogManager, and what it should hold."""

    env: FaultEnv
    manager: LogManager
    log: UnifiedLog

    @initialize(seed=st.integers(0, 1 << 30))
    def start(self, seed: int) -> None:
        self.env = FaultEnv(seed=seed)
        self.env.mkdir("/logs")
        self.env.sync_dir("/")
        self.config = small_config(retention_bytes=-1, retention_ms=-1)
        self.records: dict[int, tuple[bytes, int]] = {}  # offset: value, timestamp
        self.history: dict[int, tuple[bytes, int]] = {}  # deleted ones included: a crash may bring them back
        self.boundaries = [0]  # where batches begin, and the end
        self.end = 0
        self.start_offset = 0
        self.durable_end = 0
        self.epoch = 0
        self.counter = 0
        self.last_batches: dict[int, tuple[int, int]] = {}  # producer: (sequence, offset) of the last batch
        self.open()

    def open(self) -> None:
        self.manager = LogManager(self.env, ["/logs"], lambda _topic: self.config)
        self.manager.lock_dirs()
        self.manager.load_logs()
        self.log = self.manager.get_or_create_log("t", 0, TOPIC_ID)
        self.log.update_high_watermark(self.log.log_end_offset)

    def value(self) -> bytes:
        self.counter += 1
        return b"value %d " % self.counter

    # -- writing --

    @rule(sizes=st.lists(st.integers(0, 300), min_size=1, max_size=3), age=st.integers(-20, 20))
    def append(self, sizes: list[int], age: int) -> None:
        values = [self.value() + bytes(size) for size in sizes]
        timestamp = self.env.time_ms + age
        info = self.log.append_as_leader(make_batch(*values, timestamp=timestamp), self.epoch)
        assert (info.first_offset, info.last_offset) == (self.end, self.end + len(values) - 1)
        self.note(values, timestamp)

    def note(self, values: list[bytes], timestamp: int) -> None:
        for value in values:
            self.records[self.end] = (value, timestamp)
            self.history[self.end] = (value, timestamp)
            self.end += 1
        self.boundaries.append(self.end)
        self.log.update_high_watermark(self.end)

    @rule(producer=st.sampled_from(PRODUCERS))
    def append_idempotent(self, producer: int) -> None:
        sequence = self.last_batches[producer][0] + 1 if producer in self.last_batches else 0
        value = self.value()
        batch = make_batch(value, timestamp=self.env.time_ms, producer=(producer, 0, sequence))
        assert self.log.append_as_leader(batch, self.epoch).first_offset == self.end
        self.last_batches[producer] = (sequence, self.end)
        self.note([value], self.env.time_ms)

    @rule(producer=st.sampled_from(PRODUCERS))
    def repeat_idempotent(self, producer: int) -> None:
        if producer in self.last_batches:
            sequence, offset = self.last_batches[producer]
            batch = make_batch(b"again", timestamp=self.env.time_ms, producer=(producer, 0, sequence))
            info = self.log.append_as_leader(batch, self.epoch)
            assert info.duplicate
            assert info.first_offset == offset
            with pytest.raises(OutOfOrderSequenceError):
                self.log.append_as_leader(
                    make_batch(b"gap", producer=(producer, 0, sequence + 2)), self.epoch
                )

    @rule()
    def next_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.durable_end = self.end
        assert self.log.unflushed_messages == 0

    @rule(between=st.integers(0, 2))
    def flush_in_steps(self, between: int) -> None:
        """Appends and a roll go on while the sync runs."""
        end = self.end
        job = self.log.prepare_flush()
        for _ in range(between):
            self.append([100], 0)
        if between:
            self.log.roll()
        job.run()
        self.log.complete_flush(job)
        self.durable_end = max(self.durable_end, end)

    @rule(choice=st.integers(0, 1 << 20))
    def flush_across_a_truncation(self, choice: int) -> None:
        """What a sync has covered is not what is there afterwards."""
        job, end = self.log.prepare_flush(), self.end
        self.truncate(choice)
        if self.end == end:
            self.durable_end = end  # nothing was cut
        self.append([50], 0)
        job.run()
        self.log.complete_flush(job)
        assert self.log.recovery_point <= self.durable_end

    # -- reading --

    @rule(choice=st.integers(0, 1 << 20), max_bytes=st.integers(1, 2000))
    def read(self, choice: int, max_bytes: int) -> None:
        offset = self.start_offset + choice % (self.end - self.start_offset + 1)
        found = read_values(self.log, offset, FetchIsolation.HIGH_WATERMARK)
        assert found == {at: value for at, (value, _) in self.records.items() if at >= offset}
        info = self.log.read(offset, max_bytes, FetchIsolation.HIGH_WATERMARK, min_one_message=False)
        assert info.records.size <= max_bytes

    @rule()
    def read_outside(self) -> None:
        for offset in (self.start_offset - 1, self.end + 1):
            with pytest.raises(OffsetOutOfRangeError):
                self.log.read(offset, 100, FetchIsolation.LOG_END, min_one_message=True)

    @rule(age=st.integers(-40, 40))
    def find_by_time(self, age: int) -> None:
        timestamp = self.env.time_ms + age
        expected = next((at for at, (_, time) in sorted(self.records.items()) if time >= timestamp), None)
        found = self.log.fetch_offset_by_timestamp(timestamp)
        assert (found.offset if found else None) == expected
        youngest = self.log.offset_of_max_timestamp()
        if youngest is not None and youngest.offset >= self.start_offset:
            assert youngest.timestamp == max(time for _, time in self.records.values())

    # -- cutting --

    @rule(choice=st.integers(0, 1 << 20))
    def truncate(self, choice: int) -> None:
        """Followers cut at batch boundaries that the leader names."""
        offset = self.boundaries[choice % len(self.boundaries)]
        if offset >= self.log.log_start_offset:
            self.manager.truncate_to(self.log, offset)
            self.durable_end = min(self.durable_end, offset)
            self.cut_to(offset)
            self.history = {at: record for at, record in self.history.items() if at < offset}
            self.forget_producers()

    def cut_to(self, end: int) -> None:
        self.end = end
        self.start_offset = self.log.log_start_offset
        self.records = {at: record for at, record in self.records.items() if self.start_offset <= at < end}
        self.boundaries = [at for at in self.boundaries if at <= end] or [end]

    @rule(ahead=st.integers(0, 50))
    def truncate_fully(self, ahead: int) -> None:
        self.manager.truncate_fully_and_start_at(self.log, self.end + ahead)
        self.records.clear()
        self.end = self.start_offset = self.durable_end = self.end + ahead
        self.last_batches.clear()
        self.history.clear()
        self.boundaries = [self.end]

    def forget_producers(self) -> None:
        """What is past the end has never happened; what came before it is not followed here."""
        self.last_batches = {
            producer: (entry.last_sequence, entry.last_offset)
            for producer, entry in self.log.producer_state_manager.producers.items()
            if entry.batches
        }
        for _, offset in self.last_batches.values():
            assert offset < self.end

    @rule(choice=st.integers(0, 1 << 20))
    def delete_records(self, choice: int) -> None:
        offset = self.start_offset + choice % (self.end - self.start_offset + 1)
        self.log.maybe_increment_log_start_offset(
            offset, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION
        )
        self.cut_to(self.end)
        assert self.start_offset == offset

    @rule(retention_bytes=st.sampled_from((-1, 0, 1500)), retention_ms=st.sampled_from((-1, 0, 10_000)))
    def retain(self, retention_bytes: int, retention_ms: int) -> None:
        self.log.update_config(small_config(retention_bytes=retention_bytes, retention_ms=retention_ms))
        self.log.delete_old_segments()
        self.log.update_config(self.config)
        self.cut_to(self.end)

    @rule()
    def remove_due_files(self) -> None:
        self.env.time_ms += 60_000
        for deletion in self.manager.take_due_deletions():
            deletion.run()

    @rule(step_ms=st.integers(1, 20))
    def pass_time(self, step_ms: int) -> None:
        self.env.time_ms += step_ms

    # -- stopping --

    @rule()
    def checkpoint(self) -> None:
        self.manager.checkpoint_all()

    @rule()
    def stop_cleanly(self) -> None:
        self.manager.shutdown()
        self.durable_end = self.end
        self.open()
        assert self.log.truncated_bytes == 0
        assert self.log.recovery_point == self.end
        self.after_restart(self.end)

    @rule()
    def kill(self) -> None:
        self.env.kill()
        self.open()
        assert self.log.truncated_bytes == 0
        self.after_restart(self.end)

    @rule(seed=st.none() | st.integers(0, 1 << 30))
    def crash(self, seed: int | None) -> None:
        self.env.crash(None if seed is None else Random(seed))
        self.open()
        self.after_restart(self.durable_end)
        self.forget_producers()

    def after_restart(self, required_end: int) -> None:
        """Everything before `required_end` is there, and what is there after it was once appended."""
        log = self.log
        assert required_end <= log.log_end_offset <= self.end
        if self.start_offset <= log.log_end_offset:
            reason = LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION
            log.maybe_increment_log_start_offset(self.start_offset, reason)
        assert log.log_start_offset <= self.start_offset
        self.start_offset = log.log_start_offset
        found = read_values(log)
        assert all(self.history[offset][0] == value for offset, value in found.items())
        assert not [at for at in self.records if at not in found and self.start_offset <= at < required_end]
        self.durable_end = min(self.durable_end, log.log_end_offset)
        self.history = {at: record for at, record in self.history.items() if at < log.log_end_offset}
        self.cut_to(log.log_end_offset)
        self.records = {at: self.history[at] for at in found}

    @invariant()
    def offsets_agree(self) -> None:
        if hasattr(self, "log"):
            assert self.log.log_end_offset == self.end
            assert self.log.log_start_offset == self.start_offset
            assert self.log.high_watermark == self.end
            entries = self.log.leader_epoch_cache.entries
            assert entries == sorted(entries)
            assert all(start <= self.end for _, start in entries)
            assert self.env.maps <= 2 * self.log.segment_count


LogMachine.TestCase.settings = settings(
    max_examples=400,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
TestLog = LogMachine.TestCase

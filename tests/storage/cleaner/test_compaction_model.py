"""Compaction between random other operations on a log, compared with a simple model.

The model is the list of all records that were appended and not truncated. A compacted log holds only records that were
appended, each at its offset, and the last record of each key unless that is a tombstone. After a power cut, which may
lose unflushed records, the same holds for the rest: above all, no flushed record is removed because of a record that
the power cut lost. (A truncation may cut records that superseded older ones, which compaction has removed. So the test
never truncates below the compacted part, as a broker never truncates below the high watermark.)
"""

import os
import random
from collections.abc import Callable

import pytest

from barnabas.storage.cleaner.log_to_clean import LogToClean, paths_to_sync
from barnabas.storage.log.cleaning_plan import CleaningResult
from barnabas.storage.log.segment_swap import SwapClaim, SwapPreparation, remove_cleaned
from barnabas.storage.offsets import LogStartOffsetIncrementReason
from tests.storage.compacting import CompactionHarness, compacted_config, contents, put
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import T0
from tests.support.chance import seeds

RUNS = int(os.environ.get("BARNABAS_MODEL_RUNS", "25"))
STEPS = 120
KEYS = [b"key %d" % number for number in range(7)]
DELETE_RETENTION_MS = 1000

Record = tuple[bytes, bytes | None]


class CompactionModelHarness:
    """A log, its model, and the cleaning in progress, if any."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.env = FaultEnv(seed=seed)
        self.env.mkdir("/a")
        self.env.sync_dir("/")
        self.records: dict[int, Record] = {}
        self.end = 0
        self.start = 0
        self.durable_end = 0
        self.compacted_to = 0
        self.has_gaps = False
        self.found: LogToClean | None = None
        self.result: CleaningResult | None = None
        self.claim: SwapClaim | None = None
        self.swap: SwapPreparation | None = None
        self.swapped = 0
        self.compactions = 0
        self.open()

    def open(self) -> None:
        config = compacted_config(delete_retention_ms=DELETE_RETENTION_MS)
        group_bytes = self.dice.choice([900, 2500, 16_384])
        self.harness = CompactionHarness(self.env, config, group_bytes=group_bytes)

    @property
    def steps(self) -> list[Callable[[], None]]:
        return [
            *[self.append] * 6,
            *[self.clean] * 6,
            self.flush,
            self.checkpoint,
            self.roll,
            self.wait,
            self.truncate,
            self.delete_records,
            self.retain,
            self.remove_due,
            self.kill,
            self.cut_the_power,
            self.stop,
        ]

    def run(self) -> None:
        for _ in range(STEPS):
            step = self.dice.choice(self.steps)
            step()
            self.check(step.__name__)

    # -- steps --

    def append(self) -> None:
        for _ in range(self.dice.randint(1, 4)):
            key = self.dice.choice(KEYS)
            value = None if self.dice.random() < 0.1 else b"%d" % self.end + bytes(self.dice.randrange(150))
            timestamp = T0 + self.end
            assert put(self.harness.log, key, value, timestamp=timestamp) == self.end
            self.records[self.end] = key, value
            self.end += 1

    def clean(self) -> None:
        """Take the next step of the cleaning in progress, or start one."""
        if self.found is None:
            self.found = self.harness.cleaner.grab_filthiest_log()
            if self.found is not None:
                self.harness.cleaner.on_abort(self.harness.key, self.stop_cleaning)
        elif self.result is None:
            self.result = self.harness.clean(self.found)
        elif self.claim is None:
            segments = self.result.segments
            self.claim = SwapClaim(self.env, self.harness.log.directory, segments, paths_to_sync(self.found))
            self.claim.run()
            self.durable_end = max(self.durable_end, self.found.offsets.first_uncleanable_offset)
        elif self.swap is not None:
            assert self.harness.log.replace_segments(self.swap.cleaned)
            self.swapped_in()
            self.swap = None
            self.swapped += 1
        elif self.swapped < len(self.result.segments):
            cleaned = self.result.segments[self.swapped]
            self.swap = SwapPreparation(self.env, self.harness.log.directory, cleaned)
            self.swap.run()
        else:
            self.end_cleaning(self.result.next_first_dirty_offset)
            self.compactions += 1

    def swapped_in(self) -> None:
        assert self.found is not None
        self.compacted_to = max(self.compacted_to, self.found.offsets.first_uncleanable_offset)

    def stop_cleaning(self) -> None:
        if self.swap is not None:
            self.swap.cancel()

    def end_cleaning(self, next_dirty_offset: int | None) -> None:
        assert self.found is not None
        if next_dirty_offset is None:
            remove_cleaned(self.env, self.harness.log.directory)
        if self.claim is not None:
            self.claim.release()
        self.harness.cleaner.done_cleaning(self.found, next_dirty_offset)
        self.forget_cleaning()

    def forget_cleaning(self) -> None:
        self.found = self.result = self.claim = self.swap = None
        self.swapped = 0

    def flush(self) -> None:
        self.harness.log.flush()
        self.durable_end = self.end

    def checkpoint(self) -> None:
        self.harness.manager.dirs.checkpoint_all()

    def roll(self) -> None:
        self.harness.log.roll()

    def wait(self) -> None:
        self.env.time_ms += self.dice.choice([1, DELETE_RETENTION_MS, 60_000])

    def truncate(self) -> None:
        offset = self.dice.randint(max(self.start, self.end - 12, self.compacted_to), self.end)
        self.harness.manager.truncate_to(self.harness.log, offset)
        self.harness.log.update_high_watermark(self.harness.log.log_end_offset)
        if self.found is not None and self.harness.cleaner.is_aborted(self.harness.key):
            self.end_cleaning(None)
        self.cut(offset)
        self.durable_end = min(self.durable_end, offset)

    def cut(self, offset: int) -> None:
        self.end = offset
        self.records = {at: record for at, record in self.records.items() if at < offset}

    def delete_records(self) -> None:
        offset = self.dice.randint(self.start, min(self.start + 8, self.end))
        reason = LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION
        if self.harness.log.maybe_increment_log_start_offset(offset, reason):
            self.start = offset
        self.harness.manager.dirs.checkpoint_all()

    def retain(self) -> None:
        self.harness.cleaner.delete_old_segments()

    def remove_due(self) -> None:
        for deletion in self.harness.manager.take_due_deletions():
            deletion.run()

    # -- stops and restarts --

    def kill(self) -> None:
        self.env.kill()
        self.reopen_and_check(self.end)

    def cut_the_power(self) -> None:
        self.env.crash(self.dice if self.dice.random() < 0.5 else None)
        durable_end = self.durable_end
        self.reopen_and_check(durable_end)
        found = contents(self.harness.log)
        self.has_gaps = self.has_gaps or any(at not in found for at in self.records)
        self.records = {at: record for at, record in self.records.items() if at < durable_end or at in found}

    def reopen_and_check(self, least_end: int) -> None:
        if self.swap is not None:
            self.swapped_in()  # loading completes the swap
        self.forget_cleaning()
        self.open()
        end = self.harness.log.log_end_offset
        # A log end truncated into a gap is in no file, so a restart does not restore it.
        assert self.has_gaps or end >= least_end, (least_end, end)
        assert end <= self.end
        assert self.harness.log.log_start_offset >= self.start
        self.start = self.harness.log.log_start_offset
        self.cut(end)
        self.durable_end = min(self.durable_end, end)
        self.compacted_to = min(self.compacted_to, end)
        leftovers = [name for name in self.env.listdir("/a/t-0") if name.endswith((".cleaned", ".swap"))]
        assert not leftovers

    def stop(self) -> None:
        if self.found is not None:
            self.harness.cleaner.abort_cleaning(self.harness.key)
            self.end_cleaning(None)
        self.harness.manager.shutdown()
        self.env.kill()
        self.durable_end = self.end
        self.reopen_and_check(self.end)

    # -- checks --

    def check(self, step: str) -> None:
        log = self.harness.log
        assert not log.is_failed
        assert log.log_end_offset == self.end
        found = {at: record for at, record in contents(log).items() if at >= self.start}
        for offset, record in found.items():
            assert record == self.records[offset], (step, offset)
        last = {key: offset for offset, (key, _) in sorted(self.records.items()) if offset >= self.start}
        for key, offset in last.items():
            is_tombstone = self.records[offset][1] is None
            assert offset in found or is_tombstone, (step, key, offset)
            if offset not in found:
                older = [at for at, (other, _) in found.items() if other == key]
                assert not older, (step, key, "a deleted key has come back")


@pytest.mark.parametrize("seed", seeds(RUNS))
def test_the_log_agrees_with_the_model_after_every_step(seed: int) -> None:
    harness = CompactionModelHarness(seed)
    harness.run()

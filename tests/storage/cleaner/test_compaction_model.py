"""Compaction among everything else that happens to a log, at random, against a simple model.

The model is the list of all records that were ever appended and not truncated away. Of a compacted log it knows: what
is there was appended, at that offset; and of each key the last record is there, unless it is a tombstone. A power cut
may take what was not flushed, and then the same holds for what is left: above all, no flushed record is gone because
of one that the power cut took. (What a truncation takes may well have been the reason why older records went. So none
goes below what was compacted, as in life none goes below the high watermark.)
"""

import os
import random
from collections.abc import Callable

import pytest

from barnabas.storage.cleaner.log_to_clean import LogToClean, paths_to_sync
from barnabas.storage.log.cleaning_plan import CleaningResult
from barnabas.storage.log.segment_swap import SwapClaim, SwapPreparation, remove_cleaned
from barnabas.storage.offsets import LogStartOffsetIncrementReason
from tests.storage.compacting import Compacted, compacted, contents, put
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import T0
from tests.support.chance import seeds

RUNS = int(os.environ.get("BARNABAS_MODEL_RUNS", "25"))
STEPS = 120
KEYS = [b"key %d" % number for number in range(7)]
DELETE_RETENTION_MS = 1000

Record = tuple[bytes, bytes | None]


class Life:
    """A log, the model of it, and a cleaning that may be under way."""

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
        config = compacted(delete_retention_ms=DELETE_RETENTION_MS)
        group_bytes = self.dice.choice([900, 2500, 16_384])
        self.house = Compacted(self.env, config, group_bytes=group_bytes)

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

    def live(self) -> None:
        for _ in range(STEPS):
            step = self.dice.choice(self.steps)
            step()
            self.check(step.__name__)

    # -- what happens --

    def append(self) -> None:
        for _ in range(self.dice.randint(1, 4)):
            key = self.dice.choice(KEYS)
            value = None if self.dice.random() < 0.1 else b"%d" % self.end + bytes(self.dice.randrange(150))
            timestamp = T0 + self.end
            assert put(self.house.log, key, value, timestamp=timestamp) == self.end
            self.records[self.end] = key, value
            self.end += 1

    def clean(self) -> None:
        """The next step of the cleaning that is under way, or the first of another one."""
        if self.found is None:
            self.found = self.house.cleaner.grab_filthiest_log()
            if self.found is not None:
                self.house.cleaner.on_abort(self.house.key, self.stop_cleaning)
        elif self.result is None:
            self.result = self.house.clean(self.found)
        elif self.claim is None:
            segments = self.result.segments
            self.claim = SwapClaim(self.env, self.house.log.directory, segments, paths_to_sync(self.found))
            self.claim.run()
            self.durable_end = max(self.durable_end, self.found.offsets.first_uncleanable_offset)
        elif self.swap is not None:
            assert self.house.log.replace_segments(self.swap.cleaned)
            self.swapped_in()
            self.swap = None
            self.swapped += 1
        elif self.swapped < len(self.result.segments):
            cleaned = self.result.segments[self.swapped]
            self.swap = SwapPreparation(self.env, self.house.log.directory, cleaned)
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
            remove_cleaned(self.env, self.house.log.directory)
        if self.claim is not None:
            self.claim.release()
        self.house.cleaner.done_cleaning(self.found, next_dirty_offset)
        self.forget_cleaning()

    def forget_cleaning(self) -> None:
        self.found = self.result = self.claim = self.swap = None
        self.swapped = 0

    def flush(self) -> None:
        self.house.log.flush()
        self.durable_end = self.end

    def checkpoint(self) -> None:
        self.house.manager.dirs.checkpoint_all()

    def roll(self) -> None:
        self.house.log.roll()

    def wait(self) -> None:
        self.env.time_ms += self.dice.choice([1, DELETE_RETENTION_MS, 60_000])

    def truncate(self) -> None:
        offset = self.dice.randint(max(self.start, self.end - 12, self.compacted_to), self.end)
        self.house.manager.truncate_to(self.house.log, offset)
        self.house.log.update_high_watermark(self.house.log.log_end_offset)
        if self.found is not None and self.house.cleaner.is_aborted(self.house.key):
            self.end_cleaning(None)
        self.cut(offset)
        self.durable_end = min(self.durable_end, offset)

    def cut(self, offset: int) -> None:
        self.end = offset
        self.records = {at: record for at, record in self.records.items() if at < offset}

    def delete_records(self) -> None:
        offset = self.dice.randint(self.start, min(self.start + 8, self.end))
        reason = LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION
        if self.house.log.maybe_increment_log_start_offset(offset, reason):
            self.start = offset
        self.house.manager.dirs.checkpoint_all()

    def retain(self) -> None:
        self.house.cleaner.delete_old_segments()

    def remove_due(self) -> None:
        for deletion in self.house.manager.take_due_deletions():
            deletion.run()

    # -- how it may end, and go on --

    def kill(self) -> None:
        self.env.kill()
        self.come_back(self.end)

    def cut_the_power(self) -> None:
        self.env.crash(self.dice if self.dice.random() < 0.5 else None)
        durable_end = self.durable_end
        self.come_back(durable_end)
        found = contents(self.house.log)
        self.has_gaps = self.has_gaps or any(at not in found for at in self.records)
        self.records = {at: record for at, record in self.records.items() if at < durable_end or at in found}

    def come_back(self, least_end: int) -> None:
        if self.swap is not None:
            self.swapped_in()  # loading completes it
        self.forget_cleaning()
        self.open()
        end = self.house.log.log_end_offset
        # An end that was cut into a gap, where no file is that tells of it, does not outlast the process.
        assert self.has_gaps or end >= least_end, (least_end, end)
        assert end <= self.end
        assert self.house.log.log_start_offset >= self.start
        self.start = self.house.log.log_start_offset
        self.cut(end)
        self.durable_end = min(self.durable_end, end)
        self.compacted_to = min(self.compacted_to, end)
        leftovers = [name for name in self.env.listdir("/a/t-0") if name.endswith((".cleaned", ".swap"))]
        assert not leftovers

    def stop(self) -> None:
        if self.found is not None:
            self.house.cleaner.abort_cleaning(self.house.key)
            self.end_cleaning(None)
        self.house.manager.shutdown()
        self.env.kill()
        self.durable_end = self.end
        self.come_back(self.end)

    # -- what must be true --

    def check(self, step: str) -> None:
        log = self.house.log
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
def test_whatever_happens(seed: int) -> None:
    life = Life(seed)
    life.live()

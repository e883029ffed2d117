"""Compaction as in a broker, step by step on the calling thread."""

from barnabas.config.log_config import LogConfig
from barnabas.storage.cleaner.cleaner import clean
from barnabas.storage.cleaner.log_to_clean import (
    CleanerLimits,
    LogToClean,
    SegmentSurvey,
    cleaning_plan,
    paths_to_sync,
)
from barnabas.storage.cleaner.manager import LogCleanerManager
from barnabas.storage.env import Env
from barnabas.storage.log.cleaning_plan import CleaningPlan, CleaningResult
from barnabas.storage.log.segment_swap import SwapClaim, SwapPreparation
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from tests.storage.helpers import TOPIC_ID, make_batch, read_batches, small_config

LIMITS = CleanerLimits(65_536, 0.9, 4096, float("inf"))
KEYS = 4
ABORTED = b"aborted"
"""The key of an aborted transaction's records: in the log until it is compacted, returned to no consumer."""


def compacted_config(**overrides: object) -> LogConfig:
    """Configuration of a compacted topic with small segments and a cleanable ratio of 0."""
    return small_config(
        **{"cleanup_policy": frozenset({"compact"}), "min_cleanable_dirty_ratio": 0.0, **overrides}
    )


class CompactionHarness:
    """Harness of a log manager, in /a or another directory, with one compacted log, and its cleaner manager."""

    def __init__(
        self,
        env: Env,
        config: LogConfig | None = None,
        *,
        group_bytes: int = 16_384,
        log_dir: str = "/a",
    ) -> None:
        """`group_bytes`: the most that the segments merged into one may add up to."""
        self.env = env
        self.group_bytes = group_bytes
        self.manager = LogManager(env, [log_dir], lambda _topic: config or compacted_config())
        self.manager.dirs.lock()
        self.manager.dirs.load_meta_properties()
        self.manager.load_logs()
        self.manager.cleaner = self.cleaner = LogCleanerManager(env, self.manager)
        self.log = self.manager.get_or_create_log("t", 0, TOPIC_ID)
        self.log.update_high_watermark(self.log.log_end_offset)

    @property
    def key(self) -> tuple[str, int]:
        return "t", 0

    @property
    def checkpoint(self) -> int | None:
        """The first dirty offset, in memory."""
        return self.manager.dirs[0].cleaner_offsets.get(self.key)

    def fill(self, count: int, *, size: int = 100) -> None:
        """Appends `count` records, keys in turn, values that name their offset; a segment holds five."""
        for _ in range(count):
            offset = self.log.log_end_offset
            put(self.log, b"key %d" % (offset % KEYS), b"%020d" % offset + bytes(size))

    def grab(self) -> LogToClean:
        found = self.cleaner.grab_filthiest_log()
        assert found is not None, "nothing to clean"
        return found

    def plan(self, found: LogToClean) -> CleaningPlan:
        survey = SegmentSurvey(self.env, found)
        survey.run()
        plan = cleaning_plan(found, survey.segments, LIMITS, self.env.now_ms())
        return plan._replace(segment_bytes=self.group_bytes)

    def clean(self, found: LogToClean) -> CleaningResult:
        """Clean as the worker does."""
        return clean(self.env, self.plan(found))

    def swap(self, found: LogToClean, result: CleaningResult) -> None:
        """Put the result in place as the broker does."""
        claim = SwapClaim(self.env, found.log.directory, result.segments, paths_to_sync(found))
        claim.run()
        for cleaned in result.segments:
            swap = SwapPreparation(self.env, found.log.directory, cleaned)
            swap.run()
            assert found.log.replace_segments(cleaned)
        claim.release()
        self.cleaner.done_cleaning(found, result.next_first_dirty_offset)

    def compact(self) -> CleaningResult:
        """One whole cleaning of the dirtiest log."""
        found = self.grab()
        result = self.clean(found)
        self.swap(found, result)
        return result


def put(log: UnifiedLog, key: bytes, value: bytes | None, **batch: object) -> int:
    """Appends one record below the high watermark; returns its offset."""
    info = log.append_as_leader(make_batch(value, key=key, **batch), 0)  # type: ignore[arg-type]
    log.update_high_watermark(log.log_end_offset)
    return info.first_offset


def contents(log: UnifiedLog) -> dict[int, tuple[bytes | None, bytes | None]]:
    """Offset: (key, value) of every record."""
    return {
        record.offset: (record.key, record.value)
        for batch in read_batches(log, log.log_start_offset)
        if not batch.is_control
        for record in batch.records()
    }


def last_values(log: UnifiedLog) -> dict[bytes | None, bytes | None]:
    """The last value of each key, as a replay of the log finds it, without the key ABORTED."""
    return {key: value for _, (key, value) in sorted(contents(log).items()) if key != ABORTED}

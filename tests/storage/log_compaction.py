"""Compaction as a step of `log_harness`: the records it removes, and whether it may."""

from random import Random
from typing import TYPE_CHECKING

from barnabas.storage.cleaner.cleaner import clean
from barnabas.storage.cleaner.log_to_clean import CleanerLimits, LogToClean, SegmentSurvey, cleaning_plan
from barnabas.storage.log.cleaning_plan import CleanedSegment, CleaningResult
from barnabas.storage.log.segment_swap import SwapPreparation, remove_cleaned
from tests.storage.log_checks import check_physical, decode
from tests.storage.log_model import LogModel

if TYPE_CHECKING:
    from tests.storage.log_harness import LogHarness

LIMITS = CleanerLimits(65_536, 0.9, 4096, float("inf"))


def compact(harness: "LogHarness", rng: Random) -> None:
    """One cleaning; sometimes interrupted by other operations, a kill or a crash."""
    harness.flush(rng)  # as a broker does soon after a roll
    found = grab(harness)
    if found is None:
        return
    harness.model.compacted_to = max(harness.model.compacted_to, harness.model.end)
    log, cleaner = harness.log, harness.cleaner
    result = run(harness, found)
    taken = {cleaned.base_offset: taken_away(harness, cleaned) for cleaned in result.segments}
    check_taken(harness.model, found, result, set().union(*taken.values()))
    if rng.random() < 0.3:
        for _ in range(rng.randint(1, 3)):
            rng.choice(
                (harness.append, harness.delete_records, harness.truncate, harness.roll, harness.flush)
            )(rng)
    for cleaned in result.segments:
        if ended(harness, rng):
            return
        swap = SwapPreparation(harness.env, log.directory, cleaned)
        if cleaner.is_aborted(found.key):
            break
        harness.model.compact(taken[cleaned.base_offset], happened=False)
        harness.report_state()
        swap.run()
        if ended(harness, rng):
            return
        if not log.replace_segments(cleaned):
            swap.cancel()
            break
        harness.model.compact(taken[cleaned.base_offset])
    else:
        cleaner.done_cleaning(found, result.next_first_dirty_offset)
        check_physical(log, harness.model)
        return
    remove_cleaned(harness.env, log.directory)
    cleaner.done_cleaning(found, None)
    check_physical(log, harness.model)


def ended(harness: "LogHarness", rng: Random) -> bool:
    """Sometimes kill or crash here, and restart."""
    if rng.random() < 0.9 or not harness.ends_within_steps:
        return False
    rng.choice((harness.kill, harness.crash))(rng)
    return True


def grab(harness: "LogHarness") -> LogToClean | None:
    """The log, if it has anything to compact, under any cleanup policy."""
    compacting = {"cleanup_policy": frozenset({"compact"}), "min_cleanable_dirty_ratio": 0.0}
    harness.log.update_config(harness.config._replace(**compacting))  # type: ignore[arg-type]
    found = harness.cleaner.grab_filthiest_log()
    harness.log.update_config(harness.config)
    return found


def run(harness: "LogHarness", found: LogToClean) -> CleaningResult:
    """Clean as the worker process does."""
    survey = SegmentSurvey(harness.env, found)
    survey.run()
    plan = cleaning_plan(found, survey.segments, LIMITS, harness.env.now_ms())
    return clean(harness.env, plan._replace(segment_bytes=4096))


def taken_away(harness: "LogHarness", cleaned: CleanedSegment) -> set[int]:
    """The offsets of the records that cleaning removed from a segment."""
    data = harness.env.read_file(f"{harness.log.directory}/{cleaned.base_offset:020d}.log.cleaned")
    kept = {record.offset for batch in decode(data) for record in batch.records()}
    later = (segment.base_offset for segment in harness.log.segments)
    end = min(base_offset for base_offset in later if base_offset > cleaned.replaces[-1])
    before = {offset for offset in harness.model.by_offset() if cleaned.base_offset <= offset < end}
    assert kept <= before
    return before - kept


def check_taken(model: LogModel, found: LogToClean, result: CleaningResult, taken: set[int]) -> None:
    """The last value of each key is kept, and no superseded one."""
    last = {
        record.key: record.offset
        for record in model.data(model.start, result.next_first_dirty_offset, committed_only=True).values()
    }
    ends = max((cleaned.replaces[-1] for cleaned in result.segments), default=-1)
    for offset, (batch, record) in model.by_offset().items():
        if offset not in model.present or batch.commit is not None or batch.outcome == "aborted":
            continue
        superseded = last.get(record.key, -1) > offset
        if offset in taken:
            assert superseded or record.key is None or record.value is None, f"offset {offset} is lost"
        elif (
            offset < ends
            and record.key is not None
            and last.get(record.key, -1) >= found.offsets.first_dirty_offset
        ):
            assert not superseded, f"offset {offset} is superseded and still there"

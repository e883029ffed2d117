"""LogCleanerManager: the log that is compacted next, and the logs that must not be."""

import errno
import logging

import pytest

from barnabas.storage.cleaner.log_to_clean import cleanable_offsets
from barnabas.storage.cleaner.manager import FIRST_RETRY_MS, LAST_RETRY_MS
from barnabas.storage.errors import KafkaStorageError
from barnabas.storage.log.segment_swap import SwapPreparation
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_dir import LogDir
from barnabas.storage.offsets import AppendOrigin, LogStartOffsetIncrementReason
from tests.storage.compacting import CompactionHarness, compacted_config, contents, last_values, put
from tests.storage.fault_env import Fault, FaultEnv
from tests.storage.helpers import T0, TOPIC_ID, end_txn, make_batch, names, small_config

MINUTE_MS = 60_000


@pytest.fixture
def env() -> FaultEnv:
    env = FaultEnv(seed=1)
    env.mkdir("/a")
    env.mkdir("/b")
    env.sync_dir("/")
    return env


@pytest.fixture
def harness(env: FaultEnv) -> CompactionHarness:
    """A log of segments 0, 5, 10, 15 and an active one at 20."""
    harness = CompactionHarness(env)
    harness.fill(22)
    return harness


def offsets(harness: CompactionHarness) -> tuple[int, int]:
    """First dirty and first uncleanable offset of what would be cleaned now."""
    found = harness.grab()
    harness.cleaner.done_cleaning(found, None)
    return found.offsets.first_dirty_offset, found.offsets.first_uncleanable_offset


def saved(env: FaultEnv) -> str:
    return env.read_file("/a/cleaner-offset-checkpoint").decode()


def other_log(harness: CompactionHarness, count: int, *, topic: str = "u") -> UnifiedLog:
    log = harness.manager.get_or_create_log(topic, 0, TOPIC_ID)
    for number in range(count):
        put(log, b"key %d" % number, bytes(100))
    return log


# -- the dirty part --


def test_the_active_segment_is_not_cleaned(harness: CompactionHarness) -> None:
    assert offsets(harness) == (0, 20)


def test_a_log_that_never_rolled_has_nothing_to_clean(env: FaultEnv) -> None:
    harness = CompactionHarness(env)
    harness.fill(3)
    assert harness.cleaner.grab_filthiest_log() is None
    assert harness.cleaner.dirtiest_ratio == 0


def test_a_log_without_records_has_nothing_to_clean(env: FaultEnv) -> None:
    assert CompactionHarness(env).cleaner.grab_filthiest_log() is None


def test_a_cleaning_begins_at_the_end_of_the_last_one(harness: CompactionHarness) -> None:
    harness.compact()
    harness.fill(10)
    assert offsets(harness) == (20, 30)


def test_an_open_transaction_ends_the_cleanable_part(env: FaultEnv) -> None:
    """Only whole segments are cleaned: its segment and those after it wait."""
    harness = CompactionHarness(env)
    harness.fill(12)
    harness.log.append_as_leader(make_batch(b"x", producer=(7, 0, 0), transactional=True), 0)
    harness.fill(10)
    assert harness.log.last_stable_offset == 12
    assert offsets(harness) == (0, 10)
    harness.log.append_as_leader(end_txn(7, 0, commit=True), 0, AppendOrigin.COORDINATOR)
    harness.log.update_high_watermark(harness.log.log_end_offset)
    assert offsets(harness) == (0, 20)


def test_records_above_the_high_watermark_are_not_cleaned(env: FaultEnv) -> None:
    harness = CompactionHarness(env)
    for number in range(22):
        harness.log.append_as_leader(make_batch(bytes(120), key=b"%d" % number), 0)
    harness.log.update_high_watermark(13)
    assert offsets(harness) == (0, 10)


def test_segments_younger_than_the_min_compaction_lag_are_not_cleaned(env: FaultEnv) -> None:
    """The youngest record of a segment decides."""
    harness = CompactionHarness(env, compacted_config(min_compaction_lag_ms=5 * MINUTE_MS))
    for minute in range(22):
        put(harness.log, b"key", bytes(110), timestamp=T0 + minute * MINUTE_MS)
    env.time_ms = T0 + 13 * MINUTE_MS
    assert offsets(harness) == (0, 5)
    env.time_ms = T0 + 15 * MINUTE_MS
    assert offsets(harness) == (0, 10)
    env.time_ms = T0 + MINUTE_MS
    assert harness.cleaner.grab_filthiest_log() is None


def test_the_log_start_bounds_the_dirty_part(harness: CompactionHarness) -> None:
    harness.log.maybe_increment_log_start_offset(7, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    assert offsets(harness) == (7, 20)


# -- invalid checkpoints --


def test_a_checkpoint_before_the_log_start_is_corrected(
    harness: CompactionHarness, env: FaultEnv, caplog: pytest.LogCaptureFixture
) -> None:
    harness.compact()
    harness.fill(10)
    harness.log.maybe_increment_log_start_offset(27, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    assert offsets(harness) == (27, 30)
    assert "before its log start offset 27" in caplog.text
    assert "t 0 27" in saved(env)


def test_a_checkpoint_before_the_log_start_is_normal_with_compact_and_delete(
    env: FaultEnv, caplog: pytest.LogCaptureFixture
) -> None:
    harness = CompactionHarness(env, compacted_config(cleanup_policy=frozenset({"compact", "delete"})))
    harness.fill(22)
    harness.compact()
    harness.fill(10)
    harness.log.maybe_increment_log_start_offset(27, LogStartOffsetIncrementReason.SEGMENT_DELETION)
    assert offsets(harness) == (27, 30)
    assert "before its log start" not in caplog.text


def test_a_checkpoint_beyond_the_end_is_corrected(
    harness: CompactionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    harness.manager.dirs[0].cleaner_offsets[harness.key] = 23
    assert offsets(harness) == (0, 20)
    assert "beyond its end 22" in caplog.text
    assert harness.checkpoint == 0


def test_a_checkpoint_within_the_active_segment_is_kept(harness: CompactionHarness) -> None:
    assert cleanable_offsets(harness.log, 21, T0) == (21, 21, False)
    harness.manager.dirs[0].cleaner_offsets[harness.key] = 21
    assert harness.cleaner.grab_filthiest_log() is None


def test_the_checkpoint_survives_a_restart(harness: CompactionHarness, env: FaultEnv) -> None:
    harness.compact()
    harness.log.flush()
    env.kill()
    again = CompactionHarness(env)
    assert again.checkpoint == 20
    again.fill(10)
    assert offsets(again) == (20, 30)


# -- which log --


def test_the_dirtiest_log_is_cleaned_first(harness: CompactionHarness) -> None:
    other = other_log(harness, 12)
    harness.compact()  # both are entirely dirty: either may be first
    harness.compact()
    harness.fill(5)
    for _ in range(20):
        put(other, b"key", bytes(120))
    assert harness.grab().log is other
    assert harness.cleaner.dirtiest_ratio > 0.5
    assert harness.grab().log is harness.log


def test_logs_within_the_min_cleanable_dirty_ratio_are_not_cleaned(env: FaultEnv) -> None:
    harness = CompactionHarness(env, compacted_config(min_cleanable_dirty_ratio=0.5))
    harness.group_bytes = 900  # no segments are merged
    for number in range(22):
        put(harness.log, b"unique %d" % number, bytes(120))
    harness.compact()
    ratios = [0.0]
    for number in range(60):
        if (found := harness.cleaner.grab_filthiest_log()) is not None:
            break
        ratios.append(harness.cleaner.dirtiest_ratio)
        put(harness.log, b"another %d" % number, bytes(120))
    assert found is not None
    assert found.cleanable_ratio > 0.5 >= max(ratios) > 0.3


def test_max_compaction_lag_has_priority_over_the_ratio(env: FaultEnv) -> None:
    config = compacted_config(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=10 * MINUTE_MS)
    harness = CompactionHarness(env, config)
    for number in range(12):
        put(harness.log, b"%d" % number, bytes(120), timestamp=T0 + number)
    env.time_ms = T0 + 10 * MINUTE_MS
    assert harness.cleaner.grab_filthiest_log() is None
    env.time_ms += 7
    found = harness.grab()
    assert found.compaction_delay_ms == 7
    assert harness.cleaner.pre_clean_stats == (1, 1, 7)


def test_max_compaction_lag_rolls_the_active_segment(env: FaultEnv) -> None:
    harness = CompactionHarness(
        env, compacted_config(max_compaction_lag_ms=MINUTE_MS, segment_ms=60 * MINUTE_MS)
    )
    put(harness.log, b"k", b"v", timestamp=T0)
    put(harness.log, b"k", b"v", timestamp=T0 + MINUTE_MS)
    assert harness.log.segment_count == 1
    put(harness.log, b"k", b"v", timestamp=T0 + MINUTE_MS + 1)
    assert harness.log.segment_count == 2


def test_logs_without_compaction_are_ignored(env: FaultEnv) -> None:
    harness = CompactionHarness(env, small_config(min_cleanable_dirty_ratio=0.0))
    harness.fill(22)
    assert harness.cleaner.grab_filthiest_log() is None


def test_a_changed_cleanup_policy_takes_effect(harness: CompactionHarness) -> None:
    """From compact to delete and back: the compacted part stays clean, the rest is dirty."""
    harness.compact()
    harness.manager.update_configs(lambda _: small_config())
    harness.fill(10)
    assert harness.cleaner.grab_filthiest_log() is None
    assert harness.cleaner.may_retain(harness.log)
    harness.manager.update_configs(lambda _: compacted_config())
    assert not harness.cleaner.may_retain(harness.log)
    assert offsets(harness) == (20, 30)


def test_a_cleaning_is_aborted_when_the_policy_no_longer_compacts(harness: CompactionHarness) -> None:
    found = harness.grab()
    harness.manager.update_configs(lambda _: compacted_config(retention_ms=1))
    assert not harness.cleaner.is_aborted(found.key)
    harness.manager.update_configs(lambda _: small_config())
    assert harness.cleaner.is_aborted(found.key)


def test_an_offline_log_is_not_cleaned(harness: CompactionHarness) -> None:
    harness.log.fail("a test says so")
    assert harness.cleaner.grab_filthiest_log() is None


def test_a_log_that_cannot_be_checked_is_uncleanable_and_others_continue(
    harness: CompactionHarness, env: FaultEnv, caplog: pytest.LogCaptureFixture
) -> None:
    other = other_log(harness, 12)
    forget_times(harness, env)
    env.inject(lambda _, kind, path: Fault() if kind == "open" and "/t-0/" in path else None)
    assert harness.grab().log is other
    assert harness.cleaner.is_uncleanable(harness.key)
    assert "cannot be checked" in caplog.text


def forget_times(harness: CompactionHarness, env: FaultEnv) -> None:
    """Makes the manager read the timestamps of the log's records from its segments."""
    lagging = compacted_config(min_compaction_lag_ms=1)
    harness.manager.update_configs(lambda log: lagging if log is harness.log else log.config)
    harness.log.release()
    for name in names(env, "/a/t-0"):
        if name.endswith("index"):
            env.remove(f"/a/t-0/{name}")
    harness.log.segments[0]._max_timestamp = None


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM])
def test_a_log_is_checked_again_later_after_a_transient_error(
    harness: CompactionHarness, env: FaultEnv, code: int
) -> None:
    forget_times(harness, env)
    env.inject(lambda _, kind, __: Fault(code) if kind == "open" else None)
    assert harness.cleaner.grab_filthiest_log() is None
    env.inject(None)
    assert harness.cleaner.grab_filthiest_log() is None, "not at once"
    env.time_ms += FIRST_RETRY_MS
    assert harness.grab().log is harness.log


# -- one at a time --


def test_a_log_is_cleaned_by_one_at_a_time(harness: CompactionHarness) -> None:
    found = harness.grab()
    assert harness.key in harness.cleaner._states
    assert harness.cleaner.grab_filthiest_log() is None
    harness.cleaner.done_cleaning(found, None)
    assert harness.key not in harness.cleaner._states
    assert harness.checkpoint is None
    assert harness.grab().log is harness.log


def test_an_aborted_cleaning_leaves_no_state(harness: CompactionHarness) -> None:
    found = harness.grab()
    stopped: list[str] = []
    harness.cleaner.on_abort(harness.key, lambda: stopped.append("now"))
    harness.cleaner.abort_cleaning(harness.key)
    harness.cleaner.abort_cleaning(harness.key)
    assert stopped == ["now"]
    assert harness.cleaner.is_aborted(harness.key)
    assert harness.cleaner.grab_filthiest_log() is None, "its worker may still be about"
    harness.cleaner.done_cleaning(found, 20)
    assert harness.checkpoint is None
    assert harness.grab().log is harness.log


def test_an_abort_without_a_cleaning_does_nothing(harness: CompactionHarness) -> None:
    harness.cleaner.abort_cleaning(harness.key)
    assert harness.key not in harness.cleaner._states


def test_pauses_are_counted(harness: CompactionHarness) -> None:
    found = harness.grab()
    harness.cleaner.abort_and_pause_cleaning(harness.key)
    harness.cleaner.abort_and_pause_cleaning(harness.key)
    harness.cleaner.done_cleaning(found, 20)
    assert harness.cleaner.grab_filthiest_log() is None
    harness.cleaner.resume_cleaning(harness.key)
    assert harness.cleaner.grab_filthiest_log() is None
    harness.cleaner.resume_cleaning(harness.key)
    assert harness.grab().log is harness.log
    with pytest.raises(AssertionError):
        harness.cleaner.resume_cleaning(harness.key)


def test_retention_of_a_paused_log_goes_on(harness: CompactionHarness) -> None:
    """Cleaning of a replica is paused while it moves to another log directory."""
    log = harness.log
    found = harness.grab()
    log.update_config(log.config._replace(cleanup_policy=frozenset({"delete"})))
    assert not harness.cleaner.may_retain(log)
    harness.cleaner.abort_and_pause_cleaning(harness.key)
    harness.cleaner.done_cleaning(found, None)
    assert harness.cleaner.may_retain(log)
    harness.cleaner.resume_cleaning(harness.key)
    assert harness.cleaner.may_retain(log)


# -- other operations on the log --


def swapping(harness: CompactionHarness, env: FaultEnv) -> None:
    """A cleaning whose result waits as .swap, and which an abort cancels."""
    found = harness.grab()
    result = harness.clean(found)
    swap = SwapPreparation(env, "/a/t-0", result.segments[0])
    harness.cleaner.on_abort(harness.key, swap.cancel)
    swap.run()


def no_swap(env: FaultEnv, directory: str = "/a/t-0") -> bool:
    return not [name for name in names(env, directory) if name.endswith(".swap")]


def test_truncation_aborts_a_cleaning(harness: CompactionHarness, env: FaultEnv) -> None:
    harness.log.flush()
    swapping(harness, env)
    assert not no_swap(env)
    harness.manager.truncate_to(harness.log, 12)
    assert harness.cleaner.is_aborted(harness.key)
    assert no_swap(env)
    env.crash()
    assert list(contents(CompactionHarness(env).log)) == list(range(12))


def test_truncation_of_the_active_segment_aborts_no_cleaning(harness: CompactionHarness) -> None:
    harness.grab()
    harness.manager.truncate_to(harness.log, 21)
    assert not harness.cleaner.is_aborted(harness.key)


def test_truncation_moves_the_checkpoint_back(harness: CompactionHarness, env: FaultEnv) -> None:
    """On disk before the next append, because records appended at those offsets were never compacted."""
    harness.compact()
    harness.fill(20)
    harness.compact()
    assert harness.checkpoint == 40
    harness.manager.truncate_to(harness.log, 30)
    active = harness.log.segments[-1].base_offset
    assert harness.checkpoint == active <= 30
    assert f"t 0 {active}" in saved(env)


def test_truncation_of_the_whole_log_aborts_a_cleaning(harness: CompactionHarness, env: FaultEnv) -> None:
    harness.compact()
    harness.fill(10)
    swapping(harness, env)
    harness.manager.truncate_fully_and_start_at(harness.log, 5)
    assert harness.cleaner.is_aborted(harness.key)
    assert harness.checkpoint == 5
    assert no_swap(env)


def test_deletion_aborts_a_cleaning_and_removes_the_checkpoint(
    harness: CompactionHarness, env: FaultEnv
) -> None:
    harness.compact()
    harness.fill(10)
    assert "t 0 20" in saved(env)
    found = harness.grab()
    harness.manager.delete_log("t", 0)
    assert harness.cleaner.is_aborted(harness.key)
    assert "t 0" not in saved(env)
    harness.cleaner.done_cleaning(found, 30)
    assert harness.checkpoint is None


def test_a_recreated_partition_waits_until_the_old_cleaning_has_ended(
    harness: CompactionHarness, env: FaultEnv
) -> None:
    found = harness.grab()
    harness.manager.delete_log("t", 0)
    harness.log = harness.manager.get_or_create_log("t", 0, TOPIC_ID)
    harness.fill(22)
    assert harness.cleaner.grab_filthiest_log() is None
    harness.cleaner.done_cleaning(found, 20)
    assert harness.checkpoint is None
    assert offsets(harness) == (0, 20)


def test_a_stale_checkpoint_is_removed_before_the_partition_is_recreated(env: FaultEnv) -> None:
    env.write_file("/a/cleaner-offset-checkpoint", b"0\n1\nt 0 15\n")
    harness = CompactionHarness(env)
    assert harness.checkpoint is None
    assert saved(env) == "0\n0\n"


def test_a_swap_that_cannot_be_reverted_stops_a_truncation(harness: CompactionHarness, env: FaultEnv) -> None:
    def stop() -> None:
        raise KafkaStorageError("no")

    harness.grab()
    harness.cleaner.on_abort(harness.key, stop)
    with pytest.raises(KafkaStorageError):
        harness.manager.truncate_to(harness.log, 3)
    assert harness.log.log_end_offset == 22


def no_way_back(harness: CompactionHarness) -> None:
    """A cleaning with a swap that cannot be reverted."""

    def stop() -> None:
        raise KafkaStorageError("the disk is gone")

    harness.grab()
    harness.cleaner.on_abort(harness.key, stop)


def test_a_swap_that_cannot_be_reverted_does_not_prevent_a_change_of_configuration(
    harness: CompactionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    other = other_log(harness, 3)
    no_way_back(harness)
    config = small_config(retention_ms=1)
    harness.manager.update_configs(lambda _: config, [harness.log, other])
    assert harness.log.config is other.config is config
    assert harness.cleaner.is_aborted(harness.key)
    assert "the disk is gone" in caplog.text


def test_a_swap_that_cannot_be_reverted_does_not_prevent_a_pause(harness: CompactionHarness) -> None:
    no_way_back(harness)
    harness.cleaner.abort_and_pause_cleaning(harness.key)
    assert harness.cleaner.is_aborted(harness.key)
    harness.cleaner.resume_cleaning(harness.key)
    assert harness.key in harness.cleaner._states, "as long as the cleaning has not ended"


# -- retention --


def expired(env: FaultEnv, policy: frozenset[str]) -> CompactionHarness:
    harness = CompactionHarness(env, compacted_config(cleanup_policy=policy, retention_ms=MINUTE_MS))
    harness.fill(22)
    env.time_ms += 2 * MINUTE_MS
    return harness


def test_the_cleaner_applies_retention_to_compacted_logs(env: FaultEnv) -> None:
    harness = expired(env, frozenset({"compact", "delete"}))
    assert harness.manager.cleanup_logs() == 0
    assert harness.cleaner.delete_old_segments() == 5
    assert harness.log.log_start_offset == 22


def test_without_the_cleaner_the_log_manager_applies_retention_to_all_logs(
    harness: CompactionHarness,
) -> None:
    assert not harness.cleaner.may_retain(harness.log)
    harness.cleaner.is_enabled = False
    assert harness.cleaner.may_retain(harness.log)
    found = harness.grab()
    assert not harness.cleaner.may_retain(harness.log), (
        "a cleaning that was called off may still read the segments"
    )
    harness.cleaner.done_cleaning(found, None)


def test_without_delete_only_segments_below_the_log_start_are_removed(env: FaultEnv) -> None:
    harness = expired(env, frozenset({"compact"}))
    assert harness.cleaner.delete_old_segments() == 0
    harness.log.maybe_increment_log_start_offset(11, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    assert harness.cleaner.delete_old_segments() == 2
    assert harness.log.segments[0].base_offset == 10


def test_retention_and_a_cleaning_wait_for_each_other(env: FaultEnv) -> None:
    harness = expired(env, frozenset({"compact", "delete"}))
    found = harness.grab()
    assert harness.cleaner.delete_old_segments() == 0
    harness.swap(found, harness.clean(found))
    assert harness.cleaner.delete_old_segments() > 0


def test_retention_after_a_change_of_policy_waits_for_the_cleaning(env: FaultEnv) -> None:
    harness = expired(env, frozenset({"compact"}))
    found = harness.grab()
    harness.manager.update_configs(lambda _: small_config(retention_ms=MINUTE_MS))
    assert harness.manager.cleanup_logs() == 0
    harness.cleaner.done_cleaning(found, None)
    assert harness.manager.cleanup_logs() == 5


def test_deleted_records_stay_deleted_when_a_cleaning_ends(harness: CompactionHarness) -> None:
    """DeleteRecords does not wait and aborts nothing."""
    found = harness.grab()
    result = harness.clean(found)
    harness.log.maybe_increment_log_start_offset(18, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    harness.swap(found, result)
    assert min(contents(harness.log)) >= 18
    assert harness.cleaner.delete_old_segments() == 0
    harness.fill(3)
    assert last_values(harness.log).keys() == {b"key 0", b"key 1", b"key 2", b"key 3"}


def test_a_disk_failure_in_retention_takes_the_directory_offline(
    harness: CompactionHarness, env: FaultEnv, caplog: pytest.LogCaptureFixture
) -> None:
    failed: list[str] = []
    harness.manager.on_log_dir_failed = failed.append
    harness.log.maybe_increment_log_start_offset(11, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    env.inject(lambda _, kind, __: Fault() if kind == "rename" else None)
    assert harness.cleaner.delete_old_segments() == 0
    assert failed == ["/a"], "as it does for a log that is not compacted"
    assert "retention" in caplog.text


# -- failures --


def test_a_failed_cleaning_is_retried_with_growing_pauses(harness: CompactionHarness, env: FaultEnv) -> None:
    delay_ms = FIRST_RETRY_MS
    for _ in range(12):
        found = harness.grab()
        assert harness.cleaner.failed(found) == delay_ms
        harness.cleaner.done_cleaning(found, None)
        env.time_ms += delay_ms - 1
        assert harness.cleaner.grab_filthiest_log() is None
        env.time_ms += 1
        delay_ms = min(2 * delay_ms, LAST_RETRY_MS)
    harness.compact()
    harness.fill(10)
    found = harness.grab()
    assert harness.cleaner.failed(found) == FIRST_RETRY_MS, "a success counts as a new beginning"


def test_an_uncleanable_log_is_not_retried(
    harness: CompactionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    found = harness.grab()
    harness.cleaner.mark_uncleanable(found.log, "a key without a door")
    harness.cleaner.done_cleaning(found, None)
    (directory,) = harness.manager.dirs
    assert harness.cleaner.grab_filthiest_log() is None
    assert harness.cleaner.delete_old_segments() == 0
    assert harness.cleaner.uncleanable_partitions(directory) == [harness.key]
    assert harness.cleaner.uncleanable_bytes(directory) == sum(
        segment.size for segment in harness.log.segments[:-1]
    )
    assert "a key without a door" in caplog.text
    harness.manager.delete_log("t", 0)
    assert harness.cleaner.uncleanable_partitions(directory) == []
    assert harness.cleaner.uncleanable_bytes(directory) == 0


def test_logs_of_a_failed_directory_are_not_cleaned(harness: CompactionHarness) -> None:
    harness.grab()
    harness.cleaner.handle_log_dir_failure("/a")
    assert harness.cleaner.is_aborted(harness.key)
    other_log(harness, 12)
    assert harness.cleaner.grab_filthiest_log() is None
    harness.cleaner.handle_log_dir_failure("/nowhere")


def test_a_failed_directory_may_fail_while_it_is_released(
    harness: CompactionHarness, caplog: pytest.LogCaptureFixture
) -> None:
    def stop() -> None:
        raise KafkaStorageError("the disk is gone")

    harness.grab()
    harness.cleaner.on_abort(harness.key, stop)
    with caplog.at_level(logging.WARNING):
        harness.cleaner.handle_log_dir_failure("/a")
    assert "the disk is gone" in caplog.text


def test_the_checkpoint_moves_with_its_partition(harness: CompactionHarness, env: FaultEnv) -> None:
    harness.compact()
    source, target = harness.manager.dirs[0], LogDir(env, "/b")
    harness.cleaner.mark_uncleanable(harness.log, "no reason")
    harness.cleaner.alter_checkpoint_dir(harness.key, source, target)
    assert (source.cleaner_offsets, target.cleaner_offsets) == ({}, {harness.key: 20})
    assert "t 0 20" in env.read_file("/b/cleaner-offset-checkpoint").decode()
    assert "t 0" not in saved(env)
    assert harness.cleaner.uncleanable_partitions(target) == [harness.key]
    harness.cleaner.alter_checkpoint_dir(("other", 1), source, target)


# -- on request --


def test_a_request_has_priority_over_the_ratio(env: FaultEnv) -> None:
    harness = CompactionHarness(env, compacted_config(min_cleanable_dirty_ratio=1.0))
    harness.fill(22)
    assert harness.cleaner.grab_filthiest_log() is None
    assert harness.cleaner.request(harness.log) == 22
    assert harness.cleaner.is_requested(harness.key)
    found = harness.grab()
    assert (found.offsets.first_dirty_offset, found.offsets.first_uncleanable_offset) == (0, 22)
    harness.swap(found, harness.clean(found))
    assert not harness.cleaner.is_requested(harness.key)
    assert list(contents(harness.log)) == [18, 19, 20, 21]


def test_a_request_has_priority_over_dirtier_logs(harness: CompactionHarness) -> None:
    harness.compact()
    other_log(harness, 30)
    harness.fill(5)
    harness.cleaner.request(harness.log)
    assert harness.grab().log is harness.log


def test_a_request_for_a_clean_log_cleans_all_of_it_again(harness: CompactionHarness) -> None:
    """This removes tombstones past their delete horizon."""
    harness.compact()
    harness.cleaner.request(harness.log)
    harness.compact()
    assert not harness.cleaner.is_requested(harness.key)
    assert harness.cleaner.grab_filthiest_log() is None
    harness.cleaner.request(harness.log)
    assert offsets(harness) == (0, 22)
    harness.compact()
    assert not harness.cleaner.is_requested(harness.key)
    assert harness.cleaner.grab_filthiest_log() is None


def test_a_request_for_an_empty_log_completes_at_once(env: FaultEnv) -> None:
    harness = CompactionHarness(env)
    harness.cleaner.request(harness.log)
    assert harness.cleaner.grab_filthiest_log() is None
    assert not harness.cleaner.is_requested(harness.key)


def test_a_request_completes_at_an_open_transaction(env: FaultEnv) -> None:
    harness = CompactionHarness(env)
    harness.fill(12)
    harness.log.append_as_leader(make_batch(b"x", producer=(7, 0, 0), transactional=True), 0)
    harness.fill(5)
    harness.cleaner.request(harness.log)
    harness.compact()
    assert harness.checkpoint == 10
    assert not harness.cleaner.is_requested(harness.key)


def test_a_request_retries_an_uncleanable_log(harness: CompactionHarness) -> None:
    found = harness.grab()
    harness.cleaner.mark_uncleanable(harness.log, "no reason")
    harness.cleaner.done_cleaning(found, None)
    harness.cleaner.request(harness.log)
    found = harness.grab()
    harness.cleaner.failed(found)
    harness.cleaner.done_cleaning(found, None)
    assert not harness.cleaner.is_requested(harness.key), "it is not tried for ever"
    harness.cleaner.request(harness.log)
    harness.compact()


def test_the_next_cleaning_completes_a_request_made_during_one(harness: CompactionHarness) -> None:
    found = harness.grab()
    harness.cleaner.request(harness.log)
    harness.swap(found, harness.clean(found))
    assert harness.checkpoint == 20
    assert harness.cleaner.is_requested(harness.key)
    harness.compact()
    assert harness.checkpoint == 22
    assert not harness.cleaner.is_requested(harness.key)

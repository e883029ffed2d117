"""Which log is compacted next, and which must be left alone."""

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
from tests.storage.compacting import Compacted, compacted, contents, last_values, put
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
def house(env: FaultEnv) -> Compacted:
    """A log of segments 0, 5, 10, 15 and an active one at 20."""
    house = Compacted(env)
    house.fill(22)
    return house


def offsets(house: Compacted) -> tuple[int, int]:
    """First dirty and first uncleanable offset of what would be cleaned now."""
    found = house.grab()
    house.cleaner.done_cleaning(found, None)
    return found.offsets.first_dirty_offset, found.offsets.first_uncleanable_offset


def saved(env: FaultEnv) -> str:
    return env.read_file("/a/cleaner-offset-checkpoint").decode()


def other_log(house: Compacted, count: int, *, topic: str = "u") -> UnifiedLog:
    log = house.manager.get_or_create_log(topic, 0, TOPIC_ID)
    for number in range(count):
        put(log, b"key %d" % number, bytes(100))
    return log


# -- what may be cleaned --


def test_the_active_segment_is_left_out(house: Compacted) -> None:
    assert offsets(house) == (0, 20)


def test_a_log_that_never_rolled_has_nothing_to_clean(env: FaultEnv) -> None:
    house = Compacted(env)
    house.fill(3)
    assert house.cleaner.grab_filthiest_log() is None
    assert house.cleaner.dirtiest_ratio == 0


def test_a_log_without_records_neither(env: FaultEnv) -> None:
    assert Compacted(env).cleaner.grab_filthiest_log() is None


def test_cleaning_begins_where_the_last_one_ended(house: Compacted) -> None:
    house.compact()
    house.fill(10)
    assert offsets(house) == (20, 30)


def test_a_transaction_that_is_open_ends_it(env: FaultEnv) -> None:
    """Its segment and those after it wait: whole segments only."""
    house = Compacted(env)
    house.fill(12)
    house.log.append_as_leader(make_batch(b"x", producer=(7, 0, 0), transactional=True), 0)
    house.fill(10)
    assert house.log.last_stable_offset == 12
    assert offsets(house) == (0, 10)
    house.log.append_as_leader(end_txn(7, 0, commit=True), 0, AppendOrigin.COORDINATOR)
    house.log.update_high_watermark(house.log.log_end_offset)
    assert offsets(house) == (0, 20)


def test_what_is_not_replicated_is_not_cleaned(env: FaultEnv) -> None:
    house = Compacted(env)
    for number in range(22):
        house.log.append_as_leader(make_batch(bytes(120), key=b"%d" % number), 0)
    house.log.update_high_watermark(13)
    assert offsets(house) == (0, 10)


def test_min_compaction_lag(env: FaultEnv) -> None:
    """Counted by the youngest record of a segment."""
    house = Compacted(env, compacted(min_compaction_lag_ms=5 * MINUTE_MS))
    for minute in range(22):
        put(house.log, b"key", bytes(110), timestamp=T0 + minute * MINUTE_MS)
    env.time_ms = T0 + 13 * MINUTE_MS
    assert offsets(house) == (0, 5)
    env.time_ms = T0 + 15 * MINUTE_MS
    assert offsets(house) == (0, 10)
    env.time_ms = T0 + MINUTE_MS
    assert house.cleaner.grab_filthiest_log() is None


def test_the_log_start_bounds_the_dirty_part(house: Compacted) -> None:
    house.log.maybe_increment_log_start_offset(7, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    assert offsets(house) == (7, 20)


# -- checkpoints that cannot be --


def test_a_checkpoint_before_the_log_start_is_put_right(
    house: Compacted, env: FaultEnv, caplog: pytest.LogCaptureFixture
) -> None:
    house.compact()
    house.fill(10)
    house.log.maybe_increment_log_start_offset(27, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    assert offsets(house) == (27, 30)
    assert "before its log start offset 27" in caplog.text
    assert "t 0 27" in saved(env)


def test_with_compact_and_delete_that_happens_all_the_time(
    env: FaultEnv, caplog: pytest.LogCaptureFixture
) -> None:
    house = Compacted(env, compacted(cleanup_policy=frozenset({"compact", "delete"})))
    house.fill(22)
    house.compact()
    house.fill(10)
    house.log.maybe_increment_log_start_offset(27, LogStartOffsetIncrementReason.SEGMENT_DELETION)
    assert offsets(house) == (27, 30)
    assert "before its log start" not in caplog.text


def test_a_checkpoint_beyond_the_end_is_put_right(house: Compacted, caplog: pytest.LogCaptureFixture) -> None:
    house.manager.dirs[0].cleaner_offsets[house.key] = 23
    assert offsets(house) == (0, 20)
    assert "beyond its end 22" in caplog.text
    assert house.checkpoint == 0


def test_a_checkpoint_within_the_active_segment_stands(house: Compacted) -> None:
    assert cleanable_offsets(house.log, 21, T0) == (21, 21, False)
    house.manager.dirs[0].cleaner_offsets[house.key] = 21
    assert house.cleaner.grab_filthiest_log() is None


def test_it_survives_a_restart(house: Compacted, env: FaultEnv) -> None:
    house.compact()
    house.log.flush()
    env.kill()
    again = Compacted(env)
    assert again.checkpoint == 20
    again.fill(10)
    assert offsets(again) == (20, 30)


# -- which log --


def test_the_dirtiest_first(house: Compacted) -> None:
    other = other_log(house, 12)
    house.compact()  # both are all dirty: the one or the other
    house.compact()
    house.fill(5)
    for _ in range(20):
        put(other, b"key", bytes(120))
    assert house.grab().log is other
    assert house.cleaner.dirtiest_ratio > 0.5
    assert house.grab().log is house.log


def test_min_cleanable_dirty_ratio_has_to_be_exceeded(env: FaultEnv) -> None:
    house = Compacted(env, compacted(min_cleanable_dirty_ratio=0.5))
    house.group_bytes = 900  # nothing is merged
    for number in range(22):
        put(house.log, b"unique %d" % number, bytes(120))
    house.compact()
    ratios = [0.0]
    for number in range(60):
        if (found := house.cleaner.grab_filthiest_log()) is not None:
            break
        ratios.append(house.cleaner.dirtiest_ratio)
        put(house.log, b"another %d" % number, bytes(120))
    assert found is not None
    assert found.cleanable_ratio > 0.5 >= max(ratios) > 0.3


def test_max_compaction_lag_goes_before_the_ratio(env: FaultEnv) -> None:
    config = compacted(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=10 * MINUTE_MS)
    house = Compacted(env, config)
    for number in range(12):
        put(house.log, b"%d" % number, bytes(120), timestamp=T0 + number)
    env.time_ms = T0 + 10 * MINUTE_MS
    assert house.cleaner.grab_filthiest_log() is None
    env.time_ms += 7
    found = house.grab()
    assert found.compaction_delay_ms == 7
    assert house.cleaner.pre_clean_stats == (1, 1, 7)


def test_max_compaction_lag_closes_segments_in_time(env: FaultEnv) -> None:
    house = Compacted(env, compacted(max_compaction_lag_ms=MINUTE_MS, segment_ms=60 * MINUTE_MS))
    put(house.log, b"k", b"v", timestamp=T0)
    put(house.log, b"k", b"v", timestamp=T0 + MINUTE_MS)
    assert house.log.segment_count == 1
    put(house.log, b"k", b"v", timestamp=T0 + MINUTE_MS + 1)
    assert house.log.segment_count == 2


def test_logs_that_are_not_compacted_are_no_matter(env: FaultEnv) -> None:
    house = Compacted(env, small_config(min_cleanable_dirty_ratio=0.0))
    house.fill(22)
    assert house.cleaner.grab_filthiest_log() is None


def test_a_change_of_policy_takes_effect(house: Compacted) -> None:
    """From compact to delete and back: what was compacted stays so, the rest is dirty."""
    house.compact()
    house.manager.update_configs(lambda _: small_config())
    house.fill(10)
    assert house.cleaner.grab_filthiest_log() is None
    assert house.cleaner.may_retain(house.log)
    house.manager.update_configs(lambda _: compacted())
    assert not house.cleaner.may_retain(house.log)
    assert offsets(house) == (20, 30)


def test_a_cleaning_ends_when_the_log_is_not_to_be_compacted_any_more(house: Compacted) -> None:
    found = house.grab()
    house.manager.update_configs(lambda _: compacted(retention_ms=1))
    assert not house.cleaner.is_aborted(found.key)
    house.manager.update_configs(lambda _: small_config())
    assert house.cleaner.is_aborted(found.key)


def test_a_log_that_is_offline_is_left_out(house: Compacted) -> None:
    house.log.fail("a test says so")
    assert house.cleaner.grab_filthiest_log() is None


def test_a_log_that_cannot_be_checked_is_uncleanable_and_others_continue(
    house: Compacted, env: FaultEnv, caplog: pytest.LogCaptureFixture
) -> None:
    other = other_log(house, 12)
    forget_times(house, env)
    env.inject(lambda _, kind, path: Fault() if kind == "open" and "/t-0/" in path else None)
    assert house.grab().log is other
    assert house.cleaner.is_uncleanable(house.key)
    assert "cannot be checked" in caplog.text


def forget_times(house: Compacted, env: FaultEnv) -> None:
    """Has the times of the log's records asked for, and nothing but its segments to read them from."""
    lagging = compacted(min_compaction_lag_ms=1)
    house.manager.update_configs(lambda log: lagging if log is house.log else log.config)
    house.log.release()
    for name in names(env, "/a/t-0"):
        if name.endswith("index"):
            env.remove(f"/a/t-0/{name}")
    house.log.segments[0]._max_timestamp = None


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENOMEM])
def test_a_log_is_checked_again_later_after_a_transient_error(
    house: Compacted, env: FaultEnv, code: int
) -> None:
    forget_times(house, env)
    env.inject(lambda _, kind, __: Fault(code) if kind == "open" else None)
    assert house.cleaner.grab_filthiest_log() is None
    env.inject(None)
    assert house.cleaner.grab_filthiest_log() is None, "not at once"
    env.time_ms += FIRST_RETRY_MS
    assert house.grab().log is house.log


# -- one at a time --


def test_a_log_is_cleaned_by_one_at_a_time(house: Compacted) -> None:
    found = house.grab()
    assert house.key in house.cleaner._states
    assert house.cleaner.grab_filthiest_log() is None
    house.cleaner.done_cleaning(found, None)
    assert house.key not in house.cleaner._states
    assert house.checkpoint is None
    assert house.grab().log is house.log


def test_what_is_aborted_leaves_no_trace(house: Compacted) -> None:
    found = house.grab()
    stopped: list[str] = []
    house.cleaner.on_abort(house.key, lambda: stopped.append("now"))
    house.cleaner.abort_cleaning(house.key)
    house.cleaner.abort_cleaning(house.key)
    assert stopped == ["now"]
    assert house.cleaner.is_aborted(house.key)
    assert house.cleaner.grab_filthiest_log() is None, "its worker may still be about"
    house.cleaner.done_cleaning(found, 20)
    assert house.checkpoint is None
    assert house.grab().log is house.log


def test_nothing_to_abort(house: Compacted) -> None:
    house.cleaner.abort_cleaning(house.key)
    assert house.key not in house.cleaner._states


def test_pauses_are_counted(house: Compacted) -> None:
    found = house.grab()
    house.cleaner.abort_and_pause_cleaning(house.key)
    house.cleaner.abort_and_pause_cleaning(house.key)
    house.cleaner.done_cleaning(found, 20)
    assert house.cleaner.grab_filthiest_log() is None
    house.cleaner.resume_cleaning(house.key)
    assert house.cleaner.grab_filthiest_log() is None
    house.cleaner.resume_cleaning(house.key)
    assert house.grab().log is house.log
    with pytest.raises(AssertionError):
        house.cleaner.resume_cleaning(house.key)


def test_retention_goes_on_while_a_log_is_paused(house: Compacted) -> None:
    """A replica that moves to another log directory is paused for as long as that takes."""
    log = house.log
    found = house.grab()
    log.update_config(log.config._replace(cleanup_policy=frozenset({"delete"})))
    assert not house.cleaner.may_retain(log)
    house.cleaner.abort_and_pause_cleaning(house.key)
    house.cleaner.done_cleaning(found, None)
    assert house.cleaner.may_retain(log)
    house.cleaner.resume_cleaning(house.key)
    assert house.cleaner.may_retain(log)


# -- with what else happens to a log --


def swapping(house: Compacted, env: FaultEnv) -> None:
    """A cleaning whose result waits as .swap; it ends by the book when it is aborted."""
    found = house.grab()
    result = house.clean(found)
    swap = SwapPreparation(env, "/a/t-0", result.segments[0])
    house.cleaner.on_abort(house.key, swap.cancel)
    swap.run()


def no_swap(env: FaultEnv, directory: str = "/a/t-0") -> bool:
    return not [name for name in names(env, directory) if name.endswith(".swap")]


def test_truncation_calls_a_cleaning_off(house: Compacted, env: FaultEnv) -> None:
    house.log.flush()
    swapping(house, env)
    assert not no_swap(env)
    house.manager.truncate_to(house.log, 12)
    assert house.cleaner.is_aborted(house.key)
    assert no_swap(env)
    env.crash()
    assert list(contents(Compacted(env).log)) == list(range(12))


def test_truncation_of_the_active_segment_does_not(house: Compacted) -> None:
    house.grab()
    house.manager.truncate_to(house.log, 21)
    assert not house.cleaner.is_aborted(house.key)


def test_truncation_takes_the_checkpoint_back(house: Compacted, env: FaultEnv) -> None:
    """On disk before anything is appended: what comes at those offsets then was never compacted."""
    house.compact()
    house.fill(20)
    house.compact()
    assert house.checkpoint == 40
    house.manager.truncate_to(house.log, 30)
    active = house.log.segments[-1].base_offset
    assert house.checkpoint == active <= 30
    assert f"t 0 {active}" in saved(env)


def test_truncation_of_everything(house: Compacted, env: FaultEnv) -> None:
    house.compact()
    house.fill(10)
    swapping(house, env)
    house.manager.truncate_fully_and_start_at(house.log, 5)
    assert house.cleaner.is_aborted(house.key)
    assert house.checkpoint == 5
    assert no_swap(env)


def test_deletion_calls_a_cleaning_off_and_takes_the_checkpoint_away(house: Compacted, env: FaultEnv) -> None:
    house.compact()
    house.fill(10)
    assert "t 0 20" in saved(env)
    found = house.grab()
    house.manager.delete_log("t", 0)
    assert house.cleaner.is_aborted(house.key)
    assert "t 0" not in saved(env)
    house.cleaner.done_cleaning(found, 30)
    assert house.checkpoint is None


def test_a_partition_that_comes_back_waits_until_the_old_cleaning_has_ended(
    house: Compacted, env: FaultEnv
) -> None:
    found = house.grab()
    house.manager.delete_log("t", 0)
    house.log = house.manager.get_or_create_log("t", 0, TOPIC_ID)
    house.fill(22)
    assert house.cleaner.grab_filthiest_log() is None
    house.cleaner.done_cleaning(found, 20)
    assert house.checkpoint is None
    assert offsets(house) == (0, 20)


def test_a_stale_checkpoint_is_gone_before_the_partition_is_made_anew(env: FaultEnv) -> None:
    env.write_file("/a/cleaner-offset-checkpoint", b"0\n1\nt 0 15\n")
    house = Compacted(env)
    assert house.checkpoint is None
    assert saved(env) == "0\n0\n"


def test_a_swap_that_cannot_be_taken_back_stops_a_truncation(house: Compacted, env: FaultEnv) -> None:
    def stop() -> None:
        raise KafkaStorageError("no")

    house.grab()
    house.cleaner.on_abort(house.key, stop)
    with pytest.raises(KafkaStorageError):
        house.manager.truncate_to(house.log, 3)
    assert house.log.log_end_offset == 22


def no_way_back(house: Compacted) -> None:
    """A cleaning with a swap that cannot be taken back."""

    def stop() -> None:
        raise KafkaStorageError("the disk is gone")

    house.grab()
    house.cleaner.on_abort(house.key, stop)


def test_a_swap_that_cannot_be_taken_back_keeps_no_log_from_its_configuration(
    house: Compacted, caplog: pytest.LogCaptureFixture
) -> None:
    other = other_log(house, 3)
    no_way_back(house)
    config = small_config(retention_ms=1)
    house.manager.update_configs(lambda _: config, [house.log, other])
    assert house.log.config is other.config is config
    assert house.cleaner.is_aborted(house.key)
    assert "the disk is gone" in caplog.text


def test_a_swap_that_cannot_be_reverted_does_not_prevent_a_pause(house: Compacted) -> None:
    no_way_back(house)
    house.cleaner.abort_and_pause_cleaning(house.key)
    assert house.cleaner.is_aborted(house.key)
    house.cleaner.resume_cleaning(house.key)
    assert house.key in house.cleaner._states, "as long as the cleaning has not ended"


# -- retention --


def expired(env: FaultEnv, policy: frozenset[str]) -> Compacted:
    house = Compacted(env, compacted(cleanup_policy=policy, retention_ms=MINUTE_MS))
    house.fill(22)
    env.time_ms += 2 * MINUTE_MS
    return house


def test_the_cleaner_sees_to_the_retention_of_compacted_logs(env: FaultEnv) -> None:
    house = expired(env, frozenset({"compact", "delete"}))
    assert house.manager.cleanup_logs() == 0
    assert house.cleaner.delete_old_segments() == 5
    assert house.log.log_start_offset == 22


def test_without_compaction_the_log_manager_has_the_retention_of_all_logs(house: Compacted) -> None:
    assert not house.cleaner.may_retain(house.log)
    house.cleaner.is_enabled = False
    assert house.cleaner.may_retain(house.log)
    found = house.grab()
    assert not house.cleaner.may_retain(house.log), (
        "a cleaning that was called off may still read the segments"
    )
    house.cleaner.done_cleaning(found, None)


def test_without_delete_only_what_is_below_the_log_start_goes(env: FaultEnv) -> None:
    house = expired(env, frozenset({"compact"}))
    assert house.cleaner.delete_old_segments() == 0
    house.log.maybe_increment_log_start_offset(11, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    assert house.cleaner.delete_old_segments() == 2
    assert house.log.segments[0].base_offset == 10


def test_retention_waits_for_a_cleaning_and_the_other_way_round(env: FaultEnv) -> None:
    house = expired(env, frozenset({"compact", "delete"}))
    found = house.grab()
    assert house.cleaner.delete_old_segments() == 0
    house.swap(found, house.clean(found))
    assert house.cleaner.delete_old_segments() > 0


def test_retention_of_a_log_whose_policy_changed_waits_too(env: FaultEnv) -> None:
    house = expired(env, frozenset({"compact"}))
    found = house.grab()
    house.manager.update_configs(lambda _: small_config(retention_ms=MINUTE_MS))
    assert house.manager.cleanup_logs() == 0
    house.cleaner.done_cleaning(found, None)
    assert house.manager.cleanup_logs() == 5


def test_deleted_records_stay_deleted_when_a_cleaning_ends(house: Compacted) -> None:
    """DeleteRecords does not wait and calls nothing off."""
    found = house.grab()
    result = house.clean(found)
    house.log.maybe_increment_log_start_offset(18, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    house.swap(found, result)
    assert min(contents(house.log)) >= 18
    assert house.cleaner.delete_old_segments() == 0
    house.fill(3)
    assert last_values(house.log).keys() == {b"key 0", b"key 1", b"key 2", b"key 3"}


def test_a_disk_that_fails_in_retention_takes_the_directory_offline(
    house: Compacted, env: FaultEnv, caplog: pytest.LogCaptureFixture
) -> None:
    failed: list[str] = []
    house.manager.on_log_dir_failed = failed.append
    house.log.maybe_increment_log_start_offset(11, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    env.inject(lambda _, kind, __: Fault() if kind == "rename" else None)
    assert house.cleaner.delete_old_segments() == 0
    assert failed == ["/a"], "as it does for a log that is not compacted"
    assert "retention" in caplog.text


# -- failures --


def test_what_failed_is_tried_again_less_and_less_often(house: Compacted, env: FaultEnv) -> None:
    delay_ms = FIRST_RETRY_MS
    for _ in range(12):
        found = house.grab()
        assert house.cleaner.failed(found) == delay_ms
        house.cleaner.done_cleaning(found, None)
        env.time_ms += delay_ms - 1
        assert house.cleaner.grab_filthiest_log() is None
        env.time_ms += 1
        delay_ms = min(2 * delay_ms, LAST_RETRY_MS)
    house.compact()
    house.fill(10)
    found = house.grab()
    assert house.cleaner.failed(found) == FIRST_RETRY_MS, "a success counts as a new beginning"


def test_what_cannot_be_cleaned_is_left_alone(house: Compacted, caplog: pytest.LogCaptureFixture) -> None:
    found = house.grab()
    house.cleaner.mark_uncleanable(found.log, "a key without a door")
    house.cleaner.done_cleaning(found, None)
    (directory,) = house.manager.dirs
    assert house.cleaner.grab_filthiest_log() is None
    assert house.cleaner.delete_old_segments() == 0
    assert house.cleaner.uncleanable_partitions(directory) == [house.key]
    assert house.cleaner.uncleanable_bytes(directory) == sum(
        segment.size for segment in house.log.segments[:-1]
    )
    assert "a key without a door" in caplog.text
    house.manager.delete_log("t", 0)
    assert house.cleaner.uncleanable_partitions(directory) == []
    assert house.cleaner.uncleanable_bytes(directory) == 0


def test_a_failed_directory_is_left_alone(house: Compacted) -> None:
    house.grab()
    house.cleaner.handle_log_dir_failure("/a")
    assert house.cleaner.is_aborted(house.key)
    other_log(house, 12)
    assert house.cleaner.grab_filthiest_log() is None
    house.cleaner.handle_log_dir_failure("/nowhere")


def test_a_failed_directory_may_fail_while_it_is_released(
    house: Compacted, caplog: pytest.LogCaptureFixture
) -> None:
    def stop() -> None:
        raise KafkaStorageError("the disk is gone")

    house.grab()
    house.cleaner.on_abort(house.key, stop)
    with caplog.at_level(logging.WARNING):
        house.cleaner.handle_log_dir_failure("/a")
    assert "the disk is gone" in caplog.text


def test_a_partition_that_moves_takes_its_checkpoint_along(house: Compacted, env: FaultEnv) -> None:
    house.compact()
    source, target = house.manager.dirs[0], LogDir(env, "/b")
    house.cleaner.mark_uncleanable(house.log, "no reason")
    house.cleaner.alter_checkpoint_dir(house.key, source, target)
    assert (source.cleaner_offsets, target.cleaner_offsets) == ({}, {house.key: 20})
    assert "t 0 20" in env.read_file("/b/cleaner-offset-checkpoint").decode()
    assert "t 0" not in saved(env)
    assert house.cleaner.uncleanable_partitions(target) == [house.key]
    house.cleaner.alter_checkpoint_dir(("other", 1), source, target)


# -- on request --


def test_a_request_goes_before_the_ratio(env: FaultEnv) -> None:
    house = Compacted(env, compacted(min_cleanable_dirty_ratio=1.0))
    house.fill(22)
    assert house.cleaner.grab_filthiest_log() is None
    assert house.cleaner.request(house.log) == 22
    assert house.cleaner.is_requested(house.key)
    found = house.grab()
    assert (found.offsets.first_dirty_offset, found.offsets.first_uncleanable_offset) == (0, 22)
    house.swap(found, house.clean(found))
    assert not house.cleaner.is_requested(house.key)
    assert list(contents(house.log)) == [18, 19, 20, 21]


def test_a_request_goes_before_dirtier_logs(house: Compacted) -> None:
    house.compact()
    other_log(house, 30)
    house.fill(5)
    house.cleaner.request(house.log)
    assert house.grab().log is house.log


def test_a_request_with_nothing_new_cleans_everything_once_more(house: Compacted) -> None:
    """So tombstones go whose time is over."""
    house.compact()
    house.cleaner.request(house.log)
    house.compact()
    assert not house.cleaner.is_requested(house.key)
    assert house.cleaner.grab_filthiest_log() is None
    house.cleaner.request(house.log)
    assert offsets(house) == (0, 22)
    house.compact()
    assert not house.cleaner.is_requested(house.key)
    assert house.cleaner.grab_filthiest_log() is None


def test_a_request_for_an_empty_log_is_met_at_once(env: FaultEnv) -> None:
    house = Compacted(env)
    house.cleaner.request(house.log)
    assert house.cleaner.grab_filthiest_log() is None
    assert not house.cleaner.is_requested(house.key)


def test_a_request_is_met_as_far_as_an_open_transaction_allows(env: FaultEnv) -> None:
    house = Compacted(env)
    house.fill(12)
    house.log.append_as_leader(make_batch(b"x", producer=(7, 0, 0), transactional=True), 0)
    house.fill(5)
    house.cleaner.request(house.log)
    house.compact()
    assert house.checkpoint == 10
    assert not house.cleaner.is_requested(house.key)


def test_a_request_gives_another_chance(house: Compacted) -> None:
    found = house.grab()
    house.cleaner.mark_uncleanable(house.log, "no reason")
    house.cleaner.done_cleaning(found, None)
    house.cleaner.request(house.log)
    found = house.grab()
    house.cleaner.failed(found)
    house.cleaner.done_cleaning(found, None)
    assert not house.cleaner.is_requested(house.key), "it is not tried for ever"
    house.cleaner.request(house.log)
    house.compact()


def test_a_request_during_a_cleaning_is_met_by_the_next(house: Compacted) -> None:
    found = house.grab()
    house.cleaner.request(house.log)
    house.swap(found, house.clean(found))
    assert house.checkpoint == 20
    assert house.cleaner.is_requested(house.key)
    house.compact()
    assert house.checkpoint == 22
    assert not house.cleaner.is_requested(house.key)

"""Loading: no scan after a clean stop; after any other the log is truncated at the first damage."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from barnabas.storage.log.producer_snapshots import ProducerSnapshotFiles
from barnabas.storage.offsets import AppendOrigin, LogStartOffsetIncrementReason
from tests.storage.fault_env import Fault, FaultEnv
from tests.storage.helpers import (
    DIRECTORY,
    append,
    end_txn,
    fill,
    make_batch,
    names,
    new_log,
    read_values,
    small_config,
)
from tests.storage.segment.test_scan import old_message


def path(base_offset: int, suffix: str = "log") -> str:
    return f"{DIRECTORY}/{base_offset:020d}.{suffix}"


@pytest.fixture
def env() -> FaultEnv:
    return FaultEnv()


def stopped(env: FaultEnv, count: int = 12) -> int:
    """A log of three segments (0, 5, 10), stopped cleanly; its end."""
    log = new_log(env)
    fill(log, count)
    log.flush()
    log.close()
    env.kill()
    return log.log_end_offset


def killed(env: FaultEnv, count: int = 12) -> int:
    log = new_log(env)
    fill(log, count)
    env.kill()
    return log.log_end_offset


# -- after a clean stop --


def test_after_a_clean_stop_batches_are_not_read(env: FaultEnv) -> None:
    end = stopped(env)
    content = bytearray(env.read_file(path(0)))
    content[100] ^= 1  # damage that no check looks for
    env.write_file(path(0), bytes(content))
    log = new_log(env, is_clean=True)
    assert (log.log_end_offset, log.recovery_point, log.truncated_bytes) == (end, end, 0)
    assert log.size > 0


def test_a_false_clean_stop_is_detected_at_the_log_end(env: FaultEnv) -> None:
    """The last segment does not end with a batch: the marker file was put there by hand, or the files copied badly."""
    stopped(env)
    env.write_file(path(10), env.read_file(path(10))[:-3])
    log = new_log(env, is_clean=True)
    assert (log.log_end_offset, log.truncated_bytes) == (11, 188)
    assert append(log, b"x") == 11


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_missing_index_is_rebuilt(env: FaultEnv, suffix: str) -> None:
    stopped(env)
    wanted = env.read_file(path(5, suffix))
    env.remove(path(5, suffix))
    log = new_log(env, is_clean=True)
    assert env.read_file(path(5, suffix)) == wanted
    assert len(read_values(log)) == 12


# -- after an unclean stop --


@pytest.mark.parametrize(
    ("segment", "position", "damage", "end"),
    [
        (10, 250, b"\xff", 11),  # a flipped byte in the second batch of the last segment
        (10, 17, b"\0\0\0\0", 10),  # the CRC of its first
        (5, 400, b"zap", 7),  # within an earlier segment: the later ones are removed
        (0, 0, b"\0" * 200, 0),  # everything
        (5, 8, b"\x7f\xff\xff\xff", 5),  # a length beyond the file
        (5, 8, b"\xff\xff\xff\xff", 5),  # a negative one
        (5, 8, b"\0\0\0\x01", 5),  # one that is too small
        (5, 16, b"\x09", 5),  # a format that does not exist
        (5, 0, b"\0" * 8, 5),  # an offset below the previous one
        (10, 191, (1 << 40).to_bytes(8, "big"), 11),  # an offset out of reach of the index
    ],
)
def test_the_log_is_truncated_at_the_first_damage(
    env: FaultEnv, segment: int, position: int, damage: bytes, end: int
) -> None:
    killed(env)
    content = bytearray(env.read_file(path(segment)))
    content[position : position + len(damage)] = damage
    env.write_file(path(segment), bytes(content))
    log = new_log(env)
    assert log.log_end_offset == end
    assert list(read_values(log)) == list(range(end))
    assert log.truncated_bytes > 0
    assert max((int(name[:20]) for name in names(env) if name.endswith(".log")), default=0) <= end
    fill(log, 6)
    assert len(read_values(log)) == end + 6


@settings(max_examples=80)
@given(st.integers(0, 2290), st.binary(min_size=1, max_size=8))
def test_any_damage_leaves_only_records_that_were_written(position: int, damage: bytes) -> None:
    """The log has the records before the damage, and no others.

    The format cannot show all damage: base offset and leader epoch are outside of the checksum, and gaps between
    offsets may come from compaction.
    """
    env = FaultEnv()
    log = new_log(env)
    fill(log, 12)
    written = read_values(log)
    env.kill()
    bases = [0, 5, 10]
    whole = b"".join(env.read_file(path(base)) for base in bases)
    position = min(position, len(whole) - 1)
    start = 0
    for base in bases:
        content = bytearray(env.read_file(path(base)))
        if start <= position < start + len(content):
            at = position - start
            in_batch = {(at + index) % 191 for index in range(len(damage))}
            assume(not in_batch & {*range(8), *range(12, 16)})
            content[at : at + len(damage)] = damage[: len(content) - at]
            env.write_file(path(base), bytes(content))
        start += len(content)
    log = new_log(env)
    found = read_values(log)
    assert found == {offset: written[offset] for offset in range(log.log_end_offset)}
    assert log.log_end_offset >= position // 191


def test_only_segments_beyond_the_recovery_point_are_read(env: FaultEnv) -> None:
    killed(env)
    content = bytearray(env.read_file(path(0)))
    content[100] ^= 1
    env.write_file(path(0), bytes(content))
    assert new_log(env, recovery_point=5).log_end_offset == 12
    env.kill()
    assert new_log(env, recovery_point=4).log_end_offset == 0


def test_recovery_rebuilds_all_indexes(env: FaultEnv) -> None:
    stopped(env)
    wanted = {name: env.read_file(f"{DIRECTORY}/{name}") for name in names(env) if "index" in name}
    for name in wanted:
        env.write_file(f"{DIRECTORY}/{name}", b"rubbish!")
    new_log(env).close()
    assert {name: env.read_file(f"{DIRECTORY}/{name}") for name in wanted} == wanted


def test_a_segment_that_overlaps_the_one_before_is_removed(env: FaultEnv) -> None:
    """A truncation deleted it, and a crash restored it."""
    killed(env, 5)
    env.write_file(path(3), make_batch(b"old", base_offset=3, epoch=0))
    log = new_log(env)
    assert list(read_values(log)) == list(range(5))
    assert not env.exists(path(3))


def test_a_gap_between_segments_is_kept(env: FaultEnv) -> None:
    killed(env)
    env.remove(path(5))
    log = new_log(env)
    assert list(read_values(log)) == [*range(5), 10, 11]
    assert log.truncated_bytes == 0


def test_a_disk_error_in_recovery_is_not_damage(env: FaultEnv) -> None:
    """The disk's error is raised; nothing is truncated because of it."""
    killed(env)
    env.inject(lambda _number, kind, _path: Fault() if kind == "pread" else None)
    with pytest.raises(OSError, match="injected"):
        new_log(env)
    env.kill()
    assert len(read_values(new_log(env))) == 12


# -- leader epochs, producers, transactions --


def test_leader_epochs_are_rebuilt_from_the_batches(env: FaultEnv) -> None:
    log = new_log(env)
    fill(log, 3, epoch=1)
    fill(log, 3, epoch=4)
    env.kill()
    assert not env.exists(f"{DIRECTORY}/leader-epoch-checkpoint")
    assert new_log(env).leader_epoch_cache.entries == [(1, 0), (4, 3)]


def test_leader_epochs_beyond_the_log_are_removed(env: FaultEnv) -> None:
    log = new_log(env)
    fill(log, 3, epoch=1)
    log.assign_epoch_start_offset(9, 3)
    log.flush()
    env.kill()
    assert new_log(env).leader_epoch_cache.entries == [(1, 0)]
    env.kill()
    log = new_log(env, log_start_offset=2)
    assert log.leader_epoch_cache.entries == [(1, 2)]


@pytest.mark.parametrize(("recovery_point", "deleted_up_to"), [(0, 7), (12, 7), (12, 3), (7, 11)])
def test_a_deletion_that_a_kill_undid_takes_no_epochs_along(
    env: FaultEnv, recovery_point: int, deleted_up_to: int
) -> None:
    """The file without the deleted epochs is on disk, and the log start offset is not."""
    log = new_log(env)
    for epoch, count in ((0, 2), (1, 4), (3, 4), (4, 2)):
        fill(log, count, epoch=epoch)
    entries = log.leader_epoch_cache.entries
    assert entries == [(0, 0), (1, 2), (3, 6), (4, 10)]
    log.maybe_increment_log_start_offset(deleted_up_to, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    log.leader_epoch_cache.flush()
    assert log.leader_epoch_cache.entries[0][1] == deleted_up_to
    env.kill()
    again = new_log(env, recovery_point=recovery_point)
    assert again.log_start_offset == 0
    assert again.leader_epoch_cache.entries == entries
    again.flush()
    env.kill()
    assert new_log(env, is_clean=True).leader_epoch_cache.entries == entries


def test_epochs_of_records_that_stay_deleted_are_not_brought_back(env: FaultEnv) -> None:
    log = new_log(env)
    for epoch in (0, 1, 2):
        fill(log, 4, epoch=epoch)
    log.maybe_increment_log_start_offset(6, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    log.leader_epoch_cache.flush()
    env.kill()
    again = new_log(env, log_start_offset=6, recovery_point=12)
    assert again.leader_epoch_cache.entries == [(1, 6), (2, 8)]


@pytest.mark.parametrize("damage", [b"", make_batch(b"old", base_offset=0)[:10]])
def test_a_log_that_begins_with_records_without_an_epoch_has_none_for_them(
    env: FaultEnv, damage: bytes
) -> None:
    log = new_log(env)
    fill(log, 6)
    env.kill()
    env.write_file(path(0), damage or old_message(0, b"v", 1) + env.read_file(path(0))[191:])
    env.write_file(f"{DIRECTORY}/leader-epoch-checkpoint", b"0\n1\n0 1\n")
    entries = new_log(env, recovery_point=6).leader_epoch_cache.entries
    assert entries[0] == (0, 1)


def test_a_damaged_epoch_checkpoint_is_rebuilt(env: FaultEnv) -> None:
    log = new_log(env)
    fill(log, 3, epoch=2)
    log.flush()
    env.kill()
    env.write_file(f"{DIRECTORY}/leader-epoch-checkpoint", b"damaged")
    assert new_log(env).leader_epoch_cache.entries == [(2, 0)]


def test_producers_are_replayed_through_the_log(env: FaultEnv) -> None:
    log = new_log(env)
    for sequence in range(12):
        log.append_as_leader(make_batch(bytes(100), producer=(7, 0, sequence)), 0)
    env.kill()
    log = new_log(env)
    entry = log.producer_state_manager.producers[7]
    assert [batch.last_sequence for batch in entry.batches] == [7, 8, 9, 10, 11]
    assert [name for name in names(env) if name.endswith("snapshot")] == [
        f"{base:020d}.snapshot" for base in (5, 10)
    ]


@pytest.mark.parametrize("damage", ["removed", "damaged"])
def test_producers_are_restored_without_their_snapshots(env: FaultEnv, damage: str) -> None:
    log = new_log(env)
    log.append_as_leader(make_batch(bytes(100), producer=(7, 0, 0)), 0)
    fill(log, 11)
    log.flush()
    log.close()
    env.kill()
    for name in names(env):
        if name.endswith(".snapshot"):
            env.remove(f"{DIRECTORY}/{name}") if damage == "removed" else env.write_file(
                f"{DIRECTORY}/{name}", b"x"
            )
    log = new_log(env, is_clean=True)
    assert log.append_as_leader(make_batch(bytes(100), producer=(7, 0, 0)), 0).duplicate


def test_a_snapshot_beyond_the_log_end_is_ignored(env: FaultEnv) -> None:
    log = new_log(env)
    fill(log, 3)
    log.append_as_leader(make_batch(b"lost", producer=(7, 0, 0)), 0)
    log.flush()
    log.close()
    env.kill()
    env.write_file(path(0), env.read_file(path(0))[:-1])
    log = new_log(env)
    assert log.producer_state_manager.is_empty
    assert not any(name.endswith(".snapshot") for name in names(env))


@pytest.mark.parametrize("is_clean", [True, False])
def test_transactions_are_restored(env: FaultEnv, is_clean: bool) -> None:
    log = new_log(env)
    for producer, end in ((1, True), (2, False), (3, None)):
        log.append_as_leader(make_batch(bytes(100), producer=(producer, 0, 0), transactional=True), 0)
        if end is not None:
            log.append_as_leader(end_txn(producer, 0, commit=end), 0, AppendOrigin.COORDINATOR)
        fill(log, 2)
    aborted = [entry for segment in log.segments for entry in segment.txn_index.transactions]
    if is_clean:
        log.flush()
        log.close()
    env.kill()
    log = new_log(env, is_clean=is_clean)
    found = [entry for segment in log.segments for entry in segment.txn_index.transactions]
    assert [
        (entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
        for entry in found
    ] == [
        (entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
        for entry in aborted
    ]
    log.update_high_watermark(log.log_end_offset)
    assert log.last_stable_offset == log.offsets.first_unstable_offset == 8


def test_a_snapshot_at_the_recovery_point_is_used(env: FaultEnv) -> None:
    """It may include batches that compaction has since changed or removed in the segment before."""
    log = new_log(env)
    log.append_as_leader(make_batch(b"a", producer=(7, 0, 0)), 0)
    log.roll()
    log.flush()
    env.kill()
    snapshots = ProducerSnapshotFiles(env, DIRECTORY, names(env))
    (entry,) = snapshots.read(1)
    snapshots.write(1, [entry._replace(timestamp=entry.timestamp + 5)], sync=True)
    log = new_log(env, recovery_point=1)
    assert log.producer_state_manager.producers[7].last_timestamp == entry.timestamp + 5


def test_expired_producers_are_not_restored(env: FaultEnv) -> None:
    log = new_log(env)
    log.append_as_leader(make_batch(b"a", producer=(7, 0, 0)), 0)
    log.flush()
    log.close()
    env.kill()
    env.time_ms += 86_400_001
    assert new_log(env, is_clean=True).producer_state_manager.is_empty


def test_recovery_does_not_restore_expired_producers_either(env: FaultEnv) -> None:
    """Each snapshot has all producers of the segment before it; later on only those that have not expired."""
    log = new_log(env)
    for producer_id in range(3):
        log.append_as_leader(make_batch(b"a", producer=(producer_id, 0, 0)), 0)
        log.roll()
    env.kill()
    for name in names(env):
        if name.endswith(".snapshot"):
            env.remove(f"{DIRECTORY}/{name}")
    env.time_ms += 86_400_001
    log = new_log(env, is_clean=False)
    assert log.producer_state_manager.is_empty
    snapshots = log.producer_state_manager.snapshots
    assert [[entry.producer_id for entry in snapshots.read(offset)] for offset in snapshots.offsets] == [
        [0],
        [1],
        [2],
    ]


# -- the log start offset --


def test_the_log_start_is_the_checkpoint_or_the_first_segment(env: FaultEnv) -> None:
    end = stopped(env)
    env.remove(path(0))
    assert new_log(env, is_clean=True, log_start_offset=3).log_start_offset == 5
    env.kill()
    assert new_log(env, is_clean=True, log_start_offset=8).log_start_offset == 8
    env.kill()
    log = new_log(env, is_clean=True, log_start_offset=end)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (end, end, end)


def test_a_log_that_ends_before_its_start_is_emptied(env: FaultEnv) -> None:
    """Records were deleted up to an offset, and a crash lost the log end."""
    killed(env, 4)
    log = new_log(env, log_start_offset=9)
    assert (log.log_start_offset, log.log_end_offset, log.size) == (9, 9, 0)
    assert [name for name in names(env) if name.endswith(".log")] == [f"{9:020d}.log"]
    assert append(log, b"x") == 9


def test_a_new_directory_begins_at_the_given_offset(env: FaultEnv) -> None:
    log = new_log(env, log_start_offset=7)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)
    assert env.exists(path(7))


# -- stray files --


def test_stray_files_are_removed(env: FaultEnv) -> None:
    stopped(env)
    before = names(env)
    for name in (
        f"{2:020d}.log.deleted",
        f"{2:020d}.snapshot.deleted",
        f"{3:020d}.log.cleaned",
        f"{3:020d}.index.cleaned",
        f"{4:020d}.index",  # without a .log
        f"{4:020d}.timeindex",
        f"{4:020d}.txnindex",
        "leader-epoch-checkpoint.tmp",
    ):
        env.write_file(f"{DIRECTORY}/{name}", b"leftover")
    new_log(env, is_clean=True).close()
    assert names(env) == before


def test_foreign_files_are_kept(env: FaultEnv) -> None:
    stopped(env)
    env.write_file(f"{DIRECTORY}/notes.txt", b"hands off")
    env.write_file(f"{DIRECTORY}/short.log", b"hands off")
    assert len(read_values(new_log(env, is_clean=True))) == 12
    assert env.read_file(f"{DIRECTORY}/notes.txt") == b"hands off"


def swap(env: FaultEnv, base_offset: int, *offsets: int) -> None:
    """The files of an interrupted cleaning: one segment in place of several."""
    data = b"".join(make_batch(b"clean %d" % offset, base_offset=offset, epoch=0) for offset in offsets)
    for suffix, content in (("log", data), ("index", b""), ("timeindex", b"")):
        env.write_file(path(base_offset, suffix) + ".swap", content)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_swap_is_completed(env: FaultEnv, is_clean: bool) -> None:
    stopped(env)
    swap(env, 0, 1, 4, 9)
    log = new_log(env, is_clean=is_clean)
    assert read_values(log)[4] == b"clean 4"
    assert list(read_values(log)) == [1, 4, 9, 10, 11]
    assert not any(name.endswith(".swap") for name in names(env))
    assert not env.exists(path(5))


def test_a_swap_beside_a_cleaned_file_is_reverted(env: FaultEnv) -> None:
    stopped(env)
    swap(env, 5, 5)
    env.write_file(path(0) + ".cleaned", b"half done")
    log = new_log(env)
    assert len(read_values(log)) == 12
    assert not any(name.endswith((".swap", ".cleaned")) for name in names(env))


# -- older formats --


def test_segments_of_message_sets_are_read_unchanged(env: FaultEnv) -> None:
    env.mkdir(DIRECTORY)
    data = b"".join(
        old_message(offset, b"old %d" % offset, offset % 2, timestamp=offset) for offset in range(6)
    )
    env.write_file(path(0), data)
    log = new_log(env, small_config(index_interval_bytes=50))
    assert (log.log_end_offset, log.latest_epoch, log.truncated_bytes) == (6, -1, 0)
    found = log.fetch_offset_by_timestamp(4)
    assert found is not None
    assert found.offset == 5
    assert append(log, b"new") == 6
    assert env.read_file(path(0)).startswith(data)
    env.kill()
    assert new_log(env).log_end_offset == 7


def test_damage_in_message_sets_is_truncated(env: FaultEnv) -> None:
    env.mkdir(DIRECTORY)
    data = bytearray(b"".join(old_message(offset, b"old", 1) for offset in range(3)))
    data[-1] ^= 1
    env.write_file(path(0), bytes(data))
    assert new_log(env).log_end_offset == 2


def test_preallocated_logs_are_trimmed_to_their_records(env: FaultEnv) -> None:
    log = new_log(env, small_config(preallocate=True))
    fill(log, 7)
    assert env.size(path(5)) == 1024
    env.kill()
    log = new_log(env, small_config(preallocate=True))
    assert list(read_values(log)) == list(range(7))


def test_a_damaged_segment_without_its_index_is_truncated_at_the_damage(env: FaultEnv) -> None:
    """Even after a clean stop, as in Kafka: the segments behind it stay, with a gap before them."""
    end = stopped(env)
    content = bytearray(env.read_file(path(0)))
    content[200] ^= 1
    env.write_file(path(0), bytes(content))
    env.remove(path(0, "index"))
    log = new_log(env, is_clean=True)
    assert list(read_values(log)) == [0, *range(5, end)]
    assert log.truncated_bytes == 4 * 191


def test_the_indexes_of_the_segment_at_the_recovery_point_are_not_checked(env: FaultEnv) -> None:
    """It is recovered; no check looks at its torn indexes or records before."""
    log = new_log(env)
    for sequence in range(12):
        log.append_as_leader(make_batch(bytes(100), producer=(7, 0, sequence), transactional=True), 0)
    log.append_as_leader(end_txn(7, 0, commit=False), 0, AppendOrigin.COORDINATOR)
    base = log.segments[-1].base_offset
    env.kill()
    env.write_file(path(base, "txnindex"), b"torn")
    content = bytearray(env.read_file(path(base)))
    content[-1] ^= 1  # within the marker
    env.write_file(path(base), bytes(content))
    log = new_log(env, recovery_point=base + 1)
    assert log.log_end_offset == 12
    assert log.segments[-1].txn_index.transactions == []


# -- gaps between segments --


def test_the_end_of_a_segment_that_a_power_cut_took_is_a_gap_that_the_log_knows(env: FaultEnv) -> None:
    killed(env)
    env.write_file(path(5), env.read_file(path(5))[: 2 * 191])
    log = new_log(env)
    assert (log.log_end_offset, log.truncated_bytes, log.unproven_gap) == (12, 0, 7)
    assert list(read_values(log)) == [0, 1, 2, 3, 4, 5, 6, 10, 11]


def test_a_whole_segment_may_be_missing(env: FaultEnv) -> None:
    killed(env)
    env.write_file(path(5), b"")
    assert new_log(env).unproven_gap == 5


def test_the_first_of_several_gaps_is_known(env: FaultEnv) -> None:
    killed(env)
    env.write_file(path(0), env.read_file(path(0))[: 4 * 191])
    env.write_file(path(5), b"")
    assert new_log(env).unproven_gap == 4


@pytest.mark.parametrize(("recovery_point", "gap"), [(6, 7), (7, 7), (8, 8), (9, 9), (10, None), (12, None)])
def test_what_is_missing_below_the_recovery_point_was_compacted_away(
    env: FaultEnv, recovery_point: int, gap: int | None
) -> None:
    killed(env)
    env.write_file(path(5), env.read_file(path(5))[: 2 * 191])
    assert new_log(env, recovery_point=recovery_point).unproven_gap == gap


def test_a_log_without_gaps_knows_none(env: FaultEnv) -> None:
    killed(env)
    assert new_log(env).unproven_gap is None


def test_after_a_clean_stop_no_gap_is_looked_for(env: FaultEnv) -> None:
    stopped(env)
    env.write_file(path(5), env.read_file(path(5))[: 2 * 191])
    assert new_log(env, is_clean=True).unproven_gap is None

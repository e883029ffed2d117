"""The verifier finds every kind of damage, and reports none in a sound log."""

from collections.abc import Callable
from random import Random

import pytest

from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.checksum import crc32c
from barnabas.protocol.records.entries import batches
from barnabas.storage.env import Env
from barnabas.storage.log.checkpoints import LeaderEpochCheckpointFile, OffsetCheckpointFile
from barnabas.storage.log.producer_snapshots import ProducerSnapshotFiles
from barnabas.storage.verify.directory import NotALogDirectoryError, Progress, Verification
from barnabas.storage.verify.partition import verify_partition
from barnabas.storage.verify.verifier import Check, Findings, RecurringFindings, Severity, Situation
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import TOPIC_ID, make_batch
from tests.storage.log_harness import LogHarness
from tests.storage.test_log_model import WEIGHTS
from tests.storage.verify.verified import LOG_DIR, TOPIC, findings, graver, written
from tests.support.chance import seeds


@pytest.fixture
def env() -> FaultEnv:
    return FaultEnv()


def files(env: Env, suffix: str, directory: str = TOPIC) -> list[str]:
    return [f"{directory}/{name}" for name in sorted(env.listdir(directory)) if name.endswith(suffix)]


def flip(env: FaultEnv, path: str, at: int, bit: int = 1) -> None:
    data = bytearray(env.read_file(path))
    data[at] ^= bit
    env.write_file(path, bytes(data))


def positions(env: FaultEnv, path: str) -> list[int]:
    return [batch.position for batch in batches(env.read_file(path))]


# -- no damage --


def test_a_cleanly_stopped_directory_has_no_findings(env: FaultEnv) -> None:
    written(env)
    verification = Verification(env)
    assert list(verification.run([LOG_DIR])) == []
    counts = verification.counts
    assert counts.directories == 1
    assert counts.partitions == 2
    assert counts.segments == len(files(env, ".log")) + 1
    assert counts.batches > 40
    assert counts.records > counts.batches
    assert counts.bytes > 4000
    assert counts.files > 4 * 3
    assert files(env, ".txnindex"), "the directory has to have one of each"
    assert files(env, ".snapshot")


def test_a_running_or_killed_broker_gives_no_findings(env: FaultEnv) -> None:
    written(env, stop=False)
    assert findings(env) == []
    env.kill()
    assert findings(env) == []


def test_a_single_partition_is_verified(env: FaultEnv) -> None:
    written(env)
    assert findings(env, TOPIC) == []
    flip(env, files(env, ".log")[1], 70)
    assert [finding.severity for finding in findings(env, TOPIC)] == [Severity.ERROR]


def test_the_verifier_changes_no_file(env: FaultEnv) -> None:
    written(env)
    for path in files(env, ".log"):
        flip(env, path, 70)

    def refuse(_number: int, kind: str, path: str) -> None:
        assert kind in {"open", "pread", "read_file", "map", "size", "exists", "listdir", "is_dir"}, (
            kind,
            path,
        )

    env.inject(refuse)
    assert len(findings(env)) > 1


def test_snapshots_may_cover_compacted_batches(env: FaultEnv) -> None:
    written(env)
    for path in files(env, ".log")[:-1]:
        env.write_file(path, env.read_file(path)[: positions(env, path)[-3]])
    assert [finding for finding in findings(env) if finding.path.endswith(".snapshot")] == []


def test_a_directory_that_is_not_a_log_directory_is_rejected(env: FaultEnv) -> None:
    env.mkdir("/nothing")
    for path in ("/nothing", "/missing"):
        with pytest.raises(NotALogDirectoryError, match=path):
            findings(env, path)


def test_progress_adds_up_to_all_bytes(env: FaultEnv) -> None:
    written(env)
    seen: list[Progress] = []
    verification = Verification(env, on_progress=seen.append)
    list(verification.run([LOG_DIR]))
    assert seen[-1].done_bytes >= seen[-1].total_bytes == verification.counts.bytes
    assert [one.done_bytes for one in seen] == sorted(one.done_bytes for one in seen)


# -- damage --


def body_of_a_batch(env: FaultEnv) -> str:
    path = files(env, ".log")[1]
    flip(env, path, positions(env, path)[1] + 70)
    return path


def crc_of_a_batch(env: FaultEnv) -> str:
    path = files(env, ".log")[0]
    flip(env, path, 18)
    return path


def length_of_a_batch(env: FaultEnv) -> str:
    path = files(env, ".log")[0]
    flip(env, path, positions(env, path)[2] + 11)
    return path


def magic_of_a_batch(env: FaultEnv) -> str:
    path = files(env, ".log")[0]
    flip(env, path, 16, 8)
    return path


def base_offset_of_a_batch(env: FaultEnv) -> str:
    path = files(env, ".log")[0]
    flip(env, path, positions(env, path)[3] + 7, 2)
    return path


def leader_epoch_of_a_batch(env: FaultEnv) -> str:
    path = files(env, ".log")[0]
    flip(env, path, positions(env, path)[1] + 15)
    return path


def end_of_a_log(env: FaultEnv) -> str:
    path = files(env, ".log")[1]
    env.write_file(path, env.read_file(path)[:-5])
    return path


def a_lost_segment(env: FaultEnv) -> str:
    lost, after = files(env, ".log")[2:4]
    env.remove(lost)
    return after


def a_segment_under_another_name(env: FaultEnv) -> str:
    path = files(env, ".log")[3]
    other = f"{TOPIC}/{int(path[-24:-4]) - 1:020d}.log"
    env.rename(path, other)
    return other


def offset_of_an_index_entry(env: FaultEnv) -> str:
    path = files(env, ".index")[0]
    flip(env, path, 3)
    return path


def position_of_an_index_entry(env: FaultEnv) -> str:
    path = files(env, ".index")[0]
    flip(env, path, 7)
    return path


def high_byte_of_an_index_entry(env: FaultEnv) -> str:
    path = files(env, ".index")[0]
    flip(env, path, 0, 0x40)
    return path


def length_of_an_index(env: FaultEnv) -> str:
    path = files(env, ".index")[0]
    env.write_file(path, env.read_file(path)[:-3])
    return path


def a_missing_index(env: FaultEnv) -> str:
    path = files(env, ".index")[1]
    env.remove(path)
    return path


def timestamp_of_a_time_index_entry(env: FaultEnv) -> str:
    path = next(path for path in files(env, ".timeindex") if env.size(path))
    flip(env, path, 7)
    return path


def offset_of_a_time_index_entry(env: FaultEnv) -> str:
    path = next(path for path in files(env, ".timeindex") if env.size(path))
    flip(env, path, 11)
    return path


def a_marker_that_cannot_be_read(env: FaultEnv) -> str:
    """Its CRC is correct, its contents are invalid."""
    path = next(path for path in files(env, ".log") if markers(env, path))
    data = bytearray(env.read_file(path))
    at = markers(env, path)[0]
    size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
    data[at + 61] ^= 1  # the record's length
    data[at + 17 : at + 21] = crc32c(bytes(data[at + 21 : at + size])).to_bytes(4, "big")
    env.write_file(path, bytes(data))
    return path


def a_marker_of_a_codec_that_there_is_not(env: FaultEnv) -> str:
    path = next(path for path in files(env, ".log") if markers(env, path))
    data = bytearray(env.read_file(path))
    at = markers(env, path)[0]
    size = int.from_bytes(data[at + 8 : at + 12], "big") + 12
    data[at + 22] |= 7
    data[at + 17 : at + 21] = crc32c(bytes(data[at + 21 : at + size])).to_bytes(4, "big")
    env.write_file(path, bytes(data))
    return path


def markers(env: FaultEnv, path: str) -> list[int]:
    return [batch.position for batch in batches(env.read_file(path)) if batch.is_control]


def a_lost_time_index_entry(env: FaultEnv) -> str:
    path = next(path for path in files(env, ".timeindex") if env.size(path))
    env.write_file(path, env.read_file(path)[:-12])
    return path


def producer_of_an_aborted_transaction(env: FaultEnv) -> str:
    path = files(env, ".txnindex")[0]
    flip(env, path, 9)
    return path


def first_offset_of_an_aborted_transaction(env: FaultEnv) -> str:
    path = files(env, ".txnindex")[0]
    flip(env, path, 17)
    return path


def last_stable_offset_of_an_aborted_transaction(env: FaultEnv) -> str:
    path = files(env, ".txnindex")[0]
    flip(env, path, 33)
    return path


def version_of_an_aborted_transaction(env: FaultEnv) -> str:
    path = files(env, ".txnindex")[0]
    flip(env, path, 1)
    return path


def length_of_a_transaction_index(env: FaultEnv) -> str:
    path = files(env, ".txnindex")[0]
    env.write_file(path, env.read_file(path) + b"\0")
    return path


def a_lost_transaction_index(env: FaultEnv) -> str:
    path = files(env, ".txnindex")[0]
    env.remove(path)
    return path


def a_byte_of_a_snapshot(env: FaultEnv) -> str:
    path = files(env, ".snapshot")[-1]
    flip(env, path, 30)
    return path


def version_of_a_snapshot(env: FaultEnv) -> str:
    path = files(env, ".snapshot")[-1]
    flip(env, path, 1, 6)
    return path


def state_in_a_snapshot(env: FaultEnv) -> str:
    """An intact snapshot that contradicts the batches."""
    snapshots = ProducerSnapshotFiles(env, TOPIC, env.listdir(TOPIC))
    offset = snapshots.offsets[-1]
    entries = snapshots.read(offset)
    return snapshots.write(
        offset, [entry._replace(last_sequence=entry.last_sequence + 1) for entry in entries], sync=True
    )


def a_snapshot_beyond_the_end(env: FaultEnv) -> str:
    return ProducerSnapshotFiles(env, TOPIC, []).write(5000, [], sync=True)


def leader_epochs_out_of_order(env: FaultEnv) -> str:
    path = f"{TOPIC}/leader-epoch-checkpoint"
    env.write_file(path, b"0\n2\n3 10\n2 20\n")
    return path


def start_of_a_leader_epoch(env: FaultEnv) -> str:
    path = f"{TOPIC}/leader-epoch-checkpoint"
    checkpoint = LeaderEpochCheckpointFile(env, path)
    entries = checkpoint.read()
    checkpoint.write([entries[0], (entries[1][0], entries[1][1] - 1), *entries[2:]])
    return path


def a_missing_leader_epoch(env: FaultEnv) -> str:
    path = f"{TOPIC}/leader-epoch-checkpoint"
    checkpoint = LeaderEpochCheckpointFile(env, path)
    entries = checkpoint.read()
    checkpoint.write([*entries[:1], *entries[2:]])
    return path


def a_leader_epoch_beyond_the_end(env: FaultEnv) -> str:
    path = f"{TOPIC}/leader-epoch-checkpoint"
    checkpoint = LeaderEpochCheckpointFile(env, path)
    checkpoint.write([*checkpoint.read(), (9, 5000)])
    return path


def count_of_a_checkpoint(env: FaultEnv) -> str:
    path = f"{TOPIC}/leader-epoch-checkpoint"
    flip(env, path, 2)
    return path


def version_of_the_topic_id(env: FaultEnv) -> str:
    path = f"{TOPIC}/partition.metadata"
    flip(env, path, 9)
    return path


def topic_id(env: FaultEnv) -> str:
    path = f"{TOPIC}/partition.metadata"
    flip(env, path, 25, 0x40)
    return path


def offset_in(name: str) -> Callable[[FaultEnv], str]:
    def raise_it(env: FaultEnv) -> str:
        path = f"{LOG_DIR}/{name}"
        checkpoint = OffsetCheckpointFile(env, path)
        checkpoint.write({**checkpoint.read(), ("orders", 0): 4000})
        return path

    raise_it.__name__ = f"offset_in_{name}"
    return raise_it


def text_of(name: str) -> Callable[[FaultEnv], str]:
    def spoil(env: FaultEnv) -> str:
        path = f"{LOG_DIR}/{name}"
        flip(env, path, 0)
        return path

    spoil.__name__ = f"text_of_{name}"
    return spoil


def a_partition_that_is_not_there(env: FaultEnv) -> str:
    path = f"{LOG_DIR}/recovery-point-offset-checkpoint"
    checkpoint = OffsetCheckpointFile(env, path)
    checkpoint.write({**checkpoint.read(), ("gone", 1): 1})
    return path


def a_key_of_meta_properties(env: FaultEnv) -> str:
    path = f"{LOG_DIR}/meta.properties"
    data = env.read_file(path)
    flip(env, path, data.index(b"cluster.id"))
    return path


def directory_id(env: FaultEnv) -> str:
    path = f"{LOG_DIR}/meta.properties"
    data = env.read_file(path)
    flip(env, path, data.index(b"directory.id=") + 14, 0x80)
    return path


def a_foreign_file(env: FaultEnv) -> str:
    env.write_file(f"{TOPIC}/notes.txt", b"hello")
    return f"{TOPIC}/notes.txt"


def a_foreign_directory(env: FaultEnv) -> str:
    env.mkdir(f"{LOG_DIR}/backup")
    return f"{LOG_DIR}/backup"


def an_index_without_a_log(env: FaultEnv) -> str:
    env.write_file(f"{TOPIC}/{9000:020d}.index", b"")
    return f"{TOPIC}/{9000:020d}.index"


def a_batch_of_the_first_metadata(env: FaultEnv) -> str:
    path = f"{LOG_DIR}/bootstrap.checkpoint"
    env.write_file(path, make_batch(b"one", base_offset=0) + make_batch(b"two", base_offset=1))
    assert findings(env) == []
    flip(env, path, 65)
    return path


DAMAGES = (
    body_of_a_batch,
    crc_of_a_batch,
    length_of_a_batch,
    magic_of_a_batch,
    base_offset_of_a_batch,
    leader_epoch_of_a_batch,
    end_of_a_log,
    a_lost_segment,
    a_segment_under_another_name,
    offset_of_an_index_entry,
    position_of_an_index_entry,
    high_byte_of_an_index_entry,
    length_of_an_index,
    a_missing_index,
    a_marker_that_cannot_be_read,
    a_marker_of_a_codec_that_there_is_not,
    timestamp_of_a_time_index_entry,
    offset_of_a_time_index_entry,
    a_lost_time_index_entry,
    producer_of_an_aborted_transaction,
    first_offset_of_an_aborted_transaction,
    last_stable_offset_of_an_aborted_transaction,
    version_of_an_aborted_transaction,
    length_of_a_transaction_index,
    a_lost_transaction_index,
    a_byte_of_a_snapshot,
    version_of_a_snapshot,
    state_in_a_snapshot,
    a_snapshot_beyond_the_end,
    leader_epochs_out_of_order,
    start_of_a_leader_epoch,
    a_missing_leader_epoch,
    a_leader_epoch_beyond_the_end,
    count_of_a_checkpoint,
    version_of_the_topic_id,
    topic_id,
    offset_in("recovery-point-offset-checkpoint"),
    offset_in("replication-offset-checkpoint"),
    offset_in("log-start-offset-checkpoint"),
    offset_in("cleaner-offset-checkpoint"),
    text_of("recovery-point-offset-checkpoint"),
    text_of("replication-offset-checkpoint"),
    a_partition_that_is_not_there,
    a_key_of_meta_properties,
    directory_id,
    a_foreign_file,
    a_foreign_directory,
    an_index_without_a_log,
    a_batch_of_the_first_metadata,
)
HARMLESS = (
    a_lost_segment,
    a_lost_time_index_entry,
    a_missing_index,
    offset_in("cleaner-offset-checkpoint"),
    a_partition_that_is_not_there,
    a_foreign_file,
    a_foreign_directory,
    an_index_without_a_log,
)


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_found_at_its_place(env: FaultEnv, damage: Callable[[FaultEnv], str]) -> None:
    written(env)
    path = damage(env)
    found = graver(findings(env))
    assert path in [finding.path for finding in found], found
    assert len(found) < 8, "one damage gives few findings"
    assert all(finding.problem for finding in found)
    is_harmless = damage.__name__ in [one.__name__ for one in HARMLESS]
    assert any(finding.severity is Severity.ERROR for finding in found) is not is_harmless


@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex", ".txnindex", ".snapshot"])
def test_a_change_of_any_byte_is_found(env: FaultEnv, suffix: str) -> None:
    """A change of any byte gives a finding."""
    written(env)
    path = next(path for path in files(env, suffix) if env.size(path))
    whole = env.read_file(path)
    missed = []
    for at in range(len(whole)):
        flip(env, path, at)
        if not graver(findings(env, TOPIC)):
            missed.append(at)
        env.write_file(path, whole)
    if suffix == ".log":
        # No CRC covers leader epochs: a wrong one that keeps their order is found in the first batch only.
        missed = [at for at in missed if not 12 <= at - max(p for p in positions(env, path) if p <= at) < 16]
    assert missed == []


# -- log ends --


def test_a_tail_that_was_not_flushed_is_a_note(env: FaultEnv) -> None:
    written(env, stop=False)
    env.kill()
    path = files(env, ".log")[-1]
    last = positions(env, path)[-1]
    env.write_file(path, env.read_file(path)[:-3])
    (note,) = findings(env)
    assert (note.severity, note.path, note.position) == (Severity.NOTE, path, last)
    assert "not yet flushed" in note.problem
    assert "cuts" in note.remedy


def test_only_the_last_snapshot_may_be_empty_and_only_while_a_broker_is_at_work(env: FaultEnv) -> None:
    """A roll creates the file, and its thread may wait for long before it writes."""
    written(env, stop=False)
    *earlier, last = files(env, ".snapshot")
    env.write_file(last, b"")
    (note,) = findings(env)
    assert (note.severity, note.path) == (Severity.NOTE, last)
    assert "about to be written" in note.problem
    env.write_file(earlier[-1], b"")
    assert [(one.severity, one.path) for one in graver(findings(env))] == [(Severity.WARNING, earlier[-1])]


def test_an_empty_snapshot_is_an_error_after_a_stop_in_order(env: FaultEnv) -> None:
    written(env)
    last = files(env, ".snapshot")[-1]
    env.write_file(last, b"")
    (error,) = findings(env)
    assert (error.severity, error.path, error.problem) == (Severity.ERROR, last, "it is empty")


def test_a_last_batch_that_was_not_flushed_is_a_note(env: FaultEnv) -> None:
    written(env, stop=False)
    env.kill()
    path = files(env, ".log")[-1]
    flip(env, path, -1)
    assert [finding.severity for finding in findings(env)] == [Severity.NOTE]


def test_an_incomplete_tail_after_a_clean_stop_is_damage(env: FaultEnv) -> None:
    written(env)
    path = files(env, ".log")[-1]
    flip(env, path, -1)
    assert [finding.severity for finding in findings(env)] == [Severity.ERROR]


def test_damage_before_the_end_of_an_unflushed_log_is_a_warning(env: FaultEnv) -> None:
    """Intact batches follow, so it is not an interrupted append; a power cut may leave this."""
    written(env, stop=False)
    env.kill()
    path = files(env, ".log")[-1]
    flip(env, path, 70)
    (warning,) = findings(env)
    assert warning.severity is Severity.WARNING
    assert "recovery point" in warning.expected
    assert f"cuts {env.size(path)} bytes" in warning.remedy


def test_damage_before_the_recovery_point_is_an_error(env: FaultEnv) -> None:
    manager = written(env, stop=False)
    log = manager.get_log("orders", 0)
    assert log is not None
    log.flush()
    manager.dirs.checkpoint_all()
    env.kill()
    flip(env, files(env, ".log")[1], 70)
    assert [finding.severity for finding in findings(env)] == [Severity.ERROR]


def test_without_a_recovery_point_only_the_end_may_be_missing(env: FaultEnv) -> None:
    written(env)
    env.mkdir("/b")
    env.rename(TOPIC, "/b/orders-0")
    logs = files(env, ".log", "/b/orders-0")
    flip(env, logs[-1], -1)
    assert [finding.severity for finding in findings(env, "/b/orders-0")] == [Severity.NOTE]
    flip(env, logs[0], 70)
    assert Severity.ERROR in [finding.severity for finding in findings(env, "/b/orders-0")]


def test_preallocated_room_is_a_note(env: FaultEnv) -> None:
    written(env, stop=False)
    env.kill()
    path = files(env, ".log")[-1]
    env.write_file(path, env.read_file(path) + bytes(100))
    (note,) = findings(env)
    assert note.severity is Severity.NOTE
    assert "preallocate" in note.expected


@pytest.mark.parametrize("stop", [True, False])
def test_a_youngest_record_of_time_0_at_the_first_offset_is_no_gap_in_the_time_index(
    env: FaultEnv, stop: bool
) -> None:
    """Its entry is twelve zero bytes, like the preallocated room after the entries."""
    manager = written(env, stop=False)
    log = manager.get_or_create_log("old", 0, TOPIC_ID)
    log.append_as_leader(make_batch(b"x", timestamp=0), 0)
    if stop:
        manager.shutdown()
        assert [env.read_file(path) for path in files(env, ".timeindex", "/a/old-0")] == [bytes(12)]
    assert findings(env) == []


def test_without_its_entry_for_time_0_a_time_index_ends_too_early(env: FaultEnv) -> None:
    manager = written(env, stop=False)
    manager.get_or_create_log("old", 0, TOPIC_ID).append_as_leader(make_batch(b"x", timestamp=0), 0)
    manager.shutdown()
    (path,) = files(env, ".timeindex", "/a/old-0")
    env.write_file(path, b"")
    (warning,) = findings(env)
    assert (warning.severity, warning.path) == (Severity.WARNING, path)
    assert "timestamp -1" in warning.problem


@pytest.mark.parametrize("name", ["x.log.deleted", f"{0:020d}.log.cleaned", f"{0:020d}.log.swap", "x.tmp"])
def test_temporary_files_are_notes(env: FaultEnv, name: str) -> None:
    written(env)
    env.write_file(f"{TOPIC}/{name}", b"")
    assert [(one.severity, one.path) for one in findings(env)] == [(Severity.NOTE, f"{TOPIC}/{name}")]


def test_files_under_deletion_are_one_note(env: FaultEnv) -> None:
    written(env)
    for number in range(3):
        env.write_file(f"{TOPIC}/{number:020d}.log.deleted", b"")
    (note,) = findings(env)
    assert (note.severity, note.path) == (Severity.NOTE, TOPIC)
    assert "3 .deleted files" in note.problem


def test_a_future_log_is_verified_too(env: FaultEnv) -> None:
    written(env)
    path = f"{LOG_DIR}/orders-0.{'0a' * 16}-future"
    env.rename(TOPIC, path)
    assert [(one.severity, one.path) for one in findings(env)] == [(Severity.NOTE, path)]
    flip(env, files(env, ".log", path)[1], 70)
    assert [one.severity for one in findings(env)] == [Severity.NOTE, Severity.ERROR]


def test_an_empty_segment_may_lack_its_indexes(env: FaultEnv) -> None:
    """Kafka creates them when they are needed."""
    path = f"{LOG_DIR}/new-0"
    written(env)
    env.mkdir(path)
    env.write_file(f"{path}/{0:020d}.log", b"")
    env.write_file(f"{path}/partition.metadata", env.read_file(f"{TOPIC}/partition.metadata"))
    assert graver(findings(env)) == []


@pytest.mark.parametrize("suffix", ["delete", "stray"])
def test_temporary_directories_are_notes(env: FaultEnv, suffix: str) -> None:
    written(env)
    path = f"{LOG_DIR}/orders-1.{'0a' * 16}-{suffix}"
    env.mkdir(path)
    assert [(one.severity, one.path) for one in findings(env)] == [(Severity.NOTE, path)]


# -- records --


def test_records_are_checked_unless_shallow(env: FaultEnv) -> None:
    """A batch with a correct CRC and invalid records."""
    written(env)
    path = files(env, ".log")[0]
    data = bytearray(env.read_file(path))
    first = RecordBatch(data)
    whole = bytes(data[: first.size_in_bytes])
    broken = make_broken(whole)
    env.write_file(path, broken + bytes(data[first.size_in_bytes :]))
    found = graver(findings(env))
    assert [finding.path for finding in found] == [path]
    assert "records of the batch" in found[0].problem
    assert graver(findings(env, is_deep=False)) == []


def make_broken(batch: bytes) -> bytes:
    from barnabas.protocol.records.checksum import crc32c

    broken = bytearray(batch)
    broken[61] ^= 2  # the length of the first record
    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4, "big")
    return bytes(broken)


# -- a running broker --


def test_only_findings_of_every_pass_are_reported() -> None:
    findings_of = Findings("/p")
    findings_of.error("/p/x", "one")
    findings_of.error("/p/x", "two")
    recurring = RecurringFindings(findings_of.all)
    recurring.keep_repeated(findings_of.all[1:])
    assert [finding.problem for finding in recurring.all] == ["two"]
    recurring.keep_repeated([])
    assert recurring.all == []


def test_files_deleted_while_they_are_read_are_not_damage(env: FaultEnv) -> None:
    """Retention deletes the first segment after its name was read."""
    manager = written(env, stop=False)
    gone = files(env, ".log")[0]

    def take_away(_number: int, kind: str, path: str) -> None:
        if kind == "open" and path == gone and env.exists(gone):
            env.inject(None)
            for name in env.listdir(TOPIC):
                if name.startswith(gone[-24:-4]):
                    env.remove(f"{TOPIC}/{name}")

    env.inject(take_away)
    found, _ = verify_partition(env, TOPIC, Situation(), Situation, is_deep=True, on_progress=lambda _: None)
    assert found.all == []
    manager.abandon()


# -- random operations --


@pytest.mark.parametrize("seed", seeds(12))
def test_random_operations_on_a_log_leave_no_errors(seed: int) -> None:
    """All operations but power cuts, which may lose unflushed bytes; verified while it runs, killed and stopped."""
    rng = Random(seed)
    harness = LogHarness(rng.randrange(1 << 32))
    steps = {step: weight for step, weight in WEIGHTS.items() if step is not LogHarness.crash}
    for number, step in enumerate(rng.choices(list(steps), list(steps.values()), k=150)):
        step(harness, rng)
        if number % 3 == 0 or step in {
            LogHarness.kill,
            LogHarness.stop_cleanly,
            LogHarness.truncate,
            LogHarness.compact,
        }:
            errors = [one for one in findings(harness.env, "/logs") if one.severity is Severity.ERROR]
            if harness.model.ever_expired:  # an expired producer may begin with any epoch and sequence
                errors = [one for one in errors if one.check is not Check.SEQUENCES]
            assert errors == [], f"after step {number}, {step.__name__}, of harness {seed}"

"""Log directories that Apache Kafka 4.3 and 3.9 have written, opened by our storage engine.

They contain every codec, small segments, committed, aborted and open transactions, deleted records, compacted topics
and several leader epochs, after a clean shutdown or SIGKILL. Ours must read the records that Kafka's clients saw,
rebuild from the bare .log files the same bytes as Kafka itself, and append to them.
"""

from __future__ import annotations

import shutil
from itertools import repeat
from pathlib import Path

import pytest

from barnabas.protocol.records.entries import batches
from barnabas.protocol.records.record import Record
from barnabas.storage.env import RealEnv
from barnabas.storage.errors import InvalidProducerEpochError, OutOfOrderSequenceError
from barnabas.storage.log.checkpoints import (
    CleanShutdownFile,
    LeaderEpochCheckpointFile,
    OffsetCheckpointFile,
)
from barnabas.storage.log.unified_log import UnifiedLog
from tests.conformance.dump_log_comparison import assert_same_dumps
from tests.conformance.handover.kafka_side import (
    LEFT_OPEN,
    PARTITIONS,
    TIMES,
    TOPICS,
    LeftDirectory,
    Written,
    config_of,
    kafka_in,
)
from tests.conformance.handover.our_side import (
    Author,
    compact,
    delete_records,
    end_transaction,
    log_of,
    open_ours,
)
from tests.conformance.handover.tools import findings
from tests.conformance.handover.views import (
    View,
    last_values,
    our_offsets_for_times,
    our_view,
    since,
)

pytestmark = [pytest.mark.conformance, pytest.mark.timeout(900)]

REBUILT = (".index", ".timeindex", ".txnindex", ".snapshot")
EPOCHS = "leader-epoch-checkpoint"
ENDS = ("stopped", "killed")


@pytest.fixture(params=ENDS)
def left(request: pytest.FixtureRequest, written: Written) -> LeftDirectory:
    """One of Kafka's directories."""
    found: LeftDirectory = getattr(written, request.param)
    return found


@pytest.fixture
def copy(left: LeftDirectory, tmp_path: Path) -> Path:
    """A copy of `left` that the test may change."""
    return Path(shutil.copytree(left.directory, tmp_path / "data"))


def was_killed(left: LeftDirectory) -> bool:
    return not CleanShutdownFile(RealEnv(), str(left.directory)).exists()


# -- reading --


def test_our_view_is_that_of_kafkas_clients(left: LeftDirectory, copy: Path) -> None:
    """Records for both isolation levels, offsets, producers with their sequences and transactions."""
    manager = open_ours(copy, config_of)
    assert {(log.topic, log.partition) for log in manager.all_logs()} == set(PARTITIONS)
    for log in manager.all_logs():
        assert log.truncated_bytes == 0
        ours, theirs = our_view(log), left.views[log.topic, log.partition]
        if was_killed(left):
            ours, theirs = since(ours, theirs.start), without_expired_producers(theirs)
        assert ours == theirs, log.name
    manager.shutdown()


def without_expired_producers(view: View) -> View:
    """The view without the producers that a start expires: their last record is older than a day."""
    return view._replace(producers=[one for one in view.producers if one.last_timestamp > 1])


def test_directories_contain_all_cases(written: Written) -> None:
    """The comparisons cover compaction, deletion, transactions, all kinds of files and both shutdowns."""
    views, directory = written.stopped.views, written.stopped.directory
    assert all(view.records for (topic, _), view in views.items() if not topic.startswith(("ours", "legacy")))
    assert len(views["transactions", 0].committed) < len(views["transactions", 0].records)
    assert views[LEFT_OPEN, 0].stable < views[LEFT_OPEN, 0].end
    assert views["deleted", 0].start == 4321
    for topic in ("compacted", "compacted-and-deleted"):
        assert len(views[topic, 0].records) < views[topic, 0].end / 2
    for suffix in REBUILT:
        assert len(list(directory.glob(f"*-0/*{suffix}"))) >= 2
    assert len(list(directory.glob("codec-*/*.log"))) >= 8
    assert was_killed(written.killed)
    assert not was_killed(written.stopped)


def test_records_are_found_by_time_as_kafka_finds_them(left: LeftDirectory, copy: Path) -> None:
    manager = open_ours(copy, config_of)
    for topic in TIMES:
        expected = left.times[topic, 0]
        if topic == "deleted":
            if was_killed(left):
                continue  # it has another log start offset
            # Kafka searches only the first segment that is young enough, even if all its records are deleted.
            expected = {stamp: offset for stamp, offset in expected.items() if offset >= 0}
        assert our_offsets_for_times(log_of(manager, topic), expected) == expected
    manager.shutdown()


def test_dump_and_verify_read_kafkas_files(left: LeftDirectory) -> None:
    """Both dump tools print the same lines for every file, and `log verify` has no findings."""
    assert_same_dumps(left.directory)
    assert findings(left.directory) == []


def test_rebuilt_files_equal_kafkas(written: Written, tmp_path: Path) -> None:
    """Both start with the bare .log files, as after the worst of crashes, and write the same bytes."""
    bare = Path(shutil.copytree(written.stopped.directory, tmp_path / "ours"))
    (bare / ".kafka_cleanshutdown").unlink()
    OffsetCheckpointFile(RealEnv(), str(bare / "recovery-point-offset-checkpoint")).write({})
    for topic, number in PARTITIONS:
        for path in (bare / f"{topic}-{number}").iterdir():
            if path.suffix in REBUILT or path.name == EPOCHS:
                path.unlink()
    with kafka_in(tmp_path / "kafka", written.version, bare) as kafka:
        kafka.stop()
    manager = open_ours(bare, config_of)
    assert all(log.truncated_bytes == 0 for log in manager.all_logs())
    manager.shutdown()
    theirs, ours = files(kafka.data_dir), files(bare)
    assert len(theirs) > 100
    # Kafka took this snapshot before it expired a producer whose last record is of 1970.
    end = written.stopped.views["shapes", 0].end
    del theirs[f"shapes-0/{end:020d}.snapshot"], ours[f"shapes-0/{end:020d}.snapshot"]
    # Kafka deletes the snapshots below the log start offset, also that of the segment which contains it.
    assert set(ours) - set(theirs) <= {"deleted-0/00000000000000002425.snapshot"}
    assert set(theirs) <= set(ours)
    assert [name for name in theirs if ours[name] != theirs[name]] == []
    for topic, number in PARTITIONS:
        if written.stopped.views[topic, number].end:  # Kafka begins a new epoch when it starts
            assert epochs(bare / f"{topic}-{number}") == epochs(kafka.data_dir / f"{topic}-{number}")[:-1]


def files(directory: Path) -> dict[str, bytes]:
    """The logs of all partitions and the files that can be rebuilt."""
    return {
        f"{topic}-{number}/{path.name}": path.read_bytes()
        for topic, number in PARTITIONS
        for path in (directory / f"{topic}-{number}").iterdir()
        if path.suffix in (".log", *REBUILT)
    }


def epochs(directory: Path) -> list[tuple[int, int]]:
    return LeaderEpochCheckpointFile(RealEnv(), str(directory / EPOCHS)).read()


# -- writing --


def test_producers_resume_after_their_last_batch(left: LeftDirectory, copy: Path) -> None:
    """Each producer may repeat its last batch and write the next, and nothing else."""
    manager = open_ours(copy, config_of)
    entries = [
        (log, entry)
        for log in map(manager.get_log, TOPICS, repeat(0))
        if log is not None
        for entry in list(log.producer_state_manager.producers.values())
        if entry.current_txn_first_offset < 0 and entry.batches
    ]
    assert len(entries) > 15
    for log, entry in entries:
        last, end = entry.batches[-1], log.log_end_offset
        author = Author(log, entry.producer_id)
        author.sequence = last.first_sequence
        again = author.write(one(b"again", last.timestamp) * (last.offset_delta + 1))
        assert (again.duplicate, again.first_offset) == (True, last.first_offset)
        author.sequence += 1
        with pytest.raises(OutOfOrderSequenceError):
            author.write(one(b"after a gap", last.timestamp))
        author.sequence -= 1
        assert log.log_end_offset == end
        author.write(one(b"the next", last.timestamp))
        assert log.log_end_offset == end + 1
        author.epoch -= 1
        with pytest.raises(InvalidProducerEpochError):
            author.write(one(b"of old", last.timestamp))
    manager.shutdown()


def one(value: bytes, timestamp: int) -> list[Record]:
    """A batch's records."""
    return [Record(b"k", value, timestamp, [])]


@pytest.mark.parametrize("commit", [True, False])
def test_open_transaction_can_be_ended(written: Written, tmp_path: Path, commit: bool) -> None:
    left = written.stopped
    manager = open_ours(Path(shutil.copytree(left.directory, tmp_path / "data")), config_of)
    log = log_of(manager, LEFT_OPEN)
    before = left.views[LEFT_OPEN, 0]
    (entry,) = [
        one for one in log.producer_state_manager.producers.values() if one.current_txn_first_offset >= 0
    ]
    assert log.last_stable_offset == entry.current_txn_first_offset == before.stable
    end_transaction(log, entry.producer_id, entry.producer_epoch, commit=commit)
    after = our_view(log)
    assert after.records == before.records
    assert after.stable == after.end == before.end + 1
    undecided = {offset for offset, seen in before.records.items() if b"undecided" in (seen.value or b"")}
    assert len(undecided) == 30
    assert set(after.committed) == set(before.records) - (set() if commit else undecided)
    manager.shutdown()


def test_kafkas_log_is_rolled_deleted_and_truncated(left: LeftDirectory, copy: Path) -> None:
    manager = open_ours(copy, config_of)
    now_ms = RealEnv().now_ms()
    for topic in ("codec-none", "transactions", "deleted"):
        log = log_of(manager, topic)
        view = our_view(log)
        log.roll()
        Author(log, 77).write(one(b"in a new segment", now_ms))
        assert log.segments[-1].base_offset == view.end
        start = view.start + (view.end - view.start) // 2
        delete_records(log, start)
        assert log.segments[0].base_offset <= start < log.segments[1].base_offset
        cut = start + (view.end - start) // 2
        log.truncate_to(cut)
        after = our_view(log)
        assert (after.start, after.end) == (start, cut)
        assert after.records == {
            offset: seen for offset, seen in view.records.items() if start <= offset < end_of_last_batch(log)
        }
        assert [entry for entry in log.leader_epoch_cache.entries if entry[1] >= cut] == []
        Author(log, 77).write(one(b"goes on", now_ms))
    views = {topic: our_view(log_of(manager, topic)) for topic in TOPICS}
    manager.shutdown()
    manager = open_ours(copy, config_of)
    assert {topic: our_view(log_of(manager, topic)) for topic in TOPICS} == views
    manager.shutdown()


def end_of_last_batch(log: UnifiedLog) -> int:
    """The offset after the last batch: truncation within a batch removes all of it."""
    ends = [
        batch.next_offset for segment in log.segments for batch in batches(Path(segment.path).read_bytes())
    ]
    return max(ends)


def test_kafkas_log_is_compacted(left: LeftDirectory, copy: Path) -> None:
    """No key loses its last value, no record is added, and the view of read_committed stays right."""
    manager = open_ours(copy, config_of)
    for topic in ("compacted", "compacted-and-deleted"):
        log = log_of(manager, topic)
        before = our_view(log)
        size = log.size
        compact(manager, [topic])
        after = our_view(log)
        assert log.size < size
        assert after[2:] == before[2:]
        assert after.records.items() <= before.records.items()
        assert last_values(after.committed) == last_values(before.committed)
        end = log.segments[-1].base_offset
        kept = [seen.key for offset, seen in after.committed.items() if offset < end]
        assert len(kept) == len(set(kept))
    manager.shutdown()

"""One partition in a LogManager and its model: each step is applied to both, and then they are compared.

`LogHarness` can do every operation of a broker on a log; a random generator decides the details. It raises
AssertionError where log and model disagree. `test_log_model` runs long random sequences with it, `test_faults`
short ones in which file operations fail.
"""

from random import Random
from typing import Final

import pytest

from barnabas.storage.cleaner.manager import LogCleanerManager
from barnabas.storage.env import make_directory
from barnabas.storage.errors import OffsetOutOfRangeError
from barnabas.storage.log.checkpoints import CLEAN_SHUTDOWN
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import FetchIsolation, LogStartOffsetIncrementReason
from tests.storage.fault_env import FaultEnv
from tests.storage.helpers import TOPIC_ID, small_config
from tests.storage.log_appends import LogAppends, SteeredEnv
from tests.storage.log_checks import check_files, check_physical, check_retention, committed_data, decode
from tests.storage.log_compaction import compact
from tests.storage.log_model import LogModel

EXPIRATION_MS: Final = 500_000

CONFIGS: Final[tuple[dict[str, object], ...]] = (
    {},
    {"segment_bytes": 3000, "index_interval_bytes": 4096},
    {"segment_bytes": 600, "index_interval_bytes": 0, "max_message_bytes": 500},
    {
        "segment_bytes": 2000,
        "segment_index_bytes": 36,
        "index_interval_bytes": 0,
    },  # full after two or three entries
    {"message_timestamp_type": "LogAppendTime"},
    {"compression_type": "lz4"},
    {"compression_type": "uncompressed", "cleanup_policy": frozenset({"compact"})},
    {"compression_type": "gzip", "cleanup_policy": frozenset({"compact", "delete"})},
    {"segment_ms": 60, "segment_jitter_ms": 20},
    {"preallocate": True},
    {"file_delete_delay_ms": 0, "message_timestamp_before_max_ms": 10, "message_timestamp_after_max_ms": 10},
    {"flush_messages": 1},
)


class LogHarness(LogAppends):
    """The log `t-0` and its model. Steps are the public methods that take a `Random`."""

    ends_within_steps = True  # whether a step may itself kill and crash

    def __init__(self, seed: int, env: SteeredEnv | None = None, log_dir: str = "/logs") -> None:
        self.env = env or FaultEnv(seed=seed)
        self.log_dir = log_dir
        make_directory(self.env, log_dir)
        self.model = LogModel()
        self.config = small_config(retention_bytes=-1, retention_ms=-1)
        self.epoch = 0
        self.counter = 0
        self.pending = []
        self.truncating_to: int | None = None  # the new log end offset during a truncation
        self.truncates_all = False  # whether a truncation begins by removing every segment
        self.open()

    def open(self) -> None:
        self.manager = LogManager(
            self.env,
            [self.log_dir],
            lambda _topic: self.config,
            producer_id_expiration_ms=EXPIRATION_MS,
            max_open_segments=3,
        )
        self.manager.cleaner = self.cleaner = LogCleanerManager(self.env, self.manager)
        self.manager.dirs.lock()
        self.manager.load_logs()
        self.log: UnifiedLog = self.manager.get_or_create_log("t", 0, TOPIC_ID)

    # -- watermarks, rolls, flushes --

    def move_high_watermark(self, rng: Random) -> None:
        """Mostly to the end, else to a batch boundary before it."""
        model = self.model
        ahead = [at for at in model.boundaries if model.high_watermark <= at <= model.end]
        offset = model.end if rng.random() < 0.6 or not ahead else rng.choice(ahead)
        assert self.log.update_high_watermark(offset) == offset
        model.high_watermark = offset

    def roll(self, _rng: Random) -> None:
        self.log.roll()

    def flush(self, _rng: Random) -> None:
        self.log.flush()
        self.model.flushed()
        assert self.log.unflushed_messages == 0

    def flush_in_steps(self, rng: Random) -> None:
        """Appends, a roll or a truncation run during the sync, so that the log differs from what the sync covers."""
        end, job = self.model.end, self.log.prepare_flush()
        for _ in range(rng.randint(1, 3)):
            rng.choice((self.append, self.append_idempotent, self.roll, self.end_transaction, self.retain))(
                rng
            )
        was_cut = False
        if rng.random() < 0.3:
            # The log end would not show it: markers follow for producers that the truncation removed.
            before = self.log._local._generation
            self.truncate(rng)
            was_cut = self.log._local._generation != before
            self.append(rng)
        job.run()
        self.log.complete_flush(job)
        if not was_cut:
            self.model.durable_end = max(self.model.durable_end, end)

    def flush_what_is_due(self, _rng: Random) -> None:
        for log in self.manager.logs_to_flush():
            assert log is self.log
            self.flush(_rng)

    # -- reading --

    def read(self, rng: Random) -> None:
        """Read from any offset, of any size, up to the end of the isolation level."""
        model, isolation = self.model, rng.choice(tuple(FetchIsolation))
        offset = rng.choice((model.start, rng.randint(model.start, model.end)))
        max_bytes, min_one = rng.choice((1, 200, 700, 5000)), rng.random() < 0.7
        info = self.log.read(offset, max_bytes, isolation, min_one_message=min_one)
        assert (info.high_watermark, info.log_start_offset) == (model.high_watermark, model.start)
        assert info.fetch_offset in ((offset,) if info.records.size else (offset, model.end))
        limit = self.limit(isolation)
        data = info.records.read()
        assert len(data) == info.records.size
        whole = list(decode(data))
        readable = [record.offset for record in model.visible(offset, limit)]
        if not whole:
            assert not readable or not min_one
            return
        assert len(data) <= max_bytes or (min_one and len(whole) == 1)
        end = whole[-1].next_offset
        assert end <= limit
        found = [record.offset for batch in whole for record in batch.records() if record.offset >= offset]
        assert found == [at for at in readable if at < end]

    def limit(self, isolation: FetchIsolation) -> int:
        """The end of what a reader of this isolation level sees."""
        if isolation is FetchIsolation.LOG_END:
            return self.model.end
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.model.high_watermark
        return self.log.last_stable_offset

    def read_through(self, rng: Random) -> None:
        """Consume everything from an offset on, with small fetches, without aborted transactions."""
        model = self.model
        offset = rng.choice((model.start, rng.randint(model.start, model.end)))
        stable = self.log.last_stable_offset
        found = committed_data(self.log, offset, rng.choice((1, 300, 900)))
        wanted = model.data(offset, stable, committed_only=True)
        assert found == {at: (record.timestamp, record.key, record.value) for at, record in wanted.items()}

    def read_outside(self, _rng: Random) -> None:
        for offset in (self.model.start - 1, self.model.end + 1):
            with pytest.raises(OffsetOutOfRangeError):
                self.log.read(offset, 100, FetchIsolation.LOG_END, min_one_message=True)

    def find_by_time(self, rng: Random) -> None:
        timestamp = self.env.time_ms + rng.randint(-60, 40)
        records = list(self.model.visible(self.model.start, self.model.end))
        expected = next((record for record in records if record.timestamp >= timestamp), None)
        found = self.log.fetch_offset_by_timestamp(timestamp)
        assert (found and (found.offset, found.timestamp)) == (expected and expected[:2])
        youngest = self.log.offset_of_max_timestamp()
        if youngest is not None and youngest.offset >= self.model.start and not self.model.compacted:
            first = max(records, key=lambda record: (record.timestamp, -record.offset))
            assert (youngest.timestamp, youngest.offset) == (first.timestamp, first.offset)

    def find_by_epoch(self, _rng: Random) -> None:
        for epoch in range(-1, self.epoch + 2):
            found = self.log.end_offset_for_epoch(epoch)
            assert (found and (found.epoch, found.end_offset)) == self.model.end_offset_for(epoch)

    # -- truncation and deletion --

    def truncate(self, rng: Random) -> None:
        """Truncate as a follower, at a batch boundary that the leader names, sometimes below the log start."""
        lowest = max(self.model.start if rng.random() < 0.95 else 0, self.model.compacted_to)
        offsets = [at for at in self.model.boundaries if at >= lowest]
        offset = rng.choice(offsets[-8:]) if offsets else self.model.end
        is_full = offset < self.log.segments[0].base_offset
        starts_earlier = offset < self.model.start
        self.truncating_to, self.truncates_all = offset, is_full
        self.report_state()
        self.manager.truncate_to(self.log, offset)
        self.truncating_to, self.truncates_all = None, False
        if is_full:
            self.model.start_anew_at(offset)
        else:
            self.model.cut_to(offset)
            self.model.expire_in_snapshots(self.env.time_ms - EXPIRATION_MS)
        if starts_earlier:
            self.model.checkpointed_start = self.model.start
        check_physical(self.log, self.model)
        self.end_transactions_of_lost_producers()

    def truncate_fully(self, rng: Random) -> None:
        offset = self.model.end + rng.randint(0, 50)
        self.truncating_to, self.truncates_all = offset, True
        self.report_state()
        self.manager.truncate_fully_and_start_at(self.log, offset)
        self.truncating_to, self.truncates_all = None, False
        self.model.start_anew_at(offset)
        self.checkpointed()
        check_physical(self.log, self.model)

    def delete_records(self, rng: Random) -> None:
        offset = rng.randint(self.model.start, self.model.high_watermark)
        moved = self.log.maybe_increment_log_start_offset(
            offset, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION
        )
        assert moved == (offset > self.model.start)
        if moved:
            self.model.move_start(offset)
        if self.model.high_watermark < self.model.end:
            with pytest.raises(OffsetOutOfRangeError):
                self.log.maybe_increment_log_start_offset(
                    self.model.high_watermark + 1, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION
                )

    def retain(self, rng: Random) -> None:
        """Retention by size, by time and below the log start."""
        config = self.config._replace(
            retention_bytes=rng.choice((-1, -1, 0, 1500)), retention_ms=rng.choice((-1, -1, 0, 10, 10_000))
        )
        self.log.update_config(config)
        before = [(segment, segment.base_offset, segment.size) for segment in self.log.segments]
        deleted = self.log.delete_old_segments()
        check_retention(self.log, config, before, deleted, self.env.time_ms)
        self.log.update_config(self.config)
        start = self.log.log_start_offset
        assert start == max(self.model.start, self.log.segments[0].base_offset)
        if start > self.model.start:
            self.model.move_start(start)
        self.model.retained_since_flush |= deleted > 0

    def compact(self, rng: Random) -> None:
        compact(self, rng)

    def remove_due_files(self, _rng: Random) -> None:
        self.env.time_ms += 60_000
        for deletion in self.manager.take_due_deletions():
            deletion.run()

    def expire_producers(self, rng: Random) -> None:
        if rng.random() < 0.3:
            self.env.time_ms += EXPIRATION_MS
        self.manager.remove_expired_producers()
        self.model.expire(self.env.time_ms - EXPIRATION_MS)

    def pass_time(self, rng: Random) -> None:
        self.env.time_ms += rng.randint(1, 50)

    def change_config(self, rng: Random) -> None:
        self.config = small_config(**{"retention_bytes": -1, "retention_ms": -1, **rng.choice(CONFIGS)})
        self.manager.update_configs(lambda _: self.config)

    # -- stopping --

    def checkpointed(self) -> None:
        self.model.checkpointed_start = self.model.start
        self.model.checkpointed_high_watermark = self.model.high_watermark

    def checkpoint(self, _rng: Random) -> None:
        self.manager.dirs.checkpoint_all()
        self.checkpointed()

    def rename_and_delete(self, rng: Random) -> None:
        """Delete the topic, or set it aside as stray, and create another of its name, which inherits nothing."""
        if rng.random() < 0.8:
            return
        held = self.log.read(self.model.start, 1000, FetchIsolation.LOG_END, min_one_message=True).records
        before = held.read()
        assert (self.manager.delete_log if rng.random() < 0.5 else self.manager.mark_stray)("t", 0)
        assert held.read() == before
        if rng.random() < 0.5:
            self.manager.dirs.checkpoint_all()
        self.model = LogModel()
        self.log = self.manager.get_or_create_log("t", 0, TOPIC_ID)

    def stop_cleanly(self, _rng: Random) -> None:
        self.manager.shutdown()
        self.check_stopped()
        self.checkpointed()
        self.model.flushed()
        epochs, start = self.model.epochs, self.model.start
        epochs = [
            entry for entry in epochs if entry[1] < self.model.end
        ]  # Kafka removes those without a record too
        self.open()
        assert self.log.truncated_bytes == 0
        assert self.log.recovery_point == self.model.end
        self.reopened(self.model.end)
        assert (self.model.start, self.model.epochs) == (start, epochs)

    def check_stopped(self) -> None:
        assert self.env.exists(f"{self.log_dir}/{CLEAN_SHUTDOWN}")
        check_files(self.env, f"{self.log_dir}/t-0", self.model)

    def end_process(self) -> None:
        assert isinstance(self.env, FaultEnv)
        self.env.kill()

    def end_machine(self, rng: Random | None) -> None:
        assert isinstance(self.env, FaultEnv)
        self.env.crash(rng)

    def report_state(self) -> None:
        """Hook: the model has the next step, which a subclass reports to another process."""

    def kill(self, _rng: Random) -> None:
        self.end_process()
        bases = [int(name[:20]) for name in self.env.listdir(f"{self.log_dir}/t-0") if name.endswith(".log")]
        self.open()
        assert self.log.truncated_bytes == 0 or "preallocate" in repr(self.config)
        self.reopened(self.model.end)
        assert self.model.start == max(self.model.checkpointed_start, min(bases))

    def crash(self, rng: Random) -> None:
        """Crash the machine: sometimes all unsynced bytes are lost, sometimes some of them."""
        start, was_retained = self.model.start, self.model.retained_since_flush
        self.end_machine(None if rng.random() < 0.3 else rng)
        self.open()
        self.reopened(self.model.durable_end)
        if was_retained:
            # Deleted segments may be gone from the disk before the snapshot that has their producers is on it.
            self.model.give_up_producers_before(start)
        self.end_transactions_of_lost_producers()

    def end_transactions_of_lost_producers(self) -> None:
        for producer_id in sorted(self.model.given_up & set(self.model.producers)):
            known = self.model.producers[producer_id]
            if known.open_batches:
                self.append_marker(producer_id, known.epoch + 1, commit=False)

    def reopened(self, required_end: int) -> None:
        """Check that everything before `required_end` is there, and all of it was appended; update the model."""
        log, model = self.log, self.model
        end = log.log_end_offset
        assert required_end <= end
        assert model.checkpointed_start <= log.log_start_offset <= max(model.start, model.checkpointed_start)
        is_emptied = (
            end == log.segments[0].base_offset == model.checkpointed_start and model.durable_end < end
        )
        if is_emptied:
            # Records were deleted up to there, and the crash lost the records after it and the snapshots.
            model.end = max(end, model.end)
        assert end <= model.end
        self.adopt(end, check_physical(log, model, required_end=required_end))
        if is_emptied:
            # Not before: the model's replay brings back producers that it had removed as expired.
            model.given_up.update(model.producers)

    def adopt(self, end: int, found: set[int]) -> None:
        """Sets the model to the log after a restart, where more than one outcome is allowed.

        Segments are synced one by one: a crash may lose the end of one and keep the next, as in Kafka.
        """
        log, model = self.log, self.model
        model.batches = [
            batch
            for batch in model.batches
            if batch.base_offset < max(model.durable_end, log.segments[0].base_offset)
            or batch.base_offset in found | model.compacted
        ]
        model.cut_to(end)
        model.expire_in_snapshots(self.env.time_ms - EXPIRATION_MS)
        model.start = log.log_start_offset
        model.present = {at for at in found if at >= model.start}
        model.durable_end = min(model.durable_end, end)
        model.epochs = log.leader_epoch_cache.entries
        # A deletion of records without a checkpoint is undone, but the epoch cache keeps it.
        known_from = max(model.start, min(model.deleted_up_to, model.epochs[0][1] if model.epochs else end))
        for batch in model.batches:
            if known_from <= batch.base_offset and batch.base_offset in model.present:
                assert log.leader_epoch_cache.epoch_for_offset(batch.base_offset) == batch.epoch
        model.high_watermark = max(min(model.checkpointed_high_watermark, end), model.start)

    # -- checks --

    def check(self) -> None:
        """Check what holds after every step."""
        log, model = self.log, self.model
        assert not log.is_failed
        assert (log.log_start_offset, log.log_end_offset) == (model.start, model.end)
        assert log.high_watermark == model.high_watermark
        low, high = model.last_stable_offsets
        assert low <= log.last_stable_offset <= high
        assert log.leader_epoch_cache.entries == model.epochs
        assert log.recovery_point <= model.durable_end
        assert self.env.maps <= 2 * 3  # of as many segments as the limit allows
        for producer_id, known in model.producers.items():
            found = log.producer_state_manager.producers.get(producer_id)
            if producer_id in model.given_up or known.doubtful:
                continue
            assert found is not None, f"producer {producer_id} is forgotten"
            assert found.producer_epoch == known.epoch
            if known.batches:
                last = known.batches[-1]
                assert (found.last_sequence, found.last_offset) == (last.last_sequence, last.next_offset - 1)
            assert found.current_txn_first_offset == (
                -1 if known.txn_first_offset is None else known.txn_first_offset
            )

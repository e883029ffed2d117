"""Our storage engine at work in a log directory, with idempotent and transactional producers.

    python -m tests.conformance.handover.our_side DIRECTORY SEED

works in a directory until it is killed, and prints the log end offset after each append.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from random import Random

from barnabas.config.log_config import LogConfig
from barnabas.protocol.records.batch import CompressionType, build_batch
from barnabas.protocol.records.control import end_transaction_marker
from barnabas.protocol.records.record import Record
from barnabas.storage.cleaner.cleaner import clean
from barnabas.storage.cleaner.log_to_clean import CleanerLimits, SegmentSurvey, cleaning_plan
from barnabas.storage.cleaner.manager import LogCleanerManager
from barnabas.storage.env import RealEnv
from barnabas.storage.log.segment_swap import SwapPreparation
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import AppendOrigin, LogAppendInfo, LogStartOffsetIncrementReason

OUR_PRODUCERS = 900_000
"""The first of our producer ids; those of Apache Kafka stay below."""

LIMITS = CleanerLimits(1 << 22, 0.9, 1 << 16, float("inf"))


def open_ours(directory: Path, config_of: Callable[[str], LogConfig]) -> LogManager:
    """Opens all logs of a directory that Apache Kafka or ours has left, as their only replica."""
    manager = LogManager(RealEnv(), [str(directory)], config_of)
    manager.dirs.lock()
    assert manager.dirs.load_meta_properties() is not None
    manager.load_logs()
    for log in manager.all_logs():
        log.update_high_watermark(log.log_end_offset)
    return manager


def log_of(manager: LogManager, topic: str, partition: int = 0) -> UnifiedLog:
    """The log of a partition, which must exist."""
    log = manager.get_log(topic, partition)
    assert log is not None
    return log


class Author:
    """One producer that appends directly to a log, and resumes with the epoch and sequence found there."""

    def __init__(self, log: UnifiedLog, producer_id: int) -> None:
        known = log.producer_state_manager.producers.get(producer_id)
        self.log = log
        self.producer_id = producer_id
        self.epoch = known.producer_epoch if known else 0
        self.sequence = known.last_sequence + 1 if known else 0

    def batch(self, records: Iterable[Record], *, codec: int = 0, transactional: bool = False) -> bytes:
        """Builds the next batch as a client does."""
        return build_batch(
            list(records),
            compression=CompressionType(codec),
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            is_transactional=transactional,
        )

    def write(
        self, records: Iterable[Record], *, codec: int = 0, transactional: bool = False
    ) -> LogAppendInfo:
        """Appends a batch as the leader in the log's latest epoch."""
        records = list(records)
        info = append(self.log, self.batch(records, codec=codec, transactional=transactional))
        self.sequence += len(records)
        return info

    def end_transaction(self, *, commit: bool) -> LogAppendInfo:
        """Appends a transaction marker."""
        return end_transaction(self.log, self.producer_id, self.epoch, commit=commit)

    def next_epoch(self) -> None:
        """Bumps the epoch, as another InitProducerId does."""
        self.epoch += 1
        self.sequence = 0


def append(log: UnifiedLog, data: bytes, origin: AppendOrigin = AppendOrigin.CLIENT) -> LogAppendInfo:
    """Appends batches and advances the high watermark."""
    info = log.append_as_leader(data, max(log.latest_epoch, 0), origin)
    log.update_high_watermark(log.log_end_offset)
    return info


def end_transaction(log: UnifiedLog, producer_id: int, epoch: int, *, commit: bool) -> LogAppendInfo:
    """Appends a marker with the producer's last coordinator epoch."""
    known = log.producer_state_manager.producers.get(producer_id)
    marker = end_transaction_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=epoch,
        coordinator_epoch=max(known.coordinator_epoch if known else 0, 0),
        timestamp=int(time.time() * 1000),
    )
    return append(log, marker, AppendOrigin.COORDINATOR)


# -- a turn at a directory --


def fill(log: UnifiedLog, seed: int, *, rounds: int = 120, keys: int = 150) -> None:
    """Writes with four producers in turn, two of them in transactions; every codec, epoch bumps, repeated keys."""
    random = Random(f"{log.name} {seed}")
    plain = [Author(log, OUR_PRODUCERS + number) for number in range(2)]
    transactional = [Author(log, OUR_PRODUCERS + 10 + number) for number in range(2)]
    for _ in range(rounds):
        random.choice(plain).write(some_records(random, keys), codec=random.randrange(5))
        author = random.choice(transactional)
        for _ in range(random.randrange(3)):
            author.write(some_records(random, keys), codec=random.randrange(5), transactional=True)
        if random.random() < 0.5:
            author.end_transaction(commit=random.random() < 0.6)
        if random.random() < 0.05:
            random.choice(plain).next_epoch()
    for author in transactional:
        author.end_transaction(commit=random.random() < 0.5)


def some_records(random: Random, keys: int) -> list[Record]:
    """Records that a compacted topic accepts too: repeated keys, tombstones, headers, timestamps out of order."""
    now_ms = int(time.time() * 1000)
    return [
        Record(
            b"key-%d" % random.randrange(keys),
            None if random.random() < 0.1 else random.randbytes(random.randrange(800)),
            now_ms - random.randrange(60_000),
            [(f"h{number}", random.randbytes(5)) for number in range(random.randrange(3))],
        )
        for _ in range(random.randrange(1, 30))
    ]


def delete_records(log: UnifiedLog, offset: int) -> None:
    """Advances the log start offset as DeleteRecords does, and deletes segments below it."""
    log.maybe_increment_log_start_offset(offset, LogStartOffsetIncrementReason.CLIENT_RECORD_DELETION)
    log.delete_old_segments()


def compact(manager: LogManager, topics: Iterable[str]) -> None:
    """Compacts all but the last segment of logs, in this process in place of a worker process."""
    env = RealEnv()
    manager.cleaner = cleaner = LogCleanerManager(env, manager)
    for topic in topics:
        cleaner.request(log_of(manager, topic))
        while cleaner.is_requested((topic, 0)):
            found = cleaner.grab_filthiest_log()
            assert found is not None
            survey = SegmentSurvey(env, found)
            survey.run()
            result = clean(env, cleaning_plan(found, survey.segments, LIMITS, env.now_ms()))
            for cleaned in result.segments:
                SwapPreparation(env, found.log.directory, cleaned).run()
                assert found.log.replace_segments(cleaned)
            cleaner.done_cleaning(found, result.next_first_dirty_offset)


def work_until_killed(directory: Path, seed: int) -> None:
    """Writes without end, and prints each log end offset."""
    from tests.conformance.handover.kafka_side import config_of

    manager = open_ours(directory, config_of)
    for number in count():
        for topic in ("ours", "ours-compacted", "codec-none"):
            log = log_of(manager, topic)
            fill(log, seed + number, rounds=3)
            if number % 5 == 4:
                log.roll()
            print(topic, log.log_end_offset, flush=True)
        if number % 7 == 6:
            manager.dirs.checkpoint_all()


if __name__ == "__main__":
    work_until_killed(Path(sys.argv[1]), int(sys.argv[2]))

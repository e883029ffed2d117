"""A process that appends, rolls, retains and compacts three logs, as fast as it can, until its input is closed.

    python -m tests.pipeline.log_reading.busy_log DIRECTORY

    plain-0      values tell their offset; retention takes the oldest segments
    txn-0        rounds of six offsets: two records of each of two producers, then the end of each one's transaction
    compacted-0  the key is the offset modulo KEYS; compaction and the deletion of what it replaced

The expected contents follow from the offsets alone.
"""

from __future__ import annotations

import select
import sys
from pathlib import Path
from random import Random

from barnabas.protocol.records.compression import CompressionType
from barnabas.storage.env import RealEnv, RealFile
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.log_manager import LogManager
from barnabas.storage.offsets import AppendOrigin
from tests.storage.compacting import CompactionHarness, compacted_config, put
from tests.storage.helpers import TOPIC_ID, end_txn, make_batch, small_config

KEYS = 25
CODECS = tuple(CompressionType)


class UnsyncedFile(RealFile):
    __slots__ = ()

    def sync(self) -> None:
        """Does nothing: the machine stays up."""


class UnsyncedEnv(RealEnv):
    __slots__ = ()

    def open(self, path: str, *, create: bool = False, write: bool = True) -> RealFile:
        file = super().open(path, create=create, write=write)
        fd, file.fd = file.fd, -1
        return UnsyncedFile(fd)

    def sync_dir(self, path: str) -> None:
        """Nothing."""


def aborts(producer: int, number: int) -> bool:
    """Whether a producer's transaction in a round is aborted."""
    return number % (3 + producer) == 0


def value(offset: int) -> bytes:
    return b"%d " % offset * (1 + offset % 40)


class Busy:
    def __init__(self, directory: Path) -> None:
        self.rng = Random(7)
        config = small_config(
            segment_bytes=16_384, retention_bytes=131_072, retention_ms=-1, file_delete_delay_ms=0
        )
        self.manager = LogManager(UnsyncedEnv(), [str(directory / "logs")], lambda _topic: config)
        self.manager.dirs.lock()
        self.manager.load_logs()
        self.plain = self.manager.get_or_create_log("plain", 0, TOPIC_ID)
        self.txn = self.manager.get_or_create_log("txn", 0, TOPIC_ID)
        self.rounds = 0
        cleaned = compacted_config(segment_bytes=4096, file_delete_delay_ms=0)
        self.compacted = CompactionHarness(UnsyncedEnv(), cleaned, log_dir=str(directory / "compacted"))

    def step(self) -> None:
        self.append_plain()
        self.append_transactions()
        for _ in range(self.rng.randrange(8)):
            log = self.compacted.log
            offset = log.log_end_offset
            put(log, b"%d" % (offset % KEYS), value(offset), compression=self.rng.choice(CODECS))
        if self.rng.random() < 0.1:
            self.keep_house()

    def append_plain(self) -> None:
        start = self.plain.log_end_offset
        values = [value(offset) for offset in range(start, start + self.rng.randrange(1, 9))]
        self.append(self.plain, make_batch(*values, compression=self.rng.choice(CODECS)))

    def append(self, log: UnifiedLog, data: bytes) -> None:
        log.append_as_leader(data, 0)
        log.update_high_watermark(log.log_end_offset)

    def append_transactions(self) -> None:
        start, number = self.txn.log_end_offset, self.rounds
        assert start == 6 * number
        for producer in (0, 1):
            values = (value(start + 2 * producer), value(start + 2 * producer + 1))
            sequence = (10 + producer, 0, 2 * number)
            self.append(self.txn, make_batch(*values, producer=sequence, transactional=True))
        for producer in (0, 1):
            marker = end_txn(10 + producer, 0, commit=not aborts(producer, number))
            self.txn.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR)
            self.txn.update_high_watermark(self.txn.log_end_offset)
        self.rounds += 1

    def keep_house(self) -> None:
        for log in (self.plain, self.txn):
            log.delete_old_segments()
        found = self.compacted.cleaner.grab_filthiest_log() if self.compacted.log.segment_count > 3 else None
        if found is not None:  # often the log is not dirty enough since the last compaction
            self.compacted.swap(found, self.compacted.clean(found))
        for manager in (self.manager, self.compacted.manager):
            for deletion in manager.take_due_deletions():
                deletion.run()


def main() -> None:
    busy = Busy(Path(sys.argv[1]))
    for _ in range(200):
        busy.step()
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        busy.step()


if __name__ == "__main__":
    main()

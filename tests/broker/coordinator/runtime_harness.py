"""RuntimeHarness: a runtime over logs in memory that reject, hold back or lose batches, with a toy shard and a clock.

The shard counts: a record's key names a counter, its value is the counter's new value. In a transaction the value
takes effect once the transaction is committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from barnabas.broker.coordinator.dependencies import RuntimeDependencies
from barnabas.broker.coordinator.loading import LoadSummary
from barnabas.broker.coordinator.partition_log import LogLimits
from barnabas.broker.coordinator.records import GROUP_RECORDS, CoordinatorRecord, tombstone
from barnabas.broker.coordinator.runtime_probe import RuntimeProbe
from barnabas.broker.coordinator.shard import CoordinatorResult, ShardContext
from barnabas.broker.coordinator.shard_runner import ShardRunner
from barnabas.broker.coordinator.txn import TransactionMarker
from barnabas.broker.metadata.image import MetadataDelta, MetadataImage
from barnabas.broker.pending import Pending
from barnabas.broker.replica.append import AppendError, AppendResult
from barnabas.broker.waiting.blocking import BlockingRunner, InlineRunner
from barnabas.config.broker_config import BrokerConfig
from barnabas.protocol.errors import ApiError, ErrorCode
from barnabas.protocol.messages.group_state import OffsetCommitKey, OffsetCommitValue
from barnabas.protocol.records.batch import RecordBatch, stamp
from barnabas.storage.env import RealFile
from barnabas.storage.errors import OutOfResourcesError
from barnabas.storage.log.txn_verification import VerificationGuard
from barnabas.storage.offsets import FileRecords, LogAppendInfo
from tests.broker.fakes import ManualTimer
from tests.broker.logs import START_MS

MAX_BATCH_BYTES = 1_000
WRITE_TIMEOUT_MS = 5_000


def counter(name: str, value: int) -> CoordinatorRecord:
    return CoordinatorRecord(
        OffsetCommitKey(group=name, topic="", partition=0),
        OffsetCommitValue(offset=value, metadata="", commit_timestamp=0),
        3,
    )


def no_counter(name: str) -> CoordinatorRecord:
    return tombstone(OffsetCommitKey(group=name, topic="", partition=0))


class Counters:
    """A shard. `poisoned` is the name of a counter that it cannot replay: a bug."""

    poisoned: str | None = None

    def __init__(self, context: ShardContext) -> None:
        self.context = context
        self.counters: dict[str, int] = {}
        self.open: dict[int, dict[str, int | None]] = {}
        self.offsets: list[int] = []
        self.events: list[str] = []

    def replay(self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord) -> None:
        assert isinstance(record.key, OffsetCommitKey)
        name = record.key.group
        self.offsets.append(offset)
        if name == self.poisoned:
            raise RuntimeError("it is poisoned")
        value = record.value.offset if isinstance(record.value, OffsetCommitValue) else None
        if producer_id >= 0:
            self.open.setdefault(producer_id, {})[name] = value
        else:
            self._set(name, value)

    def replay_end_transaction_marker(
        self, producer_id: int, producer_epoch: int, *, committed: bool
    ) -> None:
        for name, value in self.open.pop(producer_id, {}).items():
            if committed:
                self._set(name, value)

    def _set(self, name: str, value: int | None) -> None:
        if value is None:
            self.counters.pop(name, None)
        else:
            self.counters[name] = value

    def on_loaded(self) -> None:
        self.events.append("loaded")

    def on_unloaded(self) -> None:
        self.events.append("unloaded")

    def on_new_epoch(self) -> None:
        self.events.append("epoch")

    def on_new_metadata_image(self, image: MetadataImage, delta: MetadataDelta) -> None:
        self.events.append("metadata")

    # ---- operations

    def set(self, name: str, *values: int) -> CoordinatorResult[object]:
        """Sets a counter to one value after the other; returns its former value."""
        was = self.counters.get(name)
        return CoordinatorResult(was, [counter(name, value) for value in values])

    def state(self) -> tuple[dict[str, int], dict[int, dict[str, int | None]]]:
        return self.counters, self.open


class BytesFile(RealFile):
    """A file in memory that can only be read."""

    __slots__ = ("_data", "errno")

    def __init__(self, data: bytes) -> None:
        super().__init__(-1)
        self._data = data
        self.errno = 0

    def pread(self, length: int, position: int) -> bytes:
        if self.errno:
            raise OSError(self.errno, os.strerror(self.errno))
        return self._data[position : position + length]


class MemoryLogs:
    """PartitionLogs with one partition in memory.

    `refusal`: the error of checks before an append. `failure`: the error of the append. `lost`: the
    append fails after it was written. `holds`: appended batches are committed by `commit` only. `reading` fails loads,
    `errno` the reads of the log. `behind`: the loaded records are committed when it completes.
    """

    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.next_offset = 0
        self.refusal: ApiError | None = None
        self.failure: ErrorCode | None = None
        self.is_full = False
        self.holds = False
        self.reading: ApiError | OutOfResourcesError | None = None
        self.errno = 0
        self.batch_refusal: ApiError | None = None
        self.guards: list[VerificationGuard | None] = []
        self.verifying = False
        self.disk_errors: list[OSError] = []
        self.behind: Pending[object] | None = None
        self._held: list[tuple[Pending[AppendResult], AppendResult]] = []

    def check(self, partition: int, *, is_needed: bool = True) -> LogLimits:
        if self.refusal is not None:
            raise self.refusal
        if self.is_full and not is_needed:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        return LogLimits(self.next_offset, MAX_BATCH_BYTES)

    def check_batch(self, partition: int, batch: bytes, guard: VerificationGuard | None) -> None:
        if self.batch_refusal is not None:
            raise self.batch_refusal

    def append(
        self,
        partition: int,
        batch: bytes,
        *,
        guard: VerificationGuard | None = None,
        transaction_version: int = 0,
    ) -> AppendResult | Pending[AppendResult]:
        self.guards.append(guard)
        if self.failure is not None:
            return AppendError(self.failure, "the log refuses")
        assert len(batch) <= MAX_BATCH_BYTES
        result = LogAppendInfo(self.next_offset, self.write(batch), 0)
        if not self.holds:
            return result
        pending: Pending[AppendResult] = Pending()
        self._held.append((pending, result))
        return pending

    def write(self, batch: bytes) -> int:
        """Appends without checks; returns the last offset."""
        stamped = bytearray(batch)
        stamp(stamped, 0, self.next_offset, 0)
        self.batches.append(bytes(stamped))
        self.next_offset += RecordBatch(batch).record_count
        return self.next_offset - 1

    @property
    def held(self) -> int:
        return len(self._held)

    def commit(self, count: int | None = None, error: ErrorCode | None = None) -> None:
        """Commits the first `count` held batches, or fails them."""
        held, self._held = self._held[:count], [] if count is None else self._held[count:]
        for pending, result in held:
            pending.complete(result if error is None else AppendError(error, "lost"))

    def uncommitted(self, partition: int) -> Pending[object] | None:
        return self.behind

    def start_verification(
        self, partition: int, producer_id: int, epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard | None:
        if self.refusal is not None:
            raise self.refusal
        return VerificationGuard() if self.verifying else None

    def contents(self, partition: int) -> Sequence[FileRecords]:
        if self.reading is not None:
            raise self.reading
        found = []
        for batch in self.batches:
            file = BytesFile(batch)
            file.errno = self.errno
            found.append(FileRecords(file, 0, len(batch)))
        return found

    def read_failed(self, partition: int, error: OSError) -> None:
        self.disk_errors.append(error)

    def records(self) -> list[tuple[int, int, str | None, int | None]]:
        """(offset, producer id, counter, value) of every record; control records have no counter."""
        found: list[tuple[int, int, str | None, int | None]] = []
        for data in self.batches:
            batch = RecordBatch(data)
            for record in batch.records():
                key = record.key or b""
                name = None if batch.is_control else key[4 : 4 + key[3]].decode()
                value = int.from_bytes(record.value[2:10], "big") if record.value and name else None
                found.append((record.offset, batch.producer_id, name, value))
        return found


class WatchedProbe(RuntimeProbe):
    """RuntimeProbe that records the loads."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[LoadSummary] = []

    def loaded(self, summary: LoadSummary) -> None:
        super().loaded(summary)
        self.loads.append(summary)


class RuntimeHarness:
    """One runner of counters, loaded."""

    def __init__(
        self, *, linger_ms: int = -1, runner: BlockingRunner | None = None, logs: MemoryLogs | None = None
    ) -> None:
        self.logs = logs or MemoryLogs()
        self.clock = ManualTimer()
        self.probe = WatchedProbe()
        self.shards: list[Counters] = []
        self.dependencies: RuntimeDependencies[Counters] = RuntimeDependencies(
            topic="counters",
            new_shard=self._new_shard,
            records=GROUP_RECORDS,
            logs=self.logs,
            config=BrokerConfig.of(None, overrides=[]),
            loop=self.clock,
            runner=runner or InlineRunner(),
            now_ms=lambda: START_MS,
            image=MetadataImage.empty,
            load_buffer_size=lambda: 100,
            write_timeout_ms=lambda: WRITE_TIMEOUT_MS,
            linger_ms=lambda: linger_ms,
            is_needed=lambda record: record.value is None,
            probe=self.probe,
        )
        self.runner = ShardRunner(self.dependencies, 0, 7)
        self.runner.load()

    def _new_shard(self, context: ShardContext) -> Counters:
        self.shards.append(Counters(context))
        return self.shards[-1]

    @property
    def shard(self) -> Counters:
        found = self.runner.shard
        assert found is not None, self.runner.state
        return found

    def end_pass(self) -> None:
        """Runs the calls of one pass of the loop."""
        self.clock.run_soon()


def marker(producer_id: int, *, committed: bool, epoch: int = 0) -> TransactionMarker:
    return TransactionMarker(producer_id, epoch, 7, committed, 1)


def replayed(records: Iterable[tuple[int, int, str | None, int | None]]) -> dict[str, int]:
    """The counters, without open transactions."""
    counters: dict[str, int] = {}
    for _, _, name, value in records:
        assert name is not None
        if value is None:
            counters.pop(name, None)
        else:
            counters[name] = value
    return counters

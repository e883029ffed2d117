"""Batches, logs and configurations that the storage tests have in common."""

from collections.abc import Iterable

from barnabas.config.log_config import LogConfig
from barnabas.protocol.records.batch import CompressionType, RecordBatch, build_batch
from barnabas.protocol.records.entries import batches
from barnabas.storage.env import Env
from barnabas.storage.log.deletion import DeletionQueue
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.manager.loader import open_log
from barnabas.storage.offsets import FetchIsolation

TOPIC_ID = bytes(range(16))
DIRECTORY = "/logs/t-0"
T0 = 1_700_000_000_000  # where a FaultEnv's clock stands at first


def small_config(**overrides: object) -> LogConfig:
    """Segments of 1 KiB with an index entry for nearly every batch, so that few records make many files."""
    values: dict[str, object] = {
        "segment_bytes": 1024,
        "segment_index_bytes": 1200,
        "index_interval_bytes": 100,
        "message_timestamp_after_max_ms": 1 << 60,
    }
    return LogConfig(**{**values, **overrides})  # type: ignore[arg-type]


def make_batch(
    *values: bytes | None,
    timestamp: int = T0,
    key: bytes | None = b"k",
    base_offset: int | None = None,
    epoch: int = -1,
    compression: CompressionType = CompressionType.NONE,
    producer: tuple[int, int, int] | None = None,
    transactional: bool = False,
) -> bytes:
    """A v2 batch of the values; `producer` is (id, epoch, base sequence)."""
    producer_id, producer_epoch, base_sequence = producer or (-1, -1, -1)
    return build_batch(
        [(key, value, timestamp, []) for value in values],
        base_offset=base_offset,
        compression=compression,
        partition_leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=transactional,
    )


def end_txn(
    producer_id: int, producer_epoch: int, *, commit: bool, coordinator_epoch: int = 0, timestamp: int = T0
) -> bytes:
    """The control batch by which a coordinator ends a transaction."""
    key = b"\0\0" + (b"\0\1" if commit else b"\0\0")
    value = b"\0\0" + coordinator_epoch.to_bytes(4, "big", signed=True)
    return build_batch(
        [(key, value, timestamp, [])],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def new_log(
    env: Env,
    config: LogConfig | None = None,
    *,
    is_clean: bool = False,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    deletions: DeletionQueue | None = None,
) -> UnifiedLog:
    """The log under test, opened or reopened in its usual directory."""
    env.mkdir(DIRECTORY)
    env.sync_dir("/")
    env.sync_dir("/logs")
    return open_log(
        env,
        DIRECTORY,
        "t",
        0,
        config or small_config(),
        is_clean=is_clean,
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        deletions=deletions,
    )


def append(log: UnifiedLog, *values: bytes | None, epoch: int = 0, timestamp: int = T0) -> int:
    """Appends one batch and moves the high watermark, as a sole replica; returns its first offset."""
    info = log.append_as_leader(make_batch(*values, timestamp=timestamp), epoch)
    log.update_high_watermark(log.log_end_offset)
    return info.first_offset


def fill(log: UnifiedLog, count: int, *, size: int = 100, epoch: int = 0) -> None:
    """Appends `count` batches of one record each, with values that name their offset."""
    for _ in range(count):
        append(log, b"%020d" % log.log_end_offset + bytes(size), epoch=epoch)


def read_batches(
    log: UnifiedLog, offset: int, isolation: FetchIsolation = FetchIsolation.LOG_END
) -> list[RecordBatch]:
    """Every batch from an offset to the end, in several reads."""
    found: list[RecordBatch] = []
    while True:
        data = log.read(offset, 512, isolation, min_one_message=True).records.read()
        whole = [batch for batch in batches(data) if isinstance(batch, RecordBatch)]
        if not whole:
            return found
        found += whole
        offset = whole[-1].next_offset


def read_values(
    log: UnifiedLog, offset: int | None = None, isolation: FetchIsolation = FetchIsolation.LOG_END
) -> dict[int, bytes | None]:
    """Offset: value of every record from an offset (by default the log's start) to the end."""
    start = log.log_start_offset if offset is None else offset
    found = read_batches(log, start, isolation)
    return {
        record.offset: record.value
        for batch in found
        if not batch.is_control
        for record in batch.records()
        if record.offset >= start
    }


def names(env: Env, directory: str = DIRECTORY) -> list[str]:
    return sorted(env.listdir(directory))


def offsets(values: Iterable[int]) -> list[int]:
    return sorted(values)

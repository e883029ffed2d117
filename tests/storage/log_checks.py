"""Checks of a log from outside, for the comparison with its model: files, indexes, records of consumers."""

from collections.abc import Iterator

from barnabas.config.log_config import LogConfig
from barnabas.protocol.records.batch import RecordBatch
from barnabas.protocol.records.entries import batches
from barnabas.storage.env import Env, read_fully
from barnabas.storage.log.unified_log import UnifiedLog
from barnabas.storage.offsets import FetchIsolation
from barnabas.storage.segment.segment import LogSegment
from tests.storage.log_model import LogModel, ModelBatch, ModelRecord

Consumed = dict[int, tuple[int, bytes | None, bytes | None]]
"""Offset: timestamp, key, value."""


def decode(data: bytes) -> Iterator[RecordBatch]:
    """The complete batches in a slice, each with its CRC checked."""
    for batch in batches(data):
        assert isinstance(batch, RecordBatch)
        batch.ensure_valid()
        yield batch


def committed_data(log: UnifiedLog, offset: int, fetch_bytes: int) -> Consumed:
    """The records of a read_committed consumer from `offset` on, as by KafkaConsumer's CompletedFetch."""
    found: Consumed = {}
    while True:
        info = log.read(offset, fetch_bytes, FetchIsolation.TXN_COMMITTED, min_one_message=True)
        aborted = sorted((one.first_offset, one.producer_id) for one in info.aborted_transactions or ())
        skipped: set[int] = set()
        fetched = list(decode(info.records.read()))
        if not fetched:
            return found
        for batch in fetched:
            while aborted and aborted[0][0] <= batch.last_offset:
                skipped.add(aborted.pop(0)[1])
            if batch.is_control:
                marker = next(batch.records(), None)
                if marker is not None and marker.key is not None and marker.key[2:4] == b"\0\0":
                    skipped.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in skipped):
                for record in batch.records():
                    if record.offset >= offset:
                        found[record.offset] = (record.timestamp, record.key, record.value)
        offset = fetched[-1].next_offset


def check_physical(log: UnifiedLog, model: LogModel, *, required_end: int | None = None) -> set[int]:
    """Reads all segments through, the indexes too; returns the offsets of all records.

    Every record equals one that was appended; all required records before `required_end` are there.
    """
    known = model.by_offset()
    found: set[int] = set()
    next_offset = 0
    for segment in log.segments:
        assert segment.base_offset >= next_offset
        data = read_fully(segment.file, segment.size, 0)
        read = list(decode(data))
        assert sum(batch.size_in_bytes for batch in read) == len(data)
        for batch in read:
            assert batch.base_offset >= max(next_offset, segment.base_offset)
            next_offset = batch.next_offset
            for record in batch.records():
                expected, wanted = known[record.offset]
                assert ModelRecord(record.offset, record.timestamp, record.key, record.value) == wanted
                check_batch(batch, expected)
                found.add(record.offset)
        check_indexes(segment, read)
    assert next_offset <= log.log_end_offset
    end = log.log_end_offset if required_end is None else required_end
    missing = [at for at in model.present if log.log_start_offset <= at < end and at not in found]
    if required_end is not None:
        missing = [at for at in missing if at not in model.compacted]
    assert not missing
    return found


def check_batch(batch: RecordBatch, expected: ModelBatch) -> None:
    """The header is that of the appended batch."""
    assert batch.partition_leader_epoch == expected.epoch
    assert (batch.is_transactional, batch.is_control) == (expected.transactional, expected.commit is not None)
    if expected.producer is None:
        assert batch.producer_id == -1
    else:
        assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == expected.producer


def check_indexes(segment: LogSegment, read: list[RecordBatch]) -> None:
    """Every entry points to a batch, and agrees with it."""
    ends = {}
    position, youngest, of_youngest = 0, -1, segment.base_offset
    timestamps = {}
    for batch in read:
        ends[batch.last_offset] = position
        position += batch.size_in_bytes
        if batch.max_timestamp > youngest:
            youngest, of_youngest = batch.max_timestamp, batch.last_offset
        timestamps[of_youngest] = youngest
    offsets = [segment.offset_index.entry(slot) for slot in range(segment.offset_index.entries)]
    assert all(ends[offset] == position for offset, position in offsets), offsets
    times = [segment.time_index.entry(slot) for slot in range(segment.time_index.entries)]
    assert all(timestamps[offset] == timestamp for timestamp, offset in times), times
    assert segment.max_timestamp_so_far == youngest


def check_files(env: Env, directory: str, model: LogModel) -> None:
    """After a clean stop: only expected names, indexes trimmed, a snapshot at the end if there are producers."""
    names = set(env.listdir(directory))
    stems = {name[:20] for name in names if name.endswith(".log")}
    for name in sorted(names):
        stem, _, suffix = name.partition(".")
        if name.endswith((".deleted", ".snapshot")) or name in (
            "leader-epoch-checkpoint",
            "partition.metadata",
        ):
            continue
        assert suffix in ("log", "index", "timeindex", "txnindex"), name
        assert stem in stems, name
        entry_size = {"log": 1, "index": 8, "timeindex": 12, "txnindex": 34}[suffix]
        data = env.read_file(f"{directory}/{name}")
        assert len(data) % entry_size == 0
        if suffix == "index" and data:
            assert data[-8:] != bytes(8), f"{name} is not trimmed"
    assert (
        not model.producers
        or any(name.endswith(".snapshot") for name in names)
        or all(producer.doubtful for producer in model.producers.values())
    )


def check_retention(
    log: UnifiedLog,
    config: LogConfig,
    before: list[tuple[LogSegment, int, int]],
    deleted: int,
    now_ms: int,
) -> None:
    """Retention removed the oldest segments, each of them due, and the first that is left is not due."""
    ends = [base for _, base, _ in before[1:]]
    surplus = (
        sum(size for _, _, size in before) - config.retention_bytes if config.retention_bytes >= 0 else -1
    )
    for position, (segment, _, size) in enumerate(before):
        end = ends[position] if position < len(ends) else log.log_end_offset
        data = read_fully(segment.file, segment.size, 0)
        youngest = max((batch.max_timestamp for batch in decode(data)), default=-1)
        old = (
            config.delete
            and config.retention_ms >= 0
            and youngest >= 0
            and now_ms - youngest > config.retention_ms
        )
        may_go = end <= log.high_watermark and (
            (position < len(ends) and end <= log.log_start_offset)
            or (config.delete and surplus >= size)
            or old
        )
        if position < deleted:
            assert may_go or youngest < 0
            surplus -= size
        else:
            assert not may_go or size == 0 or youngest < 0
            return

"""Replay of the batches of segments into the producer state.

`apply_batch` is used for a batch that is appended, for the recovery of a segment and for the replay after a snapshot.
"""

import logging

from barnabas.protocol.records.batch import CorruptRecordError, RecordBatch
from barnabas.protocol.records.scanning import SegmentScanner
from barnabas.storage.errors import CorruptSnapshotError
from barnabas.storage.log.local_log import LogSegments
from barnabas.storage.log.producer_state import ProducerStateManager
from barnabas.storage.segment.batch_pass import SegmentPass
from barnabas.storage.segment.segment import LogSegment
from barnabas.storage.segment.txn_index import AbortedTxn

logger = logging.getLogger("barnabas.storage")


def apply_batch(producers: ProducerStateManager, batch: RecordBatch, segment: LogSegment | None) -> None:
    """Applies a batch of the log to the producer state.

    Adds an aborted transaction that it ends to the transaction index of `segment`, if given. Raises OSError.
    """
    completed = producers.update(batch, batch.base_offset, batch.last_offset)
    if completed is None:
        return
    stable = producers.last_stable_offset_after(completed)
    if completed.is_aborted and segment is not None:
        segment.txn_index.append(
            AbortedTxn(completed.producer_id, completed.first_offset, completed.last_offset, stable)
        )
    producers.complete_txn(completed)


def rebuild_producer_state(
    producers: ProducerStateManager, segments: LogSegments, first_offset: int, end_offset: int, now_ms: int
) -> None:
    """Rebuilds the producer state at `end_offset` from the latest snapshot and the batch headers after it.

    `first_offset` is that of the segments, which may be before the log start offset: deleted records still define the
    state of producers.
    """
    producers.truncate_and_reload(first_offset, end_offset, now_ms)
    start = max(producers.map_end_offset, first_offset)
    if start < end_offset and len(segments):
        for segment in segments.from_offset(start):
            _replay_segment(producers, segment, start, end_offset)
    producers.map_end_offset = end_offset


def take_missing_snapshot(
    producers: ProducerStateManager, segments: LogSegments, offset: int, now_ms: int
) -> str | None:
    """Saves the producers as of `offset` if the roll failed to, before the segments below it are deleted.

    Returns the path; None if there was no need, or if it fails again, which is logged.
    """
    snapshots = producers.snapshots
    if producers.is_empty or offset in snapshots.offsets:
        return None
    past = ProducerStateManager(snapshots, producers.name, producers.expiration_ms)
    try:
        for known in [known for known in snapshots.offsets if known < offset][-1:]:
            past.load_snapshot(known, now_ms)
        for segment in segments:
            if segment.base_offset < offset:
                _replay_segment(past, segment, past.map_end_offset, offset)
        past.map_end_offset = offset
        return past.take_snapshot(sync=False, of_the_past=True)
    except (OSError, CorruptSnapshotError, CorruptRecordError) as error:
        logger.warning("%s: no snapshot of the producers at %d: %s", producers.name, offset, error)
        return None


def _replay_segment(producers: ProducerStateManager, segment: LogSegment, start: int, end: int) -> None:
    found = segment.translate_offset(start)
    if found is None:
        return
    scan = segment.new_scanner(check_crc=False, follow_from=start)
    upto = segment.translate_offset(end)
    follow(SegmentPass(), segment, scan, producers, position=found[0], end=upto[0] if upto else segment.size)


def follow(
    reader: SegmentPass,
    segment: LogSegment,
    scan: SegmentScanner,
    producers: ProducerStateManager,
    *,
    aborted_into: LogSegment | None = None,
    position: int = 0,
    end: int | None = None,
) -> None:
    """Scans the batches of a segment from `position` to `end`, all by default, and applies them to the producer state.

    Aborted transactions are added to the index of `aborted_into`. Raises OSError.
    """

    def take_runs() -> None:
        for run in scan.take_runs():
            producers.update_with_run(run)

    def take_control(batch: RecordBatch) -> None:
        take_runs()
        apply_batch(producers, batch, aborted_into)

    reader.run(segment.file, segment.size if end is None else end, scan, take_control, position)
    take_runs()

"""Verification of a segment apart from its partition: in another process, at another time, in any order.

`verify_detached_segment` does all checks that need no other segment and returns a `SegmentVerification`, which is plain
data. The partition's `PartitionVerifier` adds these in order and finds the same as by reading the segments itself.
For the checks that span segments (producers, leader epochs) `followed` has the headers of batches and whole markers.

    `followed`:  one entry after the other
    GAP     (1)  int64     offsets are missing before or within the batch that begins there; the first gap only
    BATCH   (2)  header    61 bytes; control batches whole, since the record distinguishes commit from abort
    MISSED  (3)  int64     the batches before this offset were read, the next one is unreadable
    RESUMED (4)  int64     the next readable batch begins there
"""

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from barnabas.protocol.records.batch import RecordBatch
from barnabas.storage.env import Env
from barnabas.storage.offsets import NO_LEADER_EPOCH
from barnabas.storage.segment.batch_reading import Batch
from barnabas.storage.segment.names import LOG_SUFFIX, TXN_INDEX_SUFFIX, segment_path
from barnabas.storage.verify.producers import ProducersVerifier, TransactionIndexFile
from barnabas.storage.verify.segment import OnBatch, OnMissed, SegmentOutcome, SegmentVerifier, is_dense
from barnabas.storage.verify.verifier import Counts, Finding, Findings, OnProgress, Situation

TRIES: Final = 3
_GAP: Final = 1
_BATCH: Final = 2
_MISSED: Final = 3
_RESUMED: Final = 4
_OFFSET: Final = struct.Struct(">q")
_HEADER_BYTES: Final = 61


class SegmentVerification(NamedTuple):
    """The results of one segment for its partition. `outcome` is None if the segment was deleted meanwhile.

    `txn_index` is all of the .txnindex, None without one; `followed`: see above.
    """

    base_offset: int
    outcome: SegmentOutcome | None
    findings: tuple[Finding, ...]
    counts: Counts
    txn_index: bytes | None
    followed: bytes


def verify_segment(
    env: Env,
    directory: str,
    base_offset: int,
    findings: Findings,
    *,
    situation: Situation,
    is_active: bool,
    is_deep: bool,
    on_batch: OnBatch,
    on_missed: OnMissed,
    on_progress: OnProgress,
) -> tuple[SegmentOutcome | None, TransactionIndexFile]:
    """Reads a segment: its .txnindex first, which can only be behind the .log.

    None for a segment that retention or compaction has deleted. One that the operating system cannot read is a finding,
    and the verification continues.
    """
    path = segment_path(directory, base_offset, LOG_SUFFIX)
    nothing = TransactionIndexFile(directory, base_offset, None, is_active=is_active)
    files_before = findings.counts.files
    for _ in range(TRIES):
        findings.counts.files = files_before
        verifier = SegmentVerifier(
            env,
            directory,
            base_offset,
            findings,
            situation=situation,
            is_active=is_active,
            is_deep=is_deep,
            on_batch=on_batch,
            on_missed=on_missed,
            on_progress=on_progress,
        )
        try:
            txn_index = _txn_index(env, directory, base_offset, findings.counts)
            verifier.run()
        except FileNotFoundError:
            if env.exists(path):
                continue  # compaction has replaced it between the two
            return None, nothing
        except OSError as error:
            findings.unreadable(error, path)
            return verifier.outcome._replace(is_whole=False, is_read_through=False), nothing
        return verifier.outcome, TransactionIndexFile(directory, base_offset, txn_index, is_active=is_active)
    return None, nothing


def verify_detached_segment(
    env: Env,
    directory: str,
    base_offset: int,
    *,
    situation: Situation,
    is_active: bool,
    is_deep: bool,
    on_batch: OnBatch = lambda _: None,
    on_progress: OnProgress = lambda _: None,
) -> SegmentVerification:
    """Verifies one segment by itself; `on_batch` is also called with each whole batch."""
    findings = Findings(directory)
    followed = _Followed(base_offset)

    def each(batch: Batch) -> None:
        followed.add(batch)
        on_batch(batch)

    outcome, transactions = verify_segment(
        env,
        directory,
        base_offset,
        findings,
        situation=situation,
        is_active=is_active,
        is_deep=is_deep,
        on_batch=each,
        on_missed=followed.missed,
        on_progress=on_progress,
    )
    found = tuple(findings.all)
    return SegmentVerification(
        base_offset, outcome, found, findings.counts, transactions.data, bytes(followed.data)
    )


def _txn_index(env: Env, directory: str, base_offset: int, counts: Counts) -> bytes | None:
    try:
        data = env.read_file(segment_path(directory, base_offset, TXN_INDEX_SUFFIX))
    except FileNotFoundError:
        return None
    counts.files += 1
    return data


class _Followed:
    """Collects the batches that checks across segments need."""

    def __init__(self, base_offset: int) -> None:
        self._next_offset = base_offset
        self._has_gaps = self._has_missed = False
        self._epoch = NO_LEADER_EPOCH
        self.data = bytearray()

    def missed(self) -> None:
        if not self._has_missed:
            self._has_missed = True
            self.data += bytes((_MISSED,)) + _OFFSET.pack(self._next_offset)

    def add(self, batch: Batch) -> None:
        is_v2 = isinstance(batch, RecordBatch)
        first = batch.base_offset if is_v2 else batch.last_offset
        if self._has_missed:
            self._has_missed = False
            self._next_offset = first
            self.data += bytes((_RESUMED,)) + _OFFSET.pack(first)
        if not self._has_gaps and (first > self._next_offset or not is_dense(batch)):
            self._has_gaps = True
            self.data += bytes((_GAP,)) + _OFFSET.pack(first)
        self._next_offset = batch.next_offset
        if not isinstance(batch, RecordBatch):
            return
        if batch.producer_id >= 0 or batch.partition_leader_epoch != self._epoch:
            self._epoch = batch.partition_leader_epoch
            size = batch.size_in_bytes if batch.is_control else _HEADER_BYTES
            self.data.append(_BATCH)
            self.data += memoryview(batch.buffer)[batch.position : batch.position + size]


def replay(
    verification: SegmentVerification, producers: ProducersVerifier, on_batch: Callable[[RecordBatch], None]
) -> None:
    """Replays a verified segment to the producers and `on_batch`, as if its batches were read now."""
    assert verification.outcome is not None
    data, at = verification.followed, 0
    while at < len(data):
        kind = data[at]
        at += 1
        if kind != _BATCH:
            (offset,) = _OFFSET.unpack_from(data, at)
            _REPLAYED[kind](producers, offset)
            at += _OFFSET.size
            continue
        batch = RecordBatch(data, at, header_only=True)
        producers.reached(batch.base_offset)  # so that gaps are distinguished
        on_batch(batch)
        at += batch.size_in_bytes if batch.is_control else _HEADER_BYTES
    if not producers.is_missing:
        producers.reached(verification.outcome.next_offset)


def _missed(producers: ProducersVerifier, offset: int) -> None:
    producers.reached(offset)
    producers.missed()


_REPLAYED: Final = {
    _GAP: ProducersVerifier.gap_before,
    _MISSED: _missed,
    _RESUMED: ProducersVerifier.begin_again,
}

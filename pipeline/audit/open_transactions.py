"""Open transactions: compaction skips the segment in which the oldest begins, and all after it.

Segments are read by different tasks, so each reports its effect on the transactions that are open before it
(`SegmentTransactions`), and a partition's are applied in order. A broker that replays a log without
a producer snapshot does the same: a transaction of which the log has lost every batch is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.records.batch import RecordBatch

if TYPE_CHECKING:
    from barnabas.storage.segment.batch_reading import Batch


class SegmentTransactions(NamedTuple):
    """One segment's transactions: producers with a marker in it, and the first offset here of each open at its end.

    Without `is_read` there may be markers that were not seen: then nothing before its end counts as open.
    """

    ended: frozenset[int] = frozenset()
    opened: Mapping[int, int] = {}
    is_read: bool = True


class TransactionCollector:
    """Collects `SegmentTransactions` from the batches of one segment, in order."""

    def __init__(self) -> None:
        self._ended: set[int] = set()
        self._opened: dict[int, int] = {}

    def add(self, batch: Batch) -> None:
        """Applies a data batch or a marker."""
        if not isinstance(batch, RecordBatch) or not batch.is_transactional:
            return
        if batch.is_control:
            self._ended.add(batch.producer_id)
            self._opened.pop(batch.producer_id, None)
        else:
            self._opened.setdefault(batch.producer_id, batch.base_offset)

    def finish(self, *, is_read: bool) -> SegmentTransactions:
        """`is_read`: whether every batch of the segment was added."""
        return SegmentTransactions(frozenset(self._ended), self._opened, is_read)


def first_unstable_offset(segments: Iterable[SegmentTransactions]) -> int | None:
    """The offset at which a partition's oldest open transaction begins, from its segments in order; None: none is
    open."""
    open_since: dict[int, int] = {}
    for segment in segments:
        if not segment.is_read:
            open_since.clear()
            continue
        for producer_id in segment.ended:
            open_since.pop(producer_id, None)
        for producer_id, offset in segment.opened.items():
            open_since.setdefault(producer_id, offset)
    return min(open_since.values(), default=None)


def first_uncleanable_segment(
    segments: Sequence[tuple[int, SegmentTransactions]], active: int | None
) -> int | None:
    """The base offset from which on segments (base offset, transactions) are left alone; None: all are compacted.

    Kafka's LogToClean: a segment that is cleanable in part only is not cleaned. `active` is the active segment.
    """
    unstable = first_unstable_offset(each for _, each in segments)
    if unstable is None:
        return active
    begins_in = max((base for base, _ in segments if base <= unstable), default=unstable)
    return begins_in if active is None else min(begins_in, active)

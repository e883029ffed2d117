"""One task of an audit: examine one segment by itself."""

from __future__ import annotations

import zlib
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from barnabas.pipeline.audit.keys import KeyCounter, KeyStats, parts_of
from barnabas.pipeline.audit.open_transactions import SegmentTransactions, TransactionCollector
from barnabas.pipeline.audit.timestamps import Timestamps, TimeStats
from barnabas.protocol.records.errors import UnsupportedCompressionError
from barnabas.storage.cleaner.cleaned_transactions import AbortedTransactionFiles
from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.segment.names import LOG_SUFFIX, segment_path
from barnabas.storage.verify.detached import SegmentVerification, verify_detached_segment

if TYPE_CHECKING:
    import pyarrow as pa

    from barnabas.pipeline.audit.plan import AuditOptions, SegmentTask
    from barnabas.storage.env import Env
    from barnabas.storage.segment.batch_reading import Batch
    from barnabas.storage.segment.txn_index import AbortedTxn
    from barnabas.storage.verify.verifier import Finding


class SegmentReport(NamedTuple):
    """The report on a segment. `odd_times`: the findings about its timestamps; `codecs`: bytes by codec.

    `verification.followed` is deflated: the check of a partition has that of all its segments in memory, and for
    idempotent producers that send single records it is a third of the log.
    """

    task: SegmentTask
    verification: SegmentVerification
    times: TimeStats
    odd_times: tuple[Finding, ...]
    keys: KeyStats | None
    codecs: dict[str, int]


class SegmentKeys(NamedTuple):
    """One part of a segment's keys, a table of `keys.KEYS`; `transactions` are those of the whole segment."""

    partition: int
    part: int
    base_offset: int
    is_active: bool
    table: pa.Table
    transactions: SegmentTransactions


def examine(env: Env, task: SegmentTask, options: AuditOptions) -> tuple[SegmentReport, list[SegmentKeys]]:
    """Examines a segment as the options say."""
    times = Timestamps(
        max(options.now_ms, env.now_ms())
    )  # a broker goes on writing while an audit takes hours
    keys = KeyCounter(_aborted(env, task)) if options.counts_keys else None
    transactions = TransactionCollector()
    codecs: Counter[str] = Counter()

    def on_batch(batch: Batch) -> None:
        times.add(batch)
        codecs[_codec(batch)] += batch.size_in_bytes
        if keys is not None:
            keys.add(batch)
            transactions.add(batch)

    verification = verify_detached_segment(
        env,
        task.path,
        task.base_offset,
        situation=task.situation,
        is_active=task.is_active,
        is_deep=options.is_deep,
        on_batch=on_batch,
    )
    stats, parts = None, []
    if keys is not None:
        stats, table = keys.finish()
        is_read = verification.outcome is not None and verification.outcome.is_read_through
        found = transactions.finish(is_read=is_read)
        parts = [
            SegmentKeys(task.partition, part, task.base_offset, task.is_active, each, found)
            for part, each in enumerate(parts_of(table, task.parts))
        ]
    odd = tuple(times.findings(segment_path(task.path, task.base_offset, LOG_SUFFIX)))
    verification = verification._replace(followed=zlib.compress(verification.followed, 1))
    return SegmentReport(task, verification, times.stats, odd, stats, dict(codecs)), parts


def unpacked_segment(report: SegmentReport) -> SegmentVerification:
    """The verification with `followed` inflated, for `PartitionVerifier.add`."""
    return report.verification._replace(followed=zlib.decompress(report.verification.followed))


def _aborted(env: Env, task: SegmentTask) -> list[AbortedTxn]:
    """The aborted transactions in a segment; empty where an index is damaged or gone, which another check reports."""
    try:
        files = AbortedTransactionFiles(env, task.path)
        return files.overlapping(task.base_offset, task.base_offset, task.end_offset)
    except (CorruptIndexError, OSError):
        return []


def _codec(batch: Batch) -> str:
    try:
        return batch.compression_type.name.lower()
    except UnsupportedCompressionError:
        return "unknown"

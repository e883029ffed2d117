"""The plan of an audit: the files of each partition that are read before its segments, and a task for each segment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.storage.segment.names import LOG_SUFFIX, segment_path
from barnabas.storage.verify.partition import Fingerprint, PartitionVerifier, fingerprint

if TYPE_CHECKING:
    from barnabas.storage.env import Env
    from barnabas.storage.verify.directory import PartitionToVerify
    from barnabas.storage.verify.verifier import Situation

RECORDS_OF_A_PART: Final = 4 << 20
BYTES_OF_A_RECORD: Final = (
    32  # on disk, at least, of records whose keys are distinct: these do not compress well
)
MAX_PARTS: Final = 256
LAST_OFFSET: Final = (1 << 63) - 1


class AuditOptions(NamedTuple):
    """The scope of an audit.

    `is_deep`: batches are unpacked and their records checked. `counts_keys`: keys are counted, and what compaction
    would leave. `now_ms`: the current time, ms since 1970.
    """

    is_deep: bool
    counts_keys: bool
    now_ms: int


class SegmentTask(NamedTuple):
    """One segment: `size` in bytes, as it was; `parts`: into how many parts its keys go.

    `end_offset`: where the next one begins.
    """

    partition: int
    path: str
    base_offset: int
    size: int
    is_active: bool
    parts: int
    situation: Situation
    end_offset: int = LAST_OFFSET


class PartitionPlan(NamedTuple):
    """One partition, by its number in the audit. `verifier` has started: it has read the files that come before the
    segments."""

    number: int
    partition: PartitionToVerify
    verifier: PartitionVerifier
    before: Fingerprint
    tasks: tuple[SegmentTask, ...]


def plan_partition(
    env: Env, number: int, partition: PartitionToVerify, options: AuditOptions
) -> PartitionPlan | None:
    """The plan for a partition; None where it was deleted meanwhile. Raises OSError."""
    path = partition.path
    try:
        before = fingerprint(env, path)
        verifier = PartitionVerifier(
            env, path, partition.situation, is_deep=options.is_deep, on_progress=_ignore_progress
        )
        verifier.begin()
    except FileNotFoundError:
        if env.exists(path):
            raise
        return None
    sizes = {base: _size(env, path, base) for base in verifier.base_offsets}
    parts, ends = _parts(sizes), [*list(sizes)[1:], LAST_OFFSET]
    tasks = tuple(
        SegmentTask(number, path, base, size, verifier.is_active(base), parts, partition.situation, end)
        for (base, size), end in zip(sizes.items(), ends, strict=False)
    )
    return PartitionPlan(number, partition, verifier, before, tasks)


def _parts(sizes: Mapping[int, int]) -> int:
    """The number of parts of the keys of segments, so that one part fits into a task's memory.

    There are no more records than offsets, and of a compacted log fewer: no more than its bytes have room for. The
    active segment, whose records are not known yet, is small beside the others, or alone.
    """
    bases = list(sizes)
    offsets = bases[-1] - bases[0] if bases else 0
    records = min(offsets, sum(sizes.values()) // BYTES_OF_A_RECORD)
    return min(max(-(-records // RECORDS_OF_A_PART), 1), MAX_PARTS)


def _ignore_progress(_read: int) -> None:
    """Ignores progress; a named function, since plans are pickled."""


def _size(env: Env, path: str, base_offset: int) -> int:
    try:
        return env.size(segment_path(path, base_offset, LOG_SUFFIX))
    except FileNotFoundError:
        return 0

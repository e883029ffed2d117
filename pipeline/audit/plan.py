"""What there is to look at: a partition, read up to where its segments begin, and a task for each of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from storage.segment_files import LOG_SUFFIX, segment_path
from storage.verify_partition import Fingerprint, PartitionVerifier, fingerprint

if TYPE_CHECKING:
    from storage.env import Env
    from storage.verify import Situation
    from storage.verify_directory import PartitionToVerify

BYTES_OF_A_PART: Final = 4 << 30
MAX_PARTS: Final = 256


class AuditOptions(NamedTuple):
    """What is looked at, too.

    `is_deep`: batches are unpacked and their records checked. `counts_keys`: keys are counted, and what compaction
    would leave. `now_ms`: what is meant by now, ms since 1970.
    """

    is_deep: bool
    counts_keys: bool
    now_ms: int


class SegmentTask(NamedTuple):
    """One segment: `size` in bytes, as it was; `parts`: into how many parts its keys go."""

    partition: int
    path: str
    base_offset: int
    size: int
    is_active: bool
    parts: int
    situation: Situation


class PartitionPlan(NamedTuple):
    """One partition, by its number in the audit. `verifier` has begun: it has read what is read before the segments."""

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
            env, path, partition.situation, is_deep=options.is_deep, on_progress=_nobody
        )
        verifier.begin()
    except FileNotFoundError:
        if env.exists(path):
            raise
        return None
    sizes = {base: _size(env, path, base) for base in verifier.base_offsets}
    parts = min(max(sum(sizes.values()) // BYTES_OF_A_PART, 1), MAX_PARTS)
    tasks = tuple(
        SegmentTask(number, path, base, size, verifier.is_active(base), parts, partition.situation)
        for base, size in sizes.items()
    )
    return PartitionPlan(number, partition, verifier, before, tasks)


def _nobody(_read: int) -> None:
    """Hears of progress; a function with a name, as plans travel."""


def _size(env: Env, path: str, base_offset: int) -> int:
    try:
        return env.size(segment_path(path, base_offset, LOG_SUFFIX))
    except FileNotFoundError:
        return 0

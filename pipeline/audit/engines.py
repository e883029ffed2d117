"""Engines, which turn plans into reports; the local one runs the tasks in this process, one after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from barnabas.pipeline.audit.partition import PartitionReport, combined, count_kept, judge
from barnabas.pipeline.audit.segment import SegmentKeys, SegmentReport, examine

if TYPE_CHECKING:
    from barnabas.pipeline.audit.keys import Kept
    from barnabas.pipeline.audit.plan import AuditOptions, PartitionPlan
    from barnabas.storage.env import Env

OnBytes = Callable[[int], None]
"""Called with the bytes of the segments that were examined since the last call."""


class Engine(Protocol):
    """Carries out plans; the reports come in the order of the plans' numbers."""

    def run(self, plans: Sequence[PartitionPlan], options: AuditOptions) -> list[PartitionReport]: ...


class LocalEngine:
    """Runs tasks in this process: for small directories, and as the reference for the Spark engine."""

    def __init__(self, env: Env, on_bytes: OnBytes = lambda _: None) -> None:
        self._env = env
        self._on_bytes = on_bytes

    def run(self, plans: Sequence[PartitionPlan], options: AuditOptions) -> list[PartitionReport]:
        """Raises OSError."""
        reports: list[PartitionReport | None] = []
        kept: list[tuple[int, Kept]] = []
        for plan in plans:
            segments: list[SegmentReport] = []
            parts: dict[int, list[SegmentKeys]] = defaultdict(list)
            for task in plan.tasks:
                report, keys = examine(self._env, task, options)
                segments.append(report)
                for each in keys:
                    parts[each.part].append(each)
                self._on_bytes(task.size)
            reports.append(judge(self._env, plan, segments, options))
            kept += [(plan.number, count_kept(each)) for each in parts.values()]
        return combined(reports, kept)

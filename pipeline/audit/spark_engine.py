"""The engine on Spark: one stage examines segments; after a shuffle another judges partitions and combines keys.

It decides nothing itself. Stages exchange this package's own plain data under (partition, part): part -1 has a
partition's plan and the reports of its segments, the others have keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.audit.partition import PartitionReport, combined, count_kept, judge
from barnabas.pipeline.audit.plan import PartitionPlan
from barnabas.pipeline.audit.segment import SegmentReport, examine
from barnabas.storage.env import RealEnv

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from barnabas.pipeline.audit.plan import AuditOptions, SegmentTask

BYTES_OF_A_TASK: Final = 64 << 20
_REPORTS: Final = -1
_Key = tuple[int, int]


class SparkEngine:
    """On a Spark session: local, or a cluster whose machines all see the directories under the same paths."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(self, plans: Sequence[PartitionPlan], options: AuditOptions) -> list[PartitionReport]:
        """Raises what Spark raises when a task fails for good."""
        if not plans:
            return []
        context = self._spark.sparkContext
        cores = context.defaultParallelism
        bins = packed([task for plan in plans for task in plan.tasks], 2 * cores, BYTES_OF_A_TASK)
        examined = context.parallelize(bins, max(len(bins), 1)).flatMap(_examining(options))
        planned = context.parallelize([((plan.number, _REPORTS), plan) for plan in plans], cores)
        groups = sum(1 + (plan.tasks[0].parts if plan.tasks else 0) for plan in plans)
        judged = examined.union(planned).groupByKey(min(groups, 8 * cores)).map(_judging(options)).collect()
        return combined(
            [each for (_, part), each in judged if part == _REPORTS],
            [(number, each) for (number, part), each in judged if part != _REPORTS],
        )


def packed(tasks: Sequence[SegmentTask], at_least: int, bytes_each: int) -> list[list[SegmentTask]]:
    """The tasks in bins of about so many bytes, the largest first; in `at_least` bins where there are as many tasks.

    A segment is a task of Spark's by itself, unless it is so small that starting a task costs more than examining it.
    """
    total = sum(task.size for task in tasks)
    limit = min(bytes_each, max(total // max(at_least, 1), 1))
    bins: list[list[SegmentTask]] = []
    filled = limit
    for task in sorted(tasks, key=lambda task: task.size, reverse=True):
        if filled + task.size > limit:
            bins.append([])
            filled = 0
        bins[-1].append(task)
        filled += task.size
    return bins


def _examining(options: AuditOptions) -> Callable[[Iterable[SegmentTask]], Iterator[tuple[_Key, Any]]]:
    """Turns tasks into reports, and each segment's keys by their parts."""

    def examine_all(tasks: Iterable[SegmentTask]) -> Iterator[tuple[_Key, Any]]:
        for task in tasks:
            report, keys = examine(RealEnv(), task, options)
            yield (task.partition, _REPORTS), report
            for each in keys:
                yield (task.partition, each.part), each

    return examine_all


def _judging(options: AuditOptions) -> Callable[[tuple[_Key, Iterable[Any]]], tuple[_Key, Any]]:
    """Turns a partition's plan and reports, or one part of its keys, into one judgement."""

    def judge_group(group: tuple[_Key, Iterable[Any]]) -> tuple[_Key, Any]:
        key, found = group[0], list(group[1])
        if key[1] != _REPORTS:
            return key, count_kept(found)
        plan = next(each for each in found if isinstance(each, PartitionPlan))
        reports = [each for each in found if isinstance(each, SegmentReport)]
        return key, judge(RealEnv(), plan, reports, options)

    return judge_group

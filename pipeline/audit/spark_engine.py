"""The same on Spark: one stage looks at segments, after a shuffle another judges partitions and puts keys together.

Nothing is decided here. What goes from stage to stage are pickles of this package's own plain data, in rows of
(partition, part, payload): part -1 has a partition's plan and the reports of its segments, the others have keys.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pipeline.audit.partition import PartitionReport, count_kept, judge, put_together
from pipeline.audit.plan import PartitionPlan
from pipeline.audit.segment import SegmentReport, examine
from storage.env import RealEnv

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipeline.audit.plan import AuditOptions, SegmentTask

_REPORTS: Final = -1
_ROWS: Final = "partition int, part int, payload binary"
_SCHEMA: Final = pa.schema(
    [pa.field("partition", pa.int32()), pa.field("part", pa.int32()), pa.field("payload", pa.binary())]
)
_TASKS_OF_A_CORE: Final = 4


class SparkEngine:
    """On a Spark session: local, or a cluster whose machines all see the directories under the same paths."""

    __slots__ = ("_spark",)

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def run(self, plans: Sequence[PartitionPlan], options: AuditOptions) -> list[PartitionReport]:
        """Raises what Spark raises when a task fails."""
        tasks = [task for plan in plans for task in plan.tasks]
        looked = self._frame([(task.partition, 0, task) for task in tasks], len(tasks)).mapInArrow(
            _examining(options), _ROWS
        )
        planned = self._frame([(plan.number, _REPORTS, plan) for plan in plans], len(plans))
        judged = (
            looked.unionByName(planned).groupBy("partition", "part").applyInArrow(_judging(options), _ROWS)
        )
        found = [(row.partition, row.part, pickle.loads(row.payload)) for row in judged.toLocalIterator()]
        return put_together(
            [each for _, part, each in found if part == _REPORTS],
            [(number, each) for number, part, each in found if part != _REPORTS],
        )

    def _frame(self, rows: list[tuple[int, int, Any]], count: int) -> DataFrame:
        """A row each, spread over as many tasks as there are rows, or several for each core where there are many."""
        cores = self._spark.sparkContext.defaultParallelism
        table = _table(rows)
        return self._spark.createDataFrame(table, _ROWS).repartition(
            max(min(count, _TASKS_OF_A_CORE * cores * 8), 1)
        )


def _table(rows: Sequence[tuple[int, int, object]]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"partition": number, "part": part, "payload": pickle.dumps(payload)}
            for number, part, payload in rows
        ],
        _SCHEMA,
    )


def _examining(options: AuditOptions) -> Any:
    """For mapInArrow: tasks in; a report, and keys by their parts, out."""

    def examine_all(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for payload in batch["payload"].to_pylist():
                task: SegmentTask = pickle.loads(payload)
                report, keys = examine(RealEnv(), task, options)
                rows: list[tuple[int, int, object]] = [(task.partition, _REPORTS, report)]
                rows += [(task.partition, each.part, each) for each in keys]
                yield from _table(rows).to_batches()

    return examine_all


def _judging(options: AuditOptions) -> Any:
    """For applyInArrow: all of a partition's reports, or all of one part of its keys, in; one judgement out."""

    def judge_group(key: tuple[pa.Scalar, ...], table: pa.Table) -> pa.Table:
        number, part = (each.as_py() for each in key)
        found = [pickle.loads(payload) for payload in table["payload"].to_pylist()]
        if part != _REPORTS:
            return _table([(number, part, count_kept(found))])
        plan = next(each for each in found if isinstance(each, PartitionPlan))
        reports = [each for each in found if isinstance(each, SegmentReport)]
        return _table([(number, part, judge(RealEnv(), plan, reports, options))])

    return judge_group

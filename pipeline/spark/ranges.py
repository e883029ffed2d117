"""The input of one Spark task: ranges of logs, one after the other."""

import gc
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from barnabas.pipeline.log_reading.planning import LogRange
from barnabas.pipeline.log_reading.range_reader import Reading, read_range
from barnabas.pipeline.spark.options import SourceOptions
from barnabas.storage.env import RealEnv

if TYPE_CHECKING:
    import pyarrow as pa

_FROZEN_TASKS: Final = 2
_tasks_begun = itertools.count()


class LogRanges(InputPartition):
    """The ranges of one task."""

    def __init__(self, ranges: Sequence[LogRange]) -> None:
        super().__init__(tuple(ranges))

    @property
    def ranges(self) -> tuple[LogRange, ...]:
        """The ranges, one after the other."""
        ranges: tuple[LogRange, ...] = self.value
        return ranges


def read_ranges(options: SourceOptions, ranges: Iterable[LogRange]) -> "Iterator[pa.RecordBatch]":
    """The records of ranges, one range after the other."""
    freeze_modules()
    reading = Reading(options.columns, options.check_crc, options.fail_on_data_loss)
    env = RealEnv()
    for wanted in ranges:
        yield from read_range(env, wanted, reading)


def freeze_modules() -> None:
    """Excludes all current objects from garbage collection, in the first two tasks of each of Spark's workers.

    The second task covers the imports of the first. After every task a worker collects garbage among all objects
    (`gc.collect` in pyspark/daemon.py), which took longer than many tasks; the garbage of a task is collected as
    before.
    """
    if next(_tasks_begun) < _FROZEN_TASKS:
        gc.freeze()

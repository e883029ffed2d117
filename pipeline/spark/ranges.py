"""What one task of Spark reads: ranges of logs, one after the other."""

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
    """What one task reads."""

    def __init__(self, ranges: Sequence[LogRange]) -> None:
        super().__init__(tuple(ranges))

    @property
    def ranges(self) -> tuple[LogRange, ...]:
        """One after the other."""
        ranges: tuple[LogRange, ...] = self.value
        return ranges


def read_ranges(options: SourceOptions, ranges: Iterable[LogRange]) -> "Iterator[pa.RecordBatch]":
    """The records of ranges, one range after the other."""
    leave_modules_to_themselves()
    reading = Reading(options.columns, options.check_crc, options.fail_on_data_loss)
    env = RealEnv()
    for wanted in ranges:
        yield from read_range(env, wanted, reading)


def leave_modules_to_themselves() -> None:
    """Has Python look through nothing for garbage that is there now, in the first two tasks of each of Spark's workers.

    The second has what the first imported on its way. After every task a worker looks through all there is
    (`gc.collect` in pyspark/daemon.py), which took longer than many a task; what a task leaves is no more than before.
    """
    if next(_tasks_begun) < _FROZEN_TASKS:
        gc.freeze()

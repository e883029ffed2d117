"""The data source for Spark, on top of `pipeline.log_reading`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.pipeline.spark.filters import Wanted, narrowed
from barnabas.pipeline.spark.options import USUAL_TASKS, SourceOptions, parse_options
from barnabas.pipeline.spark.planning import plan_batch
from barnabas.pipeline.spark.ranges import LogRanges, freeze_modules, read_ranges
from barnabas.storage.env import RealEnv

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamReader, Filter

TASKS_A_CORE: Final = 3
"""Tasks for each core, so that cores with less work get more; a higher number costs more than it saves."""

_TYPES: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


class BarnabasDataSource(DataSource):
    """`spark.read.format("barnabas")`: log directories of Barnabas and Apache Kafka; see `pipeline.spark.options`."""

    usual_tasks = USUAL_TASKS

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        freeze_modules()

    @classmethod
    def name(cls) -> str:
        return "barnabas"

    def schema(self) -> StructType:
        """Raises OptionError."""
        columns = parse_options(self.options, is_stream=True, is_schema=True).columns
        return StructType([StructField(name, _TYPES[name]) for name in columns])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Raises OptionError."""
        return BarnabasReader(self._parsed())

    def streamReader(self, schema: StructType) -> "DataSourceStreamReader":  # noqa: N802 (Spark's name)
        """Raises OptionError."""
        from barnabas.pipeline.spark.streaming import BarnabasStreamReader

        return BarnabasStreamReader(self._parsed(is_stream=True))

    def _parsed(self, *, is_stream: bool = False) -> SourceOptions:
        return replace(parse_options(self.options, is_stream=is_stream), usual_tasks=self.usual_tasks)


def for_cores(cores: int) -> type[BarnabasDataSource]:
    """The source class for sessions with so many cores: Spark sends the class to its Python processes."""

    class OfSession(BarnabasDataSource):
        usual_tasks = TASKS_A_CORE * max(cores, 1)

    return OfSession


class BarnabasReader(DataSourceReader):
    """A batch query."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._wanted = Wanted()

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":  # noqa: N802 (Spark's name)
        """Notes all filters and returns all of them, so that Spark applies them to the rows."""
        self._wanted = narrowed(filters)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Raises LogReadingError, OptionError."""
        return [LogRanges(ranges) for ranges in plan_batch(RealEnv(), self.options, self._wanted)] or [
            LogRanges(())
        ]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Raises LogReadingError."""
        assert isinstance(partition, LogRanges)
        return read_ranges(self.options, partition.ranges)

"""The stream: micro-batches between offsets that Spark keeps in its checkpoint.

Offsets are written as Spark's Kafka source writes them, `{"orders": {"0": 23}}`: the next to be read of each partition.
Partitions that come while a query runs are read from their earliest offset on, as there.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from barnabas.pipeline.log_reading.directories import PartitionDirectory
from barnabas.pipeline.log_reading.errors import NoSuchLogError
from barnabas.pipeline.log_reading.log_view import LogView, look_at, with_view
from barnabas.pipeline.log_reading.planning import LogRange
from barnabas.pipeline.spark.offsets import (
    Offsets,
    find_wanted,
    limited,
    merged,
    offset_of,
    put_offset,
    starting_offset,
    total,
)
from barnabas.pipeline.spark.options import LATEST, SourceOptions
from barnabas.pipeline.spark.planning import as_tasks, lose, plan_between
from barnabas.pipeline.spark.ranges import LogRanges, read_ranges
from barnabas.storage.env import Env, RealEnv

if TYPE_CHECKING:
    import pyarrow as pa


class BarnabasStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query."""

    def __init__(self, options: SourceOptions, env: Env | None = None) -> None:
        self._options = options
        self._env = env or RealEnv()
        self._last_of_query: Offsets | None = None  # the end of an available-now query
        self._last_batch_ms = 0

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, as all below)
        """Where a new query starts. Raises LogReadingError, OptionError."""
        found: Offsets = {}
        for partition in find_wanted(self._env, self._options):
            offset = self._initial(partition)
            if offset is not None:
                put_offset(found, partition, offset)
        return found

    def _initial(self, partition: PartitionDirectory) -> int | None:
        def start(view: LogView) -> int:
            return starting_offset(self._env, self._options, view, LATEST)

        try:
            return with_view(self._env, partition, self._options.isolation, start)
        except NoSuchLogError:
            return None  # deleted meanwhile, or too new to have a segment: then it is read from its start

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The ends of the micro-batch that begins at `start`. Raises LogReadingError."""
        starts, ends = self._starts_and_ends(start)
        if self._waits(starts, ends):
            return start
        if isinstance(limit, ReadMaxRows):
            ends = limited(starts, ends, limit.max_rows)
        return merged(start, ends)

    def _waits(self, starts: Offsets, ends: Offsets) -> bool:
        """Whether to wait for more records: there are too few for a micro-batch, and the last one was recent."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._last_of_query is not None:
            return False  # an available-now query would end here
        now = self._env.now_ms()
        is_late = now - self._last_batch_ms >= self._options.max_trigger_delay_ms
        if not is_late and total(ends) - total(starts) < least:
            return True
        self._last_batch_ms = now
        return False

    def _starts_and_ends(self, start: Mapping[str, Any]) -> tuple[Offsets, Offsets]:
        starts: Offsets = {}
        ends: Offsets = {}
        for view in self._views():
            at = view.partition
            first = offset_of(start, at)
            first = view.log_start_offset if first is None else first
            end = view.end_offset
            if view.log_end_offset < first:
                why = f"the log ends at {view.log_end_offset} now"
                lose(self._options, at, view.log_end_offset, first, why)
                first = end
            if self._last_of_query is not None:
                end = min(end, offset_of(self._last_of_query, at) or 0)
            put_offset(starts, at, first)
            put_offset(ends, at, max(first, end))
        return starts, ends

    def _wanted(self) -> list[PartitionDirectory]:
        return find_wanted(self._env, self._options, or_fewer=not self._options.fail_on_data_loss)

    def _views(self) -> Iterator[LogView]:
        for partition in self._wanted():
            try:
                yield look_at(self._env, partition, self._options.isolation)
            except NoSuchLogError:
                continue  # deleted meanwhile

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """The end of each log, for the query's progress."""
        found: Offsets = {}
        for view in self._views():
            put_offset(found, view.partition, view.end_offset)
        return found

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fixes the ends of the query: later records are left to the next one."""
        self._last_of_query = self.reportLatestOffset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raises DataLossError, LogReadingError."""
        there = {(it.topic, it.partition): it for it in self._wanted()}

        def planned(topic: str, number: int, range_bytes: int) -> Sequence[LogRange]:
            at, key = there.get((topic, number)), str(number)
            first, upto = start.get(topic, {}).get(key), end[topic][key]
            return self._ranges(topic, number, at, first, upto, range_bytes)

        ranges = [
            piece
            for topic, partitions in end.items()
            for number in partitions
            for piece in planned(topic, int(number), self._options.range_bytes)
        ]
        return [LogRanges(task) for task in as_tasks(ranges, self._options, planned)]

    def _ranges(  # noqa: PLR0917
        self,
        topic: str,
        number: int,
        at: PartitionDirectory | None,
        first: int | None,
        upto: int,
        range_bytes: int,
    ) -> Sequence[LogRange]:
        """The ranges of one partition; one without a first offset is new since the last micro-batch."""
        if first is not None and first >= upto:
            return ()
        if at is None:
            gone = PartitionDirectory(topic, number, "?")
            lose(self._options, gone, first or 0, upto, "the partition is gone")
            return ()
        if first is None:
            try:
                first = min(look_at(self._env, at, self._options.isolation).log_start_offset, upto)
            except NoSuchLogError:
                first = 0  # the partition is gone, which plan_between reports
        return plan_between(self._env, self._options, at, first, upto, range_bytes)

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Raises LogReadingError."""
        assert isinstance(partition, LogRanges)
        return read_ranges(self._options, partition.ranges)

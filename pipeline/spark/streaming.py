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

from pipeline.log_reading.directories import PartitionDirectory
from pipeline.log_reading.errors import BusyDirectoryError, DataLossError, NoSuchLogError
from pipeline.log_reading.log_view import MAX_TRIES, LogView, look_at
from pipeline.spark.offsets import Offsets, find_wanted, starting_offset
from pipeline.spark.options import LATEST, SourceOptions
from pipeline.spark.planning import as_tasks, plan_between
from pipeline.spark.source import LogRanges, read_ranges
from storage.env import Env, RealEnv

if TYPE_CHECKING:
    import pyarrow as pa


class BarnabasStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query."""

    def __init__(self, options: SourceOptions, env: Env | None = None) -> None:
        self._options = options
        self._env = env or RealEnv()
        self._last_of_query: Offsets | None = None  # where a query ends that reads what is available now

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name, as all below)
        """Where a new query starts. Raises LogReadingError, OptionError."""
        found: Offsets = {}
        for partition in find_wanted(self._env, self._options):
            _put(found, partition, self._initial(partition))
        return found

    def _initial(self, partition: PartitionDirectory) -> int:
        for _ in range(MAX_TRIES):
            try:
                view = look_at(self._env, partition, self._options.isolation)
                return starting_offset(self._env, self._options, view, LATEST)
            except FileNotFoundError:
                continue
        raise BusyDirectoryError(f"{partition.path} changed at each of {MAX_TRIES} looks")

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """As far as a micro-batch goes from `start` on. Raises LogReadingError."""
        starts, ends = self._starts_and_ends(start)
        if isinstance(limit, ReadMaxRows):
            ends = limited(starts, ends, limit.max_rows)
        return _merged(start, ends)

    def _starts_and_ends(self, start: Mapping[str, Any]) -> tuple[Offsets, Offsets]:
        starts: Offsets = {}
        ends: Offsets = {}
        for view in self._views():
            at = view.partition
            first = _of(start, at)
            first = view.log_start_offset if first is None else first
            end = view.end_offset
            if self._last_of_query is not None:
                end = min(end, _of(self._last_of_query, at) or 0)
            _put(starts, at, first)
            _put(ends, at, max(first, end))
        return starts, ends

    def _views(self) -> Iterator[LogView]:
        for partition in find_wanted(self._env, self._options):
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
            _put(found, view.partition, view.end_offset)
        return found

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What comes after this call is left to the next query."""
        self._last_of_query = self.reportLatestOffset()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Raises DataLossError, LogReadingError."""
        there = {(it.topic, it.partition): it for it in find_wanted(self._env, self._options)}
        ranges = []
        for topic, partitions in end.items():
            for number, upto in partitions.items():
                at = there.get((topic, int(number)))
                first = start.get(topic, {}).get(number)
                if first is not None and first >= upto:
                    continue
                if at is None:
                    self._missing(topic, number, first, upto)
                    continue
                if first is None:
                    first = min(look_at(self._env, at, self._options.isolation).log_start_offset, upto)
                ranges += plan_between(self._env, self._options, at, first, upto, self._options.range_bytes)
        return [LogRanges(task) for task in as_tasks(ranges, self._options)]

    def _missing(self, topic: str, number: str, first: int | None, upto: int) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{topic}-{number} is gone, with offsets {first or 0} to {upto - 1} that were to be read. "
                "With failOnDataLoss=false what is left would be read"
            )

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """Raises LogReadingError."""
        assert isinstance(partition, LogRanges)
        return read_ranges(self._options, partition.ranges)


def limited(starts: Offsets, ends: Offsets, most: int) -> Offsets:
    """Ends with no more than `most` offsets before them all together, each with its share of what there is.

    A share is rounded up while there is room, so that no partition waits for ever.
    """
    sizes = {
        (topic, number): end - starts[topic][number]
        for topic, partitions in ends.items()
        for number, end in partitions.items()
    }
    total = sum(sizes.values())
    if total <= most:
        return ends
    left = most
    found: Offsets = {}
    for (topic, number), size in sorted(sizes.items(), key=lambda item: item[1]):
        share = min(-(-size * most // total), left, size)
        left -= share
        found.setdefault(topic, {})[number] = starts[topic][number] + share
    return found


def _of(offsets: Mapping[str, Any], at: PartitionDirectory) -> int | None:
    found: int | None = offsets.get(at.topic, {}).get(str(at.partition))
    return found


def _put(offsets: Offsets, at: PartitionDirectory, offset: int) -> None:
    offsets.setdefault(at.topic, {})[str(at.partition)] = offset


def _merged(start: Mapping[str, Any], ends: Offsets) -> Offsets:
    """`ends`, with the partitions that are not there any more where they were: `partitions` says what that means."""
    found = {topic: dict(partitions) for topic, partitions in start.items()}
    for topic, partitions in ends.items():
        found.setdefault(topic, {}).update(partitions)
    return found

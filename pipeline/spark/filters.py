"""Bounds of partitions, offsets and times from a query's filters, by which planning skips what cannot match.

Filters only ever narrow what is read: Spark applies all of them again to the rows.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from barnabas.pipeline.log_reading.planning import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_OFFSET: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """Bounds of matching rows: topics and partitions (None: any), offsets and times (ms) from the first to before the
    end."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    first_offset: int = 0
    end_offset: int = _MAX_OFFSET
    first_ms: int = MIN_TIMESTAMP
    end_ms: int = MAX_TIMESTAMP

    def has(self, topic: str, partition: int) -> bool:
        """Whether a partition may have matching records."""
        return (self.topics is None or topic in self.topics) and (
            self.partitions is None or partition in self.partitions
        )


def narrowed(filters: "Iterable[Filter]") -> Wanted:
    """The bounds of rows that match all filters; filters on other columns are ignored."""
    wanted = Wanted()
    for each in filters:
        attribute: tuple[str, ...] = getattr(each, "attribute", ())
        if len(attribute) != 1:
            continue
        kind, name, value = type(each).__name__, attribute[0], getattr(each, "value", None)
        if name in ("topic", "partition"):
            wanted = _by_name(wanted, kind, name, value)
        elif name == "offset" and isinstance(value, int):
            first, end = _bounds(kind, value)
            wanted = replace(
                wanted, first_offset=max(wanted.first_offset, first), end_offset=min(wanted.end_offset, end)
            )
        elif name == "timestamp" and isinstance(value, datetime):
            wanted = _by_time(wanted, kind, value)
    return wanted


def _by_name(wanted: Wanted, kind: str, name: str, value: Any) -> Wanted:
    if kind in ("EqualTo", "EqualNullSafe"):
        values = frozenset([value])
    elif kind == "In":
        values = frozenset(value)
    else:
        return wanted
    if name == "topic":
        return replace(wanted, topics=values if wanted.topics is None else wanted.topics & values)
    return replace(wanted, partitions=values if wanted.partitions is None else wanted.partitions & values)


def _bounds(kind: str, value: int) -> tuple[int, int]:
    """(first, end) of the numbers that match."""
    match kind:
        case "EqualTo" | "EqualNullSafe":
            return value, value + 1
        case "GreaterThan":
            return value + 1, _MAX_OFFSET
        case "GreaterThanOrEqual":
            return value, _MAX_OFFSET
        case "LessThan":
            return 0, value
        case "LessThanOrEqual":
            return 0, value + 1
    return 0, _MAX_OFFSET


def _by_time(wanted: Wanted, kind: str, value: datetime) -> Wanted:
    """Spark gives times in its own precision, microseconds; records have milliseconds."""
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    floor_ms, rest = divmod(aware - _EPOCH, timedelta(milliseconds=1))
    ceiling_ms = floor_ms + bool(rest)
    first_ms, end_ms = wanted.first_ms, wanted.end_ms
    if kind in ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual"):
        first_ms = max(first_ms, ceiling_ms)
    if kind in ("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual"):
        end_ms = min(end_ms, floor_ms + 1)
    return replace(wanted, first_ms=first_ms, end_ms=end_ms)

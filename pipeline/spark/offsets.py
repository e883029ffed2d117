"""Determines the offsets that a query reads of each partition: its options, checked against the logs."""

from collections.abc import Iterable, Mapping
from typing import Any

from barnabas.pipeline.log_reading.directories import PartitionDirectory, find_partitions
from barnabas.pipeline.log_reading.errors import DataLossError, NoSuchLogError
from barnabas.pipeline.log_reading.log_view import LogView
from barnabas.pipeline.log_reading.planning import first_offset_of
from barnabas.pipeline.spark.options import (
    EARLIEST,
    LATEST,
    Bound,
    OffsetsByPartition,
    OptionError,
    SourceOptions,
)
from barnabas.storage.env import Env

Offsets = dict[str, dict[str, int]]
"""{"orders": {"0": 23}}: the next offset of each partition, as Spark's Kafka source writes it."""
_Place = tuple[str, str]


def find_wanted(env: Env, options: SourceOptions, *, or_fewer: bool = False) -> list[PartitionDirectory]:
    """The partitions that the options name.

    Raises NoSuchLogError when a named one is missing, unless `or_fewer`.
    """
    found = find_partitions(env, options.paths, options.wants)
    if or_fewer:
        return found
    there = {(it.topic, it.partition) for it in found}
    topics = {topic for topic, _ in there}
    for topic in sorted(options.topics or ()):
        if topic not in topics:
            raise NoSuchLogError(f"there is no topic {topic} in {', '.join(options.paths)}")
    for topic, partitions in (options.assigned or {}).items():
        for partition in sorted(partitions):
            if (topic, partition) not in there:
                raise NoSuchLogError(
                    f"there is no partition {topic}-{partition} in {', '.join(options.paths)}"
                )
    return found


def starting_offset(env: Env, options: SourceOptions, view: LogView, default: int) -> int:
    """The offset at which reading starts in a log. Raises OptionError, DataLossError, and FileNotFoundError when the
    view is too old."""
    bound = options.starting or Bound(offset=default)
    timestamp_ms = _timestamp_of(bound, view)
    if timestamp_ms is None:
        return _offset_of(options, bound, view)
    found = first_offset_of(env, view, timestamp_ms)
    if found is not None:
        return found
    if options.latest_when_too_young:
        return view.end_offset
    raise OptionError(
        bound.option,
        str(timestamp_ms),
        f"no record of {view.partition.name} is as young; "
        "an earlier time, or startingOffsetsByTimestampStrategy=latest",
    )


def ending_offset(env: Env, options: SourceOptions, view: LogView) -> int:
    """The offset before which reading ends in a log. Raises the errors of `starting_offset`."""
    timestamp_ms = _timestamp_of(options.ending, view)
    if timestamp_ms is None:
        return _offset_of(options, options.ending, view)
    found = first_offset_of(env, view, timestamp_ms)
    return view.end_offset if found is None else found


def _timestamp_of(bound: Bound, view: LogView) -> int | None:
    if bound.timestamps_ms is not None:
        return _of_partition(bound.timestamps_ms, bound, view)
    return bound.timestamp_ms


def _offset_of(options: SourceOptions, bound: Bound, view: LogView) -> int:
    offset = bound.offset if bound.offsets is None else _of_partition(bound.offsets, bound, view)
    assert offset is not None, bound
    if offset == EARLIEST:
        return view.log_start_offset
    return view.end_offset if offset == LATEST else _within(options, view, offset, bound.option)


def _of_partition(by_partition: OffsetsByPartition, bound: Bound, view: LogView) -> int:
    """The value of an option for this partition; an option by partition has to name all of them."""
    found = by_partition.get(view.partition.topic, {}).get(view.partition.partition)
    if found is None:
        given = [f"{topic}-{partition}" for topic, rest in by_partition.items() for partition in rest]
        hint = "" if bound.offsets is None else ": -2 is the earliest offset, -1 the latest"
        raise OptionError(
            bound.option, ", ".join(given), f"{view.partition.name} is read too, and has to be there{hint}"
        )
    return found


def _within(options: SourceOptions, view: LogView, offset: int, option: str) -> int:
    """Checks that the log has an offset that was given by number."""
    start, end = view.log_start_offset, view.end_offset
    if start <= offset <= end:
        return offset
    why = f"{option}: {view.partition.name} has offsets {start} to {end}, and {offset} was asked for"
    if options.fail_on_data_loss:
        raise DataLossError(f"{why}. With failOnDataLoss=false what there is would be read")
    return min(max(offset, start), end)


# -- the offsets of a stream --


def limited(starts: Offsets, ends: Offsets, most: int) -> Offsets:
    """The ends of a micro-batch of at most `most` offsets in all, in which each partition has its share.

    Every partition with new records gets at least one, or gets one in turn where there are more than `most`, so that
    none waits for ever behind busier ones.
    """
    sizes = {
        (topic, number): end - starts[topic][number]
        for topic, partitions in ends.items()
        for number, end in partitions.items()
        if end > starts[topic][number]
    }
    if sum(sizes.values()) <= most:
        return ends
    shares = _shares(sizes, most) if most > len(sizes) else _one_for_each(sizes, most, total(starts))
    return {
        topic: {number: starts[topic][number] + shares.get((topic, number), 0) for number in partitions}
        for topic, partitions in ends.items()
    }


def _shares(sizes: Mapping[_Place, int], most: int) -> dict[_Place, int]:
    """Gives one offset to each, the rest of `most` by size, and the remainder to the largest."""
    left, rest = most - len(sizes), sum(sizes.values()) - len(sizes)
    shares = {place: 1 + (size - 1) * left // rest for place, size in sizes.items()}
    for place in sorted(sizes, key=lambda place: -sizes[place])[: most - sum(shares.values())]:
        shares[place] += 1
    return shares


def _one_for_each(places: Iterable[_Place], most: int, taken: int) -> dict[_Place, int]:
    """Gives one offset to `most` of them. The next trigger begins with those that this one leaves out."""
    ordered = sorted(places)
    at = taken % len(ordered)
    return dict.fromkeys((ordered[at:] + ordered[:at])[:most], 1)


def total(offsets: Offsets) -> int:
    """The sum over all partitions."""
    return sum(offset for partitions in offsets.values() for offset in partitions.values())


def offset_of(offsets: Mapping[str, Any], at: PartitionDirectory) -> int | None:
    """The offset of one partition; None without one."""
    found: int | None = offsets.get(at.topic, {}).get(str(at.partition))
    return found


def put_offset(offsets: Offsets, at: PartitionDirectory, offset: int) -> None:
    """Sets the offset of one partition."""
    offsets.setdefault(at.topic, {})[str(at.partition)] = offset


def merged(start: Mapping[str, Any], ends: Offsets) -> Offsets:
    """`ends`, with the partitions that are not there any more where they were: `partitions` says what that means."""
    found = {topic: dict(partitions) for topic, partitions in start.items()}
    for topic, partitions in ends.items():
        found.setdefault(topic, {}).update(partitions)
    return found

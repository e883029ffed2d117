"""The options of the source, named as in Spark's Kafka source where it has the same.

    path                       log directories or partitions' directories, several with commas or as load(paths);
                               a relative one starts from the driver's working directory
    subscribe                  topics, with commas
    subscribePattern           a regular expression for whole names; internal topics never match
    assign                     {"orders": [0, 1]}
                               without any of the three: all topics that are not internal
    startingOffsets            earliest (batch), latest (stream), or {"orders": {"0": 23, "1": -2}}: -2 is the
                               earliest, -1 the latest
    endingOffsets              latest, or as above; batch only
    startingTimestamp          ms: from the first record on that is at least as young; endingTimestamp: to before it
    startingOffsetsByTimestamp {"orders": {"0": 1700000000000}}; endingOffsetsByTimestamp
    startingOffsetsByTimestampStrategy   error or latest: how a time after the last record is treated
    isolationLevel             read_uncommitted or read_committed; kafka.isolation.level is the same
    failOnDataLoss             true: offsets that are gone are an error
    maxOffsetsPerTrigger       so many offsets for a micro-batch at most, over all partitions
    minOffsetsPerTrigger       a micro-batch waits for so many, but no longer than maxTriggerDelay, 15m
    minPartitions              at least so many tasks
    rangeBytes                 bytes of .log for a task; 128m, or as much less as makes three tasks of 4m and more for
                               each core of the session
    includeHeaders             false
    columns                    only these, with commas: what is not asked for is not sent to Spark
    checkCrcs                  true
    timestampDisorder          ms by which a record may be older than the youngest before it: with it, a filter
                               `timestamp < ...` ends the reading early; without it any later record might match

An invalid one raises OptionError, which names it, its value and the requirement.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from barnabas.pipeline.log_reading.arrow_columns import COLUMNS, DEFAULT_COLUMNS
from barnabas.pipeline.log_reading.directories import absolute_path
from barnabas.pipeline.log_reading.log_view import Isolation
from barnabas.pipeline.log_reading.planning import DEFAULT_RANGE_BYTES

EARLIEST: Final = -2
LATEST: Final = -1

USUAL_TASKS: Final = 16
"""The number of tasks when the number of cores is unknown."""

OffsetsByPartition = Mapping[str, Mapping[int, int]]

_NAMES: Final = (
    "path",
    "paths",
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "isolationLevel",
    "kafka.isolation.level",
    "failOnDataLoss",
    "maxOffsetsPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "minPartitions",
    "rangeBytes",
    "includeHeaders",
    "columns",
    "checkCrcs",
    "timestampDisorder",
)
_ENDING: Final = 'latest, or JSON such as {"orders": {"0": 50}}'
_DEFAULT_DELAY_MS: Final = 15 * 60_000
_UNITS_MS: Final = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class OptionError(ValueError):
    """An option of the source has an invalid value."""

    def __init__(self, name: str, value: str, expected: str) -> None:
        super().__init__(f"option {name}={value!r}: {expected}")


@dataclass(frozen=True, slots=True)
class Bound:
    """Where reading starts or ends: by an offset for all, offsets, a time for all (ms) or times, by partition."""

    offset: int | None = None
    offsets: OffsetsByPartition | None = None
    timestamp_ms: int | None = None
    timestamps_ms: OffsetsByPartition | None = None
    option: str = ""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The parsed options."""

    paths: tuple[str, ...]
    topics: frozenset[str] | None = None
    pattern: str | None = None
    assigned: Mapping[str, frozenset[int]] | None = None
    starting: Bound | None = None
    ending: Bound = field(default_factory=lambda: Bound(offset=LATEST))
    latest_when_too_young: bool = False
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    fail_on_data_loss: bool = True
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = _DEFAULT_DELAY_MS
    min_partitions: int | None = None
    range_bytes: int = DEFAULT_RANGE_BYTES
    is_range_fixed: bool = False
    usual_tasks: int = USUAL_TASKS
    columns: tuple[str, ...] = DEFAULT_COLUMNS
    check_crc: bool = True
    disorder_ms: int | None = None

    def wants(self, topic: str, partition: int) -> bool:
        """Whether a partition is one of those to read."""
        if self.assigned is not None:
            return partition in self.assigned.get(topic, ())
        if self.topics is not None:
            return topic in self.topics
        if topic.startswith("__"):
            return False
        return self.pattern is None or re.fullmatch(self.pattern, topic) is not None


def parse_options(
    given: Mapping[str, str], *, is_stream: bool = False, is_schema: bool = False
) -> SourceOptions:
    """Raises OptionError. `is_schema`: only options of every kind of query are checked, as the kind is not known
    yet."""
    options = _Options(given)
    subscribed = [name for name in ("subscribe", "subscribePattern", "assign") if options.has(name)]
    if len(subscribed) > 1:
        raise OptionError(
            subscribed[1], options.get(subscribed[1]), f"there is {subscribed[0]} already, one is enough"
        )
    ending = options.bound("ending") or Bound(offset=LATEST)
    if is_stream and not is_schema and ending != Bound(offset=LATEST):
        raise OptionError(ending.option, options.get(ending.option), "a stream has no end; leave it out")
    if ending.offset == EARLIEST or any(EARLIEST in it.values() for it in (ending.offsets or {}).values()):
        raise OptionError("endingOffsets", options.get("endingOffsets"), _ENDING)
    starting = options.bound("starting")
    if starting is not None and starting.offset == LATEST and not is_stream:
        raise OptionError("startingOffsets", "latest", "a batch starts at earliest, at offsets or at a time")
    strategy = options.choice("startingOffsetsByTimestampStrategy", ("error", "latest"), "error")
    disorder = options.number("timestampDisorder", 0)
    least, most = options.number("minOffsetsPerTrigger", 1), options.number("maxOffsetsPerTrigger", 1)
    if least is not None and most is not None and least > most:
        raise OptionError("minOffsetsPerTrigger", str(least), f"no more than maxOffsetsPerTrigger, {most}")
    return SourceOptions(
        paths=options.paths(),
        topics=frozenset(options.list("subscribe")) if options.has("subscribe") else None,
        pattern=options.pattern("subscribePattern"),
        assigned=options.assigned("assign"),
        starting=starting,
        ending=ending,
        latest_when_too_young=strategy == "latest",
        isolation=options.isolation(),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", _DEFAULT_DELAY_MS),
        min_partitions=options.number("minPartitions", 1),
        range_bytes=options.size("rangeBytes", DEFAULT_RANGE_BYTES),
        is_range_fixed=options.has("rangeBytes"),
        columns=options.columns(),
        check_crc=options.flag("checkCrcs", True),
        disorder_ms=disorder,
    )


class _Options:
    """Options by name, ignoring case."""

    def __init__(self, given: Mapping[str, str]) -> None:
        names = {name.lower(): name for name in _NAMES}
        self._given = {str(name).lower(): str(value).strip() for name, value in given.items()}
        for name, value in given.items():
            if str(name).lower() not in names:
                raise OptionError(str(name), str(value), f"there is no such option{_nearest(str(name))}")

    def has(self, name: str) -> bool:
        return name.lower() in self._given

    def get(self, name: str, default: str = "") -> str:
        return self._given.get(name.lower(), default)

    def list(self, name: str) -> list[str]:
        found = [part.strip() for part in self.get(name).split(",") if part.strip()]
        if not found:
            raise OptionError(name, self.get(name), "names, with commas between them")
        return found

    def paths(self) -> tuple[str, ...]:
        """`paths` is what load([...]) makes of a list: JSON."""
        if self.has("paths"):
            loaded = self.json("paths", "a JSON list of directories")
            if isinstance(loaded, list) and loaded and all(isinstance(path, str) for path in loaded):
                return self._absolute("paths", loaded)
            raise OptionError("paths", self.get("paths"), "a JSON list of directories")
        if not self.has("path"):
            raise OptionError(
                "path", "", "the log directory to read, such as /var/lib/kafka, has to be given"
            )
        return self._absolute("path", self.list("path"))

    def _absolute(self, name: str, paths: Sequence[str]) -> tuple[str, ...]:
        """Options are parsed on the driver, and tasks run elsewhere."""
        try:
            return tuple(dict.fromkeys(map(absolute_path, paths)))
        except ValueError as error:
            raise OptionError(name, self.get(name), str(error)) from None

    def flag(self, name: str, default: bool) -> bool:
        return self.choice(name, ("true", "false"), str(default).lower()) == "true"

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        value = self.get(name, default).lower()
        if value not in choices:
            raise OptionError(name, self.get(name), f"{' or '.join(choices)}")
        return value

    def number(self, name: str, least: int) -> int | None:
        if not self.has(name):
            return None
        value = self.get(name)
        if not re.fullmatch(r"-?\d+", value) or int(value) < least:
            raise OptionError(name, value, f"a whole number, {least} or more")
        return int(value)

    def size(self, name: str, default: int) -> int:
        if not self.has(name):
            return default
        parsed = re.fullmatch(r"(\d+)([kmg]?)b?", self.get(name).lower())
        if parsed is None or int(parsed[1]) == 0:
            raise OptionError(name, self.get(name), "bytes, such as 67108864 or 64m")
        return int(parsed[1]) * _UNITS[parsed[2]]

    def duration_ms(self, name: str, default_ms: int) -> int:
        if not self.has(name):
            return default_ms
        parsed = re.fullmatch(r"(\d+)\s*(ms|s|m|min|h|d)?", self.get(name).lower())
        if parsed is None:
            raise OptionError(name, self.get(name), "a time such as 500ms, 30s or 15m; without a unit in ms")
        return int(parsed[1]) * _UNITS_MS[parsed[2] or ""]

    def pattern(self, name: str) -> str | None:
        if not self.has(name):
            return None
        try:
            re.compile(self.get(name))
        except re.error as error:
            raise OptionError(name, self.get(name), f"a regular expression, and {error}") from None
        return self.get(name)

    def isolation(self) -> Isolation:
        name = "isolationLevel" if self.has("isolationLevel") else "kafka.isolation.level"
        return Isolation(self.choice(name, tuple(Isolation), Isolation.READ_UNCOMMITTED.value))

    def columns(self) -> tuple[str, ...]:
        if not self.has("columns"):
            return COLUMNS if self.flag("includeHeaders", False) else DEFAULT_COLUMNS
        known = {column.lower(): column for column in COLUMNS}
        chosen = [known.get(name.lower(), "") for name in self.list("columns")]
        if "" in chosen or len(set(chosen)) < len(chosen):
            raise OptionError("columns", self.get("columns"), f"some of {', '.join(COLUMNS)}, each once")
        return tuple(chosen)

    def json(self, name: str, expected: str) -> object:
        try:
            return json.loads(self.get(name))
        except json.JSONDecodeError:
            raise OptionError(name, self.get(name), expected) from None

    def assigned(self, name: str) -> Mapping[str, frozenset[int]] | None:
        if not self.has(name):
            return None
        expected = 'JSON such as {"orders": [0, 1]}'
        loaded = self.json(name, expected)
        if not isinstance(loaded, dict) or not loaded:
            raise OptionError(name, self.get(name), expected)
        for partitions in loaded.values():
            if not isinstance(partitions, list) or not all(_is_number(it) for it in partitions):
                raise OptionError(name, self.get(name), expected)
        return {topic: frozenset(partitions) for topic, partitions in loaded.items()}

    def bound(self, which: str) -> Bound | None:
        """In Spark's order where several are given: the time for all, the times, the offsets."""
        if self.has(f"{which}Timestamp"):
            name = f"{which}Timestamp"
            return Bound(timestamp_ms=self.number(name, 0), option=name)
        if self.has(f"{which}OffsetsByTimestamp"):
            name = f"{which}OffsetsByTimestamp"
            return Bound(timestamps_ms=self.offsets(name, 0), option=name)
        name = f"{which}Offsets"
        if not self.has(name):
            return None
        word = self.get(name).lower()
        if word in ("earliest", "latest"):
            return Bound(offset=EARLIEST if word == "earliest" else LATEST, option=name)
        return Bound(offsets=self.offsets(name, EARLIEST), option=name)

    def offsets(self, name: str, least: int) -> OffsetsByPartition:
        expected = 'JSON such as {"orders": {"0": 23}}'
        loaded = self.json(name, expected if least == 0 else f"earliest, latest, or {expected}")
        if not isinstance(loaded, dict):
            raise OptionError(name, self.get(name), expected)
        found: dict[str, dict[int, int]] = {}
        for topic, partitions in loaded.items():
            if not isinstance(partitions, dict):
                raise OptionError(name, self.get(name), expected)
            for partition, offset in partitions.items():
                if not str(partition).isdigit() or not _is_number(offset) or offset < least:
                    raise OptionError(name, self.get(name), expected)
                found.setdefault(topic, {})[int(partition)] = offset
        return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _nearest(name: str) -> str:
    from difflib import get_close_matches

    found = get_close_matches(name.lower(), [known.lower() for known in _NAMES], 1)
    nearest = next((known for known in _NAMES if found and known.lower() == found[0]), None)
    return "" if nearest is None else f"; the nearest is {nearest}"

"""`barnabas groups --reset-offsets`: new offsets for groups."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from barnabas.cli.admin.calls.groups import DEAD, commit_offsets, describe_group, fetch_offsets
from barnabas.cli.admin.calls.offsets import UNKNOWN_OFFSET, Offset, list_offsets
from barnabas.cli.admin.calls.topics import describe_topics
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.errors import AdminError, BadFileError, ServerError
from barnabas.cli.admin.options import ParsedOptions, refuse
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.partitions import TopicPartition, parse_topic_partitions
from barnabas.cli.admin.shapes import ResetRow
from barnabas.cli.admin.times import parse_datetime, parse_duration
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.messages.offsets import EARLIEST, LATEST

SCENARIOS: Final = (
    "to-offset",
    "shift-by",
    "from-file",
    "to-datetime",
    "by-duration",
    "to-latest",
    "to-current",
    "to-earliest",
)
_IDLE: Final = frozenset({"Empty", DEAD})
_NO_ACTION: Final = (
    "WARN: No action will be performed as the --execute option is missing. "
    "Add --dry-run to say that this is what you want."
)
Offsets = Mapping[TopicPartition, int]


class Scope(NamedTuple):
    """The parameters of a reset, checked before any request is sent."""

    topics: list[tuple[str, list[int] | None]]
    timestamp: int | None
    plan: dict[str, dict[TopicPartition, int]] | None
    """Of --from-file, by group."""


def read_scope(
    given: ParsedOptions, *, now_ms: Callable[[], int] = lambda: round(time.time() * 1000)
) -> Scope:
    """Parses the parameters. Raises UsageError."""
    timestamp = None
    try:
        topics = [parse_topic_partitions(text) for text in given.texts("topic")]
        if (text := given.text("to-datetime")) is not None:
            timestamp = parse_datetime(text)
        if (text := given.text("by-duration")) is not None:
            timestamp = now_ms() - parse_duration(text)
    except ValueError as error:
        refuse(str(error))
    path = given.path("from-file")
    return Scope(topics, timestamp, None if path is None else read_plan(path, given.texts("group")))


def read_plan(path: Path, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """A file of --export: `topic,partition,offset` for one group, `group,topic,partition,offset` for several.

    Raises BadFileError, naming the line.
    """
    plan: dict[str, dict[TopicPartition, int]] = {}
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFileError(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        cells = next(csv.reader([line]))
        if len(cells) == 3 and len(groups) == 1:
            cells = [groups[0], *cells]
        if len(cells) != 4 or not cells[2].strip().isdecimal() or not cells[3].strip().isdecimal():
            raise BadFileError(f"{path} line {number}: {line!r} is not {_columns(groups)}")
        group, topic, partition, offset = (cell.strip() for cell in cells)
        plan.setdefault(group, {})[TopicPartition(topic, int(partition))] = int(offset)
    return plan


def _columns(groups: Sequence[str]) -> str:
    return (
        "topic,partition,offset or group,topic,partition,offset"
        if len(groups) == 1
        else "group,topic,partition,offset"
    )


class Reset:
    """One --reset-offsets. An active group is an error; the other groups are still reset."""

    def __init__(self, client: AdminClient, out: Output, given: ParsedOptions) -> None:
        self._client = client
        self._out = out
        self._given = given
        self._scope = read_scope(given)
        self._is_executed = given.has("execute")

    def run(self, groups: Sequence[str]) -> None:
        """Resets the groups, or shows the offsets they would get."""
        if not self._is_executed and not self._given.has("dry-run"):
            self._out.note(_NO_ACTION)
        moved: dict[str, Offsets] = {}
        for group in groups:
            state = self._state(group)
            if state not in _IDLE:
                self._out.failed(
                    f"Assignments can only be reset if the group '{group}' is inactive, "
                    f"but the current state is {state}."
                )
                continue
            moved[group] = self._move(group)
        self._show(moved, is_single=len(self._given.texts("group")) == 1)

    def _state(self, group: str) -> str:
        try:
            return describe_group(self._client, group).state
        except ServerError as error:
            if error.code != ErrorCode.GROUP_ID_NOT_FOUND:
                raise
            return DEAD

    def _move(self, group: str) -> Offsets:
        offsets = self._target_offsets(group)
        if self._is_executed and offsets:
            commit_offsets(self._client, group, offsets)
        return offsets

    def _show(self, moved: Mapping[str, Offsets], *, is_single: bool) -> None:
        rows = [
            ResetRow(group, each.topic, each.partition, offset, self._is_executed)
            for group, offsets in moved.items()
            for each, offset in sorted(offsets.items())
        ]
        for row in rows:
            self._out.row(row)
        if self._given.has("export"):
            for row in rows:
                self._out.line(
                    _csv([*([] if is_single else [row.group]), row.topic, row.partition, row.new_offset])
                )
            return
        self._out.table(("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"), [row[:4] for row in rows])

    # ---- target offsets

    def _target_offsets(self, group: str) -> Offsets:
        if self._scope.plan is not None:
            return self._from_plan(group, self._scope.plan)
        partitions = self._partitions(group)
        offset, shift, timestamp = (
            self._given.number("to-offset"),
            self._given.number("shift-by"),
            self._scope.timestamp,
        )
        ways: dict[str, Callable[[], Offsets]] = {
            "to-earliest": lambda: self._log_offsets(partitions, EARLIEST),
            "to-latest": lambda: self._log_offsets(partitions, LATEST),
            "to-current": lambda: self._current(group, partitions),
            "to-offset": lambda: self._within_logs(dict.fromkeys(partitions, offset or 0)),
            "shift-by": lambda: self._shifted(group, partitions, shift or 0),
            "to-datetime": lambda: self._at(partitions, timestamp or 0),
            "by-duration": lambda: self._at(partitions, timestamp or 0),
        }
        return next(way for name, way in ways.items() if self._given.has(name))()

    def _partitions(self, group: str) -> list[TopicPartition]:
        if self._given.has("all-topics"):
            return list(fetch_offsets(self._client, group))
        whole = [topic for topic, numbers in self._scope.topics if numbers is None]
        named = [
            TopicPartition(topic, number) for topic, numbers in self._scope.topics for number in numbers or ()
        ]
        described = describe_topics(self._client, whole)
        return [
            *named,
            *(TopicPartition(topic.name, each.number) for topic in described for each in topic.partitions),
        ]

    def _from_plan(self, group: str, plan: Mapping[str, Offsets]) -> Offsets:
        if group not in plan:
            self._out.failed(f"No reset plan for group {group} found")
            return {}
        return self._within_logs(plan[group])

    def _current(self, group: str, partitions: Iterable[TopicPartition]) -> Offsets:
        committed = fetch_offsets(self._client, group)
        without = [each for each in partitions if each not in committed]
        found = {each: committed[each].offset for each in partitions if each in committed}
        return {**found, **self._log_offsets(without, LATEST)}

    def _shifted(self, group: str, partitions: Iterable[TopicPartition], shift: int) -> Offsets:
        committed = fetch_offsets(self._client, group)
        for each in partitions:
            if each not in committed:
                raise AdminError(
                    f"Cannot shift offset for partition {each} since there is no current committed offset"
                )
        return self._within_logs({each: committed[each].offset + shift for each in partitions})

    def _at(self, partitions: Iterable[TopicPartition], timestamp: int) -> Offsets:
        found = self._log_offsets(partitions, timestamp)
        without = [each for each, offset in found.items() if offset == UNKNOWN_OFFSET]
        for each in without:
            where = f"Partition {each.partition} from topic {each.topic}"
            self._out.note(f"Warn: {where} is empty. Falling back to latest known offset.")
        return {**found, **self._log_offsets(without, LATEST)}

    def _within_logs(self, wanted: Offsets) -> Offsets:
        """The offsets, bounded by log start and log end."""
        starts, ends = self._log_offsets(wanted, EARLIEST), self._log_offsets(wanted, LATEST)
        kept = {}
        for each, offset in wanted.items():
            kept[each] = min(max(offset, starts[each]), ends[each])
            if kept[each] != offset:
                edge = "lower than earliest" if offset < starts[each] else "higher than latest"
                what = f"New offset ({offset}) is {edge} offset for topic partition {each}"
                self._out.note(f"{what}. Value will be set to {kept[each]}")
        return kept

    def _log_offsets(self, partitions: Iterable[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
        found = {}
        for each, offset in list_offsets(self._client, dict.fromkeys(partitions, timestamp)).items():
            if not isinstance(offset, Offset):
                raise offset
            found[each] = offset.offset
        return found


def _csv(cells: Sequence[object]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()

"""`barnabas get-offsets`: kafka-get-offsets."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from barnabas.cli.admin.calls.offsets import UNKNOWN_OFFSET, Offset, list_offsets
from barnabas.cli.admin.calls.topics import list_topics
from barnabas.cli.admin.errors import AdminError
from barnabas.cli.admin.options import ParsedOptions, admin_command, flag, option, refuse, session
from barnabas.cli.admin.partitions import TopicPartition, TopicPattern
from barnabas.cli.admin.shapes import OffsetRow
from barnabas.protocol.messages.offsets import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)

TIMES: Final = {
    "latest": LATEST,
    "earliest": EARLIEST,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": EARLIEST_LOCAL,
    "latest-tiered": LATEST_TIERED,
    "earliest-pending-upload": EARLIEST_PENDING_UPLOAD,
}
_RULE: Final = re.compile(r"([^:,]*)(?::(?:([0-9]*)|(?:([0-9]*)-([0-9]*))))?", re.ASCII)
Picks = Callable[[TopicPartition], bool]


@admin_command("get-offsets", short_help="Show offsets of partitions: first, last, or by time.")
@option("--topic", "The topics: a regular expression. Default: all.")
@option("--partitions", "The partitions. Default: all.", metavar="N,...")
@option(
    "--topic-partitions", "Topics with partitions, or ranges, ends exclusive.", metavar="T:1,U:0-3,V,W:5-"
)
@option("--time", f"A timestamp in milliseconds, -1 to -6, or one of {', '.join(TIMES)}. Default: latest.")
@flag("--exclude-internal-topics", "Leave out internal topics.")
def get_offsets(given: ParsedOptions) -> None:
    """Show offsets of partitions, as topic:partition:offset: kafka-get-offsets.

    \b
    barnabas get-offsets --topic orders --time earliest
    """
    given.forbid("topic-partitions", "topic", "partitions")
    picks = _rules(given.text("topic-partitions")) if given.has("topic-partitions") else _pattern(given)
    timestamp = _timestamp(given.text("time") or "latest")
    with session(given) as (client, out):
        wanted = [
            each
            for topic in list_topics(client)
            if not (given.has("exclude-internal-topics") and topic.is_internal)
            for each in (TopicPartition(topic.name, number) for number in range(topic.partitions))
            if picks(each)
        ]
        if not wanted:
            raise AdminError("Could not match any topic-partitions with the specified filters")
        found = list_offsets(client, dict.fromkeys(wanted, timestamp))
        rows = []
        for each in sorted(wanted, key=str):
            offset = found[each]
            if not isinstance(offset, Offset):
                out.failed(f"no offset of {offset}")
            elif offset.offset != UNKNOWN_OFFSET:
                rows.append(OffsetRow(each.topic, each.partition, offset.offset))
        for row in rows:
            out.row(row)
        if out.is_terminal:
            out.table(("Topic", "Partition", "Offset"), rows)
            return
        for row in rows:
            out.line(":".join(map(str, row)))


def _timestamp(text: str) -> int:
    if text in TIMES:
        return TIMES[text]
    if not re.fullmatch(r"-?[0-9]+", text):
        refuse(f"--time {text}: a number of milliseconds, or one of {', '.join(TIMES)} is expected")
    return int(text)


def _pattern(given: ParsedOptions) -> Picks:
    numbers = _numbers(given.text("partitions") or "")
    pattern = _topics(given.text("topic") or ".*", "--topic")
    return lambda each: pattern.allows(each.topic) and (not numbers or each.partition in numbers)


def _numbers(text: str) -> set[int]:
    try:
        return {int(part) for part in text.split(",") if part}
    except ValueError:
        refuse(f"--partitions expects a comma separated list of numeric partition ids, but received: {text}")


def _topics(text: str, name: str) -> TopicPattern:
    try:
        return TopicPattern(text)
    except ValueError as error:
        refuse(f"{name}: {error}")


def _rules(text: str | None) -> Picks:
    rules = [_rule(part) for part in (text or "").split(",")]
    return lambda each: any(rule(each) for rule in rules)


def _rule(text: str) -> Picks:
    """`topic:1`, `topic:0-3` (exclusive), `topic:5-`, `topic:-3`, `topic`, `:1`."""
    found = _RULE.fullmatch(text)
    if found is None:
        refuse(f"--topic-partitions: Invalid rule specification: {text}")
    pattern = _topics(found[1] or ".*", "--topic-partitions")
    if found[2]:
        low, high = int(found[2]), int(found[2]) + 1
    else:
        low, high = int(found[3] or 0), int(found[4] or 0x7FFFFFFF)
    return lambda each: pattern.allows(each.topic) and low <= each.partition < high

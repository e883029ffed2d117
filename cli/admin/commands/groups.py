"""`barnabas groups`: kafka-consumer-groups, and the filters of kafka-groups."""

from __future__ import annotations

from typing import Final

import click

from barnabas.cli.admin.calls.groups import (
    CLASSIC,
    CONSUMER,
    GroupName,
    delete_group,
    delete_offsets,
    is_for_consumers,
    list_groups,
)
from barnabas.cli.admin.calls.topics import describe_topics
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.commands.group_offsets import SCENARIOS, Reset, read_scope
from barnabas.cli.admin.commands.group_report import describe_groups
from barnabas.cli.admin.errors import AdminError, OnUnreachable, UnsupportedApiError
from barnabas.cli.admin.options import (
    FILE,
    ParsedOptions,
    admin_command,
    flag,
    option,
    optional,
    options,
    refuse,
    session,
)
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.partitions import TopicPartition, parse_topic_partitions
from barnabas.cli.admin.shapes import GroupRow, ResultRow

ACTIONS: Final = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
DEFAULT_TIMEOUT_MS: Final = 30_000
STATES: Final = (
    "Empty",
    "Reconciling",
    "CompletingRebalance",
    "PreparingRebalance",
    "Stable",
    "Dead",
    "Assigning",
)
TYPES: Final = (CONSUMER, CLASSIC)
ALL_TYPES: Final = (CONSUMER, CLASSIC, "Share", "Streams")
FILTERS: Final = ("group-type", "protocol", "consumer", "share", "streams")


@admin_command("groups", short_help="List, describe, delete groups; reset their offsets.")
@flag(
    "--list", "List groups of consumers, one a line; with a filter below, or --state or --type, as a table."
)
@flag("--describe", "Show the offsets and lag of groups, their members, or their states.")
@flag("--delete", "Delete groups that are empty, with their offsets.")
@flag("--reset-offsets", "Set the offsets of groups that are empty.")
@flag("--delete-offsets", "Delete committed offsets of a group.")
@option("--validate-regex", "Check a regular expression (RE2) for subscriptions of consumers.")
@options("--group", "The group.")
@flag("--all-groups", "All groups of consumers.")
@options("--topic", "The topic, or some of its partitions: topic:0,1,2.")
@flag("--all-topics", "With --reset-offsets: all topics with committed offsets of the group.")
@optional(
    "--state",
    "With --describe: show states. With --list: show them, and only groups in these (Stable, Empty ...).",
    metavar="STATE,...",
)
@optional(
    "--type", "With --list: show types, and only groups of these (classic, consumer).", metavar="TYPE,..."
)
@flag("--offsets", "With --describe: show offsets; the default.")
@flag("--members", "With --describe: show members.")
@flag("--verbose", "With --describe: show epochs and assignments.")
@flag("--dry-run", "With --reset-offsets: only show the new offsets; the default.")
@flag("--execute", "With --reset-offsets: commit the new offsets.")
@flag("--export", "With --reset-offsets: print CSV, which --from-file reads.")
@flag("--to-earliest", "To the start of the log.")
@flag("--to-latest", "To the end of the log.")
@flag("--to-current", "To the committed offset; to the end of the log without one.")
@option("--to-offset", "To this offset.", kind=int)
@option("--to-datetime", "To the first record at or after this time.", metavar="YYYY-MM-DDThh:mm:ss.sss")
@option("--by-duration", "To the first record within this time before now.", metavar="PnDTnHnMnS")
@option("--shift-by", "Forward by this number of offsets; back if it is negative.", kind=int, metavar="N")
@option(
    "--from-file",
    "To the offsets in a file of CSV: topic,partition,offset or group,...",
    kind=FILE,
    metavar="FILE",
)
@option(
    "--timeout", f"How long to wait for the brokers. Default: {DEFAULT_TIMEOUT_MS}.", kind=int, metavar="MS"
)
@option(
    "--group-type",
    "With --list: only groups of this type (classic, consumer, share, streams).",
    metavar="TYPE",
)
@option("--protocol", "With --list: only groups of this protocol type.")
@flag("--consumer", "With --list: only groups of consumers, including those that only commit offsets.")
@flag("--share", "With --list: only share groups.")
@flag("--streams", "With --list: only streams groups.")
def groups(given: ParsedOptions) -> None:
    """List, describe and delete groups of consumers, classic ones and those of the consumer protocol, and reset their
    offsets: kafka-consumer-groups; with --group-type, --protocol, --consumer, --share or --streams kafka-groups.

    \b
    barnabas groups --describe --all-groups
    barnabas groups --reset-offsets --group billing --topic orders --to-earliest --execute
    """
    action = given.one_action(*ACTIONS)
    if action == "validate-regex":
        validate_regex(given)
        return
    check_usage(given)
    with session(given, timeout_ms=given.number("timeout") or DEFAULT_TIMEOUT_MS) as (client, out):
        if action == "list":
            list_names(client, out, given)
        elif action == "describe":
            describe_groups(client, out, chosen(client, given), given)
        elif action == "delete":
            delete(client, out, given)
        elif action == "reset-offsets":
            Reset(client, out, given).run(chosen(client, given))
        else:
            delete_some_offsets(client, out, given)


def check_usage(given: ParsedOptions) -> None:
    """Raises UsageError for options that exclude each other (`ConsumerGroupCommandOptions.checkArgs`)."""
    given.forbid("group", "all-groups", "list")
    given.forbid("topic", "list", "describe")
    for name in ("members", "offsets", "verbose"):
        given.only_with(name, "describe")
    given.only_with("state", "describe", "list")
    given.only_with("type", "list")
    for name in FILTERS:
        given.only_with(name, "list")
        given.forbid(name, "state", "type")
    for name in ("execute", "dry-run", "export", "all-topics", *SCENARIOS):
        given.only_with(name, "reset-offsets")
    if given.has("describe"):
        _check_describe(given)
    if given.has("delete"):
        _need_groups(given, "--delete")
        given.forbid(
            "delete", "topic", why=": it deletes whole groups; --delete-offsets deletes some offsets of one"
        )
    if given.has("delete-offsets"):
        given.need("group", "topic")
        if len(given.texts("group")) > 1 or given.has("all-groups"):
            refuse("--delete-offsets is for one group at a time")
    if given.has("reset-offsets"):
        _check_reset(given)
    if given.has("list"):
        _chosen_states(given), _chosen_types(given), _group_type(given)


def _check_describe(given: ParsedOptions) -> None:
    _need_groups(given, "--describe")
    views = [name for name in ("members", "offsets", "state") if given.has(name)]
    if len(views) > 1:
        refuse(f"--describe shows one at a time of --{', --'.join(views)}")
    if given.text("state"):
        refuse("--describe does not take a value for --state")


def _check_reset(given: ParsedOptions) -> None:
    given.forbid("execute", "dry-run")
    _need_groups(given, "--reset-offsets")
    scenarios = [name for name in SCENARIOS if given.has(name)]
    if len(scenarios) != 1:
        refuse(f"--reset-offsets needs exactly one of --{', --'.join(SCENARIOS)}")
    given.forbid("topic", "all-topics")
    if not given.has("from-file") and not given.has("topic") and not given.has("all-topics"):
        refuse("--reset-offsets needs --topic or --all-topics")
    read_scope(given)


def _need_groups(given: ParsedOptions, action: str) -> None:
    if not given.has("group") and not given.has("all-groups"):
        refuse(f"{action} needs --group or --all-groups")


# ---- --list


def list_names(client: AdminClient, out: Output, given: ParsedOptions) -> None:
    """--list"""
    if any(map(given.has, FILTERS)):
        _list_all_kinds(client, out, given)
        return
    states, types = _chosen_states(given), _chosen_types(given)
    listed = list_groups(client, states=states, types=types, on_unreachable=_report_missing(out))
    found = [each for each in listed if is_for_consumers(each)]
    _rows(out, found)
    columns = {"GROUP": [each.group for each in found]}
    if given.has("type"):
        columns["TYPE"] = [each.type or "Unknown" for each in found]
    if given.has("state"):
        columns["STATE"] = [each.state or "Unknown" for each in found]
    if len(columns) > 1 or out.is_terminal:
        out.table(list(columns), list(zip(*columns.values(), strict=True)))
        return
    for each in found:
        out.line(each.group)


def _list_all_kinds(client: AdminClient, out: Output, given: ParsedOptions) -> None:
    """The list of kafka-groups."""
    wanted, protocol = _group_type(given), given.text("protocol")
    found = [
        each
        for each in list_groups(client, on_unreachable=_report_missing(out))
        if (wanted is None or each.type == wanted)
        and (protocol is None or each.protocol == protocol)
        and (not given.has("consumer") or is_for_consumers(each))
    ]
    _rows(out, found)
    out.table(("GROUP", "TYPE", "PROTOCOL"), [(each.group, each.type, each.protocol) for each in found])


def _report_missing(out: Output) -> OnUnreachable:
    """Reports the broker whose groups are missing from the list."""
    return lambda broker, error: out.failed(f"no groups that broker {broker} coordinates: {error}")


def _rows(out: Output, found: list[GroupName]) -> None:
    for each in found:
        out.row(GroupRow(each.group, each.type, each.protocol, each.state, *(None,) * 6))


def _chosen_states(given: ParsedOptions) -> list[str]:
    return (
        [_one_of(part, STATES, "states") for part in _parts(given.text("state"))] if given.has("list") else []
    )


def _chosen_types(given: ParsedOptions) -> list[str]:
    return [_one_of(part, TYPES, "types") for part in _parts(given.text("type"))]


def _group_type(given: ParsedOptions) -> str | None:
    flags = [name for name in ("consumer", "share", "streams") if given.has(name)]
    text = given.text("group-type")
    if len(flags) + (text is not None) > 1:
        refuse("only one of --group-type, --consumer, --share and --streams can be given")
    if text is not None:
        return _one_of(text, ALL_TYPES, "types")
    return flags[0].capitalize() if flags and flags != ["consumer"] else None


def _parts(text: str | None) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []


def _one_of(text: str, known: tuple[str, ...], what: str) -> str:
    found = next((each for each in known if each.lower() == text.lower()), None)
    if found is None:
        refuse(f"Invalid {what} list '{text}'. Valid {what} are: {', '.join(known)}")
    return found


# ---- the other actions


def chosen(client: AdminClient, given: ParsedOptions) -> list[str]:
    """The groups of the command line, each once."""
    if given.has("all-groups"):
        return [each.group for each in list_groups(client) if is_for_consumers(each)]
    return list(dict.fromkeys(given.texts("group")))


def delete(client: AdminClient, out: Output, given: ParsedOptions) -> None:
    """--delete"""
    deleted = []
    for group in chosen(client, given):
        error = delete_group(client, group)
        out.result("group", group, "delete", error)
        if error is None:
            deleted.append(group)
        else:
            out.failed(f"Group '{group}' could not be deleted due to: {error}")
    if deleted and not out.has_failed:
        out.line(f"Deletion of requested consumer groups ('{', '.join(deleted)}') was successful.")
    elif deleted:
        out.line(f"These consumer groups were deleted successfully: '{', '.join(deleted)}'")


def delete_some_offsets(client: AdminClient, out: Output, given: ParsedOptions) -> None:
    """--delete-offsets"""
    group = given.texts("group")[0]
    results: dict[TopicPartition, AdminError | None] = {}
    partitions: list[TopicPartition] = []
    for topic, numbers in _topics(given):
        if numbers is not None:
            partitions += [TopicPartition(topic, number) for number in numbers]
            continue
        try:
            partitions += [
                TopicPartition(topic, each.number) for each in describe_topics(client, [topic])[0].partitions
            ]
        except UnsupportedApiError:
            raise
        except AdminError as error:
            results[TopicPartition(topic, -1)] = error
    results |= delete_offsets(client, group, partitions)
    if not any(results.values()):
        out.line(f"Request succeeded for deleting offsets from group {group}.")
    _show_results(out, group, results)


def _show_results(out: Output, group: str, results: dict[TopicPartition, AdminError | None]) -> None:
    rows = []
    for each, error in sorted(results.items()):
        rows.append(
            (each.topic, each.partition if each.partition >= 0 else None, "Error" if error else "Successful")
        )
        out.result("offset", str(each), "delete", error)
        if error is not None:
            out.failed(f"group {group!r}, {each.topic if each.partition < 0 else each}: {error}")
    out.table(("TOPIC", "PARTITION", "STATUS"), rows)


def _topics(given: ParsedOptions) -> list[tuple[str, list[int] | None]]:
    try:
        return [parse_topic_partitions(text) for text in given.texts("topic")]
    except ValueError as error:
        refuse(f"--topic: {error}")


def validate_regex(given: ParsedOptions) -> None:
    """--validate-regex: exit code 1 for an invalid one."""
    pattern = given.text("validate-regex") or ""
    out = Output.standard(as_json=given.has("json"))
    from barnabas.broker.coordinator.group.consumer.regexes import InvalidRegexError, full_matcher

    try:
        full_matcher(pattern)
    except InvalidRegexError as error:
        out.row(ResultRow("regex", pattern, "validate", "INVALID_REGULAR_EXPRESSION", str(error)))
        out.line(f"The regular expression `{pattern}` is invalid: {error}.")
        raise click.exceptions.Exit(1) from None
    out.result("regex", pattern, "validate")
    out.line(f"The regular expression `{pattern}` is valid.")

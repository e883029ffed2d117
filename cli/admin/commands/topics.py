"""`barnabas topics`: kafka-topics."""

from __future__ import annotations

from typing import Final

from barnabas.cli.admin.calls.topics import (
    BY_DEFAULT,
    NewTopic,
    TopicInfo,
    TopicName,
    create_partitions,
    create_topic,
    delete_topics,
    describe_topic_ids,
    describe_topics,
    list_topics,
)
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.commands.topic_report import TopicReport, Wanted
from barnabas.cli.admin.errors import AdminError, ServerError
from barnabas.cli.admin.options import (
    ParsedOptions,
    admin_command,
    flag,
    option,
    options,
    refuse,
    session,
)
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.partitions import TopicPattern
from barnabas.cli.admin.shapes import TopicRow
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.wire import ZERO_UUID, Uuid, uuid_from_string, uuid_to_string

ACTIONS: Final = ("list", "describe", "create", "alter", "delete")
REPORTS: Final = (
    "under-replicated-partitions",
    "under-min-isr-partitions",
    "at-min-isr-partitions",
    "unavailable-partitions",
)
MAX_REPLICATION_FACTOR: Final = 0x7FFF
DEFAULT_PAGE: Final = 2000
_USE_CONFIGS: Final = ": `barnabas configs --topic ... --alter` changes the configuration of topics"


@admin_command("topics", short_help="Create, delete, describe, or change topics.")
@flag("--list", "List all topics, one name a line.")
@flag("--describe", "Show topics with their partitions.")
@flag("--create", "Create a topic.")
@flag("--alter", "Give topics more partitions.")
@flag("--delete", "Delete topics.")
@option("--topic", 'The topic; for all actions but --create a regular expression, and commas mean "or".')
@option("--topic-id", "The id of the topic to describe.")
@option("--partitions", "The number of partitions. Default with --create: the broker's.", kind=int)
@option("--replication-factor", "The number of replicas of each partition. Default: the broker's.", kind=int)
@option("--replica-assignment", "The brokers of each partition.", metavar="ID:ID,ID:ID,...")
@options("--config", "A setting of the topic to create.", metavar="NAME=VALUE")
@option("--delete-config", "Has no effect, as in Kafka.", metavar="NAME")
@flag("--if-exists", "With --alter, --delete, --describe: a missing topic is not an error.")
@flag("--if-not-exists", "With --create: an existing topic is not an error.")
@flag("--exclude-internal", "With --list and --describe: leave out internal topics.")
@flag("--topics-with-overrides", "With --describe: only topics with settings of their own.")
@flag("--under-replicated-partitions", "With --describe: only partitions with replicas that are not in sync.")
@flag(
    "--under-min-isr-partitions",
    "With --describe: only partitions with fewer in-sync replicas than min.insync.replicas.",
)
@flag(
    "--at-min-isr-partitions",
    "With --describe: only partitions with exactly min.insync.replicas in-sync replicas.",
)
@flag("--unavailable-partitions", "With --describe: only partitions without a leader.")
@option(
    "--partition-size-limit-per-response",
    f"The most partitions in one response. Default: {DEFAULT_PAGE}.",
    kind=int,
)
def topics(given: ParsedOptions) -> None:
    """Create, delete, describe, or change topics: kafka-topics.

    \b
    barnabas topics --create --topic orders --partitions 6 --config retention.ms=3600000
    barnabas topics --describe --topic 'orders|invoices'
    """
    action = given.one_action(*ACTIONS)
    check_usage(given)
    pattern = _pattern(given)
    with session(given) as (client, out):
        if action == "create":
            create(client, out, given)
        elif action == "list":
            list_names(client, out, given, pattern)
        elif action == "describe":
            describe(client, out, given, pattern)
        elif action == "alter":
            alter(client, out, given, pattern)
        else:
            delete(client, out, given, pattern)


def check_usage(given: ParsedOptions) -> None:
    """Raises UsageError for options that exclude each other; Kafka's own table (`TopicCommandOptions.checkArgs`)."""
    if not given.has("list") and not given.has("describe"):
        given.need("topic")
    given.forbid("config", "alter", why=_USE_CONFIGS)
    if given.has("alter"):
        given.need("partitions")
    given.only_with("config", "create")
    given.only_with("partitions", "create", "alter")
    given.only_with("replication-factor", "create")
    given.only_with("replica-assignment", "create", "alter")
    if given.has("create"):
        given.forbid("replica-assignment", "partitions", "replication-factor")
    for report in REPORTS:
        given.only_with(report, "describe")
        given.forbid(report, "topics-with-overrides")
    given.only_with("topics-with-overrides", "describe")
    given.only_with("if-exists", "alter", "delete", "describe")
    given.only_with("if-not-exists", "create")
    given.only_with("exclude-internal", "list", "describe")
    if (
        given.has("describe")
        and given.has("if-exists")
        and not given.has("topic")
        and not given.has("topic-id")
    ):
        refuse("--describe --if-exists needs --topic or --topic-id")
    _check_numbers(given)


def _check_numbers(given: ParsedOptions) -> None:
    partitions, factor = given.number("partitions"), given.number("replication-factor")
    if partitions is not None and partitions < 1:
        refuse(f"--partitions {partitions}: a topic has at least 1")
    if factor is not None and not 1 <= factor <= MAX_REPLICATION_FACTOR:
        refuse(f"--replication-factor {factor}: between 1 and {MAX_REPLICATION_FACTOR} is possible")


def _pattern(given: ParsedOptions) -> TopicPattern | None:
    text = given.text("topic")
    if text is None or given.has("create"):
        return None
    try:
        return TopicPattern(text)
    except ValueError as error:
        refuse(f"--topic: {error}")


# ---- the actions


def create(client: AdminClient, out: Output, given: ParsedOptions) -> None:
    """--create"""
    name = given.text("topic") or ""
    if "." in name or "_" in name:
        out.note(
            "warning: in the names of metrics periods ('.') and underscores ('_') become the same; use one of them in "
            "the names of topics, and not both"
        )
    new = NewTopic(
        name,
        given.number("partitions") or BY_DEFAULT,
        given.number("replication-factor") or BY_DEFAULT,
        _assignment(given.text("replica-assignment")),
        _configs(given.texts("config")),
    )
    try:
        created = create_topic(client, new)
    except ServerError as error:
        if error.code == ErrorCode.TOPIC_ALREADY_EXISTS and given.has("if-not-exists"):
            out.result("topic", name, "create", message="it existed already")
            return
        raise
    out.line(f"Created topic {created.name}.")
    out.result("topic", created.name, "create", message=uuid_to_string(created.topic_id))


def _configs(texts: tuple[str, ...]) -> dict[str, str]:
    configs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            refuse(f"--config {text}: NAME=VALUE is expected")
        configs[name.strip()] = value.strip()
    return configs


def _assignment(text: str | None) -> dict[int, list[int]] | None:
    """`1:2,2:1` is partition 0 on brokers 1 and 2, partition 1 on brokers 2 and 1."""
    if not text:
        return None
    assignment: dict[int, list[int]] = {}
    for number, part in enumerate(text.split(",")):
        try:
            brokers = [int(broker) for broker in part.split(":")]
        except ValueError:
            refuse(
                f"--replica-assignment {text}: {part!r} is not a list of broker ids with colons in between"
            )
        if len(set(brokers)) != len(brokers):
            refuse(f"--replica-assignment {text}: {part!r} names a broker twice")
        if number and len(brokers) != len(assignment[0]):
            refuse(
                f"--replica-assignment {text}: partition {number} has a different number of replicas than partition 0"
            )
        assignment[number] = brokers
    return assignment


def chosen(client: AdminClient, given: ParsedOptions, pattern: TopicPattern | None) -> list[TopicName]:
    """The topics that match. Raises AdminError if one must exist and does not."""
    exclude_internal = given.has("exclude-internal")
    found = [
        topic
        for topic in list_topics(client)
        if (pattern.allows(topic.name) if pattern else True) and not (exclude_internal and topic.is_internal)
    ]
    if given.text("topic") and not found and not given.has("if-exists") and not given.has("list"):
        raise AdminError(f"Topic '{given.text('topic')}' does not exist as expected")
    return found


def list_names(client: AdminClient, out: Output, given: ParsedOptions, pattern: TopicPattern | None) -> None:
    """--list"""
    for topic in chosen(client, given, pattern):
        out.line(topic.name)
        out.row(
            TopicRow(
                topic.name,
                uuid_to_string(topic.topic_id),
                topic.is_internal,
                topic.partitions,
                None,
                None,
                None,
            )
        )


def describe(client: AdminClient, out: Output, given: ParsedOptions, pattern: TopicPattern | None) -> None:
    """--describe"""
    with out.working("Reading topics"):
        described = _described(client, given, pattern)
        report = TopicReport.of(client, described, Wanted.of(given))
    report.show(out)


def _described(client: AdminClient, given: ParsedOptions, pattern: TopicPattern | None) -> list[TopicInfo]:
    topic_id = _topic_id(given.text("topic-id"))
    if topic_id is not None:
        try:
            return describe_topic_ids(client, [topic_id])
        except ServerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_ID:
                raise
            if given.has("if-exists"):
                return []
            raise AdminError(f"TopicId '{given.text('topic-id')}' does not exist as expected") from None
    names = [topic.name for topic in chosen(client, given, pattern)]
    return describe_topics(
        client, names, page=given.number("partition-size-limit-per-response") or DEFAULT_PAGE
    )


def _topic_id(text: str | None) -> Uuid | None:
    if text is None:
        return None
    try:
        topic_id = uuid_from_string(text)
    except ValueError as error:
        refuse(f"--topic-id: {error}")
    return None if topic_id == ZERO_UUID else topic_id


def alter(client: AdminClient, out: Output, given: ParsedOptions, pattern: TopicPattern | None) -> None:
    """--alter"""
    names = [topic.name for topic in chosen(client, given, pattern)]
    if not names:
        return
    count = given.number("partitions") or 0
    assignment = _assignment(given.text("replica-assignment"))
    additions = {}
    if assignment is not None:
        brokers = list(assignment.values())
        additions = {topic.name: brokers[len(topic.partitions) :] for topic in describe_topics(client, names)}
    results = create_partitions(client, dict.fromkeys(names, count), additions)
    _show_results(out, results, "alter")


def delete(client: AdminClient, out: Output, given: ParsedOptions, pattern: TopicPattern | None) -> None:
    """--delete"""
    names = [topic.name for topic in chosen(client, given, pattern)]
    if names:
        with out.working(f"Deleting {len(names)} topics"):
            results = delete_topics(client, names)
        _show_results(out, results, "delete")


def _show_results(out: Output, results: dict[str, AdminError | None], action: str) -> None:
    """Prints errors only, as Kafka's tool does."""
    for name, error in results.items():
        out.result("topic", name, action, error)
        if error is not None:
            out.failed(f"topic {name!r}: {error}")

"""`barnabas leader-election`: kafka-leader-election."""

from __future__ import annotations

from typing import Any, Final

from barnabas.cli.admin.calls.reassignments import elect_leaders
from barnabas.cli.admin.files import read_partitions
from barnabas.cli.admin.options import (
    FILE,
    ParsedOptions,
    admin_command,
    flag,
    option,
    refuse,
    session,
)
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.partitions import TopicPartition
from barnabas.protocol.errors import ErrorCode

TYPES: Final = {"preferred": 0, "unclean": 1}


@admin_command("leader-election", short_help="Elect leaders of partitions.")
@option(
    "--election-type",
    "preferred: the first replica; unclean: any live replica of a partition without a leader.",
)
@option("--topic", "The topic.")
@option("--partition", "The partition of --topic.", kind=int)
@flag("--all-topic-partitions", "All partitions that need it.")
@option(
    "--path-to-json-file",
    'The partitions: {"partitions": [{"topic": "t", "partition": 1}]}.',
    kind=FILE,
    metavar="FILE",
)
def leader_election(given: ParsedOptions) -> None:
    """Elect leaders of partitions: kafka-leader-election.

    \b
    barnabas leader-election --election-type preferred --all-topic-partitions
    """
    given.need("election-type")
    kind = (given.text("election-type") or "").lower()
    if kind not in TYPES:
        refuse(f"--election-type {kind}: there are {' and '.join(TYPES)}")
    given.one_action("topic", "all-topic-partitions", "path-to-json-file")
    if given.has("topic"):
        given.need("partition")
    given.only_with("partition", "topic")
    with session(given) as (client, out):
        _show_results(out, kind.upper(), elect_leaders(client, TYPES[kind], _partitions(given)))


def _partitions(given: ParsedOptions) -> list[TopicPartition] | None:
    topic, partition, path = given.text("topic"), given.number("partition"), given.path("path-to-json-file")
    if topic is not None and partition is not None:
        return [TopicPartition(topic, partition)]
    return None if path is None else [each.partition for each in read_partitions(path)]


def _show_results(out: Output, kind: str, results: dict[TopicPartition, Any]) -> None:
    elected = sorted(each for each, error in results.items() if error is None)
    unneeded = sorted(
        each
        for each, error in results.items()
        if error is not None and error.code == ErrorCode.ELECTION_NOT_NEEDED
    )
    for each, error in sorted(results.items(), key=lambda item: item[0]):
        out.result("partition", str(each), "elect", error)
    if elected:
        out.line(
            f"Successfully completed leader election ({kind}) for partitions {', '.join(map(str, elected))}"
        )
    if unneeded:
        out.line(f"Valid replica already elected for partitions {', '.join(map(str, unneeded))}")
    for each in sorted(set(results) - set(elected) - set(unneeded)):
        out.failed(f"Error completing leader election ({kind}) for partition: {each}: {results[each]}")

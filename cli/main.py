"""The command line: `barnabas serve`, and the other commands, each imported when it is used (LAZY_COMMANDS).

Other packages add commands by entry points of the group `barnabas.commands`, as the pipeline does.

Exit codes: 0 clean shutdown, 1 failed to start or had to stop, 2 the command line or the configuration is wrong.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from barnabas.broker.version import VERSION
from barnabas.lazy_group import LazyGroup

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


LAZY_COMMANDS = {
    "topics": "barnabas.cli.admin.commands.topics:topics",
    "configs": "barnabas.cli.admin.commands.configs:configs",
    "groups": "barnabas.cli.admin.commands.groups:groups",
    "log-dirs": "barnabas.cli.admin.commands.log_dirs:log_dirs",
    "quotas": "barnabas.cli.admin.commands.quotas:quotas",
    "users": "barnabas.cli.admin.commands.users:users",
    "tokens": "barnabas.cli.admin.commands.tokens:tokens",
    "acls": "barnabas.cli.admin.commands.acls:acls",
    "cluster": "barnabas.cli.admin.commands.cluster:cluster",
    "features": "barnabas.cli.admin.commands.features:features",
    "metadata-quorum": "barnabas.cli.admin.commands.metadata_quorum:metadata_quorum",
    "get-offsets": "barnabas.cli.admin.commands.get_offsets:get_offsets",
    "delete-records": "barnabas.cli.admin.commands.delete_records:delete_records",
    "reassign-partitions": "barnabas.cli.admin.commands.reassign_partitions:reassign_partitions",
    "leader-election": "barnabas.cli.admin.commands.leader_election:leader_election",
    "transactions": "barnabas.cli.admin.commands.transactions:transactions",
    "compact": "barnabas.cli.compact:compact",
    "config": "barnabas.cli.config:config",
    "dump-log": "barnabas.cli.tools.dump_log:dump_log",
    "format": "barnabas.cli.storage:format_dirs",
    "log": "barnabas.cli.tools.log_verify:log",
    "storage": "barnabas.cli.storage:storage",
    "wire": "barnabas.cli.wire.commands:wire",
}
ENTRY_POINTS = "barnabas.commands"


class MainGroup(LazyGroup):
    """Adds the commands of other packages. Searching for them takes milliseconds, so they come last."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *sorted(_entry_points())]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        known = super().get_command(ctx, cmd_name)
        if known is not None:
            return known
        entry = _entry_points().get(cmd_name)
        command: click.Command | None = None if entry is None else entry.load()
        return command


def _entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


@click.group(
    cls=MainGroup,
    lazy_commands=LAZY_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(VERSION, message="barnabas %(version)s")
def main() -> None:
    """Barnabas: a message broker that speaks the Kafka wire protocol and keeps Apache Kafka's own log format."""


@main.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    short_help="Start a broker and serve until SIGTERM or Ctrl-C.",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def serve(words: tuple[str, ...]) -> None:
    """Start a broker. cli/serve.py declares and parses its command line."""
    from barnabas.cli.serve import main as start

    sys.exit(start(words))


if __name__ == "__main__":
    main()

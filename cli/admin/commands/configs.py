"""`barnabas configs`: kafka-configs."""

from __future__ import annotations

from typing import Final

import click

from barnabas.cli.admin.calls.configs import alter_configs, describe_configs
from barnabas.cli.admin.calls.quotas import (
    CLIENT_ID,
    IP,
    USER,
    Component,
    alter_quotas,
    describe_quotas,
)
from barnabas.cli.admin.calls.scram import NewCredential, OldCredential, alter_users
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.commands.config_entities import (
    CLIENTS,
    IPS,
    RESOURCES,
    USERS,
    Entities,
    entities_of,
    plain_name,
)
from barnabas.cli.admin.commands.config_report import describe_quota_entities, describe_resources
from barnabas.cli.admin.config_values import parse_added, parse_number, parse_secret, read_added
from barnabas.cli.admin.errors import AdminError
from barnabas.cli.admin.names import ResourceType, scram_mechanism
from barnabas.cli.admin.options import (
    FILE,
    AdminCommand,
    ParsedOptions,
    admin_command,
    flag,
    option,
    options,
    refuse,
    session,
)
from barnabas.cli.admin.output import Output

QUOTA_TYPES: Final = {USERS: USER, CLIENTS: CLIENT_ID, IPS: IP}
CLIENT_QUOTAS: Final = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
IP_QUOTAS: Final = frozenset({"connection_creation_rate"})


class ConfigsCommand(AdminCommand):
    """Parses --entity-default as an empty --entity-name, whose position says to which entity it belongs."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(
            ctx, ["--entity-name=" if arg == "--entity-default" else arg for arg in args]
        )


@admin_command(
    "configs",
    short_help="Describe or change configurations, quotas and SCRAM users.",
    cls=ConfigsCommand,
    controller=True,
)
@flag("--describe", "Show configurations.")
@flag("--alter", "Change a configuration.")
@flag("--all", "With --describe: include defaults and static values.")
@options(
    "--entity-type",
    "topics, brokers, broker-loggers, users, clients, ips, groups or client-metrics; users and clients also together.",
    metavar="TYPE",
)
@options("--entity-name", "The name of the entity: as many as there are types.", metavar="NAME")
@flag("--entity-default", "The default of users, clients, brokers or ips, in place of a name.")
@option("--topic", "The topic.")
@option("--broker", "The broker's id.")
@flag("--broker-defaults", "The defaults of all brokers.")
@option("--broker-logger", "The id of the broker whose loggers are meant.")
@option("--user", "The user's principal name.")
@flag("--user-defaults", "The defaults of all users.")
@option("--client", "The client's id.")
@flag("--client-defaults", "The defaults of all clients.")
@option("--ip", "The IP address.")
@flag("--ip-defaults", "The defaults of all IP addresses.")
@option("--group", "The group's id.")
@option("--client-metrics", "The name of the client metrics subscription.")
@option(
    "--add-config",
    "The keys to set; brackets keep commas in a value: k1=v1,k2=[v2,v3],SCRAM-SHA-256=[iterations=8192,password=x].",
    metavar="KEY=VALUE,...",
)
@option("--add-config-file", "A file of properties to set.", kind=FILE, metavar="FILE")
@options("--delete-config", "The keys to delete.", metavar="KEY,...")
def configs(given: ParsedOptions) -> None:
    """Describe and change configurations of topics, brokers, loggers, groups and client metrics, quotas of users,
    clients and ips, and SCRAM credentials of users: kafka-configs.

    \b
    barnabas configs --topic orders --describe --all
    barnabas configs --topic orders --alter --add-config retention.ms=3600000,cleanup.policy=[compact,delete]
    barnabas configs --user alice --alter --add-config producer_byte_rate=1048576
    """
    action = given.one_action("describe", "alter")
    given.forbid("describe", "add-config", "add-config-file", "delete-config")
    entities = entities_of(given)
    entities.check(is_alter=action == "alter")
    added, deleted = _changes(given) if action == "alter" else ({}, [])
    with session(given) as (client, out):
        if action == "alter":
            alter(client, out, entities, added, deleted)
        elif entities.head in RESOURCES:
            describe_resources(client, out, entities.head, entities.only_name, describe_all=given.has("all"))
        else:
            describe_quota_entities(client, out, entities)


def _changes(given: ParsedOptions) -> tuple[dict[str, str], list[str]]:
    given.forbid("add-config", "add-config-file")
    if not (given.has("add-config") or given.has("add-config-file") or given.has("delete-config")):
        refuse("--alter needs --add-config, --add-config-file or --delete-config")
    text, file = given.text("add-config"), given.path("add-config-file")
    try:
        added = parse_added(text) if text is not None else (read_added(file) if file is not None else {})
    except ValueError as error:
        refuse(f"--add-config: {error}")
    deleted = [key.strip() for keys in given.texts("delete-config") for key in keys.split(",")]
    return added, deleted


# ---- --alter


def alter(
    client: AdminClient, out: Output, entities: Entities, added: dict[str, str], deleted: list[str]
) -> None:
    """--alter"""
    head = entities.head
    if head in QUOTA_TYPES:
        _alter_quotas_or_users(client, entities, added, deleted)
    else:
        kind = RESOURCES[head]
        if kind is ResourceType.BROKER_LOGGER:
            _check_loggers(client, entities.names[0], [*added, *deleted])
        alter_configs(client, {(kind, entities.names[0]): {**dict.fromkeys(deleted), **added}})
    name = entities.names[0]
    whose = f"config for {plain_name(head)} {name}" if name else f"default config for {head} in the cluster"
    out.line(f"Completed updating {whose}.")
    out.result(plain_name(head), name, "alter")


def _check_loggers(client: AdminClient, broker: str, names: list[str]) -> None:
    """Checked first, as in Kafka's tool, since the broker would create a logger of any name."""
    known = {each.name for each in describe_configs(client, ResourceType.BROKER_LOGGER, [broker])[broker]}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise AdminError(f"Invalid broker logger(s): {','.join(unknown)}")


def _alter_quotas_or_users(
    client: AdminClient, entities: Entities, added: dict[str, str], deleted: list[str]
) -> None:
    mechanisms = [key for key in (*added, *deleted) if scram_mechanism(key)]
    known = IP_QUOTAS if entities.head == IPS else CLIENT_QUOTAS
    unknown = [key for key in (*added, *deleted) if key not in known and key not in mechanisms]
    is_user_alone = entities.types == [USERS]
    if unknown or (mechanisms and not is_user_alone):
        allowed = ", ".join(sorted(known)) + (", SCRAM-SHA-256, SCRAM-SHA-512" if is_user_alone else "")
        refuse(
            f"{', '.join(unknown or mechanisms)} cannot be set for {' and '.join(entities.types)}; there are {allowed}"
        )
    if not mechanisms:
        _alter_quotas(client, entities, added, deleted)
        return
    if not all(entities.names):
        refuse("SCRAM credentials need a user: --entity-default and --user-defaults cannot have any")
    if len(mechanisms) != len(added) + len(deleted):
        refuse("quotas and SCRAM credentials cannot be changed at the same time")
    _alter_users(client, entities.names[0], added, deleted)


def _alter_quotas(client: AdminClient, entities: Entities, added: dict[str, str], deleted: list[str]) -> None:
    try:
        changes: dict[str, float | None] = {key: parse_number(key, value) for key, value in added.items()}
    except ValueError as error:
        refuse(str(error))
    entity = {QUOTA_TYPES[kind]: name or None for kind, name in entities.pairs()}
    components = [Component.of(kind, name) for kind, name in entity.items()]
    there = describe_quotas(client, components, strict=True) if deleted else []
    values = there[0].values if there else {}
    missing = [key for key in deleted if key not in values]
    if missing:
        raise AdminError(f"Invalid config(s): {','.join(missing)}: no such quota is set")
    alter_quotas(client, entity, {**dict.fromkeys(deleted), **changes})


def _alter_users(client: AdminClient, user: str, added: dict[str, str], deleted: list[str]) -> None:
    upsertions = []
    try:
        for key, value in added.items():
            mechanism = scram_mechanism(key)
            assert mechanism is not None
            upsertions.append(NewCredential(user, mechanism, *parse_secret(mechanism, value)))
    except ValueError as error:
        refuse(str(error))
    mechanisms = [scram_mechanism(key) for key in deleted]
    alter_users(client, upsertions, [OldCredential(user, each) for each in mechanisms if each is not None])

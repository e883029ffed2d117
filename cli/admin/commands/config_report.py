"""The output of `barnabas configs --describe`: Kafka's lines in a pipe, tables on a terminal, or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

from barnabas.cli.admin.calls.cluster import describe_cluster
from barnabas.cli.admin.calls.configs import ConfigValue, describe_configs, list_config_resources
from barnabas.cli.admin.calls.groups import list_groups
from barnabas.cli.admin.calls.quotas import ANY, CLIENT_ID, IP, USER, Component, Quota, describe_quotas
from barnabas.cli.admin.calls.scram import ScramUser, describe_users
from barnabas.cli.admin.calls.topics import list_topics
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.commands.config_entities import (
    BROKER_LOGGERS,
    BROKERS,
    CLIENT_METRICS,
    CLIENTS,
    GROUPS,
    IPS,
    RESOURCES,
    TOPICS,
    USERS,
    Entities,
    plain_name,
)
from barnabas.cli.admin.errors import ServerError, UnsupportedApiError
from barnabas.cli.admin.names import ResourceType, name_of, scram_name
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.shapes import ConfigRow, QuotaRow, UserRow
from barnabas.config.config_source import ConfigSource
from barnabas.protocol.errors import ErrorCode

_DYNAMIC: Final = {
    TOPICS: ConfigSource.DYNAMIC_TOPIC_CONFIG,
    CLIENT_METRICS: ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG,
    GROUPS: ConfigSource.DYNAMIC_GROUP_CONFIG,
}
_QUOTA_TYPES: Final = {USERS: USER, CLIENTS: CLIENT_ID, IPS: IP}
_TYPE_WORDS: Final = {USER: "user-principal", CLIENT_ID: "client-id", IP: "ip"}


# ---- resources


def describe_resources(
    client: AdminClient, out: Output, kind: str, name: str | None, *, describe_all: bool
) -> None:
    """One resource of a type, or all."""
    if name and name not in resources_of(client, kind):
        out.failed(f"The {plain_name(kind)} '{name}' doesn't exist and doesn't have dynamic config.")
        return
    names = resources_of(client, kind) if name is None else [name]
    with out.working(f"Reading the configuration of {len(names)} {kind}"):
        found = _read(client, RESOURCES[kind], names)
    for each in names:
        values = [value for value in found[each] if describe_all or _is_dynamic(kind, each, value)]
        _show_resource(
            out, kind, each, sorted(values, key=lambda value: value.name), describe_all=describe_all
        )


def _read(client: AdminClient, kind: ResourceType, names: Sequence[str]) -> dict[str, list[ConfigValue]]:
    """Each broker knows only its own configuration."""
    if kind in {ResourceType.BROKER, ResourceType.BROKER_LOGGER}:
        return {name: describe_configs(client, kind, [name])[name] for name in names}
    return describe_configs(client, kind, names)


def resources_of(client: AdminClient, kind: str) -> list[str]:
    """The names of all resources of a type that may have a configuration, sorted; brokers' defaults at the end."""
    if kind == TOPICS:
        return [topic.name for topic in list_topics(client)]
    if kind in {BROKERS, BROKER_LOGGERS}:
        brokers = [str(node.id) for node in describe_cluster(client).nodes]
        return [*brokers, ""] if kind == BROKERS else brokers
    if kind == CLIENT_METRICS:
        return list_config_resources(client, ResourceType.CLIENT_METRICS)
    return sorted({*_groups_with_configs(client), *_groups(client)})


def _groups_with_configs(client: AdminClient) -> list[str]:
    try:
        return list_config_resources(client, ResourceType.GROUP)
    except UnsupportedApiError:
        return []  # Apache Kafka before 4.1 does not list them


def _groups(client: AdminClient) -> list[str]:
    try:
        return [group.group for group in list_groups(client)]
    except UnsupportedApiError:
        return []  # a broker that does not serve groups may still have configurations for them


def _is_dynamic(kind: str, name: str, value: ConfigValue) -> bool:
    if kind == BROKERS:
        wanted = ConfigSource.DYNAMIC_BROKER_CONFIG if name else ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        return value.source == wanted
    return kind not in _DYNAMIC or value.source == _DYNAMIC[kind]


def _show_resource(
    out: Output, kind: str, name: str, values: Sequence[ConfigValue], *, describe_all: bool
) -> None:
    for value in values:
        out.row(_row(kind, name, value))
    which = "All" if describe_all else "Dynamic"
    title = (
        f"{which} configs for {plain_name(kind)} {name} are:"
        if name
        else f"Default configs for {kind} in the cluster are:"
    )
    if out.is_terminal:
        rows = [(each.name, _shown(each), name_of(ConfigSource, each.source)) for each in values]
        out.table(("Key", "Value", "Source"), rows, title=title)
        return
    out.line(title)
    for value in values:
        synonyms = ", ".join(
            f"{name_of(ConfigSource, s.source)}:{s.name}={_text(s.value)}" for s in value.synonyms
        )
        sensitive = str(value.is_sensitive).lower()
        out.line(f"  {value.name}={_text(value.value)} sensitive={sensitive} synonyms={{{synonyms}}}")


def _text(value: str | None) -> str:
    return "null" if value is None else value


def _shown(value: ConfigValue) -> str:
    return "(hidden)" if value.value is None and value.is_sensitive else _text(value.value)


def _row(kind: str, name: str, value: ConfigValue) -> ConfigRow:
    synonyms = [
        {"name": each.name, "value": each.value, "source": name_of(ConfigSource, each.source)}
        for each in value.synonyms
    ]
    source = name_of(ConfigSource, value.source)
    return ConfigRow(
        kind, name, value.name, value.value, source, value.is_sensitive, value.is_read_only, synonyms
    )


# ---- quotas and users


def describe_quota_entities(client: AdminClient, out: Output, entities: Entities) -> None:
    """Quotas of users, clients and ips; with users also their SCRAM credentials."""
    components = [
        Component(_QUOTA_TYPES[kind], ANY) if name is None else Component.of(_QUOTA_TYPES[kind], name or None)
        for kind, name in zip_longest(entities.types, entities.names)
    ]
    for quota in describe_quotas(client, components, strict=True):
        show_quota(out, quota)
    if entities.head == USERS and CLIENTS not in entities.types and "" not in entities.names:
        for user in known_users(describe_users(client, entities.names or None)):
            show_user(out, user)


def known_users(users: Sequence[ScramUser]) -> list[ScramUser]:
    """The users that have credentials. Raises ServerError for any error but a missing user."""
    for user in users:
        if user.error is not None and user.error.code != ErrorCode.RESOURCE_NOT_FOUND:
            raise ServerError(user.error.code, user.error.message, about=f"user {user.name!r}")
    return [user for user in users if user.error is None]


def entity_text(quota: Quota) -> str:
    """The entity in the words of Kafka's tool."""
    return ", ".join(
        f"the default {word}" if quota.entity[kind] is None else f"{word} '{quota.entity[kind]}'"
        for kind, word in _TYPE_WORDS.items()
        if kind in quota.entity
    )


def show_quota(out: Output, quota: Quota) -> None:
    """One entity's quotas."""
    out.row(QuotaRow(dict(quota.entity), dict(quota.values)))
    out.line(
        f"Quota configs for {entity_text(quota)} are {', '.join(f'{k}={v}' for k, v in quota.values.items())}"
    )


def show_user(out: Output, user: ScramUser) -> None:
    """One user's credentials."""
    out.row(user_row(user))
    credentials = ", ".join(
        f"{scram_name(each.mechanism)}=iterations={each.iterations}" for each in user.credentials
    )
    out.line(f"SCRAM credential configs for user-principal '{user.name}' are {credentials}")


def user_row(user: ScramUser) -> UserRow:
    """The object for JSON."""
    credentials = [
        {"mechanism": scram_name(each.mechanism), "iterations": each.iterations} for each in user.credentials
    ]
    return UserRow(user.name, credentials)

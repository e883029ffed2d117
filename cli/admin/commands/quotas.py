"""`barnabas quotas`: the quotas that kafka-configs keeps under users, clients and ips, in one table."""

from __future__ import annotations

from typing import Any, Final

from barnabas.cli.admin.calls.quotas import (
    CLIENT_ID,
    ENTITY_TYPES,
    IP,
    USER,
    Component,
    Quota,
    alter_quotas,
    describe_quotas,
)
from barnabas.cli.admin.commands.config_report import entity_text
from barnabas.cli.admin.options import ParsedOptions, admin_command, flag, option, refuse, session
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.shapes import QuotaRow

QUOTAS: Final = {
    "producer-byte-rate": "bytes that may be produced per second",
    "consumer-byte-rate": "bytes that may be consumed per second",
    "request-percentage": "percentage of a thread's time for requests",
    "controller-mutation-rate": "partitions that may be created and deleted per second",
    "connection-creation-rate": "connections per second; for IP addresses only",
}
_NAMES: Final = {
    USER: ("user", "user-defaults"),
    CLIENT_ID: ("client", "client-defaults"),
    IP: ("ip", "ip-defaults"),
}
DEFAULT_NAME: Final = "<default>"


def _quota_options(function: Any) -> Any:
    for name, text in reversed(QUOTAS.items()):
        function = option(f"--{name}", f"With --alter: {text}.", kind=float, metavar="N")(function)
    return function


@admin_command("quotas", short_help="Show or change the quotas of users, clients and IP addresses.")
@flag("--describe", "Show quotas; of a user and a client also those for one of the two.")
@flag("--alter", "Set quotas of one entity.")
@flag("--delete", "Delete quotas of one entity: those of --quota, or all.")
@option("--user", "The user's principal name.")
@flag("--user-defaults", "The default of users.")
@option("--client", "The client's id; with --user of this user only.")
@flag("--client-defaults", "The default of clients.")
@option("--ip", "The IP address.")
@flag("--ip-defaults", "The default of IP addresses.")
@option("--quota", "With --delete: the quotas to delete, producer-byte-rate for example.", metavar="NAME,...")
@_quota_options
def quotas(given: ParsedOptions) -> None:
    """Show and change quotas: what kafka-configs does for users, clients and ips.

    \b
    barnabas quotas --describe
    barnabas quotas --alter --user alice --producer-byte-rate 1048576
    barnabas quotas --delete --user alice --quota producer-byte-rate
    """
    action = given.one_action("describe", "alter", "delete")
    entity = _entity(given)
    for name in QUOTAS:
        given.only_with(name, "alter")
    given.only_with("quota", "delete")
    if action != "describe" and not entity:
        refuse(f"--{action} needs --user, --client or --ip, or the defaults of one of them")
    changes: dict[str, float | None] = {_key(name): given.number(name) for name in QUOTAS if given.has(name)}
    if action == "alter" and not changes:
        refuse(f"--alter needs one of --{', --'.join(QUOTAS)}")
    deleted = _deleted(given)
    with session(given) as (client, out):
        if action == "describe":
            components = [Component.of(kind, name) for kind, name in entity.items()]
            show(out, describe_quotas(client, components, strict=False))
            return
        if action == "delete":
            components = [Component.of(kind, name) for kind, name in entity.items()]
            there = describe_quotas(client, components, strict=True)
            changes = dict.fromkeys(deleted or (there[0].values if there else ()))
        if changes:
            alter_quotas(client, entity, changes)
        _show_results(out, entity, changes)


def _entity(given: ParsedOptions) -> dict[str, str | None]:
    entity: dict[str, str | None] = {}
    for kind, (name, default) in _NAMES.items():
        given.forbid(name, default)
        if given.has(name) or given.has(default):
            entity[kind] = given.text(name)
    if IP in entity and len(entity) > 1:
        refuse("--ip cannot be used with --user or --client")
    return entity


def _deleted(given: ParsedOptions) -> list[str]:
    names = [
        name.strip().replace("_", "-") for name in (given.text("quota") or "").split(",") if name.strip()
    ]
    for name in names:
        if name not in QUOTAS:
            refuse(f"--quota {name}: there are {', '.join(QUOTAS)}")
    return [_key(name) for name in names]


def show(out: Output, found: list[Quota]) -> None:
    """Prints a table with a column for each quota that is set."""
    for quota in found:
        out.row(QuotaRow(dict(quota.entity), dict(quota.values)))
    columns = [key for key in map(_key, QUOTAS) if any(key in quota.values for quota in found)]
    columns += sorted({key for quota in found for key in quota.values} - set(columns))
    kinds = [kind for kind in ENTITY_TYPES if any(kind in quota.entity for quota in found)]
    rows = [
        [*(_shown(quota, kind) for kind in kinds), *(_number(quota.values.get(key)) for key in columns)]
        for quota in found
    ]
    if rows:
        out.table(
            [*(kind.upper() for kind in kinds), *(key.upper().replace("_", "-") for key in columns)], rows
        )


def _key(name: str) -> str:
    return name.replace("-", "_")


def _shown(quota: Quota, kind: str) -> str | None:
    if kind not in quota.entity:
        return None
    name = quota.entity[kind]
    return DEFAULT_NAME if name is None else name


def _number(value: float | None) -> int | float | None:
    return int(value) if value is not None and value.is_integer() else value


def _show_results(out: Output, entity: dict[str, str | None], changes: dict[str, float | None]) -> None:
    whose = entity_text(Quota(entity, {}))
    if not changes:
        out.line(f"{whose} has no quotas.")
    for key, value in changes.items():
        out.result("quota", whose, "delete" if value is None else "alter", message=key)
        out.line(f"{key} of {whose} is {'deleted' if value is None else _number(value)}.")

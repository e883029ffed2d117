"""`barnabas acls`: kafka-acls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import click

from barnabas.cli.admin.calls.acls import (
    EVERYTHING,
    Acl,
    AclFilter,
    Entry,
    Pattern,
    create_acls,
    delete_acls,
    describe_acls,
)
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.errors import AdminError
from barnabas.cli.admin.names import name_of
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
from barnabas.cli.admin.shapes import AclRow
from barnabas.protocol.messages.acls import (
    CLUSTER_NAME,
    AclOperation,
    AclResourceType,
    PatternType,
    PermissionType,
)

RESOURCES: Final = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional-id": AclResourceType.TRANSACTIONAL_ID,
    "delegation-token": AclResourceType.DELEGATION_TOKEN,
    "user-principal": AclResourceType.USER,
}
_A: Final = AclOperation
SUPPORTED: Final = {
    AclResourceType.TOPIC: {
        _A.READ,
        _A.WRITE,
        _A.CREATE,
        _A.DESCRIBE,
        _A.DELETE,
        _A.ALTER,
        _A.DESCRIBE_CONFIGS,
    }
    | {_A.ALTER_CONFIGS},
    AclResourceType.GROUP: {_A.READ, _A.DESCRIBE, _A.DELETE, _A.DESCRIBE_CONFIGS, _A.ALTER_CONFIGS},
    AclResourceType.CLUSTER: {_A.CREATE, _A.CLUSTER_ACTION, _A.DESCRIBE_CONFIGS, _A.ALTER_CONFIGS}
    | {_A.IDEMPOTENT_WRITE, _A.ALTER, _A.DESCRIBE},
    AclResourceType.TRANSACTIONAL_ID: {_A.DESCRIBE, _A.WRITE, _A.TWO_PHASE_COMMIT},
    AclResourceType.DELEGATION_TOKEN: {_A.DESCRIBE},
    AclResourceType.USER: {_A.CREATE_TOKENS, _A.DESCRIBE_TOKENS},
}
"""The operations of each resource type (`AclEntry.supportedOperations`), besides All."""
ANY_HOST: Final = "*"


@admin_command("acls", short_help="List, add and remove access control entries.", controller=True)
@flag("--list", "List the entries of these resources, or of all.")
@flag("--add", "Add entries.")
@flag("--remove", "Remove these entries, or all entries of the resources.")
@options("--topic", "A topic; * is all.")
@options("--group", "A group; * is all.")
@flag("--cluster", "The cluster itself.")
@options("--transactional-id", "A transactional id; * is all.")
@options("--delegation-token", "A delegation token; * is all.")
@options("--user-principal", "A user as a resource.")
@option(
    "--resource-pattern-type",
    "How names match: literal (the default) or prefixed; with --list and --remove also any, or match: all that "
    "apply to the name.",
    metavar="TYPE",
)
@options("--allow-principal", "A principal to allow, as Type:name; User:* is every user.")
@options("--deny-principal", "A principal to deny.")
@options("--allow-host", "The host of the allowed principals. Default: *.")
@options("--deny-host", "The host of the denied principals. Default: *.")
@options("--operation", "The operation: Read, Write, Create, Describe ... Default: All.")
@flag("--producer", "All operations that a producer to --topic needs.")
@flag("--consumer", "All operations that a consumer of --topic in --group needs.")
@flag("--idempotent", "With --producer: the operation that idempotence needs as well.")
@options("--principal", "With --list: only the entries of these principals.")
@flag("--force", "Do not ask before removing.")
def acls(given: ParsedOptions) -> None:
    """List, add and remove access control entries: kafka-acls.

    \b
    barnabas acls --add --allow-principal User:alice --consumer --topic orders --group billing
    barnabas acls --list --topic orders
    """
    action = given.one_action("list", "add", "remove")
    check_usage(given)
    patterns = resources(given)
    wanted = {} if action == "list" else entries(given, patterns)
    if action == "add" and not all(wanted.values()):
        refuse("--add needs --allow-principal or --deny-principal")
    with session(given) as (client, out):
        if action == "list":
            list_entries(client, out, patterns, given.texts("principal"))
        elif action == "add":
            add(client, out, wanted)
        else:
            remove(client, out, wanted, is_forced=given.has("force"))


def check_usage(given: ParsedOptions) -> None:
    """Raises UsageError for options that exclude each other (`AclCommandOptions.checkArgs`)."""
    hosts_and_principals = ("allow-host", "allow-principal", "deny-host", "deny-principal")
    given.forbid("list", "producer", "consumer", *hosts_and_principals)
    for role in ("producer", "consumer"):
        given.forbid(role, "operation", "deny-principal", "deny-host")
    given.only_with("principal", "list")
    given.only_with("idempotent", "producer")
    if given.has("producer") and not given.has("topic"):
        refuse("With --producer you must specify a --topic")
    is_only_consumer = given.has("consumer") and not given.has("producer")
    if given.has("consumer") and not (given.has("topic") and given.has("group")):
        refuse("With --consumer you must specify a --topic and a --group")
    if is_only_consumer and (given.has("cluster") or given.has("transactional-id")):
        refuse("With --consumer no --cluster or --transactional-id can be given")


# ---- the entries of the command line


def resources(given: ParsedOptions) -> list[AclFilter]:
    """The resources of the command line. Raises UsageError if the action needs some and none is given."""
    kind = _pattern_type(given)
    found = [
        AclFilter(resource, name.strip(), kind)
        for option_name, resource in RESOURCES.items()
        for name in given.texts(option_name)
    ]
    if kind == PatternType.LITERAL and (given.has("cluster") or given.has("idempotent")):
        found.append(_cluster())
    if not found and not given.has("list"):
        refuse(f"a resource is missing: --cluster, --{', --'.join(RESOURCES)}")
    return found


def _cluster() -> AclFilter:
    return AclFilter(AclResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)


def _pattern_type(given: ParsedOptions) -> PatternType:
    text = (given.text("resource-pattern-type") or "literal").upper()
    names = [each.name for each in PatternType if each]
    if text not in names:
        refuse(f"--resource-pattern-type {text.lower()}: there are {', '.join(names).lower()}")
    kind = PatternType[text]
    if given.has("add") and kind not in {PatternType.LITERAL, PatternType.PREFIXED}:
        refuse(f"A '--resource-pattern-type' value of '{kind.name}' is not valid when adding acls.")
    return kind


def entries(given: ParsedOptions, patterns: Sequence[AclFilter]) -> dict[AclFilter, list[Entry]]:
    """The entries to add to or remove from each resource; an empty list means all of its entries."""
    if not given.has("producer") and not given.has("consumer"):
        found = dict.fromkeys(patterns, _entries(given, _operations(given)))
    else:
        found = {}
        if given.has("producer"):
            found |= _producer(given, patterns)
        if given.has("consumer"):
            for pattern, more in _consumer(given, patterns).items():
                found[pattern] = sorted({*more, *found.get(pattern, [])})
    for pattern, wanted in found.items():
        _check_operations(AclResourceType(pattern.resource_type), wanted)
    return found


def _producer(given: ParsedOptions, patterns: Iterable[AclFilter]) -> dict[AclFilter, list[Entry]]:
    needs = {
        AclResourceType.TOPIC: (_A.WRITE, _A.DESCRIBE, _A.CREATE),
        AclResourceType.TRANSACTIONAL_ID: (_A.WRITE, _A.DESCRIBE),
    }
    found = _of_role(given, patterns, needs)
    if given.has("idempotent"):
        found[_cluster()] = _entries(given, (_A.IDEMPOTENT_WRITE,))
    return found


def _consumer(given: ParsedOptions, patterns: Iterable[AclFilter]) -> dict[AclFilter, list[Entry]]:
    needs = {AclResourceType.TOPIC: (_A.READ, _A.DESCRIBE), AclResourceType.GROUP: (_A.READ,)}
    return _of_role(given, patterns, needs)


def _of_role(
    given: ParsedOptions,
    patterns: Iterable[AclFilter],
    needs: dict[AclResourceType, tuple[AclOperation, ...]],
) -> dict[AclFilter, list[Entry]]:
    return {
        pattern: _entries(given, needs[AclResourceType(pattern.resource_type)])
        for pattern in patterns
        if pattern.resource_type in needs
    }


def _operations(given: ParsedOptions) -> list[AclOperation]:
    known = {each.name.replace("_", "").lower(): each for each in AclOperation if each > AclOperation.ANY}
    found = []
    for text in given.texts("operation") or ("All",):
        operation = known.get(text.strip().replace("_", "").lower())
        if operation is None:
            refuse(f"--operation {text}: there are {', '.join(map(_title, known.values()))}")
        found.append(operation)
    return found


def _title(operation: AclOperation) -> str:
    return "".join(word.capitalize() for word in operation.name.split("_"))


def _entries(given: ParsedOptions, operations: Iterable[AclOperation]) -> list[Entry]:
    found = set()
    for word, permission in (("allow", PermissionType.ALLOW), ("deny", PermissionType.DENY)):
        hosts = given.texts(f"{word}-host") or (ANY_HOST,)
        for principal in given.texts(f"{word}-principal"):
            _check_principal(f"--{word}-principal", principal)
            who = principal.strip()
            found |= {Entry(who, host.strip(), each, permission) for host in hosts for each in operations}
    return sorted(found)


def _check_principal(name: str, text: str) -> None:
    kind, colon, principal = text.strip().partition(":")
    if not kind or not colon or not principal:
        refuse(f"{name} {text}: Type:name is expected, User:alice for one")


def _check_operations(kind: AclResourceType, wanted: Iterable[Entry]) -> None:
    possible = {*SUPPORTED[kind], AclOperation.ALL}
    if not possible.issuperset(each.operation for each in wanted):
        names = ", ".join(sorted(each.name for each in possible))
        refuse(f"ResourceType {kind.name} only supports operations {names}")


# ---- the actions


def list_entries(
    client: AdminClient, out: Output, patterns: Sequence[AclFilter], principals: Sequence[str]
) -> None:
    """--list"""
    found = sorted({acl for pattern in patterns or (EVERYTHING,) for acl in describe_acls(client, pattern)})
    for acl in found:
        if not principals or acl.entry.principal in principals:
            out.row(_row(acl))
    if not principals:
        _show(out, found)
    for principal in principals:
        out.line(f"ACLs for principal `{principal}`")
        _show(out, [acl for acl in found if acl.entry.principal == principal])


def _show(out: Output, found: Sequence[Acl]) -> None:
    if out.is_terminal:
        heads = ("Resource", "Name", "Pattern", "Principal", "Host", "Operation", "Permission")
        out.table(heads, [_row(acl) for acl in found])
        return
    for pattern, wanted in _by_pattern(found).items():
        out.line(f"Current ACLs for resource `{_pattern_text(pattern)}`:")
        for entry in wanted:
            out.line(f"\t{_entry_text(entry)}")
        out.line()


def add(client: AdminClient, out: Output, wanted: dict[AclFilter, list[Entry]]) -> None:
    """--add"""
    for resource, each in wanted.items():
        pattern = Pattern(resource.resource_type, resource.name or "", resource.pattern_type)
        out.line(f"Adding ACLs for resource `{_pattern_text(pattern)}`:")
        for entry in each:
            out.line(f"\t{_entry_text(entry)}")
        out.line()
        new = [Acl(pattern, entry) for entry in each]
        create_acls(client, new)
        for acl in new:
            out.row(_row(acl))


def remove(
    client: AdminClient, out: Output, wanted: dict[AclFilter, list[Entry]], *, is_forced: bool
) -> None:
    """--remove"""
    for resource, each in wanted.items():
        what = "all ACLs" if not each else "ACLs " + ", ".join(map(_entry_text, each))
        name = f"{name_of(AclResourceType, resource.resource_type)} {resource.name}"
        if not is_forced and not click.confirm(f"Remove {what} of {name}?", err=True):
            raise AdminError(f"removal from {name} was not confirmed")
        filters = [resource.of(entry) for entry in each] or [resource]
        for acl in delete_acls(client, filters):
            out.row(_row(acl))


def _by_pattern(found: Iterable[Acl]) -> dict[Pattern, list[Entry]]:
    grouped: dict[Pattern, list[Entry]] = {}
    for acl in found:
        grouped.setdefault(acl.pattern, []).append(acl.entry)
    return grouped


def _row(acl: Acl) -> AclRow:
    return AclRow(
        name_of(AclResourceType, acl.pattern.resource_type),
        acl.pattern.name,
        name_of(PatternType, acl.pattern.pattern_type),
        acl.entry.principal,
        acl.entry.host,
        name_of(AclOperation, acl.entry.operation),
        name_of(PermissionType, acl.entry.permission),
    )


def _pattern_text(pattern: Pattern) -> str:
    """As Kafka prints it."""
    kind, how = name_of(AclResourceType, pattern.resource_type), name_of(PatternType, pattern.pattern_type)
    return f"ResourcePattern(resourceType={kind}, name={pattern.name}, patternType={how})"


def _entry_text(entry: Entry) -> str:
    operation, permission = name_of(AclOperation, entry.operation), name_of(PermissionType, entry.permission)
    who = f"principal={entry.principal}, host={entry.host}"
    return f"({who}, operation={operation}, permissionType={permission})"

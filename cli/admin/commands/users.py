"""`barnabas users`: the SCRAM credentials that kafka-configs keeps under users."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import click

from barnabas.cli.admin.calls.scram import (
    NewCredential,
    OldCredential,
    ScramUser,
    alter_users,
    describe_users,
)
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.commands.config_report import known_users, user_row
from barnabas.cli.admin.config_values import check_iterations
from barnabas.cli.admin.errors import AdminError, BadFileError
from barnabas.cli.admin.names import scram_mechanism, scram_name
from barnabas.cli.admin.options import (
    FILE,
    ParsedOptions,
    admin_command,
    flag,
    option,
    options,
    refuse,
    session,
)
from barnabas.cli.admin.output import Output
from barnabas.protocol.messages.security import MIN_ITERATIONS, ScramMechanism

MECHANISMS: Final = tuple(each.label for each in ScramMechanism if each)


@admin_command("users", short_help="List, add, change and delete users with SCRAM credentials.")
@flag("--list", "List the names of all users, one a line.")
@flag("--describe", "Show users with their mechanisms: those named, or all.")
@flag("--alter", "Set the password of a user for a mechanism; creates the user if needed.")
@flag("--delete", "Delete the credentials of users: for one mechanism, or all.")
@options("--user", "The user's name; with --describe and --delete it may be repeated.")
@option(
    "--mechanism",
    f"{' or '.join(MECHANISMS)}. Default with --alter: {MECHANISMS[0]}; with --delete: all mechanisms of the user.",
)
@option("--iterations", f"Iterations of the hash. Default: {MIN_ITERATIONS}, the minimum.", kind=int)
@option("--password", "The password, visible to other users while the command runs. Default: a prompt.")
@option("--password-file", "A file whose first line is the password.", kind=FILE, metavar="FILE")
def users(given: ParsedOptions) -> None:
    """List, add, change and delete users with SCRAM credentials: what kafka-configs does for users.

    \b
    barnabas users --alter --user alice --mechanism SCRAM-SHA-512
    barnabas users --describe
    """
    action = given.one_action("list", "describe", "alter", "delete")
    check_usage(given, action)
    mechanism = _mechanism(given)
    credential = _credential(given, mechanism) if action == "alter" else None
    with session(given) as (client, out):
        if credential is not None:
            alter_users(client, [credential])
            out.line(f"User {credential.user} can authenticate with {credential.mechanism.label}.")
            out.result("user", credential.user, "alter", message=credential.mechanism.label)
        elif action == "delete":
            delete(client, out, given.texts("user"), mechanism)
        else:
            found = known_users(describe_users(client, given.texts("user") or None))
            _report_missing(out, given.texts("user"), found)
            show(out, found, names_only=action == "list")


def check_usage(given: ParsedOptions, action: str) -> None:
    """Raises UsageError for options that exclude each other."""
    given.forbid("list", "user")
    given.only_with("mechanism", "alter", "delete")
    for name in ("iterations", "password", "password-file"):
        given.only_with(name, "alter")
    given.forbid("password", "password-file")
    if action in {"alter", "delete"}:
        given.need("user")
    if action == "alter" and len(given.texts("user")) > 1:
        refuse("--alter is for one user at a time")


def _mechanism(given: ParsedOptions) -> ScramMechanism | None:
    text = given.text("mechanism")
    if text is None:
        return None
    found = scram_mechanism(text.upper())
    if found is None:
        refuse(f"--mechanism {text}: there are {' and '.join(MECHANISMS)}")
    return found


def _credential(given: ParsedOptions, mechanism: ScramMechanism | None) -> NewCredential:
    mechanism = mechanism or ScramMechanism.SCRAM_SHA_256
    iterations = given.number("iterations")
    iterations = MIN_ITERATIONS if iterations is None else iterations
    try:
        check_iterations(mechanism, iterations)
    except ValueError as error:
        refuse(f"--iterations: {error}")
    return NewCredential(given.texts("user")[0], mechanism, iterations, _password(given))


def _password(given: ParsedOptions) -> str:
    file = given.path("password-file")
    password = given.text("password")
    if file is not None:
        password = _first_line(file)
    elif password is None:
        if not sys.stdin.isatty():
            refuse("--alter needs --password or --password-file without a terminal")
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    if not password:
        refuse("the password is empty")
    return password


def _first_line(file: Path) -> str:
    try:
        return file.read_text().split("\n", 1)[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise BadFileError(f"{file} cannot be read: {error}") from None


def delete(
    client: AdminClient, out: Output, names: tuple[str, ...], mechanism: ScramMechanism | None
) -> None:
    """--delete: one credential after the other, since a request may name a user only once."""
    found = {user.name: user for user in known_users(describe_users(client, names))}
    _report_missing(out, names, list(found.values()))
    for name, user in found.items():
        there = [ScramMechanism(each.mechanism) for each in user.credentials]
        for each in there if mechanism is None else [mechanism]:
            alter_users(client, [], [OldCredential(name, each)])
            out.line(f"User {name} can no longer authenticate with {each.label}.")
            out.result("user", name, "delete", message=each.label)


def _report_missing(out: Output, names: tuple[str, ...], found: list[ScramUser]) -> None:
    there = {user.name for user in found}
    for name in names:
        if name not in there:
            out.failed(str(AdminError(f"no user {name!r} has SCRAM credentials")))


def show(out: Output, found: list[ScramUser], *, names_only: bool) -> None:
    """Prints names, or a table of credentials."""
    for user in found:
        out.row(user_row(user))
        if names_only:
            out.line(user.name)
    rows = [
        (user.name, scram_name(each.mechanism), each.iterations)
        for user in found
        for each in user.credentials
    ]
    if rows and not names_only:
        out.table(("USER", "MECHANISM", "ITERATIONS"), rows)

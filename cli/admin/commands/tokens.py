"""`barnabas tokens`: kafka-delegation-tokens."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from barnabas.cli.admin.calls.tokens import (
    Principal,
    Token,
    create_token,
    describe_tokens,
    expire_token,
    renew_token,
)
from barnabas.cli.admin.errors import BadFileError
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
from barnabas.cli.admin.shapes import TokenRow

OF_BROKER: Final = -1
"""A period that is left to the broker's configuration."""

_HEADS: Final = (
    "TOKENID",
    "HMAC",
    "OWNER",
    "REQUESTER",
    "RENEWERS",
    "ISSUEDATE",
    "EXPIRYDATE",
    "MAXDATE",
)


@admin_command("tokens", short_help="List, create, renew and expire delegation tokens.")
@flag("--list", "List the ids of tokens, one a line.")
@flag("--describe", "Show tokens with their secrets: those of --owner-principal, or all that you may see.")
@flag("--create", "Create a token.")
@flag("--renew", "Move the expiry of a token on.")
@flag("--expire", "Remove a token, or change its expiry.")
@options(
    "--owner-principal",
    "The owner, as Type:name. Default with --create: yourself. With --list and --describe an owner or renewer; may be "
    "repeated.",
    metavar="PRINCIPAL",
)
@options("--renewer-principal", "With --create: who else may renew and expire it.", metavar="PRINCIPAL")
@option(
    "--max-life-time-period",
    "Milliseconds after which it cannot be renewed. Default: -1, delegation.token.max.lifetime.ms of the broker.",
    kind=int,
    metavar="MS",
)
@option(
    "--renew-time-period",
    "Milliseconds from now. Default: -1, delegation.token.expiry.time.ms of the broker.",
    kind=int,
    metavar="MS",
)
@option(
    "--expiry-time-period", "Milliseconds from now. Default: -1, which removes it.", kind=int, metavar="MS"
)
@option("--hmac", "The secret of the token, visible to other users while the command runs.")
@option("--hmac-file", "A file whose first line is the secret of the token.", kind=FILE, metavar="FILE")
def tokens(given: ParsedOptions) -> None:
    """List, create, renew and expire delegation tokens: kafka-delegation-tokens.

    \b
    barnabas tokens --create --renewer-principal User:bob --command-config alice.properties
    barnabas tokens --expire --hmac-file token.txt --command-config alice.properties
    """
    action = given.one_action("list", "describe", "create", "renew", "expire")
    check_usage(given, action)
    owners = _principals(given, "owner-principal")
    renewers = _principals(given, "renewer-principal")
    hmac = _hmac(given) if action in {"renew", "expire"} else b""
    with session(given) as (client, out):
        if action == "create":
            lifetime_ms = _period(given, "max-life-time-period")
            token = create_token(client, renewers, owners[0] if owners else None, lifetime_ms)
            out.line(f"Created delegation token with tokenId : {token.token_id}")
            show(out, [token])
        elif action == "renew":
            _changed(out, "renew", renew_token(client, hmac, _period(given, "renew-time-period")))
        elif action == "expire":
            _changed(out, "expire", expire_token(client, hmac, _period(given, "expiry-time-period")))
        else:
            found = describe_tokens(client, owners)
            show(out, found, names_only=action == "list")


def check_usage(given: ParsedOptions, action: str) -> None:
    """Raises UsageError for options that exclude each other."""
    given.only_with("owner-principal", "list", "describe", "create")
    given.only_with("renewer-principal", "create")
    given.only_with("max-life-time-period", "create")
    given.only_with("renew-time-period", "renew")
    given.only_with("expiry-time-period", "expire")
    for name in ("hmac", "hmac-file"):
        given.only_with(name, "renew", "expire")
    given.forbid("hmac", "hmac-file")
    if action in {"renew", "expire"} and not given.has("hmac-file"):
        given.need("hmac")
    if action == "create" and len(given.texts("owner-principal")) > 1:
        refuse("--create is for one owner at a time")


def _principals(given: ParsedOptions, name: str) -> list[Principal]:
    found = []
    for text in given.texts(name):
        kind, colon, user = text.strip().partition(":")
        if not (kind and colon and user):
            refuse(f"--{name} {text}: a principal is Type:name, for example User:{text}")
        found.append(Principal(kind, user))
    return found


def _period(given: ParsedOptions, name: str) -> int:
    period = given.number(name)
    return OF_BROKER if period is None else period


def _hmac(given: ParsedOptions) -> bytes:
    """The secret, which no message repeats."""
    file = given.path("hmac-file")
    text = given.text("hmac") or ""
    if file is not None:
        text = _first_line(file)
    try:
        return base64.b64decode(text.strip(), validate=True)
    except ValueError:
        refuse(f"--{'hmac' if file is None else 'hmac-file'} has to be the secret in base 64")


def _first_line(file: Path) -> str:
    try:
        return file.read_text().partition("\n")[0]
    except (OSError, UnicodeDecodeError) as error:
        raise BadFileError(f"{file} cannot be read: {error}") from None


def _changed(out: Output, action: str, expiry_ms: int) -> None:
    date = _date(expiry_ms)
    out.line(f"Completed {action} operation. New expiry date : {date}")
    out.result("token", "", action, message=date)


def show(out: Output, found: Sequence[Token], *, names_only: bool = False) -> None:
    """Prints ids, or a table with everything."""
    for token in found:
        out.row(_row(token, with_secret=not names_only))
        if names_only:
            out.line(token.token_id)
    rows = [
        (
            token.token_id,
            base64.b64encode(token.hmac).decode(),
            token.owner,
            token.requester,
            list(token.renewers),
            _date(token.issue_timestamp_ms),
            _date(token.expiry_timestamp_ms),
            _date(token.max_timestamp_ms),
        )
        for token in found
    ]
    if rows and not names_only:
        out.table(_HEADS, rows)


def _row(token: Token, *, with_secret: bool) -> TokenRow:
    return TokenRow(
        token.token_id,
        base64.b64encode(token.hmac).decode() if with_secret else None,
        str(token.owner),
        None if token.requester is None else str(token.requester),
        [str(renewer) for renewer in token.renewers],
        token.issue_timestamp_ms,
        token.expiry_timestamp_ms,
        token.max_timestamp_ms,
    )


def _date(moment_ms: int) -> str:
    """In local time, to the minute, as Kafka's tool has it; a moment that no calendar reaches as milliseconds."""
    try:
        return datetime.fromtimestamp(moment_ms / 1000).strftime("%Y-%m-%dT%H:%M")  # noqa: DTZ006  # local
    except (OverflowError, ValueError, OSError):
        return str(moment_ms)

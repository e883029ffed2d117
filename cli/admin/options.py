"""The base of all admin commands: declaration and checks of options, the connection, errors and exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import click

from barnabas.broker.version import VERSION
from barnabas.cli.admin.client import AdminClient
from barnabas.cli.admin.errors import AdminError
from barnabas.cli.admin.output import Output
from barnabas.cli.admin.settings import DEFAULT_BOOTSTRAP, load_settings, parse_bootstrap
from barnabas.cli.exit_codes import EXIT_FAILED

BOOTSTRAP_VARIABLE: Final = "BARNABAS_BOOTSTRAP_SERVER"
EXIT_CODES: Final = """\b
Exit codes:
  0  done
  1  a broker cannot be reached or returns an error, or a part failed
  2  the command line is wrong
"""

F = TypeVar("F", bound=Callable[..., Any])


class AdminCommand(click.Command):
    """A command that prints an AdminError and exits with EXIT_FAILED."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except AdminError as error:
            click.echo(click.style("error: ", fg="red") + str(error), err=True)
            sys.exit(EXIT_FAILED)


def admin_command(
    name: str, *, short_help: str, controller: bool = False, cls: type[AdminCommand] = AdminCommand
) -> Callable[[Callable[[ParsedOptions], None]], click.Command]:
    """Declares a command with the options of the connection; its docstring is the help, to which the exit codes are
    added.
    """

    def declare(function: Callable[[ParsedOptions], None]) -> click.Command:
        text = f"{(function.__doc__ or '').rstrip()}\n\n{EXIT_CODES}"
        wrapped = click.command(name, cls=cls, short_help=short_help, help=_dedented(text))
        return wrapped(connection_options(controller=controller)(_with_given(function)))

    return declare


def admin_group(
    name: str, *, short_help: str, controller: bool = True
) -> Callable[[Callable[..., Any]], click.Group]:
    """Declares a command with commands below it; the connection may be given before or after the second word."""

    def declare(function: Callable[..., Any]) -> click.Group:
        def remember(**values: Any) -> None:
            click.get_current_context().obj = values

        text = f"{(function.__doc__ or '').rstrip()}\n\n{EXIT_CODES}"
        group = click.group(name, short_help=short_help, help=_dedented(text))(remember)
        return connection_options(controller=controller)(group)

    return declare


def subcommand(
    group: click.Group, name: str, *, controller: bool = True
) -> Callable[[Callable[[ParsedOptions], None]], click.Command]:
    """Declares a command of an admin_group."""

    def declare(function: Callable[[ParsedOptions], None]) -> click.Command:
        command = group.command(name, cls=AdminCommand)
        return command(connection_options(controller=controller)(_with_given(function)))

    return declare


def _with_given(function: Callable[[ParsedOptions], None]) -> Callable[..., None]:
    """Passes the options of a command, and those that were given to its group only."""

    @wraps(function)
    def run(**values: Any) -> None:
        above: Mapping[str, Any] = click.get_current_context().obj or {}
        function(ParsedOptions({name: value or above.get(name, value) for name, value in values.items()}))

    return run


def _dedented(text: str) -> str:
    return "\n".join(line.removeprefix("    ") for line in text.splitlines())


# ---- declaring options


def option(name: str, help_text: str, *, kind: Any = str, metavar: str | None = None) -> Callable[[F], F]:
    """An option with a value that may be given once."""
    return click.option(
        name, type=kind, metavar=metavar, multiple=True, callback=_once, help=help_text, expose_value=True
    )


def options(name: str, help_text: str, *, metavar: str | None = None) -> Callable[[F], F]:
    """An option with a value that may be repeated."""
    return click.option(name, metavar=metavar, multiple=True, help=help_text)


def optional(name: str, help_text: str, *, metavar: str) -> Callable[[F], F]:
    """An option whose value may be omitted: it is "" then, and None if the option is absent."""
    return click.option(
        name, is_flag=False, flag_value="", default=None, metavar=f"[{metavar}]", help=help_text
    )


def flag(name: str, help_text: str) -> Callable[[F], F]:
    """An option without a value."""
    return click.option(name, is_flag=True, help=help_text)


def _once(ctx: click.Context, parameter: click.Parameter, values: tuple[Any, ...]) -> Any:
    if len(values) > 1:
        raise click.UsageError(
            f"{parameter.opts[0]} is given {len(values)} times, and can be given once", ctx
        )
    return values[0] if values else None


def connection_options(*, controller: bool = False) -> Callable[[F], F]:
    """The options of every command: the cluster's address, client properties, output format."""

    def declare(function: F) -> F:
        function = click.version_option(VERSION, message="barnabas %(version)s", help="Show the version.")(
            function
        )
        function = flag("--json", "Print JSON, one object a line: see docs/cli.md.")(function)
        function = option("--command-config", "A file of client properties.", kind=FILE, metavar="FILE")(
            function
        )
        if controller:
            function = option(
                "--bootstrap-controller",
                "The KRaft controllers to connect to, instead.",
                metavar="HOST:PORT,...",
            )(function)
        return option(
            "--bootstrap-server",
            f"The brokers to connect to. Default: {BOOTSTRAP_VARIABLE}, else {DEFAULT_BOOTSTRAP}.",
            metavar="HOST:PORT,...",
        )(function)

    return declare


FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
"""The type of an option that names a file to read."""


# ---- parsed options


class ParsedOptions:
    """The options of one command line by name, without the leading dashes."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name.replace("_", "-"): value for name, value in values.items()}

    def __contains__(self, name: str) -> bool:
        """Whether the command declares this option."""
        return name in self._values

    def has(self, name: str) -> bool:
        """Whether it was given."""
        value = self._values[name]
        return value is not None and value is not False and value != ()

    def text(self, name: str) -> str | None:
        """The value of an option that may be given once."""
        value: str | None = self._values[name]
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """The values of an option that may be repeated."""
        values: tuple[str, ...] = self._values[name]
        return values

    def number(self, name: str) -> int | None:
        """The value of an option with a number."""
        value: int | None = self._values[name]
        return value

    def path(self, name: str) -> Path | None:
        """The value of an option with a file."""
        value: Path | None = self._values[name]
        return value

    def one_action(self, *names: str) -> str:
        """The one of these that was given. Raises UsageError unless exactly one was."""
        found = [name for name in names if self.has(name)]
        if len(found) != 1:
            refuse(f"Exactly one of {', '.join(_dashed(names))} is needed")
        return found[0]

    def need(self, *names: str) -> None:
        """Raises UsageError if one of these is missing."""
        for name in names:
            if not self.has(name):
                refuse(f"{_dash(name)} is missing")

    def forbid(self, name: str, *others: str, why: str = "") -> None:
        """Raises UsageError if `name` is combined with one of the others."""
        for other in others:
            if self.has(name) and self.has(other):
                refuse(f"{_dash(name)} cannot be used with {_dash(other)}{why}")

    def only_with(self, name: str, *others: str) -> None:
        """Raises UsageError if `name` is given without any of the others."""
        if self.has(name) and not any(map(self.has, others)):
            refuse(f"{_dash(name)} can only be used with {' or '.join(_dashed(others))}")


def refuse(reason: str) -> NoReturn:
    """Raises UsageError."""
    raise click.UsageError(reason)


def _dash(name: str) -> str:
    return f"--{name}"


def _dashed(names: Iterable[str]) -> list[str]:
    return [_dash(name) for name in names]


# ---- a running command


def _check_servers(name: str, text: str | None) -> None:
    try:
        if text is not None:
            parse_bootstrap(text)
    except ValueError as error:
        refuse(f"{_dash(name)}: {error}")


@contextmanager
def session(given: ParsedOptions, *, timeout_ms: int | None = None) -> Iterator[tuple[AdminClient, Output]]:
    """The client and the output of a command. Exits with EXIT_FAILED at the end if a part failed."""
    out = Output.standard(as_json=given.has("json"))
    controller = given.text("bootstrap-controller") if "bootstrap-controller" in given else None
    if controller is not None and given.has("bootstrap-server"):
        refuse("--bootstrap-controller cannot be used with --bootstrap-server")
    for name, text in (
        ("bootstrap-server", given.text("bootstrap-server")),
        ("bootstrap-controller", controller),
    ):
        _check_servers(name, text)
    settings = load_settings(
        server=given.text("bootstrap-server"),
        controller=controller,
        file=given.path("command-config"),
        default=os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP,
        warn=lambda text: out.note(f"warning: {text}"),
    )
    if timeout_ms is not None:
        settings = settings._replace(
            default_api_timeout_ms=timeout_ms, request_timeout_ms=min(timeout_ms, settings.request_timeout_ms)
        )
    with AdminClient(settings, on_wait=out.note) as client:
        yield client, out
    if out.has_failed:
        sys.exit(EXIT_FAILED)

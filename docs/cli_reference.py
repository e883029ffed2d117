"""Renders docs/cli.md from the commands: the options of each, and the objects that --json prints."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib import import_module
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

import click

from barnabas.cli.admin.options import BOOTSTRAP_VARIABLE
from barnabas.cli.admin.settings import DEFAULT_BOOTSTRAP, KNOWN_KEYS
from barnabas.cli.admin.shapes import ROWS, camel_case, type_name
from barnabas.cli.main import LAZY_COMMANDS

ADMIN_PACKAGE: Final = "barnabas.cli.admin."
WIRE_COMMAND: Final = LAZY_COMMANDS["wire"]
_COMMON: Final = frozenset(
    {"--bootstrap-server", "--bootstrap-controller", "--command-config", "--json", "--version"}
)
_KEYS: Final = ", ".join(f"`{key}`" for key in KNOWN_KEYS)
_INTRODUCTION: Final = f"""\
# Administration from the command line

Written by `make docs` from the commands themselves. They speak Kafka's own protocol, so they work on Barnabas and
on Apache Kafka (3.0 and later) alike, and need no Java. Names of flags, what they mean, and what is refused are
those of Kafka's tools.

`barnabas pipeline`, Spark jobs over topics and log directories, is in [pipeline.md](pipeline.md#the-commands).

## What all of them have in common

`--bootstrap-server HOST:PORT,...` names the brokers to connect to: one is enough, the first that answers is asked
for the others. Without it `{BOOTSTRAP_VARIABLE}` in the environment says where, and else `{
    DEFAULT_BOOTSTRAP
}` is
meant. Commands that Kafka's controllers can answer take `--bootstrap-controller` in its place.

`--command-config FILE` is a file of client properties. These do something: {
    ", ".join(f"`{key}`" for key in KNOWN_KEYS)
}. Any other is told with a warning. `security.protocol` has to be PLAINTEXT as yet: TLS and SASL come in
a later release.

A broker that does not answer is asked again until `default.api.timeout.ms` (60 s) are over, as Kafka's tools do;
the reason is told within a second, and Ctrl-C ends it. Where several brokers have a part of the answer, the others
give theirs all the same, and what is missing is an error: `get-offsets`, `delete-records` and `groups --describe` name
the partitions that the broker leads, `log-dirs --describe`, `groups --list`, `transactions list` and
`transactions find-hanging` the broker.

Results are tables on a terminal. In a pipe they are lines: Kafka's own where its tools print such that programs
read (`topics`, `configs`, `acls`, `features`, `get-offsets`, `reassign-partitions`, `metadata-quorum describe
--status`), otherwise columns under heads, with `-` where there is nothing. With `--json` they are objects, one a
line: see [below](#json). Warnings, errors and progress go to the other stream.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | a broker cannot be reached or says no, something that was named is not there, or a part could not be done |
| 2 | the command line is wrong; no broker was asked to change anything |

## Where they differ from Kafka's tools

- Wrong command lines end with 2, not 1. `groups` and `delete-records` end with 1 where something failed;
  `kafka-consumer-groups` and `kafka-delete-records` say so and end with 0. The same with `configs --describe` of
  something that is not there, and with `get-offsets` where an offset cannot be found out.
- `groups` takes the flags of `kafka-consumer-groups` and those of `kafka-groups`. One group that fails does not
  keep `--describe` from showing the others.
- `log-dirs` prints a table; the JSON that `kafka-log-dirs` prints is under `partitions` with `--json`.
- `log-dirs --describe`, `groups --list` and `transactions list` show what there is of the other brokers where one does
  not answer, and end with 1; Kafka's tools show nothing then. `kafka-get-offsets` shows the others and ends with 0.
- `acls` keeps entries in order. `acls --remove` asks once for each resource, with `[y/N]`.
- `reassign-partitions --generate` does not spread replicas over racks: where brokers have them, it wants
  `--disable-rack-aware`.
- Regular expressions for topics are Python's, which differ from Java's in what hardly anybody uses
  (`\\p{{Lower}}`).
- `features` has no `version-mapping` and `feature-dependencies`: `barnabas storage` has them. `metadata-quorum` has
  no `add-controller` and `remove-controller`.
- `transactions force-terminate --transactional-id` is `forceTerminateTransaction --transactionalId`; of an id that
  nobody has used it says so, where Kafka's tool makes one. `describe-producers` of a partition that is not there
  says so at once. The newer `list` filters need a broker that knows them.
- `quotas` and `users` have no counterpart: they show and change what `configs` does for users, clients and ips.

## The commands
"""

_WIRE: Final = """\
## Messages on the wire

`wire show` and `wire decode` ask no broker. `show` prints what a message consists of in one version; `decode` reads
requests and responses, for instance out of a capture of tcpdump, and prints every field with its offset. Where
bytes do not fit, the line says `WRONG`, where in the message that is, what was expected and what was found, with
the bytes around it.

With `--json`, `show` prints one object with `fields`, `tagged_fields` and `absent_fields`; `decode` prints an
object a frame with `direction`, `api`, `api_key`, `version`, `correlation_id`, `offset`, `size`, `connection`,
`time`, `note`, `header`, `body` and `wrong`, a list of objects with `offset`, `path`, `expected`, `found`, `hex`
and `hex_offset`. Bytes are hex, UUIDs as Kafka prints them; a value that could not be read is left out.
"""


def render() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for name, place in LAZY_COMMANDS.items():
        if place.startswith(ADMIN_PACKAGE):
            parts.append(render_command(name, _command(place)))
    parts.append("## JSON\n\nOne object a line. `type` says which; the others are always there.\n")
    parts += [_shape(row) for row in ROWS]
    parts.append(_WIRE)
    parts.append(render_command("wire", _command(WIRE_COMMAND), left_out=()))
    return "\n".join(parts)


def _command(place: str) -> click.Command:
    module, _, attribute = place.partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    return command


def commands() -> dict[str, click.Command]:
    """All admin commands by name, those below others as `cluster unregister`."""
    found: dict[str, click.Command] = {}
    for name, place in LAZY_COMMANDS.items():
        if place.startswith(ADMIN_PACKAGE):
            found[name] = command = _command(place)
            if isinstance(command, click.Group):
                found |= {f"{name} {below}": each for below, each in command.commands.items()}
    return found


def render_command(name: str, command: click.Command, left_out: Collection[str] = _COMMON) -> str:
    """A command's section: what it does, examples, options but for some."""
    description, examples = _help(command)
    text = f"### barnabas {name}\n\n{description}\n"
    if examples:
        text += "\n```sh\n" + "\n".join(examples) + "\n```\n"
    if isinstance(command, click.Group):
        for below, each in command.commands.items():
            text += f"\n#### barnabas {name} {below}\n\n{_help(each)[0]}\n{_options(each, left_out)}"
        return text
    return text + _options(command, left_out)


def _help(command: click.Command) -> tuple[str, list[str]]:
    """The description in one paragraph, and the lines that show how it is used."""
    paragraphs = [part.strip() for part in (command.help or "").split("\n\n")]
    plain = [" ".join(part.split()) for part in paragraphs if not part.startswith("\b")]
    marked = [part.removeprefix("\b").strip() for part in paragraphs if part.startswith("\b")]
    examples = [line.strip() for part in marked if part.startswith("barnabas") for line in part.splitlines()]
    return "\n\n".join(plain), examples


def _options(command: click.Command, left_out: Collection[str]) -> str:
    rows = list(_rows(command, left_out))
    if not rows:
        return ""
    return "\n| option | |\n| --- | --- |\n" + "".join(f"| {name} | {text} |\n" for name, text in rows)


def _rows(command: click.Command, left_out: Collection[str]) -> Iterator[tuple[str, str]]:
    for each in command.params:
        if isinstance(each, click.Option) and each.opts[0] not in left_out:
            metavar = "" if each.is_flag else f" {each.metavar or _kind_of_value(each.type)}"
            yield f"`{each.opts[0]}{metavar}`", _cell(_with_default(each))
    if any("--bootstrap-controller" in each.opts for each in command.params):
        yield "`--bootstrap-controller HOST:PORT,...`", "The KRaft controllers to connect to, instead."


def _kind_of_value(kind: click.ParamType[Any]) -> str:
    return "\\|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else kind.name.upper()


def _with_default(option: click.Option) -> str:
    """Its help, and the default where the help of the command shows one."""
    return f"{option.help or ''}{f' Default: {option.default}.' if option.show_default else ''}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _shape(row: type[Any]) -> str:
    lines = [f"### {type_name(row)}\n", f"{row.__doc__}\n", "| field | | |\n| --- | --- | --- |"]
    for name, hint in get_type_hints(row, include_extras=True).items():
        kind, text = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, "")
        lines.append(f"| {camel_case(name)} | {_kind(kind)} | {_cell(text)} |")
    return "\n".join(lines) + "\n"


def _kind(hint: Any) -> str:
    """The type as JSON has it."""
    parts = get_args(hint) if type(None) in get_args(hint) else (hint,)
    names = {
        str: "string",
        int: "number",
        float: "number",
        bool: "true or false",
        list: "array",
        dict: "object",
    }
    known = [names[get_origin(part) or part] for part in parts if part is not type(None)]
    return " or ".join(known + ["null"] * (len(parts) > 1))

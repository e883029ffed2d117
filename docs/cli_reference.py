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

Written by `make docs` from the commands themselves. They use Kafka's own protocol, so they work with Barnabas
and with Apache Kafka (3.0 and later), and need no Java. The flags, their meaning and their checks are those of Kafka's
tools.

`barnabas pipeline`, Spark jobs over topics and log directories, is in [pipeline.md](pipeline.md#the-commands).

## Common options

`--bootstrap-server HOST:PORT,...` names the brokers to connect to: one is enough, the first that answers returns
the others. The default is `{BOOTSTRAP_VARIABLE}` in the environment, or else `{DEFAULT_BOOTSTRAP}`.
Commands that Kafka's controllers can answer take `--bootstrap-controller` in its place.

`--command-config FILE` is a file of client properties. These have an effect: {
    ", ".join(f"`{key}`" for key in KNOWN_KEYS)
}. Any other causes a warning. [security.md](security.md) says what the `ssl.` ones mean; of SASL mechanisms there are
PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, GSSAPI and OAUTHBEARER. Where a certificate, a mechanism or a password is not
accepted the command says which, and ends at once.

A request is retried until `default.api.timeout.ms` (60 s) are over, as in Kafka's tools; the reason is printed within
a second, and Ctrl-C ends it. If one of several brokers does not answer, the results of the others are printed, and the
missing part is an error: `get-offsets`, `delete-records` and `groups --describe` name the partitions that the broker
leads, `log-dirs --describe`, `groups --list`, `transactions list` and `transactions find-hanging` the broker.

Results are tables on a terminal. In a pipe they are lines: Kafka's own where programs read the output of
its tools (`topics`, `configs`, `acls`, `features`, `get-offsets`, `reassign-partitions`, `metadata-quorum describe
--status`), otherwise columns with headings, and `-` for absent values. With `--json` they are objects, one a
line: see [below](#json). Warnings, errors and progress go to standard error.

| exit code | meaning |
| --- | --- |
| 0 | done |
| 1 | a broker cannot be reached or returns an error, a named resource does not exist, or a part failed |
| 2 | the command line is wrong; no change was requested |

## Where they differ from Kafka's tools

- Wrong command lines end with 2, not 1. `groups` and `delete-records` end with 1 where something failed;
  `kafka-consumer-groups` and `kafka-delete-records` print the error and end with 0. The same holds for
  `configs --describe` of a missing resource, and for `get-offsets` without one of the offsets.
- `groups` takes the flags of `kafka-consumer-groups` and those of `kafka-groups`. `--describe` shows the other
  groups if one fails.
- `log-dirs` prints a table; the JSON that `kafka-log-dirs` prints is under `partitions` with `--json`.
- `log-dirs --describe`, `groups --list` and `transactions list` show the results of the other brokers if one does not
  answer, and end with 1; Kafka's tools show nothing then. `kafka-get-offsets` shows the others and ends with 0.
- `acls` keeps entries in order. `acls --remove` asks for confirmation once for each resource, with `[y/N]`.
- `reassign-partitions --generate` does not spread replicas over racks: if brokers have racks, it needs
  `--disable-rack-aware`.
- Regular expressions for topics are Python's, which differ from Java's in rare cases (`\\p{{Lower}}`).
- `features` has no `version-mapping` and `feature-dependencies`: `barnabas storage` has them. `metadata-quorum` has
  no `add-controller` and `remove-controller`.
- `transactions force-terminate --transactional-id` is `forceTerminateTransaction --transactionalId`; an unused
  id is an error, where Kafka's tool creates it. `describe-producers` of a missing partition fails at once. The newer
  `list` filters need a broker that supports them.
- `quotas` and `users` have no counterpart in Kafka: they show and change what `configs` does for users,
  clients and ips.

## The commands
"""

_WIRE: Final = """\
## Messages on the wire

`wire show` and `wire decode` need no broker. `show` prints the layout of a message in one version; `decode` reads
requests and responses, for instance from a capture of tcpdump, and prints every field with its offset. A line with
`WRONG` has the place of wrong bytes in the message, what was expected, what was found, and the bytes around it.

With `--json`, `show` prints one object with `fields`, `tagged_fields` and `absent_fields`; `decode` prints an
object a frame with `direction`, `api`, `api_key`, `version`, `correlation_id`, `offset`, `size`, `connection`,
`time`, `note`, `header`, `body` and `wrong`, a list of objects with `offset`, `path`, `expected`, `found`, `hex`
and `hex_offset`. Bytes are hex, UUIDs as Kafka prints them; a value that could not be decoded is left out.
"""


def render() -> str:
    """The whole page."""
    parts = [_INTRODUCTION]
    for name, place in LAZY_COMMANDS.items():
        if place.startswith(ADMIN_PACKAGE):
            parts.append(render_command(name, _command(place)))
    parts.append("## JSON\n\nOne object a line. `type` is its type; the other fields are always present.\n")
    parts += [_shape(row) for row in ROWS]
    parts.append(_WIRE)
    parts.append(render_command("wire", _command(WIRE_COMMAND), left_out=()))
    return "\n".join(parts)


def _command(place: str) -> click.Command:
    module, _, attribute = place.partition(":")
    command: click.Command = getattr(import_module(module), attribute)
    return command


def commands() -> dict[str, click.Command]:
    """All admin commands by name, subcommands as `cluster unregister`."""
    found: dict[str, click.Command] = {}
    for name, place in LAZY_COMMANDS.items():
        if place.startswith(ADMIN_PACKAGE):
            found[name] = command = _command(place)
            if isinstance(command, click.Group):
                found |= {f"{name} {below}": each for below, each in command.commands.items()}
    return found


def render_command(name: str, command: click.Command, left_out: Collection[str] = _COMMON) -> str:
    """A command's section: description, examples, and options without `left_out`."""
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
    """The description in one paragraph, and the lines of examples."""
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
    """Its help, and the default if the help of the command shows one."""
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
